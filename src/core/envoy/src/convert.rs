//! Attributes from keys and text values: context extensions, gRPC metadata, custom tags, descriptor entries.

use bumpalo::collections::Vec as ArenaVec;

use super::attributes::{Attributes, Known};
use super::known::is_standard;
use mixer_attribute::{Value, typed_text};

/// The outcome of setting an attribute by its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyOutcome {
    /// The attribute is set.
    Set,
    /// The text is no value of the attribute's type.
    Unconvertible,
    /// The key names no attribute.
    NotAnAttribute,
}

/// Sets the attribute that `key` names.
pub(super) fn set_by_key<'a>(key: &'a [u8], text: &'a [u8], out: &mut Attributes<'a>) -> KeyOutcome {
    let vocabulary = out.vocabulary();
    let slot = vocabulary.slot(key);
    let declared = slot.and_then(|slot| vocabulary.value_type(slot));
    if let Some(value_type) = declared {
        return match typed_text(text, value_type, out.arena()) {
            Some(value) => {
                out.set_slot(key, slot, value);
                KeyOutcome::Set
            }
            None => KeyOutcome::Unconvertible,
        };
    }
    if !is_standard(key) {
        return KeyOutcome::NotAnAttribute;
    }
    out.set_slot(key, slot, Value::String(text));
    KeyOutcome::Set
}

/// Sets the attributes that the keys name, and `others` to the map of all other entries. Returns the number of unconvertible values.
pub(super) fn set_all_by_key<'a>(
    entries: &[(&'a [u8], &'a [u8])],
    others: Known,
    out: &mut Attributes<'a>,
) -> u32 {
    let mut failures = 0;
    let mut rest = ArenaVec::new_in(out.arena());
    for (key, value) in entries {
        match set_by_key(key, value, out) {
            KeyOutcome::Set => {}
            KeyOutcome::Unconvertible => failures += 1,
            KeyOutcome::NotAnAttribute => rest.push((*key, *value)),
        }
    }
    out.map(others, rest);
    failures
}
