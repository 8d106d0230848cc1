//! Resources: documents of configuration with an identity and an origin.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Node;

/// What identifies a resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKey {
    /// For example `rule`, `handler`, `denier`.
    pub kind: Arc<str>,
    /// Never empty.
    pub namespace: Arc<str>,
    /// Never empty.
    pub name: Arc<str>,
}

/// The fully qualified name, `name.kind.namespace`.
impl std::fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.name, self.kind, self.namespace)
    }
}

/// Where a resource comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file as the user named it, `<embedded>/…`, `-` for standard input, or another store's name for it.
    pub file: Arc<str>,
    /// The text of the document, for excerpts and for finding the place of a field again.
    pub text: Arc<str>,
    /// The line of the file on which `text` starts, from 1.
    pub first_line: u32,
}

/// A resource as a store holds it: identified, not yet decoded by kind.
#[derive(Debug, Clone)]
pub struct RawResource {
    /// Identity.
    pub key: ResourceKey,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// Where it comes from.
    pub origin: Origin,
    /// Hash of the text; equal revisions are equal resources.
    pub revision: u64,
    /// The whole document.
    pub document: Arc<Node>,
}
