//! Attributes that a resource may read, as far as its text tells.

use std::borrow::Cow;

use foldhash::HashSet;

use super::made_attributes::only_makes_attributes;
use crate::snapshot::{BuildStage, SnapshotBuilder};
use mixer_config::text_index::{strings_of, words};
use mixer_config::{RawResource, ResourceKey};

/// The parts of a name that are looked at: an attribute, and what CEL selects of it.
const MAX_PARTS: usize = 16;

/// The attributes that choose the namespace whose rules decide about a request.
pub(super) const SELECTORS: [&str; 3] =
    ["context.reporter.kind", "destination.namespace", "source.namespace"];

/// Whether a resource may read attributes: a rule, an instance, and what charges or describes requests by them. A mapping names those
/// that it makes.
pub(super) fn may_read(resource: &RawResource, builder: &SnapshotBuilder) -> bool {
    let kind = &resource.key.kind;
    match builder.stage_of(kind) {
        BuildStage::Parts | BuildStage::Rules => true,
        BuildStage::Extensions => builder.adapter_reading(kind).is_none() && !only_makes_attributes(resource),
        BuildStage::Vocabulary | BuildStage::Ignored => false,
    }
}

/// The attributes that resources may read.
#[derive(Debug, Default)]
pub(super) struct Read {
    names: HashSet<Box<str>>,
    /// The segments of names, of each text with names that are not written as one word.
    apart: Vec<HashSet<Box<str>>>,
    /// All of these.
    segments: HashSet<Box<str>>,
}

impl Read {
    /// Adds those of a version of a resource.
    pub(super) fn add(&mut self, resource: &RawResource, builder: &SnapshotBuilder) {
        if !may_read(resource, builder) {
            return;
        }
        selectors_of(&resource.key, builder).for_each(|name| add(name, &mut self.names));
        for text in texts_of(resource) {
            names_in(&text).for_each(|name| add(name, &mut self.names));
            if let Some(segments) = segments_apart(&text) {
                segments.iter().for_each(|segment| add(segment, &mut self.segments));
                self.apart.push(segments.into_iter().map(Box::from).collect());
            }
        }
    }

    /// Whether a resource among these may read an attribute.
    pub(super) fn has(&self, attribute: &str) -> bool {
        self.names.contains(attribute) || self.has_apart(attribute)
    }

    /// The names that are written as one word.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Whether there may be others.
    pub(super) fn has_others(&self) -> bool {
        !self.apart.is_empty()
    }

    fn has_apart(&self, attribute: &str) -> bool {
        let is_in =
            |segments: &HashSet<Box<str>>| are_all_of(attribute, |segment| segments.contains(segment));
        is_in(&self.segments) && self.apart.iter().any(is_in)
    }
}

/// What is there already costs nothing.
fn add(name: &str, names: &mut HashSet<Box<str>>) {
    if !names.contains(name) {
        names.insert(name.into());
    }
}

fn are_all_of(attribute: &str, is_one: impl Fn(&str) -> bool) -> bool {
    attribute.split('.').all(is_one)
}

/// What a rule that is not for the mesh reads because it chooses its requests.
fn selectors_of(key: &ResourceKey, builder: &SnapshotBuilder) -> impl Iterator<Item = &'static str> + use<> {
    let is_chosen = builder.stage_of(&key.kind) == BuildStage::Rules
        && *key.namespace != *builder.options().default_namespace;
    SELECTORS.into_iter().filter(move |_| is_chosen)
}

/// The text of a resource; if something in it is escaped, also its strings as they are meant.
fn texts_of(resource: &RawResource) -> impl Iterator<Item = Cow<'_, str>> {
    let text = &*resource.origin.text;
    let meant = text.contains('\\').then(|| Cow::Owned(strings_of(&resource.document())));
    std::iter::once(Cow::Borrowed(text)).chain(meant)
}

/// The names in a text that are written as one word, and their beginnings. Signs that a name may have are also operators.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let is_sign = |c: char| !is_of_name(c) && c != '.';
    let parts = move |word: &'_ str| word.contains(is_sign);
    words(text).flat_map(move |word| {
        let between = parts(word).then(|| word.split(is_sign)).into_iter().flatten();
        std::iter::once(word).chain(between).flat_map(beginnings)
    })
}

fn beginnings(word: &str) -> impl Iterator<Item = &str> {
    let dots = word.match_indices('.').map(|(at, _)| at).take(MAX_PARTS);
    dots.chain([word.len()]).filter_map(move |at| word.get(..at)).filter(|name| !name.is_empty())
}

/// The segments of names in a text in which a dot is not between two of them, as in `request . tenant` and `(request).tenant`.
fn segments_apart(text: &str) -> Option<HashSet<&str>> {
    let is_beside = |c: Option<char>| c.is_some_and(is_of_name);
    let mut dots = text.match_indices('.').filter(|(at, dot)| {
        let (before, after) = (text.get(..*at), text.get(at + dot.len()..));
        !is_beside(before.and_then(|before| before.chars().next_back()))
            || !is_beside(after.and_then(|after| after.chars().next()))
    });
    dots.next()?;
    Some(text.split(|c| !is_of_name(c)).filter(|segment| !segment.is_empty()).collect())
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_between_operators() {
        let text = r#"match: c?1:request.size-source.port*2 > 5 && path == "a-b/c.d""#;
        let names: HashSet<&str> = names_in(text).collect();
        for name in ["request.size", "source.port", "source", "c.d", "path"] {
            assert!(names.contains(name), "{name}");
        }
        assert_eq!(segments_apart(text), None);
    }

    #[test]
    fn names_with_blanks_and_brackets_have_their_segments() {
        for text in [
            "request . tenant",
            "(request).tenant",
            "[request].exists(r, r.tenant == 1)",
            "request.\n tenant",
        ] {
            let segments = segments_apart(text).unwrap();
            assert!(are_all_of("request.tenant", |segment| segments.contains(segment)), "{text}");
        }
        assert_eq!(segments_apart("request.tenant.x == 1.5"), None);
    }
}
