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

    /// A template that was not filled in: `{{ .Values.user }}`, `${USER}`.
    pub fn template(text: &[u8]) -> Option<Self> {
        text.windows(2).any(|tag| matches!(tag, b"{{" | b"${")).then_some(Self::Template)
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
