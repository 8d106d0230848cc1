//! What becomes of the events of sources: merged inputs, transformers, collections, groups, snapshots.
//!
//! [`Pipeline`] is a state machine without I/O, tasks and clock: it is told what sources deliver and when, and asked what is due. So
//! any interleaving can be tested. [`Galley`](crate::Galley) drives it.
//!
//! `events -> Inputs (latch, precedence of sources) -> Transformers -> Accumulators (versions) -> groups -> Distributor`

mod accumulator;
mod inputs;
mod overlay;
#[cfg(test)]
mod schedules;
mod strategy;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use mixer_mcp::{Cache, Collection, Snapshot};

use crate::event::Batch;
use crate::metrics::Counters;
use crate::options::{GroupPlan, Options};
use crate::state::{CollectionState, EventKind, EventRecord, GroupState};
use crate::transform::{Produced, Products, Transformer, transformers};
use accumulator::{Accumulator, Edition, Numbers};
use inputs::{InputChange, Inputs};
use overlay::Origin;
use strategy::Pending;

/// Where snapshots go.
pub trait Distributor: Send + Sync + 'static {
    /// Publishes the collections of a group. Must not wait for sinks.
    fn distribute(&self, group: &str, snapshot: Arc<Snapshot>);
}

impl Distributor for Cache {
    fn distribute(&self, group: &str, snapshot: Arc<Snapshot>) {
        self.set_snapshot(group, snapshot);
    }
}

/// What outlives a pipeline that failed: what sinks hold, and the counters of versions.
#[derive(Debug, Default)]
pub struct Published {
    editions: BTreeMap<&'static str, Edition>,
    numbers: Numbers,
}

/// The state machine between sources and snapshots.
pub struct Pipeline {
    inputs: Inputs,
    transformers: Vec<Stage>,
    accumulators: BTreeMap<&'static str, Accumulator>,
    groups: Vec<Group>,
    numbers: Numbers,
    counters: Arc<Counters>,
    /// Reused between batches.
    changes: Vec<InputChange>,
    products: Products,
    /// When events arrived last.
    last_event: Option<Instant>,
}

/// A transformer in the pipeline.
struct Stage {
    transformer: Box<dyn Transformer>,
    /// Its precedence among the transformers that produce a collection.
    origins: BTreeMap<&'static str, Origin>,
    /// It was told changes since it was flushed.
    is_touched: bool,
    /// All its inputs were complete at a flush.
    is_ready: bool,
}

/// A group in the pipeline.
struct Group {
    plan: GroupPlan,
    pending: Pending,
    /// Collections that change it.
    is_published: bool,
    published_at: Option<Instant>,
    /// Events since the last publication.
    events: u64,
    publications: u64,
}

impl Pipeline {
    /// A pipeline for sources, by the collections that each feeds; the first one goes before the others.
    pub fn new(
        options: &Options,
        sources: impl IntoIterator<Item = Vec<&'static str>>,
        published: Published,
        counters: Arc<Counters>,
    ) -> Self {
        let Published { mut editions, numbers } = published;
        let groups: Vec<GroupPlan> = options.groups();
        let collections = groups.iter().flat_map(|group| &group.collections);
        let accumulators = collections.map(|name| {
            let edition = editions.remove(name);
            (*name, Accumulator::new(name, options.face, edition))
        });
        let mut producers: BTreeMap<&'static str, Origin> = BTreeMap::new();
        let stage = |transformer: Box<dyn Transformer>| {
            let mut origins = BTreeMap::new();
            for output in transformer.outputs() {
                let next = producers.entry(output).or_default();
                origins.insert(*output, *next);
                *next += 1;
            }
            Stage { transformer, origins, is_touched: true, is_ready: false }
        };
        let group = |plan: GroupPlan| Group {
            pending: Pending::new(plan.strategy, options.debounce),
            plan,
            is_published: false,
            published_at: None,
            events: 0,
            publications: 0,
        };
        Self {
            inputs: Inputs::of(sources),
            transformers: transformers(options).into_iter().map(stage).collect(),
            accumulators: accumulators.collect(),
            groups: groups.into_iter().map(group).collect(),
            numbers,
            counters,
            changes: Vec::new(),
            products: Products::default(),
            last_event: None,
        }
    }

    /// What another pipeline can continue with.
    pub fn into_published(self) -> Published {
        let editions = self.accumulators.into_iter().map(|(name, all)| (name, all.edition().clone()));
        Published { editions: editions.collect(), numbers: self.numbers }
    }

    /// A source was started, for the first time or again. What it delivers in this generation, until it is synced, replaces what it
    /// delivered before.
    pub fn started(&mut self, source: usize, generation: u64) {
        self.inputs.started(source, generation);
    }

    /// Applies what a source delivered; nothing if that is of a generation that has ended.
    pub fn receive(
        &mut self,
        source: usize,
        generation: u64,
        batch: Batch,
        now: Instant,
        record: &mut dyn FnMut(EventRecord),
    ) {
        if generation == 0 || generation != self.inputs.generation(source) {
            return;
        }
        if !batch.is_empty() {
            let before = self.last_event.replace(now).unwrap_or(now);
            self.counters.received(batch.len(), now.saturating_duration_since(before));
        }
        for event in batch {
            if let crate::event::Change::FullSync = event.change {
                record(EventRecord::new(source, EventKind::FullSync, event.collection, ""));
            }
            self.inputs.apply(source, event, &mut self.changes);
        }
        let changes = std::mem::take(&mut self.changes);
        for change in &changes {
            self.pass(change);
            record(EventRecord::of(
                source,
                change.collection,
                change.seen.old.as_ref(),
                change.seen.new.as_ref(),
            ));
        }
        self.changes = changes;
        self.changes.clear();
        self.flush(now);
    }

    /// Tells a change to the transformers that read its collection.
    fn pass(&mut self, change: &InputChange) {
        for stage in &mut self.transformers {
            if stage.transformer.inputs().contains(&change.collection) {
                stage.transformer.change(
                    change.collection,
                    change.seen.old.as_ref(),
                    change.seen.new.as_ref(),
                );
                stage.is_touched = true;
            }
        }
    }

    /// Has transformers produce, and notes which groups changed.
    fn flush(&mut self, now: Instant) {
        for stage in &mut self.transformers {
            if !stage.is_ready {
                stage.is_ready = stage.transformer.inputs().iter().all(|input| self.inputs.is_synced(input));
            }
            if !stage.is_ready || !std::mem::take(&mut stage.is_touched) {
                continue;
            }
            stage.transformer.flush(&mut self.products);
            for (collection, produced) in self.products.0.drain(..) {
                let Some(accumulator) = self.accumulators.get_mut(collection) else { continue };
                let origin = stage.origins.get(collection).copied().unwrap_or(0);
                match produced {
                    Produced::Put(product) => accumulator.put(origin, product, &mut self.numbers),
                    Produced::Remove(name) => accumulator.remove(origin, &name),
                }
                if let Some(group) =
                    self.groups.iter_mut().find(|group| group.plan.collections.contains(&collection))
                {
                    group.events += 1;
                    if group.events == 1 || group.pending.is_pending() {
                        self.counters.on_change.add(1);
                    }
                    if group.is_published && group.pending.delays() {
                        self.counters.timer_resets.add(1);
                    }
                    group.pending.note(now);
                }
            }
        }
        // The first publication waits for everything, and for nothing else.
        for group in self.groups.iter_mut().filter(|group| !group.is_published) {
            group.pending.note(now);
        }
    }

    /// Whether all inputs of a group were complete once.
    fn is_complete(&self, group: &Group) -> bool {
        self.stages(group).all(|stage| stage.is_ready)
    }

    /// When something is to be published; `None` if nothing is.
    pub fn due(&self) -> Option<Instant> {
        let due = self.groups.iter().filter(|group| self.is_complete(group)).filter_map(|group| {
            let due = group.pending.due()?;
            // Nobody has anything yet.
            Some(if group.is_published { due } else { due.min(group.pending.first()?) })
        });
        due.min()
    }

    /// Publishes the groups that are due.
    pub fn publish(&mut self, now: Instant, distributor: &dyn Distributor) {
        let is_due = |group: &Group| group.pending.is_pending() && self.is_complete(group);
        let due: Vec<bool> = self.groups.iter().map(is_due).collect();
        for (group, is_due) in self.groups.iter_mut().zip(due) {
            let is_first = !group.is_published;
            if !is_due || !(is_first || group.pending.due().is_some_and(|due| due <= now)) {
                continue;
            }
            let before = group.pending.reached_max_wait();
            self.counters.published(before, group.events, group.published_at.map(|at| now - at));
            group.pending.clear();
            let mut has_changed = is_first;
            let mut collections: Vec<Arc<Collection>> = Vec::with_capacity(group.plan.collections.len());
            for name in &group.plan.collections {
                let Some(accumulator) = self.accumulators.get_mut(name) else { continue };
                let old = Arc::clone(&accumulator.edition().collection);
                let new = accumulator.publish(&mut self.numbers);
                has_changed |= !Arc::ptr_eq(&old, &new);
                collections.push(new);
            }
            group.events = 0;
            if has_changed {
                group.is_published = true;
                group.published_at = Some(now);
                group.publications += 1;
                distributor.distribute(group.plan.name, Arc::new(Snapshot::of(collections)));
            }
        }
    }

    /// The collections of a source that were not complete since its last start.
    pub fn missing(&self, source: usize) -> Vec<&'static str> {
        self.inputs.missing(source)
    }

    /// Whether all groups were published.
    pub fn is_published(&self) -> bool {
        self.groups.iter().all(|group| group.is_published)
    }

    /// The groups, for operators.
    pub fn groups(&self) -> Vec<GroupState> {
        let state = |group: &Group| GroupState {
            name: group.plan.name,
            is_published: group.is_published,
            published_at: group.published_at,
            pending_events: group.events + self.unused(group),
            publications: group.publications,
            waits_for: match self.is_complete(group) {
                true => Vec::new(),
                false => self.waited_for(group),
            },
            waiting: Vec::new(),
        };
        self.groups.iter().map(state).collect()
    }

    /// The transformers that make a group.
    fn stages<'p>(&'p self, group: &Group) -> impl Iterator<Item = &'p Stage> {
        let makes = |stage: &&Stage| {
            stage.transformer.outputs().iter().any(|name| group.plan.collections.contains(name))
        };
        self.transformers.iter().filter(makes)
    }

    /// The resources that no transformer of a group has used yet, because other inputs are not complete.
    fn unused(&self, group: &Group) -> u64 {
        let inputs = |is_ready: bool| -> BTreeSet<&'static str> {
            let stages = self.stages(group).filter(|stage| stage.is_ready == is_ready);
            stages.flat_map(|stage| stage.transformer.inputs()).copied().collect()
        };
        let (used, waiting) = (inputs(true), inputs(false));
        let waiting = waiting.difference(&used).filter_map(|input| self.inputs.collection(input));
        waiting.map(|overlay| overlay.visible().len() as u64).sum()
    }

    fn waited_for(&self, group: &Group) -> Vec<&'static str> {
        let inputs = self.stages(group).flat_map(|stage| stage.transformer.inputs());
        let mut inputs: Vec<_> = inputs.copied().filter(|input| !self.inputs.is_synced(input)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        inputs
    }

    /// The collections, for operators: published ones with their versions.
    pub fn collections(&self) -> Vec<CollectionState> {
        let state = |(name, accumulator): (&&'static str, &Accumulator)| CollectionState {
            name,
            group: mixer_schema::group_of(name),
            version: accumulator.edition().collection.version().as_ref().into(),
            published: accumulator.edition().collection.content().len(),
            resources: accumulator.len(),
        };
        self.accumulators.iter().map(state).collect()
    }

    /// What all sources have of a collection, by name, with the version of each: for tests and introspection.
    pub fn input_names(&self, collection: &str) -> Vec<(Box<str>, Box<str>)> {
        let overlay = self.inputs.collection(collection).into_iter();
        let entries = overlay.flat_map(|overlay| overlay.visible().iter());
        entries.map(|entry| (entry.resource.name.clone(), entry.resource.version.clone())).collect()
    }
}
