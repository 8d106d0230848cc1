//! The dictionaries of one message: index to word, and word to slot.

use bumpalo::Bump;

use crate::{GLOBAL_WORDS, SlotId, Vocabulary};

/// Message words and the attributes they name. Built once for all records of a report that share default words.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    texts: &'a [&'a [u8]],
    /// The attribute that a word names, for the last occurrence of a text. Empty when no word names an attribute.
    slots: &'a [Option<SlotId>],
}

impl<'a> Words<'a> {
    /// Resolves the attributes that the words name. Cost: one hash per word.
    pub fn new(texts: &'a [&'a [u8]], vocabulary: &Vocabulary, arena: &'a Bump) -> Self {
        let mut named = false;
        let slots = arena.alloc_slice_fill_iter(texts.iter().map(|text| {
            let slot = vocabulary.slot(text);
            named |= slot.is_some();
            slot
        }));
        if !named {
            return Self { texts, slots: &[] };
        }
        // Of a repeated word only the last occurrence names an attribute.
        let seen = arena.alloc_slice_fill_copy(vocabulary.len().div_ceil(64), 0u64);
        for place in slots.iter_mut().rev() {
            if let Some(slot) = *place
                && let Some(bits) = seen.get_mut(slot.index() / 64)
            {
                let bit = 1 << (slot.index() % 64);
                if *bits & bit != 0 {
                    *place = None;
                }
                *bits |= bit;
            }
        }
        Self { texts, slots }
    }

    /// Words without slots: the caller resolves them.
    pub(crate) fn of_names(texts: &'a [&'a [u8]]) -> Self {
        Self { texts, slots: &[] }
    }

    /// No message words.
    pub const fn none() -> Self {
        Self { texts: &[], slots: &[] }
    }

    /// The texts.
    pub fn texts(&self) -> &'a [&'a [u8]] {
        self.texts
    }

    /// The word of an index: a global word for 0 and above, a message word below. `None` if there is none.
    #[inline]
    pub fn resolve(&self, index: i32) -> Option<&'a [u8]> {
        match usize::try_from(index) {
            Ok(global) => GLOBAL_WORDS.get(global).map(|word| word.as_bytes()),
            // -1 is word 0; the complement cannot overflow.
            Err(_) => self.texts.get(usize::try_from(!index).ok()?).copied(),
        }
    }

    /// The attributes that message words name; these words shadow the global words of the same name.
    pub(crate) fn named(&self) -> impl Iterator<Item = SlotId> + 'a {
        self.slots.iter().copied().flatten()
    }

    /// The attribute that an index names, without regard to shadowing.
    #[inline]
    pub(crate) fn slot(&self, index: i32, vocabulary: &Vocabulary) -> Option<SlotId> {
        match usize::try_from(index) {
            Ok(global) => vocabulary.slot_of_global_word(global),
            Err(_) => self.slots.get(usize::try_from(!index).ok()?).copied().flatten(),
        }
    }
}
