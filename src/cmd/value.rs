//! clap value parsers: the Go syntax of numbers and durations, plus units and human-readable durations.

use std::path::PathBuf;

use mixer_attribute::SignedDuration;
use mixer_server::LoadSheddingMode;

use super::go_syntax::{NumberError, go_bool, go_float, go_int, go_uint};

/// Calls per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PerSecond(pub(crate) f64);

impl std::fmt::Display for PerSecond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.abs() >= 1e21 { write!(f, "{:e}", self.0) } else { write!(f, "{}", self.0) }
    }
}

fn explain<T>(result: Result<T, NumberError>, expected: &str) -> Result<T, String> {
    result.map_err(|error| match error {
        NumberError::Syntax => format!("expected {expected}"),
        NumberError::Range => format!("out of range; expected {expected}"),
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
    explain(narrow, "a whole number, 0 or greater")
}

/// clap: an unsigned number.
pub(crate) fn uint(text: &str) -> Result<u64, String> {
    explain(go_uint(text), "a whole number, 0 or greater")
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

/// clap: a Boolean.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    explain(go_bool(text), "true or false")
}

/// clap: a duration in Go syntax (`1h30m`, `1.5s`) or with spaces and longer units (`1h 30m`, `2days`).
pub(crate) fn duration(text: &str) -> Result<SignedDuration, String> {
    SignedDuration::parse(text)
        .ok()
        .or_else(|| {
            let duration = humantime::parse_duration(text).ok()?;
            i64::try_from(duration.as_nanos()).ok().map(SignedDuration::from_nanos)
        })
        .ok_or_else(|| "expected a duration with a unit, for example 5s or 1h30m".to_owned())
}

/// clap: a fraction from 0 to 1.
pub(crate) fn fraction(text: &str) -> Result<f64, String> {
    let fraction = float(text)?;
    if (0.0..=1.0).contains(&fraction) {
        Ok(fraction)
    } else {
        Err("expected a number from 0 to 1".to_owned())
    }
}

/// A file mode; `None` for an empty flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ModeBits(pub(crate) Option<u32>);

/// clap: a file mode in octal, for example `0660`; may be empty.
pub(crate) fn mode_bits(text: &str) -> Result<ModeBits, String> {
    if text.is_empty() {
        return Ok(ModeBits(None));
    }
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o777);
    bits.map(|bits| ModeBits(Some(bits)))
        .ok_or_else(|| "expected an octal file mode from 0 to 0777".to_owned())
}

/// clap: a path; may be empty.
pub(crate) fn path(text: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(text))
}

/// clap: a load shedding mode.
pub(crate) fn load_shedding_mode(text: &str) -> Result<LoadSheddingMode, String> {
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
    fn sizes_have_units() {
        assert_eq!(size("4MiB"), Ok(4 << 20));
        assert_eq!(size("1GB"), Ok(1_000_000_000));
        assert_eq!(size("1048576"), Ok(1 << 20));
        assert!(size("many").is_err());
        assert!(size("99999999999GiB").is_err());
    }
}
