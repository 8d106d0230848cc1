//! Started components and the order in which they stop.
//!
//! A component is registered when it has started, with the step of the stop at which it ends. Steps are ended in order, the components of one
//! step in reverse order of their start. A failed start and a regular stop end them alike.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::metrics::{Collect, Metrics};

/// Time for each remaining component after the shutdown timeout.
const MIN_STOP_TIME: Duration = Duration::from_millis(500);
/// The largest part of the limit that is reserved for a component.
const MOST_RESERVED: u32 = 4;

type Ending = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A started component.
struct Component<S> {
    step: S,
    name: &'static str,
    /// What the components before it leave of the limit.
    reserved: Duration,
    end: Box<dyn FnOnce(Duration) -> Ending + Send>,
}

/// The started components, by the steps `S` of a stop, the last of which is the greatest.
pub struct Components<S> {
    parts: Vec<Component<S>>,
}

impl<S> Default for Components<S> {
    fn default() -> Self {
        Self { parts: Vec::new() }
    }
}

/// The result of a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReport<S> {
    /// The stopped components, in order.
    pub ended: Vec<(S, &'static str)>,
    /// Components that failed or did not stop in time.
    pub forced: Vec<&'static str>,
}

impl<S> Default for StopReport<S> {
    fn default() -> Self {
        Self { ended: Vec::new(), forced: Vec::new() }
    }
}

impl<S> StopReport<S> {
    /// Whether all components stopped in time.
    pub fn is_complete(&self) -> bool {
        self.forced.is_empty()
    }
}

impl<S> std::fmt::Debug for Components<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.parts.iter().map(|p| p.name)).finish()
    }
}

impl<S: Copy + Ord> Components<S> {
    /// Registers a started component. `end` gets its time limit and returns whether it stopped cleanly.
    pub fn started<F>(
        &mut self,
        step: S,
        name: &'static str,
        end: impl FnOnce(Duration) -> F + Send + 'static,
    ) where
        F: Future<Output = bool> + Send + 'static,
    {
        self.started_with_reserve(step, name, Duration::ZERO, end);
    }

    /// As [`started`](Self::started). The components before it leave it so much of the limit, or a quarter of it if that is less.
    pub fn started_with_reserve<F>(
        &mut self,
        step: S,
        name: &'static str,
        reserved: Duration,
        end: impl FnOnce(Duration) -> F + Send + 'static,
    ) where
        F: Future<Output = bool> + Send + 'static,
    {
        let end = Box::new(move |timeout| Box::pin(end(timeout)) as Ending);
        self.parts.push(Component { step, name, reserved, end });
    }

    /// Registers a metrics collector until `step`.
    pub fn collects(
        &mut self,
        step: S,
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
    /// a short time each, so that files are removed in any case.
    pub async fn end_through(&mut self, last: S, limit: Duration) -> StopReport<S> {
        self.end_where(|step| step <= last, limit).await
    }

    async fn end_where(&mut self, is_due: impl Fn(S) -> bool, limit: Duration) -> StopReport<S> {
        let deadline = Instant::now() + limit;
        let (mut now, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.parts).into_iter().partition(|part| is_due(part.step));
        self.parts = later;
        now.reverse();
        now.sort_by_key(|part| part.step);
        let mut report = StopReport::default();
        let reserved_of = |reserved: Duration| reserved.min(limit / MOST_RESERVED);
        let mut reserved: Duration = now.iter().map(|part| reserved_of(part.reserved)).sum();
        for Component { step, name, reserved: own, end } in now {
            reserved = reserved.saturating_sub(reserved_of(own));
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = left.saturating_sub(reserved).max(MIN_STOP_TIME);
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
    pub async fn end(&mut self, limit: Duration) -> StopReport<S> {
        self.end_where(|_| true, limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum StopStep {
        Readiness,
        Calls,
        Listener,
        Workers,
        Probes,
    }

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
    async fn a_reserve_is_left_by_those_that_hang_before_it() {
        for (limit, least) in [(20, 3), (4, 1)] {
            let mut parts = Components::default();
            let (sent, received) = tokio::sync::oneshot::channel();
            let seconds = Duration::from_secs;
            let hangs = async |_| std::future::pending().await;
            parts.started(StopStep::Calls, "calls", hangs);
            let reserved = seconds(3);
            parts.started_with_reserve(StopStep::Workers, "flush", reserved, async move |timeout| {
                tokio::time::sleep(timeout).await;
                sent.send(timeout).is_ok()
            });
            parts.started(StopStep::Probes, "files", async |_| true);
            let started = Instant::now();
            let report = parts.end(seconds(limit)).await;
            assert_eq!(report.forced, ["calls"]);
            let (timeout, took) = (received.await.unwrap(), started.elapsed());
            // Whoever hangs is abandoned half a second late.
            assert!(timeout + MIN_STOP_TIME >= seconds(least) && timeout <= seconds(least), "{timeout:?}");
            assert!(took <= seconds(limit) + MIN_STOP_TIME, "{took:?}");
        }
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
