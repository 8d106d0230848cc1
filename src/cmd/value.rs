//! How flag values are read: Go's number, truth and duration forms, and the friendlier forms that `mixer` takes as well.
//!
//! Each kind has one strict reader, which the legacy names use with the texts of the originals, and one reader for clap, which
//! accepts more and explains itself.

use std::path::PathBuf;
use std::str::FromStr;

use mixer_attribute::SignedDuration;
use mixer_server::LoadSheddingMode;

/// Why a number is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// Not a number of this form.
    Syntax,
    /// It does not fit.
    Range,
}

impl NumberError {
    /// The words of Go's strconv package.
    pub(crate) fn text(self, function: &str, value: &str) -> String {
        let why = match self {
            NumberError::Syntax => "invalid syntax",
            NumberError::Range => "value out of range",
        };
        format!("strconv.{function}: parsing {}: {why}", quote(value))
    }
}

/// Text in double quotes, escaped as Go's `%q` does.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// An unsigned number whose prefix tells its base: `0x`, `0o`, `0b`, a leading `0`, else decimal. Underscores may separate
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

/// A floating point number in decimal form, `inf`, `infinity` or `nan`, as Go's `ParseFloat(s, 64)` of the era of the originals.
pub(crate) fn go_float(text: &str) -> Result<f64, NumberError> {
    let (_, unsigned) = split_sign(text);
    let lower = unsigned.to_ascii_lowercase();
    if matches!(lower.as_str(), "inf" | "infinity" | "nan") {
        // `+nan` and `-nan` are no numbers in Go.
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

/// A truth value, as Go's `ParseBool`.
pub(crate) fn go_bool(text: &str) -> Result<bool, NumberError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(NumberError::Syntax),
    }
}

/// What the legacy names call the type of a flag, and how they check its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// Any text, repeatable.
    TextArray,
    /// Takes a value only with `=`.
    Bool,
    /// A bool that clap knows as a bare switch.
    Switch,
    /// 64 bits.
    Int,
    /// 32 bits.
    Int32,
    /// 64 bits, not negative.
    Uint,
    /// 16 bits, not negative.
    Uint16,
    /// 32 bits, not negative.
    Uint32,
    /// Floating point.
    Float,
    /// Go duration.
    Duration,
    /// A rate per second.
    RateLimit,
    /// What load shedding does.
    ThrottlerMode,
}

impl Kind {
    /// What kind a clap argument is.
    pub(crate) fn of(arg: &clap::Arg) -> Kind {
        use std::any::TypeId;
        match arg.get_action() {
            clap::ArgAction::SetTrue | clap::ArgAction::SetFalse | clap::ArgAction::Count => {
                return Kind::Switch;
            }
            clap::ArgAction::Append => return Kind::TextArray,
            _ => {}
        }
        let id = arg.get_value_parser().type_id();
        let table = [
            (TypeId::of::<bool>(), Kind::Bool),
            (TypeId::of::<i64>(), Kind::Int),
            (TypeId::of::<i32>(), Kind::Int32),
            (TypeId::of::<u64>(), Kind::Uint),
            (TypeId::of::<u16>(), Kind::Uint16),
            (TypeId::of::<u32>(), Kind::Uint32),
            (TypeId::of::<f64>(), Kind::Float),
            (TypeId::of::<SignedDuration>(), Kind::Duration),
            (TypeId::of::<PerSecond>(), Kind::RateLimit),
            (TypeId::of::<LoadSheddingMode>(), Kind::ThrottlerMode),
        ];
        table.iter().find(|(known, _)| id == *known).map_or(Kind::Text, |(_, kind)| *kind)
    }

    /// Its name in legacy help; empty for truth values.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Text => "string",
            Kind::TextArray => "stringArray",
            Kind::Bool | Kind::Switch => "",
            Kind::Int => "int",
            Kind::Int32 => "int32",
            Kind::Uint => "uint",
            Kind::Uint16 => "uint16",
            Kind::Uint32 => "uint32",
            Kind::Float => "float",
            Kind::Duration => "duration",
            Kind::RateLimit => "ratelimit",
            Kind::ThrottlerMode => "throttlermode",
        }
    }

    /// Whether a flag of this kind leaves the next argument alone.
    pub(crate) fn is_bool(self) -> bool {
        matches!(self, Kind::Bool | Kind::Switch)
    }

    /// Checks a value. Errors: the reason in the words of the originals.
    pub(crate) fn check(self, value: &str) -> Result<(), String> {
        let number = |function: &'static str| move |error: NumberError| error.text(function, value);
        let ranged = |ok: bool| if ok { Ok(()) } else { Err(NumberError::Range) };
        match self {
            Kind::Text | Kind::TextArray => Ok(()),
            Kind::Bool | Kind::Switch => go_bool(value).map(drop).map_err(number("ParseBool")),
            Kind::Int => go_int(value).map(drop).map_err(number("ParseInt")),
            Kind::Int32 => {
                go_int(value).and_then(|n| ranged(i32::try_from(n).is_ok())).map_err(number("ParseInt"))
            }
            Kind::Uint => go_uint(value).map(drop).map_err(number("ParseUint")),
            Kind::Uint16 => {
                go_uint(value).and_then(|n| ranged(u16::try_from(n).is_ok())).map_err(number("ParseUint"))
            }
            Kind::Uint32 => {
                go_uint(value).and_then(|n| ranged(u32::try_from(n).is_ok())).map_err(number("ParseUint"))
            }
            Kind::Float | Kind::RateLimit => go_float(value).map(drop).map_err(number("ParseFloat")),
            Kind::Duration => SignedDuration::parse(value).map(drop),
            Kind::ThrottlerMode => mode(value).map(drop),
        }
    }
}

/// Calls per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PerSecond(pub(crate) f64);

impl std::fmt::Display for PerSecond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.abs() >= 1e21 { write!(f, "{:e}", self.0) } else { write!(f, "{}", self.0) }
    }
}

fn explain<T>(result: Result<T, NumberError>, form: &str) -> Result<T, String> {
    result.map_err(|error| match error {
        NumberError::Syntax => format!("expected {form}"),
        NumberError::Range => format!("out of range; expected {form}"),
    })
}

/// clap: a signed number.
pub(crate) fn int(text: &str) -> Result<i64, String> {
    explain(go_int(text), "a whole number, for example 10")
}

/// clap: a signed number of 32 bits.
pub(crate) fn int32(text: &str) -> Result<i32, String> {
    let narrow = go_int(text).and_then(|n| i32::try_from(n).map_err(|_| NumberError::Range));
    explain(narrow, "a whole number up to 2147483647")
}

/// clap: an unsigned number of 32 bits.
pub(crate) fn uint32(text: &str) -> Result<u32, String> {
    let narrow = go_uint(text).and_then(|n| u32::try_from(n).map_err(|_| NumberError::Range));
    explain(narrow, "a whole number from 0 on")
}

/// clap: an unsigned number.
pub(crate) fn uint(text: &str) -> Result<u64, String> {
    explain(go_uint(text), "a whole number from 0 on")
}

/// clap: a TCP port.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    let narrow = go_uint(text).and_then(|n| u16::try_from(n).map_err(|_| NumberError::Range));
    explain(narrow, "a port from 0 to 65535")
}

/// clap: a number of bytes, plain or with a unit (`4MiB`, `1GB`).
pub(crate) fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 12] = [
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("ki", 1 << 10),
        ("mi", 1 << 20),
        ("gi", 1 << 30),
        ("k", 1_000),
        ("m", 1_000_000),
        ("b", 1),
    ];
    if let Ok(bytes) = go_uint(text) {
        return Ok(bytes);
    }
    let lower = text.to_ascii_lowercase();
    UNITS
        .iter()
        .find_map(|(unit, factor)| {
            let number: u64 = lower.strip_suffix(unit)?.trim_end().parse().ok()?;
            number.checked_mul(*factor)
        })
        .ok_or_else(|| "expected a number of bytes, for example 1048576 or 4MiB".to_owned())
}

/// clap: a floating point number.
pub(crate) fn float(text: &str) -> Result<f64, String> {
    explain(go_float(text), "a number, for example 0.5")
}

/// clap: a rate.
pub(crate) fn per_second(text: &str) -> Result<PerSecond, String> {
    explain(go_float(text), "a number per second, for example 100").map(PerSecond)
}

/// clap: a truth value.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    explain(go_bool(text), "true or false")
}

/// clap: a duration, in Go's form (`1h30m`, `1.5s`) or in words (`90s`, `1h 30m`, `2days`).
pub(crate) fn duration(text: &str) -> Result<SignedDuration, String> {
    SignedDuration::parse(text)
        .ok()
        .or_else(|| {
            let words = humantime::parse_duration(text).ok()?;
            i64::try_from(words.as_nanos()).ok().map(SignedDuration::from_nanos)
        })
        .ok_or_else(|| "expected a duration with a unit, for example 5s or 1h30m".to_owned())
}

/// A share from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = float(text)?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("a share is from 0 to 1".to_owned()) }
}

/// Permissions of a file, if any were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ModeBits(pub(crate) Option<u32>);

/// Permissions in octal, for example `0660`; nothing means none.
pub(crate) fn mode_bits(text: &str) -> Result<ModeBits, String> {
    if text.is_empty() {
        return Ok(ModeBits(None));
    }
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o777);
    bits.map(|bits| ModeBits(Some(bits))).ok_or_else(|| "permissions are octal, from 0 to 0777".to_owned())
}

/// clap: a path; unlike clap's own reader it takes the empty one, which means none.
pub(crate) fn path(text: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(text))
}

/// clap: what load shedding does.
pub(crate) fn mode(text: &str) -> Result<LoadSheddingMode, String> {
    LoadSheddingMode::ALL
        .iter()
        .find(|(_, name)| *name == text)
        .map(|(mode, _)| *mode)
        .ok_or_else(|| "expected disabled, logonly or enforce".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_base_prefixes_and_one_sign() {
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

    #[test]
    fn kinds_use_the_words_of_the_originals() {
        let check = |kind: Kind, value: &str| kind.check(value).err().unwrap_or_default();
        assert_eq!(check(Kind::Int, "x"), "strconv.ParseInt: parsing \"x\": invalid syntax");
        assert_eq!(check(Kind::Uint16, "70000"), "strconv.ParseUint: parsing \"70000\": value out of range");
        assert_eq!(check(Kind::Bool, "maybe"), "strconv.ParseBool: parsing \"maybe\": invalid syntax");
        assert_eq!(check(Kind::Int32, "0x7fffffff"), "");
    }

    #[test]
    fn sizes_take_units() {
        assert_eq!(size("4MiB"), Ok(4 << 20));
        assert_eq!(size("1GB"), Ok(1_000_000_000));
        assert_eq!(size("1048576"), Ok(1 << 20));
        assert!(size("many").is_err());
        assert!(size("99999999999GiB").is_err());
    }

    #[test]
    fn quoting_escapes_what_go_escapes() {
        assert_eq!(quote("a\"b\\\n\u{1}é"), "\"a\\\"b\\\\\\n\\x01é\"");
    }
}
