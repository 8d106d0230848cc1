//! Sends metrics to a StatsD daemon, in datagrams.
//!
//! Reports append lines to a queue and are done; a task joins the lines to datagrams of at most `flushBytes`, at the latest after
//! `flushDuration`. The name of the daemon is resolved when there is something to send, and again every minute: a daemon that is away
//! fails no report, and what has no room in the queue is dropped and counted.
//!
//! Lines and datagrams are those of Istio Mixer 1.3.

#[cfg(feature = "adapter-statsd")]
mod handler;

use std::collections::BTreeMap;

use mixer_attribute::SignedDuration;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BackendAddress, Backends, BoundInstance, BuildError, Env, Handler, NOT_BUILT,
};

use crate::address;
use crate::full::{self, WhenFull};
use crate::go_template::GoTemplate;

mixer_config::message_enum! {
    /// The type of a metric.
    pub enum MetricType: "adapter.statsd.config.Params_MetricInfo_Type" {
        /// Not allowed.
        0 "UNKNOWN" Unknown;
        /// Adds the value.
        1 "COUNTER" Counter;
        /// Sets the value.
        2 "GAUGE" Gauge;
        /// A timing for durations, a counter for numbers.
        3 "DISTRIBUTION" Distribution;
    }
}

mixer_config::message! {
    /// How an instance becomes a metric.
    pub struct MetricInfo: "adapter.statsd.config.Params_MetricInfo" {
        /// Its type.
        1 kind as "type": MetricType = MetricType::Unknown;
        /// A template for the name, from the dimensions; empty: the full name of the instance.
        2 name_template: String = String::new();
    }
}

mixer_config::message! {
    /// Parameters of the statsd adapter.
    pub struct Params: "adapter.statsd.config.Params" {
        /// Address of the daemon, `HOST:PORT`.
        1 address: String = "localhost:8125".to_owned();
        /// Comes before every name, with a dot between them.
        2 prefix: String = String::new();
        /// How long a line waits for others; 0 means 300 ms.
        3 flush_duration: SignedDuration = SignedDuration::from_millis(300);
        /// A datagram of several lines has fewer bytes than this; 0 means 512.
        4 flush_bytes: i32 = 512;
        /// Which part of all values is sent, at random; 1 and more: all.
        5 sampling_rate: f64 = 1.0;
        /// By the full name of the instance.
        6 metrics: BTreeMap<String, MetricInfo> = BTreeMap::new();
        /// Size of the queue in KiB. Not in Istio Mixer.
        1000 queue_kilobytes: u32 = 1024;
        /// What happens to lines for which there is no room.
        1001 when_full: WhenFull = WhenFull::DropNewest;
        /// How long a report waits for room, with `HOLD`.
        1002 hold_timeout: SignedDuration = full::HOLD_TIMEOUT;
    }
}

/// The adapter.
pub(crate) struct Statsd;

impl Adapter for Statsd {
    const INFO: AdapterInfo =
        AdapterInfo { name: "statsd", about: "Produces statsd metrics", templates: &["metric"] };
    type Params = Params;

    fn validate(params: &Params, _: &[BoundInstance], problems: &mut Diagnostics) {
        full::validate(params.hold_timeout, problems);
        let mut problem = |field: &str, text: &str| {
            let path = FieldPath::root().field(field);
            problems.push(Diagnostic::error("adapter-config", path, format!("{field}: {text}")));
        };
        if params.flush_duration < SignedDuration::ZERO {
            problem("flushDuration", "flush duration must be >= 0");
        }
        if params.flush_bytes < 0 {
            problem("flushBytes", "flush bytes must be >= 0");
        }
        if params.sampling_rate < 0.0 {
            problem("samplingRate", "sampling rate must be >= 0");
        }
        for (metric, info) in &params.metrics {
            if let Err(error) = GoTemplate::parse(metric, &info.name_template) {
                let template = &info.name_template;
                let text = format!("failed to parse template '{template}' for metric '{metric}': {error}");
                let path = FieldPath::root().field("metrics").key(metric).field("nameTemplate");
                let text = format!("metricNameTemplateStrings: {text}");
                problems.push(Diagnostic::error("adapter-config", path, text));
            }
        }
        if let Err(why) = address::split(&params.address) {
            let path = FieldPath::root().field("address");
            let text = format!("the handler will not be built: {why}");
            problems.push(Diagnostic::error(NOT_BUILT, path, text));
        }
        #[cfg(not(feature = "adapter-statsd"))]
        crate::left_out::diagnose("statsd", problems);
    }

    fn backends(params: &Params) -> Backends {
        Backends::Addresses(vec![BackendAddress::Udp(address::dialed(&params.address))])
    }

    #[cfg(feature = "adapter-statsd")]
    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(handler::StatsdHandler::start(&params, &instances, &env)?))
    }

    #[cfg(not(feature = "adapter-statsd"))]
    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Err(crate::left_out::refusal("statsd"))
    }
}

#[cfg(test)]
#[cfg(feature = "adapter-statsd")]
mod tests;
