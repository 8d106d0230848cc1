//! The attributes that exist, with their types.

use super::dictionary::{GLOBAL_WORDS, global_index};
use super::{SlotId, ValueType};

mod index;

use index::NameIndex;

/// Attributes with a slot in every vocabulary, declared or not, because the dispatcher reads them.
const WELL_KNOWN: [&str; 3] = ["context.reporter.kind", "destination.namespace", "source.namespace"];

/// The attribute with the name in the verified client certificate. If the vocabulary declares it, the server sets it where client
/// certificates are requested, and removes what the client says of itself where they are not.
pub const CALLER_PRINCIPAL: &str = "context.reporter.principal";

/// All attributes that expressions may name, with their types, plus the few that the dispatcher itself reads.
#[derive(Debug)]
pub struct Vocabulary {
    names: Vec<Box<str>>,
    types: Vec<Option<ValueType>>,
    /// Whether the attribute is built in, not declared by a manifest.
    built_in: Vec<bool>,
    by_name: NameIndex,
    by_global_word: Vec<Option<SlotId>>,
    global_words: Vec<Option<u32>>,
    well_known: [SlotId; 3],
    caller_principal: Option<SlotId>,
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

    /// Always false: every vocabulary has the well-known slots.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The slot of an attribute, declared or well known. Cost: one hash of the length and both ends, one comparison.
    pub fn slot(&self, name: &[u8]) -> Option<SlotId> {
        self.by_name.find(name, |slot| self.name(SlotId(slot)).as_bytes()).map(SlotId)
    }

    /// The index of the name of a slot in the global dictionary.
    pub(crate) fn global_word_of(&self, slot: SlotId) -> Option<u32> {
        self.global_words.get(slot.index()).copied().flatten()
    }

    /// The slot of a word of the global dictionary. Cost: one array look-up.
    pub(crate) fn slot_of_global_word(&self, index: usize) -> Option<SlotId> {
        self.by_global_word.get(index).copied().flatten()
    }

    /// The name of a slot; empty for an unknown slot.
    pub fn name(&self, slot: SlotId) -> &str {
        self.names.get(slot.index()).map_or("", |n| n)
    }

    /// The declared type of a slot; `None` for a well-known attribute that no manifest declares.
    pub fn value_type(&self, slot: SlotId) -> Option<ValueType> {
        self.types.get(slot.index()).copied().flatten()
    }

    /// The slot of `context.reporter.kind`.
    pub fn reporter_kind(&self) -> SlotId {
        self.well_known[0]
    }

    /// The slot of `destination.namespace`.
    pub fn destination_namespace(&self) -> SlotId {
        self.well_known[1]
    }

    /// The slot of `source.namespace`.
    pub fn source_namespace(&self) -> SlotId {
        self.well_known[2]
    }

    /// The slot of [`CALLER_PRINCIPAL`], if it is declared.
    pub fn caller_principal(&self) -> Option<SlotId> {
        self.caller_principal
    }

    /// Whether an attribute with a type, declared or built in, has a name that begins with `name` and a dot. Cost: a binary search.
    pub fn has_below(&self, name: &str) -> bool {
        let prefix = format!("{name}.");
        let first = self.names.partition_point(|known| **known < *prefix);
        let below = self.names.iter().zip(&self.types).skip(first);
        below.take_while(|(known, _)| known.starts_with(&prefix)).any(|(_, value_type)| value_type.is_some())
    }

    /// All attributes that have a type, declared or built in, in name order.
    pub fn typed(&self) -> impl Iterator<Item = (&str, ValueType)> {
        self.names.iter().zip(&self.types).filter_map(|(name, value_type)| Some((&**name, (*value_type)?)))
    }

    /// All declared attributes with their types, in name order, without built-in attributes.
    pub fn declared(&self) -> impl Iterator<Item = (&str, ValueType)> {
        let all = self.names.iter().zip(&self.types).zip(&self.built_in);
        all.filter_map(|((name, t), built_in)| t.filter(|_| !built_in).map(|t| (&**name, t)))
    }
}

/// Collects attribute declarations; a later declaration of a name replaces an earlier one.
#[derive(Debug, Default)]
pub struct VocabularyBuilder {
    types: std::collections::BTreeMap<Box<str>, ValueType>,
    built_in: std::collections::BTreeMap<Box<str>, ValueType>,
}

impl VocabularyBuilder {
    /// Declares an attribute; returns its previous type.
    pub fn declare(&mut self, name: &str, value_type: ValueType) -> Option<ValueType> {
        self.types.insert(name.into(), value_type)
    }

    /// Adds an attribute that needs no declaration; a declaration overrides its type.
    pub fn declare_built_in(&mut self, name: &str, value_type: ValueType) {
        self.built_in.insert(name.into(), value_type);
    }

    /// Assigns the slots.
    pub fn build(self) -> Vocabulary {
        let mut types: std::collections::BTreeMap<Box<str>, (Option<ValueType>, bool)> =
            self.types.into_iter().map(|(n, t)| (n, (Some(t), false))).collect();
        for (name, value_type) in self.built_in {
            types.entry(name).or_insert((Some(value_type), true));
        }
        for name in WELL_KNOWN {
            types.entry(name.into()).or_insert((None, false));
        }
        let (names, types): (Vec<Box<str>>, Vec<_>) = types.into_iter().unzip();
        let (types, built_in): (Vec<_>, Vec<_>) = types.into_iter().unzip();
        let by_name = NameIndex::new(names.iter().map(|name| name.as_bytes()));
        let find = |name: &str| {
            by_name
                .find(name.as_bytes(), |slot| names.get(slot as usize).map_or(&[], |n| n.as_bytes()))
                .map(SlotId)
        };
        let by_global_word = GLOBAL_WORDS.iter().map(|word| find(word)).collect();
        let well_known = WELL_KNOWN.map(|name| find(name).unwrap_or(SlotId(0)));
        let caller_principal = find(CALLER_PRINCIPAL);
        let global_words = names.iter().map(|name| global_index(name.as_bytes())).collect();
        Vocabulary {
            names,
            types,
            built_in,
            by_name,
            by_global_word,
            global_words,
            well_known,
            caller_principal,
        }
    }
}
