//! Publishes metrics for Prometheus to scrape.
//!
//! All prometheus handlers of a server share one [`Endpoint`]: a listener, which starts with the first handler and stops with the
//! last, and the metrics, whose values survive reloads. A handler resolves the metric of each instance when it is built; a sample
//! then costs one look-up in a table of the worker. Labels are rendered once, when a series is created.
//!
//! Beyond Istio Mixer, `maxSeries` limits the series of a metric, and the memory budget those of all; refused samples are counted in
//! `mixer_prometheus_reports_refused_total`. Label values are cut at 1024 bytes.

mod definition;
mod endpoint;
mod handler;
mod key;
mod metric;
mod params;
mod registration;
mod scrape;

pub use endpoint::Endpoint;
pub use params::{
    BucketsDefinition, ExplicitBuckets, ExponentialBuckets, LinearBuckets, MetricInfo, MetricKind,
    MetricsExpirationPolicy, Params,
};

use definition::Definition;
use mixer_attribute::SignedDuration;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, Backends, BoundInstance, BuildError, Env, Handler, NOT_BUILT, join_errors,
};

/// The adapter.
#[derive(Debug)]
pub struct Prometheus;

impl Adapter for Prometheus {
    const INFO: AdapterInfo =
        AdapterInfo { name: "prometheus", about: "Publishes prometheus metrics", templates: &["metric"] };
    type Params = Params;

    fn validate(params: &Params, _: &[BoundInstance], problems: &mut Diagnostics) {
        if let Some(policy) = &params.metrics_expiration_policy
            && policy.metrics_expiry_duration <= SignedDuration::ZERO
        {
            let field = "metricsExpiryDuration";
            let text = format!("{field}: {field} {} is invalid, must be > 0", policy.metrics_expiry_duration);
            let path = FieldPath::root().field("metricsExpirationPolicy").field(field);
            problems.push(Diagnostic::error("adapter-config", path, text));
        }
        let mut defined: Vec<Definition> = Vec::new();
        for (index, info) in params.metrics.iter().enumerate() {
            let path = FieldPath::root().field("metrics").index(index);
            let definition = Definition::new(info).and_then(|definition| {
                match defined.iter().find_map(|other| other.collision(&definition)) {
                    Some(why) => Err(why),
                    None => Ok(definition),
                }
            });
            match definition {
                Ok(definition) => defined.push(definition),
                Err(why) => {
                    let text = format!("the handler will not be built: {why}");
                    problems.push(Diagnostic::error(NOT_BUILT, path, text));
                }
            }
        }
    }

    fn backends(_: &Params) -> Backends {
        Backends::AskHandler
    }

    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        let endpoint = env.commons.get::<Endpoint>();
        let lease = endpoint.open(&params, &env).await.map_err(|errors| match errors.as_slice() {
            [one] if one.starts_with(endpoint::NOT_STARTED) => BuildError::Refused(one.clone()),
            _ => BuildError::Refused(join_errors(&errors)),
        })?;
        Ok(Box::new(handler::PrometheusHandler::new(&params, &instances, lease, &env)))
    }
}

#[cfg(test)]
mod tests;
