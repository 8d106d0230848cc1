//! What the log says about a backend that does not take what is sent: once when that begins, and once when it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// The least time between two outages that are logged: some backends come and go.
const INTERVAL: Duration = Duration::from_secs(60);

/// Whether a backend takes what is sent.
#[derive(Debug)]
pub(crate) struct Outage {
    handler: Arc<str>,
    /// Since when it does not.
    since: Option<Instant>,
    /// Whether that is in the log.
    is_logged: bool,
    /// When an outage was logged.
    logged: Option<Instant>,
}

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Record {
    Nothing,
    Began,
    /// After this time.
    Ended(Duration),
}

impl Outage {
    /// Of the backend of a handler.
    pub(crate) fn new(handler: &Arc<str>) -> Self {
        Self { handler: Arc::clone(handler), since: None, is_logged: false, logged: None }
    }

    /// The backend did not take something. `why` holds no credentials.
    pub(crate) fn failed(&mut self, why: &str) {
        if self.failed_at(Instant::now()) == Record::Began {
            let handler = &*self.handler;
            tracing::warn!(handler, "the backend takes nothing: {why}");
        }
    }

    /// The backend took everything.
    pub(crate) fn ended(&mut self) {
        if self.since.is_none() {
            return;
        }
        if let Record::Ended(after) = self.ended_at(Instant::now()) {
            tracing::info!(handler = &*self.handler, ?after, "the backend takes everything again");
        }
    }

    /// The backend took something, and what it said of it is not known, because of `why`.
    pub(crate) fn unread(&self, why: &str) {
        mixer_base::warn_limited!(1, handler = &*self.handler, "the backend took a batch: {why}");
    }

    fn failed_at(&mut self, now: Instant) -> Record {
        self.since.get_or_insert(now);
        let is_soon = self.logged.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL);
        if self.is_logged || is_soon {
            return Record::Nothing;
        }
        (self.is_logged, self.logged) = (true, Some(now));
        Record::Began
    }

    fn ended_at(&mut self, now: Instant) -> Record {
        let since = self.since.take();
        match since.filter(|_| std::mem::take(&mut self.is_logged)) {
            Some(since) => Record::Ended(now.saturating_duration_since(since)),
            None => Record::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_logged_once_and_one_that_follows_soon_is_not() {
        let mut outage = Outage::new(&"h.ns".into());
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(outage.failed_at(at(0)), Record::Began);
        assert_eq!(outage.failed_at(at(500)), Record::Nothing, "it goes on");
        assert_eq!(outage.ended_at(at(501)), Record::Ended(Duration::from_secs(501)));
        assert_eq!(outage.ended_at(at(502)), Record::Nothing);
        assert_eq!(outage.failed_at(at(600)), Record::Began);
        assert_eq!(outage.ended_at(at(601)), Record::Ended(Duration::from_secs(1)));
        assert_eq!(outage.failed_at(at(659)), Record::Nothing, "soon after the last one");
        assert_eq!(outage.ended_at(at(659)), Record::Nothing);
        assert_eq!(outage.failed_at(at(659)), Record::Nothing);
        assert_eq!(outage.failed_at(at(660)), Record::Began, "it lasts");
        assert_eq!(outage.ended_at(at(661)), Record::Ended(Duration::from_secs(2)));
    }
}
