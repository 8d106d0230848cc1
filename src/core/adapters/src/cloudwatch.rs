//! Sends metrics and log entries to CloudWatch of Amazon Web Services.
//!
//! Reports encode their data, hand them to a delivery and are done: one for metrics, one for log entries. Requests are signed with the
//! credentials that AWS's own tools would use, which are looked for at every request.
//!
//! Data, messages and requests are those of Istio Mixer 1.3, with the names of units and the order of entries that the service takes.

#[cfg(feature = "adapter-cloudwatch")]
mod handler;
#[cfg(feature = "adapter-cloudwatch")]
mod log;
#[cfg(feature = "adapter-cloudwatch")]
mod metric;
pub(crate) mod params;
#[cfg(feature = "adapter-cloudwatch")]
mod send;
mod validate;

use mixer_config::Diagnostics;
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BackendAddress, Backends, BoundInstance, BuildError, Env, Handler,
};

use params::Params;

/// The adapter.
pub(crate) struct CloudWatch;

impl Adapter for CloudWatch {
    const INFO: AdapterInfo = AdapterInfo {
        name: "cloudwatch",
        about: "Sends metrics and log entries to Amazon CloudWatch",
        templates: &["logentry", "metric"],
    };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        crate::full::validate(params.hold_timeout, problems);
        validate::validate(params, instances, problems);
        #[cfg(not(feature = "adapter-cloudwatch"))]
        crate::left_out::diagnose("cloudwatch", problems);
    }

    fn backends(params: &Params) -> Backends {
        #[cfg(feature = "adapter-cloudwatch")]
        let urls = handler::endpoints(params);
        #[cfg(not(feature = "adapter-cloudwatch"))]
        let urls = [params.metrics_endpoint.clone()];
        Backends::Addresses(urls.into_iter().map(BackendAddress::Url).collect())
    }

    #[cfg(feature = "adapter-cloudwatch")]
    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(handler::CloudWatchHandler::start(&params, &instances, &env)?))
    }

    #[cfg(not(feature = "adapter-cloudwatch"))]
    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Err(crate::left_out::refusal("cloudwatch"))
    }
}

#[cfg(test)]
#[cfg(feature = "adapter-cloudwatch")]
mod tests;
