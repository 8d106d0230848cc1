//! Times as text, by the layouts of Go's package `time`: how it would write Monday, 2 January 2006, 15:04:05.

use std::io::Write as _;

use mixer_attribute::Timestamp;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// From the day of 1970-01-01 on.
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const SECONDS_OF_DAY: i64 = 86_400;

/// Elements of layouts; of those that begin alike, the longest first.
const ELEMENTS: [(&str, Element); 32] = [
    ("January", Element::Month),
    ("Jan", Element::ShortMonth),
    ("Monday", Element::Weekday),
    ("Mon", Element::ShortWeekday),
    ("MST", Element::Fixed("UTC")),
    ("01", Element::MonthNumber(2)),
    ("02", Element::Day(2)),
    ("03", Element::Hour12(2)),
    ("04", Element::Minute(2)),
    ("05", Element::Second(2)),
    ("06", Element::ShortYear),
    ("15", Element::Hour),
    ("1", Element::MonthNumber(1)),
    ("2006", Element::Year),
    ("2", Element::Day(1)),
    ("_2", Element::PaddedDay),
    ("3", Element::Hour12(1)),
    ("4", Element::Minute(1)),
    ("5", Element::Second(1)),
    ("PM", Element::Half(["AM", "PM"])),
    ("pm", Element::Half(["am", "pm"])),
    ("-070000", Element::Fixed("+000000")),
    ("-07:00:00", Element::Fixed("+00:00:00")),
    ("-0700", Element::Fixed("+0000")),
    ("-07:00", Element::Fixed("+00:00")),
    ("-07", Element::Fixed("+00")),
    ("Z070000", Element::Fixed("Z")),
    ("Z07:00:00", Element::Fixed("Z")),
    ("Z0700", Element::Fixed("Z")),
    ("Z07:00", Element::Fixed("Z")),
    ("Z07", Element::Fixed("Z")),
    ("_2006", Element::PaddedYear),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Year,
    /// After a low line.
    PaddedYear,
    ShortYear,
    Month,
    ShortMonth,
    /// With so many digits at least.
    MonthNumber(usize),
    Day(usize),
    PaddedDay,
    Weekday,
    ShortWeekday,
    Hour,
    Hour12(usize),
    Minute(usize),
    Second(usize),
    /// Before and after noon.
    Half([&'static str; 2]),
    /// Of the zone.
    Fixed(&'static str),
}

/// The element at the beginning of a layout, and its length.
fn element(layout: &str) -> Option<(Element, usize)> {
    let found =
        ELEMENTS.iter().filter(|(text, _)| layout.starts_with(text)).max_by_key(|(text, _)| text.len());
    let (text, element) = found?;
    let is_word = matches!(element, Element::ShortMonth | Element::ShortWeekday)
        && layout.get(text.len()..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
    (!is_word).then_some((*element, text.len()))
}

/// A fraction at the beginning of a layout, such as `.000` or `.999`: whether zeros at its end are shown, and its number of digits.
fn fraction(layout: &str) -> Option<(bool, usize)> {
    let rest = layout.strip_prefix('.')?;
    let first = rest.chars().next().filter(|c| matches!(c, '0' | '9'))?;
    let digits = rest.len() - rest.trim_start_matches(first).len();
    let ends = !rest.get(digits..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    ends.then_some((first == '0', digits))
}

/// Appends a time in UTC.
pub(super) fn push_formatted(out: &mut Vec<u8>, time: Timestamp, layout: &str) {
    let (year, month, day) = time.date();
    let of_day = time.seconds.rem_euclid(SECONDS_OF_DAY);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let name = |names: &[&'static str], at: i64| -> &'static str {
        usize::try_from(at).ok().and_then(|at| names.get(at).copied()).unwrap_or_default()
    };
    let month_name = name(&MONTHS, month - 1);
    let day_name = name(&DAYS, time.seconds.div_euclid(SECONDS_OF_DAY).rem_euclid(7));
    let short = |name: &'static str| name.get(..3).unwrap_or(name);
    let mut rest = layout;
    while let Some(next) = rest.chars().next() {
        let (found, length) = match (element(rest), fraction(rest)) {
            (Some(found), _) => found,
            (None, Some((shows_zeros, digits))) => {
                push_fraction(out, time.nanos, shows_zeros, digits);
                rest = rest.get(1 + digits..).unwrap_or_default();
                continue;
            }
            (None, None) => {
                out.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
                rest = rest.get(next.len_utf8()..).unwrap_or_default();
                continue;
            }
        };
        // Writing to a Vec cannot fail.
        let _ = match found {
            Element::Year => write!(out, "{year:04}"),
            Element::PaddedYear => write!(out, "_{year:04}"),
            Element::ShortYear => write!(out, "{:02}", year.rem_euclid(100)),
            Element::Month => write!(out, "{month_name}"),
            Element::ShortMonth => write!(out, "{}", short(month_name)),
            Element::MonthNumber(width) => write!(out, "{month:0width$}"),
            Element::Day(width) => write!(out, "{day:0width$}"),
            Element::PaddedDay => write!(out, "{day:2}"),
            Element::Weekday => write!(out, "{day_name}"),
            Element::ShortWeekday => write!(out, "{}", short(day_name)),
            Element::Hour => write!(out, "{hour:02}"),
            Element::Hour12(width) => write!(out, "{:0width$}", (hour + 11) % 12 + 1),
            Element::Minute(width) => write!(out, "{minute:0width$}"),
            Element::Second(width) => write!(out, "{second:0width$}"),
            Element::Half([before, after]) => write!(out, "{}", if hour < 12 { before } else { after }),
            Element::Fixed(text) => write!(out, "{text}"),
        };
        rest = rest.get(length..).unwrap_or_default();
    }
}

fn push_fraction(out: &mut Vec<u8>, nanos: u32, shows_zeros: bool, digits: usize) {
    let all = format!("{nanos:09}");
    let cut = all.get(..digits.min(9)).unwrap_or_default();
    let shown = if shows_zeros { cut } else { cut.trim_end_matches('0') };
    if !shown.is_empty() {
        out.push(b'.');
        out.extend_from_slice(shown.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_go() {
        let noon = Timestamp { seconds: 1_551_441_607, nanos: 80_000_000 };
        let old = Timestamp { seconds: -1, nanos: 0 };
        for (time, layout, text) in [
            (noon, "2006-01-02T15:04:05Z07:00", "2019-03-01T12:00:07Z"),
            (noon, "2006-01-02T15:04:05.000000-07:00", "2019-03-01T12:00:07.080000+00:00"),
            (noon, "Mon Jan _2 3:04:05.999PM MST 06", "Fri Mar  1 12:00:07.08PM UTC 19"),
            (noon, "Monday, January 2 at 03pm", "Friday, March 1 at 12pm"),
            (noon, "1/2 4:5.9 Z0700 -0700", "3/1 0:7 Z +0000"),
            (noon, "Janus Month .05 _2006", "Janus Month .07 _2019"),
            (old, "2006-01-02 15:04:05 Mon", "1969-12-31 23:59:59 Wed"),
            (noon, "", ""),
            (noon, "é%", "é%"),
        ] {
            let mut out = Vec::new();
            push_formatted(&mut out, time, layout);
            assert_eq!(String::from_utf8(out).unwrap(), text, "{layout}");
        }
    }
}
