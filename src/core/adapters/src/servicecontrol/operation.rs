//! Reported operations, and their JSON.

use serde_json::{Map, Value, json};

use mixer_attribute::{SignedDuration, Timestamp, Value as Attribute};
use mixer_delivery::Item;
use mixer_engine::adapter::{BoundInstance, Instance};

use super::codes::of_http;

const METRICS: &str = "serviceruntime.googleapis.com/api/";
const LABELS: &str = "serviceruntime.googleapis.com/";
/// Where servers of meshes are.
const LOCATION: &str = "global";

/// A call on its way to Google.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation {
    /// By which Google knows one that is sent again.
    id: Box<str>,
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
    /// The JSON of a call whose key is that of a project; empty if that is not known.
    pub(super) fn json(&self, project: &str) -> Value {
        let (begin, end) = (self.begin.rfc3339().to_string(), self.end.rfc3339().to_string());
        let mut operation = Map::new();
        if !self.key.is_empty() {
            operation.insert("consumerId".to_owned(), format!("api_key:{}", self.key).into());
        }
        operation.insert("operationId".to_owned(), (*self.id).into());
        operation.insert("operationName".to_owned(), (*self.name).into());
        operation.insert("startTime".to_owned(), begin.as_str().into());
        operation.insert("endTime".to_owned(), end.as_str().into());
        operation.insert("labels".to_owned(), self.labels(project));
        operation.insert("metricValueSets".to_owned(), self.metrics(&begin, &end));
        operation.insert("logEntries".to_owned(), json!([self.log_entry(&begin)]));
        Value::Object(operation)
    }

    fn labels(&self, project: &str) -> Value {
        let project = if project.is_empty() { String::new() } else { format!("project_number:{project}") };
        let mut labels = json!({
            "cloud.googleapis.com/location": LOCATION,
            "/protocol": self.protocol,
            "/response_code": self.status.to_string(),
            "/response_code_class": format!("{}xx", self.status / 100),
            "/status_code": of_http(self.status).to_string(),
        });
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(format!("{LABELS}api_method"), (*self.name).into());
            labels.insert(format!("{LABELS}api_version"), (*self.version).into());
            labels.insert(format!("{LABELS}consumer_project"), project.into());
            if !self.key.is_empty() {
                labels.insert("/credential_id".to_owned(), format!("apiKey:{}", self.key).into());
            }
        }
        labels
    }

    fn metrics(&self, begin: &str, end: &str) -> Value {
        let count = || json!({ "startTime": begin, "endTime": end, "int64Value": "1" });
        let distribution = |shape: &Shape, value: f64| json!({ "startTime": begin, "endTime": end, "distributionValue": shape.distribution(value) });
        let seconds = self.latency.nanos as f64 / 1e9;
        let latency = || distribution(&LATENCIES, seconds);
        let size = distribution(&SIZES, self.request_bytes as f64);
        let set = |name: &str, value: Value| json!({ "metricName": format!("{METRICS}{name}"), "metricValues": [value] });
        json!([
            set("producer/request_count", count()),
            set("producer/backend_latencies", latency()),
            set("producer/request_sizes", size),
            set("producer/by_consumer/request_count", count()),
            set("consumer/request_count", count()),
            set("consumer/backend_latencies", latency()),
        ])
    }

    fn log_entry(&self, begin: &str) -> Value {
        let mut payload = Map::new();
        let mut add = |name: &str, value: Value| {
            let is_empty = value == 0 || value == "";
            if !is_empty {
                payload.insert(name.to_owned(), value);
            }
        };
        add("api_name", (*self.api).into());
        add("api_operation", (*self.name).into());
        add("api_key", (*self.key).into());
        add("http_method", (*self.method).into());
        add("request_size_in_bytes", self.request_bytes.into());
        add("http_response_code", self.status.into());
        add("request_latency_in_ms", (self.latency.nanos / 1_000_000).into());
        add("timestamp", begin.into());
        add("location", LOCATION.into());
        add("log_message", format!("Method:{}", self.name).into());
        match self.status {
            403 => add("error_cause", "AUTH".into()),
            400.. => add("error_cause", "APPLICATION".into()),
            _ => {}
        }
        let severity = if self.status >= 400 { "ERROR" } else { "INFO" };
        json!({ "name": "endpoints_log", "severity": severity, "structPayload": payload, "timestamp": begin })
    }
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

    /// A distribution with one value.
    fn distribution(&self, value: f64) -> Value {
        let mut counts = vec!["0"; self.finite as usize + 2];
        if let Some(count) = counts.get_mut(self.bucket(value)) {
            *count = "1";
        }
        let mut distribution = json!({
            "count": "1",
            "bucketCounts": counts,
            "exponentialBuckets": {
                "numFiniteBuckets": self.finite,
                "growthFactor": self.growth,
                "scale": self.scale,
            },
        });
        if let Some(distribution) = distribution.as_object_mut().filter(|_| value != 0.0) {
            for name in ["minimum", "maximum", "mean"] {
                distribution.insert(name.to_owned(), value.into());
            }
        }
        distribution
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
