//! Attributes by method and path, and API keys.

use mixer_attribute::OwnedAttributes;

use crate::bootstrap::{ApiKey, ApiSpec, UriPattern};
use crate::head::Head;

/// Where keys are looked for without `api_keys`.
fn default_keys() -> [ApiKey; 3] {
    let owned = str::to_owned;
    [ApiKey::Query(owned("key")), ApiKey::Query(owned("api_key")), ApiKey::Header(owned("x-api-key"))]
}

/// Adds the attributes of an API and the key of the request.
pub(super) fn extract(spec: &ApiSpec, head: &Head, into: &mut OwnedAttributes) {
    let mut add = |attributes: &OwnedAttributes| {
        for (name, value) in attributes.iter() {
            into.insert(name, value.clone());
        }
    };
    if !head.method().is_empty() && !head.path().is_empty() {
        add(&spec.attributes);
        let path = head.path_without_query();
        let method = head.method();
        let templates = spec.patterns.iter().enumerate().filter_map(|(at, pattern)| {
            let UriPattern::Template(template) = &pattern.uri else { return None };
            let is_any = pattern.method == "*";
            if !is_any && pattern.method.as_bytes() != method {
                return None;
            }
            // Of equal templates the first counts.
            Some(((template.rank(path)?, is_any, at), &pattern.attributes))
        });
        if let Some((_, attributes)) = templates.min_by(|(a, _), (b, _)| a.cmp(b)) {
            add(attributes);
        }
        for pattern in &spec.patterns {
            if let UriPattern::Regex(regex) = &pattern.uri
                && pattern.method.as_bytes() == method
                && regex.is_match(head.path())
            {
                add(&pattern.attributes);
            }
        }
    }
    let key = match &spec.keys[..] {
        [] => default_keys().iter().find_map(|place| find_key(place, head)),
        keys => keys.iter().find_map(|place| find_key(place, head)),
    };
    if let Some(key) = key {
        into.insert("request.api_key", mixer_attribute::OwnedValue::String(key));
    }
}

fn find_key(place: &ApiKey, head: &Head) -> Option<Vec<u8>> {
    match place {
        ApiKey::Query(name) => {
            let found = query(head.path()).find(|(known, _)| *known == name.as_bytes());
            found.map(|(_, value)| value.to_vec())
        }
        ApiKey::Header(name) => head.joined(name),
        ApiKey::Cookie(name) => {
            let cookies = head.fields().filter(|(known, _)| *known == b"cookie");
            let pairs = cookies.flat_map(|(_, value)| value.split(|byte| *byte == b';'));
            pairs.map(<[u8]>::trim_ascii).find_map(|pair| {
                let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                let unquoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
                Some(unquoted.unwrap_or(value).to_vec())
            })
        }
    }
}

/// The parameters of the query, not decoded. One without `=` is empty.
pub(super) fn query(path: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let start = memchr::memchr(b'?', path).map_or(path.len(), |at| at + 1);
    let query = path.get(start..).unwrap_or_default();
    query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        match memchr::memchr(b'=', pair) {
            Some(at) => (pair.get(..at).unwrap_or_default(), pair.get(at + 1..).unwrap_or_default()),
            None => (pair, &b""[..]),
        }
    })
}
