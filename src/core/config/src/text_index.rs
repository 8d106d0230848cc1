//! Which resources name which others, as far as their texts tell.

use std::collections::{BTreeSet, HashMap};

use crate::{Node, RawResource, ResourceKey};

/// The texts of a document that are not keys of mappings, such as names and expressions.
pub type Texts = BTreeSet<Box<str>>;

/// A namespace, and a text or name in it.
type Place = (Box<str>, Box<str>);

/// Resources by their names and by the texts that they have: one names another of its namespace if it has the name as a text. Finds them without
/// knowledge of their kinds.
#[derive(Debug, Default)]
pub struct TextIndex {
    by_name: HashMap<Place, Vec<ResourceKey>>,
    by_text: HashMap<Place, Vec<ResourceKey>>,
}

impl TextIndex {
    /// Adds a resource, with the texts of all its versions.
    pub fn add<'t>(&mut self, key: &ResourceKey, texts: impl IntoIterator<Item = &'t Box<str>>) {
        self.by_name.entry(place(key, &key.name)).or_default().push(key.clone());
        for text in texts {
            self.by_text.entry(place(key, text)).or_default().push(key.clone());
        }
    }

    /// The resources of other kinds in the namespace of one that name it, or that it names. `texts`: of all its versions. Cost: in
    /// proportion to them and to what is found.
    pub fn connected<'t>(
        &self,
        key: &ResourceKey,
        texts: impl IntoIterator<Item = &'t Box<str>>,
    ) -> Vec<ResourceKey> {
        let named = texts.into_iter().filter_map(|text| self.by_name.get(&place(key, text)));
        let naming = self.by_text.get(&place(key, &key.name));
        named.chain(naming).flatten().filter(|other| other.kind != key.kind).cloned().collect()
    }
}

fn place(key: &ResourceKey, text: &str) -> Place {
    (key.namespace.as_ref().into(), text.into())
}

/// The texts of a resource; none without one.
pub fn texts_of(resource: Option<&RawResource>) -> Texts {
    let mut texts = Texts::new();
    if let Some(resource) = resource {
        collect(&resource.document(), &mut texts);
    }
    texts
}

/// All strings of a document, also those that are keys, one in a line.
pub fn strings_of(document: &Node) -> String {
    let mut strings = String::new();
    gather(document, &mut strings);
    strings
}

fn gather(node: &Node, strings: &mut String) {
    node.as_str().into_iter().for_each(|text| strings.extend([text, "\n"]));
    node.items().iter().for_each(|item| gather(item, strings));
    for entry in node.entries() {
        strings.extend([&*entry.key, "\n"]);
        gather(&entry.value, strings);
    }
}

fn collect(node: &Node, texts: &mut Texts) {
    texts.extend(node.as_str().map(Box::from));
    node.items().iter().for_each(|item| collect(item, texts));
    node.entries().iter().for_each(|entry| collect(&entry.value, texts));
}

/// The words of a text, such as names, numbers and constants, without the signs between them.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |c: char| !(c.is_alphanumeric() || "_-./:@%*+".contains(c));
    let words = text.split(is_between).map(|word| word.trim_matches([':', '.']));
    words.filter(|word| word.contains(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_names_and_constants() {
        let text = "match: '(source.user | \"\") == \"eve\" && path != \"/a*\"'\nspec: {list: [10.0.0.1, -]}";
        let found: Vec<&str> = words(text).collect();
        assert_eq!(found, ["match", "source.user", "eve", "path", "/a*", "spec", "list", "10.0.0.1"]);
    }
}
