//! Literals -> constants.

use super::lexer::TokenKind;
use mixer_attribute::{SignedDuration, ValueType};

/// The value of a literal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Constant {
    Bool(bool),
    Int64(i64),
    Double(f64),
    String(Box<[u8]>),
    Duration(SignedDuration),
}

impl Constant {
    /// The type of the value.
    pub(super) fn value_type(&self) -> ValueType {
        match self {
            Constant::Bool(_) => ValueType::Bool,
            Constant::Int64(_) => ValueType::Int64,
            Constant::Double(_) => ValueType::Double,
            Constant::String(_) => ValueType::String,
            Constant::Duration(_) => ValueType::Duration,
        }
    }
}

/// The constant of a literal. A string or character that is a valid duration is a duration.
///
/// Errors: an unsupported form of a number, or a number out of range.
pub(super) fn constant(kind: TokenKind, source: &str) -> Result<Constant, String> {
    match kind {
        TokenKind::Integer => integer(source).map(Constant::Int64),
        TokenKind::Float => float(source).map(Constant::Double),
        TokenKind::String | TokenKind::Character => {
            let text = unquote(source);
            Ok(match SignedDuration::from_text(&text) {
                Some(duration) => Constant::Duration(duration),
                None => Constant::String(text.into()),
            })
        }
        _ => Err(format!("invalid syntax: {source} is not a number of this language")),
    }
}

fn integer(source: &str) -> Result<i64, String> {
    let problem = match source.parse::<i64>() {
        Ok(value) => return Ok(value),
        Err(_) if source.bytes().all(|b| b.is_ascii_digit()) => "value out of range",
        Err(_) => "invalid syntax",
    };
    Err(format!("strconv.ParseInt: parsing \"{source}\": {problem}"))
}

fn float(source: &str) -> Result<f64, String> {
    let problem = match source.parse::<f64>() {
        Ok(value) if value.is_finite() => return Ok(value),
        Ok(_) => "value out of range",
        Err(_) => "invalid syntax",
    };
    Err(format!("strconv.ParseFloat: parsing \"{source}\": {problem}"))
}

/// The bytes between the quotes of a valid literal, unescaped.
fn unquote(source: &str) -> Vec<u8> {
    let body = source.get(1..source.len().saturating_sub(1)).unwrap_or("");
    if source.starts_with('`') {
        return body.bytes().filter(|b| *b != b'\r').collect();
    }
    let mut bytes = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        bytes.extend_from_slice(plain.as_bytes());
        rest = unescape(escape.get(1..).unwrap_or(""), &mut bytes);
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// Appends the bytes of the escape sequence at the start of `text`; returns the rest.
fn unescape<'t>(text: &'t str, bytes: &mut Vec<u8>) -> &'t str {
    let Some(letter) = text.chars().next() else { return "" };
    let after = text.get(letter.len_utf8()..).unwrap_or("");
    let (digits, count, base) = match letter {
        '0'..='7' => (text, 3, 8),
        'x' => (after, 2, 16),
        'u' => (after, 4, 16),
        'U' => (after, 8, 16),
        _ => {
            bytes.push(match letter {
                'a' => 0x07,
                'b' => 0x08,
                'f' => 0x0c,
                'n' => b'\n',
                'r' => b'\r',
                't' => b'\t',
                'v' => 0x0b,
                other => u8::try_from(other).unwrap_or(b'?'),
            });
            return after;
        }
    };
    let value = digits.get(..count).and_then(|d| u32::from_str_radix(d, base).ok()).unwrap_or(0);
    match u8::try_from(value) {
        Ok(byte) if count < 4 => bytes.push(byte),
        _ => {
            let c = char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    digits.get(count..).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_are_valid_durations_are_durations() {
        for (source, nanos) in [
            ("\"10s\"", Some(10_000_000_000)),
            ("`-1.5h`", Some(-5_400_000_000_000)),
            ("'0'", Some(0)),
            ("\"\\x31s\"", Some(1_000_000_000)),
            ("\"10\"", None),
            ("\"1S\"", None),
            ("\" 1s\"", None),
            ("\"\"", None),
        ] {
            let constant = constant(TokenKind::String, source).unwrap();
            assert_eq!(constant.value_type() == ValueType::Duration, nanos.is_some(), "{source}");
            if let Constant::Duration(duration) = constant {
                assert_eq!(Some(duration.nanos), nanos, "{source}");
            }
        }
    }

    #[test]
    fn escapes() {
        let bytes = unquote(r#""a\n\t\\\"\x41\101\u00e9\U0001F600\377""#);
        assert_eq!(bytes, b"a\n\t\\\"AA\xc3\xa9\xf0\x9f\x98\x80\xff");
        assert_eq!(unquote("`a\\n\r\nb`"), b"a\\n\nb");
        assert_eq!(unquote(r"'\''"), b"'");
        assert_eq!(unquote(r"'\xff'"), b"\xff");
    }
}
