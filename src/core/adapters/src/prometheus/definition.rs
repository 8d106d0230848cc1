//! Validated metric definitions: full name, labels, help and bounds.

use super::{BucketsDefinition, MetricInfo, MetricKind};
use mixer_base::quote::quoted;

/// Default bounds of distributions.
const DEFAULT_BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Most bounds of a distribution.
const MAX_BOUNDS: usize = 10_000;

/// Default limit of series.
const DEFAULT_MAX_SERIES: usize = 500_000;

/// A valid metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) help: String,
    pub(super) kind: MetricKind,
    /// In byte order, distinct.
    pub(super) labels: Vec<String>,
    /// Increasing, finite; empty except for distributions.
    pub(super) bounds: Vec<f64>,
    pub(super) max_series: usize,
}

impl Definition {
    /// Errors: the text for the build error, for example `could not register metric: "0" is not a valid metric name`.
    pub(super) fn new(info: &MetricInfo) -> Result<Self, String> {
        let refuse = |why: String| format!("could not register metric: {why}");
        if info.kind == MetricKind::Unspecified {
            let shown = mixer_config::message::Field::to_json(info);
            return Err(format!("unknown metric kind (0); could not register metric {shown}"));
        }
        let plain = if info.name.is_empty() { &info.instance_name } else { &info.name };
        let namespace =
            if info.namespace.is_empty() { "istio".to_owned() } else { safe_name(&info.namespace) };
        let name = match (namespace.as_str(), safe_name(plain)) {
            ("", name) => name,
            (_, name) if name.is_empty() => name,
            (namespace, name) => format!("{namespace}_{name}"),
        };
        if !is_name(&name, true) {
            return Err(refuse(format!("{} is not a valid metric name", quoted(&name))));
        }
        let mut labels: Vec<String> = info.label_names.iter().map(|label| safe_name(label)).collect();
        labels.sort_unstable();
        for label in &labels {
            if !is_name(label, false) || label.starts_with("__") {
                return Err(refuse(format!("{} is not a valid label name", quoted(label))));
            }
            if info.kind == MetricKind::Distribution && label == "le" {
                return Err(refuse("\"le\" is not allowed as label name in histograms".to_owned()));
            }
        }
        if labels.array_windows().any(|[a, b]| a == b) {
            return Err(refuse("duplicate label names".to_owned()));
        }
        let bounds = match info.kind {
            MetricKind::Distribution => bounds(info.buckets.as_ref()).map_err(refuse)?,
            _ => Vec::new(),
        };
        let help = if info.description.is_empty() { plain } else { &info.description };
        let max_series = match info.max_series {
            0 => DEFAULT_MAX_SERIES,
            limit => usize::try_from(limit).unwrap_or(usize::MAX),
        };
        Ok(Self { name, help: help.clone(), kind: info.kind, labels, bounds, max_series })
    }

    /// Why both cannot be on one page: one is a histogram, which has series with the name of the other.
    pub(super) fn collision(&self, other: &Definition) -> Option<String> {
        let (histogram, series) = if self.has_series(&other.name) { (self, other) } else { (other, self) };
        histogram.has_series(&series.name).then(|| {
            let (histogram, series) = (quoted(&histogram.name), quoted(&series.name));
            format!(
                "could not register metric: {series} is the name of a series of the histogram {histogram}"
            )
        })
    }

    fn has_series(&self, name: &str) -> bool {
        let end = name.strip_prefix(&*self.name);
        self.kind == MetricKind::Distribution
            && end.is_some_and(|end| ["_count", "_sum", "_bucket"].contains(&end))
    }

    /// Whether two metrics of one name can share their series.
    pub(super) fn is_same_metric(&self, other: &Definition) -> bool {
        (&self.name, &self.help, self.kind, &self.labels)
            == (&other.name, &other.help, other.kind, &other.labels)
    }
}

/// Replaces the characters that Istio Mixer replaces in names.
fn safe_name(name: &str) -> String {
    let name = name.strip_prefix('/').unwrap_or(name);
    name.chars().filter(|c| *c != '-').map(|c| if matches!(c, '/' | '.' | ' ') { '_' } else { c }).collect()
}

fn is_name(name: &str, colons: bool) -> bool {
    let is_letter = |b: u8| b.is_ascii_alphabetic() || b == b'_' || (colons && b == b':');
    let mut bytes = name.bytes();
    bytes.next().is_some_and(is_letter) && bytes.all(|b| is_letter(b) || b.is_ascii_digit())
}

fn bounds(definition: Option<&BucketsDefinition>) -> Result<Vec<f64>, String> {
    let mut bounds = match definition {
        Some(BucketsDefinition { explicit_buckets: Some(explicit), .. }) => explicit.bounds.clone(),
        Some(BucketsDefinition { exponential_buckets: Some(growing), .. }) => {
            let count = count(growing.num_finite_buckets, "ExponentialBuckets")?;
            if growing.scale <= 0.0 || growing.scale.is_nan() {
                return Err("ExponentialBuckets needs a positive start value".to_owned());
            }
            if growing.growth_factor <= 1.0 || growing.growth_factor.is_nan() {
                return Err("ExponentialBuckets needs a factor greater than 1".to_owned());
            }
            let next = |bound: &f64| Some(bound * growing.growth_factor);
            std::iter::successors(Some(growing.scale), next).take(count).collect()
        }
        Some(BucketsDefinition { linear_buckets: Some(linear), .. }) => {
            let count = count(linear.num_finite_buckets, "LinearBuckets")?;
            let next = |bound: &f64| Some(bound + linear.width);
            std::iter::successors(Some(linear.offset), next).take(count).collect()
        }
        _ => Vec::new(),
    };
    if bounds.is_empty() {
        return Ok(DEFAULT_BOUNDS.to_vec());
    }
    if bounds.len() > MAX_BOUNDS {
        return Err(format!("a histogram has at most {MAX_BOUNDS} buckets, these are {}", bounds.len()));
    }
    if let Some([a, b]) = bounds.array_windows().find(|[a, b]| a.is_nan() || b.is_nan() || a >= b) {
        return Err(format!("histogram buckets must be in increasing order: {a:.6} >= {b:.6}"));
    }
    if bounds.last().is_some_and(|last| *last == f64::INFINITY) {
        bounds.pop();
    }
    Ok(bounds)
}

fn count(finite: i32, who: &str) -> Result<usize, String> {
    let count = usize::try_from(i64::from(finite) + 1).unwrap_or(0);
    if count == 0 {
        return Err(format!("{who} needs a positive count"));
    }
    // One too many is enough for the error.
    Ok(count.min(MAX_BOUNDS + 1))
}

#[cfg(test)]
mod tests {
    use super::super::{ExplicitBuckets, ExponentialBuckets, LinearBuckets};
    use super::*;

    fn info(name: &str, kind: MetricKind, labels: &[&str]) -> MetricInfo {
        MetricInfo {
            name: name.to_owned(),
            instance_name: "m.instance.istio-system".to_owned(),
            kind,
            label_names: labels.iter().map(|l| (*l).to_owned()).collect(),
            ..MetricInfo::default()
        }
    }

    #[test]
    fn names_are_sanitised() {
        let name = |namespace: &str, name: &str| {
            let info = MetricInfo { namespace: namespace.to_owned(), ..info(name, MetricKind::Gauge, &[]) };
            Definition::new(&info).map(|d| (d.name, d.help))
        };
        let pair = |name: &str, help: &str| Ok((name.to_owned(), help.to_owned()));
        assert_eq!(name("/my.ns-x", "/a.b c/d-e"), pair("my_nsx_a_b_c_de", "/a.b c/d-e"));
        assert_eq!(name("", ""), pair("istio_m_instance_istiosystem", "m.instance.istio-system"));
        assert_eq!(name("/", "x"), pair("x", "x"));
        assert_eq!(name("", "//x"), pair("istio__x", "//x"));
        for bad in ["ä", "a+b", "/"] {
            assert!(name("", bad).unwrap_err().starts_with("could not register metric: "), "{bad}");
        }
    }

    #[test]
    fn labels_are_sorted_and_checked() {
        let labels = |kind, labels: &[&str]| Definition::new(&info("x", kind, labels)).map(|d| d.labels);
        assert_eq!(
            labels(MetricKind::Gauge, &["the.one", "the-two", "/three", "le"]).unwrap(),
            ["le", "the_one", "thetwo", "three"]
        );
        for bad in [&["a", "a"][..], &["a.b", "a_b"], &["__x"], &["0"], &[""], &["a:b"]] {
            assert!(labels(MetricKind::Gauge, bad).is_err(), "{bad:?}");
        }
        assert!(labels(MetricKind::Distribution, &["le"]).is_err());
        let unspecified = labels(MetricKind::Unspecified, &[]).unwrap_err();
        assert!(
            unspecified.starts_with("unknown metric kind (0); could not register metric "),
            "{unspecified}"
        );
    }

    #[test]
    fn bounds_follow_their_scheme() {
        let linear = |num_finite_buckets, width, offset| BucketsDefinition {
            linear_buckets: Some(LinearBuckets { num_finite_buckets, width, offset }),
            ..BucketsDefinition::default()
        };
        let growing = |num_finite_buckets, growth_factor, scale| BucketsDefinition {
            exponential_buckets: Some(ExponentialBuckets { num_finite_buckets, growth_factor, scale }),
            ..BucketsDefinition::default()
        };
        let explicit = |bounds: &[f64]| BucketsDefinition {
            explicit_buckets: Some(ExplicitBuckets { bounds: bounds.to_vec() }),
            ..BucketsDefinition::default()
        };
        assert_eq!(bounds(None).unwrap(), DEFAULT_BOUNDS);
        assert_eq!(bounds(Some(&BucketsDefinition::default())).unwrap(), DEFAULT_BOUNDS);
        assert_eq!(bounds(Some(&explicit(&[]))).unwrap(), DEFAULT_BOUNDS);
        assert_eq!(bounds(Some(&linear(3, 5.0, 10.0))).unwrap(), [10.0, 15.0, 20.0, 25.0]);
        assert_eq!(bounds(Some(&linear(0, 0.0, 1.0))).unwrap(), [1.0]);
        assert_eq!(bounds(Some(&growing(3, 2.0, 0.5))).unwrap(), [0.5, 1.0, 2.0, 4.0]);
        assert_eq!(bounds(Some(&explicit(&[1.0, f64::INFINITY]))).unwrap(), [1.0]);
        for bad in [
            linear(-1, 1.0, 1.0),
            linear(3, 0.0, 1.0),
            linear(3, -1.0, 1.0),
            linear(i32::MAX, 1.0, 1.0),
            linear(i32::MIN, 1.0, 1.0),
            growing(3, 1.0, 1.0),
            growing(3, f64::NAN, 1.0),
            growing(3, 2.0, 0.0),
            growing(-1, 2.0, 1.0),
            explicit(&[2.0, 1.0]),
            explicit(&[1.0, 1.0]),
            explicit(&[f64::NAN, 1.0]),
        ] {
            assert!(bounds(Some(&bad)).is_err(), "{bad:?}");
        }
    }
}
