//! History of published snapshots, stored as differences.
//!
//! An entry holds the resources added, removed or changed by one snapshot, in their old and new version. Any two entries can be
//! compared, and memory is proportional to the changes, not to the configuration.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::differences::ResourceChange;
use crate::snapshot::SnapshotId;
use mixer_base::time::Moment;
use mixer_config::{RawResource, ResourceKey};

/// Maximum number of entries.
pub const MAX_ENTRIES: usize = 100;
/// Maximum number of changed resources per entry.
const MAX_CHANGES: usize = 2_000;
/// Maximum bytes of resources over all entries; the latest entry is always kept.
const MAX_BYTES: usize = 16 << 20;

/// Counts of one published configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Rules in effect.
    pub rules: usize,
    /// Handlers built.
    pub new_handlers: u64,
    /// Handlers reused.
    pub reused_handlers: u64,
    /// Handlers that failed to build.
    pub failed_handlers: u64,
    /// Errors in the configuration.
    pub errors: usize,
    /// Warnings.
    pub warnings: usize,
}

/// One published snapshot.
#[derive(Debug, Clone)]
pub struct HistoryEntry {
    /// Its id.
    pub id: SnapshotId,
    /// When it was published.
    pub published: Moment,
    /// Time from the start of the build to publication.
    pub took: Duration,
    /// Whether it serves; otherwise the one before it went on, or none did.
    pub is_applied: bool,
    /// Number of resources added, removed or changed.
    pub changed: usize,
    /// Its counts.
    pub tally: Tally,
    /// The changes, by key; truncated to a maximum number.
    pub changes: Vec<ResourceChange>,
}

/// The most recently published snapshots.
#[derive(Debug, Default)]
pub struct History {
    entries: Mutex<VecDeque<Arc<HistoryEntry>>>,
}

impl HistoryEntry {
    /// An entry published now. `changed` is the number of changes; the first snapshot counts its resources and lists none.
    pub(super) fn new(
        id: SnapshotId,
        took: Duration,
        changed: usize,
        mut changes: Vec<ResourceChange>,
        tally: Tally,
    ) -> Self {
        changes.truncate(MAX_CHANGES);
        Self { id, published: Moment::now(), took, is_applied: true, changed, tally, changes }
    }

    /// Whether the list of changes is truncated.
    pub fn is_cut(&self) -> bool {
        self.changes.len() < self.changed
    }

    fn bytes(&self) -> usize {
        let size = |resource: &Option<Arc<RawResource>>| resource.as_ref().map_or(0, |r| r.origin.text.len());
        self.changes.iter().map(|c| size(&c.before) + size(&c.after)).sum()
    }
}

impl History {
    /// Adds the newest entry and evicts the oldest ones beyond the limits.
    pub(super) fn push(&self, entry: HistoryEntry) {
        let mut entries = self.entries.lock();
        entries.push_back(Arc::new(entry));
        let mut bytes: usize = entries.iter().map(|e| e.bytes()).sum();
        while entries.len() > MAX_ENTRIES || (bytes > MAX_BYTES && entries.len() > 1) {
            bytes -= entries.pop_front().map_or(0, |e| e.bytes());
        }
    }

    /// Counts the problems of the newest entry again, once its configuration is examined.
    pub(super) fn recount(&self, errors: usize, warnings: usize) {
        if let Some(latest) = self.entries.lock().back_mut()
            && (latest.tally.errors, latest.tally.warnings) != (errors, warnings)
        {
            let tally = &mut Arc::make_mut(latest).tally;
            (tally.errors, tally.warnings) = (errors, warnings);
        }
    }

    /// All entries, newest first.
    pub fn list(&self) -> Vec<Arc<HistoryEntry>> {
        self.entries.lock().iter().rev().cloned().collect()
    }

    /// The newest entry.
    pub fn latest(&self) -> Option<Arc<HistoryEntry>> {
        self.entries.lock().back().cloned()
    }

    /// The changes from the snapshot `from` to the later snapshot `to`, by key. `None` when one of the two is not in the history.
    pub fn between(&self, from: SnapshotId, to: SnapshotId) -> Option<Vec<ResourceChange>> {
        let entries = self.entries.lock();
        let is_known = |id: SnapshotId| entries.iter().any(|e| e.id == id);
        if from > to || !is_known(from) || !is_known(to) {
            return None;
        }
        let steps: Vec<Arc<HistoryEntry>> =
            entries.iter().filter(|e| e.id > from && e.id <= to).cloned().collect();
        drop(entries);
        let mut net: BTreeMap<ResourceKey, ResourceChange> = BTreeMap::new();
        for step in steps {
            for change in &step.changes {
                match net.get_mut(&change.key) {
                    Some(earlier) => earlier.after.clone_from(&change.after),
                    None => drop(net.insert(change.key.clone(), change.clone())),
                }
            }
        }
        let revision = |r: &Option<Arc<RawResource>>| r.as_ref().map(|r| r.revision);
        Some(net.into_values().filter(|c| revision(&c.before) != revision(&c.after)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::differences::{Resources, differences};
    use super::*;
    use mixer_config::{Annotations, Envelope, Origin};

    fn resource(name: &str, revision: u64) -> Arc<RawResource> {
        let key = ResourceKey { kind: "rule".into(), namespace: "ns".into(), name: name.into() };
        let text = format!("text {revision}");
        let origin = Origin { file: "f".into(), text: text.into(), first_line: 1 };
        Arc::new(RawResource::new(key, Annotations::default(), Envelope::default(), origin, revision, None))
    }

    fn state(list: &[(&str, u64)]) -> Resources {
        list.iter().map(|(name, revision)| resource(name, *revision)).collect()
    }

    fn publish(history: &History, id: u64, before: Option<&Resources>, after: &Resources) {
        let changes = before.map(|before| differences(before, after)).unwrap_or_default();
        let changed = if before.is_some() { changes.len() } else { after.len() };
        history.push(HistoryEntry::new(SnapshotId(id), Duration::ZERO, changed, changes, Tally::default()));
    }

    fn summary(changes: &[ResourceChange]) -> Vec<(String, Option<u64>, Option<u64>)> {
        let revision = |r: &Option<Arc<RawResource>>| r.as_ref().map(|r| r.revision);
        changes.iter().map(|c| (c.key.name.to_string(), revision(&c.before), revision(&c.after))).collect()
    }

    #[test]
    fn any_two_snapshots_are_compared() {
        let states = [
            state(&[("a", 1), ("b", 1)]),
            state(&[("a", 2), ("b", 1)]),
            state(&[("a", 2), ("c", 1)]),
            state(&[("a", 1), ("c", 1)]),
        ];
        let history = History::default();
        let mut before = None;
        for (index, after) in states.iter().enumerate() {
            publish(&history, index as u64 + 1, before, after);
            before = Some(after);
        }
        let between = |from, to| history.between(SnapshotId(from), SnapshotId(to)).map(|c| summary(&c));
        assert_eq!(between(1, 2), Some(vec![("a".to_owned(), Some(1), Some(2))]));
        assert_eq!(
            between(2, 3),
            Some(vec![("b".to_owned(), Some(1), None), ("c".to_owned(), None, Some(1))])
        );
        assert_eq!(
            between(1, 4),
            Some(vec![("b".to_owned(), Some(1), None), ("c".to_owned(), None, Some(1))]),
            "the change of a was reverted"
        );
        assert_eq!(between(2, 2), Some(vec![]));
        assert_eq!(between(3, 2), None);
        assert_eq!(between(0, 2), None, "unknown snapshot");
        assert_eq!(history.list().first().map(|e| (e.id.0, e.changed)), Some((4, 1)));
        assert_eq!(
            history.list().last().map(|e| (e.changed, e.changes.len())),
            Some((2, 0)),
            "the first entry lists no changes"
        );
    }

    #[test]
    fn the_oldest_entries_are_evicted() {
        let history = History::default();
        let states = [state(&[("a", 1)]), state(&[("a", 2)])];
        for id in 0..500 {
            publish(&history, id, Some(&states[id as usize % 2]), &states[(id as usize + 1) % 2]);
        }
        assert_eq!(history.list().len(), MAX_ENTRIES);
        assert_eq!(history.latest().unwrap().id.0, 499);
    }
}
