//! What happens to items of reports for which a queue has no room: the parameters `whenFull` and `holdTimeout` of all adapters whose reports
//! fill queues.

use std::pin::Pin;

use futures_util::future::join_all;

use mixer_attribute::SignedDuration;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_delivery::{Dropped, HandedOver};
use mixer_engine::adapter::{HandlerError, Reply};

/// The default of `holdTimeout`.
pub(crate) const HOLD_TIMEOUT: SignedDuration = SignedDuration::from_secs(1);

mixer_config::message_enum! {
    /// What happens to items for which there is no room.
    pub enum WhenFull: "mixer.adapter.WhenFull" {
        /// They are dropped.
        0 "DROP_NEWEST" DropNewest;
        /// Those that waited longest are dropped for them.
        1 "DROP_OLDEST" DropOldest;
        /// Their report waits for room, at most for `holdTimeout`.
        2 "HOLD" Hold;
    }
}

impl WhenFull {
    /// The setting of a delivery. `limit`: how long a report waits for room.
    pub(crate) fn with(self, limit: SignedDuration) -> mixer_delivery::WhenFull {
        match self {
            Self::DropNewest => mixer_delivery::WhenFull::DropNewest,
            Self::DropOldest => mixer_delivery::WhenFull::DropOldest,
            Self::Hold => mixer_delivery::WhenFull::Hold(limit.to_std_or_zero()),
        }
    }
}

/// Reports a `holdTimeout` that cannot be.
pub(crate) fn validate(hold_timeout: SignedDuration, problems: &mut Diagnostics) {
    if hold_timeout < SignedDuration::ZERO {
        let path = FieldPath::root().field("holdTimeout");
        let text = "holdTimeout: Duration must be positive";
        problems.push(Diagnostic::error("adapter-config", path, text));
    }
}

/// Warns of a `spillDirectory` that depends on where the server is started, and of one that takes nothing.
pub(crate) fn validate_spill(directory: &str, megabytes: u32, problems: &mut Diagnostics) {
    if directory.is_empty() {
        return;
    }
    let mut warn = |field, text: &str, hint| {
        let problem = Diagnostic::warning("adapter-config", FieldPath::root().field(field), text);
        problems.push(problem.with_hint(hint));
    };
    if !std::path::Path::new(directory).is_absolute() {
        let text =
            "spillDirectory: the path is relative, so another working directory means another directory";
        warn("spillDirectory", text, "write an absolute path");
    }
    if megabytes == 0 {
        let text = "spillMegabytes: with 0 nothing is kept in the spillDirectory";
        warn("spillMegabytes", text, "write its size in MiB, or remove it: the default is 1024");
    }
}

/// The items of a report on their way into queues.
#[derive(Default)]
pub(crate) struct Handover {
    dropped: usize,
    waiting: Vec<Pin<Box<dyn Future<Output = Dropped> + Send>>>,
}

impl Handover {
    /// Adds what was handed over to a queue.
    pub(crate) fn add(&mut self, handed_over: HandedOver) {
        match handed_over {
            HandedOver::Now { dropped } => self.dropped += dropped,
            HandedOver::Later(waiting) => self.waiting.push(waiting),
        }
    }

    /// The reply to the report, once no item waits for room. `result` gets the number of items that were dropped; a report of which some
    /// waited when the server stopped fails.
    pub(crate) fn reply(
        self,
        result: impl FnOnce(usize) -> Result<(), HandlerError> + Send + 'static,
    ) -> Reply<()> {
        let Self { dropped, waiting } = self;
        if waiting.is_empty() {
            return Reply::Ready(result(dropped));
        }
        Reply::Later(Box::pin(async move {
            let later = join_all(waiting).await;
            let dropped = dropped + later.iter().map(|dropped| dropped.items).sum::<usize>();
            match later.iter().any(|dropped| dropped.is_stopping) {
                true => Err(HandlerError::of_stop(format!(
                    "the server stops: {dropped} items that waited for room are dropped"
                ))),
                false => result(dropped),
            }
        }))
    }
}

#[cfg(test)]
mod tests;
