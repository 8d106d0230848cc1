//! A YAML or JSON document as a tree of values with positions.

use super::FieldPath;
use super::field_name::{is_lower_camel_of, lower_camel};
use super::field_path::Segment;

/// A position in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Location {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

/// The range of a value in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// The first character; for a quoted scalar its quote.
    pub start: Location,
    /// The position after the last character.
    pub end: Location,
}

/// One value of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Kind and content.
    pub kind: NodeKind,
    /// The position; of a synthetic node all zero.
    pub span: Span,
}

/// The kinds of values, after YAML 1.1 scalar resolution as Go's yaml.v2 does it.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeKind {
    /// `null`, `~` or nothing.
    Null,
    /// `true`, `yes`, `on`, …
    Bool(bool),
    /// A number that fits an i64.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    String(Box<str>),
    /// A list.
    Sequence(Vec<Node>),
    /// A mapping in document order; of duplicate keys the last.
    Mapping(Vec<MappingEntry>),
}

/// One entry of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct MappingEntry {
    /// The key, converted to text as in JSON.
    pub key: Box<str>,
    /// The position of the key.
    pub key_span: Span,
    /// The value.
    pub value: Node,
}

impl Node {
    /// A node without a position.
    pub fn synthetic(kind: NodeKind) -> Node {
        Node { kind, span: Span::default() }
    }

    /// The value of `key` in a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|e| &*e.key == key).map(|e| &e.value)
    }

    /// The value of `key` in a mapping, in any case unless it has the exact one. Null counts as absent.
    pub fn member(&self, key: &str) -> Option<&Node> {
        let found = self
            .get(key)
            .or_else(|| self.entries().iter().find(|e| e.key.eq_ignore_ascii_case(key)).map(|e| &e.value));
        found.filter(|node| !matches!(node.kind, NodeKind::Null))
    }

    /// The entries of a mapping; none for other kinds.
    pub fn entries(&self) -> &[MappingEntry] {
        match &self.kind {
            NodeKind::Mapping(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a sequence; none for other kinds.
    pub fn items(&self) -> &[Node] {
        match &self.kind {
            NodeKind::Sequence(items) => items,
            _ => &[],
        }
    }

    /// What its content takes in memory, in bytes, beside the node itself. Cost: a pass over the tree.
    pub(crate) fn content_size(&self) -> usize {
        match &self.kind {
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Int(_) | NodeKind::Float(_) => 0,
            NodeKind::String(text) => text.len(),
            NodeKind::Sequence(items) => {
                let contents: usize = items.iter().map(Node::content_size).sum();
                items.capacity() * size_of::<Node>() + contents
            }
            NodeKind::Mapping(entries) => {
                let contents = entries.iter().map(|entry| entry.key.len() + entry.value.content_size());
                entries.capacity() * size_of::<MappingEntry>() + contents.sum::<usize>()
            }
        }
    }

    /// Whether both have the same value, wherever they are. The order of the entries of a mapping counts.
    pub fn same_value(&self, other: &Node) -> bool {
        match (&self.kind, &other.kind) {
            (NodeKind::Sequence(a), NodeKind::Sequence(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_value(b))
            }
            (NodeKind::Mapping(a), NodeKind::Mapping(b)) => {
                a.len() == b.len()
                    && a.iter().zip(b).all(|(a, b)| a.key == b.key && a.value.same_value(&b.value))
            }
            (a, b) => a == b,
        }
    }

    /// The entry of a field, in either spelling.
    pub(crate) fn field(&self, name: &str) -> Option<&MappingEntry> {
        self.entries().iter().find(|entry| same_field(&entry.key, name))
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::String(text) => Some(text),
            _ => None,
        }
    }

    /// The node at `path`, or at its longest prefix that exists. Names match in lowerCamelCase and snake_case.
    pub fn at(&self, path: &FieldPath) -> &Node {
        let mut node = self;
        for segment in path.segments() {
            let next = match segment {
                Segment::Field(name) => node.field(name).map(|entry| &entry.value),
                Segment::Key(key) => node.get(key),
                Segment::Index(index) => node.items().get(*index),
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }
}

/// Whether two spellings, camelCase or snake_case, name the same field.
fn same_field(a: &str, b: &str) -> bool {
    a == b || is_lower_camel_of(a, b) || is_lower_camel_of(b, a) || lower_camel(a) == lower_camel(b)
}
