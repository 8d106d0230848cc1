//! Publishes metrics for Prometheus to scrape.
//!
//! All prometheus handlers of a server share one [`Endpoint`]: a listener, which starts with the first handler and stops with the
//! last, and the metrics with their values, which outlive the handlers, so that a new configuration goes on counting. A handler
//! resolves at build time which metric each of its instances feeds; a report then costs one look-up a metric, in a table of the
//! worker's own. Labels become text once, when a series is born.
//!
//! Beyond the originals, `maxSeries` limits the series of a metric; what is refused is counted in
//! `mixer_prometheus_reports_refused_total`. Spec: adapters-inprocess.md section 12.

mod definition;
mod endpoint;
mod handler;
mod key;
mod metric;
mod params;

pub use endpoint::Endpoint;
pub use params::{
    BucketsDefinition, ExplicitBuckets, ExponentialBuckets, LinearBuckets, MetricInfo, MetricKind,
    MetricsExpirationPolicy, Params,
};

use super::{Adapter, AdapterInfo, BoundInstance, BuildError, Env, Handler, NOT_BUILT, join_errors};
use crate::core::attribute::SignedDuration;
use crate::core::config::{Diagnostic, Diagnostics, FieldPath};
use definition::Definition;

/// The adapter.
#[derive(Debug)]
pub struct Prometheus;

impl Adapter for Prometheus {
    const INFO: AdapterInfo =
        AdapterInfo { name: "prometheus", about: "Publishes prometheus metrics", templates: &["metric"] };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        if let Some(policy) = &params.metrics_expiration_policy
            && policy.metrics_expiry_duration <= SignedDuration::ZERO
        {
            let field = "metricsExpiryDuration";
            let text = format!("{field}: {field} {} is invalid, must be > 0", policy.metrics_expiry_duration);
            let path = FieldPath::root().field("metricsExpirationPolicy").field(field);
            problems.push(Diagnostic::error("adapter-config", path, text));
        }
        for (index, info) in params.metrics.iter().enumerate() {
            let path = FieldPath::root().field("metrics").index(index);
            advise(info, instances, &path, problems);
        }
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

/// Warnings about a metric that cannot work as it stands.
fn advise(info: &MetricInfo, instances: &[BoundInstance], path: &FieldPath, problems: &mut Diagnostics) {
    let definition = match Definition::new(info) {
        Ok(definition) => definition,
        Err(text) => {
            let text = format!("the handler will not be built: {text}");
            return problems.push(Diagnostic::error(NOT_BUILT, path.clone(), text));
        }
    };
    let Some(instance) = instances.iter().find(|i| *i.name == *info.instance_name) else {
        let short = instances.iter().find(|i| i.name.split('.').next() == Some(&info.instance_name));
        if let Some(instance) = short {
            let text = format!("`{}` is a short name; no instance is called so", info.instance_name);
            let warning = Diagnostic::warning("prometheus-instance-name", path.field("instanceName"), text);
            problems.push(warning.with_hint(format!("write `{}`", instance.name)));
        }
        return;
    };
    let mut dimensions: Vec<&str> = instance.entries("dimensions").map(|(key, _)| key).collect();
    dimensions.sort_unstable();
    if dimensions != definition.labels.iter().map(String::as_str).collect::<Vec<_>>() {
        let text = format!(
            "labels of metric `{}` differ from the dimensions of `{}`: every report of it will fail",
            definition.name, instance.name
        );
        let warning = Diagnostic::warning("prometheus-labels", path.field("labelNames"), text);
        problems.push(warning.with_hint(format!("the dimensions are {}", dimensions.join(", "))));
    }
}

#[cfg(test)]
mod tests;
