//! The text format of Prometheus, version 0.0.4, and its protobuf format beside it.
//!
//! Numbers, escapes and the order of series are those of client_golang, so that scrapes are equal byte for byte to Istio Mixer's.
//!
//! ```
//! use mixer_base::exposition::{FamilyKind, Labels, Writer};
//! let mut out = Vec::new();
//! let mut writer = Writer::new(&mut out);
//! writer.family("hits_total", "hits", FamilyKind::Counter);
//! writer.sample("hits_total", &Labels::of(&[("code", "200")]), 1e6);
//! assert_eq!(out, b"# HELP hits_total hits\n# TYPE hits_total counter\nhits_total{code=\"200\"} 1e+06\n");
//! ```
//! The text is that of Go's `client_golang`.

mod protobuf;

use std::borrow::Cow;
use std::io::Write as _;

pub use protobuf::Protobuf;

use crate::decimal;

/// The `Content-Type` of the text format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The `Content-Type` of the protobuf format.
const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// The schema of native histograms: `2^2` buckets for each doubling of the value, so that a bound is 19 % above the one before.
pub const NATIVE_SCHEMA: i32 = 2;

/// A format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text, version 0.0.4.
    Text,
    /// Delimited messages of protobuf, which have native histograms.
    Protobuf,
}

impl Format {
    /// The format of a scraper with these values of `Accept`: protobuf if it prefers that to text, or takes both alike.
    pub fn accepted<'v>(values: impl Iterator<Item = &'v str>) -> Self {
        let (mut protobuf, mut text, mut others): (f64, Option<f64>, f64) = (0.0, None, 0.0);
        for range in values.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let parameters: Vec<(String, &str)> = parts
                .filter_map(|part| part.split_once('='))
                .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"')))
                .collect();
            let of =
                |wanted: &str| parameters.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value);
            let weight = of("q").map_or(1.0, |q| q.parse().unwrap_or(0.0));
            let is_family = of("proto").is_some_and(|proto| proto == "io.prometheus.client.MetricFamily");
            let is_delimited = of("encoding").is_some_and(|encoding| encoding == "delimited");
            match name.as_str() {
                "application/vnd.google.protobuf" if is_family && is_delimited => {
                    protobuf = protobuf.max(weight)
                }
                "text/plain" => text = Some(text.map_or(weight, |known| known.max(weight))),
                "text/*" | "*/*" => others = others.max(weight),
                _ => {}
            }
        }
        if protobuf > 0.0 && protobuf >= text.unwrap_or(others) { Format::Protobuf } else { Format::Text }
    }

    /// Its `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => CONTENT_TYPE,
            Format::Protobuf => PROTOBUF,
        }
    }
}

/// The counts of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSample {
    /// One per bound of the family and one more, not cumulative.
    pub counts: Vec<u64>,
    /// Sum of the values, in the unit of the family's name.
    pub sum: f64,
    /// The native buckets, of families that have such.
    pub native: Option<NativeBuckets>,
}

/// The buckets of a native histogram with [`NATIVE_SCHEMA`]. Bucket `i` has the values above `b^(i-1)`, up to and with `b^i`, where `b` is
/// `2^(2^-schema)`.
#[derive(Debug, Clone, PartialEq)]
pub struct NativeBuckets {
    /// The highest value of the zero bucket.
    pub zero_threshold: f64,
    /// Count of the zero bucket.
    pub zero_count: u64,
    /// Index of the first bucket.
    pub first: i32,
    /// Counts of consecutive buckets, not cumulative.
    pub counts: Vec<u64>,
}

/// What writes metric families in sequence, in one of the formats.
pub trait FamilyWriter {
    /// Starts a family. The caller writes at least one sample of it, and families in name order.
    fn family(&mut self, name: &str, help: &str, kind: FamilyKind);

    /// Writes one value of a counter or gauge.
    fn sample(&mut self, name: &str, labels: &Labels, value: f64);

    /// Writes one histogram with these bounds of classic buckets.
    fn histogram(&mut self, name: &str, labels: &Labels, bounds: &[f64], sample: &HistogramSample);
}

impl FamilyWriter for Writer<'_> {
    fn family(&mut self, name: &str, help: &str, kind: FamilyKind) {
        Writer::family(self, name, help, kind);
    }

    fn sample(&mut self, name: &str, labels: &Labels, value: f64) {
        Writer::sample(self, name, labels, value);
    }

    fn histogram(&mut self, name: &str, labels: &Labels, bounds: &[f64], sample: &HistogramSample) {
        Writer::histogram(self, name, labels, bounds, &sample.counts, sample.sum);
    }
}

/// The type of a metric family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FamilyKind {
    /// Only increases.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Counts values in buckets.
    Histogram,
}

impl FamilyKind {
    /// The type in `# TYPE`.
    pub fn name(self) -> &'static str {
        match self {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Histogram => "histogram",
        }
    }
}

/// Label pairs as rendered: escaped, without braces, in the order given.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Labels(Box<[u8]>);

impl Labels {
    /// Renders these labels.
    pub fn of<N: AsRef<str>, V: AsRef<str>>(labels: &[(N, V)]) -> Self {
        let mut text = Vec::new();
        for (name, value) in labels {
            push_label(&mut text, name.as_ref(), value.as_ref().as_bytes());
        }
        Self::from_text(text)
    }

    /// Labels rendered by [`push_label`].
    pub fn from_text(text: Vec<u8>) -> Self {
        Self(text.into_boxed_slice())
    }

    /// The text.
    pub fn text(&self) -> &[u8] {
        &self.0
    }

    /// Names, and values without escapes.
    fn pairs(&self) -> impl Iterator<Item = (&[u8], Cow<'_, [u8]>)> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            rest = rest.strip_prefix(b",").unwrap_or(rest);
            let at = rest.iter().position(|byte| *byte == b'=')?;
            let (name, value) = (rest.get(..at)?, rest.get(at + 2..)?);
            let mut is_escaped = false;
            let end = value.iter().position(|byte| {
                let is_end = *byte == b'"' && !is_escaped;
                is_escaped = *byte == b'\\' && !is_escaped;
                is_end
            })?;
            rest = value.get(end + 1..)?;
            Some((name, unescaped(value.get(..end)?)))
        })
    }

    /// The order of series in a family: by label values, if both have the same names. Compares the escaped text, so that values
    /// need not be stored twice.
    pub fn cmp_values(&self, other: &Labels) -> std::cmp::Ordering {
        let same = self.0.iter().zip(other.0.iter()).take_while(|(a, b)| a == b).count();
        let rank = |text: &[u8]| -> u16 {
            // The unescaped byte at the first difference; the closing quote ends a value and so sorts before every byte.
            let escaped = text.iter().take(same).rev().take_while(|b| **b == b'\\').count() % 2 == 1;
            let byte = |at: usize| text.get(at).copied();
            let decode = |b: Option<u8>| match b {
                Some(b'n') => u16::from(b'\n') + 1,
                Some(b) => u16::from(b) + 1,
                None => 0,
            };
            match byte(same) {
                b if escaped => decode(b),
                None | Some(b'"') => 0,
                Some(b'\\') => decode(byte(same + 1)),
                Some(b) => u16::from(b) + 1,
            }
        };
        rank(&self.0).cmp(&rank(&other.0)).then_with(|| self.0.len().cmp(&other.0.len()))
    }
}

/// Appends `name="value"`, with a comma before it unless `text` is empty.
pub fn push_label(text: &mut Vec<u8>, name: &str, value: &[u8]) {
    if !text.is_empty() {
        text.push(b',');
    }
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b"=\"");
    for byte in value {
        match byte {
            b'\\' => text.extend_from_slice(b"\\\\"),
            b'"' => text.extend_from_slice(b"\\\""),
            b'\n' => text.extend_from_slice(b"\\n"),
            _ => text.push(*byte),
        }
    }
    text.push(b'"');
}

/// What [`push_label`] escaped.
fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let mut bytes = text.iter();
    let next = move || match bytes.next()? {
        b'\\' => bytes.next().map(|byte| if *byte == b'n' { b'\n' } else { *byte }),
        byte => Some(*byte),
    };
    Cow::Owned(std::iter::from_fn(next).collect())
}

/// Appends a number: the shortest digits that round-trip, with an exponent of at least two digits if it is below -4 or above 5;
/// `NaN`, `+Inf`, `-Inf`.
pub fn push_number(out: &mut Vec<u8>, value: f64) {
    // Zero has no sign. Writing to a Vec cannot fail.
    let _ = write!(out, "{}", decimal::general(if value == 0.0 { 0.0 } else { value }));
}

/// Writes metric families in sequence.
#[derive(Debug)]
pub struct Writer<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Writer<'o> {
    /// Appends to `out`.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Bytes written so far, with those that `out` had before.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Starts a family. The caller writes at least one sample of it, and families in name order.
    pub fn family(&mut self, name: &str, help: &str, kind: FamilyKind) {
        self.text("# HELP ");
        self.text(name);
        self.text(" ");
        for byte in help.bytes() {
            match byte {
                b'\\' => self.text("\\\\"),
                b'\n' => self.text("\\n"),
                _ => self.out.push(byte),
            }
        }
        self.text("\n# TYPE ");
        self.text(name);
        self.text(" ");
        self.text(kind.name());
        self.text("\n");
    }

    /// Writes one value of a counter or gauge.
    pub fn sample(&mut self, name: &str, labels: &Labels, value: f64) {
        self.line(name, "", labels, None, value);
    }

    /// Writes one histogram. `counts` has one entry per bound and one for values above the last bound, not cumulative.
    pub fn histogram(&mut self, name: &str, labels: &Labels, bounds: &[f64], counts: &[u64], sum: f64) {
        self.histogram_part(name, labels, bounds, counts, sum, 0, usize::MAX);
    }

    /// Writes one histogram from its bucket `from` on, until the text has `most` bytes. Returns the bucket to go on with, or `None` if all
    /// is written.
    #[expect(clippy::too_many_arguments, reason = "a histogram and the part of it to write")]
    pub fn histogram_part(
        &mut self,
        name: &str,
        labels: &Labels,
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
        from: usize,
        most: usize,
    ) -> Option<usize> {
        let mut total: u64 = counts.iter().take(from).sum();
        let upper = bounds.iter().copied().chain([f64::INFINITY]);
        for (at, (bound, count)) in upper.zip(counts).enumerate().skip(from) {
            if self.out.len() >= most {
                return Some(at);
            }
            total += count;
            self.line(name, "_bucket", labels, Some(bound), total as f64);
        }
        self.line(name, "_sum", labels, None, sum);
        self.line(name, "_count", labels, None, total as f64);
        None
    }

    fn line(&mut self, name: &str, suffix: &str, labels: &Labels, upper: Option<f64>, value: f64) {
        self.text(name);
        self.text(suffix);
        if !labels.0.is_empty() || upper.is_some() {
            self.text("{");
            self.out.extend_from_slice(&labels.0);
            if let Some(upper) = upper {
                self.text(if labels.0.is_empty() { "le=\"" } else { ",le=\"" });
                push_number(self.out, upper);
                self.text("\"");
            }
            self.text("}");
        }
        self.text(" ");
        push_number(self.out, value);
        self.text("\n");
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-3.0, "-3"),
            (96.9, "96.9"),
            (100_000.0, "100000"),
            (999_999.5, "999999.5"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (123_456_789_012.0, "1.23456789012e+11"),
            (1e21, "1e+21"),
            (1e100, "1e+100"),
            (1e-4, "0.0001"),
            (0.000_25, "0.00025"),
            (1e-5, "1e-05"),
            (6.574e-6, "6.574e-06"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            let mut out = Vec::new();
            push_number(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn families_are_written_with_escapes() {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.family("a_b", "Number of\nhits \\ \"so far\"", FamilyKind::Gauge);
        writer.sample("a_b", &Labels::of(&[("who", "q\"u\\o\nte")]), 1.0);
        writer.sample("a_b", &Labels::default(), -1.5);
        writer.family("h", "", FamilyKind::Histogram);
        writer.histogram("h", &Labels::of(&[("x", "1")]), &[0.5, 2e6], &[1, 0, 2], 3.25);
        let expected = [
            r#"# HELP a_b Number of\nhits \\ "so far""#,
            "# TYPE a_b gauge",
            r#"a_b{who="q\"u\\o\nte"} 1"#,
            "a_b -1.5",
            "# HELP h ",
            "# TYPE h histogram",
            r#"h_bucket{x="1",le="0.5"} 1"#,
            r#"h_bucket{x="1",le="2e+06"} 1"#,
            r#"h_bucket{x="1",le="+Inf"} 3"#,
            r#"h_sum{x="1"} 3.25"#,
            r#"h_count{x="1"} 3"#,
            "",
        ];
        assert_eq!(String::from_utf8(out).unwrap(), expected.join("\n"));
    }

    #[test]
    fn scrapers_choose_the_format() {
        const PROMETHEUS: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
            application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        const FAMILY: &str = "application/vnd.google.protobuf; Proto=\"io.prometheus.client.MetricFamily\"; encoding=delimited";
        for (accept, format) in [
            (vec![PROMETHEUS], Format::Protobuf),
            (vec!["*/*;q=0.1", FAMILY], Format::Protobuf),
            (vec![&*format!("{FAMILY};q=0.7, text/plain;q=0.3")], Format::Protobuf),
            (vec![&*format!("{FAMILY};q=0.3, text/plain;q=0.7")], Format::Text),
            (vec![&*format!("{FAMILY};q=0, */*;q=0")], Format::Text),
            (vec![&*format!("{FAMILY};q=x")], Format::Text),
            (vec![&*FAMILY.replace("delimited", "text")], Format::Text),
            (vec!["application/vnd.google.protobuf"], Format::Text),
            (
                vec!["application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"],
                Format::Text,
            ),
            (vec!["*/*"], Format::Text),
            (vec![",;=,;"], Format::Text),
            (vec![], Format::Text),
        ] {
            assert_eq!(Format::accepted(accept.iter().copied()), format, "{accept:?}");
        }
    }

    #[test]
    fn labels_are_read_back() {
        for text in ["", "a", "q\"u\\o\nte,\\", "\\\"", "é=\"x\""] {
            let labels = Labels::of(&[("one", text), ("two", "z")]);
            let pairs: Vec<_> = labels.pairs().map(|(name, value)| (name, value.into_owned())).collect();
            assert_eq!(pairs, [(&b"one"[..], text.as_bytes().to_vec()), (b"two", b"z".to_vec())]);
        }
        assert_eq!(Labels::default().pairs().count(), 0);
    }

    #[test]
    fn series_order_is_that_of_the_values() {
        let values = [
            "", "\n", "\n\n", " ", "\"", "\"a", "#", "A", "[", "\\", "\\\\", "\\n", "]", "a", "a b", "aa",
            "é",
        ];
        let tail = ["", "\"", "z"];
        let mut all: Vec<(&str, &str)> =
            values.iter().flat_map(|v| tail.iter().map(move |t| (*v, *t))).collect();
        all.sort_unstable();
        for a in &all {
            for b in &all {
                let labels = |p: &(&str, &str)| Labels::of(&[("one", p.0), ("two", p.1)]);
                assert_eq!(labels(a).cmp_values(&labels(b)), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }
}
