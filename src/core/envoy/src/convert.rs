//! Texts that become attributes: context extensions, gRPC metadata, custom tags, descriptor entries, mapped headers.

use super::attributes::Attributes;
use mixer_attribute::{Value, typed_text};

/// Beginnings of names that are attributes even if no manifest declares them.
const PREFIXES: [&[u8]; 11] = [
    b"source.",
    b"destination.",
    b"origin.",
    b"request.",
    b"response.",
    b"context.",
    b"connection.",
    b"api.",
    b"check.",
    b"quota.",
    b"rbac.",
];

/// What became of a key and its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is an attribute now.
    Set,
    /// It names an attribute, but the text is no value of its type.
    Unconvertible,
    /// It names no attribute.
    Other,
}

/// Sets the attribute that `key` names, if it names one.
pub(super) fn set_by_key<'a>(key: &'a [u8], text: &'a [u8], out: &mut Attributes<'a>) -> Taken {
    let vocabulary = out.vocabulary();
    let slot = vocabulary.slot(key);
    let declared = slot.and_then(|slot| vocabulary.value_type(slot));
    if let Some(value_type) = declared {
        return match typed_text(text, value_type, out.arena()) {
            Some(value) => {
                out.set_slot(key, slot, value);
                Taken::Set
            }
            None => Taken::Unconvertible,
        };
    }
    let is_attribute = PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    if !is_attribute {
        return Taken::Other;
    }
    out.set_slot(key, slot, Value::String(text));
    Taken::Set
}
