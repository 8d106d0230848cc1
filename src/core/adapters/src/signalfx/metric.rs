//! Metrics: their dimensions, values and datapoints. The schema is SignalFx's `DataPointUploadMessage`.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;

use mixer_attribute::text::push_text;
use mixer_attribute::{Timestamp, Value};
use mixer_base::budget::Account;
use mixer_base::metrics::Counter;
use mixer_delivery::Item;
use mixer_engine::adapter::{BoundInstance, Instance};

use super::MetricType;
use super::series::{Aggregate, Number, Recorded, SeriesTable};
use crate::cut::cut;

/// Time without a value after which a series ends.
const EXPIRY: Duration = Duration::from_secs(300);
/// The dimension of the overflow series.
const OVERFLOW: &str = "mixer_overflow";
/// The quantiles of a histogram, and what follows its name.
const QUANTILES: [(&str, f64); 4] = [(".p25", 0.25), (".p50", 0.5), (".p90", 0.9), (".p99", 0.99)];

thread_local! {
    static SCRATCH: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// What the value of a datapoint means: `MetricType` of the schema.
const GAUGE: i32 = 0;
const CUMULATIVE_COUNTER: i32 = 3;

#[derive(Clone, PartialEq, prost::Message)]
struct DataPoint {
    #[prost(string, optional, tag = "2")]
    metric: Option<String>,
    /// Milliseconds since 1970.
    #[prost(int64, optional, tag = "3")]
    timestamp: Option<i64>,
    #[prost(message, optional, tag = "4")]
    value: Option<Datum>,
    #[prost(int32, optional, tag = "5")]
    metric_type: Option<i32>,
    // Dimensions have the tag 6; they follow, already encoded.
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Datum {
    #[prost(double, optional, tag = "2")]
    double: Option<f64>,
    #[prost(int64, optional, tag = "3")]
    int: Option<i64>,
}

/// A dimension in a message of its own, so that it is encoded with its tag.
#[derive(Clone, PartialEq, prost::Message)]
struct Dimensions {
    #[prost(message, optional, tag = "6")]
    one: Option<Dimension>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Dimension {
    #[prost(string, optional, tag = "1")]
    key: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// A datapoint on its way, encoded.
pub(super) struct Point(pub(super) Box<[u8]>);

impl Item for Point {
    fn size(&self) -> usize {
        size_of::<Self>() + self.0.len()
    }
}

/// A metric.
pub(super) struct Metric {
    pub(super) name: Arc<str>,
    value: Option<usize>,
    /// Names and positions of the dimensions, sorted; names are distinct.
    dimensions: Vec<(String, usize)>,
    overflow: Arc<[u8]>,
    pub(super) series: SeriesTable,
    /// Values that found no room for their series.
    pub(super) overflowed: Counter,
}

/// A name with the characters that SignalFx takes.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

fn push_dimension(out: &mut Vec<u8>, key: &str, value: &str) {
    let one = Dimension { key: Some(key.to_owned()), value: Some(value.to_owned()) };
    // Writing to a Vec cannot fail.
    let _ = Dimensions { one: Some(one) }.encode(out);
}

impl Metric {
    pub(super) fn new(
        instance: &BoundInstance,
        kind: MetricType,
        account: Arc<Account>,
        overflowed: Counter,
    ) -> Self {
        let own = instance.entries("dimensions").map(|(key, at)| (plain(key), at));
        let kind_of_resource = instance.position("monitored_resource_type");
        let kind_of_resource = kind_of_resource.map(|at| ("monitored_resource_type".to_owned(), at));
        let of_resource = instance.entries("monitored_resource_dimensions");
        let of_resource = of_resource.map(|(key, at)| (plain(&format!("monitored_resource_{key}")), at));
        let mut dimensions: Vec<(String, usize)> = own.chain(kind_of_resource).chain(of_resource).collect();
        dimensions.retain(|(name, _)| !name.is_empty());
        dimensions.sort_by(|(a, _), (b, _)| a.cmp(b));
        dimensions.dedup_by(|(a, _), (b, _)| a == b);
        let mut overflow = Vec::new();
        push_dimension(&mut overflow, OVERFLOW, "true");
        Self {
            name: Arc::clone(&instance.name),
            value: instance.position("value"),
            dimensions,
            overflow: overflow.into(),
            series: SeriesTable::new(kind == MetricType::Histogram, account),
            overflowed,
        }
    }

    /// Records an instance that came at a time of the monotonic clock. Errors: its value is no number.
    pub(super) fn record(&self, instance: &Instance<'_>, at: Duration) -> Result<Recorded, String> {
        let number = match self.value.and_then(|at| instance.value(at)) {
            None => return Err("nil value received".to_owned()),
            Some(Value::Int64(number)) => Number::Int(number),
            Some(Value::Double(number)) if number.is_finite() => Number::Double(number),
            Some(Value::Bool(value)) => Number::Int(i64::from(value)),
            Some(Value::Timestamp(Timestamp { seconds, .. })) => Number::Int(seconds),
            Some(Value::Duration(duration)) => Number::Int(duration.nanos),
            Some(_) => return Err("unsupported value type".to_owned()),
        };
        let recorded = SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
            Ok(mut scratch) => {
                let (key, text) = &mut *scratch;
                self.record_with(key, text, instance, number, at)
            }
            Err(_) => self.record_with(&mut Vec::new(), &mut Vec::new(), instance, number, at),
        });
        if recorded == Recorded::Overflow {
            self.overflowed.add(1);
        }
        Ok(recorded)
    }

    fn record_with(
        &self,
        key: &mut Vec<u8>,
        text: &mut Vec<u8>,
        instance: &Instance<'_>,
        number: Number,
        at: Duration,
    ) -> Recorded {
        key.clear();
        for (name, position) in &self.dimensions {
            let Some(value) = instance.value(*position) else { continue };
            text.clear();
            push_text(text, value);
            cut(text);
            if !text.is_empty() {
                push_dimension(key, name, &String::from_utf8_lossy(text));
            }
        }
        self.series.record(key, number, at)
    }

    /// The datapoints of a part of all series: at `millis` since 1970, and `now` by the monotonic clock.
    pub(super) fn points(&self, part: usize, millis: i64, now: Duration) -> Vec<Point> {
        let mut points = Vec::new();
        for (dimensions, value) in self.series.read(part, &self.overflow, now, EXPIRY) {
            let mut push = |suffix: &str, kind: i32, value: Datum| {
                // There is no place for what is not finite.
                if value.double.is_some_and(|number| !number.is_finite()) {
                    return;
                }
                let point = DataPoint {
                    metric: Some(format!("{}{suffix}", self.name)),
                    timestamp: Some(millis),
                    value: Some(value),
                    metric_type: Some(kind),
                };
                let mut bytes = Vec::with_capacity(point.encoded_len() + dimensions.len());
                // Writing to a Vec cannot fail.
                let _ = point.encode(&mut bytes);
                bytes.extend_from_slice(&dimensions);
                points.push(Point(bytes.into()));
            };
            let int = |number| Datum { int: Some(number), double: None };
            let double = |number| Datum { int: None, double: Some(number) };
            match value {
                Aggregate::Sum(sum) => push("", CUMULATIVE_COUNTER, int(sum)),
                Aggregate::Distribution(all) => {
                    push(".count", CUMULATIVE_COUNTER, int(all.count));
                    push(".sum", CUMULATIVE_COUNTER, double(all.sum));
                    push(".sumsquare", CUMULATIVE_COUNTER, double(all.sum_of_squares));
                    if !all.recent.is_empty() {
                        push(".min", GAUGE, double(all.recent.least()));
                        push(".max", GAUGE, double(all.recent.greatest()));
                        for (suffix, part) in QUANTILES {
                            push(suffix, GAUGE, double(all.recent.quantile(part)));
                        }
                    }
                }
            }
        }
        points
    }
}
