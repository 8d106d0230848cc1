//! Which attributes exist and of which type they are.

use rustc_hash::FxHashMap;

use super::ValueType;
use super::dictionary::GLOBAL_WORDS;

/// The dense number of an attribute in its [`Vocabulary`]. Slots are numbered in the byte order of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u32);

impl SlotId {
    /// The slot as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Attributes that every vocabulary has a slot for, declared or not, because the dispatcher reads them.
const WELL_KNOWN: [&str; 3] = ["context.reporter.kind", "destination.namespace", "source.namespace"];

/// All attributes that expressions may name, with their types, plus the few that the dispatcher itself reads.
#[derive(Debug)]
pub struct Vocabulary {
    names: Vec<Box<str>>,
    types: Vec<Option<ValueType>>,
    by_name: FxHashMap<Box<[u8]>, SlotId>,
    by_global_word: Vec<Option<SlotId>>,
    well_known: [SlotId; 3],
}

impl Vocabulary {
    /// Starts an empty vocabulary.
    pub fn builder() -> VocabularyBuilder {
        VocabularyBuilder::default()
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Always false: the well-known slots exist in every vocabulary.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The slot of an attribute, declared or well known.
    pub fn slot(&self, name: &[u8]) -> Option<SlotId> {
        self.by_name.get(name).copied()
    }

    /// The slot of a word of the global dictionary. Cost: one array look-up.
    pub fn slot_of_global_word(&self, index: usize) -> Option<SlotId> {
        self.by_global_word.get(index).copied().flatten()
    }

    /// The name of a slot; empty for a slot of another vocabulary.
    pub fn name(&self, slot: SlotId) -> &str {
        self.names.get(slot.index()).map_or("", |n| n)
    }

    /// The declared type of a slot; `None` for a well-known attribute that no manifest declares.
    pub fn value_type(&self, slot: SlotId) -> Option<ValueType> {
        self.types.get(slot.index()).copied().flatten()
    }

    /// Slot of `context.reporter.kind`.
    pub fn reporter_kind(&self) -> SlotId {
        self.well_known[0]
    }

    /// Slot of `destination.namespace`.
    pub fn destination_namespace(&self) -> SlotId {
        self.well_known[1]
    }

    /// Slot of `source.namespace`.
    pub fn source_namespace(&self) -> SlotId {
        self.well_known[2]
    }

    /// Every declared attribute with its type, in name order.
    pub fn declared(&self) -> impl Iterator<Item = (&str, ValueType)> {
        self.names.iter().zip(&self.types).filter_map(|(name, t)| t.map(|t| (&**name, t)))
    }
}

/// Collects attribute declarations; a later declaration of a name replaces an earlier one.
#[derive(Debug, Default)]
pub struct VocabularyBuilder {
    types: std::collections::BTreeMap<Box<str>, ValueType>,
}

impl VocabularyBuilder {
    /// Declares an attribute; returns the type that it had before.
    pub fn declare(&mut self, name: &str, value_type: ValueType) -> Option<ValueType> {
        self.types.insert(name.into(), value_type)
    }

    /// Numbers the slots.
    pub fn build(self) -> Vocabulary {
        let mut types: std::collections::BTreeMap<Box<str>, Option<ValueType>> =
            self.types.into_iter().map(|(n, t)| (n, Some(t))).collect();
        for name in WELL_KNOWN {
            types.entry(name.into()).or_insert(None);
        }
        let by_name: FxHashMap<Box<[u8]>, SlotId> =
            types.keys().zip(0u32..).map(|(n, i)| (n.as_bytes().into(), SlotId(i))).collect();
        let by_global_word = GLOBAL_WORDS.iter().map(|w| by_name.get(w.as_bytes()).copied()).collect();
        let well_known = WELL_KNOWN.map(|n| by_name.get(n.as_bytes()).copied().unwrap_or(SlotId(0)));
        let (names, types) = types.into_iter().unzip();
        Vocabulary { names, types, by_name, by_global_word, well_known }
    }
}
