//! Parameters. They are those of Istio Mixer 1.3.

use mixer_attribute::SignedDuration;

mixer_config::message_enum! {
    /// The kind of a metric.
    pub enum MetricKind: "adapter.prometheus.config.Params_MetricInfo_Kind" {
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

// If several are given, the last one applies.
crate::buckets::buckets_messages! {
    "adapter.prometheus.config.Params.MetricInfo.BucketsDefinition",
    "adapter.prometheus.config.Params.MetricInfo.BucketsDefinition.Linear",
    "adapter.prometheus.config.Params.MetricInfo.BucketsDefinition.Exponential",
    "adapter.prometheus.config.Params.MetricInfo.BucketsDefinition.Explicit"
}

mixer_config::message! {
    /// A metric and its instance.
    pub struct MetricInfo: "adapter.prometheus.config.Params.MetricInfo" {
        /// Its name; by default that of the instance.
        1 name: String = String::new();
        /// The full name of the instance.
        2 instance_name: String = String::new();
        /// Help text; by default the name.
        3 description: String = String::new();
        /// Its kind.
        4 kind: MetricKind = MetricKind::Unspecified;
        /// For distributions.
        5 buckets: Option<BucketsDefinition> = None;
        /// The names of the dimensions.
        6 label_names: Vec<String> = Vec::new();
        /// First part of the full name; by default `istio`.
        7 namespace: String = String::new();
        /// Limit of series; 0 means 500000, a negative number no limit but that of memory. Samples beyond the limits are dropped and
        /// counted. Not in Istio Mixer.
        8 max_series: i32 = 0;
    }
}

mixer_config::message! {
    /// When idle series are removed.
    pub struct MetricsExpirationPolicy: "adapter.prometheus.config.Params.MetricsExpirationPolicy" {
        /// Time since the last report; more than 0.
        1 metrics_expiry_duration: SignedDuration = SignedDuration::ZERO;
        /// Interval of checks; by default half of the expiry; negative: never.
        2 expiry_check_interval_duration: SignedDuration = SignedDuration::ZERO;
    }
}

mixer_config::message! {
    /// Parameters of the prometheus adapter.
    pub struct Params: "adapter.prometheus.config.Params" {
        /// Published metrics.
        1 metrics: Vec<MetricInfo> = Vec::new();
        /// By default, series never expire.
        2 metrics_expiration_policy: Option<MetricsExpirationPolicy> = None;
    }
}
