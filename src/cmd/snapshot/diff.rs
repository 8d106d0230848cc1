//! Differences between snapshots, by resource.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use similar::TextDiff;

use crate::cmd::exit::{Exit, Failure, Outcome, Stop};
use crate::cmd::io::{Io, Style};
use crate::cmd::output;
use mixer_base::secrets::has_masked;
use mixer_engine::snapshot::SnapshotDump;

/// Shown for a resource that is equal but for a secret.
const SECRET: &str = "a secret differs, which is not shown";
/// Shown for a resource of which a dump has less than the server.
const MASKED: &str = "masked values cannot be compared";

/// The part that is no resource: rules of this namespace apply to every request.
const DEFAULT_NAMESPACE: &str = "default namespace";

/// Told if one of the dumps has no resources of extensions.
const UNKNOWN: &str = "not compared: resources for Envoy, and roles of rbac, of which one of the two does not tell (an earlier version)";

/// Prints the differences to an earlier JSON dump. Secrets are compared, if both have them, and never shown.
pub(super) fn run(found: &SnapshotDump, file: &Path, io: &mut Io) -> Outcome {
    let refuse =
        |cause: String| Failure::local(format!("cannot read the dump in `{}`", file.display())).cause(cause);
    let text = std::fs::read_to_string(file).map_err(|e| refuse(e.to_string()))?;
    let before: SnapshotDump = serde_json::from_str(&text)
        .map_err(|e| refuse(e.to_string()).hint("create it with `mixer snapshot dump --output json`"))?;
    Ok(if print(&before, found, &|_, _| Shown::Difference, io)? { Exit::Negative } else { Exit::Success })
}

/// How a resource that differs is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// Its differences.
    Difference,
    /// Its name and one line.
    Note(&'static str),
    /// Not at all.
    Nothing,
}

/// Prints the differences; returns whether there are any, or may be any in masked values. Snapshot ids and source positions are ignored.
/// `shown` decides by section and name, and whether the resource is only in `before`.
pub(super) fn print(
    before: &SnapshotDump,
    after: &SnapshotDump,
    shown: &dyn Fn(&str, bool) -> Shown,
    io: &mut Io,
) -> Result<bool, Stop> {
    let (mut old, mut new) = (parts(before), parts(after));
    if before.resources.is_none() != after.resources.is_none() {
        // Of an earlier version, which would differ in all of them.
        writeln!(io.out, "{UNKNOWN}")?;
        for parts in [&mut old, &mut new] {
            parts.retain(|name, _| !name.starts_with("resources "));
        }
    }
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut differs = false;
    for name in names {
        let none = Part::default();
        let (was, is) = (old.get(name).unwrap_or(&none), new.get(name).unwrap_or(&none));
        let hidden = match was.text == is.text {
            true if was.is_masked || is.is_masked => Some(MASKED),
            true if was.items == is.items => continue,
            true => Some(SECRET),
            false => None,
        };
        differs = true;
        let shown = match (shown(name, is.text.is_empty()), hidden) {
            (Shown::Nothing, _) => continue,
            (_, Some(note)) => Shown::Note(note),
            (shown, None) => shown,
        };
        let heading = io.paint(Style::Bold, &output::escaped(name));
        writeln!(io.out, "{heading}")?;
        if let Shown::Note(note) = shown {
            writeln!(io.out, "  {note}")?;
            continue;
        }
        let diff = TextDiff::from_lines(&was.text, &is.text);
        for line in diff.unified_diff().context_radius(2).to_string().lines() {
            let style = match line.chars().next() {
                Some('+') => Some(Style::Good),
                Some('-') => Some(Style::Error),
                Some('@') => Some(Style::Dim),
                _ => None,
            };
            let line = &*output::escaped(line);
            let line = style.map_or_else(|| line.to_owned(), |style| io.paint(style, line));
            writeln!(io.out, "  {line}")?;
        }
    }
    Ok(differs)
}

/// A resource.
#[derive(Default)]
struct Part {
    /// As it may be shown: YAML with masked secrets.
    text: String,
    /// With the secrets that the dump has.
    items: Vec<Value>,
    /// Whether the dump has masked secrets of it.
    is_masked: bool,
}

/// Every resource, by section and name.
fn parts(found: &SnapshotDump) -> BTreeMap<String, Part> {
    let document = serde_json::to_value(found).unwrap_or_default();
    let mut masked = found.clone();
    masked.mask_secrets();
    let masked = serde_json::to_value(&masked).unwrap_or_default();
    let mut parts: BTreeMap<String, Part> = BTreeMap::new();
    if !found.default_namespace.is_empty() {
        let text = format!("{}\n", found.default_namespace);
        parts.insert(DEFAULT_NAMESPACE.to_owned(), Part { text, ..Part::default() });
    }
    for (section, list) in document.as_object().into_iter().flatten() {
        let shown = masked.get(section).and_then(Value::as_array).into_iter().flatten();
        for (item, shown) in list.as_array().into_iter().flatten().zip(shown) {
            let name = item.get("resource").or_else(|| item.get("name")).and_then(Value::as_str);
            let [item, shown] = [item, shown].map(without_position);
            let part = parts.entry(format!("{section} {}", name.unwrap_or_default())).or_default();
            part.is_masked |= match section.as_str() {
                "handlers" => item.get("params").is_some_and(has_masked),
                "instances" | "rules" | "resources" => has_masked(&item),
                // Of other sections, nothing is masked.
                _ => false,
            };
            part.text.push_str(&output::yaml(&shown));
            part.items.push(item);
        }
    }
    parts
}

/// A resource without what says where it is and who needs it.
fn without_position(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(members) = item.as_object_mut() {
        members.shift_remove("source");
        members.shift_remove("references");
    }
    item
}
