//! The check cache of Istio's proxies: `mixerclient/check_cache.cc` and `referenced.cc` of istio/proxy 1.3.0. In one respect it is better:
//! the proxies keep an answer by its signature alone, so that answers with other absent attributes, but the same exact ones, replace each
//! other. That is so with any configuration.

use std::collections::{BTreeMap, BTreeSet};

use mixer_api::proto::istio::mixer::v1::{CheckResponse, ReferencedAttributes};
use mixer_attribute::{GLOBAL_WORDS, OwnedAttributes, OwnedValue};

/// Absence and Exact of `AttributeMatch`.
const ABSENCE: i32 = 1;
const EXACT: i32 = 2;

/// Name and key; the key is empty for what was no map in the request that was answered.
type AttributeRef = (String, String);

/// The attributes that an answer depends on, as the proxy understands them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Referenced {
    absent: BTreeSet<AttributeRef>,
    exact: BTreeSet<AttributeRef>,
}

impl Referenced {
    /// `Referenced::Fill`.
    fn fill(attributes: &OwnedAttributes, message: &ReferencedAttributes) -> Self {
        let word = |index: i32| match usize::try_from(index) {
            Ok(index) => GLOBAL_WORDS[index].to_owned(),
            Err(_) => String::from_utf8(message.words[usize::try_from(!index).unwrap()].to_vec()).unwrap(),
        };
        let mut referenced = Self::default();
        for found in &message.attribute_matches {
            let name = word(found.name);
            let is_map = matches!(attributes.get(&name), Some(OwnedValue::StringMap(_)));
            let key = if is_map { word(found.map_key) } else { String::new() };
            match found.condition {
                ABSENCE => referenced.absent.insert((name, key)),
                EXACT => referenced.exact.insert((name, key)),
                other => panic!("condition {other}"),
            };
        }
        referenced
    }

    /// `Referenced::Signature`: names and values, not hashed, unless an attribute is there or absent against the condition.
    fn signature(&self, attributes: &OwnedAttributes) -> Option<String> {
        for (name, key) in &self.absent {
            match attributes.get(name) {
                None => {}
                Some(OwnedValue::StringMap(map)) if !map.contains_key(key.as_bytes()) => {}
                Some(_) => return None,
            }
        }
        let value = |(name, key): &AttributeRef| match attributes.get(name)? {
            OwnedValue::StringMap(map) => map.get(key.as_bytes()).cloned().map(OwnedValue::String),
            value => Some(value.clone()),
        };
        let compared: Option<Vec<_>> = self.exact.iter().map(|exact| Some((exact, value(exact)?))).collect();
        compared.map(|compared| format!("{compared:?}"))
    }
}

/// Answers by what they depend on, a position in `known`, and the signature.
#[derive(Debug, Default)]
pub(crate) struct ProxyCache {
    known: Vec<Referenced>,
    answers: BTreeMap<(usize, String), CheckResponse>,
}

impl ProxyCache {
    /// `CheckCache::Check`.
    pub(crate) fn find(&mut self, attributes: &OwnedAttributes) -> Option<CheckResponse> {
        let known = self.known.iter().enumerate();
        let mut keys = known.filter_map(|(at, known)| Some((at, known.signature(attributes)?)));
        let key = keys.find(|key| self.answers.contains_key(key))?;
        let answer = self.answers[&key].clone();
        if answer.precondition.as_ref().unwrap().valid_use_count == 0 {
            self.answers.remove(&key);
            return None;
        }
        Some(answer)
    }

    /// `CheckCache::CacheResponse`.
    pub(crate) fn put(&mut self, attributes: &OwnedAttributes, answer: CheckResponse) {
        let precondition = answer.precondition.as_ref().unwrap();
        let referenced = Referenced::fill(attributes, precondition.referenced_attributes.as_ref().unwrap());
        if let Some(signature) = referenced.signature(attributes) {
            let at = self.known.iter().position(|known| *known == referenced).unwrap_or_else(|| {
                self.known.push(referenced);
                self.known.len() - 1
            });
            self.answers.insert((at, signature), answer);
        }
    }
}
