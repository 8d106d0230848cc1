//! Sends metrics, logs and spans to an OpenTelemetry collector: OTLP over gRPC or HTTP.
//!
//! Log entries and spans are encoded by their reports and handed to a delivery. Metrics are aggregated in the server; a task hands over the
//! points of all series at every interval. Each of the three has a delivery of its own, which sends again what the collector may take
//! later, as the OTLP specification says it.
//!
//! Series take their memory from the share of the prometheus adapter. Without room for a new one, its values go to the overflow series of
//! their metric: no total is ever wrong. While the collector is away, series go on counting, and the reader waits for room: no point of a sum is
//! lost while the share `queues` has memory for those on their way.
//!
//! Istio Mixer has no such adapter.

#[cfg(feature = "adapter-otlp")]
mod attributes;
#[cfg(feature = "adapter-otlp")]
mod export;
#[cfg(feature = "adapter-otlp")]
mod handler;
#[cfg(feature = "adapter-otlp")]
mod log;
#[cfg(feature = "adapter-otlp")]
mod metric;
mod names;
pub(crate) mod params;
#[cfg(feature = "adapter-otlp")]
mod reader;
#[cfg(feature = "adapter-otlp")]
mod series;
#[cfg(feature = "adapter-otlp")]
mod span;
mod validate;

use mixer_config::Diagnostics;
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BackendAddress, Backends, BoundInstance, BuildError, Env, Handler,
};

use params::Params;

/// The adapter.
pub(crate) struct Otlp;

impl Adapter for Otlp {
    const INFO: AdapterInfo = AdapterInfo {
        name: "otlp",
        about: "Sends metrics, logs and spans to an OpenTelemetry collector",
        templates: &["logentry", "metric", "tracespan"],
    };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        crate::full::validate(params.hold_timeout, problems);
        crate::full::validate_spill(&params.spill_directory, params.spill_megabytes, problems);
        validate::validate(params, instances, problems);
        #[cfg(not(feature = "adapter-otlp"))]
        crate::left_out::diagnose("otlp", problems);
    }

    fn backends(params: &Params) -> Backends {
        Backends::Addresses(vec![BackendAddress::Url(params.endpoint.clone())])
    }

    #[cfg(feature = "adapter-otlp")]
    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        crate::spills::prepare(handler::spill_directories(&params, &instances), &env).await?;
        Ok(Box::new(handler::OtlpHandler::start(&params, &instances, &env)?))
    }

    #[cfg(not(feature = "adapter-otlp"))]
    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Err(crate::left_out::refusal("otlp"))
    }
}

#[cfg(test)]
#[cfg(feature = "adapter-otlp")]
mod tests;
