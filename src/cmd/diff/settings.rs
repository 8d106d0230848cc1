//! What a recording cannot tell of two configurations: settings for Envoy, which are applied before and after what is replayed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cmd::output::escaped;
use mixer_base::secrets::mask_document;
use mixer_engine::snapshot::{ResourceDump, Snapshot, resources_of};

/// Most differences of a resource that are told.
const MAX_CHANGES: usize = 8;
/// Most characters of a value that is told.
const MAX_VALUE: usize = 60;
/// For a resource, or a member, that one side does not have.
const NONE: &str = "(none)";
/// For values that differ in a secret alone.
const SECRET: &str = "(a secret)";

/// A resource for Envoy that differs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChangedSetting {
    /// Full name.
    resource: String,
    /// `file:line` with `--to`, or with `--from` if it is gone.
    place: String,
    /// Path, and the values of both sides.
    changes: Vec<(String, String, String)>,
    /// How many more differ.
    more: usize,
}

impl ChangedSetting {
    pub(super) fn document(&self) -> Value {
        let changes: Vec<Value> = self
            .changes
            .iter()
            .map(|(path, from, to)| json!({"path": path, "from": from, "to": to}))
            .collect();
        json!({"resource": self.resource, "source": self.place, "changes": changes, "more": self.more})
    }
}

impl std::fmt::Display for ChangedSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}):", escaped(&self.resource), escaped(&self.place))?;
        for (at, (path, from, to)) in self.changes.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            let path = if path.is_empty() { String::new() } else { format!(" {}", escaped(path)) };
            write!(f, "{separator}{path} {} -> {}", escaped(from), escaped(to))?;
        }
        if self.more > 0 {
            write!(f, ", and {} more", self.more)?;
        }
        Ok(())
    }
}

/// A resource of one side.
struct Setting {
    place: String,
    members: BTreeMap<String, (String, String)>,
}

/// The resources for Envoy that differ, by name.
pub(super) fn changed(from: &Snapshot, to: &Snapshot) -> Vec<ChangedSetting> {
    let (from, to) = (settings(from), settings(to));
    let names: std::collections::BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    let changed = names.into_iter().filter_map(|name| {
        let (was, is) = (from.get(name), to.get(name));
        let mut changes = match (was, is) {
            (Some(was), Some(is)) => differences(&was.members, &is.members),
            (Some(_), None) => vec![(String::new(), "configured".to_owned(), NONE.to_owned())],
            _ => vec![(String::new(), NONE.to_owned(), "configured".to_owned())],
        };
        let more = changes.len().saturating_sub(MAX_CHANGES);
        changes.truncate(MAX_CHANGES);
        let place = is.or(was)?.place.clone();
        (!changes.is_empty()).then(|| ChangedSetting { resource: name.clone(), place, changes, more })
    });
    changed.collect()
}

fn settings(snapshot: &Snapshot) -> BTreeMap<String, Setting> {
    // What handlers have their configuration from is replayed with them.
    let services = snapshot.registry.extensions.iter().filter(|extension| extension.adapter().is_none());
    let kinds: Vec<&str> = services.flat_map(|extension| extension.kinds()).copied().collect();
    let found = resources_of(snapshot, |key| kinds.contains(&&*key.kind));
    let setting = |found: ResourceDump| {
        let mut masked = found.document.clone();
        mask_document(&mut masked);
        let (mut whole, mut shown) = (BTreeMap::new(), BTreeMap::new());
        members(&found.document, String::new(), &mut whole);
        members(&masked, String::new(), &mut shown);
        let members = whole.into_iter().map(|(path, value)| {
            let shown = shown.remove(&path).unwrap_or_else(|| SECRET.to_owned());
            (path, (value, shown))
        });
        let place = format!("{}:{}", found.source.file, found.source.line);
        (found.name, Setting { place, members: members.collect() })
    };
    found.into_iter().map(setting).collect()
}

/// The values of a document by their paths.
fn members(value: &Value, path: String, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members_of) if !members_of.is_empty() => {
            for (name, member) in members_of {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                members(member, path, into);
            }
        }
        Value::Array(values) if !values.is_empty() => {
            for (at, member) in values.iter().enumerate() {
                members(member, format!("{path}[{at}]"), into);
            }
        }
        value => drop(into.insert(path, value.to_string())),
    }
}

type Members = BTreeMap<String, (String, String)>;

fn differences(was: &Members, is: &Members) -> Vec<(String, String, String)> {
    let paths: std::collections::BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let differences = paths.into_iter().filter_map(|path| {
        let (was, is) = (was.get(path), is.get(path));
        if was.map(|(whole, _)| whole) == is.map(|(whole, _)| whole) {
            return None;
        }
        let [from, to] = [was, is].map(|side| side.map_or(NONE, |(_, shown)| shown));
        let [from, to] = if from == to { [SECRET; 2] } else { [from, to] };
        Some((path.clone(), cut(from), cut(to)))
    });
    differences.collect()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
