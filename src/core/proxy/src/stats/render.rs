//! Statistics as text, JSON, and in the form of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mixer_base::exposition::push_label;

use super::{BOUNDS, Sample, Value};

/// A form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
    Prometheus,
}

/// Which statistics are shown.
#[derive(Default)]
pub(crate) struct Selection {
    /// Only those that were updated.
    pub(crate) used_only: bool,
    /// Only names in which this is found.
    pub(crate) filter: Option<mixer_expr::functions::Regex>,
    /// Only this type: `Counters`, `Gauges`, `Histograms`, `TextReadouts`.
    pub(crate) kind: Option<String>,
}

impl Selection {
    fn takes(&self, sample: &Sample, name: &str) -> bool {
        let is_kind = |kind: &String| match sample.value {
            Value::Counter(_) => kind == "Counters",
            Value::Gauge(_) => kind == "Gauges",
            Value::Histogram(..) => kind == "Histograms",
            Value::Text(_) => kind == "TextReadouts",
        };
        let is_used = match &sample.value {
            Value::Counter(value) | Value::Gauge(value) => *value != 0,
            Value::Histogram(counts, _) => counts.iter().any(|count| *count > 0),
            Value::Text(text) => !text.is_empty(),
        };
        (!self.used_only || is_used)
            && self.kind.as_ref().is_none_or(is_kind)
            && self.filter.as_ref().is_none_or(|filter| filter.is_match(name.as_bytes()))
    }
}

/// The selected statistics.
pub(crate) fn render(samples: &[Sample], selection: &Selection, format: Format) -> String {
    let mut named: Vec<(String, &Sample)> =
        samples.iter().map(|sample| (sample.full_name(), sample)).collect();
    named.retain(|(name, sample)| selection.takes(sample, name));
    // Texts come first, then counters and gauges, then histograms; each by name.
    let group = |value: &Value| match value {
        Value::Text(_) => 0,
        Value::Counter(_) | Value::Gauge(_) => 1,
        Value::Histogram(..) => 2,
    };
    named.sort_by(|(a, x), (b, y)| group(&x.value).cmp(&group(&y.value)).then_with(|| a.cmp(b)));
    match format {
        Format::Text => text(&named),
        Format::Json => json(&named),
        Format::Prometheus => prometheus(&named),
    }
}

fn text(named: &[(String, &Sample)]) -> String {
    let mut out = String::new();
    for (name, sample) in named {
        // Writing to a string does not fail.
        let _ = match &sample.value {
            Value::Counter(value) | Value::Gauge(value) => writeln!(out, "{name}: {value}"),
            Value::Histogram(counts, _) => writeln!(out, "{name}: {}", summary(counts)),
            Value::Text(text) => writeln!(out, "{name}: {text:?}"),
        };
    }
    out
}

/// The quantiles that are shown, in percent.
const QUANTILES: [f64; 10] = [0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 100.0];

/// Quantiles since the start; there are none of intervals.
fn summary(counts: &[u64]) -> String {
    if counts.iter().all(|count| *count == 0) {
        return "No recorded values".to_owned();
    }
    let quantiles = QUANTILES.map(|percent| format!("P{percent}(nan,{})", quantile(counts, percent)));
    quantiles.join(" ")
}

/// The upper bound of the bucket that has this quantile.
fn quantile(counts: &[u64], percent: f64) -> f64 {
    let total: u64 = counts.iter().sum();
    let rank = ((percent / 100.0 * total as f64).ceil() as u64).max(1);
    let mut seen = 0;
    for (bucket, count) in counts.iter().enumerate() {
        seen += count;
        if seen >= rank {
            return BOUNDS.get(bucket).or(BOUNDS.last()).copied().unwrap_or_default();
        }
    }
    0.0
}

fn json(named: &[(String, &Sample)]) -> String {
    let mut stats = Vec::new();
    let mut histograms = Vec::new();
    for (name, sample) in named {
        match &sample.value {
            Value::Counter(value) | Value::Gauge(value) => {
                stats.push(serde_json::json!({"name": name, "value": value}));
            }
            Value::Text(text) => stats.push(serde_json::json!({"name": name, "value": text})),
            Value::Histogram(counts, _) if counts.iter().any(|count| *count > 0) => {
                let values = QUANTILES.map(
                    |percent| serde_json::json!({"interval": null, "cumulative": quantile(counts, percent)}),
                );
                histograms.push(serde_json::json!({"name": name, "values": values}));
            }
            Value::Histogram(..) => histograms.push(serde_json::json!({"name": name, "values": []})),
        }
    }
    if !histograms.is_empty() {
        let computed =
            serde_json::json!({"supported_quantiles": QUANTILES, "computed_quantiles": histograms});
        stats.push(serde_json::json!({"histograms": computed}));
    }
    format!("{}\n", serde_json::json!({ "stats": stats }))
}

/// Samples of a family.
#[derive(Default)]
struct Family {
    kind: &'static str,
    lines: Vec<u8>,
}

fn prometheus(named: &[(String, &Sample)]) -> String {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    // A text is no value of Prometheus.
    for (_, sample) in named.iter().filter(|(_, sample)| !matches!(sample.value, Value::Text(_))) {
        let (stem, mut labels) = sample.scope.family();
        let mut name = sample.name.clone();
        // A status or its class is a label.
        if let Some((before, code)) = name.rsplit_once('_')
            && before.ends_with("_rq")
            && code.len() == 3
        {
            if code.bytes().all(|byte| byte.is_ascii_digit()) {
                labels.insert(0, ("envoy_response_code", code.to_owned()));
                name = before.to_owned();
            } else if let Some(class) = code.strip_suffix("xx") {
                labels.insert(0, ("envoy_response_code_class", class.to_owned()));
                name = format!("{before}_xx");
            }
        }
        let name = format!("{stem}_{name}").replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_");
        let kind = match sample.value {
            Value::Counter(_) => "counter",
            Value::Gauge(_) => "gauge",
            Value::Histogram(..) => "histogram",
            Value::Text(_) => "untyped",
        };
        let family = families.entry(name.clone()).or_default();
        family.kind = kind;
        let mut shown = Vec::new();
        for (label, value) in &labels {
            push_label(&mut shown, label, value.as_bytes());
        }
        push_lines(&mut family.lines, &name, &String::from_utf8_lossy(&shown), &sample.value);
    }
    let mut out = String::new();
    for (name, family) in families {
        let _ = writeln!(out, "# TYPE {name} {}", family.kind);
        out.push_str(&String::from_utf8_lossy(&family.lines));
    }
    out
}

fn push_lines(lines: &mut Vec<u8>, name: &str, labels: &str, value: &Value) {
    use std::io::Write as _;
    // Writing to memory does not fail.
    match value {
        Value::Counter(value) | Value::Gauge(value) => {
            let _ = writeln!(lines, "{name}{{{labels}}} {value}");
        }
        Value::Histogram(counts, sum) => {
            let separator = if labels.is_empty() { "" } else { "," };
            let mut seen = 0;
            for (bucket, count) in counts.iter().enumerate() {
                seen += count;
                let bound = BOUNDS.get(bucket).map_or("+Inf".to_owned(), f64::to_string);
                let _ = writeln!(lines, "{name}_bucket{{{labels}{separator}le=\"{bound}\"}} {seen}");
            }
            let _ = writeln!(lines, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {seen}");
        }
        Value::Text(_) => {}
    }
}
