//! Marks by which a text of a configuration is probably not what was meant: what is compared with values of requests byte by byte, and has
//! what such values do not have.

/// What a text has that is probably not meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It begins with a byte order mark.
    ByteOrderMark,
    /// It begins or ends with blanks, tabs or a carriage return.
    Blanks,
    /// It has a character that nobody sees, as it comes from web pages and word processors.
    Invisible,
    /// It is in quotes.
    Quotes,
    /// It has a template that was not filled in.
    Template,
    /// It has several texts between commas.
    Commas,
    /// It has several texts between bars.
    Bars,
    /// It has several texts between semicolons.
    Semicolons,
    /// It has several texts between tabs.
    Tabs,
}

/// What some editors write first.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What separates texts, by mark.
const SEPARATORS: [(Mark, u8); 4] =
    [(Mark::Commas, b','), (Mark::Bars, b'|'), (Mark::Semicolons, b';'), (Mark::Tabs, b'\t')];

impl Mark {
    /// What is at the ends of a text, or cannot be seen. Blanks alone may be meant. Cost: one pass.
    pub fn unseen(text: &[u8]) -> Option<Self> {
        if text.starts_with(BYTE_ORDER_MARK) {
            return Some(Self::ByteOrderMark);
        }
        let seen = text.trim_ascii();
        if seen.len() != text.len() && !seen.is_empty() {
            return Some(Self::Blanks);
        }
        if text.is_ascii() {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?;
        let is_at_end = text.starts_with(is_joiner) || text.ends_with(is_joiner);
        (is_at_end || text.contains(is_invisible)).then_some(Self::Invisible)
    }

    /// Quotes around a text.
    pub fn quotes(text: &[u8]) -> Option<Self> {
        let [quote @ (b'"' | b'\''), inner @ .., end] = text else { return None };
        (quote == end && !inner.contains(quote)).then_some(Self::Quotes)
    }

    /// A template that was not filled in: `{{ .Values.user }}`, `${USER}`, `$(USER)`, `<user>`.
    pub fn template(text: &[u8]) -> Option<Self> {
        if !text.iter().any(|byte| matches!(byte, b'{' | b'$' | b'<')) {
            return None;
        }
        let has_tag = text.windows(2).any(|tag| matches!(tag, b"{{" | b"${"));
        let mut variables = text.windows(2).enumerate().filter(|(_, tag)| *tag == b"$(");
        let has_variable =
            variables.any(|(at, _)| text.get(at + 2..).is_some_and(|rest| is_placeholder(rest, b')', b"_.")));
        let name = text.strip_prefix(b"<").filter(|rest| rest.ends_with(b">"));
        let is_named = name.is_some_and(|rest| {
            rest.split_last().is_some_and(|(_, name)| !name.contains(&b'>'))
                && is_placeholder(rest, b'>', b"_-. ")
        });
        (has_tag || has_variable || is_named).then_some(Self::Template)
    }

    /// Several plain texts in the place of one: `eve,mallory`, `eve|mallory`.
    pub fn several(text: &[u8]) -> Option<Self> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.@/:*".contains(byte);
        let is_text = |part: &[u8]| !part.is_empty() && part.iter().all(is_plain);
        let is_of = |(_, separator): &&(Self, u8)| {
            let mut parts = text.split(|byte| byte == separator).map(<[u8]>::trim_ascii);
            text.contains(separator) && parts.all(is_text)
        };
        SEPARATORS.iter().find(is_of).map(|(mark, _)| *mark)
    }

    /// What is wrong, in words. `what`: what the text is, such as `entry`.
    pub fn text(self, what: &str) -> String {
        match self {
            Self::ByteOrderMark => format!("it begins with a byte order mark, which is part of the {what}"),
            Self::Blanks => {
                format!("it begins or ends with blanks, or a carriage return, which are part of the {what}")
            }
            Self::Invisible => format!(
                "it has a character that cannot be seen, such as a no-break or zero-width space, which is part of the {what}"
            ),
            Self::Quotes => format!("it is in quotes, which are part of the {what}"),
            Self::Template => "a template was not filled in".to_owned(),
            Self::Commas => format!("it has commas: every {what} needs a line of its own"),
            Self::Bars => format!("it has bars: every {what} needs a line of its own"),
            Self::Semicolons => format!("it has semicolons: every {what} needs a line of its own"),
            Self::Tabs => format!("it has tabs: every {what} needs a line of its own"),
        }
    }

    /// The texts that are meant, if the mark tells. `text` has this mark.
    pub fn meant(self, text: &str) -> Vec<String> {
        let is_unseen = |c: char| is_invisible(c) || is_joiner(c) || c.is_whitespace();
        let separator = SEPARATORS.iter().find(|(mark, _)| *mark == self).map(|(_, byte)| char::from(*byte));
        match (self, separator) {
            (_, Some(separator)) => text.split(separator).map(|part| part.trim().to_owned()).collect(),
            (Self::Quotes, _) => vec![text.trim_matches(['"', '\'']).to_owned()],
            (Self::Template, _) => Vec::new(),
            _ => vec![text.trim_matches(is_unseen).replace(is_no_break, " ").replace(is_invisible, "")],
        }
    }
}

/// Whether a text begins with a name and this end. `others`: what names have beside letters and digits.
fn is_placeholder(text: &[u8], end: u8, others: &[u8]) -> bool {
    let name = text.split(|byte| *byte == end).next().unwrap_or_default();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || others.contains(byte);
    name.len() < text.len() && name.first().is_some_and(u8::is_ascii_alphabetic) && name.iter().all(is_name)
}

/// Whether a text is probably meant as a regular expression, as `^eve$`, `eve.+`, `(eve|mallory)` or `[a-z]*`. `v1.*` and
/// `*.example.com` are not.
pub fn is_regex(text: &str) -> bool {
    let is_special = |byte: u8| matches!(byte, b'^' | b'$' | b'\\' | b'?' | b'+' | b'*' | b'[' | b'(');
    if !text.bytes().any(is_special) {
        return false;
    }
    let is_there = |part: &str| text.contains(part);
    let repeats = |(at, _): (usize, &str)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        before.is_none_or(|before| !before.is_alphanumeric() && !matches!(before, '*' | '-' | '_'))
    };
    let is_end = |text: &str| text.len() > 1;
    (text.starts_with('^') && is_end(text))
        || (text.ends_with('$') && is_end(text))
        || [".+", "\\d", "\\w", "\\s", "\\b", "\\.", "\\/", "(?", "[^", "]+", "]*"].into_iter().any(is_there)
        || text.match_indices(".*").any(repeats)
        || between(text, '[', ']').is_some_and(has_range)
        || between(text, '(', ')').is_some_and(|inner| inner.contains('|'))
}

/// What is in the first such brackets.
fn between(text: &str, open: char, close: char) -> Option<&str> {
    text.split_once(open)?.1.split_once(close).map(|(inner, _)| inner)
}

/// Whether a text has `a-z`, `A-Z`, `0-9` or a part of one.
fn has_range(text: &str) -> bool {
    text.as_bytes().windows(3).any(|range| match range {
        [first, b'-', last] => {
            let is_kind = |of: fn(&u8) -> bool| of(first) && of(last);
            first < last
                && [u8::is_ascii_digit, u8::is_ascii_lowercase, u8::is_ascii_uppercase]
                    .into_iter()
                    .any(is_kind)
        }
        _ => false,
    })
}

/// Whether a text is a network, or an address that is written otherwise than the text of the same address in a request.
pub fn is_network(text: &[u8]) -> bool {
    let Some(text) = std::str::from_utf8(text).ok().filter(|text| text.len() <= 64) else { return false };
    let (address, length) =
        text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let Ok(ip) = address.parse::<std::net::IpAddr>() else { return false };
    match length {
        Some(length) => length.len() <= 3 && length.parse::<u8>().is_ok(),
        None => ip.to_canonical().to_string() != address,
    }
}

/// Whether a character joins others, as in emoji and some scripts: it has a meaning between two of them.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// A blank that looks like any other.
fn is_no_break(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{2007}' | '\u{202f}')
}

/// Whether a character looks like nothing, or like an ordinary blank.
fn is_invisible(c: char) -> bool {
    is_no_break(c)
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{2000}'..='\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{205f}'..='\u{206f}'
                | '\u{3000}'
                | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_and_regular_expressions_are_told_from_texts() {
        for text in ["$(BAD_USER)", "a-$(USER)", "<user>", "<your user>", "${A}", "{{ a }}"] {
            assert_eq!(Mark::template(text.as_bytes()), Some(Mark::Template), "{text}");
        }
        for text in ["$(", "$()", "$5", "<", "<>", "<a", "a>", "<a>b", "<a><b>", "$(1)"] {
            assert_eq!(Mark::template(text.as_bytes()), None, "{text}");
        }
        for text in
            ["^eve$", "^eve", "min$", "eve.+", "(eve|mallory)", "[a-z]*", "v[0-9]", "/a/.*", "user-\\d+"]
        {
            assert!(is_regex(text), "{text}");
        }
        for text in
            ["eve", "^", "$", "v1.*", "*.example", "[::1]:80", "a+b", "(a)", "eve|mallory", "[2001:db8::1]"]
        {
            assert!(!is_regex(text), "{text}");
        }
        assert!(is_network(b"10.0.0.0/8") && is_network(b"2001:DB8::1"));
        assert!(!is_network(b"10.0.0.1") && !is_network(b"/8") && !is_network(b"eve/8"));
    }

    #[test]
    fn marks_are_found_and_removed() {
        type Find = fn(&[u8]) -> Option<Mark>;
        let rows: [(&str, Find, Option<Mark>, &[&str]); 22] = [
            ("eve", Mark::unseen, None, &[]),
            ("two words", Mark::unseen, None, &[]),
            ("  ", Mark::unseen, None, &[]),
            ("eve ", Mark::unseen, Some(Mark::Blanks), &["eve"]),
            ("eve\r", Mark::unseen, Some(Mark::Blanks), &["eve"]),
            ("\u{feff}eve", Mark::unseen, Some(Mark::ByteOrderMark), &["eve"]),
            ("eve\u{a0}", Mark::unseen, Some(Mark::Invisible), &["eve"]),
            ("two\u{a0}words", Mark::unseen, Some(Mark::Invisible), &["two words"]),
            ("e\u{200b}ve", Mark::unseen, Some(Mark::Invisible), &["eve"]),
            ("\u{200d}eve", Mark::unseen, Some(Mark::Invisible), &["eve"]),
            ("\u{1f469}\u{200d}\u{1f680}", Mark::unseen, None, &[]),
            ("jürgen", Mark::unseen, None, &[]),
            ("\"eve\"", Mark::quotes, Some(Mark::Quotes), &["eve"]),
            ("'eve'", Mark::quotes, Some(Mark::Quotes), &["eve"]),
            ("\"", Mark::quotes, None, &[]),
            ("{{ .Values.user }}", Mark::template, Some(Mark::Template), &[]),
            ("${USER}", Mark::template, Some(Mark::Template), &[]),
            ("eve, mallory", Mark::several, Some(Mark::Commas), &["eve", "mallory"]),
            ("eve|mallory", Mark::several, Some(Mark::Bars), &["eve", "mallory"]),
            ("eve;mallory", Mark::several, Some(Mark::Semicolons), &["eve", "mallory"]),
            ("CN=eve,O=shop", Mark::several, None, &[]),
            ("eve,", Mark::several, None, &[]),
        ];
        for (text, find, mark, meant) in rows {
            assert_eq!(find(text.as_bytes()), mark, "{text:?}");
            let found = mark.map_or_else(Vec::new, |mark| mark.meant(text));
            assert_eq!(found, meant, "{text:?}");
        }
        // Not UTF-8: nothing is known.
        assert_eq!(Mark::unseen(b"\xa0eve"), None);
    }
}
