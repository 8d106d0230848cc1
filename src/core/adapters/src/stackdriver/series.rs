//! Series of metrics: values are merged until the next push.

use std::collections::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

use mixer_attribute::{Timestamp, Value};
use mixer_base::budget::{Account, Charge};
use mixer_delivery::Item;
use mixer_engine::adapter::{BoundInstance, Instance};
use parking_lot::Mutex;
use prost::Message as _;

use super::labels::{Labels, ResourceTemplate, label, timestamp};
use super::params::{BucketsDefinition, MetricInfo, MetricKind, MetricValue};
use super::place::Place;
use super::wire::{
    Bounds, BucketOptions, Distribution, ExplicitBounds, ExponentialBounds, Interval, LinearBounds, Metric,
    Number, Point, Resource, TimeSeries, TypedValue,
};
use crate::cut::MAX_BYTES;

/// Parts of the table, each with a lock of its own.
const PARTS: usize = 16;
/// Series of a handler at most, between two pushes.
const MAX_SERIES: usize = 100_000;

/// A series on its way, with one point.
pub(super) struct Pushed {
    pub(super) series: TimeSeries,
    size: usize,
    /// How often it was sent in a request of which Google took other series.
    pub(super) refusals: u32,
}

impl Pushed {
    pub(super) fn new(series: TimeSeries) -> Self {
        let size = size_of::<Self>() + 2 * series.encoded_len();
        Self { series, size, refusals: 0 }
    }

    /// Whether both are of the same series.
    pub(super) fn is_of(&self, other: &TimeSeries) -> bool {
        self.series.metric == other.metric && self.series.resource == other.resource
    }
}

impl Item for Pushed {
    fn size(&self) -> usize {
        self.size
    }
}

/// How instances become points.
pub(super) struct MetricTemplate {
    kind: MetricKind,
    value_type: MetricValue,
    /// At Google.
    name: String,
    buckets: Option<Arc<Bounds>>,
    value: Option<usize>,
    labels: Labels,
    resource: ResourceTemplate,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
enum Merged {
    Number(Number),
    /// Counts of buckets.
    Counts(Vec<i64>),
}

struct Series {
    metric: Metric,
    resource: Resource,
    kind: MetricKind,
    value_type: MetricValue,
    buckets: Option<Arc<Bounds>>,
    start: Timestamp,
    end: Timestamp,
    value: Merged,
    _memory: Charge,
}

/// The series since the last push.
pub(super) struct SeriesTable {
    parts: [Mutex<HashMap<Box<[u8]>, Series>>; PARTS],
    memory: Arc<Account>,
}

impl MetricTemplate {
    pub(super) fn new(info: &MetricInfo, instance: &BoundInstance) -> Self {
        let name = match info.metric_type.as_str() {
            "" => format!("custom.googleapis.com/{}", instance.name),
            name => name.to_owned(),
        };
        let is_distribution = info.value == MetricValue::Distribution;
        Self {
            kind: info.kind,
            value_type: info.value,
            name,
            buckets: info.buckets.as_ref().filter(|_| is_distribution).and_then(bounds).map(Arc::new),
            value: instance.position("value"),
            labels: Labels::new(instance, "dimensions"),
            resource: ResourceTemplate::new(instance),
        }
    }

    /// The value of an instance. Errors: it has none.
    fn value(&self, instance: &Instance<'_>) -> Result<Merged, &'static str> {
        let value = self.value.and_then(|at| instance.value(at)).ok_or("it has no value")?;
        if let Some(bounds) = &self.buckets {
            let number = match value {
                Value::Int64(number) => number as f64,
                Value::Double(number) if number.is_nan() => return Err("its value is not finite"),
                Value::Double(number) => number,
                Value::Duration(duration) => duration.nanos as f64 / 1e6,
                _ => return Err("its value is no number"),
            };
            let mut counts = vec![0; buckets(bounds)];
            if let Some(count) = counts.get_mut(bucket(bounds, number)) {
                *count = 1;
            }
            return Ok(Merged::Counts(counts));
        }
        Ok(Merged::Number(match value {
            Value::Bool(value) => Number::Bool(value),
            Value::Int64(number) if self.value_type == MetricValue::Double => Number::Double(number as f64),
            Value::Int64(number) => Number::Int(number),
            // It would be the sum of its series, which Google does not take.
            Value::Double(number) if !number.is_finite() => return Err("its value is not finite"),
            Value::Double(number) => Number::Double(number),
            Value::Duration(duration) => Number::Int(duration.nanos / 1000),
            Value::Timestamp(time) => {
                Number::Int(i64::try_from(time.unix_nanos().div_euclid(1000)).unwrap_or(i64::MAX))
            }
            other => Number::Text(label(Some(other))),
        }))
    }
}

impl SeriesTable {
    pub(super) fn new(memory: Arc<Account>) -> Self {
        Self { parts: Default::default(), memory }
    }

    /// Adds the value of an instance to its series. Errors: it has none, or there is no room for a new series.
    pub(super) fn add(
        &self,
        template: &MetricTemplate,
        instance: &Instance<'_>,
        place: &Place,
        now: Timestamp,
    ) -> Result<(), &'static str> {
        let value = template.value(instance)?;
        let resource = template.resource.resource(instance, place).unwrap_or_else(|| Resource {
            kind: "global".to_owned(),
            labels: BTreeMap::from([("project_id".to_owned(), place.project.clone())]),
        });
        let metric = Metric { kind: template.name.clone(), labels: template.labels.read(instance) };
        let mut key = metric.encode_length_delimited_to_vec();
        key.extend(resource.encode_to_vec());
        // A point has a moment between its begin and its end.
        let end = later(now);
        let hash =
            key.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
        let Some(part) = self.parts.get(hash % PARTS) else { return Ok(()) };
        let mut part = part.lock();
        let count = part.len();
        match part.entry(key.into()) {
            Entry::Occupied(mut found) => found.get_mut().merge(value, now, end),
            Entry::Vacant(vacant) => {
                let bytes = 3 * vacant.key().len() + size_of::<Series>() + value.bytes();
                let memory = self.memory.charge(bytes).filter(|_| count < MAX_SERIES / PARTS);
                let memory = memory.ok_or("there is no room for a new series before the next push")?;
                vacant.insert(Series {
                    metric,
                    resource,
                    kind: template.kind,
                    value_type: template.value_type,
                    buckets: template.buckets.clone(),
                    start: now,
                    end,
                    value,
                    _memory: memory,
                });
            }
        }
        Ok(())
    }

    /// Number of series.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.lock().len()).sum()
    }

    /// Takes all series since the last time, a part of the table at a time.
    pub(super) fn take(&self) -> impl Iterator<Item = Vec<Pushed>> {
        self.parts.iter().map(|part| {
            let part = std::mem::take(&mut *part.lock());
            part.into_values().map(|series| Pushed::new(series.message())).collect()
        })
    }
}

fn later(time: Timestamp) -> Timestamp {
    match time.nanos + 1000 {
        nanos if nanos < 1_000_000_000 => Timestamp { nanos, ..time },
        nanos => Timestamp { seconds: time.seconds + 1, nanos: nanos - 1_000_000_000 },
    }
}

impl Merged {
    /// What it takes besides its place in a series, whatever follows.
    fn bytes(&self) -> usize {
        match self {
            Merged::Counts(counts) => size_of_val(&counts[..]),
            Merged::Number(Number::Text(_)) => MAX_BYTES,
            Merged::Number(_) => 0,
        }
    }
}

impl Series {
    fn merge(&mut self, value: Merged, start: Timestamp, end: Timestamp) {
        let is_sum = self.kind != MetricKind::Gauge;
        let is_last = match (&mut self.value, &value) {
            (Merged::Counts(counts), Merged::Counts(more)) => {
                for (count, more) in counts.iter_mut().zip(more) {
                    *count = count.saturating_add(*more);
                }
                false
            }
            (Merged::Number(Number::Int(sum)), Merged::Number(Number::Int(more))) if is_sum => {
                *sum = sum.saturating_add(*more);
                false
            }
            (Merged::Number(Number::Double(sum)), Merged::Number(Number::Double(more))) if is_sum => {
                *sum += more;
                false
            }
            // The last one counts: of gauges, and of what has no sum.
            _ => true,
        };
        if is_last {
            (self.value, self.start, self.end) = (value, start, end);
        } else {
            self.start = self.start.min(start);
            self.end = self.end.max(end);
        }
    }

    fn message(self) -> TimeSeries {
        let value = match self.value {
            Merged::Number(number) => number,
            Merged::Counts(counts) => Number::Distribution(Distribution {
                count: counts.iter().sum(),
                buckets: Some(BucketOptions { bounds: self.buckets.as_deref().cloned() }),
                counts,
            }),
        };
        let interval = Interval { start: Some(timestamp(self.start)), end: Some(timestamp(self.end)) };
        let point = Point { interval: Some(interval), value: Some(TypedValue { value: Some(value) }) };
        TimeSeries {
            metric: Some(self.metric),
            resource: Some(self.resource),
            metric_kind: self.kind as i32,
            value_type: self.value_type as i32,
            points: vec![point],
        }
    }
}

/// The bounds as they are sent; `None` for none, which was a problem of the parameters.
fn bounds(buckets: &BucketsDefinition) -> Option<Bounds> {
    let linear = buckets.linear_buckets.as_ref().map(|of| {
        Bounds::Linear(LinearBounds { finite: of.num_finite_buckets, width: of.width, offset: of.offset })
    });
    let exponential = || {
        buckets.exponential_buckets.as_ref().map(|of| {
            let finite = of.num_finite_buckets;
            Bounds::Exponential(ExponentialBounds { finite, growth: of.growth_factor, scale: of.scale })
        })
    };
    let explicit = || {
        let of = buckets.explicit_buckets.as_ref()?;
        Some(Bounds::Explicit(ExplicitBounds { bounds: of.bounds.clone() }))
    };
    linear.or_else(exponential).or_else(explicit)
}

/// Number of buckets, with those below and above all bounds.
fn buckets(bounds: &Bounds) -> usize {
    match bounds {
        Bounds::Linear(of) => usize::try_from(of.finite).unwrap_or(0) + 2,
        Bounds::Exponential(of) => usize::try_from(of.finite).unwrap_or(0) + 2,
        Bounds::Explicit(of) => of.bounds.len() + 1,
    }
}

/// The index of the bucket with a value.
fn bucket(bounds: &Bounds, value: f64) -> usize {
    let finite = |finite: i32| usize::try_from(finite).unwrap_or(0);
    match bounds {
        Bounds::Linear(of) if value >= of.offset => {
            // A conversion of floating-point numbers saturates.
            (((value - of.offset) / of.width).floor() as usize).saturating_add(1).min(finite(of.finite) + 1)
        }
        Bounds::Exponential(of) if value >= of.scale => {
            // As many bounds as are at or below the value: no logarithm is off by one at a bound.
            let upper = (1..=finite(of.finite)).scan(of.scale, |bound, _| {
                *bound *= of.growth;
                Some(*bound)
            });
            1 + upper.take_while(|bound| *bound <= value).count()
        }
        Bounds::Linear(_) | Bounds::Exponential(_) => 0,
        Bounds::Explicit(of) => of.bounds.partition_point(|bound| *bound <= value),
    }
}

#[cfg(test)]
mod tests {
    use mixer_attribute::ValueType;
    use mixer_base::budget::Share;
    use mixer_engine::adapter::Leaf;

    use super::super::params::ExplicitBuckets;
    use super::*;
    use crate::testing::{bound, instance};

    fn template(value: MetricValue, bounds: usize) -> MetricTemplate {
        let mut instance = bound("m.instance.ns", "metric", "dimensions", &[]);
        instance.leaves = [Leaf::new("value", None, ValueType::Double)].into();
        let explicit_buckets =
            Some(ExplicitBuckets { bounds: (0..bounds).map(|bound| bound as f64).collect() });
        let buckets = Some(BucketsDefinition { explicit_buckets, ..BucketsDefinition::default() });
        MetricTemplate::new(
            &MetricInfo { kind: MetricKind::Delta, value, buckets, ..MetricInfo::default() },
            &instance,
        )
    }

    #[test]
    fn the_buckets_of_a_series_take_memory() {
        let share = Arc::new(Share::new(1 << 20));
        let table = SeriesTable::new(Arc::new(share.open()));
        let values = [Some(Value::Double(1.0))];
        let add = |template: &MetricTemplate| {
            table.add(
                template,
                &instance("m.instance.ns", &values),
                &Place::default(),
                Timestamp { seconds: 1, nanos: 0 },
            )
        };
        add(&template(MetricValue::Distribution, 200)).unwrap();
        assert!(share.used() > 201 * size_of::<i64>(), "{}", share.used());
        assert_eq!(table.take().map(|part| part.len()).sum::<usize>(), 1);
        assert_eq!(share.used(), 0);
    }

    #[test]
    fn a_value_that_is_not_finite_does_not_spoil_its_series() {
        let table = SeriesTable::new(Arc::new(Arc::new(Share::new(1 << 20)).open()));
        for value in [MetricValue::Double, MetricValue::Distribution] {
            let values = [Some(Value::Double(f64::NAN))];
            let at = Timestamp { seconds: 1, nanos: 0 };
            let added =
                table.add(&template(value, 1), &instance("m.instance.ns", &values), &Place::default(), at);
            assert_eq!(added, Err("its value is not finite"));
        }
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn values_go_to_their_buckets() {
        let linear = Bounds::Linear(LinearBounds { finite: 3, width: 10.0, offset: 5.0 });
        let exponential = Bounds::Exponential(ExponentialBounds { finite: 3, growth: 2.0, scale: 1.0 });
        let explicit = Bounds::Explicit(ExplicitBounds { bounds: vec![0.0, 1.0, 5.0, 10.0] });
        let one = Bounds::Explicit(ExplicitBounds { bounds: vec![1.0] });
        for (bounds, value, index) in [
            (&linear, 4.9, 0),
            (&linear, 5.0, 1),
            (&linear, 14.9, 1),
            (&linear, 15.0, 2),
            (&linear, 35.0, 4),
            (&linear, 1e300, 4),
            (&linear, f64::NAN, 0),
            (&exponential, 0.9, 0),
            (&exponential, 1.0, 1),
            (&exponential, 7.0, 3),
            (&exponential, 8.0, 4),
            (&explicit, -1.0, 0),
            (&explicit, 0.0, 1),
            (&explicit, 5.0, 3),
            (&explicit, 10.0, 4),
            (&one, 0.0, 0),
            (&one, 1.0, 1),
        ] {
            assert_eq!(bucket(bounds, value), index, "{value} in {bounds:?}");
            assert!(index < buckets(bounds));
        }
    }
}
