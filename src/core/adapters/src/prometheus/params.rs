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

mixer_config::message! {
    /// Buckets of equal width.
    pub struct LinearBuckets: "adapter.prometheus.config.Params.MetricInfo.BucketsDefinition.Linear" {
        /// One less than the number of bounds.
        1 num_finite_buckets: i32 = 0;
        /// Distance of bounds.
        2 width: f64 = 0.0;
        /// The first bound.
        3 offset: f64 = 0.0;
    }
}

mixer_config::message! {
    /// Buckets of exponentially growing width.
    pub struct ExponentialBuckets: "adapter.prometheus.config.Params.MetricInfo.BucketsDefinition.Exponential" {
        /// One less than the number of bounds.
        1 num_finite_buckets: i32 = 0;
        /// Ratio of bounds; more than 1.
        2 growth_factor: f64 = 0.0;
        /// The first bound; more than 0.
        3 scale: f64 = 0.0;
    }
}

mixer_config::message! {
    /// Explicit buckets.
    pub struct ExplicitBuckets: "adapter.prometheus.config.Params.MetricInfo.BucketsDefinition.Explicit" {
        /// Upper bounds, increasing.
        1 bounds: Vec<f64> = Vec::new();
    }
}

mixer_config::message! {
    /// Buckets of a distribution, in one of three forms. If several are given, the last one applies.
    pub struct BucketsDefinition: "adapter.prometheus.config.Params.MetricInfo.BucketsDefinition" {
        /// Equal width.
        1 linear_buckets: Option<LinearBuckets> = None;
        /// Exponentially growing width.
        2 exponential_buckets: Option<ExponentialBuckets> = None;
        /// Explicit bounds.
        3 explicit_buckets: Option<ExplicitBuckets> = None;
    }
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
