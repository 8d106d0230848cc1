//! Masks of attribute values: those that are configured, and everything that is secret by [`mixer_base::secrets`].

use std::borrow::Cow;

use super::attributes::AttributeMap;
use super::call::CALLER_PRINCIPAL;
use crate::secret_values::Judge;
use mixer_attribute::Vocabulary;
use mixer_base::secrets::{SecretNames, is_secret, mask_text};
use mixer_config::message::suggestion;
use serde_json::Value;

pub use mixer_base::secrets::MASKED;

/// The default masks: credentials. All of them are secret by their names too.
pub const DEFAULT_MASKS: &[&str] = &[
    "request.headers[authorization]",
    "request.headers[proxy-authorization]",
    "request.headers[cookie]",
    "request.headers[x-api-key]",
    "request.api_key",
    "request.auth.raw_claims",
    "response.headers[set-cookie]",
];

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

/// The masks, other than those of the default, whose attribute is not declared: one line each.
pub fn undeclared_masks(masks: &[String], vocabulary: &Vocabulary) -> Vec<String> {
    if vocabulary.declared().next().is_none() {
        // Nothing serves yet.
        return Vec::new();
    }
    let given = masks.iter().map(|text| text.trim()).filter(|text| !DEFAULT_MASKS.contains(text));
    let undeclared = given.filter_map(|text| Mask::parse(text).ok()).filter(|mask| {
        let is_declared = |(name, _)| matches(&mask.attribute, name);
        let is_of_caller = matches(&mask.attribute, CALLER_PRINCIPAL);
        !is_of_caller
            && vocabulary.slot(mask.attribute.as_bytes()).is_none()
            && !vocabulary.typed().any(is_declared)
    });
    let lines = undeclared.map(|mask| {
        let name = &mask.attribute;
        let near = suggestion(name, vocabulary.typed().map(|(name, _)| name));
        let hint = near.map_or_else(String::new, |near| format!("; {near}"));
        format!("the attribute `{name}` of --decision-mask is not declared{hint}")
    });
    lines.collect()
}

/// All masks. Without any, nothing is masked: then recordings can be replayed in full.
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

    /// Whether nothing is masked.
    pub(super) fn is_empty(&self) -> bool {
        self.masks.is_empty()
    }

    /// Which attributes and entries of maps are masked: those that the masks name, and what is secret by `names`.
    pub(super) fn judge<'m>(&'m self, names: &'m SecretNames) -> impl Judge + 'm {
        move |name: &str, key: Option<&str>| match key {
            None => names.is_secret(name) || self.of(name).any(|mask| mask.key.is_none()),
            Some(key) => {
                let lower = key.to_ascii_lowercase();
                is_secret(key)
                    || self.of(name).filter_map(|mask| mask.key.as_ref()).any(|p| matches(p, &lower))
            }
        }
    }

    /// Masks values in place. Returns the masked names.
    pub(super) fn apply(&self, names: &SecretNames, attributes: &mut AttributeMap) -> Vec<String> {
        let mut masked = Vec::new();
        if self.masks.is_empty() {
            return masked;
        }
        let mut is_masked = self.judge(names);
        for (name, value) in attributes.iter_mut() {
            if is_masked(name.as_str(), None) {
                *value = Value::from(MASKED);
                masked.push(name.clone());
                continue;
            }
            if value.is_string() && hide_parts(value) {
                masked.push(name.clone());
            }
            for (key, value) in entries(value) {
                if is_masked(name.as_str(), Some(key.as_str())) {
                    *value = Value::from(MASKED);
                    masked.push(format!("{name}[{key}]"));
                } else if hide_parts(value) {
                    masked.push(format!("{name}[{key}]"));
                }
            }
        }
        masked
    }

    /// The masks for an attribute.
    fn of<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Mask> {
        self.masks.iter().filter(move |mask| matches(&mask.attribute, name))
    }
}

/// The entries of a string map.
fn entries(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    let wrapped = value.as_object().is_some_and(|m| m.len() == 1 && m.contains_key("stringmap"));
    let map = if wrapped { value.get_mut("stringmap") } else { Some(value) };
    map.and_then(Value::as_object_mut).into_iter().flatten()
}

/// Masks the secrets within a text; returns whether there were any.
fn hide_parts(value: &mut Value) -> bool {
    let Value::String(text) = value else { return false };
    match mask_text(text) {
        Cow::Owned(masked) => {
            *text = masked;
            true
        }
        Cow::Borrowed(_) => false,
    }
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
        let masked = set.unwrap().apply(&SecretNames::new(), &mut map);
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
    }

    #[test]
    fn what_is_secret_is_masked_without_being_listed() {
        let attributes = json!({
            "request.headers": {"x-auth-token": "t", "referer": "http://a:b@c/?password=d", "accept": "*/*", "key": "k"},
            "request.path": "/login?api_key=abc",
            "request.session": "abc",
            "session.token": "t",
        });
        let masked = |masks: &[&str]| {
            let mut map: AttributeMap = serde_json::from_value(attributes.clone()).unwrap();
            let declared = ["request.session".into()].into_iter().collect();
            let names = MaskSet::parse(masks).unwrap().apply(&declared, &mut map);
            (serde_json::to_value(map).unwrap(), names.len())
        };
        let expected = json!({
            "request.headers": {"x-auth-token": "***", "referer": "http://***@c/?password=***", "accept": "*/*", "key": "k"},
            "request.path": "/login?api_key=***",
            "request.session": "***",
            "session.token": "***",
        });
        assert_eq!(masked(&["source.user"]), (expected, 5));
        assert_eq!(masked(&[""]), (attributes.clone(), 0), "an empty list masks nothing");
        assert!(DEFAULT_MASKS.iter().all(|mask| is_secret(mask.trim_end_matches(']'))));
    }

    #[test]
    fn masks_of_undeclared_attributes_are_named() {
        let mut builder = Vocabulary::builder();
        builder.declare("request.headers", mixer_attribute::ValueType::StringMap);
        let vocabulary = builder.build();
        let of = |masks: &[&str]| {
            let masks: Vec<String> = masks.iter().map(|mask| (*mask).to_owned()).collect();
            undeclared_masks(&masks, &vocabulary)
        };
        assert_eq!(of(DEFAULT_MASKS), [""; 0], "nobody wrote them");
        assert_eq!(of(&["request.headers[x]", "request.*", CALLER_PRINCIPAL, "", "["]), [""; 0]);
        let text = "the attribute `request.haders` of --decision-mask is not declared; did you mean `request.headers`?";
        assert_eq!(of(&["request.haders[x]"]), [text]);
    }

    #[test]
    fn malformed_masks_are_refused() {
        for text in ["[a]", "a[", "a[]", "a]b"] {
            assert!(MaskSet::parse(&[text]).is_err(), "{text}");
        }
        assert_eq!(MaskSet::parse(&["", " "]), Ok(MaskSet::default()), "nothing is masked");
    }
}
