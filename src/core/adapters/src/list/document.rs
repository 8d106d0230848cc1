//! YAML and JSON documents: those of lists of addresses, and those in the place of a list of lines.

use std::str;

use super::EntryType;
use super::addresses::{Dialect, Network};
use mixer_config::message::{json_kind, plain_words};
use mixer_config::{Node, NodeKind, yaml};

/// The key of a list of addresses; its case does not matter.
const WHITELIST: &str = "whitelist";
/// What a list of entries is probably called.
const LIST_NAMES: [&str; 6] = [WHITELIST, "allowlist", "blacklist", "denylist", "entries", "items"];

/// The strings under `whitelist` of a YAML or JSON mapping; `None` if the document has no list there.
///
/// Errors: the document is none of a list. Unless it is read as by Istio Mixer, that it has several lists, of which one would count.
pub(super) fn whitelist(body: &[u8], dialect: Dialect) -> Result<Option<Vec<String>>, String> {
    let error = |text: String| format!("could not unmarshal data from list {text}");
    let text = str::from_utf8(body).map_err(|e| error(e.to_string()))?;
    let parsed = yaml::parse(text).map_err(|e| error(e.to_string()))?;
    if dialect == Dialect::Native
        && let Some(why) = other_list(&parsed)
    {
        return Err(format!("it has several lists: {why}"));
    }
    let root = parsed.root;
    match &root.kind {
        NodeKind::Null => return Ok(None),
        NodeKind::Mapping(_) => {}
        _ => {
            let found = json_kind(&root);
            let go = format!("json: cannot unmarshal {found} into Go value of type list.listPayload");
            return Err(error(match dialect {
                Dialect::Native => plain_words(&go),
                Dialect::Istio => format!("error unmarshaling JSON: {go}"),
            }));
        }
    }
    let Some(list) = root.entries().iter().find(|e| e.key.eq_ignore_ascii_case(WHITELIST)) else {
        return Ok(None);
    };
    match &list.value.kind {
        NodeKind::Null => return Ok(None),
        NodeKind::Sequence(_) => {}
        _ => {
            return Err(error(wrong_field(&list.value, "[]string", dialect)));
        }
    }
    let entry = |node: &Node| match &node.kind {
        NodeKind::String(text) => Ok(text.to_string()),
        NodeKind::Null => Ok(String::new()),
        _ => Err(error(wrong_field(node, "string", dialect))),
    };
    list.value.items().iter().map(entry).collect::<Result<_, _>>().map(Some)
}

/// The error for a value of the wrong type.
fn wrong_field(node: &Node, wanted: &str, dialect: Dialect) -> String {
    let found = json_kind(node);
    if dialect == Dialect::Native {
        let go = format!("json: cannot unmarshal {found} into Go value of type {wanted}");
        return format!("{WHITELIST}: {}", plain_words(&go));
    }
    format!(
        "error unmarshaling JSON: json: cannot unmarshal {found} into Go struct field listPayload.WhiteList of type {wanted}"
    )
}

/// What would be ignored beside the list of a document. Keys with a number, or a text that is no address, are notes of their author.
fn other_list(parsed: &yaml::Parsed) -> Option<String> {
    for note in &parsed.notes {
        match note {
            yaml::Note::DuplicateKey { key, top_level: true, .. }
            | yaml::Note::OverriddenKey { key, top_level: true, .. } => {
                return Some(format!("`{key}` occurs more than once"));
            }
            yaml::Note::SeveralDocuments { .. } => {
                return Some("of two documents, the second would be ignored".to_owned());
            }
            _ => {}
        }
    }
    let entries = parsed.root.entries();
    let (lists, others): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| entry.key.eq_ignore_ascii_case(WHITELIST));
    if lists.len() > 1 {
        return Some(format!("`{WHITELIST}` occurs more than once"));
    }
    let holds_entries = |node: &Node| match &node.kind {
        NodeKind::Mapping(_) | NodeKind::Sequence(_) => true,
        NodeKind::String(text) => Network::parse(text, Dialect::Native).is_ok(),
        _ => false,
    };
    let other = others.iter().find(|entry| holds_entries(&entry.value))?;
    (!lists.is_empty()).then(|| format!("`{}` beside `{WHITELIST}`, which is the only one", other.key))
}

/// Whether a text is a YAML document with a list, whose lines are no entries. Cost: one pass; a text that begins with a key and has a
/// list in brackets is parsed.
pub(super) fn is_yaml_list(text: &[u8], entry_type: EntryType) -> bool {
    let lines = || {
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !is_comment(line));
        lines.map(<[u8]>::trim_ascii).filter(|line| !matches!(line, [b'-', b'-', b'-'] | [b'.', b'.', b'.']))
    };
    let mut items = 0;
    let has_form = lines().all(|line| {
        items += usize::from(is_item(line) && line != b"-");
        is_item(line) || key(line).is_some()
    });
    if has_form && items > 0 {
        return true;
    }
    // A list in brackets. As a pattern, `User: [a-z]` is an entry.
    let Some(key) = lines().next().and_then(key) else { return false };
    let is_named = LIST_NAMES.iter().any(|name| key.eq_ignore_ascii_case(name.as_bytes()));
    if (entry_type == EntryType::Regex && !is_named) || !text.contains(&b'[') {
        return false;
    }
    let parsed = str::from_utf8(text).ok().and_then(|text| yaml::parse(text).ok());
    parsed.is_some_and(|parsed| parsed.root.entries().iter().any(|entry| has_list(&entry.value)))
}

fn has_list(node: &Node) -> bool {
    matches!(node.kind, NodeKind::Sequence(_)) || node.entries().iter().any(|entry| has_list(&entry.value))
}

/// Whether a line is an item of a list in YAML.
pub(super) fn is_item(line: &[u8]) -> bool {
    matches!(line, [b'-'] | [b'-', b' ' | b'\t', ..])
}

/// The key with which a line begins.
fn key(line: &[u8]) -> Option<&[u8]> {
    let at = line.iter().position(|byte| *byte == b':')?;
    let (key, rest) = line.split_at_checked(at)?;
    let is_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'"' | b'\'');
    (!key.is_empty() && key.iter().all(is_name) && matches!(rest, [b':'] | [b':', b' ' | b'\t', ..]))
        .then_some(key)
}

/// Whether a line is blank or begins with `#`.
pub(super) fn is_comment(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start(), [] | [b'#', ..])
}
