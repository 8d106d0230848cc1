//! Sends metrics and spans to SignalFx: datapoints as protobuf and spans as JSON, over HTTPS.
//!
//! Metrics are aggregated in the server; a task hands over the datapoints of all series at every interval. Spans are encoded by their reports.
//! Each of the two has a delivery of its own, which sends again what SignalFx may take later.
//!
//! Series take their memory from the share of the prometheus adapter. Without room for a new one, its values go to the overflow series of
//! their metric, so that the total stays exact. While SignalFx is away, series go on counting.
//!
//! Datapoints and spans are those of Istio Mixer 1.3.

#[cfg(feature = "adapter-signalfx")]
mod handler;
#[cfg(feature = "adapter-signalfx")]
mod histogram;
#[cfg(feature = "adapter-signalfx")]
mod ingest;
#[cfg(feature = "adapter-signalfx")]
mod metric;
#[cfg(feature = "adapter-signalfx")]
mod series;
#[cfg(feature = "adapter-signalfx")]
mod span;
mod validate;

use mixer_attribute::SignedDuration;
use mixer_config::Diagnostics;
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BackendAddress, Backends, BoundInstance, BuildError, Env, Handler,
};

use crate::full::{self, WhenFull};

/// Where SignalFx takes datapoints and spans.
const INGEST_URL: &str = "https://ingest.signalfx.com";

mixer_config::message_enum! {
    /// The type of a metric.
    pub enum MetricType: "adapter.signalfx.config.Params_MetricConfig_Type" {
        /// Not allowed.
        0 "NONE" None;
        /// Sums values.
        1 "COUNTER" Counter;
        /// Number, sum, extremes and quantiles of values.
        2 "HISTOGRAM" Histogram;
    }
}

mixer_config::message! {
    /// How an instance becomes a metric.
    pub struct MetricConfig: "adapter.signalfx.config.Params_MetricConfig" {
        /// The full name of the instance, also that of the metric.
        1 name: String = String::new();
        /// Its type.
        4 kind as "type": MetricType = MetricType::None;
    }
}

mixer_config::message! {
    /// Parameters of the signalfx adapter.
    pub struct Params: "adapter.signalfx.config.Params" {
        /// Every metric instance that rules send to the handler.
        1 metrics: Vec<MetricConfig> = Vec::new();
        /// `http://HOST` or `https://HOST`, which `/v2/datapoint` and `/v1/trace` follow; empty: SignalFx.
        2 ingest_url: String = String::new();
        /// The access token of the organization.
        3 access_token: String = String::new();
        /// How often datapoints are sent, in whole seconds.
        4 datapoint_interval: SignedDuration = SignedDuration::from_secs(10);
        /// Whether metrics are sent.
        5 enable_metrics: bool = true;
        /// Whether spans are sent.
        6 enable_tracing: bool = true;
        /// Spans that wait at most.
        7 tracing_buffer_size: u32 = 1000;
        /// Which part of all traces is sent, by their ids.
        8 tracing_sample_probability: f64 = 1.0;
        /// File with the access token, instead of the token. Not in Istio Mixer, as all that follow.
        1000 access_token_file: String = String::new();
        /// Environment variable with the access token, instead of the token.
        1001 access_token_environment: String = String::new();
        /// File with the trusted roots for HTTPS, PEM; empty: those of the system.
        1002 ca_file: String = String::new();
        /// Size of the queue of each of metrics and spans, in KiB.
        1003 queue_kilobytes: u32 = 4096;
        /// What happens to spans for which there is no room.
        1004 when_full: WhenFull = WhenFull::DropNewest;
        /// How long a report waits for room, with `HOLD`.
        1005 hold_timeout: SignedDuration = full::HOLD_TIMEOUT;
    }
}

impl Params {
    /// The URL without what follows it.
    fn base(&self) -> &str {
        match self.ingest_url.as_str() {
            "" => INGEST_URL,
            url => url.trim_end_matches('/'),
        }
    }

    /// The type of a metric. Of two with one name the last one counts.
    fn kind_of(&self, name: &str) -> Option<MetricType> {
        self.metrics.iter().rev().find(|metric| metric.name == name).map(|metric| metric.kind)
    }

    /// Where the tokens that are configured are.
    fn tokens(&self) -> usize {
        let all = [&self.access_token, &self.access_token_file, &self.access_token_environment];
        all.iter().filter(|text| !text.is_empty()).count()
    }

    /// Whole seconds, at least one.
    #[cfg(feature = "adapter-signalfx")]
    fn interval(&self) -> std::time::Duration {
        std::time::Duration::from_secs(validate::seconds(self.datapoint_interval).max(1).unsigned_abs())
    }
}

/// The adapter.
pub(crate) struct SignalFx;

impl Adapter for SignalFx {
    const INFO: AdapterInfo = AdapterInfo {
        name: "signalfx",
        about: "Sends metrics and traces to SignalFx",
        templates: &["metric", "tracespan"],
    };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        full::validate(params.hold_timeout, problems);
        validate::validate(params, instances, problems);
        #[cfg(not(feature = "adapter-signalfx"))]
        crate::left_out::diagnose("signalfx", problems);
    }

    fn backends(params: &Params) -> Backends {
        Backends::Addresses(vec![BackendAddress::Url(params.base().to_owned())])
    }

    #[cfg(feature = "adapter-signalfx")]
    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(handler::SignalFxHandler::start(&params, &instances, &env)?))
    }

    #[cfg(not(feature = "adapter-signalfx"))]
    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Err(crate::left_out::refusal("signalfx"))
    }
}

#[cfg(test)]
#[cfg(feature = "adapter-signalfx")]
mod tests;
