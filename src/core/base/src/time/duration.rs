//! Signed durations: Go's grammar and text form.

use std::fmt;

use super::push_quoted;

/// A signed duration in nanoseconds, about ±292 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SignedDuration {
    /// Nanoseconds.
    pub nanos: i64,
}

/// One more than the largest number of nanoseconds: the magnitude of the smallest duration.
const LIMIT: u64 = 1 << 63;

impl SignedDuration {
    /// Zero.
    pub const ZERO: SignedDuration = SignedDuration { nanos: 0 };

    /// A duration of whole seconds; saturates.
    pub const fn from_secs(seconds: i64) -> Self {
        Self { nanos: seconds.saturating_mul(1_000_000_000) }
    }

    /// A duration of whole milliseconds; saturates.
    pub const fn from_millis(millis: i64) -> Self {
        Self { nanos: millis.saturating_mul(1_000_000) }
    }

    /// A duration of nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// The same length as a `std` duration; `None` when negative.
    fn to_std(self) -> Option<std::time::Duration> {
        u64::try_from(self.nanos).ok().map(std::time::Duration::from_nanos)
    }

    /// The same length as a `std` duration; zero when negative.
    pub fn to_std_or_zero(self) -> std::time::Duration {
        self.to_std().unwrap_or_default()
    }

    /// From a `std` duration; saturates.
    pub fn from_std(duration: std::time::Duration) -> Self {
        Self { nanos: i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX) }
    }

    /// Parses `1h2m3.5s`, `250ms`, `-1.5h`, `0`; units `ns us µs μs ms s m h`.
    ///
    /// Errors: the text of Go's `time.ParseDuration`, for example `time: missing unit in duration "12"`.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse(text.as_bytes()).map(Self::from_nanos).map_err(|problem| problem.text(text))
    }

    /// Like [`parse`](Self::parse) for bytes that need not be UTF-8, without an error text.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        parse(text).ok().map(Self::from_nanos)
    }
}

/// Why a text is not a duration.
enum Problem<'t> {
    Invalid,
    MissingUnit,
    UnknownUnit(&'t [u8]),
}

impl Problem<'_> {
    fn text(&self, whole: &str) -> String {
        let mut out = String::from("time: ");
        match self {
            Problem::Invalid => out.push_str("invalid duration "),
            Problem::MissingUnit => out.push_str("missing unit in duration "),
            Problem::UnknownUnit(unit) => {
                out.push_str("unknown unit ");
                push_quoted(&mut out, unit);
                out.push_str(" in duration ");
            }
        }
        push_quoted(&mut out, whole.as_bytes());
        out
    }
}

fn parse(text: &[u8]) -> Result<i64, Problem<'_>> {
    let (negative, mut rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if rest == b"0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(Problem::Invalid);
    }
    let mut total = 0u64;
    while !rest.is_empty() {
        let (part, after) = parse_part(rest)?;
        total = total.checked_add(part).filter(|t| *t <= LIMIT).ok_or(Problem::Invalid)?;
        rest = after;
    }
    match (negative, i64::try_from(total)) {
        (false, Ok(nanos)) => Ok(nanos),
        (true, Ok(nanos)) => Ok(-nanos),
        (true, Err(_)) => Ok(i64::MIN),
        (false, Err(_)) => Err(Problem::Invalid),
    }
}

/// One number with its unit, in nanoseconds, and what follows.
fn parse_part(text: &[u8]) -> Result<(u64, &[u8]), Problem<'_>> {
    let (digits, rest) = split_digits(text);
    let (fraction, rest, dotted) = match rest {
        [b'.', rest @ ..] => {
            let (fraction, rest) = split_digits(rest);
            (fraction, rest, true)
        }
        _ => (&[][..], rest, false),
    };
    if digits.is_empty() && (!dotted || fraction.is_empty()) {
        return Err(Problem::Invalid);
    }
    let whole = digits
        .iter()
        .try_fold(0u64, |n, d| n.checked_mul(10)?.checked_add(u64::from(d - b'0')).filter(|n| *n <= LIMIT))
        .ok_or(Problem::Invalid)?;
    let unit_len = rest.iter().position(|c| *c == b'.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit_name, rest) = rest.split_at(unit_len);
    if unit_name.is_empty() {
        return Err(Problem::MissingUnit);
    }
    let unit = unit_nanos(unit_name).ok_or(Problem::UnknownUnit(unit_name))?;
    let whole = whole.checked_mul(unit).filter(|n| *n <= LIMIT).ok_or(Problem::Invalid)?;
    let nanos = whole.checked_add(fraction_nanos(fraction, unit)).filter(|n| *n <= LIMIT);
    Ok((nanos.ok_or(Problem::Invalid)?, rest))
}

/// The nanoseconds of `0.<digits>` units, truncated; digits that no longer matter are ignored.
fn fraction_nanos(digits: &[u8], unit: u64) -> u64 {
    let (mut numerator, mut scale) = (0u64, 1f64);
    for digit in digits {
        match numerator.checked_mul(10).and_then(|n| n.checked_add(u64::from(digit - b'0'))) {
            Some(n) if n < LIMIT => numerator = n,
            _ => break,
        }
        scale *= 10.0;
    }
    // compat(1.3): floating point, so that the last nanosecond is the one that Go computes.
    (numerator as f64 * (unit as f64 / scale)) as u64
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|c| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit_nanos(name: &[u8]) -> Option<u64> {
    Some(match name {
        b"ns" => 1,
        // U+00B5 (micro sign) and U+03BC (Greek mu).
        b"us" | b"\xc2\xb5s" | b"\xce\xbcs" => 1_000,
        b"ms" => 1_000_000,
        b"s" => 1_000_000_000,
        b"m" => 60_000_000_000,
        b"h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Go's text form: `1h2m3.004s`, `1.5ms`, `0s`.
impl fmt::Display for SignedDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos < 0 {
            f.write_str("-")?;
        }
        let nanos = self.nanos.unsigned_abs();
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => decimal(f, nanos, 1_000, "µs"),
            1_000_000..1_000_000_000 => decimal(f, nanos, 1_000_000, "ms"),
            _ => {
                let (minutes, nanos) = (nanos / 60_000_000_000, nanos % 60_000_000_000);
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                decimal(f, nanos, 1_000_000_000, "s")
            }
        }
    }
}

/// Writes `nanos / unit` with as many decimals as needed. `unit` is a power of ten.
fn decimal(f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str) -> fmt::Result {
    write!(f, "{}", nanos / unit)?;
    let (mut fraction, mut width) = (nanos % unit, unit.ilog10() as usize);
    if fraction > 0 {
        while fraction % 10 == 0 {
            fraction /= 10;
            width -= 1;
        }
        write!(f, ".{fraction:0width$}")?;
    }
    f.write_str(name)
}
