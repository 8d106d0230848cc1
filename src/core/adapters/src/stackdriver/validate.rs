//! Problems of parameters.

use mixer_attribute::{SignedDuration, ValueType};
use mixer_base::secrets::mask_address;
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{BoundInstance, NOT_BUILT};

use super::params::{BucketsDefinition, MetricInfo, MetricValue, Params};
use crate::go_template::GoTemplate;
use crate::url::has_host;

/// BucketsDefinition of a distribution at most, as Google has it.
const MAX_BUCKETS: usize = 200;

fn root(field: &str) -> FieldPath {
    FieldPath::root().field(field)
}

fn error(path: FieldPath, text: String) -> Diagnostic {
    Diagnostic::error("adapter-config", path, text)
}

pub(super) fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
    for (name, info) in &params.metric_info {
        metric(name, info, instances, problems);
    }
    for (name, info) in &params.log_info {
        if let Err(why) = GoTemplate::parse(name, &info.payload_template) {
            let path = root("logInfo").key(name).field("payloadTemplate");
            problems.push(error(path, format!("logInfo: failed to evaluate template for log {name}: {why}")));
        }
    }
    if let Some(trace) = &params.trace
        && !(0.0..=1.0).contains(&trace.sample_probability)
    {
        let text = "trace.sampleProbability: sampling probability must be between 0 and 1 (inclusive)";
        problems.push(error(root("trace").field("sampleProbability"), text.to_owned()));
    }
    for (field, duration, least) in [
        ("pushInterval", params.push_interval, SignedDuration::ZERO),
        ("graphInterval", params.graph_interval, SignedDuration::from_millis(1)),
        ("timeout", params.timeout, SignedDuration::from_millis(1)),
    ] {
        if duration < least {
            problems.push(error(root(field), format!("{field}: {duration} is less than {least}")));
        }
    }
    if !params.api_key.is_empty() {
        let text = "these services take no API keys: application default credentials are used instead";
        let problem = Diagnostic::warning("adapter-config", root("apiKey"), text.to_owned());
        problems.push(problem.with_hint("use `serviceAccountPath`"));
    }
    addresses(params, problems);
    unused(params, instances, problems);
}

fn metric(name: &str, info: &MetricInfo, instances: &[BoundInstance], problems: &mut Diagnostics) {
    let path = root("metricInfo").key(name);
    let instance = instances.iter().find(|one| &*one.name == name && one.template.name == "metric");
    let value = instance.and_then(|one| one.leaves.get(one.position("value")?)).map(|leaf| leaf.value_type);
    if info.value == MetricValue::Distribution {
        let numbers = [ValueType::Int64, ValueType::Double, ValueType::Duration];
        if let Some(value) = value.filter(|value| !numbers.contains(value)) {
            let text = format!("metricInfo: {name} is a distribution, and its values are of type {value}");
            problems.push(error(path.clone(), text));
        }
        if let Some(why) = flaw(info.buckets.as_ref()) {
            let text = format!("metricInfo: the buckets of the distribution {name} are none: {why}");
            let problem = error(path.field("buckets"), text);
            problems.push(problem.with_hint("for example `explicitBuckets: {bounds: [1, 10, 100]}`"));
        }
        return;
    }
    let sent = match value {
        None | Some(ValueType::Unspecified) => return,
        Some(ValueType::Bool) => MetricValue::Bool,
        Some(ValueType::Int64) if info.value == MetricValue::Double => MetricValue::Double,
        Some(ValueType::Int64 | ValueType::Duration | ValueType::Timestamp) => MetricValue::Int64,
        Some(ValueType::Double) => MetricValue::Double,
        Some(_) => MetricValue::String,
    };
    if sent != info.value {
        let text = format!(
            "{name} is sent with values of type {}, which Google refuses for a metric of type {}",
            sent.name(),
            info.value.name()
        );
        problems.push(Diagnostic::warning("adapter-config", path.field("value"), text));
    }
}

/// Why buckets cannot be used.
fn flaw(buckets: Option<&BucketsDefinition>) -> Option<String> {
    let Some(buckets) = buckets else { return Some("there are none".to_owned()) };
    let BucketsDefinition { linear_buckets, exponential_buckets, explicit_buckets } = buckets;
    let number = |finite: i32| {
        let is_taken = usize::try_from(finite).is_ok_and(|finite| (1..=MAX_BUCKETS).contains(&finite));
        (!is_taken).then(|| format!("their number {finite} is not between 1 and {MAX_BUCKETS}"))
    };
    match (linear_buckets, exponential_buckets, explicit_buckets) {
        (Some(linear), None, None) => number(linear.num_finite_buckets).or_else(|| {
            let is_width = linear.width > 0.0 && linear.width.is_finite() && linear.offset.is_finite();
            (!is_width).then(|| format!("the width {} is not above 0", linear.width))
        }),
        (None, Some(exponential), None) => number(exponential.num_finite_buckets).or_else(|| {
            let grows = exponential.growth_factor > 1.0 && exponential.growth_factor.is_finite();
            let is_scale = exponential.scale > 0.0 && exponential.scale.is_finite();
            (!(grows && is_scale))
                .then(|| "the growth factor must be above 1, and the scale above 0".to_owned())
        }),
        (None, None, Some(explicit)) => {
            let bounds = &explicit.bounds;
            let increase = bounds.iter().all(|bound| bound.is_finite())
                && bounds.is_sorted_by(|a, b| a < b)
                && (1..=MAX_BUCKETS).contains(&bounds.len());
            (!increase).then(|| format!("the bounds must increase, at least one and at most {MAX_BUCKETS}"))
        }
        _ => Some("one of linear, exponential and explicit buckets is needed".to_owned()),
    }
}

fn addresses(params: &Params, problems: &mut Diagnostics) {
    let not_built = |field: &str, text: String| {
        let text = format!("the handler will not be built: {text}");
        Diagnostic::error(NOT_BUILT, root(field), text)
    };
    let endpoint = params.endpoint.as_str();
    let is_address = endpoint.is_empty() || has_host(endpoint) || crate::address::split(endpoint).is_ok();
    if !is_address {
        let endpoint = mask_address(endpoint);
        problems.push(not_built("endpoint", format!("`{endpoint}` is not HOST:PORT")));
    }
    for (field, url) in
        [("tokenEndpoint", &params.token_endpoint), ("metadataEndpoint", &params.metadata_endpoint)]
    {
        if !url.is_empty() && !has_host(url) {
            let url = mask_address(url);
            problems.push(not_built(field, format!("`{url}` is not http://HOST or https://HOST")));
        }
    }
}

/// Settings without instances, and instances without settings.
fn unused(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
    let tables: [(&str, &str, Vec<&String>); 2] = [
        ("metricInfo", "metric", params.metric_info.keys().collect()),
        ("logInfo", "logentry", params.log_info.keys().collect()),
    ];
    for (field, template, configured) in tables {
        let bound = || instances.iter().filter(|one| one.template.name == template).map(|one| &*one.name);
        for unknown in configured.iter().filter(|name| bound().all(|known| known != name.as_str())) {
            let text = format!("no rule sends the {template} `{unknown}` to this handler");
            let problem = Diagnostic::warning("adapter-config", root(field).key(unknown), text);
            let hint = suggestion(unknown, bound());
            let hint = hint.unwrap_or_else(|| "the full name is needed: NAME.instance.NAMESPACE".to_owned());
            problems.push(problem.with_hint(hint));
        }
        for name in bound().filter(|name| configured.iter().all(|known| known.as_str() != *name)) {
            let text = format!("`{field}` has no entry for {name}, which is not sent");
            problems.push(Diagnostic::warning("adapter-config", root(field), text));
        }
    }
    let sends_spans = params.trace.as_ref().is_some_and(|trace| trace.sample_probability > 0.0);
    if !sends_spans && instances.iter().any(|instance| instance.template.name == "tracespan") {
        let text = "no span is sent, because `trace.sampleProbability` is 0".to_owned();
        let problem = Diagnostic::warning("adapter-config", root("trace"), text);
        problems.push(problem.with_hint("1 sends all spans"));
    }
}
