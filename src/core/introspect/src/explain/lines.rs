//! Attributes as lines of the form: `name = value` and `name[key] = value`.
//!
//! What a line cannot hold as it is, callers may send: line feeds, blanks at the ends, quotes, brackets in keys. It is written in quotes with the
//! escapes of JSON, so that what was recorded is read again as it was, and is one line.

use std::borrow::Cow;

/// The line of an attribute; `name` is that of an attribute or `attribute[key]`.
pub(super) fn line(name: &str, value: &str) -> String {
    let (attribute, key) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((attribute, key)) => (attribute, Some(key)),
        None => (name, None),
    };
    if !is_plain(attribute) || attribute.starts_with('#') || attribute.contains(['=', '[']) {
        // No declared attribute has such a name: a comment, which is not read.
        return format!("# {} = {}", quoted(name), literal(value));
    }
    let is_key = |text: &str| is_plain(text) && !text.contains(['[', ']', '=', '"']);
    match key {
        Some(key) if is_key(key) => format!("{attribute}[{key}] = {}", literal(value)),
        Some(key) => format!("{attribute}[{}] = {}", quoted(key), literal(value)),
        None => format!("{attribute} = {}", literal(value)),
    }
}

/// Whether a text is the same once it was a line, or a part of one.
fn is_plain(text: &str) -> bool {
    text.trim() == text && !text.starts_with('"') && !text.contains(is_break)
}

/// Characters that end a line, or that nobody sees.
fn is_break(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

fn literal(value: &str) -> Cow<'_, str> {
    if is_plain(value) { Cow::Borrowed(value) } else { Cow::Owned(quoted(value)) }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // Beyond the first plane there are no such characters.
            c if is_break(c) => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// A line of the form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'l> {
    pub(super) attribute: &'l str,
    pub(super) key: Option<Cow<'l, str>>,
    pub(super) value: Cow<'l, str>,
}

impl<'l> Line<'l> {
    /// Reads a line. Errors: what was expected.
    pub(super) fn read(line: &'l str) -> Result<Self, String> {
        let expected = |what: &str| format!("`{line}`: expected {what}");
        let end = line.find(['[', '=']).ok_or_else(|| expected("`name = value`"))?;
        let (attribute, rest) = line.split_at_checked(end).unwrap_or((line, ""));
        let (key, rest) = match rest.strip_prefix('[') {
            None => (None, rest),
            Some(rest) => {
                let (key, rest) = key(rest).ok_or_else(|| expected("`]` before `=`"))?;
                (Some(key), rest)
            }
        };
        let value = rest.trim_start().strip_prefix('=').ok_or_else(|| expected("`name = value`"))?;
        let value = value.trim();
        let value = unquoted(value).map_or(Cow::Borrowed(value), Cow::Owned);
        Ok(Self { attribute: attribute.trim(), key, value })
    }
}

/// A key and what follows its bracket. Cost: linear in the text.
fn key(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let is_end = |rest: &str| rest.trim_start().starts_with('=');
    let of_literal = || {
        let (literal, rest) = text.split_at_checked(end_of_literal(text)?)?;
        let rest = rest.trim_start().strip_prefix(']').filter(|rest| is_end(rest))?;
        Some((Cow::Owned(unquoted(literal)?), rest))
    };
    // In a key without quotes, that which `=` follows ends it.
    let plain = || {
        let mut parts =
            text.match_indices(']').filter_map(|(at, _)| Some((text.get(..at)?, text.get(at + 1..)?)));
        let (key, rest) = parts.find(|(_, rest)| is_end(rest))?;
        Some((Cow::Borrowed(key.trim_matches('"')), rest))
    };
    of_literal().or_else(plain)
}

/// Where a literal ends that a text begins with: behind the first quote after that without `\` before it.
fn end_of_literal(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let inner = text.strip_prefix('"')?;
    let end = inner.bytes().position(|byte| match byte {
        _ if is_escaped => {
            is_escaped = false;
            false
        }
        b'\\' => {
            is_escaped = true;
            false
        }
        byte => byte == b'"',
    })?;
    Some(end + 2)
}

/// The text of a literal; `None` if it is none.
fn unquoted(text: &str) -> Option<String> {
    if text.starts_with('"') { serde_json::from_str(text).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_is_read_again() {
        let texts = [
            "",
            "ann",
            "a=b",
            " padded ",
            "\"q\"",
            "\"",
            "x\nsource.user = root",
            "a\r",
            "]",
            "a] = \"b",
            "\\",
            "\u{2028}",
            "\u{7f}",
            "ä \"b\"",
            "# no comment",
        ];
        for value in texts {
            let text = line("source.user", value);
            assert_eq!(text.lines().count(), 1, "{text}");
            let read = Line::read(text.trim()).unwrap();
            assert_eq!(
                (read.attribute, read.key.as_deref(), &*read.value),
                ("source.user", None, value),
                "{text}"
            );
            for key in texts {
                let text = line(&format!("source.labels[{key}]"), value);
                assert_eq!(text.lines().count(), 1, "{text}");
                let read = Line::read(text.trim()).unwrap();
                let expected = ("source.labels", Some(key), value);
                assert_eq!((read.attribute, read.key.as_deref(), &*read.value), expected, "{text}");
            }
        }
    }

    /// Callers choose them.
    #[test]
    fn names_that_no_attribute_has_are_comments() {
        for name in ["x\nsource.user", "# x", "a=b", "a=b[c]", " x", "x\n[c]"] {
            let text = line(name, "root\nsource.user = root");
            assert!(text.lines().count() == 1 && text.starts_with("# \""), "{text}");
        }
    }

    #[test]
    fn what_a_person_writes_is_read() {
        for (text, attribute, key, value) in [
            ("source.user=ann", "source.user", None, "ann"),
            ("source.user = \"ann\"", "source.user", None, "ann"),
            ("request.headers[x-user]=a=b", "request.headers", Some("x-user"), "a=b"),
            ("request.headers[\"x-user\"] = ann", "request.headers", Some("x-user"), "ann"),
            ("request.path = /a[1]=2", "request.path", None, "/a[1]=2"),
            ("source.labels[a=b] = c", "source.labels", Some("a=b"), "c"),
            ("source.user = \"a\\q\"", "source.user", None, "\"a\\q\""),
            ("source.labels[\"a]=\" ] = c", "source.labels", Some("a]="), "c"),
            ("source.labels[\"a] = c", "source.labels", Some("a"), "c"),
        ] {
            let read = Line::read(text).unwrap();
            assert_eq!(
                (read.attribute, read.key.as_deref(), &*read.value),
                (attribute, key, value),
                "{text}"
            );
        }
        for text in ["source.user", "source.labels[a = b", ""] {
            assert!(Line::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_long_line_takes_linear_time() {
        for (text, is_read) in [
            (format!("x[\"{}", "]=".repeat(130_000)), true),
            (format!("x[\"{}", "]\\\"".repeat(80_000)), false),
            (format!("x[{}", "]  ".repeat(80_000)), false),
        ] {
            let begun = std::time::Instant::now();
            assert_eq!(Line::read(&text).is_ok(), is_read);
            assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
        }
    }
}
