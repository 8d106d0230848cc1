//! Values that are not written down.

use super::attributes::AttributeMap;
use serde_json::Value;

pub use mixer_base::secrets::MASKED;

/// What is masked unless something else is asked for: credentials.
pub const DEFAULT_MASKS: &[&str] = &[
    "request.headers[authorization]",
    "request.headers[proxy-authorization]",
    "request.headers[cookie]",
    "request.headers[x-api-key]",
    "request.api_key",
    "request.auth.raw_claims",
    "response.headers[set-cookie]",
];

/// Texts shorter than this are not looked for in messages: they would be found everywhere.
const WORTH_HIDING: usize = 4;

/// An attribute, or a key of a string map, whose value is not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
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

/// Whether a name fits; a `*` at the end of the pattern stands for any text.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

/// Everything that is masked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MaskSet {
    masks: Vec<Mask>,
}

impl MaskSet {
    /// Reads names of attributes and keys: `name` or `name[key]`; keys match in any case. Errors: the first that is neither.
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, String> {
        let named = texts.iter().map(|text| text.as_ref().trim()).filter(|text| !text.is_empty());
        Ok(Self { masks: named.map(Mask::parse).collect::<Result<_, _>>()? })
    }

    /// Masks values in place. Returns what was masked, and the texts that must not show up elsewhere.
    pub fn apply(&self, attributes: &mut AttributeMap) -> (Vec<String>, Vec<String>) {
        let (mut masked, mut secrets) = (Vec::new(), Vec::new());
        for (name, value) in attributes.iter_mut() {
            for mask in self.masks.iter().filter(|mask| fits(&mask.attribute, name)) {
                match &mask.key {
                    None => {
                        hide(value, &mut secrets);
                        masked.push(name.clone());
                        break;
                    }
                    Some(pattern) => {
                        for (key, value) in entries(value) {
                            if fits(pattern, &key.to_ascii_lowercase()) && *value != MASKED {
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

/// `text` without the secrets.
pub(super) fn without(text: &str, secrets: &[String]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| secret.len() >= WORTH_HIDING) {
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
    fn what_is_no_name_is_refused() {
        for text in ["[a]", "a[", "a[]", "a]b"] {
            assert!(MaskSet::parse(&[text]).is_err(), "{text}");
        }
        assert_eq!(MaskSet::parse(&["", " "]), Ok(MaskSet::default()), "nothing is masked");
    }
}
