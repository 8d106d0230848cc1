//! Requests and their answers: `opentelemetry.proto.collector`.

use prost::Message;

use crate::common::{AnyValueKind, KeyValue, field_length, push_bytes, push_head};

/// What is exported; each has a service of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Signal {
    /// Metrics.
    Metrics,
    /// Log records.
    Logs,
    /// Spans.
    Traces,
}

impl Signal {
    /// Its name, as in paths and settings.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Metrics => "metrics",
            Signal::Logs => "logs",
            Signal::Traces => "traces",
        }
    }

    /// The path of its requests over HTTP.
    pub fn path(self) -> &'static str {
        match self {
            Signal::Metrics => "/v1/metrics",
            Signal::Logs => "/v1/logs",
            Signal::Traces => "/v1/traces",
        }
    }

    /// The path of its method of gRPC.
    pub fn method(self) -> &'static str {
        match self {
            Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
            Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        }
    }
}

/// What items belong to, encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource(Vec<u8>);

#[derive(Clone, PartialEq, Message)]
struct ResourceMessage {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

impl Resource {
    /// A resource with these attributes, whose names are distinct.
    pub fn new<K: Into<String>>(attributes: impl IntoIterator<Item = (K, AnyValueKind)>) -> Self {
        let attributes = attributes.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect();
        Self(ResourceMessage { attributes }.encode_to_vec())
    }
}

/// An `Export…ServiceRequest`: the three have one structure.
#[derive(Debug, Default)]
pub struct Request {
    out: Vec<u8>,
}

impl Request {
    /// Adds encoded items (spans, log records or metrics) of a resource. Their scope is `mixer` with its version.
    pub fn add<'i>(
        &mut self,
        resource: &Resource,
        items: impl IntoIterator<Item = &'i [u8], IntoIter: Clone>,
    ) {
        let items = items.into_iter();
        let scope =
            Scope { name: "mixer".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }.encode_to_vec();
        let of_items: usize = items.clone().map(|item| field_length(2, item.len())).sum();
        let of_scope = field_length(1, scope.len()) + of_items;
        let length = field_length(1, resource.0.len()) + field_length(2, of_scope);
        self.out.reserve(field_length(1, length));
        push_head(&mut self.out, 1, length);
        push_bytes(&mut self.out, 1, &resource.0);
        push_head(&mut self.out, 2, of_scope);
        push_bytes(&mut self.out, 1, &scope);
        for item in items {
            push_bytes(&mut self.out, 2, item);
        }
    }

    /// The encoded request.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }
}

/// An `Export…ServiceResponse`: the three have one structure.
#[derive(Clone, PartialEq, Message)]
pub struct ExportResponse {
    /// Set if the collector did not take everything, or has a warning.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// What a collector did not take. It is not to be sent again.
#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    /// Number of points, log records or spans.
    #[prost(int64, tag = "1")]
    pub rejected: i64,
    /// Why; with nothing rejected, a warning.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{
        HistogramPoint, MetricHead, MetricShape, NumberPoint, NumberValue, Temporality, metric,
    };

    #[derive(Clone, PartialEq, Message)]
    struct Decoded {
        #[prost(message, repeated, tag = "1")]
        resources: Vec<OfResource>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct OfResource {
        #[prost(message, optional, tag = "1")]
        resource: Option<ResourceMessage>,
        #[prost(message, repeated, tag = "2")]
        scopes: Vec<OfScope>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct OfScope {
        #[prost(message, optional, tag = "1")]
        scope: Option<Scope>,
        #[prost(message, repeated, tag = "2")]
        items: Vec<Metric>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Metric {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(string, tag = "3")]
        unit: String,
        #[prost(message, optional, tag = "5")]
        gauge: Option<Numbers>,
        #[prost(message, optional, tag = "7")]
        sum: Option<Numbers>,
        #[prost(message, optional, tag = "9")]
        histogram: Option<Histogram>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Numbers {
        #[prost(message, repeated, tag = "1")]
        points: Vec<NumberPoint>,
        #[prost(int32, tag = "2")]
        temporality: i32,
        #[prost(bool, tag = "3")]
        is_monotonic: bool,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Histogram {
        #[prost(message, repeated, tag = "1")]
        points: Vec<HistogramPoint>,
        #[prost(int32, tag = "2")]
        temporality: i32,
    }

    #[test]
    fn a_request_decodes_to_what_was_added() {
        let number =
            NumberPoint { time_unix_nano: 5, value: Some(NumberValue::Int(-3)), ..NumberPoint::default() };
        let spread = HistogramPoint {
            count: 2,
            sum: Some(7.5),
            bucket_counts: vec![1, 1],
            ..HistogramPoint::default()
        };
        let head = MetricHead { name: "m".repeat(200), unit: "By".to_owned(), ..MetricHead::default() };
        let (a, b) = (number.encode_to_vec(), spread.encode_to_vec());
        let numbers = |count| std::iter::repeat_n(a.as_slice(), count);
        let metrics = [
            metric(&head, MetricShape::Gauge, numbers(1)),
            metric(&head, MetricShape::Sum(Temporality::Cumulative), numbers(100)),
            metric(&head, MetricShape::Histogram(Temporality::Delta), [b.as_slice()].into_iter()),
        ];
        let mut request = Request::default();
        request.add(&Resource::new([("service.name", "a".into())]), metrics.iter().map(Vec::as_slice));
        request.add(&Resource::new([("service.name", "b".into())]), []);
        let decoded = Decoded::decode(&*request.into_bytes()).unwrap();
        let [first, second] = &decoded.resources[..] else { panic!("{decoded:?}") };
        let named = |of: &OfResource| of.resource.clone().unwrap().attributes;
        assert_eq!(named(first), [KeyValue::new("service.name", "a")]);
        assert_eq!(named(second), [KeyValue::new("service.name", "b")]);
        assert_eq!(first.scopes[0].scope.as_ref().unwrap().name, "mixer");
        let [gauge, sum, histogram] = &first.scopes[0].items[..] else { panic!("{decoded:?}") };
        assert_eq!(gauge.gauge, Some(Numbers { points: vec![number.clone()], ..Numbers::default() }));
        assert_eq!(sum.sum, Some(Numbers { points: vec![number; 100], temporality: 2, is_monotonic: true }));
        assert_eq!(histogram.histogram, Some(Histogram { points: vec![spread], temporality: 1 }));
        assert!([gauge, sum, histogram].iter().all(|metric| metric.name == head.name && metric.unit == "By"));
    }
}
