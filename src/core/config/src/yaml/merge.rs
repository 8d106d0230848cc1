//! Builds mappings, with merge keys.

use foldhash::{HashMap, HashSet};

use super::{Node, NodeKind, Span, YamlError};
use crate::MappingEntry;

/// Mappings of at least this many entries are indexed by hash.
const INDEXED: usize = 16;

/// A key that a mapping had already.
pub(super) struct Duplicate {
    pub(super) key: String,
    /// Whether the value is the same, too.
    pub(super) identical: bool,
}

/// A key of a mapping whose value a merge key replaced by another one.
pub(super) struct Overridden {
    pub(super) key: String,
    pub(super) span: Span,
}

/// The entries of a mapping so far.
#[derive(Default)]
pub(super) struct MappingBuilder {
    entries: Vec<MappingEntry>,
    /// Seeded: files choose the keys.
    index: HashMap<Box<str>, usize>,
    /// The positions of the entries that are those of a merge key.
    merged: HashSet<usize>,
}

impl MappingBuilder {
    fn position(&mut self, key: &str) -> Option<usize> {
        if self.entries.len() < INDEXED {
            return self.entries.iter().position(|e| &*e.key == key);
        }
        if self.index.is_empty() {
            self.index = self.entries.iter().enumerate().map(|(i, e)| (e.key.clone(), i)).collect();
        }
        self.index.get(key).copied()
    }

    /// Sets a key; returns its position.
    fn put(&mut self, entry: MappingEntry) -> usize {
        if let Some(at) = self.position(&entry.key)
            && let Some(old) = self.entries.get_mut(at)
        {
            *old = entry;
            return at;
        }
        let at = self.entries.len();
        if at >= INDEXED {
            self.index.insert(entry.key.clone(), at);
        }
        self.entries.push(entry);
        at
    }

    /// Sets a key. One that only a merge key has set is no duplicate: merge keys are defaults.
    pub(super) fn insert(&mut self, key: Box<str>, key_span: Span, value: Node) -> Option<Duplicate> {
        let before = self.position(&key).filter(|at| !self.merged.contains(at));
        let duplicate = before
            .and_then(|at| self.entries.get(at))
            .map(|before| Duplicate { key: key.to_string(), identical: before.value.same_value(&value) });
        let at = self.put(MappingEntry { key, key_span, value });
        self.merged.remove(&at);
        duplicate
    }

    /// Merges the value of a `<<` key. As in yaml.v2, it overrides entries before it, and entries after it override it. YAML 1.1 has
    /// the entries of the mapping win wherever they are: those that lose another value are returned.
    pub(super) fn merge(&mut self, value: Node, aliased: bool) -> Result<Vec<Overridden>, YamlError> {
        let invalid = || YamlError::yaml("map merge requires map or sequence of maps as the value");
        let mut overridden = Vec::new();
        match value.kind {
            NodeKind::Mapping(entries) => self.merge_entries(entries, &mut overridden),
            NodeKind::Sequence(items) if !aliased => {
                for item in items.into_iter().rev() {
                    let NodeKind::Mapping(entries) = item.kind else { return Err(invalid()) };
                    self.merge_entries(entries, &mut overridden);
                }
            }
            _ => return Err(invalid()),
        }
        Ok(overridden)
    }

    fn merge_entries(&mut self, entries: Vec<MappingEntry>, overridden: &mut Vec<Overridden>) {
        for entry in entries {
            let before = self.position(&entry.key).filter(|at| !self.merged.contains(at));
            if let Some(before) = before.and_then(|at| self.entries.get(at)) {
                if before.value.same_value(&entry.value) {
                    continue;
                }
                overridden.push(Overridden { key: before.key.to_string(), span: before.key_span });
            }
            let at = self.put(entry);
            self.merged.insert(at);
        }
    }

    pub(super) fn finish(mut self) -> Vec<MappingEntry> {
        // Most mappings have fewer entries than a vector that grows has places.
        self.entries.shrink_to_fit();
        self.entries
    }
}
