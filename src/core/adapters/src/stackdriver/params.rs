//! Parameters.

use std::collections::BTreeMap;

use mixer_attribute::SignedDuration;

use crate::full::{self, WhenFull};

mixer_config::message_enum! {
    /// What the values of a metric are about.
    pub enum MetricKind: "google.api.MetricDescriptor_MetricKind" {
        /// Not said.
        0 "METRIC_KIND_UNSPECIFIED" Unspecified;
        /// A moment.
        1 "GAUGE" Gauge;
        /// What came since the point before.
        2 "DELTA" Delta;
        /// Everything since a time.
        3 "CUMULATIVE" Cumulative;
    }
}

mixer_config::message_enum! {
    /// The type of the values of a metric.
    pub enum MetricValue: "google.api.MetricDescriptor_ValueType" {
        /// Not said.
        0 "VALUE_TYPE_UNSPECIFIED" Unspecified;
        /// Booleans.
        1 "BOOL" Bool;
        /// Whole numbers.
        2 "INT64" Int64;
        /// Numbers.
        3 "DOUBLE" Double;
        /// Texts.
        4 "STRING" String;
        /// Counts in buckets.
        5 "DISTRIBUTION" Distribution;
        /// Amounts of money.
        6 "MONEY" Money;
    }
}

crate::buckets::buckets_messages! {
    "adapter.stackdriver.config.Params_MetricInfo_BucketsDefinition",
    "adapter.stackdriver.config.Params_MetricInfo_BucketsDefinition_Linear",
    "adapter.stackdriver.config.Params_MetricInfo_BucketsDefinition_Exponential",
    "adapter.stackdriver.config.Params_MetricInfo_BucketsDefinition_Explicit"
}

mixer_config::message! {
    /// How an instance becomes a metric.
    pub struct MetricInfo: "adapter.stackdriver.config.Params_MetricInfo" {
        /// What its values are about.
        1 kind: MetricKind = MetricKind::Unspecified;
        /// Their type.
        2 value: MetricValue = MetricValue::Unspecified;
        /// The buckets of a distribution.
        3 buckets: Option<BucketsDefinition> = None;
        /// Its type at Google; empty: `custom.googleapis.com/` and the full name of the instance.
        4 metric_type: String = String::new();
    }
}

mixer_config::message! {
    /// Which variables describe an HTTP request.
    pub struct HttpMapping: "adapter.stackdriver.config.Params_LogInfo_HttpRequestMapping" {
        /// Status.
        1 status: String = String::new();
        /// Bytes of the request.
        2 request_size: String = String::new();
        /// Bytes of the response.
        3 response_size: String = String::new();
        /// Time that it took.
        4 latency: String = String::new();
        /// Address of the server.
        5 local_ip: String = String::new();
        /// Address of the client.
        6 remote_ip: String = String::new();
        /// URL.
        7 url: String = String::new();
        /// Method.
        8 method: String = String::new();
        /// User agent.
        9 user_agent: String = String::new();
        /// Referer.
        10 referer: String = String::new();
    }
}

mixer_config::message! {
    /// Where Google exports entries to.
    pub struct SinkInfo: "adapter.stackdriver.config.Params_LogInfo_SinkInfo" {
        /// The id of the sink.
        1 id: String = String::new();
        /// Its destination.
        2 destination: String = String::new();
        /// Which entries are exported.
        3 filter: String = String::new();
        /// Whether the sink has a service account of its own.
        4 unique_writer_identity as "UniqueWriterIdentity": bool = false;
        /// Whether the destination of a sink that is there is changed.
        5 update_destination as "UpdateDestination": bool = false;
        /// Whether its filter is changed.
        6 update_filter as "UpdateFilter": bool = false;
        /// Whether it is told about children.
        7 update_include_children as "UpdateIncludeChildren": bool = false;
    }
}

mixer_config::message! {
    /// How an instance becomes a log entry.
    pub struct LogInfo: "adapter.stackdriver.config.Params_LogInfo" {
        /// Variables that are labels.
        1 label_names: Vec<String> = Vec::new();
        /// A template for the text, from the variables.
        2 payload_template: String = String::new();
        /// Which variables describe an HTTP request; by default there is none.
        3 http_mapping: Option<HttpMapping> = None;
        /// A sink that is created with the handler; by default none is.
        4 sink_info: Option<SinkInfo> = None;
    }
}

mixer_config::message! {
    /// Spans.
    pub struct Trace: "adapter.stackdriver.config.Params_Trace" {
        /// Which part of all traces is sent, by their ids; 0: none.
        1 sample_probability: f64 = 0.0;
    }
}

mixer_config::message! {
    /// Parameters of the stackdriver adapter.
    pub struct Params: "adapter.stackdriver.config.Params" {
        /// `HOST:PORT` of all services; empty: the public ones.
        1 endpoint: String = String::new();
        /// The project; empty: that of the metadata server.
        2 project_id: String = String::new();
        /// How often the points of metrics are sent; 0: 1 min.
        3 push_interval: SignedDuration = SignedDuration::ZERO;
        /// Whether application default credentials are used, as without any of the three.
        4 app_credentials: bool = false;
        /// Not supported by these services.
        5 api_key: String = String::new();
        /// The key file of a service account; read again when it changes.
        6 service_account_path: String = String::new();
        /// Metrics by the full names of their instances.
        8 metric_info: BTreeMap<String, MetricInfo> = BTreeMap::new();
        /// Log entries by the full names of their instances.
        9 log_info: BTreeMap<String, LogInfo> = BTreeMap::new();
        /// Spans; by default none is sent.
        10 trace: Option<Trace> = None;
        /// The URL that gives access tokens; empty: that of the key file. Not in Istio Mixer, as all that follow.
        1000 token_endpoint: String = String::new();
        /// The URL of the metadata server; empty: `GCE_METADATA_HOST`, or the usual one.
        1001 metadata_endpoint: String = String::new();
        /// File with the trusted roots, PEM; empty: those of the system.
        1002 ca_file: String = String::new();
        /// The limit of a request.
        1003 timeout: SignedDuration = SignedDuration::from_secs(30);
        /// Size of the queue of each of metrics, log entries, spans and edges, in KiB.
        1004 queue_kilobytes: u32 = 4096;
        /// How often new entities and edges are sent.
        1005 graph_interval: SignedDuration = SignedDuration::from_secs(30);
        /// What happens to log entries and spans for which there is no room.
        1006 when_full: WhenFull = WhenFull::DropOldest;
        /// How long a report waits for room, with `HOLD`.
        1007 hold_timeout: SignedDuration = full::HOLD_TIMEOUT;
    }
}
