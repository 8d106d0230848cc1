//! Sends metrics to the agent of Datadog, in datagrams: DogStatsD, which is StatsD with tags.
//!
//! Queue, datagrams and what happens while the agent is away are as in [`crate::statsd`]. Lines and datagrams are those of Istio Mixer 1.3.

#[cfg(feature = "adapter-dogstatsd")]
mod handler;

use std::collections::BTreeMap;

use mixer_attribute::{SignedDuration, ValueType};
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BackendAddress, Backends, BoundInstance, BuildError, Env, Handler,
};

use mixer_base::secrets::mask_address;

use crate::address;
use crate::full::{self, WhenFull};

mixer_config::message_enum! {
    /// The type of a metric.
    pub enum MetricType: "adapter.dogstatsd.config.Params_MetricInfo_Type" {
        /// Not allowed.
        0 "UNKNOWN_TYPE" Unknown;
        /// Adds the value.
        1 "COUNTER" Counter;
        /// Sets the value.
        2 "GAUGE" Gauge;
        /// A timing for durations, a histogram for numbers.
        3 "DISTRIBUTION" Distribution;
    }
}

mixer_config::message! {
    /// How an instance becomes a metric.
    pub struct MetricInfo: "adapter.dogstatsd.config.Params_MetricInfo" {
        /// The name after the prefix.
        1 name: String = String::new();
        /// Its type.
        2 kind as "type": MetricType = MetricType::Unknown;
        /// Tags in addition to the dimensions; a dimension of the same name takes precedence.
        3 tags: BTreeMap<String, String> = BTreeMap::new();
    }
}

mixer_config::message! {
    /// Parameters of the dogstatsd adapter.
    pub struct Params: "adapter.dogstatsd.config.Params" {
        /// Address of the agent, `HOST:PORT`.
        1 address: String = "localhost:8125".to_owned();
        /// Comes before every name. A dot follows it unless it ends with one.
        2 prefix: String = "istio.".to_owned();
        /// Metrics in a datagram at most, for which they wait up to 100 ms; 0: one, sent at once.
        3 buffer_length: i32 = 0;
        /// Tags of all metrics.
        4 global_tags: BTreeMap<String, String> = BTreeMap::new();
        /// Which part of all values is sent, at random. Istio Mixer has 0 as the default, although it documents 1.
        5 sample_rate: f64 = 1.0;
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
pub(crate) struct DogStatsd;

impl Adapter for DogStatsd {
    const INFO: AdapterInfo = AdapterInfo {
        name: "dogstatsd",
        about: "Produces dogstatsd metrics to a configured dogstatsd server",
        templates: &["metric"],
    };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        full::validate(params.hold_timeout, problems);
        let mut problem = |path: FieldPath, field: &str, text: String| {
            problems.push(Diagnostic::error("adapter-config", path, format!("{field}: {text}")));
        };
        let field = |name: &str| FieldPath::root().field(name);
        if params.buffer_length < 0 {
            problem(field("bufferLength"), "bufferLength", "buffer length must be >= 0".to_owned());
        }
        if !(0.0..=1.0).contains(&params.sample_rate) {
            let text = "sampling rate must be between 0 and 1";
            problem(field("sampleRate"), "sampleRate", text.to_owned());
        }
        if params.address.is_empty() {
            problem(field("address"), "address", "Address is empty".to_owned());
        }
        if let Err(why) = address::split(&params.address) {
            // compat(1.3): Go's text names the address, unless it is empty.
            let of = if params.address.is_empty() {
                String::new()
            } else {
                format!("address {}: ", mask_address(&params.address))
            };
            problem(field("address"), "address", format!("Address is malformed: {of}{why}"));
        }
        let entry = |metric: &str| field("metrics").key(metric);
        for instance in instances {
            let name = &*instance.name;
            let Some(info) = params.metrics.get(name) else {
                let text = format!(
                    "{name} is a valid metric but is not configured to be handled by the datadog adapter"
                );
                problem(field("metrics"), "metricName", text);
                continue;
            };
            let value = instance.position("value").and_then(|at| instance.leaves.get(at));
            let value = value.map_or(ValueType::Unspecified, |leaf| leaf.value_type);
            let text = match (info.kind, value) {
                (MetricType::Counter | MetricType::Gauge, ValueType::Int64)
                | (MetricType::Distribution, ValueType::Int64 | ValueType::Duration) => continue,
                (MetricType::Counter | MetricType::Gauge, other) => {
                    format!("Counters and Gauges must be an Int64 but metric {name} is a {}", other.name())
                }
                (MetricType::Distribution, other) => {
                    let kind = other.name();
                    format!("Histograms must be either a Duration or an Int64 but metric {name} is a {kind}")
                }
                (MetricType::Unknown, other) => {
                    format!("{} is not a supported metric type for this adapter.", other.name())
                }
            };
            problem(entry(name).field("type"), "metricType", text);
        }
        for metric in params.metrics.keys() {
            if !instances.iter().any(|instance| *instance.name == **metric) {
                let text = format!("{metric} is not a valid metric that can be emitted");
                problem(entry(metric), "metricType", text);
            }
        }
        #[cfg(not(feature = "adapter-dogstatsd"))]
        crate::left_out::diagnose("dogstatsd", problems);
    }

    fn backends(params: &Params) -> Backends {
        Backends::Addresses(vec![BackendAddress::Udp(address::dialed(&params.address))])
    }

    #[cfg(feature = "adapter-dogstatsd")]
    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(handler::DogStatsdHandler::start(&params, &instances, &env)?))
    }

    #[cfg(not(feature = "adapter-dogstatsd"))]
    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Err(crate::left_out::refusal("dogstatsd"))
    }
}

#[cfg(test)]
#[cfg(feature = "adapter-dogstatsd")]
mod tests;
