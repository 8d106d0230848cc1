//! Sends spans to a Zipkin collector, as JSON over HTTP.
//!
//! Reports encode their spans, hand them to a delivery and are done. The delivery posts them in batches of at most 100, at the latest after a
//! second, and keeps them while the collector is away; without room, the oldest are dropped and counted.
//!
//! Spans are those of Istio Mixer 1.3.

#[cfg(feature = "adapter-zipkin")]
mod handler;
#[cfg(feature = "adapter-zipkin")]
mod span;

use mixer_attribute::SignedDuration;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BackendAddress, Backends, BoundInstance, BuildError, Env, Handler, NOT_BUILT,
};

use crate::full::{self, WhenFull};

mixer_config::message! {
    /// Parameters of the zipkin adapter.
    pub struct Params: "adapter.zipkin.config.Params" {
        /// URL of the collector, for example `http://zipkin:9411/api/v2/spans`.
        1 url: String = String::new();
        /// Which part of all traces is sent, by their ids; 0: none.
        2 sample_probability: f64 = 0.0;
        /// Size of the queue in KiB. Not in Istio Mixer, as all that follow.
        1000 queue_kilobytes: u32 = 1024;
        /// File with the trusted roots for `https`, PEM; empty: those of the system.
        1001 ca_file: String = String::new();
        /// What happens to spans for which there is no room.
        1002 when_full: WhenFull = WhenFull::DropOldest;
        /// How long a report waits for room, with `HOLD`.
        1003 hold_timeout: SignedDuration = full::HOLD_TIMEOUT;
    }
}

/// The adapter.
pub(crate) struct Zipkin;

impl Adapter for Zipkin {
    const INFO: AdapterInfo =
        AdapterInfo { name: "zipkin", about: "Sends spans to a Zipkin collector", templates: &["tracespan"] };
    type Params = Params;

    fn validate(params: &Params, _: &[BoundInstance], problems: &mut Diagnostics) {
        full::validate(params.hold_timeout, problems);
        let field = |name: &str| FieldPath::root().field(name);
        if !(0.0..=1.0).contains(&params.sample_probability) {
            let text = "sample_probability: must be between 0 and 1 inclusive";
            problems.push(Diagnostic::error("adapter-config", field("sampleProbability"), text));
        }
        if params.sample_probability == 0.0 {
            let text = "no span is sent, because `sampleProbability` is 0";
            let hint = "1 sends all spans";
            let problem = Diagnostic::warning("adapter-config", field("sampleProbability"), text);
            problems.push(problem.with_hint(hint));
        } else if !crate::url::has_host(&params.url) {
            let url = mixer_base::secrets::mask_address(&params.url);
            let text = format!("the handler will not be built: `{url}` is not http://HOST or https://HOST");
            problems.push(Diagnostic::error(NOT_BUILT, field("url"), text));
        }
        #[cfg(not(feature = "adapter-zipkin"))]
        crate::left_out::diagnose("zipkin", problems);
    }

    fn backends(params: &Params) -> Backends {
        match params.sample_probability > 0.0 {
            true => Backends::Addresses(vec![BackendAddress::Url(params.url.clone())]),
            // Nothing is sent.
            false => Backends::None,
        }
    }

    #[cfg(feature = "adapter-zipkin")]
    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(handler::ZipkinHandler::start(&params, &instances, &env)?))
    }

    #[cfg(not(feature = "adapter-zipkin"))]
    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Err(crate::left_out::refusal("zipkin"))
    }
}

#[cfg(test)]
#[cfg(feature = "adapter-zipkin")]
mod tests;
