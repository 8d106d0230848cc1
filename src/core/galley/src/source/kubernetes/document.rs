//! Objects of the API as documents: parsed once, from the bytes of the server to a tree.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use mixer_config::{MappingEntry, Node, NodeKind, Span};
use mixer_kube::Object;

/// An object of any kind.
#[derive(Debug, Clone)]
pub(super) struct Document {
    /// The whole object, without positions.
    pub(super) root: Node,
    namespace: Box<str>,
    name: Box<str>,
    resource_version: Box<str>,
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Tree(root) = Tree::deserialize(deserializer)?;
        let part = |name: &str| {
            let node = root.get("metadata").and_then(|metadata| metadata.get(name));
            node.and_then(Node::as_str).unwrap_or_default().into()
        };
        let (namespace, name, resource_version) = (part("namespace"), part("name"), part("resourceVersion"));
        Ok(Self { root, namespace, name, resource_version })
    }
}

impl Object for Document {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

/// A value.
struct Tree(Node);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

fn tree<E>(kind: NodeKind) -> Result<Tree, E> {
    Ok(Tree(Node::synthetic(kind)))
}

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        tree(NodeKind::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        tree(NodeKind::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        tree(NodeKind::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        tree(i64::try_from(value).map_or(NodeKind::Float(value as f64), NodeKind::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        tree(NodeKind::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        tree(NodeKind::String(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        tree(NodeKind::String(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut all = Vec::new();
        while let Some(Tree(item)) = items.next_element()? {
            all.push(item);
        }
        tree(NodeKind::Sequence(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut all: Vec<MappingEntry> = Vec::new();
        while let Some((key, Tree(value))) = entries.next_entry::<Box<str>, Tree>()? {
            all.push(MappingEntry { key, key_span: Span::default(), value });
        }
        tree(NodeKind::Mapping(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_the_tree_that_yaml_is() {
        let text = r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"},"spec":{"list":[1,-2,2.5,true,null,"é"],"big":18446744073709551615}}"#;
        let document: Document = serde_json::from_str(text).unwrap();
        assert_eq!((document.key().as_str(), document.resource_version()), ("n/a", "7"));
        let parsed = mixer_config::yaml::parse(text).unwrap().root;
        assert!(document.root.same_value(&parsed), "{:?} {parsed:?}", document.root);
    }
}
