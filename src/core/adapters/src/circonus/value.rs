//! Values of metrics between two submissions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mixer_attribute::Value;

use super::MetricType;

/// What a metric has, since the last submission.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Metric {
    /// Nothing is submitted.
    None,
    /// Number of instances.
    Counter(u64),
    /// The last value.
    Gauge(Option<i64>),
    /// Numbers of durations by bins: at most 90 for each power of ten, on both sides of zero.
    Distribution(BTreeMap<Bin, u64>),
}

/// A bin of a histogram: a number of nanoseconds with two significant digits, with its sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bin {
    /// Ten times the digit before the point, and the one after it.
    mantissa: i8,
    exponent: u8,
}

impl Bin {
    /// The bin of a number, of which further digits are dropped.
    fn of(nanos: i64) -> Self {
        let mut magnitude = nanos.unsigned_abs();
        let mut exponent = 0;
        if magnitude < 10 {
            magnitude *= 10;
        } else {
            exponent = 1;
            while magnitude >= 100 {
                magnitude /= 10;
                exponent += 1;
            }
        }
        // It is less than 100.
        let mantissa = i8::try_from(magnitude).unwrap_or(i8::MAX);
        Self { mantissa: if nanos < 0 { -mantissa } else { mantissa }, exponent }
    }
}

impl std::fmt::Display for Bin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let magnitude = self.mantissa.unsigned_abs();
        write!(f, "H[{sign}{}.{}e+{:02}]", magnitude / 10, magnitude % 10, self.exponent)
    }
}

impl Metric {
    pub(super) fn new(kind: MetricType) -> Self {
        match kind {
            MetricType::Unknown => Metric::None,
            MetricType::Counter => Metric::Counter(0),
            MetricType::Gauge => Metric::Gauge(None),
            MetricType::Distribution => Metric::Distribution(BTreeMap::new()),
        }
    }

    /// Adds an instance. compat(1.3): the value of a counter is ignored, and one of another type is 0; pinned by
    /// adapters-remote/circonus/trap-payload.
    pub(super) fn record(&mut self, value: Option<Value<'_>>) {
        match self {
            Metric::None => {}
            Metric::Counter(count) => *count = count.saturating_add(1),
            Metric::Gauge(last) => {
                *last = Some(match value {
                    Some(Value::Int64(number)) => number,
                    _ => 0,
                });
            }
            Metric::Distribution(bins) => {
                let nanos = match value {
                    Some(Value::Duration(duration)) => duration.nanos,
                    _ => 0,
                };
                *bins.entry(Bin::of(nanos)).or_default() += 1;
            }
        }
    }

    /// What is submitted, as JSON, after which it starts again; `None`: nothing was recorded.
    pub(super) fn take(&mut self) -> Option<String> {
        match self {
            Metric::None => None,
            Metric::Counter(count) => {
                let count = std::mem::take(count);
                (count > 0).then(|| format!(r#"{{"_type":"L","_value":{count}}}"#))
            }
            Metric::Gauge(last) => last.take().map(|last| format!(r#"{{"_type":"l","_value":{last}}}"#)),
            Metric::Distribution(bins) if bins.is_empty() => None,
            Metric::Distribution(bins) => {
                let mut json = r#"{"_type":"n","_value":["#.to_owned();
                for (index, (bin, count)) in std::mem::take(bins).into_iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    // Writing to a String cannot fail.
                    let _ = write!(json, r#"{comma}"{bin}={count}""#);
                }
                json.push_str("]}");
                Some(json)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_attribute::SignedDuration;

    #[test]
    fn bins_have_two_digits() {
        for (nanos, bin) in [
            (0, "H[0.0e+00]"),
            (1, "H[1.0e+00]"),
            (9, "H[9.0e+00]"),
            (10, "H[1.0e+01]"),
            (99, "H[9.9e+01]"),
            (100, "H[1.0e+02]"),
            (1_069_999, "H[1.0e+06]"),
            (1_100_000, "H[1.1e+06]"),
            (-1_190_000, "H[-1.1e+06]"),
            (i64::MAX, "H[9.2e+18]"),
            (i64::MIN, "H[-9.2e+18]"),
        ] {
            assert_eq!(Bin::of(nanos).to_string(), bin, "{nanos}");
        }
    }

    /// A bin contains the numbers that begin with its digits, and no others.
    #[test]
    fn a_number_is_within_its_bin() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..10_000 {
            let nanos = random.i64(..) >> random.u32(0..63);
            let Bin { mantissa, exponent } = Bin::of(nanos);
            let least = i128::from(mantissa.unsigned_abs()) * 10_i128.pow(u32::from(exponent)) / 10;
            let width = (10_i128.pow(u32::from(exponent)) / 10).max(1);
            let magnitude = i128::from(nanos.unsigned_abs());
            assert!((least..least + width).contains(&magnitude), "{nanos} in {mantissa} {exponent}");
            assert_eq!(mantissa.signum(), nanos.signum() as i8, "{nanos}");
        }
    }

    #[test]
    fn values_start_again_after_a_submission() {
        let duration = |nanos| Some(Value::Duration(SignedDuration { nanos }));
        for (kind, values, json) in [
            (MetricType::Counter, [Some(Value::Int64(7)), None], Some(r#"{"_type":"L","_value":2}"#)),
            (MetricType::Gauge, [None, Some(Value::Int64(-7))], Some(r#"{"_type":"l","_value":-7}"#)),
            (MetricType::Gauge, [None, Some(Value::Double(1.5))], Some(r#"{"_type":"l","_value":0}"#)),
            (
                MetricType::Distribution,
                [duration(1_500_000), Some(Value::Int64(5))],
                Some(r#"{"_type":"n","_value":["H[0.0e+00]=1","H[1.5e+06]=1"]}"#),
            ),
            (MetricType::Unknown, [None, None], None),
        ] {
            let mut metric = Metric::new(kind);
            values.into_iter().for_each(|value| metric.record(value));
            assert_eq!(metric.take().as_deref(), json, "{kind:?}");
            assert_eq!((metric.take(), metric), (None, Metric::new(kind)));
        }
    }
}
