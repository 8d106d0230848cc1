//! Builds mappings, with merge keys.

use foldhash::HashMap;

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

/// The entries of a mapping so far.
#[derive(Default)]
pub(super) struct MappingBuilder {
    entries: Vec<MappingEntry>,
    /// Seeded: files choose the keys.
    index: HashMap<Box<str>, usize>,
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

    fn put(&mut self, entry: MappingEntry) -> bool {
        if let Some(old) = self.position(&entry.key).and_then(|i| self.entries.get_mut(i)) {
            *old = entry;
            return true;
        }
        if self.entries.len() >= INDEXED {
            self.index.insert(entry.key.clone(), self.entries.len());
        }
        self.entries.push(entry);
        false
    }

    /// Sets a key.
    pub(super) fn insert(&mut self, key: Box<str>, key_span: Span, value: Node) -> Option<Duplicate> {
        let before = self.position(&key).and_then(|at| self.entries.get(at));
        let duplicate = before
            .map(|before| Duplicate { key: key.to_string(), identical: before.value.same_value(&value) });
        self.put(MappingEntry { key, key_span, value });
        duplicate
    }

    /// Merges the value of a `<<` key. As in yaml.v2, it overrides entries before it, and entries after it override it.
    pub(super) fn merge(&mut self, value: Node, aliased: bool) -> Result<(), YamlError> {
        let invalid = || YamlError::yaml("map merge requires map or sequence of maps as the value");
        match value.kind {
            NodeKind::Mapping(entries) => {
                for entry in entries {
                    self.put(entry);
                }
            }
            NodeKind::Sequence(items) if !aliased => {
                for item in items.into_iter().rev() {
                    let NodeKind::Mapping(entries) = item.kind else { return Err(invalid()) };
                    for entry in entries {
                        self.put(entry);
                    }
                }
            }
            _ => return Err(invalid()),
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<MappingEntry> {
        self.entries
    }
}
