//! Numbers and Boolean values as Go's strconv package reads them.

use std::str::FromStr;

use mixer_base::quote::quoted;

/// Why a number is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// Invalid syntax.
    Syntax,
    /// Out of range.
    Range,
}

impl NumberError {
    /// The error text of Go's strconv package.
    pub(crate) fn text(self, function: &str, value: &str) -> String {
        let why = match self {
            NumberError::Syntax => "invalid syntax",
            NumberError::Range => "value out of range",
        };
        format!("strconv.{function}: parsing {}: {why}", quoted(value))
    }
}

/// An unsigned number whose prefix selects the base: `0x`, `0o`, `0b`, a leading `0`, else decimal. Underscores may separate
/// digits after a prefix.
fn magnitude(text: &str) -> Result<u64, NumberError> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (lower.get(2..), 16),
        [b'0', b'o', ..] => (lower.get(2..), 8),
        [b'0', b'b', ..] => (lower.get(2..), 2),
        [b'0', _, ..] => (lower.get(1..), 8),
        _ => (Some(lower.as_str()), 10),
    };
    let digits = digits.unwrap_or_default();
    let plain: String = if radix == 10 { digits.to_owned() } else { digits.replace('_', "") };
    digits_to_u64(&plain, radix)
}

fn digits_to_u64(digits: &str, radix: u32) -> Result<u64, NumberError> {
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(NumberError::Syntax);
    }
    u64::from_str_radix(digits, radix).map_err(|_| NumberError::Range)
}

fn with_sign(negative: bool, magnitude: u64) -> Result<i64, NumberError> {
    let wide = i128::from(magnitude);
    i64::try_from(if negative { -wide } else { wide }).map_err(|_| NumberError::Range)
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// A signed number with a base prefix, as Go's `ParseInt(s, 0, 64)`.
pub(crate) fn go_int(text: &str) -> Result<i64, NumberError> {
    let (negative, rest) = split_sign(text);
    with_sign(negative, magnitude(rest)?)
}

/// A signed decimal number, as Go's `ParseInt(s, 10, 64)`.
pub(crate) fn go_decimal(text: &str) -> Result<i64, NumberError> {
    let (negative, rest) = split_sign(text);
    with_sign(negative, digits_to_u64(rest, 10)?)
}

/// An unsigned number with a base prefix, as Go's `ParseUint(s, 0, 64)`.
pub(crate) fn go_uint(text: &str) -> Result<u64, NumberError> {
    magnitude(text)
}

/// Hexadecimal digits, as Go's `ParseUint(s, 16, 8)`.
pub(crate) fn go_hex_byte(text: &str) -> Result<u8, NumberError> {
    u8::try_from(digits_to_u64(text, 16)?).map_err(|_| NumberError::Range)
}

/// A floating point number in decimal form, `inf`, `infinity` or `nan`, as `ParseFloat(s, 64)` of Go 1.12.
pub(crate) fn go_float(text: &str) -> Result<f64, NumberError> {
    let (_, unsigned) = split_sign(text);
    let lower = unsigned.to_ascii_lowercase();
    if matches!(lower.as_str(), "inf" | "infinity" | "nan") {
        // Go rejects `+nan` and `-nan`.
        if lower == "nan" && unsigned.len() != text.len() {
            return Err(NumberError::Syntax);
        }
        return f64::from_str(text).map_err(|_| NumberError::Syntax);
    }
    if !lower.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | '+' | '-')) {
        return Err(NumberError::Syntax);
    }
    let value = f64::from_str(text).map_err(|_| NumberError::Syntax)?;
    if value.is_infinite() { Err(NumberError::Range) } else { Ok(value) }
}

/// A Boolean, as Go's `ParseBool`.
pub(crate) fn go_bool(text: &str) -> Result<bool, NumberError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(NumberError::Syntax),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_base_prefixes_and_one_sign() {
        for (text, value) in [
            ("10", 10),
            ("-4", -4),
            ("+7", 7),
            ("0x1F", 31),
            ("010", 8),
            ("0b101", 5),
            ("0o17", 15),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(go_int(text), Ok(value), "{text}");
        }
        for (text, error) in [
            ("", NumberError::Syntax),
            ("x", NumberError::Syntax),
            ("1.5", NumberError::Syntax),
            ("--1", NumberError::Syntax),
            ("08", NumberError::Syntax),
            ("0x", NumberError::Syntax),
            ("9223372036854775808", NumberError::Range),
        ] {
            assert_eq!(go_int(text), Err(error), "{text}");
        }
        assert_eq!(go_decimal("007"), Ok(7));
        assert_eq!(go_decimal("0x10"), Err(NumberError::Syntax));
        assert_eq!(go_decimal("1_000"), Err(NumberError::Syntax));
    }

    #[test]
    fn floats_are_decimal() {
        for text in ["1.5", "1e3", ".5", "NaN", "inf", "-Inf", "infinity", "5."] {
            assert!(go_float(text).is_ok(), "{text}");
        }
        for text in ["", "half", "0x1p4", "1_000", "+nan", ".", "e5", "1e"] {
            assert_eq!(go_float(text), Err(NumberError::Syntax), "{text}");
        }
        assert_eq!(go_float("1e999"), Err(NumberError::Range));
    }
}
