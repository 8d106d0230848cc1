//! One built handler.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::Signature;
use crate::core::adapter::{
    BoundInstance, CheckResult, Generated, Handler, HandlerError, Instance, QuotaCall, QuotaResult, Reply,
    TaskSpawner,
};
use crate::core::snapshot::HandlerConfig;
use crate::core::template::Variety;

/// A handler that takes calls. Panics stay inside: they become errors of the one call.
pub struct LiveHandler {
    /// What it was built from. The position in its file may be that of an earlier version of the same text.
    pub config: Arc<HandlerConfig>,
    /// The instances that it knows, in name order; [`Instance::bound`] is an index into them.
    pub instances: Vec<BoundInstance>,
    signature: Signature,
    handler: Box<dyn Handler>,
    tasks: TaskSpawner,
}

impl std::fmt::Debug for LiveHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveHandler").field("name", &self.config.name).finish_non_exhaustive()
    }
}

impl LiveHandler {
    pub(super) fn new(
        config: Arc<HandlerConfig>,
        instances: Vec<BoundInstance>,
        signature: Signature,
        handler: Box<dyn Handler>,
        tasks: TaskSpawner,
    ) -> Self {
        Self { config, instances, signature, handler, tasks }
    }

    /// The name shown to users.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The name of its adapter.
    pub fn adapter(&self) -> &'static str {
        self.config.adapter.info().name
    }

    /// What it was built from, as one number.
    pub fn signature(&self) -> Signature {
        self.signature
    }

    /// Background tasks that have not ended.
    pub fn live_tasks(&self) -> usize {
        self.tasks.live()
    }

    /// Asks for a decision.
    pub fn check(&self, instance: &Instance<'_>) -> Reply<CheckResult> {
        contained(|| self.handler.as_check().map_or_else(|| unsupported("check"), |h| h.check(instance)))
    }

    /// Asks for quota.
    pub fn quota(&self, instance: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
        contained(|| {
            self.handler.as_quota().map_or_else(|| unsupported("quota"), |h| h.quota(instance, call))
        })
    }

    /// Reports.
    pub fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        contained(|| self.handler.as_report().map_or_else(|| unsupported("report"), |h| h.report(instances)))
    }

    /// Asks for attributes.
    pub fn generate(&self, instance: &Instance<'_>) -> Reply<Generated> {
        contained(|| {
            self.handler.as_generate().map_or_else(|| unsupported("attribute"), |h| h.generate(instance))
        })
    }

    /// Closes the handler, then ends its tasks. Returns what went wrong: the handler's own complaint, or tasks that stayed.
    pub(super) async fn close(&self, deadline: Duration) -> Result<(), String> {
        let closing = AssertUnwindSafe(self.handler.close(deadline)).catch_unwind();
        let closed = match tokio::time::timeout(deadline, closing).await {
            Ok(Ok(result)) => result.map_err(|e| e.message),
            Ok(Err(panic)) => Err(format!("panic: {}", panic_text(&*panic))),
            Err(_) => Err(format!("not closed within {deadline:?}")),
        };
        match tokio::time::timeout(deadline, self.tasks.shut_down()).await {
            Ok(()) => closed,
            Err(_) => {
                Err(format!("adapter did not close all the scheduled daemons: {} remain", self.tasks.live()))
            }
        }
    }
}

/// Whether a handler implements what instances of a variety need.
pub(super) fn supports(handler: &dyn Handler, variety: Variety) -> bool {
    match variety {
        Variety::Check | Variety::CheckWithOutput => handler.as_check().is_some(),
        Variety::Quota => handler.as_quota().is_some(),
        Variety::Report => handler.as_report().is_some(),
        Variety::AttributeGenerator => handler.as_generate().is_some(),
    }
}

fn unsupported<T>(what: &str) -> Reply<T> {
    Reply::Ready(Err(HandlerError::new(format!("this handler does not answer {what} calls"))))
}

/// Runs a call; a panic in it, now or in the future that it returns, becomes an error.
fn contained<T: 'static>(call: impl FnOnce() -> Reply<T>) -> Reply<T> {
    match std::panic::catch_unwind(AssertUnwindSafe(call)) {
        Ok(Reply::Ready(result)) => Reply::Ready(result),
        Ok(Reply::Later(future)) => Reply::Later(Box::pin(async move {
            AssertUnwindSafe(future).catch_unwind().await.unwrap_or_else(|panic| Err(panicked(&*panic)))
        })),
        Err(panic) => Reply::Ready(Err(panicked(&*panic))),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> HandlerError {
    HandlerError::new(format!("panic during handler dispatch: {}", panic_text(panic)))
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown cause")
}
