//! Secrets in the text of YAML and JSON files.
//!
//! The text is not parsed, because it must be masked even if it is not valid. Lines stay lines, so that positions stay true.

use std::borrow::Cow;

use super::{MASKED, is_secret, mask_text};

/// What the lines after a secret key belong to.
#[derive(Debug, Clone, Copy)]
enum Open {
    /// Nothing secret.
    Nothing,
    /// A scalar of all lines that are indented deeper than its key: a block scalar, or the continuation of a plain one.
    Indented(usize),
    /// A value that starts on the next line: a scalar, a list or a mapping.
    Pending(usize),
    /// A quoted scalar, up to its closing quote.
    Quoted(char),
}

/// Masks the values of keys with the names of secrets, block scalars and scalars of several lines among them, and secrets in all other
/// text. What cannot be told from a secret is masked.
pub fn mask_source(text: &str) -> Cow<'_, str> {
    let mut masked = String::with_capacity(text.len());
    let mut open = Open::Nothing;
    for line in text.split_inclusive('\n') {
        let (content, end) = match line.strip_suffix('\n') {
            Some(content) => (content, "\n"),
            None => (line, ""),
        };
        open = mask_line(content, open, &mut masked);
        masked.push_str(end);
    }
    match mask_text(&masked) {
        Cow::Owned(masked) => Cow::Owned(masked),
        Cow::Borrowed(_) if masked == text => Cow::Borrowed(text),
        Cow::Borrowed(_) => Cow::Owned(masked),
    }
}

fn mask_line(line: &str, open: Open, out: &mut String) -> Open {
    let content = line.trim_start_matches(' ');
    let indent = line.len() - content.len();
    let hide = |out: &mut String| {
        out.push_str(line.get(..indent).unwrap_or_default());
        out.push_str(if content.is_empty() { "" } else { MASKED });
    };
    match open {
        Open::Nothing => {}
        Open::Quoted(quote) => {
            hide(out);
            return if closing(content, quote).is_some() { Open::Nothing } else { open };
        }
        Open::Indented(key) | Open::Pending(key) if content.is_empty() => {
            out.push_str(line);
            return open_again(open, key);
        }
        Open::Indented(key) if indent > key => {
            hide(out);
            return open;
        }
        Open::Pending(key) if indent > key || (indent == key && content.starts_with("- ")) => {
            if keys(line).next().is_none() {
                hide(out);
                return open;
            }
        }
        Open::Indented(_) | Open::Pending(_) => {}
    }
    mask_keys(line, out)
}

fn open_again(open: Open, key: usize) -> Open {
    match open {
        Open::Indented(_) => Open::Indented(key),
        _ => Open::Pending(key),
    }
}

/// Every key of a line: its name, where the name starts, and where the text after the colon starts.
fn keys(line: &str) -> impl Iterator<Item = (&str, usize, usize)> {
    line.match_indices(':').filter_map(|(at, _)| {
        let before = line.get(..at)?;
        let after = line.get(at + 1..)?;
        let is_quoted = before.ends_with(['"', '\'']);
        if !(after.is_empty() || after.starts_with([' ', '\t']) || is_quoted) {
            return None;
        }
        let name_end = before.trim_end().trim_end_matches(['"', '\'']).len();
        let named = before.get(..name_end)?;
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        let start = named
            .rfind(|c| !is_name(c))
            .map_or(0, |at| at + named.get(at..).and_then(|t| t.chars().next()).map_or(1, char::len_utf8));
        let name = named.get(start..)?.trim_start_matches('-');
        (!name.is_empty()).then_some((name, start, at + 1))
    })
}

/// Masks the values of the secret keys of a line.
fn mask_keys(line: &str, out: &mut String) -> Open {
    let mut shown = 0;
    let flow = line.find(['{', '[']);
    for (name, start, after) in keys(line) {
        if start < shown || !is_secret(name) {
            continue;
        }
        let rest = line.get(after..).unwrap_or_default();
        let value = rest.trim_start();
        let at = after + rest.len() - value.len();
        // Only for the last key: it looks at the whole line.
        let column = || line.get(..start).unwrap_or_default().trim_end_matches(['"', '\'']).chars().count();
        let in_flow = flow.is_some_and(|flow| flow < start);
        out.push_str(line.get(shown..at).unwrap_or_default());
        shown = at;
        let end = match value.chars().next() {
            None | Some('#') => return finish(line, shown, out, Open::Pending(column())),
            Some('{') => continue,
            Some(quote @ ('"' | '\'')) => match closing(value.get(1..).unwrap_or_default(), quote) {
                Some(length) => at + 1 + length + 1,
                None => {
                    out.push_str(MASKED);
                    return Open::Quoted(quote);
                }
            },
            Some('[') => at + value.find(']').map_or(value.len(), |end| end + 1),
            Some(_) if in_flow => at + value.find([',', '}', ']']).unwrap_or(value.len()),
            Some(_) => {
                out.push_str(MASKED);
                let comment = value.find(" #").and_then(|at| value.get(at..)).unwrap_or_default();
                out.push_str(comment);
                return Open::Indented(column());
            }
        };
        out.push_str(MASKED);
        shown = end;
    }
    finish(line, shown, out, Open::Nothing)
}

fn finish(line: &str, shown: usize, out: &mut String, open: Open) -> Open {
    out.push_str(line.get(shown..).unwrap_or_default());
    open
}

/// Where the quote is that closes a scalar.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' if quote == '"' => {
                characters.next();
            }
            c if c == quote => match characters.peek() {
                Some((_, next)) if quote == '\'' && *next == quote => {
                    characters.next();
                }
                _ => return Some(at),
            },
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_keys_are_masked() {
        for (text, shown) in [
            ("password: hunter2", "password: ***"),
            ("password: a, b } c", "password: ***"),
            ("password: !!str &a hunter2 # why", "password: *** # why"),
            ("  clientSecret: \"a: b\" # c", "  clientSecret: *** # c"),
            ("- token: it''s", "- token: ***"),
            ("token: 'it''s' # x", "token: *** # x"),
            ("{\"api_key\": \"x\\\"y\", \"b\": 1}", "{\"api_key\": ***, \"b\": 1}"),
            ("{\"api_key\":\"x\",\"b\":1}", "{\"api_key\":***,\"b\":1}"),
            ("a: {token: x, b: 1, password: y}", "a: {token: ***, b: 1, password: ***}"),
            ("tokens: [a, b]", "tokens: ***"),
            ("token:\n  nested: 1\n  password: x\nb: 2", "token:\n  nested: 1\n  password: ***\nb: 2"),
            ("token:\n  hunter2\nb: 2", "token:\n  ***\nb: 2"),
            ("tokens:\n- a\n- b\nc: d", "tokens:\n***\n***\nc: d"),
            ("password: |\n  one\n\n   two\nb: 2", "password: ***\n  ***\n\n   ***\nb: 2"),
            ("a:\n  apiKey: >-\n    one\n  b: 2\n", "a:\n  apiKey: ***\n    ***\n  b: 2\n"),
            ("- password: one\n  name: x", "- password: ***\n  name: x"),
            ("password: one\n  two\nb: 2", "password: ***\n  ***\nb: 2"),
            ("password: \"one\n  two: x\" # c\nb: 2", "password: ***\n  ***\nb: 2"),
            ("url: redis://u:p@h/0", "url: redis://***@h/0"),
        ] {
            assert_eq!(mask_source(text), shown, "{text}");
        }
    }

    #[test]
    fn other_text_is_kept() {
        for text in [
            "match: request.headers[\"x\"] == \"y\"",
            "metadata:\n  name: x\n\nspec: {a: 1}\n",
            "keys: 1:2\n# token",
            "descriptors:\n- key: remote_address\n  value: x",
            "time: 12:30:00",
            "ä: ö\r\n",
            ":",
        ] {
            let shown = mask_source(text);
            assert_eq!(shown, text);
            assert!(matches!(shown, Cow::Borrowed(_)));
        }
    }
}
