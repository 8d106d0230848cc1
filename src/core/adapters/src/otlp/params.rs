//! Parameters.

use std::collections::BTreeMap;

use mixer_attribute::SignedDuration;

use crate::full::{self, WhenFull};

mixer_config::message_enum! {
    /// How requests are sent.
    pub enum Protocol: "adapter.otlp.config.Params_Protocol" {
        /// gRPC.
        0 "GRPC" Grpc;
        /// HTTP with protobuf.
        1 "HTTP_PROTOBUF" HttpProtobuf;
    }
}

mixer_config::message_enum! {
    /// Whether requests are compressed.
    pub enum Compression: "adapter.otlp.config.Params_Compression" {
        /// They are not.
        0 "NONE" None;
        /// With gzip.
        1 "GZIP" Gzip;
    }
}

mixer_config::message_enum! {
    /// What the points of counters and distributions count.
    pub enum Temporality: "adapter.otlp.config.Params_Temporality" {
        /// Everything since the series began.
        0 "CUMULATIVE" Cumulative;
        /// What came since the point before.
        1 "DELTA" Delta;
    }
}

mixer_config::message_enum! {
    /// The kind of a metric.
    pub enum MetricKind: "adapter.otlp.config.Params_MetricInfo_Kind" {
        /// Not allowed.
        0 "UNSPECIFIED" Unspecified;
        /// Keeps the last value.
        1 "GAUGE" Gauge;
        /// Sums values.
        2 "COUNTER" Counter;
        /// Counts values in buckets.
        3 "DISTRIBUTION" Distribution;
    }
}

mixer_config::message! {
    /// How an instance becomes a metric.
    pub struct MetricInfo: "adapter.otlp.config.Params_MetricInfo" {
        /// Its kind.
        1 kind: MetricKind = MetricKind::Unspecified;
        /// Its name; by default that of the instance without template and namespace.
        2 name: String = String::new();
        /// For people.
        3 description: String = String::new();
        /// In UCUM, for example `By`; by default `s` for durations, else none.
        4 unit: String = String::new();
        /// Upper bounds of the buckets of a distribution, increasing; by default those of OpenTelemetry for durations in seconds.
        5 bounds: Vec<f64> = Vec::new();
        /// Limit of series; 0: only that of memory.
        6 max_series: u32 = 0;
    }
}

mixer_config::message! {
    /// How an instance becomes a log record.
    pub struct LogInfo: "adapter.otlp.config.Params_LogInfo" {
        /// The variable that is the body; by default there is none.
        1 body: String = String::new();
        /// The variable with the id of the trace, in hexadecimal digits; by default there is none.
        2 trace_id: String = String::new();
        /// The variable with the id of the span, in hexadecimal digits; by default there is none.
        3 span_id: String = String::new();
    }
}

mixer_config::message! {
    /// A token that goes with every request.
    pub struct Authentication: "adapter.otlp.config.Params_Authentication" {
        /// File with the token; read again when it changes.
        1 token_file: String = String::new();
        /// Environment variable with the token, instead of a file.
        2 token_environment: String = String::new();
        /// The header that is the token; by default `authorization: Bearer TOKEN`.
        3 header: String = String::new();
    }
}

mixer_config::message! {
    /// TLS, with `https`.
    pub struct Tls: "adapter.otlp.config.Params_Tls" {
        /// File with the trusted roots, PEM; empty: those of the system.
        1 ca_file: String = String::new();
        /// File with the client certificate, PEM; empty: none.
        2 cert_file: String = String::new();
        /// File with its key, PEM.
        3 key_file: String = String::new();
    }
}

mixer_config::message! {
    /// Parameters of the otlp adapter.
    pub struct Params: "adapter.otlp.config.Params" {
        /// `http://HOST:PORT` or `https://HOST:PORT` of the collector; with HTTP also a path, which `/v1/metrics` and its like follow.
        1 endpoint: String = String::new();
        /// How requests are sent.
        2 protocol: Protocol = Protocol::Grpc;
        /// Metrics by the full names of their instances.
        3 metrics: BTreeMap<String, MetricInfo> = BTreeMap::new();
        /// Log records by the full names of their instances; need not have all.
        4 logs: BTreeMap<String, LogInfo> = BTreeMap::new();
        /// What the points of counters and distributions count.
        5 temporality: Temporality = Temporality::Cumulative;
        /// How often the points of metrics are sent.
        6 export_interval: SignedDuration = SignedDuration::from_secs(60);
        /// Time without a value after which a series ends; 0: never.
        7 metrics_expiry: SignedDuration = SignedDuration::ZERO;
        /// Which part of all traces is sent, by their ids.
        8 sample_probability: f64 = 1.0;
        /// Attributes of the resource, instead of or beside `service.name`, `service.version` and `service.instance.id`.
        9 resource_attributes: BTreeMap<String, String> = BTreeMap::new();
        /// Whether dimensions, variables and tags that are named after attributes of Istio get the names of OpenTelemetry's conventions.
        10 semantic_conventions: bool = true;
        /// Names of attributes by those of dimensions, variables and tags.
        11 attribute_names: BTreeMap<String, String> = BTreeMap::new();
        /// The limit of a request.
        12 timeout: SignedDuration = SignedDuration::from_secs(10);
        /// Headers of every request, which are no secrets.
        13 headers: BTreeMap<String, String> = BTreeMap::new();
        /// A token that goes with every request.
        14 authentication: Option<Authentication> = None;
        /// TLS, with `https`.
        15 tls: Option<Tls> = None;
        /// Size of the queue of each of metrics, logs and spans, in KiB.
        16 queue_kilobytes: u32 = 4096;
        /// Whether requests are compressed.
        17 compression: Compression = Compression::None;
        /// A directory of its own, in which log records and spans are kept while the collector is away; empty: none.
        18 spill_directory: String = String::new();
        /// Most MiB of each of the two in that directory.
        19 spill_megabytes: u32 = 1024;
        /// What happens to log records and spans for which there is no room.
        20 when_full: WhenFull = WhenFull::DropOldest;
        /// How long a report waits for room, with `HOLD`.
        21 hold_timeout: SignedDuration = full::HOLD_TIMEOUT;
    }
}

impl Params {
    /// The URL without what follows it.
    pub(super) fn base(&self) -> &str {
        match (self.endpoint.as_str(), self.protocol) {
            ("", Protocol::Grpc) => "http://localhost:4317",
            ("", Protocol::HttpProtobuf) => "http://localhost:4318",
            (endpoint, _) => endpoint.trim_end_matches('/'),
        }
    }
}
