//! Metrics: `opentelemetry.proto.metrics.v1`.

use prost::Message;

use crate::common::{KeyValue, field_length, push_bytes, push_head};

/// The field of the attributes of a [`NumberPoint`].
pub const NUMBER_ATTRIBUTES: u32 = 7;
/// The field of the attributes of a [`HistogramPoint`].
pub const HISTOGRAM_ATTRIBUTES: u32 = 9;

/// A value of a sum or of a gauge.
#[derive(Clone, PartialEq, Message)]
pub struct NumberPoint {
    /// With distinct keys. Those that are [pushed](crate::push_attribute) need not be here.
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
    /// Since when values count, since 1970; 0 for gauges.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// When it was taken, since 1970.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// The value.
    #[prost(oneof = "NumberValue", tags = "4, 6")]
    pub value: Option<NumberValue>,
}

/// A number.
#[derive(Clone, Copy, PartialEq, prost::Oneof)]
pub enum NumberValue {
    /// Any number.
    #[prost(double, tag = "4")]
    Double(f64),
    /// A whole number.
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

/// A value of a histogram.
#[derive(Clone, PartialEq, Message)]
pub struct HistogramPoint {
    /// With distinct keys. Those that are [pushed](crate::push_attribute) need not be here.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// Since when values count, since 1970.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// When it was taken, since 1970.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// Number of values.
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    /// Their sum.
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    /// One more than bounds. A bucket has the values up to its bound, and above the one before.
    #[prost(fixed64, repeated, tag = "6")]
    pub bucket_counts: Vec<u64>,
    /// Increasing.
    #[prost(double, repeated, tag = "7")]
    pub explicit_bounds: Vec<f64>,
    /// The least value.
    #[prost(double, optional, tag = "11")]
    pub min: Option<f64>,
    /// The greatest value.
    #[prost(double, optional, tag = "12")]
    pub max: Option<f64>,
}

/// What the values of sums and histograms count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Temporality {
    /// Not known.
    Unspecified = 0,
    /// What came since the value before.
    Delta = 1,
    /// What came since the start.
    Cumulative = 2,
}

/// Name, description and unit of a metric.
#[derive(Clone, PartialEq, Message)]
pub struct MetricHead {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// For people.
    #[prost(string, tag = "2")]
    pub description: String,
    /// In UCUM, for example `By`.
    #[prost(string, tag = "3")]
    pub unit: String,
}

/// The data of a metric, without its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricShape {
    /// The last values; its points are [`NumberPoint`].
    Gauge,
    /// Sums of values that are not negative; its points are [`NumberPoint`].
    Sum(Temporality),
    /// Counts of values; its points are [`HistogramPoint`].
    Histogram(Temporality),
}

/// What follows the points of a sum or of a histogram.
#[derive(Clone, PartialEq, Message)]
struct Tail {
    #[prost(enumeration = "Temporality", tag = "2")]
    temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

impl MetricShape {
    /// Its field in a metric, and what follows its points.
    fn encode(self) -> (u32, Vec<u8>) {
        let tail = |temporality: Temporality, is_monotonic| {
            Tail { temporality: temporality.into(), is_monotonic }.encode_to_vec()
        };
        match self {
            MetricShape::Gauge => (5, Vec::new()),
            MetricShape::Sum(temporality) => (7, tail(temporality, true)),
            MetricShape::Histogram(temporality) => (9, tail(temporality, false)),
        }
    }
}

/// Encodes a metric with encoded points of its shape.
pub fn metric<'p>(
    head: &MetricHead,
    shape: MetricShape,
    points: impl Iterator<Item = &'p [u8]> + Clone,
) -> Vec<u8> {
    let (field, tail) = shape.encode();
    let length = points.clone().map(|point| field_length(1, point.len())).sum::<usize>() + tail.len();
    let mut out = Vec::with_capacity(head.encoded_len() + field_length(field, length));
    head.encode_raw(&mut out);
    push_head(&mut out, field, length);
    for point in points {
        push_bytes(&mut out, 1, point);
    }
    out.extend_from_slice(&tail);
    out
}
