//! Text in quotes, with the escapes of Go: `%q`, `%#v` and the texts of strconv.

use std::fmt::{self, Write as _};

/// Text in double quotes. Escaped: `"`, `\`, control characters, what does not print, and bytes that are not UTF-8 (`\xff`).
pub fn quoted(text: &(impl AsRef<[u8]> + ?Sized)) -> impl fmt::Display {
    fmt::from_fn(|f| {
        f.write_char('"')?;
        for chunk in text.as_ref().utf8_chunks() {
            chunk.valid().chars().try_for_each(|c| escaped(f, c, '"'))?;
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        f.write_char('"')
    })
}

/// A character in single quotes.
pub fn quoted_char(c: char) -> impl fmt::Display {
    fmt::from_fn(move |f| {
        f.write_char('\'')?;
        escaped(f, c, '\'')?;
        f.write_char('\'')
    })
}

fn escaped(f: &mut fmt::Formatter<'_>, c: char, quote: char) -> fmt::Result {
    match c {
        '\x07' => f.write_str("\\a"),
        '\x08' => f.write_str("\\b"),
        '\x0c' => f.write_str("\\f"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        '\x0b' => f.write_str("\\v"),
        '\\' => f.write_str("\\\\"),
        c if c == quote => write!(f, "\\{c}"),
        ' '..='~' => f.write_char(c),
        c if c.is_ascii() => write!(f, "\\x{:02x}", u32::from(c)),
        c if prints(c) => f.write_char(c),
        c if c <= '\u{ffff}' => write!(f, "\\u{:04x}", u32::from(c)),
        c => write!(f, "\\U{:08x}", u32::from(c)),
    }
}

/// Whether a character is a letter, mark, number, punctuation or symbol.
fn prints(c: char) -> bool {
    // Rust escapes what does not print, by the same categories; combining characters only at the start of a text.
    let mut bytes = [b'a'; 5];
    let (_, rest) = bytes.split_at_mut(1);
    let length = 1 + c.encode_utf8(rest).len();
    let text = bytes.get(..length).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
    text.escape_debug().nth(1) == Some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_as_in_go() {
        for (text, expected) in [
            (&b"plain it's"[..], r#""plain it's""#),
            (b"a\"b\\c", r#""a\"b\\c""#),
            (b"\x07\x08\x0c\n\r\t\x0b\0\x1b\x7f", r#""\a\b\f\n\r\t\v\x00\x1b\x7f""#),
            ("é\u{301}☃𝄞".as_bytes(), "\"é\u{301}☃𝄞\""),
            ("\u{301}".as_bytes(), "\"\u{301}\""),
            (
                "\u{85}\u{a0}\u{ad}\u{200b}\u{2028}\u{feff}".as_bytes(),
                r#""\u0085\u00a0\u00ad\u200b\u2028\ufeff""#,
            ),
            (
                "\u{e000}\u{fffd}\u{ffff}\u{e0001}\u{10ffff}".as_bytes(),
                "\"\\ue000\u{fffd}\\uffff\\U000e0001\\U0010ffff\"",
            ),
            (b"a\xffb\xe2\x82", r#""a\xffb\xe2\x82""#),
            ("a\"b\\\n\u{1}é".as_bytes(), "\"a\\\"b\\\\\\n\\x01é\""),
            (b"", r#""""#),
        ] {
            assert_eq!(quoted(text).to_string(), expected);
        }
        for (c, expected) in
            [('x', "'x'"), ('\'', r"'\''"), ('"', "'\"'"), ('\n', r"'\n'"), ('\u{a0}', r"'\u00a0'")]
        {
            assert_eq!(quoted_char(c).to_string(), expected);
        }
    }
}
