//! What was begun, and the order in which it ends.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use mixer_base::metrics::{Collect, Metrics};

/// What a part may still take when the time of the whole stop is over.
const FORCED: Duration = Duration::from_millis(500);

/// When a part ends, in this order. Spec: cli-operations.md 3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopStep {
    /// Nobody is sent here any more.
    Readiness,
    /// No new calls; those under way are answered.
    Calls,
    /// ControlZ.
    Introspection,
    /// Changes of configuration are no longer followed.
    Configuration,
    /// The check cache.
    CheckCache,
    /// The socket of the API and its file.
    Listener,
    /// Spans are handed on.
    Tracing,
    /// The monitoring endpoint.
    Monitoring,
    /// The worker threads.
    Workers,
    /// Handlers hand on what they hold.
    Handlers,
    /// Probe files and the pid file are removed.
    Probes,
    /// The last records are written.
    Log,
}

type Ending = Pin<Box<dyn Future<Output = bool> + Send>>;

/// One part.
struct Component {
    step: StopStep,
    name: &'static str,
    end: Box<dyn FnOnce(Duration) -> Ending + Send>,
}

/// Everything that was begun. Ending it is the same whether the start failed half-way or the server was asked to stop.
#[derive(Default)]
pub(super) struct Components {
    parts: Vec<Component>,
}

/// How a stop went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StopReport {
    /// The parts that were ended, in order.
    pub ended: Vec<(StopStep, &'static str)>,
    /// Those that did not end by themselves in time, or not well.
    pub forced: Vec<&'static str>,
}

impl StopReport {
    /// Whether everything ended by itself.
    pub fn is_complete(&self) -> bool {
        self.forced.is_empty()
    }
}

impl std::fmt::Debug for Components {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.parts.iter().map(|p| p.name)).finish()
    }
}

impl Components {
    /// Notes that `name` was begun. `end` gets the time that it may take and says whether it ended well.
    pub(super) fn begun<F>(
        &mut self,
        step: StopStep,
        name: &'static str,
        end: impl FnOnce(Duration) -> F + Send + 'static,
    ) where
        F: Future<Output = bool> + Send + 'static,
    {
        self.parts.push(Component { step, name, end: Box::new(move |patience| Box::pin(end(patience))) });
    }

    /// Shows what `collector` counts until `step`.
    pub(super) fn collects(
        &mut self,
        step: StopStep,
        name: &'static str,
        metrics: &Metrics,
        collector: impl Collect + 'static,
    ) {
        let collector: Arc<dyn Collect> = Arc::new(collector);
        metrics.collect_from(Arc::downgrade(&collector));
        self.begun(step, name, async move |_| {
            drop(collector);
            true
        });
    }

    /// Ends the parts of the first steps up to and including `last`, within `limit`; the rest stays.
    ///
    /// Parts of one step end latest first. A part that takes too long is left behind, and the ones after it get a short time each,
    /// so that files are removed whatever happens before.
    pub(super) async fn end_through(&mut self, last: StopStep, limit: Duration) -> StopReport {
        let deadline = Instant::now() + limit;
        let (mut now, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.parts).into_iter().partition(|part| part.step <= last);
        self.parts = later;
        now.reverse();
        now.sort_by_key(|part| part.step);
        let mut report = StopReport::default();
        for Component { step, name, end } in now {
            let patience = deadline.saturating_duration_since(Instant::now()).max(FORCED);
            let started = Instant::now();
            let ended = tokio::time::timeout(patience + FORCED, end(patience)).await;
            let took = started.elapsed();
            match ended {
                Ok(true) => tracing::debug!(?took, "ended {name}"),
                Ok(false) => tracing::warn!(?took, "{name} did not end in time or not well"),
                Err(_) => tracing::warn!(?took, "{name} is left behind: it does not end"),
            }
            if ended != Ok(true) {
                report.forced.push(name);
            }
            report.ended.push((step, name));
        }
        report
    }

    /// Ends everything.
    pub(super) async fn end(&mut self, limit: Duration) -> StopReport {
        self.end_through(StopStep::Log, limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn parts_end_in_the_order_of_the_steps() {
        let mut parts = Components::default();
        for (step, name) in [
            (StopStep::Probes, "liveness"),
            (StopStep::Listener, "listener"),
            (StopStep::Probes, "readiness"),
            (StopStep::Readiness, "not ready"),
            (StopStep::Calls, "calls"),
        ] {
            parts.begun(step, name, async |_| true);
        }
        let first = parts.end_through(StopStep::Readiness, Duration::from_secs(1)).await;
        assert_eq!(first.ended, [(StopStep::Readiness, "not ready")]);
        let rest = parts.end(Duration::from_secs(1)).await;
        let names: Vec<_> = rest.ended.iter().map(|(_, name)| *name).collect();
        assert_eq!(names, ["calls", "listener", "readiness", "liveness"]);
        assert!(rest.is_complete());
        assert!(parts.end(Duration::ZERO).await.ended.is_empty(), "nothing ends twice");
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_hangs_holds_nobody_up_for_longer_than_the_limit() {
        let mut parts = Components::default();
        let (sent, received) = tokio::sync::oneshot::channel();
        parts.begun(StopStep::Probes, "files", async move |_| sent.send(()).is_ok());
        parts.begun(StopStep::Calls, "calls", async |_| std::future::pending().await);
        parts.begun(StopStep::Workers, "workers", async |_| false);
        let started = Instant::now();
        let report = parts.end(Duration::from_secs(5)).await;
        assert_eq!(report.forced, ["calls", "workers"]);
        assert!(!report.is_complete());
        assert!(started.elapsed() < Duration::from_secs(7));
        assert!(received.await.is_ok(), "what comes after is ended all the same");
    }
}
