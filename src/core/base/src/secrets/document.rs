//! Secrets in documents.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::{MASKED, MIN_SECRET_LEN, is_address, is_secret, mask_address, mask_source, mask_text};

/// Masks a document at any depth: strings with the names of secrets and all strings below them, strings of which another member says that
/// they are secret (`{name: authorization, value: x}`), secrets in addresses and in other strings, and strings that are equal to a
/// secret, as aliases of YAML are.
pub fn mask_document(value: &mut Value) {
    let mut known = HashSet::new();
    mask_member("", false, value, &mut known);
    if !known.is_empty() {
        mask_equal(value, &known);
    }
}

/// Whether a string of a document is masked, or a part of one: two such documents are not equal because they look alike.
pub fn has_masked(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MASKED),
        Value::Object(members) => members.values().any(has_masked),
        Value::Array(items) => items.iter().any(has_masked),
        _ => false,
    }
}

/// Masks the annotations of an object, of which one may be the text of a whole object, as it was applied.
pub fn mask_annotations(annotations: &mut Value) {
    mask_document(annotations);
    for value in annotations.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        let masked = value.as_str().map(|text| mask_applied(text).into_owned());
        if let Some(masked) = masked {
            *value = Value::String(masked);
        }
    }
}

/// A text that may be an object.
fn mask_applied(text: &str) -> Cow<'_, str> {
    let object = serde_json::from_str(text).ok().filter(Value::is_object);
    let Some(object) = object else { return mask_source(text) };
    let mut masked = object.clone();
    mask_document(&mut masked);
    // A member that is there twice may be in the text alone. What was masked before stays as it is.
    if masked == object && mask_source(text) == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(masked.to_string())
    }
}

/// Whether the value of this key names what the [value](is_value_of_pair) beside it is, as in `{name: authorization, value: x}`.
pub fn is_name_of_pair(key: &str) -> bool {
    matches!(key, "name" | "key" | "header")
}

/// Whether the value of this key is what the [name](is_name_of_pair) beside it names.
pub fn is_value_of_pair(key: &str) -> bool {
    key == "value"
}

/// `name`: that of the member, or of the list that it is in. `is_below`: whether it is below a secret. `known` gets what was masked as a whole.
fn mask_member(name: &str, is_below: bool, value: &mut Value, known: &mut HashSet<String>) {
    match value {
        Value::String(text) if (is_below || is_secret(name)) && !text.is_empty() => {
            let secret = std::mem::replace(text, MASKED.to_owned());
            if secret.len() >= MIN_SECRET_LEN && secret != MASKED {
                known.insert(secret);
            }
        }
        Value::String(text) => {
            let masked = if is_address(name) { mask_address(text) } else { mask_text(text) };
            if let Cow::Owned(masked) = masked {
                *text = masked;
            }
        }
        Value::Object(members) => {
            let is_below = is_below || is_secret(name);
            let names_secret = members
                .iter()
                .any(|(key, named)| is_name_of_pair(key) && named.as_str().is_some_and(is_secret));
            for (name, member) in members {
                mask_member(name, is_below || (names_secret && is_value_of_pair(name)), member, known);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask_member(name, is_below, item, known)),
        _ => {}
    }
}

/// Masks strings that are equal to one of `known`.
fn mask_equal(value: &mut Value, known: &HashSet<String>) {
    match value {
        Value::String(text) if known.contains(text) => MASKED.clone_into(text),
        Value::Object(members) => members.values_mut().for_each(|member| mask_equal(member, known)),
        Value::Array(items) => items.iter_mut().for_each(|item| mask_equal(item, known)),
        _ => {}
    }
}
