//! What a recording cannot tell of two configurations: settings for Envoy, which are applied before and after what is replayed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::cmd::output::escaped;
use mixer_base::secrets::mask_document;
use mixer_engine::snapshot::{ResourceDump, Snapshot, resources_of};

/// Most differences of a resource that are told as text.
const MAX_CHANGES: usize = 8;
/// Most characters of a value that is told as text.
const MAX_VALUE: usize = 60;
/// Characters before the first difference of values that are cut.
const MAX_COMMON: usize = 20;
/// For a resource, or a member, that one side does not have.
const NONE: &str = "(none)";
/// For values that differ in a secret alone.
const SECRET: &str = "(a secret)";
/// The members that name an item of a list, with those that are part of the name.
const NAMES: [(&str, Option<&str>); 4] =
    [("key", Some("value")), ("attribute", None), ("quota", None), ("name", None)];

/// A resource for Envoy that differs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChangedSetting {
    /// Full name.
    resource: String,
    /// `file:line` with `--to`, or with `--from` if it is gone.
    place: String,
    /// Values that differ first, then what one side has alone.
    changes: Vec<Change>,
}

/// A difference between two documents.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    /// Empty for the whole document. An item of a list has its name, `descriptors[user]`, or its number.
    path: String,
    /// The values of both sides.
    values: [String; 2],
    /// Whether one side has nothing there.
    is_of_one: bool,
}

impl Change {
    fn new(path: &str, [was, is]: [Option<Side<'_>>; 2]) -> Self {
        let text = |side: Option<Side<'_>>| side.map_or_else(|| NONE.to_owned(), |side| side.text());
        let values = [text(was), text(is)];
        let is_secret = values[0] == values[1];
        let values = if is_secret { [SECRET.to_owned(), SECRET.to_owned()] } else { values };
        Self { path: path.to_owned(), values, is_of_one: was.is_none() || is.is_none() }
    }
}

impl ChangedSetting {
    pub(super) fn document(&self) -> Value {
        let document =
            |Change { path, values: [from, to], .. }: &Change| json!({"path": path, "from": from, "to": to});
        let changes: Vec<Value> = self.changes.iter().map(document).collect();
        json!({"resource": self.resource, "source": self.place, "changes": changes})
    }
}

impl std::fmt::Display for ChangedSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}):", escaped(&self.resource), escaped(&self.place))?;
        for (at, Change { path, values, .. }) in self.changes.iter().take(MAX_CHANGES).enumerate() {
            let separator = if at == 0 { "" } else { "," };
            let path = if path.is_empty() { String::new() } else { format!(" {}", escaped(path)) };
            let [from, to] = cut(values);
            write!(f, "{separator}{path} {} -> {}", escaped(&from), escaped(&to))?;
        }
        match self.changes.len().saturating_sub(MAX_CHANGES) {
            0 => Ok(()),
            more => write!(f, ", and {more} more, which `-o json` has"),
        }
    }
}

/// A resource of one side.
struct Setting {
    place: String,
    /// With its secrets, which are compared.
    whole: Value,
    /// Without them.
    shown: Value,
}

/// A value of one side.
#[derive(Clone, Copy)]
struct Side<'v> {
    whole: &'v Value,
    /// Without secrets; `None` within one.
    shown: Option<&'v Value>,
}

impl<'v> Side<'v> {
    fn of(setting: &'v Setting) -> Self {
        Self { whole: &setting.whole, shown: Some(&setting.shown) }
    }

    fn member(self, name: &str) -> Option<Self> {
        let shown = self.shown.and_then(|shown| shown.get(name));
        self.whole.get(name).map(|whole| Self { whole, shown })
    }

    fn items(self) -> Vec<Item<'v>> {
        let mut seen = BTreeMap::new();
        let items = self.whole.as_array().into_iter().flatten().enumerate().map(|(at, whole)| {
            let side = Self { whole, shown: self.shown.and_then(|shown| shown.get(at)) };
            let name = name_of(whole).unwrap_or_else(|| {
                // Their order in a file means nothing.
                let mut sorted = whole.clone();
                sorted.sort_all_objects();
                sorted.to_string()
            });
            // An equal one is another item.
            let number = seen.entry(name.clone()).and_modify(|number| *number += 1).or_insert(1_usize);
            Item { at, side, id: (name, *number), has_name: name_of(whole).is_some() }
        });
        items.collect()
    }

    fn text(self) -> String {
        self.shown.map_or_else(|| SECRET.to_owned(), Value::to_string)
    }
}

/// An item of a list.
#[derive(Clone)]
struct Item<'v> {
    /// Its position, from 0.
    at: usize,
    side: Side<'v>,
    /// Its name, or all of it if nothing names it, and which of several with that.
    id: (String, usize),
    has_name: bool,
}

impl Item<'_> {
    /// As a path has it.
    fn label(&self) -> String {
        match self.side.shown.filter(|_| self.has_name).and_then(name_of) {
            Some(name) => shortened(&name, 0),
            None => self.at.to_string(),
        }
    }
}

/// What names an item of a list.
fn name_of(item: &Value) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    NAMES.into_iter().find_map(|(first, second)| {
        let name = item.get(first).and_then(text)?;
        let rest = second.and_then(|second| item.get(second)).and_then(text);
        Some(match rest {
            Some(rest) => format!("{name}={rest}"),
            None => name,
        })
    })
}

/// The resources for Envoy that differ, by name.
pub(super) fn changed(from: &Snapshot, to: &Snapshot) -> Vec<ChangedSetting> {
    let (from, to) = (settings(from), settings(to));
    let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    let changed = names.into_iter().filter_map(|name| {
        let (was, is) = (from.get(name), to.get(name));
        let of_one = |from: &str, to: &str| {
            vec![Change { path: String::new(), values: [from.to_owned(), to.to_owned()], is_of_one: true }]
        };
        let changes = match (was, is) {
            (Some(was), Some(is)) => differences(Side::of(was), Side::of(is)),
            (Some(_), None) => of_one("configured", NONE),
            _ => of_one(NONE, "configured"),
        };
        let place = is.or(was)?.place.clone();
        (!changes.is_empty()).then(|| ChangedSetting { resource: name.clone(), place, changes })
    });
    changed.collect()
}

fn settings(snapshot: &Snapshot) -> BTreeMap<String, Setting> {
    // What handlers have their configuration from is replayed with them.
    let services = snapshot.registry.extensions.iter().filter(|extension| extension.adapter().is_none());
    let kinds: Vec<&str> = services.flat_map(|extension| extension.kinds()).copied().collect();
    let found = resources_of(snapshot, |key| kinds.contains(&&*key.kind));
    let setting = |found: ResourceDump| {
        let mut shown = found.document.clone();
        mask_document(&mut shown);
        let place = format!("{}:{}", found.source.file, found.source.line);
        (found.name, Setting { place, whole: found.document, shown })
    };
    found.into_iter().map(setting).collect()
}

/// What differs: values that both have first, as those are least likely to be meant.
fn differences(was: Side<'_>, is: Side<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(was, is, "", &mut changes);
    changes.sort_by_key(|change| change.is_of_one);
    changes
}

fn compare(was: Side<'_>, is: Side<'_>, path: &str, into: &mut Vec<Change>) {
    match (was.whole, is.whole) {
        (before, after) if before == after => {}
        (Value::Object(before), Value::Object(after)) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match [was.member(name), is.member(name)] {
                    [Some(was), Some(is)] => compare(was, is, &path, into),
                    sides => into.push(Change::new(&path, sides)),
                }
            }
        }
        (Value::Array(_), Value::Array(_)) => compare_lists(&was.items(), &is.items(), path, into),
        _ => into.push(Change::new(path, [Some(was), Some(is)])),
    }
}

/// Items are the same if they have the same name; those without one, if all of them is the same. One that is added in front of others is one
/// difference.
fn compare_lists(was: &[Item<'_>], is: &[Item<'_>], path: &str, into: &mut Vec<Change>) {
    let by_id = |items: &[Item<'_>]| -> BTreeMap<(String, usize), usize> {
        items.iter().enumerate().map(|(at, item)| (item.id.clone(), at)).collect()
    };
    let (was_by, is_by) = (by_id(was), by_id(is));
    let path_of = |item: &Item<'_>| format!("{path}[{}]", item.label());
    let mut places = Vec::new();
    for item in is {
        if let Some((at, before)) = was_by.get(&item.id).and_then(|at| Some((*at, was.get(*at)?))) {
            places.push(at);
            compare(before.side, item.side, &path_of(item), into);
        }
    }
    let gone: Vec<&Item<'_>> = was.iter().filter(|item| !is_by.contains_key(&item.id)).collect();
    let new: Vec<&Item<'_>> = is.iter().filter(|item| !was_by.contains_key(&item.id)).collect();
    let unnamed = |items: &[&Item<'_>]| items.iter().filter(|item| !item.has_name).count();
    // As many that nothing names: probably those that were there, changed.
    let are_changed = unnamed(&gone) == unnamed(&new);
    let pairs = |item: &&&Item<'_>| are_changed && !item.has_name;
    for (before, after) in gone.iter().filter(pairs).zip(new.iter().filter(pairs)) {
        compare(before.side, after.side, &path_of(after), into);
    }
    for item in gone.iter().filter(|item| !pairs(item)) {
        into.push(Change::new(&path_of(item), [Some(item.side), None]));
    }
    for item in new.iter().filter(|item| !pairs(item)) {
        into.push(Change::new(&path_of(item), [None, Some(item.side)]));
    }
    if !places.is_sorted() {
        let order = |items: &[Item<'_>]| items.iter().map(Item::label).collect::<Vec<_>>().join(", ");
        let is_named = was.iter().chain(is).all(|item| item.has_name);
        let values = match is_named {
            true => [order(was), order(is)],
            false => ["as it was".to_owned(), "another one".to_owned()],
        };
        into.push(Change { path: format!("{path} (order)"), values, is_of_one: false });
    }
}

/// As texts show them, with their first difference.
fn cut([from, to]: &[String; 2]) -> [Cow<'_, str>; 2] {
    let common = from.chars().zip(to.chars()).take_while(|(from, to)| from == to).count();
    [from, to].map(|text| match text.chars().count() > MAX_VALUE {
        true => Cow::Owned(shortened(text, common.saturating_sub(MAX_COMMON))),
        false => Cow::Borrowed(text.as_str()),
    })
}

/// The characters of a text from one on, with signs for what is left out.
fn shortened(text: &str, from: usize) -> String {
    let count = text.chars().count();
    // The end is shown whole.
    let from = from.min(count.saturating_sub(MAX_VALUE));
    let shown: String = text.chars().skip(from).take(MAX_VALUE).collect();
    let (before, after) = (if from > 0 { "…" } else { "" }, if from + MAX_VALUE < count { "…" } else { "" });
    format!("{before}{shown}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(was: &Value, is: &Value) -> Vec<String> {
        let side = |whole| Side { whole, shown: Some(whole) };
        let told = differences(side(was), side(is));
        told.iter().map(|Change { path, values: [from, to], .. }| format!("{path} {from} -> {to}")).collect()
    }

    #[test]
    fn items_are_those_of_their_names() {
        let limit =
            |key: &str, requests: u32| json!({"key": key, "rate_limit": {"requests_per_unit": requests}});
        let was = json!({"descriptors": [limit("a", 1), limit("b", 2)]});
        let more = json!({"descriptors": [limit("new", 9), limit("a", 1), limit("b", 2000)]});
        assert_eq!(
            told(&was, &more),
            [
                "descriptors[b].rate_limit.requests_per_unit 2 -> 2000",
                r#"descriptors[new] (none) -> {"key":"new","rate_limit":{"requests_per_unit":9}}"#
            ]
        );
        let turned = json!({"descriptors": [limit("b", 2), limit("a", 1)]});
        assert_eq!(told(&was, &turned), ["descriptors (order) a, b -> b, a"]);
        let twice = json!({"descriptors": [limit("a", 1), limit("b", 2), limit("b", 2)]});
        assert_eq!(told(&was, &twice).len(), 1);
        let of_value = |value: &str| json!([{"key": "k", "value": value}]);
        assert_eq!(told(&of_value("x"), &of_value("y")).len(), 2, "another descriptor");
    }

    #[test]
    fn items_without_names_are_compared_as_a_whole() {
        let rule = |path: &str, charge: u32| json!({"match": [{"clause": path}], "quotas": [{"quota": "q", "charge": charge}]});
        let (was, is) = (json!([rule("/a", 1)]), json!([rule("/new", 1), rule("/a", 1)]));
        assert_eq!(
            told(&was, &is),
            [r#"[0] (none) -> {"match":[{"clause":"/new"}],"quotas":[{"quota":"q","charge":1}]}"#]
        );
        assert_eq!(told(&was, &json!([rule("/a", 5)])), ["[0].quotas[q].charge 1 -> 5"]);
        assert_eq!(told(&json!(["a", "b"]), &json!(["a", "c"])), [r#"[1] "b" -> "c""#]);
        assert_eq!(told(&json!(["a", "b"]), &json!(["b", "a"])), [" (order) as it was -> another one"]);
        assert_eq!(told(&json!(["a", "a"]), &json!(["a"])), [r#"[1] "a" -> (none)"#]);
    }

    #[test]
    fn values_are_cut_around_their_first_difference() {
        let [from, to] = ["1", "2"].map(|end| format!("{}{end}{}", "x".repeat(100), "y".repeat(100)));
        let values = [from, to];
        let [from, to] = cut(&values);
        assert!(from.starts_with('…') && from.ends_with('…') && from.contains('1'), "{from}");
        assert!(to.contains('2') && to != from, "{to}");
        let values = ["a".repeat(300) + "b", "a".repeat(300)];
        let [from, to] = cut(&values);
        assert!(from.ends_with("ab") && to.ends_with("aa"), "{from} {to}");
        let values = ["short".to_owned(), "x".repeat(61)];
        assert_eq!(cut(&values)[0], "short");
    }

    #[test]
    fn a_secret_is_not_shown() {
        let (was, is) = (json!({"a": {"token": "1"}}), json!({"a": {"token": "2"}}));
        let shown = json!({"a": {"token": "***"}});
        let side = |whole| Side { whole, shown: Some(&shown) };
        let told = differences(side(&was), side(&is));
        assert_eq!(told[0].values, [SECRET, SECRET]);
    }
}
