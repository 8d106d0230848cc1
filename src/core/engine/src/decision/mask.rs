//! Masks of attribute values.

use super::attributes::AttributeMap;
use serde_json::Value;

pub use mixer_base::secrets::MASKED;

/// The default masks: credentials.
pub const DEFAULT_MASKS: &[&str] = &[
    "request.headers[authorization]",
    "request.headers[proxy-authorization]",
    "request.headers[cookie]",
    "request.headers[x-api-key]",
    "request.api_key",
    "request.auth.raw_claims",
    "response.headers[set-cookie]",
];

/// Shortest secret that is replaced in messages; shorter ones match by chance.
const MIN_SECRET_LEN: usize = 4;

/// An attribute, or a key of a string map, whose value is masked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mask {
    attribute: String,
    key: Option<String>,
}

impl Mask {
    fn parse(text: &str) -> Result<Self, String> {
        let malformed = || format!("`{text}` names no attribute to mask; write name or name[key]");
        let (attribute, key) = match text.split_once('[') {
            None => (text, None),
            Some((attribute, rest)) => (attribute, Some(rest.strip_suffix(']').ok_or_else(malformed)?)),
        };
        if attribute.is_empty() || key == Some("") || attribute.contains(']') {
            return Err(malformed());
        }
        Ok(Self { attribute: attribute.to_owned(), key: key.map(str::to_ascii_lowercase) })
    }
}

/// Whether a name matches; a `*` at the end of the pattern matches any suffix.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

/// All masks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MaskSet {
    masks: Vec<Mask>,
}

impl MaskSet {
    /// Parses masks: `name` or `name[key]`; keys are case-insensitive. Errors: the first malformed one.
    pub(crate) fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, String> {
        let named = texts.iter().map(|text| text.as_ref().trim()).filter(|text| !text.is_empty());
        Ok(Self { masks: named.map(Mask::parse).collect::<Result<_, _>>()? })
    }

    /// Masks values in place. Returns the masked names, and the secrets to replace elsewhere.
    pub(super) fn apply(&self, attributes: &mut AttributeMap) -> (Vec<String>, Vec<String>) {
        let (mut masked, mut secrets) = (Vec::new(), Vec::new());
        for (name, value) in attributes.iter_mut() {
            for mask in self.masks.iter().filter(|mask| matches(&mask.attribute, name)) {
                match &mask.key {
                    None => {
                        hide(value, &mut secrets);
                        masked.push(name.clone());
                        break;
                    }
                    Some(pattern) => {
                        for (key, value) in entries(value) {
                            if matches(pattern, &key.to_ascii_lowercase()) && *value != MASKED {
                                hide(value, &mut secrets);
                                masked.push(format!("{name}[{key}]"));
                            }
                        }
                    }
                }
            }
        }
        (masked, secrets)
    }
}

/// The entries of a string map.
fn entries(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    let wrapped = value.as_object().is_some_and(|m| m.len() == 1 && m.contains_key("stringmap"));
    let map = if wrapped { value.get_mut("stringmap") } else { Some(value) };
    map.and_then(Value::as_object_mut).into_iter().flatten()
}

fn hide(value: &mut Value, secrets: &mut Vec<String>) {
    match value {
        Value::String(text) => secrets.push(text.clone()),
        Value::Object(members) => {
            secrets.extend(members.values().filter_map(Value::as_str).map(str::to_owned))
        }
        _ => {}
    }
    *value = Value::from(MASKED);
}

/// Replaces the secrets in `text`.
pub(super) fn without(text: &str, secrets: &[String]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| secret.len() >= MIN_SECRET_LEN) {
        if text.contains(secret.as_str()) {
            text = text.replace(secret.as_str(), MASKED);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_replaced_and_named() {
        let set =
            MaskSet::parse(&["request.headers[Authorization]", "source.user", "request.headers[x-secret-*]"]);
        let mut map: AttributeMap = serde_json::from_value(json!({
            "source.user": "alice",
            "source.name": "shop",
            "request.headers": {"authorization": "Bearer abc", "X-Secret-One": "1", "accept": "*/*"},
        }))
        .unwrap();
        let (masked, secrets) = set.unwrap().apply(&mut map);
        assert_eq!(
            masked,
            ["source.user", "request.headers[authorization]", "request.headers[X-Secret-One]"]
        );
        assert_eq!(
            serde_json::to_value(&map).unwrap(),
            json!({
                "source.user": "***",
                "source.name": "shop",
                "request.headers": {"authorization": "***", "X-Secret-One": "***", "accept": "*/*"},
            })
        );
        assert_eq!(without("alice is no friend of 1, Bearer abc", &secrets), "*** is no friend of 1, ***");
    }

    #[test]
    fn malformed_masks_are_refused() {
        for text in ["[a]", "a[", "a[]", "a]b"] {
            assert!(MaskSet::parse(&[text]).is_err(), "{text}");
        }
        assert_eq!(MaskSet::parse(&["", " "]), Ok(MaskSet::default()), "nothing is masked");
    }
}
