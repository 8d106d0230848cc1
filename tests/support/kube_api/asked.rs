//! What a request of the API asks for.

use std::collections::BTreeMap;

use axum::http::{Request, header};
use serde_json::{Value, json};

use super::{KINDS, Key};

/// What a URL names.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) kind: (&'static str, &'static str, &'static str),
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    query: BTreeMap<String, String>,
    pub(super) accept: String,
}

impl Asked {
    pub(super) fn of(request: &Request<impl Sized>) -> Option<Self> {
        let mut parts = request.uri().path().trim_start_matches('/').split('/').peekable();
        let (version, mut parts) = match parts.next()? {
            "api" => (parts.next()?.to_owned(), parts),
            "apis" => (format!("{}/{}", parts.next()?, parts.next()?), parts),
            _ => return None,
        };
        let namespace = parts.next_if_eq(&"namespaces").and_then(|_| parts.next()).map(str::to_owned);
        let plural = parts.next()?;
        let kind = *KINDS.iter().find(|kind| kind.1 == plural && kind.2 == version)?;
        let query = request.uri().query().unwrap_or_default().split('&').filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.to_owned(), unescaped(value)))
        });
        let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let (query, accept) = (query.collect(), accept.unwrap_or_default().to_owned());
        Some(Self { kind, namespace, name: parts.next().map(str::to_owned), query, accept })
    }

    pub(super) fn query(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    pub(super) fn key(&self) -> Key {
        (self.kind.1, self.namespace.clone().unwrap_or_default(), self.name.clone().unwrap_or_default())
    }

    pub(super) fn is_of(&self, key: &Key) -> bool {
        key.0 == self.kind.1 && self.namespace.as_ref().is_none_or(|namespace| key.1 == *namespace)
    }

    /// Whether labels and name are selected.
    pub(super) fn selects(&self, object: &Value) -> bool {
        let selector = self.query("labelSelector");
        let labels = &object["metadata"]["labels"];
        let has_labels = selector.is_empty()
            || selector
                .split(',')
                .all(|term| term.split_once('=').is_some_and(|(key, value)| labels[key] == value));
        let name = self.query("fieldSelector").strip_prefix("metadata.name=");
        has_labels && name.is_none_or(|name| object["metadata"]["name"] == name)
    }

    /// The object in the form that was asked for.
    pub(super) fn form(&self, object: &Value) -> Value {
        match self.accept.contains("as=PartialObjectMetadata") {
            true => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
            }),
            false => object.clone(),
        }
    }
}

fn unescaped(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                out.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            }
            other => out.push(other),
        }
    }
    String::from_utf8(out).unwrap()
}
