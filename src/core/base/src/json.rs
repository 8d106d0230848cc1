//! String escaping of JSON log lines, and the number of values of a text. In log lines only what must be escaped is escaped, and bytes need not be UTF-8.
//!
//! `serde_json` writes only `str` and other escapes; the format of these lines is fixed by Mixer's stdio adapter.

/// Appends `text` in quotes. `"`, `\`, line feed, carriage return and tab are escaped by letter, other control characters by
/// number; bytes that are not UTF-8 become `\ufffd` each; everything else stays as it is. Go's `encoding/json` does the same.
pub fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    if is_plain(text) {
        out.extend_from_slice(text);
    } else {
        for chunk in text.utf8_chunks() {
            push_valid(out, chunk.valid().as_bytes());
            for _ in chunk.invalid() {
                out.extend_from_slice(b"\\ufffd");
            }
        }
    }
    out.push(b'"');
}

/// Whether nothing needs escaping: printable ASCII without quotes and backslashes. Without an early exit, it vectorises.
fn is_plain(text: &[u8]) -> bool {
    text.iter()
        .fold(true, |plain, byte| plain & (0x20..0x80).contains(byte) & (*byte != b'"') & (*byte != b'\\'))
}

/// Copies runs of plain characters as a whole.
fn push_valid(out: &mut Vec<u8>, mut text: &[u8]) {
    while let Some(at) = text.iter().position(|b| *b < 0x20 || matches!(b, b'"' | b'\\')) {
        let (plain, rest) = text.split_at(at);
        out.extend_from_slice(plain);
        let Some((special, rest)) = rest.split_first() else { return };
        match special {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *special]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let digit = |n: u8| if n < 10 { b'0' + n } else { b'a' + n - 10 };
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(special >> 4), digit(special & 15)]);
            }
        }
        text = rest;
    }
    out.extend_from_slice(text);
}

/// The number of values and keys of a JSON text, or more: what separates and opens them, outside of strings.
pub fn values(text: &[u8]) -> usize {
    let (mut count, mut is_string, mut is_escaped) = (1, false, false);
    for byte in text {
        match (is_string, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (true, b'"') => is_string = false,
            (true, _) => {}
            (false, b'"') => is_string = true,
            (false, b',' | b':' | b'[' | b'{') => count += 1,
            (false, _) => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_minimally() {
        for (text, json) in [
            (&b""[..], r#""""#),
            (b"plain", r#""plain""#),
            (b"he said \"hi\"\n\t\r\\", r#""he said \"hi\"\n\t\r\\""#),
            (b"\x00\x01\x1f\x7f", "\"\\u0000\\u0001\\u001f\x7f\""),
            ("é<>&/\u{2028}".as_bytes(), "\"é<>&/\u{2028}\""),
            (b"a\xff\xc3(b", r#""a\ufffd\ufffd(b""#),
            (b"\xe2\x82", r#""\ufffd\ufffd""#),
        ] {
            let mut out = Vec::new();
            push_string(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), json);
        }
    }

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, expected) in [
            ("", 1),
            ("1", 1),
            ("[]", 2),
            ("[[],[]]", 5),
            (r#"{"a":1,"b":"x"}"#, 5),
            (r#"{"a,b":"[{\"\\\",:"}"#, 3),
            (r#""a\\",1"#, 2),
        ] {
            assert_eq!(values(text.as_bytes()), expected, "{text}");
        }
    }
}
