//! Reported operations, and their JSON.

use serde::{Serialize, Serializer};

use mixer_attribute::{SignedDuration, Timestamp, Value as Attribute};
use mixer_delivery::Item;
use mixer_engine::adapter::{BoundInstance, Instance};

use super::codes::of_http;

/// Where servers of meshes are.
const LOCATION: &str = "global";

/// A call on its way to Google.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation {
    /// By which Google knows one that is sent again.
    pub(super) id: Box<str>,
    /// The index of its service.
    pub(super) service: usize,
    pub(super) key: Box<str>,
    pub(super) name: Box<str>,
    version: Box<str>,
    protocol: Box<str>,
    /// In the mesh.
    api: Box<str>,
    method: Box<str>,
    begin: Timestamp,
    end: Timestamp,
    status: i64,
    request_bytes: i64,
    latency: SignedDuration,
}

impl Item for Operation {
    fn size(&self) -> usize {
        let texts = [&self.id, &self.key, &self.name, &self.version, &self.protocol, &self.api, &self.method];
        size_of::<Self>() + texts.iter().map(|text| text.len()).sum::<usize>()
    }
}

/// Where the values of an instance are.
pub(super) struct OperationTemplate {
    api_version: Option<usize>,
    api_operation: Option<usize>,
    api_protocol: Option<usize>,
    api_service: Option<usize>,
    api_key: Option<usize>,
    request_time: Option<usize>,
    request_method: Option<usize>,
    request_bytes: Option<usize>,
    response_time: Option<usize>,
    response_code: Option<usize>,
    response_latency: Option<usize>,
}

/// The text of a value; empty if it is none.
pub(super) fn text_at(instance: &Instance<'_>, at: Option<usize>) -> String {
    match at.and_then(|at| instance.value(at)) {
        Some(Attribute::String(text)) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    }
}

impl OperationTemplate {
    pub(super) fn new(instance: &BoundInstance) -> Self {
        let at = |field: &str| instance.position(field);
        Self {
            api_version: at("api_version"),
            api_operation: at("api_operation"),
            api_protocol: at("api_protocol"),
            api_service: at("api_service"),
            api_key: at("api_key"),
            request_time: at("request_time"),
            request_method: at("request_method"),
            request_bytes: at("request_bytes"),
            response_time: at("response_time"),
            response_code: at("response_code"),
            response_latency: at("response_latency"),
        }
    }

    /// The service in the mesh.
    pub(super) fn service(&self, instance: &Instance<'_>) -> String {
        text_at(instance, self.api_service)
    }

    /// The call of an instance, of the service with this index. A time that is not there is that of the report.
    pub(super) fn operation(&self, instance: &Instance<'_>, service: usize, now: Timestamp) -> Operation {
        let text = |at: Option<usize>| text_at(instance, at).into_boxed_str();
        let number = |at: Option<usize>| match at.and_then(|at| instance.value(at)) {
            Some(Attribute::Int64(number)) => number,
            _ => 0,
        };
        let time = |at: Option<usize>| match at.and_then(|at| instance.value(at)) {
            Some(Attribute::Timestamp(time)) => time,
            _ => now,
        };
        let latency = match self.response_latency.and_then(|at| instance.value(at)) {
            Some(Attribute::Duration(latency)) => latency,
            _ => SignedDuration::ZERO,
        };
        Operation {
            id: crate::uuid::random().into(),
            service,
            key: text(self.api_key),
            name: text(self.api_operation),
            version: text(self.api_version),
            protocol: text(self.api_protocol),
            api: text(self.api_service),
            method: text(self.request_method),
            begin: time(self.request_time),
            end: time(self.response_time),
            status: number(self.response_code),
            request_bytes: number(self.request_bytes),
            latency,
        }
    }
}

impl Operation {
    /// Adds the JSON of a call whose key is that of a project, empty if that is not known, to a text. It is written as it goes: as a tree it
    /// would take hundreds of allocations, on a thread that serves calls.
    pub(super) fn write(&self, project: &str, into: &mut Vec<u8>) {
        let (begin, end) = (self.begin.rfc3339().to_string(), self.end.rfc3339().to_string());
        let json = OperationJson {
            consumer_id: self.key_as("api_key"),
            operation_id: &self.id,
            operation_name: &self.name,
            start_time: &begin,
            end_time: &end,
            labels: self.labels(project),
            metric_value_sets: self.metrics(&begin, &end),
            log_entries: [self.log_entry(&begin)],
        };
        // Neither a Vec nor these types fail.
        let _ = serde_json::to_writer(into, &json);
    }

    /// The key after a kind of name; `None` without a key.
    fn key_as(&self, kind: &str) -> Option<String> {
        (!self.key.is_empty()).then(|| format!("{kind}:{}", self.key))
    }

    fn labels(&self, project: &str) -> Labels<'_> {
        let project = if project.is_empty() { String::new() } else { format!("project_number:{project}") };
        Labels {
            location: LOCATION,
            protocol: &self.protocol,
            response_code: self.status.to_string(),
            response_code_class: format!("{}xx", self.status / 100),
            status_code: of_http(self.status).to_string(),
            api_method: &self.name,
            api_version: &self.version,
            consumer_project: project,
            credential_id: self.key_as("apiKey"),
        }
    }

    fn metrics<'t>(&self, start_time: &'t str, end_time: &'t str) -> [MetricValueSet<'t>; 6] {
        let set = |metric_name, int64_value, distribution_value| MetricValueSet {
            metric_name,
            metric_values: [MetricValue { start_time, end_time, int64_value, distribution_value }],
        };
        let count = |name| set(name, Some("1"), None);
        let distribution = |name, shape, value| set(name, None, Some(Distribution::of_one(shape, value)));
        let seconds = self.latency.nanos as f64 / 1e9;
        [
            count("serviceruntime.googleapis.com/api/producer/request_count"),
            distribution("serviceruntime.googleapis.com/api/producer/backend_latencies", &LATENCIES, seconds),
            distribution(
                "serviceruntime.googleapis.com/api/producer/request_sizes",
                &SIZES,
                self.request_bytes as f64,
            ),
            count("serviceruntime.googleapis.com/api/producer/by_consumer/request_count"),
            count("serviceruntime.googleapis.com/api/consumer/request_count"),
            distribution("serviceruntime.googleapis.com/api/consumer/backend_latencies", &LATENCIES, seconds),
        ]
    }

    fn log_entry<'s>(&'s self, begin: &'s str) -> LogEntry<'s> {
        let number = |value: i64| (value != 0).then_some(value);
        LogEntry {
            name: "endpoints_log",
            severity: if self.status >= 400 { "ERROR" } else { "INFO" },
            struct_payload: Payload {
                api_name: &self.api,
                api_operation: &self.name,
                api_key: &self.key,
                http_method: &self.method,
                request_size_in_bytes: number(self.request_bytes),
                http_response_code: number(self.status),
                request_latency_in_ms: number(self.latency.nanos / 1_000_000),
                timestamp: begin,
                location: LOCATION,
                log_message: format!("Method:{}", self.name),
                error_cause: match self.status {
                    403 => "AUTH",
                    400.. => "APPLICATION",
                    _ => "",
                },
            },
            timestamp: begin,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OperationJson<'o> {
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer_id: Option<String>,
    operation_id: &'o str,
    operation_name: &'o str,
    start_time: &'o str,
    end_time: &'o str,
    labels: Labels<'o>,
    metric_value_sets: [MetricValueSet<'o>; 6],
    log_entries: [LogEntry<'o>; 1],
}

#[derive(Serialize)]
struct Labels<'o> {
    #[serde(rename = "cloud.googleapis.com/location")]
    location: &'static str,
    #[serde(rename = "/protocol")]
    protocol: &'o str,
    #[serde(rename = "/response_code")]
    response_code: String,
    #[serde(rename = "/response_code_class")]
    response_code_class: String,
    #[serde(rename = "/status_code")]
    status_code: String,
    #[serde(rename = "serviceruntime.googleapis.com/api_method")]
    api_method: &'o str,
    #[serde(rename = "serviceruntime.googleapis.com/api_version")]
    api_version: &'o str,
    #[serde(rename = "serviceruntime.googleapis.com/consumer_project")]
    consumer_project: String,
    #[serde(rename = "/credential_id", skip_serializing_if = "Option::is_none")]
    credential_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetricValueSet<'o> {
    metric_name: &'static str,
    metric_values: [MetricValue<'o>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetricValue<'o> {
    start_time: &'o str,
    end_time: &'o str,
    #[serde(skip_serializing_if = "Option::is_none")]
    int64_value: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distribution_value: Option<Distribution>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogEntry<'o> {
    name: &'static str,
    severity: &'static str,
    struct_payload: Payload<'o>,
    timestamp: &'o str,
}

/// What is empty or 0 is left out.
#[derive(Serialize)]
struct Payload<'o> {
    #[serde(skip_serializing_if = "str::is_empty")]
    api_name: &'o str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_operation: &'o str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_key: &'o str,
    #[serde(skip_serializing_if = "str::is_empty")]
    http_method: &'o str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_size_in_bytes: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_response_code: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_latency_in_ms: Option<i64>,
    timestamp: &'o str,
    location: &'static str,
    log_message: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    error_cause: &'static str,
}

/// Exponential buckets.
struct Shape {
    finite: u32,
    growth: f64,
    scale: f64,
}

const SIZES: Shape = Shape { finite: 8, growth: 10.0, scale: 1.0 };
const LATENCIES: Shape = Shape { finite: 29, growth: 2.0, scale: 1e-6 };

impl Shape {
    /// The index of the bucket with a value: 0 below the scale, the last above all.
    fn bucket(&self, value: f64) -> usize {
        if value < self.scale || value.is_nan() {
            return 0;
        }
        let index = 1.0 + ((value / self.scale).ln() / self.growth.ln()).floor();
        // A conversion of floating-point numbers saturates.
        (index as usize).min(self.finite as usize + 1)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Distribution {
    count: &'static str,
    bucket_counts: BucketCounts,
    exponential_buckets: ExponentialBuckets,
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maximum: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExponentialBuckets {
    num_finite_buckets: u32,
    growth_factor: f64,
    scale: f64,
}

impl Distribution {
    /// Of one value.
    fn of_one(shape: &Shape, value: f64) -> Self {
        let &Shape { finite, growth, scale } = shape;
        let statistic = (value != 0.0).then_some(value);
        Self {
            count: "1",
            bucket_counts: BucketCounts { buckets: finite as usize + 2, of_value: shape.bucket(value) },
            exponential_buckets: ExponentialBuckets {
                num_finite_buckets: finite,
                growth_factor: growth,
                scale,
            },
            minimum: statistic,
            maximum: statistic,
            mean: statistic,
        }
    }
}

/// The counts of buckets of which one has a value.
struct BucketCounts {
    buckets: usize,
    of_value: usize,
}

impl Serialize for BucketCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq((0..self.buckets).map(|bucket| if bucket == self.of_value { "1" } else { "0" }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_to_their_buckets() {
        for (shape, value, bucket) in [
            (&SIZES, 0.0, 0),
            (&SIZES, 1.0, 1),
            (&SIZES, 1500.0, 4),
            (&SIZES, 1e300, 9),
            (&SIZES, -1.0, 0),
            (&LATENCIES, 0.123456, 17),
            (&LATENCIES, f64::INFINITY, 30),
            (&LATENCIES, f64::NAN, 0),
        ] {
            assert_eq!(shape.bucket(value), bucket, "{value}");
        }
    }
}
