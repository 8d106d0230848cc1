//! The attributes of a recorded denial: which come first where there is no room for all, and what is lost of them.

use std::borrow::Cow;

use super::{DeniedBy, MAX_ATTRIBUTES, MAX_VALUE, SLOT};
use crate::snapshot::Condition as When;
use mixer_attribute::text::text;
use mixer_attribute::{AttributeBag, Condition, OwnedAttributes, OwnedValue, SlotId, Value};
use mixer_base::secrets::{MASKED, SecretNames, Window, is_secret, mask_text, mask_value};

/// Most bytes of the names of what an answer depends on.
const MAX_REFERENCED: usize = 768;
/// Ends each of them.
const END: u8 = 0;
/// Most bytes of an encoded attribute or entry beside its texts: tags, lengths and the indices of words.
const OVERHEAD: usize = 48;
/// Most bytes of an encoded value that is no text.
const NUMBER: usize = 32;
/// Most bytes of values that are looked at for a record.
const MAX_LOOKED_AT: usize = 4 * SLOT;
/// A sign that a value goes on.
const MORE: char = '…';

/// As much of a request as there is room for.
pub(super) struct Fitting {
    /// An encoded CheckRequest.
    pub(super) request: Vec<u8>,
    /// How many attributes and entries it lacks.
    pub(super) left_out: usize,
}

/// The attributes of a denial, for display.
#[derive(Default)]
pub(super) struct Listed {
    /// Names and values, sorted.
    pub(super) attributes: Vec<(String, String)>,
    /// The names of those that are cut.
    pub(super) cut: Vec<String>,
    /// The names of those that are masked.
    pub(super) masked: Vec<String>,
    /// How many are not listed.
    pub(super) left_out: usize,
}

/// An attribute, or an entry of a map.
struct Entry<'a> {
    attribute: &'a [u8],
    key: Option<&'a [u8]>,
    value: Value<'a>,
}

impl Entry<'_> {
    /// `name` or `name[key]`.
    fn name(&self) -> String {
        name_of(&String::from_utf8_lossy(self.attribute), self.key)
    }

    /// Whether an answer depends on it: names of maps stand for all of their entries.
    fn is_one_of(&self, referenced: &[u8]) -> bool {
        let mut names = referenced.split(|byte| *byte == END);
        names.any(|one| match (one.strip_prefix(self.attribute), self.key) {
            (Some(b""), _) => !one.is_empty(),
            (Some([b'[', key @ .., b']']), Some(own)) => key == own,
            _ => false,
        })
    }

    /// Whether its name is that of a secret.
    fn is_secret(&self, secrets: &SecretNames) -> bool {
        let is_named = |name: &[u8]| is_secret(&String::from_utf8_lossy(name));
        secrets.is_secret(&String::from_utf8_lossy(self.attribute)) || self.key.is_some_and(is_named)
    }

    /// Bytes of its value, or most of them.
    fn len(&self) -> usize {
        match self.value {
            Value::String(bytes) | Value::Bytes(bytes) => bytes.len(),
            _ => NUMBER,
        }
    }

    /// The first bytes of its value as they may be recorded; `None` if they are not looked at. At most `left` bytes are those of a value that is
    /// whole; others are shown in part if the answer depends on them.
    fn recorded(&self, secrets: &SecretNames, left: usize, is_referenced: bool) -> Option<OwnedValue> {
        let whole = self.len() <= left;
        let text = match self.value {
            _ if self.len() > 0 && self.is_secret(secrets) => MASKED.to_owned(),
            Value::String(bytes) if whole || is_referenced => {
                let most = if whole { left } else { MAX_VALUE * size_of::<char>() };
                let shown = Window::of(bytes, most).masked();
                match shown.goes_on || shown.text.len() > left {
                    true if is_referenced => truncated(shown.text, shown.goes_on),
                    true => return None,
                    false => shown.text,
                }
            }
            value if whole => match mask_text(&text(value).to_string()) {
                Cow::Borrowed(_) => return Some(value.into()),
                Cow::Owned(masked) => masked,
            },
            _ => return None,
        };
        Some(text.as_str().into())
    }

    /// Its value as it may be shown, and whether a part of it is masked.
    fn masked(&self, secrets: &SecretNames) -> (String, bool) {
        let attribute = String::from_utf8_lossy(self.attribute);
        let plain = match self.value {
            // Bytes of maps are texts, not addresses.
            Value::String(bytes) => String::from_utf8_lossy(bytes),
            value => Cow::Owned(text(value).to_string()),
        };
        let shown = match self.key {
            Some(key) if !secrets.is_secret(&attribute) => {
                mask_value(&String::from_utf8_lossy(key), &plain).into_owned()
            }
            _ => secrets.mask_value(&attribute, &plain).into_owned(),
        };
        let is_masked = shown != plain;
        (shown, is_masked)
    }
}

/// `attribute`, or `attribute[key]` of an entry. The name of an attribute that has a bracket itself, which no declared one has, is in quotes:
/// whoever sends it cannot have it taken for an entry.
fn name_of(attribute: &str, key: Option<&[u8]>) -> String {
    let attribute = match attribute.contains('[') || attribute.starts_with('"') {
        true => Cow::Owned(format!("{attribute:?}")),
        false => Cow::Borrowed(attribute),
    };
    match key {
        Some(key) => format!("{attribute}[{}]", String::from_utf8_lossy(key)),
        None => attribute.into_owned(),
    }
}

/// The attributes of a bag, and the entries of its maps.
fn entries<'a>(bag: &AttributeBag<'a>) -> Vec<Entry<'a>> {
    let mut all = Vec::new();
    for named in bag.all() {
        match named.value {
            Some(Value::StringMap(map)) => all.extend(map.entries.iter().map(|&(key, value)| Entry {
                attribute: named.name,
                key: Some(key),
                value: Value::String(value),
            })),
            Some(value) => all.push(Entry { attribute: named.name, key: None, value }),
            None => {}
        }
    }
    all
}

/// The names of the attributes and entries that a refusal depends on: what was read for it, and what the condition of its rule may read, which is
/// all that is known of an answer from a cache. Within [`MAX_REFERENCED`] bytes.
pub(super) fn referenced(by: DeniedBy<'_>, bag: &AttributeBag<'_>) -> Vec<u8> {
    let mut encoded: Vec<u8> = Vec::new();
    let mut add = |slot: SlotId, key: Option<&[u8]>| {
        let name = bag.vocabulary().name(slot).as_bytes();
        if encoded.len() + name.len() + key.map_or(0, |key| key.len() + 2) >= MAX_REFERENCED {
            return;
        }
        let name = match key {
            Some(key) => [name, b"[", key, b"]"].concat(),
            None => name.to_vec(),
        };
        if !encoded.split(|byte| *byte == END).any(|known| known == name) {
            encoded.extend(name);
            encoded.push(END);
        }
    };
    if let DeniedBy::Rule(refuser) = by
        && let When::When(program) = &refuser.rule().condition
    {
        program.reads().into_iter().for_each(|read| add(read.slot, read.key));
    }
    let references = bag.references();
    let present = references.iter().filter(|reference| reference.condition == Condition::Exact);
    present.for_each(|reference| add(reference.slot, reference.key));
    encoded
}

/// The attributes for which there is room, those that the answer depends on first, then short ones. Secrets are masked. `None` if there are none.
pub(super) fn fitting(
    bag: &AttributeBag<'_>,
    referenced: &[u8],
    secrets: &SecretNames,
    mut room: usize,
) -> Option<Fitting> {
    let all = entries(bag);
    let count = all.len();
    let mut ranked: Vec<(bool, Entry<'_>)> =
        all.into_iter().map(|entry| (entry.is_one_of(referenced), entry)).collect();
    ranked.sort_by_key(|(is_referenced, entry)| (!is_referenced, entry.len()));
    let mut kept = OwnedAttributes::new();
    let mut taken = 0;
    // The tag and the length of the attributes.
    room = room.saturating_sub(OVERHEAD);
    // What is masked takes less room than it has bytes that are looked at.
    let mut to_look_at = MAX_LOOKED_AT;
    for (is_referenced, entry) in &ranked {
        let names = entry.attribute.len() + entry.key.map_or(0, <[u8]>::len) + OVERHEAD;
        let left = room.saturating_sub(names);
        if left == 0 || to_look_at == 0 {
            continue;
        }
        let is_looked_at = entry.len() <= left || *is_referenced;
        to_look_at = to_look_at.saturating_sub(names + if is_looked_at { entry.len().min(SLOT) } else { 0 });
        let Some(value) = entry.recorded(secrets, left, *is_referenced) else { continue };
        let size = match &value {
            OwnedValue::String(text) => text.len(),
            _ => entry.len(),
        };
        if size > left {
            continue;
        }
        room = left.saturating_sub(size);
        taken += 1;
        match (entry.key, value) {
            (None, value) => drop(kept.insert(entry.attribute, value)),
            (Some(key), OwnedValue::String(value)) => {
                let mut map = match kept.remove(entry.attribute) {
                    Some(OwnedValue::StringMap(map)) => map,
                    _ => Default::default(),
                };
                map.insert(key.into(), value);
                kept.insert(entry.attribute, OwnedValue::StringMap(map));
            }
            (Some(_), _) => {}
        }
    }
    let mut request = Vec::new();
    prost::encoding::bytes::encode(1, &kept.to_bytes(0), &mut request);
    (taken > 0).then_some(Fitting { request, left_out: count - taken })
}

/// Names and values for display: the first [`MAX_ATTRIBUTES`], those that the answer depends on before the others. Values are whole while there is
/// room for as much as a slot has. `left_out` is what was left out when the request was recorded.
pub(super) fn list(
    bag: &AttributeBag<'_>,
    secrets: &SecretNames,
    referenced: &[u8],
    left_out: Option<usize>,
) -> Listed {
    let mut all: Vec<(bool, String, Entry<'_>)> =
        entries(bag).into_iter().map(|entry| (entry.is_one_of(referenced), entry.name(), entry)).collect();
    all.sort_by(|(a, name, _), (b, other, _)| b.cmp(a).then_with(|| name.cmp(other)));
    let mut listed = Listed {
        left_out: left_out.unwrap_or(0) + all.len().saturating_sub(MAX_ATTRIBUTES),
        ..Listed::default()
    };
    let mut room = SLOT;
    for (_, name, entry) in all.into_iter().take(MAX_ATTRIBUTES) {
        let (shown, mut is_masked) = entry.masked(secrets);
        is_masked |= left_out.is_some() && shown.contains(MASKED);
        let length = shown.len();
        let value = if length <= room { shown } else { truncated(shown, false) };
        room = room.saturating_sub(length);
        if value.len() != length || (left_out.is_some() && value.ends_with(MORE)) {
            listed.cut.push(name.clone());
        }
        if is_masked {
            listed.masked.push(name.clone());
        }
        listed.attributes.push((name, value));
    }
    listed.attributes.sort();
    listed.cut.sort();
    listed.masked.sort();
    listed
}

/// The first [`MAX_VALUE`] characters of a text, and a sign if there are more, or if it is the beginning of one that `goes_on`.
fn truncated(mut text: String, goes_on: bool) -> String {
    let end = text.char_indices().nth(MAX_VALUE);
    if let Some((at, _)) = end {
        text.truncate(at);
    }
    if goes_on || end.is_some() {
        text.push(MORE);
    }
    text
}
