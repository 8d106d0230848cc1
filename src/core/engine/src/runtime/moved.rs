//! What a resource did and another one is perhaps to do now, as far as their constants tell: the rule that is split, the list of which an
//! entry moves to another one.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashMap;

use super::constants::Constants;
use super::corrections::Corrections;
use super::rule_changes::RuleText;
use crate::snapshot::{BuildStage, SnapshotBuilder};
use mixer_config::annotation::{ALLOWS, DEFAULT};
use mixer_config::text_index::words;
use mixer_config::{Node, NodeKind, RawResource, ResourceKey};

/// Words of rules.
const OF_RULES: [&str; 3] = ["rule", "match", "actions"];

/// Before the names of handlers among constants.
const HANDLER: &str = "handler ";

type Words = BTreeSet<Box<str>>;

/// What a change that serves as written may allow that was refused before.
#[derive(Debug, PartialEq, Eq)]
enum Released {
    Nothing,
    Anything,
    /// Requests with one of these constants.
    Of(Words),
}

/// The handlers of a rule that another version of it does not have, in a form that no constant has.
fn handlers_beside(rule: &RawResource, other: Option<&RawResource>) -> Words {
    let handlers = |rule| RuleText::of(rule).actions.into_iter().filter_map(|names| names.into_iter().next());
    let others: Words = other.into_iter().flat_map(handlers).collect();
    handlers(rule)
        .filter(|name| !others.contains(name))
        .map(|name| format!("{HANDLER}{name}").into())
        .collect()
}

/// What a resource that does not serve as written may be meant to refuse.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Refused {
    /// Requests with one of these constants.
    words: Words,
    /// It may be anything.
    is_any: bool,
}

impl Refused {
    /// By a new version of a rule; nothing if it differs from the last good one by nothing that tells whom it selects. `others`: the constants of
    /// the parts that it is to use instead of those of the last good version, if it does; broad if one of them is unknown.
    pub(super) fn by_rule(
        new: &RawResource,
        good: Option<&RawResource>,
        others: Option<Constants>,
    ) -> Option<Self> {
        let constants = Constants::of_rule(&new.document());
        let before = good.map(|good| Constants::of_rule(&good.document()));
        let is_same = |good: &RawResource| {
            others.is_none() && good.annotations == new.annotations && before.as_ref() == Some(&constants)
        };
        if good.is_some_and(is_same) {
            return None;
        }
        let was_any = before.is_some_and(|before| before.is_broad);
        let mut all = Self { words: constants.words, is_any: constants.is_broad && !was_any };
        if let Some(others) = others {
            all.words.extend(others.words);
            // It selected anybody before, and now others refuse whom it selects.
            if was_any && constants.is_broad {
                all.is_any = others.is_broad;
                all.words.extend(handlers_beside(new, good));
            }
        }
        Some(all)
    }

    /// By a new version of another resource. `reach`: the constants of the conditions under which it is used.
    pub(super) fn by(new: &RawResource, good: Option<&RawResource>, reach: Constants) -> Option<Self> {
        let (new, good) = (new.document(), good.map(RawResource::document));
        let is_other = good.as_ref().is_none_or(|good| differs_in_one(good, &new));
        let before = good.as_ref().map(Constants::of).unwrap_or_default().words;
        let words = Constants::of(&new).words;
        let is_less = !before.is_subset(&words);
        let mut all = Self { words, is_any: false };
        if !is_less {
            all.words.retain(|word| !before.contains(word));
        }
        if is_other {
            all.words.extend(reach.words);
            all.is_any = reach.is_broad;
        }
        (is_other || !all.words.is_empty()).then_some(all)
    }

    /// By a document that is not read, of a file with these words.
    pub(super) fn by_text(text: &str, file: &FileWords<'_>) -> Self {
        let new = words(text).filter(|word| file.is_less || !file.known.contains_key(word));
        let is_rule = OF_RULES.iter().any(|word| text.contains(word));
        Self { words: new.map(Box::from).collect(), is_any: is_rule && !text.contains("==") }
    }
}

/// The words of those documents of a file that are not read, and of what they may have been.
#[derive(Debug, Default)]
pub(super) struct FileWords<'t> {
    /// How often each is in what is missing.
    known: HashMap<&'t str, usize>,
    /// How often each is in what is not read.
    now: HashMap<&'t str, usize>,
    /// Whether something that is missing is not there, so that what is left may mean more.
    is_less: bool,
}

impl<'t> FileWords<'t> {
    /// Adds what a document may have been.
    pub(super) fn add_known(&mut self, text: &'t str) {
        words(text).for_each(|word| *self.known.entry(word).or_default() += 1);
    }

    /// Adds a document.
    pub(super) fn add_now(&mut self, text: &'t str) {
        words(text).for_each(|word| *self.now.entry(word).or_default() += 1);
    }

    /// Compares both, once all are added.
    pub(super) fn compare(&mut self) {
        let is_less = |(word, count): (&&str, &usize)| self.now.get(word).is_none_or(|now| now < count);
        self.is_less = self.known.iter().any(is_less);
    }
}

type ByNamespace = BTreeMap<Box<str>, Vec<ResourceKey>>;

/// Changed resources that serve as written, by what they perhaps allow now. Cost: in proportion to their texts.
#[derive(Debug, Default)]
pub(super) struct Moved {
    by_word: HashMap<Box<str>, ByNamespace>,
    all: ByNamespace,
    /// Those that may allow anything.
    any: ByNamespace,
}

impl Moved {
    /// Of everything that `changed`. `reach`: the constants of the conditions under which a part is used; `None` if it refuses nothing.
    pub(super) fn new(
        changed: &[ResourceKey],
        corrections: &Corrections<'_>,
        builder: &SnapshotBuilder,
        reach: impl Fn(&ResourceKey) -> Option<Constants>,
    ) -> Self {
        let mut all = Self::default();
        let versions = [Some(&corrections.read.resources), corrections.last.resources()];
        let mut resources = versions.into_iter().flatten().flat_map(|resources| resources.iter());
        let has_defaults = resources.any(|resource| resource.annotations.contains_key(DEFAULT));
        for key in changed {
            if builder.ends_early() {
                break;
            }
            let good = corrections.last.get(key).filter(|_| corrections.get(key).is_none());
            let (Some(good), new) = (good, corrections.read.resources.get(key).map(|new| &**new)) else {
                continue;
            };
            let released = match builder.stage_of(&key.kind) {
                BuildStage::Rules if builder.may_enforce(good) => released_by_rule(good, new, has_defaults),
                BuildStage::Parts if new.is_some() => match reach(key) {
                    Some(reach) => released_by(good, new, reach),
                    None => continue,
                },
                BuildStage::Extensions => released_by(good, new, Constants::default()),
                _ => continue,
            };
            all.add(key, released);
        }
        all
    }

    fn add(&mut self, key: &ResourceKey, released: Released) {
        let insert = |map: &mut ByNamespace| {
            map.entry(key.namespace.as_ref().into()).or_default().push(key.clone());
        };
        match released {
            Released::Nothing => return,
            Released::Anything => insert(&mut self.any),
            Released::Of(words) => {
                words.into_iter().for_each(|word| insert(self.by_word.entry(word).or_default()));
            }
        }
        insert(&mut self.all);
    }

    /// Takes out what perhaps allows what something else is to refuse, each with a constant that tells. `namespaces`: of which they are; of any
    /// if there are none. Cost: in proportion to the constants and to what is found.
    pub(super) fn take<'r>(
        &mut self,
        refused: &'r Refused,
        namespaces: &[&str],
    ) -> Vec<(ResourceKey, Option<&'r str>)> {
        let mut found = Vec::new();
        for word in &refused.words {
            if let Some(of_word) = self.by_word.get_mut(word) {
                found.extend(take(of_word, namespaces).map(|key| (key, Some(&**word))));
            }
        }
        let others = if refused.is_any { &mut self.all } else { &mut self.any };
        found.extend(take(others, namespaces).map(|key| (key, None)));
        found
    }
}

fn take(from: &mut ByNamespace, namespaces: &[&str]) -> impl Iterator<Item = ResourceKey> + use<> {
    let taken: Vec<Vec<ResourceKey>> = match namespaces {
        [] => std::mem::take(from).into_values().collect(),
        _ => namespaces.iter().filter_map(|namespace| from.remove(*namespace)).collect(),
    };
    taken.into_iter().flatten()
}

/// `has_defaults`: what no rule allows is refused somewhere, so that a rule may allow with each constant more.
fn released_by_rule(good: &RawResource, new: Option<&RawResource>, has_defaults: bool) -> Released {
    let (document, new_document) = (good.document(), new.map(RawResource::document));
    let before = Constants::of_rule(&document);
    let after = new_document.as_ref().map(Constants::of_rule);
    let has_same_actions =
        |new: &Node| RuleText::in_document(&document).actions == RuleText::in_document(new).actions;
    let is_same_use = new.is_some_and(|new| good.annotations == new.annotations)
        && new_document.as_ref().is_some_and(has_same_actions);
    // What refused anybody refuses fewer now.
    if before.is_broad && !(is_same_use && after.as_ref().is_some_and(|after| after.is_broad)) {
        return Released::Anything;
    }
    let gone = |words: Words| match words.is_empty() {
        true => Released::Anything,
        false => Released::Of(words.into_iter().chain(handlers_beside(good, new)).collect()),
    };
    let (Some(changed_rule), Some(after)) = (new, after) else { return gone(before.words) };
    let is_plain = !before.has_exceptions && !after.has_exceptions;
    if !is_same_use || before.words == after.words || !is_plain && !before.is_broad {
        return gone(before.words.into_iter().chain(after.words).collect());
    }
    let is_more = !is_plain
        || has_defaults
        || [good, changed_rule].iter().any(|rule| rule.annotations.contains_key(ALLOWS));
    changed(&before.words, &after.words, is_more)
}

fn released_by(good: &RawResource, new: Option<&RawResource>, reach: Constants) -> Released {
    let document = good.document();
    let before = Constants::of(&document);
    let Some(new) = new.map(RawResource::document) else { return of(before.words) };
    let released = changed(&before.words, &Constants::of(&new).words, !refuses_more(&new));
    if !differs_in_one(&document, &new) {
        return released;
    }
    match released {
        _ if reach.is_broad => Released::Anything,
        Released::Of(words) => Released::Of(words.into_iter().chain(reach.words).collect()),
        released if reach.words.is_empty() => released,
        _ => Released::Of(reach.words),
    }
}

/// Whether two documents have different texts or flags in the same place, and not only further ones.
fn differs_in_one(good: &Node, new: &Node) -> bool {
    match (&good.kind, &new.kind) {
        (NodeKind::Mapping(entries), NodeKind::Mapping(of_new)) => {
            let of_new: HashMap<&str, &Node> =
                of_new.iter().map(|entry| (&*entry.key, &entry.value)).collect();
            let both = entries.iter().filter_map(|entry| Some((&entry.value, *of_new.get(&*entry.key)?)));
            both.into_iter().any(|(good, new)| differs_in_one(good, new))
        }
        (NodeKind::String(_) | NodeKind::Bool(_), _) => !good.same_value(new),
        _ => false,
    }
}

/// Whether entries of a list, by their fields, only refuse.
fn refuses_more(document: &Node) -> bool {
    let params = document.member("spec").and_then(|spec| spec.member("params"));
    let is_black = params.and_then(|params| params.member("blacklist"));
    is_black.is_some_and(|value| value.kind == NodeKind::Bool(true))
}

/// What is gone, and what is new if that may allow more.
fn changed(before: &Words, after: &Words, is_more: bool) -> Released {
    let gone = before.difference(after);
    let new = after.difference(before).filter(|_| is_more);
    let words: Words = gone.chain(new).cloned().collect();
    if words.is_empty() { Released::Nothing } else { Released::Of(words) }
}

fn of(words: Words) -> Released {
    if words.is_empty() { Released::Anything } else { Released::Of(words) }
}
