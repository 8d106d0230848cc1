//! Timestamps: RFC 3339 with Go's tolerances and error texts, and three text forms.

use std::fmt;

use super::push_quoted;

/// An instant in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z; from year 1 to year 9999 on the wire.
    pub seconds: i64,
    /// 0..=999_999_999.
    pub nanos: u32,
}

const DAY: i64 = 86_400;

impl Timestamp {
    /// 0001-01-01T00:00:00Z, the value of an unset timestamp field.
    pub const YEAR_ONE: Timestamp = Timestamp { seconds: -62_135_596_800, nanos: 0 };

    /// The last second of the year 9999, the end of the wire's range.
    pub const MAX_SECONDS: i64 = 253_402_300_799;

    /// Nanoseconds since 1970-01-01T00:00:00Z.
    pub fn unix_nanos(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos)
    }

    /// The instant `nanos` nanoseconds after 1970-01-01T00:00:00Z.
    fn from_unix_nanos(nanos: i64) -> Self {
        Self {
            seconds: nanos.div_euclid(1_000_000_000),
            nanos: u32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or(0),
        }
    }

    /// The same instant as a system time; `None` beyond the range of the platform.
    pub fn to_system_time(self) -> Option<std::time::SystemTime> {
        let whole = std::time::Duration::from_secs(self.seconds.unsigned_abs());
        let epoch = std::time::UNIX_EPOCH;
        let base = if self.seconds < 0 { epoch.checked_sub(whole) } else { epoch.checked_add(whole) };
        base?.checked_add(std::time::Duration::from_nanos(u64::from(self.nanos)))
    }

    /// From a system time; saturates.
    pub fn from_system_time(time: std::time::SystemTime) -> Self {
        let nanos = match time.duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |n| -n),
        };
        Self::from_unix_nanos(nanos)
    }

    /// Parses `YYYY-MM-DDTHH:MM:SS[.fraction](Z|±HH:MM)`; digits beyond nanoseconds are dropped.
    ///
    /// Errors: the text of Go's `time.Parse(time.RFC3339, …)`, for example
    /// `parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"`.
    pub fn parse_rfc3339(text: &str) -> Result<Self, String> {
        Self::parse_bytes(text.as_bytes())
    }

    /// Like [`parse_rfc3339`](Self::parse_rfc3339) for bytes that need not be UTF-8, without an error text.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        Self::parse_parts(text).ok()
    }

    fn parse_bytes(text: &[u8]) -> Result<Self, String> {
        Self::parse_parts(text).map_err(|problem| problem.text(text))
    }

    fn parse_parts(text: &[u8]) -> Result<Self, Problem<'_>> {
        let mut rest = Rest(text);
        let year = rest.year()?;
        rest.skip(b'-', "-")?;
        let month = rest.number(true, "01")?;
        in_range(1, month, 12, "month")?;
        rest.skip(b'-', "-")?;
        let day = rest.number(true, "02")?;
        rest.skip(b'T', "T")?;
        // compat(1.3): an hour of one digit is tolerated.
        let hour = rest.number(false, "15")?;
        in_range(0, hour, 23, "hour")?;
        rest.skip(b':', ":")?;
        let minute = rest.number(true, "04")?;
        in_range(0, minute, 59, "minute")?;
        rest.skip(b':', ":")?;
        let second = rest.number(true, "05")?;
        in_range(0, second, 59, "second")?;
        let nanos = rest.fraction();
        let offset = rest.zone()?;
        if !rest.0.is_empty() {
            return Err(Problem::Extra(rest.0));
        }
        if day < 1 || day > days_in(year, month) {
            return Err(Problem::Range("day"));
        }
        let days = days_from_civil(year, month, day);
        Ok(Self { seconds: days * DAY + hour * 3600 + minute * 60 + second - offset, nanos })
    }

    /// Year, month and day in UTC.
    pub fn date(self) -> (i64, i64, i64) {
        civil_from_days(self.seconds.div_euclid(DAY))
    }

    /// `2018-01-01T00:00:00.000001Z`: always six decimals, truncated. The form of every time that the product prints, unless Istio's formats
    /// or the value of an attribute say otherwise.
    pub fn rfc3339_micros(self) -> TimestampText {
        TimestampText { timestamp: self, form: TextForm::Rfc3339Micros }
    }

    /// `2018-01-01T00:00:00Z`, `2018-01-01T00:00:00.5Z`: as many decimals as needed.
    pub fn rfc3339(self) -> TimestampText {
        TimestampText { timestamp: self, form: TextForm::Rfc3339 }
    }

    /// `2018-01-01 00:00:00 +0000 UTC`, with as many decimals as needed.
    pub fn go_text(self) -> TimestampText {
        TimestampText { timestamp: self, form: TextForm::Go }
    }
}

/// RFC 3339 with as many decimals as needed.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rfc3339().fmt(f)
    }
}

/// Text form of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// See [`Timestamp::rfc3339_micros`].
    Rfc3339Micros,
    /// See [`Timestamp::rfc3339`].
    Rfc3339,
    /// See [`Timestamp::go_text`].
    Go,
}

/// Formats a timestamp in one of its text forms, without allocation.
#[derive(Debug, Clone, Copy)]
pub struct TimestampText {
    timestamp: Timestamp,
    form: TextForm,
}

impl fmt::Display for TimestampText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Timestamp { seconds, nanos } = self.timestamp;
        let (year, month, day) = self.timestamp.date();
        let of_day = seconds.rem_euclid(DAY);
        let mut text = Ascii::default();
        if (0..=9999).contains(&year) {
            text.digits(year.unsigned_abs(), 4);
        } else {
            write!(f, "{year}")?;
        }
        text.byte(b'-').digits(month.unsigned_abs(), 2).byte(b'-').digits(day.unsigned_abs(), 2);
        text.byte(if self.form == TextForm::Go { b' ' } else { b'T' });
        text.digits((of_day / 3600).unsigned_abs(), 2).byte(b':');
        text.digits((of_day / 60 % 60).unsigned_abs(), 2).byte(b':');
        text.digits((of_day % 60).unsigned_abs(), 2);
        let nanos = u64::from(nanos);
        if self.form == TextForm::Rfc3339Micros {
            text.byte(b'.').digits(nanos / 1000, 6);
        } else if nanos > 0 {
            let (mut fraction, mut width) = (nanos, 9);
            while fraction % 10 == 0 {
                fraction /= 10;
                width -= 1;
            }
            text.byte(b'.').digits(fraction, width);
        }
        f.write_str(text.as_str())?;
        f.write_str(if self.form == TextForm::Go { " +0000 UTC" } else { "Z" })
    }
}

/// A short text on the stack.
#[derive(Default)]
struct Ascii {
    bytes: [u8; 32],
    len: usize,
}

impl Ascii {
    fn byte(&mut self, byte: u8) -> &mut Self {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
        self
    }

    fn digits(&mut self, mut number: u64, width: usize) -> &mut Self {
        if let Some(places) = self.bytes.get_mut(self.len..self.len + width) {
            for place in places.iter_mut().rev() {
                *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
                number /= 10;
            }
            self.len += width;
        }
        self
    }

    fn as_str(&self) -> &str {
        self.bytes.get(..self.len).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default()
    }
}

/// Why a text is not a timestamp.
enum Problem<'t> {
    Part { found: &'t [u8], expected: &'static str },
    Range(&'static str),
    Extra(&'t [u8]),
}

impl Problem<'_> {
    fn text(&self, whole: &[u8]) -> String {
        let mut out = String::from("parsing time ");
        push_quoted(&mut out, whole);
        match self {
            Problem::Part { found, expected } => {
                out.push_str(" as \"2006-01-02T15:04:05Z07:00\": cannot parse ");
                push_quoted(&mut out, found);
                out.push_str(" as ");
                push_quoted(&mut out, expected.as_bytes());
            }
            Problem::Range(part) => {
                out.push_str(": ");
                out.push_str(part);
                out.push_str(" out of range");
            }
            Problem::Extra(rest) => {
                out.push_str(": extra text: ");
                push_quoted(&mut out, rest);
            }
        }
        out
    }
}

fn in_range(low: i64, number: i64, high: i64, part: &'static str) -> Result<(), Problem<'static>> {
    if (low..=high).contains(&number) { Ok(()) } else { Err(Problem::Range(part)) }
}

/// What is left to parse.
struct Rest<'t>(&'t [u8]);

impl<'t> Rest<'t> {
    fn year(&mut self) -> Result<i64, Problem<'t>> {
        let problem = |found| Problem::Part { found, expected: "2006" };
        let Some((digits @ [b'0'..=b'9', ..], rest)) = self.0.split_first_chunk::<4>() else {
            return Err(problem(self.0));
        };
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(problem(rest));
        }
        self.0 = rest;
        Ok(digits.iter().fold(0, |n, d| n * 10 + i64::from(d - b'0')))
    }

    /// A number of two digits, or of one where `fixed` is false.
    fn number(&mut self, fixed: bool, expected: &'static str) -> Result<i64, Problem<'t>> {
        match *self.0 {
            [tens @ b'0'..=b'9', ones @ b'0'..=b'9', ref rest @ ..] => {
                self.0 = rest;
                Ok(i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
            }
            [ones @ b'0'..=b'9', ref rest @ ..] if !fixed => {
                self.0 = rest;
                Ok(i64::from(ones - b'0'))
            }
            _ => Err(Problem::Part { found: self.0, expected }),
        }
    }

    fn skip(&mut self, byte: u8, expected: &'static str) -> Result<(), Problem<'t>> {
        match self.0.split_first() {
            Some((first, rest)) if *first == byte => {
                self.0 = rest;
                Ok(())
            }
            _ => Err(Problem::Part { found: self.0, expected }),
        }
    }

    /// Nanoseconds of an optional fraction. compat(1.3): a comma is tolerated as separator.
    fn fraction(&mut self) -> u32 {
        let [b'.' | b',', rest @ ..] = self.0 else { return 0 };
        let len = rest.iter().position(|c| !c.is_ascii_digit()).unwrap_or(rest.len());
        if len == 0 {
            return 0;
        }
        let (digits, rest) = rest.split_at(len);
        self.0 = rest;
        (0..9).fold(0, |n, i| n * 10 + digits.get(i).map_or(0, |d| u32::from(d - b'0')))
    }

    /// Seconds east of UTC. compat(1.3): hours beyond 23 and minutes beyond 59 are tolerated.
    fn zone(&mut self) -> Result<i64, Problem<'t>> {
        let problem = |found| Problem::Part { found, expected: "Z07:00" };
        if let [b'Z', rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(0);
        }
        let Some(([sign, h1, h2, b':', m1, m2], rest)) = self.0.split_first_chunk::<6>() else {
            return Err(problem(self.0));
        };
        if !matches!(sign, b'+' | b'-') || ![h1, h2, m1, m2].into_iter().all(u8::is_ascii_digit) {
            return Err(problem(rest));
        }
        self.0 = rest;
        let number = |tens: &u8, ones: &u8| i64::from(tens - b'0') * 10 + i64::from(ones - b'0');
        let offset = number(h1, h2) * 3600 + number(m1, m2) * 60;
        Ok(if *sign == b'-' { -offset } else { offset })
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years start in March, so that the leap day is the last day of a year; 400 years have 146 097 days.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}
