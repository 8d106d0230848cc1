//! Problems of parameters.

use mixer_attribute::{SignedDuration, ValueType};
use mixer_base::secrets::mask_address;
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{BoundInstance, NOT_BUILT};

use super::{MetricType, Params};
use crate::go_url::scheme_and_host;
use crate::url::has_host;

fn root(field: &str) -> FieldPath {
    FieldPath::root().field(field)
}

fn wrong(path: FieldPath, text: impl Into<String>) -> Diagnostic {
    Diagnostic::error("adapter-config", path, text)
}

/// Rounded half away from zero, as Go does.
pub(super) fn seconds(duration: SignedDuration) -> i64 {
    const SECOND: i64 = 1_000_000_000;
    let half = if duration.nanos < 0 { -SECOND / 2 } else { SECOND / 2 };
    duration.nanos.saturating_add(half) / SECOND
}

pub(super) fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
    access(params, problems);
    if params.enable_metrics && params.metrics.is_empty() {
        let text = "metrics: There must be at least one metric definition for this to be useful";
        let problem = wrong(root("metrics"), text);
        problems.push(problem.with_hint("set `enableMetrics: false` to send spans only"));
    }
    ingest(params, problems);
    if seconds(params.datapoint_interval) < 1 {
        let text = "datapoint_interval: Interval must not be less than one second";
        problems.push(wrong(root("datapointInterval"), text));
    }
    metrics(params, instances, problems);
    if !(0.0..=1.0).contains(&params.tracing_sample_probability) {
        let text = "tracing_sample_probability: must be between 0.0 and 1.0 inclusive";
        problems.push(wrong(root("tracingSampleProbability"), text));
    }
    if params.tracing_buffer_size == 0 {
        problems.push(wrong(root("tracingBufferSize"), "tracing_buffer_size: must be greater than 0"));
    }
}

fn access(params: &Params, problems: &mut Diagnostics) {
    match params.tokens() {
        0 => {
            let text = "access_token: You must specify the SignalFx access token";
            let problem = wrong(root("accessToken"), text);
            problems.push(problem.with_hint("`accessTokenFile` keeps it out of the configuration"));
        }
        1 => {}
        _ => {
            let text = "the handler will not be built: there is more than one access token";
            let problem = Diagnostic::error(NOT_BUILT, FieldPath::root(), text);
            problems.push(
                problem.with_hint("set only one of accessToken, accessTokenFile and accessTokenEnvironment"),
            );
        }
    }
}

fn ingest(params: &Params, problems: &mut Diagnostics) {
    if params.ingest_url.is_empty() {
        return;
    }
    if let Err(why) = scheme_and_host(&params.ingest_url) {
        problems.push(wrong(root("ingestUrl"), format!("ingest_url: Unable to parse url: {why}")));
    } else if !has_host(&params.ingest_url) {
        let url = mask_address(&params.ingest_url);
        let text = format!("the handler will not be built: `{url}` is not http://HOST or https://HOST");
        let hint = "for example https://ingest.us1.signalfx.com";
        problems.push(Diagnostic::error(NOT_BUILT, root("ingestUrl"), text).with_hint(hint));
    }
}

fn metrics(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
    let bound = || instances.iter().filter(|instance| instance.template.name == "metric");
    for (at, metric) in params.metrics.iter().enumerate() {
        let path = || root("metrics").index(at);
        if metric.kind == MetricType::None {
            problems.push(wrong(path().field("type"), format!("metrics[{at}].type: type must be specified")));
        }
        let name = metric.name.as_str();
        if name.is_empty() {
            problems.push(wrong(path().field("name"), format!("metrics[{at}].name: name must not be blank")));
            continue;
        }
        let Some(instance) = bound().find(|instance| *instance.name == *name) else {
            let text = format!(
                "metrics[{at}].name: Name {name} does not correspond to a metric type registered in Istio and sent to \
                 this adapter"
            );
            let hint = suggestion(name, bound().map(|instance| &*instance.name));
            let hint = hint.unwrap_or_else(|| "no rule sends it here; the full name is needed".to_owned());
            problems.push(wrong(path().field("name"), text).with_hint(hint));
            continue;
        };
        let value = instance.position("value").and_then(|at| instance.leaves.get(at));
        let value = value.map_or(ValueType::Unspecified, |leaf| leaf.value_type);
        if !matches!(
            value,
            ValueType::Int64
                | ValueType::Double
                | ValueType::Bool
                | ValueType::Timestamp
                | ValueType::Duration
        ) {
            let kind = value.name();
            let text = format!("metrics[{at}]: istio metric's value should be numeric but is {kind}");
            problems.push(wrong(path(), text));
        }
    }
    for instance in bound().filter(|instance| params.kind_of(&instance.name).is_none()) {
        let text = format!("metrics: istio metric type {} must be configured", instance.name);
        problems.push(wrong(root("metrics"), text));
    }
}
