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
    /// A scalar that a line began whose key has this column: a block scalar, or the continuation of a plain one.
    Begun(usize),
    /// A value that starts on the next line: a scalar, a list or a mapping.
    Pending(usize),
    /// The line after `? KEY`, which has the value.
    Explicit,
    /// The items of a list whose dashes have this column: all lines that are indented deeper, and the dashes.
    Items(usize),
    /// A quoted scalar, up to its closing quote.
    Quoted(char),
    /// A list or a mapping in brackets, up to its end: how many are open, and the quote of the scalar that goes on.
    List(usize, Option<char>),
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
        Open::Quoted(quote) => return hide_until(closing(content, quote), open, line, indent, out),
        Open::List(depth, quote) => {
            return match list_end(content, depth, quote) {
                Ok(end) => hide_until(Some(end), open, line, indent, out),
                Err((depth, quote)) => hide_until(None, Open::List(depth, quote), line, indent, out),
            };
        }
        Open::Begun(_) | Open::Pending(_) | Open::Explicit if content.trim_end().is_empty() => {
            out.push_str(line);
            return open;
        }
        Open::Pending(_) | Open::Explicit if content.starts_with('#') => {
            out.push_str(line);
            return open;
        }
        Open::Items(column) => {
            if indent > column
                || content.trim_end().is_empty()
                || (indent == column && content.starts_with(['-', '#']))
            {
                hide(out);
                return open;
            }
        }
        Open::Pending(key) if indent >= key && (content == "-" || content.starts_with("- ")) => {
            hide(out);
            return Open::Items(indent);
        }
        Open::Pending(key) if indent > key && content.starts_with(['|', '>']) => {
            hide(out);
            return Open::Begun(key);
        }
        Open::Explicit => {
            if content.starts_with(':') {
                return mask_explicit_value(line, indent, out);
            }
        }
        Open::Begun(key) if indent > key => {
            hide(out);
            return open;
        }
        Open::Begun(key) | Open::Pending(key) => {
            // In a flow collection a value may be less indented than its key.
            let may_go_on =
                indent > key || !content.starts_with(['-', '#', '?', ':', '}', ']', ',', '.', '%']);
            if may_go_on {
                match value_end(content) {
                    Some(0) => {}
                    Some(end) => return hide_until(Some(end - 1), Open::Nothing, line, indent, out),
                    None => {
                        hide(out);
                        return match content.chars().next() {
                            Some(quote @ ('"' | '\''))
                                if closing(content.get(1..).unwrap_or_default(), quote).is_none() =>
                            {
                                Open::Quoted(quote)
                            }
                            Some('[' | '{') => match list_end(content, 0, None) {
                                Ok(_) => open,
                                Err((depth, quote)) => Open::List(depth, quote),
                            },
                            _ => open,
                        };
                    }
                }
            }
        }
    }
    if let Some(key) = content.trim_start_matches("- ").trim_start().strip_prefix("? ")
        && is_secret(key.trim().trim_matches(['"', '\'']))
    {
        out.push_str(line);
        return Open::Explicit;
    }
    mask_keys(line, out)
}

/// Hides the text of a line up to and with the byte at `end`, counted after its indentation, and masks what follows; without an end all of it.
fn hide_until(end: Option<usize>, open: Open, line: &str, indent: usize, out: &mut String) -> Open {
    out.push_str(line.get(..indent).unwrap_or_default());
    let content = line.get(indent..).unwrap_or_default();
    out.push_str(if content.is_empty() { "" } else { MASKED });
    match end {
        None => open,
        Some(end) => {
            let rest = content.get(end + 1..).unwrap_or_default();
            let is_shown =
                keys(rest).next().is_some() || rest.chars().all(|c| matches!(c, ' ' | ',' | ']' | '}'));
            mask_keys(if is_shown { rest } else { "" }, out)
        }
    }
}

/// Masks `: VALUE` as the value of a secret key.
fn mask_explicit_value(line: &str, indent: usize, out: &mut String) -> Open {
    const KEY: &str = "token";
    let (spaces, value) = line.split_at(indent);
    let mut masked = String::new();
    let open = mask_keys(&format!("{spaces}{KEY}{value}"), &mut masked);
    out.push_str(spaces);
    out.push_str(masked.get(indent + KEY.len()..).unwrap_or_default());
    open
}

/// How much of a line belongs to a value that an earlier line began or announced, in bytes: 0 if the line begins with another key, and
/// [`None`] if it is all of it.
fn value_end(content: &str) -> Option<usize> {
    let text = content.trim_start_matches("- ");
    let before = content.len() - text.len();
    if let Some(quote @ ('"' | '\'')) = text.chars().next() {
        let end = before + 1 + closing(text.get(1..)?, quote)? + 1;
        let rest = content.get(end..)?;
        return match rest.trim_start().chars().next() {
            Some(':') => Some(0),
            _ if keys(rest).next().is_none() => None,
            _ => Some(end),
        };
    }
    let (_, start, _) = keys(content).next()?;
    Some(content.get(..start)?.find([',', '}', ']']).unwrap_or(0))
}

/// Where tags and anchors before a value end.
fn marks_end(value: &str) -> usize {
    let mut rest = value;
    while rest.starts_with(['!', '&']) {
        let end = rest.find([' ', '\t']).unwrap_or(rest.len());
        rest = rest.get(end..).unwrap_or_default().trim_start_matches([' ', '\t']);
    }
    value.len() - rest.len()
}

/// Where the bracket is that closes a list or a mapping. `depth`: how many are open before `text`; `quote`: that of the scalar which it continues.
/// Errors: it goes on after `text`, with these.
fn list_end(text: &str, mut depth: usize, mut quote: Option<char>) -> Result<usize, (usize, Option<char>)> {
    let mut at = 0;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        if let Some(open) = quote {
            match closing(text.get(at..).unwrap_or_default(), open) {
                Some(length) => at += length + 1,
                None => return Err((depth, quote)),
            }
            quote = None;
            continue;
        }
        let before = text.get(..at).unwrap_or_default();
        match c {
            '#' if before.is_empty() || before.ends_with([' ', '\t']) => return Err((depth, None)),
            '"' | '\'' if !text.get(..at).unwrap_or_default().ends_with(char::is_alphanumeric) => {
                quote = Some(c)
            }
            '[' | '{' => depth += 1,
            ']' | '}' if depth <= 1 => return Ok(at),
            ']' | '}' => depth -= 1,
            _ => {}
        }
        at += c.len_utf8();
    }
    Err((depth, quote))
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
        let (marks, value) = value.split_at(marks_end(value));
        let at = at + marks.len();
        let end = match value.chars().next() {
            None | Some('#') => {
                // What looks like one may be a secret that is not quoted.
                out.push_str(if marks.is_empty() { "" } else { MASKED });
                return finish(line, at, out, Open::Pending(column()));
            }
            Some(quote @ ('"' | '\'')) => match closing(value.get(1..).unwrap_or_default(), quote) {
                Some(length) => at + 1 + length + 1,
                None => {
                    out.push_str(MASKED);
                    return Open::Quoted(quote);
                }
            },
            Some('[' | '{') => match list_end(value, 0, None) {
                Ok(end) => at + end + 1,
                Err((depth, quote)) => {
                    out.push_str(MASKED);
                    return Open::List(depth, quote);
                }
            },
            Some(_) if in_flow => match value.find([',', '}', ']']) {
                Some(end) => at + end,
                None => {
                    out.push_str(MASKED);
                    return Open::Begun(column());
                }
            },
            Some(_) => {
                out.push_str(MASKED);
                let comment = value.find(" #").and_then(|at| value.get(at..)).unwrap_or_default();
                out.push_str(comment);
                return Open::Begun(column());
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
            ("{\"token\":{\"v\":\"x}\"},\"b\":1}", "{\"token\":***,\"b\":1}"),
            ("credentials: {user: a,\n  pass: b}\nc: d", "credentials: ***\n  ***\nc: d"),
            ("token:\n  nested: 1\n  password: x\nb: 2", "token:\n  nested: 1\n  password: ***\nb: 2"),
            ("token:\n  hunter2\nb: 2", "token:\n  ***\nb: 2"),
            ("tokens:\n- a\n- b\nc: d", "tokens:\n***\n***\nc: d"),
            ("password: |\n  one\n\n   two\nb: 2", "password: ***\n  ***\n\n   ***\nb: 2"),
            ("a:\n  apiKey: >-\n    one\n  b: 2\n", "a:\n  apiKey: ***\n    ***\n  b: 2\n"),
            ("- password: one\n  name: x", "- password: ***\n  name: x"),
            ("password: one\n  two\nb: 2", "password: ***\n  ***\nb: 2"),
            ("password: \"one\n  two: x\" # c\nb: 2", "password: ***\n  ***\nb: 2"),
            ("url: redis://u:p@h/0", "url: redis://***@h/0"),
            ("spec: {token:\n  'a, b: c', d: 1}\ne: f", "spec: {token:\n  ***, d: 1}\ne: f"),
            ("params:\n  {a: 1, token:\n  hunter2, b: 1}", "params:\n  {a: 1, token:\n  ***, b: 1}"),
            ("{a: b, token: one\n two, b: 1}\nc: d", "{a: b, token: ***\n ***, b: 1}\nc: d"),
            ("{\n  token:\n'x'\n}\nc: d", "{\n  token:\n***\n}\nc: d"),
            ("{\n  token:\n'x\ny', b: 1\n}", "{\n  token:\n***\n***, b: 1\n}"),
            ("tokens: [a,\n  b]\nc: d", "tokens: ***\n  ***\nc: d"),
            ("tokens: [\n'a]', [b], \"c\nd]\", e\n], f: 1", "tokens: ***\n***\n***\n***, f: 1"),
            ("tokens: ['a]b', c] # d", "tokens: *** # d"),
            ("tokens:\n  [a,\n  b]\nc: d", "tokens:\n  ***\n  ***\nc: d"),
            ("- ? token\n  : hunter2\n- b", "- ? token\n  : ***\n- b"),
            ("? \"token\"\n: |\n  hunter2\nb: 2", "? \"token\"\n: ***\n  ***\nb: 2"),
            ("token:\n  'nested': 1\n", "token:\n  'nested': 1\n"),
            ("token:\n---\na: b", "token:\n---\na: b"),
            ("- token:\n- b", "- token:\n- b"),
            ("password:\n  # note: rotate\n  hunter2", "password:\n  # note: rotate\n  ***"),
            ("password:\n# c\n  hunter2\nb: 2", "password:\n# c\n  ***\nb: 2"),
            ("tokens:\n- a\n# c\n- b\nc: d", "tokens:\n***\n***\n***\nc: d"),
            (
                "keys:\n  tokens:\n  - |\n    user: x\n  - {x: 1}\n  -\n    y\n  b: 2",
                "keys:\n  tokens:\n  ***\n    ***\n  ***\n  ***\n    ***\n  b: 2",
            ),
            ("tokens: &t\n- a: b\nc: d", "tokens: ***\n***\nc: d"),
            ("password: &a \"foo #x\" # c", "password: *** # c"),
            ("{password: !!str \"a,x\", b: 1}", "{password: ***, b: 1}"),
            ("tokens: [a, # it's ]\n  b]\nc: d", "tokens: ***\n  ***\nc: d"),
            ("? \"token\"\n# x: y\n: hunter2", "? \"token\"\n# x: y\n: ***"),
            ("password:\n  |\n  user: hunter2\nb: 2", "password:\n  ***\n  ***\nb: 2"),
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
