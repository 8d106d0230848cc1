//! Messages that transformers make, written as documents.

use std::sync::Arc;

use mixer_config::{MappingEntry, Node, NodeKind, Span};
use mixer_mcp::Resource;
use mixer_schema::Kind;

/// A text.
pub(crate) fn text(text: impl Into<Box<str>>) -> Node {
    Node::synthetic(NodeKind::String(text.into()))
}

/// A number.
pub(crate) fn number(number: i64) -> Node {
    Node::synthetic(NodeKind::Int(number))
}

/// A list.
pub(crate) fn list(items: impl IntoIterator<Item = Node>) -> Node {
    Node::synthetic(NodeKind::Sequence(items.into_iter().collect()))
}

/// A list of texts.
pub(crate) fn texts<T: Into<Box<str>>>(items: impl IntoIterator<Item = T>) -> Node {
    list(items.into_iter().map(text))
}

/// A mapping.
pub(crate) fn map<K: Into<Box<str>>>(entries: impl IntoIterator<Item = (K, Node)>) -> Node {
    let entry = |(key, value): (K, Node)| MappingEntry { key: key.into(), key_span: Span::default(), value };
    Node::synthetic(NodeKind::Mapping(entries.into_iter().map(entry).collect()))
}

/// A resource whose body is a message of a kind; `None`, which is logged, if it is none.
pub(crate) fn resource(kind: &'static Kind, name: String, version: &str, message: &Node) -> Option<Resource> {
    match mixer_schema::encode(kind, message) {
        Ok(encoded) => {
            let type_url: Arc<str> = encoded.type_url.into();
            Some(Resource::new(&name, version, type_url, encoded.body))
        }
        Err(problems) => {
            let why = problems.first().map(|problem| problem.one_line()).unwrap_or_default();
            tracing::error!(collection = kind.collection, name, "cannot encode: {why}");
            None
        }
    }
}
