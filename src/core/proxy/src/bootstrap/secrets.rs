//! Keys and passwords of a bootstrap: neither in configuration dumps nor in messages.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use mixer_config::{Diagnostic, FieldPath, Node, NodeKind};
use serde_json::Value;

/// What stands for a secret.
pub(super) const REDACTED: &str = "[redacted]";

/// Fields that are secret, with everything below them.
const SECRET_FIELDS: [&str; 5] =
    ["private_key", "private_key_provider", "password", "pkcs12", "session_ticket_keys"];

/// Fields below them whose names say nothing.
const HOLDERS: [&str; 8] = [
    "filename",
    "inline_bytes",
    "inline_string",
    "environment_variable",
    "watched_directory",
    "path",
    "keys",
    "typed_config",
];

/// Maximum length of a message, a hint or a path, in characters.
const MAX_TEXT: usize = 600;

/// The beginning of a PEM text, and of the line that ends one.
const BEGIN: &str = "-----BEGIN";
const END: &str = "-----END";

/// Base64 characters in a row of which a key may be made.
const MIN_ENCODED: usize = 64;

/// Whether the value of a field is secret.
pub(super) fn is_secret(field: &str) -> bool {
    SECRET_FIELDS.iter().any(|name| is_named(field, name))
}

/// Whether a key is this field, in snake_case or lowerCamelCase.
fn is_named(key: &str, name: &str) -> bool {
    let letters = |text: &str| {
        text.bytes().filter(|byte| *byte != b'_').map(|byte| byte.to_ascii_lowercase()).collect::<Vec<_>>()
    };
    letters(key) == letters(name)
}

/// A secret value in a dump: its form, without what it says.
pub(super) fn redacted(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Null => Value::Null,
        NodeKind::Sequence(items) => items.iter().map(redacted).collect(),
        NodeKind::Mapping(entries) => {
            let shown = |key: &str| {
                let is_known = HOLDERS.iter().any(|name| is_named(key, name));
                if is_known { key.to_owned() } else { REDACTED.to_owned() }
            };
            entries.iter().map(|entry| (shown(&entry.key), redacted(&entry.value))).collect()
        }
        _ => REDACTED.into(),
    }
}

/// A text in a dump: none with a private key in it, such as the file of a certificate that has its key, too.
pub(super) fn without_key(text: &str) -> &str {
    const KEY: &str = "PRIVATE KEY";
    let has_key = || {
        let encoded: String = text.split_ascii_whitespace().collect();
        let bytes = STANDARD_NO_PAD.decode(encoded.trim_end_matches('=')).unwrap_or_default();
        memchr::memmem::find(&bytes, KEY.as_bytes()).is_some()
    };
    let is_encoded =
        text.len() >= MIN_ENCODED / 2 && text.bytes().all(|b| is_base64(b) || b.is_ascii_whitespace());
    // Lines of a certificate may begin as keys do.
    let has_run = || !text.contains(BEGIN) && encoded_runs(text).any(|(_, _, is_key)| is_key);
    if text.contains(KEY) || (is_encoded && has_key()) || has_run() { REDACTED } else { text }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// A problem whose texts quote no key, have one line, and are bounded.
pub(super) fn cleaned(mut problem: Diagnostic) -> Diagnostic {
    problem.message = clean(&problem.message).into_owned();
    problem.hint = problem.hint.as_deref().map(|hint| clean(hint).into_owned());
    let path = problem.field.to_string();
    if let Cow::Owned(path) = clean(&path) {
        problem.field = FieldPath::parse(&path);
    }
    problem
}

/// A text without PEM, without keys in base64, in one line of [`MAX_TEXT`] characters at most.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    let is_clean = !text.contains(BEGIN)
        && text.chars().take(MAX_TEXT + 1).count() <= MAX_TEXT
        && !text.contains(char::is_control)
        && !encoded_runs(text).any(|(_, _, is_key)| is_key);
    if is_clean {
        return Cow::Borrowed(text);
    }
    let text = without_encoded_keys(&without_pem(text));
    let one_line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut out: String = one_line.take(MAX_TEXT).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    Cow::Owned(out)
}

fn without_pem(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, pem)) = rest.split_once(BEGIN) {
        out.push_str(before);
        out.push_str(REDACTED);
        // Without an end, all that follows is taken for it.
        let end = pem.split_once(END).and_then(|(_, label)| label.split_once("-----"));
        rest = end.map_or("", |(_, after)| after);
    }
    out + rest
}

/// Runs of base64 characters: where they begin and end, and whether what they encode looks like a key, that is DER or PEM.
fn encoded_runs(text: &str) -> impl Iterator<Item = (usize, usize, bool)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + bytes.get(at..)?.iter().position(|byte| is_base64(*byte))?;
        let run = bytes.get(start..)?;
        let length = run.iter().position(|byte| !is_base64(*byte)).unwrap_or(run.len());
        at = start + length;
        let run = run.get(..length)?;
        // Something like a URL may come before it.
        let slashes = run.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(place, _)| place + 1);
        let mut parts = std::iter::once(0).chain(slashes).filter_map(|place| run.get(place..));
        let is_key = parts.any(is_encoded_key);
        Some((start, at, is_key))
    })
}

/// Whether base64 characters encode DER or PEM, and are enough for a key.
fn is_encoded_key(text: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    // A part of four characters is whole without what follows it; 16 of them tell what it is.
    let unpadded = text.iter().position(|byte| *byte == b'=').unwrap_or(text.len());
    let part = text.get(..(unpadded & !3).min(MIN_ENCODED)).unwrap_or_default();
    let decoded = STANDARD_NO_PAD.decode(part).unwrap_or_default();
    let is_known = decoded.first() == Some(&SEQUENCE) || decoded.starts_with(BEGIN.as_bytes());
    text.len() >= MIN_ENCODED && is_known
}

fn without_encoded_keys(text: &str) -> String {
    let mut out = String::new();
    let mut kept = 0;
    for (start, end, _) in encoded_runs(text).filter(|(_, _, is_key)| *is_key) {
        out.push_str(text.get(kept..start).unwrap_or_default());
        out.push_str(REDACTED);
        kept = end;
    }
    out + text.get(kept..).unwrap_or_default()
}
