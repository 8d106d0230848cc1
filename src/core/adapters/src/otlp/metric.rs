//! Metrics: definition, samples and points.

use std::sync::Arc;
use std::time::Duration;

use mixer_attribute::text::brief_text;
use mixer_attribute::{Value, ValueType};
use mixer_base::budget::Account;
use mixer_base::metrics::Counter;
use mixer_delivery::Item;
use mixer_engine::adapter::{BoundInstance, Instance};
use mixer_otlp::{
    AnyValueKind, HISTOGRAM_ATTRIBUTES, MetricHead, MetricShape, NUMBER_ATTRIBUTES, push_attribute,
};

use super::attributes::{Attribute, attributes, push_dimensions};
use super::params::{MetricInfo, MetricKind, Params, Temporality};
use super::series::{Aggregation, Number, Recorded, SeriesTable, WallClock};

/// The bounds of durations in seconds that OpenTelemetry's conventions recommend.
const DEFAULT_BOUNDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
/// The attribute of the overflow series.
const OVERFLOW: &str = "otel.metric.overflow";

/// A metric.
pub(super) struct Metric {
    pub(super) head: MetricHead,
    pub(super) shape: MetricShape,
    kind: MetricKind,
    value: Option<usize>,
    attributes: Vec<Attribute>,
    /// The field of the attributes of its points.
    field: u32,
    pub(super) series: SeriesTable,
    /// Samples that found no room for their series.
    pub(super) overflowed: Counter,
}

/// A point on its way.
pub(super) struct Point {
    pub(super) metric: Arc<Metric>,
    attributes: Arc<[u8]>,
    values: Box<[u8]>,
}

impl Item for Point {
    fn size(&self) -> usize {
        size_of::<Self>() + self.attributes.len() + self.values.len()
    }
}

impl Point {
    /// It, encoded.
    pub(super) fn encode(&self) -> Vec<u8> {
        [&self.attributes[..], &self.values[..]].concat()
    }
}

impl Metric {
    pub(super) fn new(
        params: &Params,
        info: &MetricInfo,
        instance: &BoundInstance,
        account: Arc<Account>,
        wall: Arc<WallClock>,
        overflowed: Counter,
    ) -> Self {
        let value = instance.position("value");
        let value_type = value.and_then(|at| instance.leaves.get(at)).map(|leaf| leaf.value_type);
        let (temporality, is_delta) = match params.temporality {
            Temporality::Cumulative => (mixer_otlp::Temporality::Cumulative, false),
            Temporality::Delta => (mixer_otlp::Temporality::Delta, true),
        };
        let bounds = if info.bounds.is_empty() { &DEFAULT_BOUNDS[..] } else { &info.bounds };
        let (shape, aggregation) = match info.kind {
            MetricKind::Gauge | MetricKind::Unspecified => (MetricShape::Gauge, Aggregation::Last),
            MetricKind::Counter => (MetricShape::Sum(temporality), Aggregation::Sum { is_delta }),
            MetricKind::Distribution => (
                MetricShape::Histogram(temporality),
                Aggregation::Distribution { bounds: bounds.into(), is_delta },
            ),
        };
        let field = match shape {
            MetricShape::Histogram(_) => HISTOGRAM_ATTRIBUTES,
            MetricShape::Gauge | MetricShape::Sum(_) => NUMBER_ATTRIBUTES,
        };
        let short = instance.name.split('.').next().unwrap_or_default();
        let unit = match (info.unit.as_str(), value_type) {
            ("", Some(ValueType::Duration)) => "s",
            (unit, _) => unit,
        };
        let head = MetricHead {
            name: if info.name.is_empty() { short.to_owned() } else { info.name.clone() },
            description: info.description.clone(),
            unit: unit.to_owned(),
        };
        let zero = match value_type {
            Some(ValueType::Int64) => Number::Int(0),
            _ => Number::Double(0.0),
        };
        let most = match info.max_series {
            0 => usize::MAX,
            most => most as usize,
        };
        let mut overflow = Vec::new();
        push_attribute(&mut overflow, field, OVERFLOW, &AnyValueKind::Bool(true));
        Self {
            head,
            shape,
            kind: info.kind,
            value,
            attributes: attributes(params, instance, "dimensions"),
            field,
            series: SeriesTable::new(aggregation, zero, most, &overflow, account, wall),
            overflowed,
        }
    }

    /// Records an instance. Errors: its value is no number that the metric can have.
    pub(super) fn record(&self, instance: &Instance<'_>, at: Duration) -> Result<Recorded, String> {
        let refuse = |why: &str| Err(format!("could not record metric {}: {why}", instance.name));
        let value = self.value.and_then(|at| instance.value(at));
        let sample = match value {
            Some(Value::Int64(number)) => Number::Int(number),
            Some(Value::Double(number)) => Number::Double(number),
            Some(Value::Duration(duration)) => Number::Double(duration.nanos as f64 / 1e9),
            Some(other) => {
                return refuse(&format!("could not extract numeric value for {}", brief_text(other)));
            }
            None => return refuse("could not extract numeric value for <nil>"),
        };
        match sample {
            // It would be the value of its series for ever.
            Number::Double(number) if !number.is_finite() => return refuse("its value is not finite"),
            Number::Double(number) if self.kind == MetricKind::Counter && number < 0.0 => {
                return refuse("counter cannot decrease in value");
            }
            Number::Int(number) if self.kind == MetricKind::Counter && number < 0 => {
                return refuse("counter cannot decrease in value");
            }
            _ => {}
        }
        let encode = |out: &mut Vec<u8>| push_dimensions(out, self.field, &self.attributes, instance);
        let recorded = self.series.record(sample, at, encode);
        if recorded == Recorded::Overflow {
            self.overflowed.increment();
        }
        Ok(recorded)
    }

    /// The points of a part of all series.
    pub(super) fn points(self: &Arc<Self>, part: usize, expiry: Option<Duration>) -> Vec<Point> {
        let point = |sampled: super::series::Sampled| Point {
            metric: Arc::clone(self),
            attributes: sampled.attributes,
            values: sampled.point.into(),
        };
        self.series.read(part, expiry).into_iter().map(point).collect()
    }
}
