//! Runs sources and the pipeline.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use mixer_base::task::Task;
use mixer_mcp::Snapshot;
use mixer_schema::DEFAULT_GROUP;

use crate::error::StartError;
use crate::metrics::Counters;
use crate::options::Options;
use crate::pipeline::{Distributor, Pipeline, Published};
use crate::source::{Delivery, Hosted, Source};
use crate::state::{EventKind, EventLog, EventRecord, SourceState, State};

/// Deliveries that wait for the pipeline; a source that has more waits.
const QUEUE: usize = 64;
/// Deliveries after which what is due is looked at although more wait.
const MAX_AT_ONCE: usize = 256;

/// A running configuration plane. Dropping it ends its tasks without waiting for them.
pub struct Galley {
    shared: Arc<Shared>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    options: Options,
    sources: Vec<Hosted>,
    distributor: Arc<dyn Distributor>,
    counters: Arc<Counters>,
    /// What sinks hold, while no pipeline runs.
    published: Mutex<Published>,
    snapshots: Mutex<BTreeMap<String, Arc<Snapshot>>>,
    events: Mutex<EventLog>,
    seen: Mutex<State>,
    /// Whether every group was published.
    synced: watch::Sender<bool>,
}

impl Galley {
    /// Starts sources and pipeline on a runtime. Of a resource that several sources have, that of the first one counts.
    ///
    /// Errors: there is no source.
    pub fn start(
        options: Options,
        sources: Vec<Arc<dyn Source>>,
        distributor: Arc<dyn Distributor>,
        runtime: &Handle,
    ) -> Result<Self, StartError> {
        if sources.is_empty() {
            return Err(StartError::NoSource);
        }
        let shared = Arc::new(Shared {
            options,
            sources: sources.into_iter().map(Hosted::new).collect(),
            distributor,
            counters: Arc::default(),
            published: Mutex::default(),
            snapshots: Mutex::default(),
            events: Mutex::default(),
            seen: Mutex::default(),
            synced: watch::Sender::new(false),
        });
        let stop = CancellationToken::new();
        let (of_task, until) = (Arc::clone(&shared), stop.clone());
        let run = move || Arc::clone(&of_task).run(until.clone());
        let task = Task::serving("configuration pipeline").spawn_on(runtime, stop.clone(), run);
        Ok(Self { shared, stop, task: Mutex::new(Some(task)) })
    }

    /// Waits until every group was published once.
    pub async fn synced(&self) {
        // The sender lives as long as this.
        drop(self.shared.synced.subscribe().wait_for(|synced| *synced).await);
    }

    /// Whether every group was published once: for the readiness probe.
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Has all sources look for changes now.
    pub fn reload(&self) {
        self.shared.sources.iter().for_each(|hosted| hosted.source.reload());
    }

    /// Has all sources look for changes, and waits until what had changed before is published or counts as pending. Soon.
    pub async fn look(&self) {
        futures_util::future::join_all(self.shared.sources.iter().map(|hosted| hosted.source.look())).await;
    }

    /// What operators see.
    pub fn state(&self) -> State {
        // What is delivered meanwhile counts twice rather than not at all.
        let undelivered: Vec<usize> =
            self.shared.sources.iter().map(|hosted| hosted.source.pending()).collect();
        let of_health: Vec<_> = self.shared.sources.iter().map(|hosted| hosted.slot.health.state()).collect();
        let mut known = of_health.into_iter().zip(undelivered);
        let mut state = self.shared.seen.lock().clone();
        let missing: Vec<Vec<&'static str>> =
            state.sources.into_iter().map(|source| source.missing).collect();
        let mut missing = missing.into_iter();
        let source = |hosted: &Hosted| {
            let (health, undelivered) = known.next().unwrap_or_default();
            // What is held is something, whether it can be counted or not.
            let at_least = usize::from(health.held.is_some());
            SourceState {
                name: hosted.source.name(),
                generation: hosted.generation(),
                is_connected: health.is_connected,
                missing: missing.next().unwrap_or_else(|| hosted.source.collections()),
                last_error: health.last_error,
                held: health.held,
                is_delayed: health.is_delayed,
                pending: (health.pending + undelivered).max(at_least),
                skipped: health.skipped,
                problems: health.problems,
                outages: health.outages,
            }
        };
        state.sources = self.shared.sources.iter().map(source).collect();
        for group in &mut state.groups {
            let is_first = !group.is_published;
            let concerns = |source: &&SourceState| match is_first && !source.is_synced() {
                true => source.missing.iter().any(|missing| group.waits_for.contains(missing)),
                // What sources read is of this group.
                false => group.name == DEFAULT_GROUP,
            };
            group.waiting = state.sources.iter().filter(concerns).filter_map(SourceState::waiting).collect();
            let waiting = group.waiting.iter().map(|waiting| waiting.changes.unwrap_or(1) as u64);
            group.pending_events += waiting.sum::<u64>();
        }
        state
    }

    /// The last events, oldest first.
    pub fn events(&self) -> Vec<EventRecord> {
        self.shared.events.lock().iter().cloned().collect()
    }

    /// What was published last of a group.
    pub fn snapshot(&self, group: &str) -> Option<Arc<Snapshot>> {
        self.shared.snapshots.lock().get(group).cloned()
    }

    /// The groups that were published, by name.
    pub fn published_groups(&self) -> Vec<String> {
        self.shared.snapshots.lock().keys().cloned().collect()
    }

    /// The counts since the start.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.shared.counters
    }

    /// The settings.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Stops the sources, then the pipeline. What was published stays where it is. Nothing is published once this returns.
    pub async fn stop(&self) {
        for hosted in &self.shared.sources {
            hosted.stop().await;
        }
        self.stop.cancel();
        let task = self.task.lock().take();
        if let Some(task) = task {
            drop(task.await);
        }
    }
}

impl Drop for Galley {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A pipeline that leaves what it published behind, however it ends.
struct Held<'s> {
    pipeline: Option<Pipeline>,
    shared: &'s Shared,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(pipeline) = self.pipeline.take() {
            *self.shared.published.lock() = pipeline.into_published();
        }
    }
}

impl Shared {
    /// The life of the pipeline, and of the sources with it: a pipeline that failed starts again with what it published.
    async fn run(self: Arc<Self>, stop: CancellationToken) {
        let (queue, mut deliveries) = mpsc::channel(QUEUE);
        let published = std::mem::take(&mut *self.published.lock());
        let feeds = self.sources.iter().map(|hosted| hosted.source.collections());
        let pipeline = Pipeline::new(&self.options, feeds, published, Arc::clone(&self.counters));
        let mut held = Held { pipeline: Some(pipeline), shared: &self };
        for (index, hosted) in self.sources.iter().enumerate() {
            // One that still runs delivers into the queue of the pipeline that failed.
            hosted.stop().await;
            hosted.start(index, &queue);
        }
        let Some(pipeline) = &mut held.pipeline else { return };
        let mut shown = Vec::new();
        loop {
            let due = pipeline.due();
            let next = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                delivery = deliveries.recv() => {
                    let mut next = delivery;
                    for _ in 0..MAX_AT_ONCE {
                        let Some(delivery) = next else { break };
                        shown.extend(self.receive(pipeline, delivery));
                        next = deliveries.try_recv().ok();
                    }
                    if let Some(delivery) = next {
                        shown.extend(self.receive(pipeline, delivery));
                    }
                }
                () = next => {}
            }
            let now = Instant::now();
            if pipeline.due().is_some_and(|due| due <= now) {
                pipeline.publish(now, &*self);
            }
            self.show(pipeline);
            shown.clear();
        }
    }

    /// Returns whom to tell when it is shown: by dropping it.
    fn receive(&self, pipeline: &mut Pipeline, delivery: Delivery) -> Option<oneshot::Sender<()>> {
        match delivery {
            Delivery::Started { source, generation } => {
                if generation > 1 {
                    self.counters.restarts.add(1);
                }
                pipeline.started(source, generation);
                self.events.lock().push(EventRecord::new(source, EventKind::Started, "", ""));
                None
            }
            Delivery::Events { source, generation, batch, shown } => {
                let mut record = |record| self.events.lock().push(record);
                pipeline.receive(source, generation, batch, Instant::now(), &mut record);
                shown
            }
        }
    }

    /// Shows operators what the pipeline has. Cost: a step for every collection.
    fn show(&self, pipeline: &Pipeline) {
        let missing = (0..self.sources.len()).map(|source| SourceState {
            name: String::new(),
            generation: 0,
            is_connected: false,
            missing: pipeline.missing(source),
            last_error: None,
            held: None,
            is_delayed: false,
            pending: 0,
            skipped: 0,
            problems: Vec::new(),
            outages: 0,
        });
        let state = State {
            sources: missing.collect(),
            groups: pipeline.groups(),
            collections: pipeline.collections(),
        };
        *self.seen.lock() = state;
        if pipeline.is_published() {
            self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }
}

impl Distributor for Shared {
    fn distribute(&self, group: &str, snapshot: Arc<Snapshot>) {
        self.snapshots.lock().insert(group.to_owned(), Arc::clone(&snapshot));
        self.distributor.distribute(group, snapshot);
    }
}

#[cfg(test)]
mod tests;
