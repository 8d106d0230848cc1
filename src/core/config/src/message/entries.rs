//! A map with few entries.

use std::collections::BTreeMap;

use super::context::{DecodeContext, Step};
use super::field::wrong_kind;
use super::shown::JsonWriter;
use super::{Field, FieldInfo};
use crate::{Node, NodeKind};

/// A map of texts of which there are many, with few entries each: a tree has room for eleven in each map. Sorted by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries<T>(Box<[(Box<str>, T)]>);

impl<T> Entries<T> {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&T> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// The entries, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Box::default())
    }
}

/// Of two entries with the same key the last is kept.
impl<K: Into<Box<str>>, T> FromIterator<(K, T)> for Entries<T> {
    fn from_iter<I: IntoIterator<Item = (K, T)>>(entries: I) -> Self {
        let mut entries: Vec<(Box<str>, T)> =
            entries.into_iter().map(|(key, value)| (key.into(), value)).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            if is_same {
                std::mem::swap(later, kept);
            }
            is_same
        });
        Self(entries.into())
    }
}

impl<K: Into<Box<str>>, T, const N: usize> From<[(K, T); N]> for Entries<T> {
    fn from(entries: [(K, T); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<T: Field + Default> Field for Entries<T> {
    fn messages(known: &mut BTreeMap<&'static str, &'static [FieldInfo]>) {
        T::messages(known);
    }

    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        match &node.kind {
            NodeKind::Null => {}
            // As a map in a tree.
            NodeKind::Mapping(entries) => {
                let decode = |entry: &crate::MappingEntry| {
                    let mut value = T::default();
                    context.at_step(Step::Key(entry.key.to_string()), |c| value.merge(&entry.value, c));
                    (entry.key.clone(), value)
                };
                *self = entries.iter().map(decode).collect();
            }
            _ => wrong_kind(node, "map[string]json.RawMessage", context),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        serde_json::Value::Object(self.iter().map(|(key, value)| (key.to_owned(), value.to_json())).collect())
    }

    fn write_json(&self, out: &mut dyn FnMut(&str)) {
        let mut object = JsonWriter::object(out);
        self.iter().for_each(|(key, value)| object.member(key, value));
        object.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_and_the_last_of_a_key_is_kept() {
        let entries = Entries::from([("b", 1), ("a", 2), ("b", 3), ("c", 4), ("b", 5)]);
        assert_eq!(entries.iter().collect::<Vec<_>>(), [("a", &2), ("b", &5), ("c", &4)]);
        assert_eq!((entries.get("b"), entries.get("d"), entries.len()), (Some(&5), None, 3));
        assert!(!entries.is_empty() && Entries::<i64>::default().is_empty());
    }

    #[test]
    fn they_decode_as_a_map_in_a_tree() {
        let rows = ["{}", "null", "{b: x, a: y}", "[a]", "{a: 1}", "text"];
        for text in rows {
            let node = crate::yaml::parse(text).unwrap().root;
            let (mut entries, mut tree) = (Entries::<String>::default(), BTreeMap::<String, String>::new());
            let errors = |field: &mut dyn FnMut(&mut DecodeContext)| {
                let mut context = DecodeContext::at(crate::FieldPath::root());
                field(&mut context);
                context.errors.into_iter().map(|error| (error.field, error.message)).collect::<Vec<_>>()
            };
            let of_entries = errors(&mut |context| Field::merge(&mut entries, &node, context));
            let of_tree = errors(&mut |context| Field::merge(&mut tree, &node, context));
            assert_eq!((of_entries, entries.to_json()), (of_tree, tree.to_json()), "{text}");
        }
    }
}
