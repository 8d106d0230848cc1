//! The observers of calls: opened at start-up, closed after the last call.

use std::sync::Arc;

use super::effects::Effects;
use super::steps::{Components, StopStep};
use super::{ServerOptions, StartError};
use mixer_api::Observers;
use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::metrics::{Collect, Collected, Family, Metrics};
use mixer_spans::Tracer;

/// Opens the configured observers. Errors: a file that cannot be opened; no observer is left open then.
pub(super) fn start(
    options: &ServerOptions,
    effects: &dyn Effects,
    memory: &MemoryBudget,
    metrics: &Metrics,
    tracer: Option<Arc<Tracer>>,
    components: &mut Components,
) -> Result<Option<Arc<Observers>>, StartError> {
    let decisions = effects
        .open_decisions(&options.decisions, memory.share(Purpose::Queues), metrics)
        .map_err(|error| StartError::because("unable to log decisions", error))?;
    if let Some(decisions) = decisions.clone() {
        components
            .started(StopStep::Tracing, "decisions", async move |timeout| decisions.close(timeout).await);
    }
    if let Some(tracer) = &tracer {
        let collector = SpanCollector(Arc::clone(tracer));
        components.collects(StopStep::Tracing, "counts of spans", metrics, collector);
    }
    Ok(Observers { decisions, tracer }.if_any())
}

/// Exports the span counters as metrics.
struct SpanCollector(Arc<Tracer>);

impl Collect for SpanCollector {
    fn collect(&self, out: &mut Collected) {
        let counts = self.0.counts();
        out.add(Family::SpansSent, &[], counts.sent as f64);
        out.add(Family::SpansLost, &["queue full"], counts.dropped as f64);
        out.add(Family::SpansLost, &["collector"], counts.failed as f64);
    }
}
