//! Problems of parameters.

use mixer_attribute::{SignedDuration, ValueType};
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{BoundInstance, NOT_BUILT};

use super::params::{Params, Unit};
use crate::go_template::GoTemplate;
use crate::url::has_host;

/// Dimensions of a metric at most, as Istio Mixer has it. The service takes 30.
const DIMENSIONS: usize = 10;

fn root(field: &str) -> FieldPath {
    FieldPath::root().field(field)
}

pub(super) fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
    let mut error = |path: FieldPath, text: String| {
        problems.push(Diagnostic::error("adapter-config", path, text));
    };
    if params.namespace.is_empty() {
        error(root("namespace"), "namespace: namespace should not be empty".to_owned());
    }
    let of = |template: &'static str| instances.iter().filter(move |one| one.template.name == template);
    if of("metric").count() != params.metric_info.len() {
        let text = "metricInfo: metricInfo and instance config must contain the same metrics";
        error(root("metricInfo"), text.to_owned());
    }
    for instance in of("metric") {
        metric(params, instance, &mut error);
    }
    if of("logentry").next().is_some() {
        if params.log_group_name.is_empty() {
            let text = "log_group_name: log_group_name should not be empty";
            error(root("logGroupName"), text.to_owned());
        }
        if params.log_stream_name.is_empty() {
            let text = "log_stream_name: log_stream_name should not be empty";
            error(root("logStreamName"), text.to_owned());
        }
        if params.logs.is_empty() {
            error(root("logs"), "logs: logs info should not be nil".to_owned());
        }
    }
    for _ in of("logentry").filter(|instance| instance.entries("variables").next().is_none()) {
        let text = "instancevariables: instance variables should not be empty";
        error(FieldPath::root(), text.to_owned());
    }
    for (name, info) in &params.logs {
        if let Err(why) = GoTemplate::parse(name, &info.payload_template) {
            let path = root("logs").key(name).field("payloadTemplate");
            error(path, format!("logs: failed to parse template for `{name}`: {why}"));
        }
    }
    if params.timeout <= SignedDuration::ZERO {
        error(root("timeout"), format!("timeout: {} is not more than 0", params.timeout));
    }
    if params.wait < SignedDuration::ZERO {
        error(root("wait"), format!("wait: {} is less than 0", params.wait));
    }
    endpoints(params, problems);
    logs(params, instances, problems);
}

fn metric(params: &Params, instance: &BoundInstance, error: &mut impl FnMut(FieldPath, String)) {
    let name = &*instance.name;
    let path = || root("metricInfo").key(name);
    let info = params.metric_info.get(name);
    if info.is_none() {
        let text = "metricInfo and instance config must contain the same metrics but missing";
        error(root("metricInfo"), format!("metricInfo: {text} {name}"));
    }
    let value = instance.position("value").and_then(|at| instance.leaves.get(at));
    let value = value.map_or(ValueType::Unspecified, |leaf| leaf.value_type);
    match value {
        ValueType::String | ValueType::Int64 | ValueType::Double => {}
        ValueType::Duration => {
            let unit = info.map(|info| info.unit).unwrap_or_default();
            if !matches!(unit, Unit::Seconds | Unit::Milliseconds | Unit::Microseconds) {
                let text =
                    "value of type duration should have a unit of seconds, milliseconds or microseconds";
                error(path(), format!("duration metric unit: {text}"));
            }
        }
        other => error(path(), format!("value type: value of type {other} is not supported")),
    }
    if instance.entries("dimensions").count() > DIMENSIONS {
        error(path(), format!("dimensions: metrics can only contain {DIMENSIONS} dimensions"));
    }
}

/// URLs.
fn endpoints(params: &Params, problems: &mut Diagnostics) {
    for (field, url) in [
        ("metricsEndpoint", &params.metrics_endpoint),
        ("logsEndpoint", &params.logs_endpoint),
        ("containerEndpoint", &params.container_endpoint),
        ("instanceEndpoint", &params.instance_endpoint),
        ("stsEndpoint", &params.sts_endpoint),
    ] {
        if !url.is_empty() && !has_host(url) {
            let url = mixer_base::secrets::mask_address(url);
            let text = format!("the handler will not be built: `{url}` is not http://HOST or https://HOST");
            problems.push(Diagnostic::error(NOT_BUILT, root(field), text));
        }
    }
}

/// Entries without settings, and settings without entries.
fn logs(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
    let bound = || instances.iter().filter(|one| one.template.name == "logentry").map(|one| &*one.name);
    if !params.logs.is_empty() {
        for name in bound().filter(|name| !params.logs.contains_key(*name)) {
            let text = format!("`logs` has no entry for {name}: its messages have the default form");
            problems.push(Diagnostic::warning("adapter-config", root("logs"), text));
        }
    }
    for unknown in params.logs.keys().filter(|name| bound().all(|known| known != name.as_str())) {
        let text = format!("no rule sends the logentry `{unknown}` to this handler");
        let problem = Diagnostic::warning("adapter-config", root("logs").key(unknown), text);
        let hint = suggestion(unknown, bound());
        let hint = hint.unwrap_or_else(|| "the full name is needed: NAME.instance.NAMESPACE".to_owned());
        problems.push(problem.with_hint(hint));
    }
}
