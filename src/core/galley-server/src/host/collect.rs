//! The metrics of the pipeline. Spec: galley.md, 22.

use std::sync::Arc;

use mixer_base::metrics::{Collect, Collected, Family};
use mixer_galley::Galley;

/// Exports the counts of a pipeline, and the state of its sources.
pub(super) struct PipelineCollector {
    galley: Arc<Galley>,
    per_resource: bool,
}

impl PipelineCollector {
    pub(super) fn new(galley: &Arc<Galley>, per_resource: bool) -> Self {
        Self { galley: Arc::clone(galley), per_resource }
    }

    fn resources(&self, out: &mut Collected) {
        for group in self.galley.published_groups() {
            let Some(snapshot) = self.galley.snapshot(&group) else { continue };
            for collection in snapshot.collections() {
                for resource in collection.content().iter() {
                    let (namespace, name) = resource.namespace_and_name();
                    out.add(Family::GalleyResource, &[collection.name(), name, namespace], 1.0);
                }
            }
        }
    }
}

impl Collect for PipelineCollector {
    fn collect(&self, out: &mut Collected) {
        let counters = self.galley.counters();
        for (family, count) in [
            (Family::GalleyEventsProcessed, &counters.events),
            (Family::GalleySnapshotsPublished, &counters.snapshots),
            (Family::GalleyStrategyChanges, &counters.on_change),
            (Family::GalleyStrategyMaxTime, &counters.max_wait_reached),
            (Family::GalleyStrategyQuiesce, &counters.quiet_reached),
            (Family::GalleyStrategyResets, &counters.timer_resets),
            (Family::GalleySourceRestarts, &counters.restarts),
        ] {
            out.add(family, &[], count.get() as f64);
        }
        let (counts, sum) = counters.snapshot_events.read();
        out.histogram(Family::GalleySnapshotEvents, &[], counts.to_vec(), sum as f64);
        let (counts, sum) = counters.snapshot_lifetime.read();
        out.histogram(Family::GalleySnapshotLifetime, &[], counts.to_vec(), sum as f64);
        let (counts, sum) = counters.event_spans.read();
        out.histogram(Family::GalleyEventSpan, &[], counts.to_vec(), sum as f64);
        let state = self.galley.state();
        for collection in &state.collections {
            out.add(Family::GalleyTypeInstances, &[collection.name], collection.resources as f64);
        }
        for group in &state.groups {
            out.add(Family::GalleyPendingEvents, &[group.name], group.pending_events as f64);
            if let Some(at) = group.published_at {
                out.add(Family::GalleySnapshotAge, &[group.name], at.elapsed().as_secs_f64());
            }
        }
        for source in &state.sources {
            let truth = |is: bool| f64::from(u8::from(is));
            out.add(Family::GalleySourceConnected, &[&source.name], truth(source.is_connected));
            out.add(Family::GalleySourceOutages, &[&source.name], source.outages as f64);
            out.add(Family::GalleySourceSynced, &[&source.name], truth(source.is_synced()));
            out.add(Family::GalleySourceSkipped, &[&source.name], source.skipped as f64);
        }
        if self.per_resource {
            self.resources(out);
        }
    }
}
