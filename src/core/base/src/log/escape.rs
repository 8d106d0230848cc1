//! Escapes of text in records: nothing that a caller sent may begin a line, move a cursor or change the reading order.
//!
//! Escaped in every format: C0 and C1 control characters, DEL, line and paragraph separators, controls of the text direction, and
//! bytes that are not UTF-8. Line feed, carriage return and tab have short escapes; all others are `\u` and four digits.

use std::borrow::Cow;

/// A text as it is shown in one line: escaped as in the log, without quotes. Escaping twice changes nothing.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    push_escaped(&mut out, text.as_bytes());
    // Escapes are ASCII.
    Cow::Owned(String::from_utf8(out).unwrap_or_default())
}

/// Appends `text` unquoted; quotes and backslashes stay.
pub(super) fn push_escaped(out: &mut Vec<u8>, text: &[u8]) {
    push(out, text, false);
}

/// Appends `text` as a JSON string in quotes.
pub(super) fn push_quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    push(out, text, true);
    out.push(b'"');
}

fn push(out: &mut Vec<u8>, text: &[u8], quoted: bool) {
    let is_plain = |byte: &u8| (0x20..0x7f).contains(byte) && !(quoted && matches!(byte, b'"' | b'\\'));
    if text.iter().all(is_plain) {
        out.extend_from_slice(text);
        return;
    }
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            push_character(out, character, quoted);
        }
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
}

fn push_character(out: &mut Vec<u8>, character: char, quoted: bool) {
    match character {
        '"' | '\\' if quoted => out.extend_from_slice(&[b'\\', character as u8]),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        _ if is_escaped(character) => {
            out.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
        }
        _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Control characters (C0, DEL, C1), line and paragraph separators, and the bidirectional controls of Unicode.
fn is_escaped(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(push: fn(&mut Vec<u8>, &[u8]), text: &[u8]) -> String {
        let mut out = Vec::new();
        push(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn control_characters_are_escaped_in_every_form() {
        for (what, text, escaped) in [
            ("plain", &b"a b"[..], "a b"),
            ("line feed, carriage return, tab", b"a\nb\rc\td", r"a\nb\rc\td"),
            ("C0 and DEL", b"\x00\x1b[31m\x7f", r"\u0000\u001b[31m\u007f"),
            ("C1", "\u{80}\u{85}\u{9f}".as_bytes(), r"\u0080\u0085\u009f"),
            ("separators", "\u{2028}\u{2029}".as_bytes(), r"\u2028\u2029"),
            ("bidirectional", "\u{202e}x\u{2066}\u{200f}\u{61c}".as_bytes(), r"\u202ex\u2066\u200f\u061c"),
            ("not UTF-8", b"a\xff\xc3(", r"a\ufffd\ufffd("),
            ("letters", "é日".as_bytes(), "é日"),
        ] {
            assert_eq!(pushed(push_escaped, text), escaped, "{what}");
            assert_eq!(pushed(push_quoted, text), format!("\"{escaped}\""), "{what}");
            let lossy = String::from_utf8_lossy(text).replace('\u{fffd}', "\\ufffd");
            assert_eq!(super::escaped(&lossy), escaped, "{what}");
            assert!(matches!(super::escaped(escaped), Cow::Borrowed(_)), "{what}");
        }
        assert_eq!(pushed(push_escaped, br#"say "hi" \ there"#), r#"say "hi" \ there"#);
        assert_eq!(pushed(push_quoted, br#"say "hi" \ there"#), r#""say \"hi\" \\ there""#);
        let json: String = serde_json::from_str(&pushed(push_quoted, "\u{85}\n\u{202e}".as_bytes())).unwrap();
        assert_eq!(json, "\u{85}\n\u{202e}");
    }
}
