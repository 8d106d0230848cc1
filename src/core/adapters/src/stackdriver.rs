//! Sends metrics, log entries, spans and edges to Google Cloud: Monitoring, Logging, Trace and the context graph.
//!
//! Reports add to series, or encode entries, spans and edges, and are done. Each kind has a delivery of its own; series are handed over at
//! every `pushInterval`, what is new in the graph at every `graphInterval`. All of them share the access tokens of the handler.
//!
//! Requests are those of Istio Mixer 1.3.

#[cfg(feature = "adapter-stackdriver")]
mod entry;
#[cfg(feature = "adapter-stackdriver")]
mod graph;
#[cfg(feature = "adapter-stackdriver")]
mod handler;
#[cfg(feature = "adapter-stackdriver")]
mod labels;
pub(crate) mod params;
#[cfg(feature = "adapter-stackdriver")]
mod place;
#[cfg(feature = "adapter-stackdriver")]
mod send;
#[cfg(feature = "adapter-stackdriver")]
mod series;
#[cfg(feature = "adapter-stackdriver")]
mod sinks;
#[cfg(feature = "adapter-stackdriver")]
mod span;
mod validate;
#[cfg(feature = "adapter-stackdriver")]
mod wire;

use mixer_config::Diagnostics;
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BackendAddress, Backends, BoundInstance, BuildError, Env, Handler,
};

use params::Params;

/// The adapter.
pub(crate) struct Stackdriver;

impl Adapter for Stackdriver {
    const INFO: AdapterInfo = AdapterInfo {
        name: "stackdriver",
        about: "Sends metrics, log entries, spans and edges to Google Cloud",
        templates: &["edge", "logentry", "metric", "tracespan"],
    };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        crate::full::validate(params.hold_timeout, problems);
        validate::validate(params, instances, problems);
        #[cfg(not(feature = "adapter-stackdriver"))]
        crate::left_out::diagnose("stackdriver", problems);
    }

    fn backends(params: &Params) -> Backends {
        let default = |host: &str| format!("https://{host}.googleapis.com");
        let uses = [
            ("monitoring", !params.metric_info.is_empty()),
            ("logging", !params.log_info.is_empty()),
            ("cloudtrace", params.trace.as_ref().is_some_and(|trace| trace.sample_probability > 0.0)),
        ];
        let used = uses.iter().filter(|(_, is_used)| *is_used);
        Backends::Addresses(match params.endpoint.as_str() {
            "" => used.map(|(host, _)| BackendAddress::Url(default(host))).collect(),
            url if url.contains("://") => vec![BackendAddress::Url(url.to_owned())],
            place => vec![BackendAddress::Url(format!("https://{place}"))],
        })
    }

    #[cfg(feature = "adapter-stackdriver")]
    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(handler::StackdriverHandler::start(params, &instances, &env).await?))
    }

    #[cfg(not(feature = "adapter-stackdriver"))]
    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Err(crate::left_out::refusal("stackdriver"))
    }
}

#[cfg(test)]
#[cfg(feature = "adapter-stackdriver")]
mod tests;
