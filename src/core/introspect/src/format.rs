//! Formatting of numbers and times, and shared page fragments.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};

use mixer_attribute::Timestamp;
use mixer_base::time::Moment;

/// `1.5 MiB`.
pub fn bytes(count: f64) -> String {
    if count.is_nan() {
        return "–".to_owned();
    }
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count.max(0.0);
    let mut unit = UNITS.first().copied().unwrap_or_default();
    for next in UNITS.iter().skip(1) {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" || value >= 100.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// `1 234 567`, with narrow no-break spaces.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// `1 call`, `2 calls`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Three significant digits.
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        _ if !value.is_finite() => "–".to_owned(),
        _ if magnitude >= 1e6 => format!("{:.1} M", value / 1e6),
        _ if magnitude >= 1e4 => format!("{:.1} k", value / 1e3),
        _ if magnitude >= 100.0 || magnitude == 0.0 => format!("{value:.0}"),
        _ if magnitude >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// As [`short`]; what is too small for that in full.
pub fn short_or_exact(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.01 { format!("{value:.6}") } else { short(value) }
}

/// A duration in seconds: `12 µs`, `3.4 ms`, `1.2 s`.
pub fn seconds(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "–".to_owned(),
        v if v <= 0.0 => "0".to_owned(),
        v if v < 1e-3 => format!("{} µs", short(v * 1e6)),
        v if v < 1.0 => format!("{} ms", short(v * 1e3)),
        v if v < 120.0 => format!("{} s", short(v)),
        v => long(Duration::from_secs_f64(v.min(1e12))),
    }
}

/// A quantile, of which the upper bound of its bucket is known: `≤ 50.0 µs`, `> 10.0 s` above the `last` bound, `–` if it is NaN.
pub(crate) fn at_most(bound: f64, last: f64) -> String {
    match bound {
        _ if bound.is_nan() => "–".to_owned(),
        _ if bound > last => format!("> {}", seconds(last)),
        _ => format!("≤ {}", seconds(bound)),
    }
}

/// A duration in its two largest units: `3 d 4 h`, `5 min 6 s`.
pub fn long(duration: Duration) -> String {
    let total = duration.as_secs();
    let (days, hours, minutes, seconds) = (total / 86_400, total / 3600 % 24, total / 60 % 60, total % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {seconds} s"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Elapsed time, with the instant as tooltip.
pub fn ago(then: Moment) -> Markup {
    let (age, time) = (then.age(), instant(then.time()));
    let text = if age < Duration::from_secs(1) { "now".to_owned() } else { format!("{} ago", long(age)) };
    html! { time datetime=(time) title=(time) { (text) } }
}

/// An instant in UTC, as in the log.
pub fn instant(time: SystemTime) -> String {
    Timestamp::from_system_time(time).rfc3339_micros().to_string()
}

/// An instant in UTC, to the minute.
pub fn minute(time: SystemTime) -> String {
    let text = instant(time);
    format!("{} UTC", text.get(..16).unwrap_or(&text).replace('T', " "))
}

/// A labelled figure for the head of a page.
pub fn figure(name: &str, value: impl maud::Render, note: impl maud::Render) -> Markup {
    html! { div.figure { dt { (name) } dd { (value) small { (note) } } } }
}

/// A message, in which what stands between backticks is code. A backtick without another is one.
pub fn message(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // Code stands between the parts of prose; the last part is never code.
    let last = parts.len() - 1;
    html! {
        @for (at, part) in parts.iter().enumerate() {
            @if at % 2 == 0 { (part) }
            @else if at == last { "`" (part) }
            @else if part.is_empty() { "``" }
            @else { code { (part) } }
        }
    }
}

/// The text of an empty table.
pub fn nothing(text: &str) -> Markup {
    html! { p.empty { (text) } }
}

/// The filter field; `q` is its current value.
pub fn filter(q: &str, what: &str) -> Markup {
    html! {
        form.filter method="get" role="search" {
            input #filter type="search" name="q" value=(q) placeholder={ "Filter " (what) } aria-label={ "Filter " (what) }
                autocomplete="off" spellcheck="false";
            button { "Filter" }
        }
    }
}

/// Whether every word of the filter occurs in one of the texts, case-insensitively.
pub fn matches(q: &str, texts: &[&str]) -> bool {
    q.split_whitespace().all(|word| {
        let word = word.to_lowercase();
        texts.iter().any(|text| text.to_lowercase().contains(&word))
    })
}

/// States that a list is truncated.
pub fn shown(shown: usize, of: usize) -> Markup {
    html! { @if shown < of { p.dim { "The first " (shown) " of " (of) "; the filter finds the others." } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(1536.0), "1.5 KiB");
        assert_eq!(bytes(3.0 * 1024.0 * 1024.0 * 1024.0), "3.0 GiB");
        assert_eq!(count(7), "7");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(short(0.0), "0");
        assert_eq!(short(12_345.0), "12.3 k");
        assert_eq!(short(f64::NAN), "–");
        assert_eq!(seconds(0.000_012), "12.0 µs");
        assert_eq!(seconds(0.25), "250 ms");
        assert_eq!(at_most(0.000_05, 10.0), "≤ 50.0 µs");
        assert_eq!(at_most(f64::INFINITY, 10.0), "> 10.0 s");
        assert_eq!(at_most(f64::NAN, 10.0), "–");
        assert_eq!(long(Duration::from_secs(90_061)), "1 d 1 h");
        assert_eq!(long(Duration::from_secs(61)), "1 min 1 s");
    }

    #[test]
    fn backticks_are_code_and_everything_is_escaped() {
        for (text, markup) in [
            ("", ""),
            ("plain", "plain"),
            ("no `a<b`; use `c`", "no <code>a&lt;b</code>; use <code>c</code>"),
            ("`a`", "<code>a</code>"),
            ("one ` alone & <b>", "one ` alone &amp; &lt;b&gt;"),
            ("`a` and ` alone", "<code>a</code> and ` alone"),
            ("empty ``", "empty ``"),
        ] {
            assert_eq!(message(text).into_string(), markup, "{text}");
        }
    }

    #[test]
    fn filters_need_every_word() {
        assert!(matches("", &["anything"]));
        assert!(matches("den SYSTEM", &["h.denier.istio-system"]));
        assert!(!matches("den other", &["h.denier.istio-system"]));
    }
}
