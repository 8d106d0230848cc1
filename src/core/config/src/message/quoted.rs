//! Quoted numbers: Istio Mixer's decoder removes the quotes and parses the rest as JSON.

use mixer_base::quote::quoted_char;

/// The text between the quotes.
pub(super) enum Quoted<'t> {
    /// A JSON number.
    Number(&'t str),
    /// `null`: the field keeps its value.
    Null,
    /// Anything else: the error text.
    Rejected(String),
}

/// Parses `text` as a JSON value that must be a number.
pub(super) fn read(text: &str) -> Quoted<'_> {
    let blank = [' ', '\t', '\r', '\n'];
    let value = text.trim_start_matches(blank);
    let Some(first) = value.chars().next() else {
        return Quoted::Rejected("unexpected end of JSON input".to_owned());
    };
    let length = match first {
        '-' | '0'..='9' => number_length(value),
        'n' if value.starts_with("null") => Ok(4),
        't' if value.starts_with("true") => Ok(4),
        'f' if value.starts_with("false") => Ok(5),
        _ => Err(format!("invalid character {} looking for beginning of value", quote(first))),
    };
    let (literal, rest) = match length.map(|n| value.split_at_checked(n).unwrap_or((value, ""))) {
        Ok(split) => split,
        Err(text) => return Quoted::Rejected(text),
    };
    if let Some(next) = rest.trim_start_matches(blank).chars().next() {
        return Quoted::Rejected(format!("invalid character {} after top-level value", quote(next)));
    }
    match literal {
        "null" => Quoted::Null,
        "true" | "false" => Quoted::Rejected("bool".to_owned()),
        literal => Quoted::Number(literal),
    }
}

/// The length of the number at the start, or the error text about the first invalid character.
fn number_length(text: &str) -> Result<usize, String> {
    let bytes = text.as_bytes();
    let digits = |from: usize| from + bytes.iter().skip(from).take_while(|b| b.is_ascii_digit()).count();
    let invalid = |at: usize, place: &str| match text.get(at..).and_then(|t| t.chars().next()) {
        Some(c) => format!("invalid character {} {place}", quote(c)),
        None => "unexpected end of JSON input".to_owned(),
    };
    let start = usize::from(bytes.first() == Some(&b'-'));
    let mut end = if bytes.get(start) == Some(&b'0') { start + 1 } else { digits(start) };
    if end == start {
        return Err(invalid(start, "in numeric literal"));
    }
    if bytes.get(end) == Some(&b'.') {
        let after = digits(end + 1);
        if after == end + 1 {
            return Err(invalid(after, "after decimal point in numeric literal"));
        }
        end = after;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let after = digits(end + 1 + sign);
        if after == end + 1 + sign {
            return Err(invalid(after, "in exponent of numeric literal"));
        }
        end = after;
    }
    Ok(end)
}

/// A character as Go's JSON scanner quotes it: by its first byte.
fn quote(c: char) -> impl std::fmt::Display {
    let mut bytes = [0; 4];
    let first = c.encode_utf8(&mut bytes).bytes().next();
    quoted_char(first.map_or(c, char::from))
}
