//! Started components and the order in which they stop.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use mixer_base::metrics::{Collect, Metrics};

/// Time for each remaining component after the shutdown timeout.
const MIN_STOP_TIME: Duration = Duration::from_millis(500);

/// The steps of a stop, in order. See docs/operations.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopStep {
    /// Readiness is withdrawn.
    Readiness,
    /// No new calls; calls in flight are drained.
    Calls,
    /// ControlZ.
    Introspection,
    /// Following the configuration store stops.
    Configuration,
    /// The check cache.
    CheckCache,
    /// The API socket is closed and its file removed.
    Listener,
    /// Spans are flushed.
    Tracing,
    /// The monitoring endpoint.
    Monitoring,
    /// The worker threads.
    Workers,
    /// Handlers flush and close.
    Handlers,
    /// Probe files and the pid file are removed.
    Probes,
    /// The log is flushed.
    Log,
}

type Ending = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A started component.
struct Component {
    step: StopStep,
    name: &'static str,
    end: Box<dyn FnOnce(Duration) -> Ending + Send>,
}

/// The started components. A failed start and a regular stop end them alike.
#[derive(Default)]
pub(super) struct Components {
    parts: Vec<Component>,
}

/// The result of a stop.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StopReport {
    /// The stopped components, in order.
    pub ended: Vec<(StopStep, &'static str)>,
    /// Components that failed or did not stop in time.
    pub forced: Vec<&'static str>,
}

impl StopReport {
    /// Whether all components stopped in time.
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
    /// Registers a started component. `end` gets its time limit and returns whether it stopped cleanly.
    pub(super) fn started<F>(
        &mut self,
        step: StopStep,
        name: &'static str,
        end: impl FnOnce(Duration) -> F + Send + 'static,
    ) where
        F: Future<Output = bool> + Send + 'static,
    {
        self.parts.push(Component { step, name, end: Box::new(move |timeout| Box::pin(end(timeout))) });
    }

    /// Registers a metrics collector until `step`.
    pub(super) fn collects(
        &mut self,
        step: StopStep,
        name: &'static str,
        metrics: &Metrics,
        collector: impl Collect + 'static,
    ) {
        let collector: Arc<dyn Collect> = Arc::new(collector);
        metrics.collect_from(Arc::downgrade(&collector));
        self.started(step, name, async move |_| {
            drop(collector);
            true
        });
    }

    /// Stops the components of all steps up to and including `last`, within `limit`.
    ///
    /// Within a step, components stop in reverse order of their start. One that exceeds the limit is abandoned; the ones after it get
    /// [`MIN_STOP_TIME`] each, so that files are removed in any case.
    pub(super) async fn end_through(&mut self, last: StopStep, limit: Duration) -> StopReport {
        let deadline = Instant::now() + limit;
        let (mut now, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.parts).into_iter().partition(|part| part.step <= last);
        self.parts = later;
        now.reverse();
        now.sort_by_key(|part| part.step);
        let mut report = StopReport::default();
        for Component { step, name, end } in now {
            let timeout = deadline.saturating_duration_since(Instant::now()).max(MIN_STOP_TIME);
            let started = Instant::now();
            let ended = tokio::time::timeout(timeout + MIN_STOP_TIME, end(timeout)).await;
            let took = started.elapsed();
            match ended {
                Ok(true) => tracing::debug!(?took, "ended {name}"),
                Ok(false) => tracing::warn!(?took, "{name} failed or did not stop in time"),
                Err(_) => tracing::warn!(?took, "{name} abandoned: it does not stop"),
            }
            if ended != Ok(true) {
                report.forced.push(name);
            }
            report.ended.push((step, name));
        }
        report
    }

    /// Stops all components.
    pub(super) async fn end(&mut self, limit: Duration) -> StopReport {
        self.end_through(StopStep::Log, limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn components_stop_in_the_order_of_the_steps() {
        let mut parts = Components::default();
        for (step, name) in [
            (StopStep::Probes, "liveness"),
            (StopStep::Listener, "listener"),
            (StopStep::Probes, "readiness"),
            (StopStep::Readiness, "not ready"),
            (StopStep::Calls, "calls"),
        ] {
            parts.started(step, name, async |_| true);
        }
        let first = parts.end_through(StopStep::Readiness, Duration::from_secs(1)).await;
        assert_eq!(first.ended, [(StopStep::Readiness, "not ready")]);
        let rest = parts.end(Duration::from_secs(1)).await;
        let names: Vec<_> = rest.ended.iter().map(|(_, name)| *name).collect();
        assert_eq!(names, ["calls", "listener", "readiness", "liveness"]);
        assert!(rest.is_complete());
        assert!(parts.end(Duration::ZERO).await.ended.is_empty(), "nothing stops twice");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_component_does_not_exceed_the_limit() {
        let mut parts = Components::default();
        let (sent, received) = tokio::sync::oneshot::channel();
        parts.started(StopStep::Probes, "files", async move |_| sent.send(()).is_ok());
        parts.started(StopStep::Calls, "calls", async |_| std::future::pending().await);
        parts.started(StopStep::Workers, "workers", async |_| false);
        let started = Instant::now();
        let report = parts.end(Duration::from_secs(5)).await;
        assert_eq!(report.forced, ["calls", "workers"]);
        assert!(!report.is_complete());
        assert!(started.elapsed() < Duration::from_secs(7));
        assert!(received.await.is_ok(), "later components stop in any case");
    }
}
