//! Parameters. Spec: adapters-inprocess.md 12.1.

use mixer_attribute::SignedDuration;

mixer_config::message_enum! {
    /// What a metric does with the values that it is told.
    pub enum MetricKind: "adapter.prometheus.config.Params_MetricInfo_Kind" {
        /// Not allowed.
        0 "UNSPECIFIED" Unspecified;
        /// Keeps the last one.
        1 "GAUGE" Gauge;
        /// Adds them up.
        2 "COUNTER" Counter;
        /// Counts them by size.
        3 "DISTRIBUTION" Distribution;
    }
}

mixer_config::message! {
    /// Buckets of equal width.
    pub struct LinearBuckets: "adapter.prometheus.config.Params.MetricInfo.BucketsDefinition.Linear" {
        /// One less than the number of bounds.
        1 num_finite_buckets: i32 = 0;
        /// From one bound to the next.
        2 width: f64 = 0.0;
        /// The first bound.
        3 offset: f64 = 0.0;
    }
}

mixer_config::message! {
    /// Buckets of growing width.
    pub struct ExponentialBuckets: "adapter.prometheus.config.Params.MetricInfo.BucketsDefinition.Exponential" {
        /// One less than the number of bounds.
        1 num_finite_buckets: i32 = 0;
        /// From one bound to the next; more than 1.
        2 growth_factor: f64 = 0.0;
        /// The first bound; more than 0.
        3 scale: f64 = 0.0;
    }
}

mixer_config::message! {
    /// Buckets as given.
    pub struct ExplicitBuckets: "adapter.prometheus.config.Params.MetricInfo.BucketsDefinition.Explicit" {
        /// Upper bounds, growing.
        1 bounds: Vec<f64> = Vec::new();
    }
}

mixer_config::message! {
    /// One of three ways to say what the buckets of a distribution are. If several are given, the last one counts.
    pub struct BucketsDefinition: "adapter.prometheus.config.Params.MetricInfo.BucketsDefinition" {
        /// Equal width.
        1 linear_buckets: Option<LinearBuckets> = None;
        /// Growing width.
        2 exponential_buckets: Option<ExponentialBuckets> = None;
        /// As given.
        3 explicit_buckets: Option<ExplicitBuckets> = None;
    }
}

mixer_config::message! {
    /// A metric and the instance that feeds it.
    pub struct MetricInfo: "adapter.prometheus.config.Params.MetricInfo" {
        /// Its name; that of the instance unless given.
        1 name: String = String::new();
        /// The full name of the instance.
        2 instance_name: String = String::new();
        /// Help text; the name unless given.
        3 description: String = String::new();
        /// What it does with values.
        4 kind: MetricKind = MetricKind::Unspecified;
        /// For distributions.
        5 buckets: Option<BucketsDefinition> = None;
        /// The names of the dimensions.
        6 label_names: Vec<String> = Vec::new();
        /// First part of the full name; `istio` unless given.
        7 namespace: String = String::new();
        /// Beyond the originals: most series at a time. 0 means 500000, less means no limit. Reports that would make one more
        /// are dropped and counted.
        8 max_series: i32 = 0;
    }
}

mixer_config::message! {
    /// When series that nobody reports any more are forgotten.
    pub struct MetricsExpirationPolicy: "adapter.prometheus.config.Params.MetricsExpirationPolicy" {
        /// How long after the last report; more than 0.
        1 metrics_expiry_duration: SignedDuration = SignedDuration::ZERO;
        /// How often to look; half of it unless given; less than 0 means never.
        2 expiry_check_interval_duration: SignedDuration = SignedDuration::ZERO;
    }
}

mixer_config::message! {
    /// Parameters of the prometheus adapter.
    pub struct Params: "adapter.prometheus.config.Params" {
        /// What is published.
        1 metrics: Vec<MetricInfo> = Vec::new();
        /// Nothing is forgotten unless given.
        2 metrics_expiration_policy: Option<MetricsExpirationPolicy> = None;
    }
}
