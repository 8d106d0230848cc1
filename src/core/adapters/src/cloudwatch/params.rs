//! Parameters.

use std::collections::BTreeMap;

use mixer_attribute::SignedDuration;

use crate::full::{self, WhenFull};

mixer_config::message_enum! {
    /// What a metric counts. The number is that of Istio Mixer.
    pub enum Unit: "adapter.cloudwatch.config.Params_MetricDatum_Unit" {
        /// None.
        0 "None" None;
        /// Time.
        1 "Seconds" Seconds;
        /// Time.
        2 "Microseconds" Microseconds;
        /// Time.
        3 "Milliseconds" Milliseconds;
        /// A number of things.
        4 "Count" Count;
        /// Size.
        5 "Bytes" Bytes;
        /// Size.
        6 "Kilobytes" Kilobytes;
        /// Size.
        7 "Megabytes" Megabytes;
        /// Size.
        8 "Gigabytes" Gigabytes;
        /// Size.
        9 "Terabytes" Terabytes;
        /// Size.
        10 "Bits" Bits;
        /// Size.
        11 "Kilobits" Kilobits;
        /// Size.
        12 "Megabits" Megabits;
        /// Size.
        13 "Gigabits" Gigabits;
        /// Size.
        14 "Terabits" Terabits;
        /// A part.
        15 "Percent" Percent;
        /// A rate.
        16 "Bytes_Second" BytesSecond;
        /// A rate.
        17 "Kilobytes_Second" KilobytesSecond;
        /// A rate.
        18 "Megabytes_Second" MegabytesSecond;
        /// A rate.
        19 "Gigabytes_Second" GigabytesSecond;
        /// A rate.
        20 "Terabytes_Second" TerabytesSecond;
        /// A rate.
        21 "Bits_Second" BitsSecond;
        /// A rate.
        22 "Kilobits_Second" KilobitsSecond;
        /// A rate.
        23 "Megabits_Second" MegabitsSecond;
        /// A rate.
        24 "Gigabits_Second" GigabitsSecond;
        /// A rate.
        25 "Terabits_Second" TerabitsSecond;
        /// A rate.
        26 "Count_Second" CountSecond;
    }
}

mixer_config::message! {
    /// How an instance becomes a metric.
    pub struct MetricDatum: "adapter.cloudwatch.config.Params_MetricDatum" {
        /// Its unit.
        3 unit: Unit = Unit::None;
    }
}

mixer_config::message! {
    /// How an instance becomes a log entry.
    pub struct LogInfo: "adapter.cloudwatch.config.Params_LogInfo" {
        /// A template for the message, from the variables, `timestamp` and `severity`; empty: a line as of an access log.
        1 payload_template: String = String::new();
    }
}

mixer_config::message! {
    /// Parameters of the cloudwatch adapter.
    pub struct Params: "adapter.cloudwatch.config.Params" {
        /// The namespace of metrics.
        1 namespace: String = String::new();
        /// Metrics by the full names of their instances.
        2 metric_info: BTreeMap<String, MetricDatum> = BTreeMap::new();
        /// The group of log entries, which exists.
        4 log_group_name: String = String::new();
        /// The stream of log entries, which exists.
        5 log_stream_name: String = String::new();
        /// Log entries by the full names of their instances.
        6 logs: BTreeMap<String, LogInfo> = BTreeMap::new();
        /// The region; empty: that of the environment or of the profile. Not in Istio Mixer, as all that follow.
        1000 region: String = String::new();
        /// `http://…` or `https://…` of the metrics service; empty: that of the environment, or the public one of the region.
        1001 metrics_endpoint: String = String::new();
        /// `http://…` or `https://…` of the log service; empty: as above.
        1002 logs_endpoint: String = String::new();
        /// The profile in the shared files; empty: `AWS_PROFILE`, or `default`.
        1003 profile: String = String::new();
        /// The shared file with credentials; empty: that of AWS's tools.
        1004 credentials_file: String = String::new();
        /// The URL at which containers get credentials; empty: that of the environment.
        1005 container_endpoint: String = String::new();
        /// The URL of the instance metadata service; empty: that of the environment, or the usual one.
        1006 instance_endpoint: String = String::new();
        /// File with the trusted roots for `https`, PEM; empty: `AWS_CA_BUNDLE`, or those of the system.
        1007 ca_file: String = String::new();
        /// The limit of a request.
        1008 timeout: SignedDuration = SignedDuration::from_secs(10);
        /// Size of the queue of each of metrics and log entries, in KiB.
        1009 queue_kilobytes: u32 = 4096;
        /// How long a datum or an entry waits for others.
        1010 wait: SignedDuration = SignedDuration::from_secs(1);
        /// Whether messages are escaped as HTML, as Istio Mixer does.
        1011 html_escape: bool = false;
        /// `http://…` or `https://…` of the Security Token Service; empty: that of the environment, or the public one of the region.
        1012 sts_endpoint: String = String::new();
        /// What happens to items for which there is no room.
        1013 when_full: WhenFull = WhenFull::DropOldest;
        /// How long a report waits for room, with `HOLD`.
        1014 hold_timeout: SignedDuration = full::HOLD_TIMEOUT;
    }
}
