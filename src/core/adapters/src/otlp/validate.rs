//! Problems of parameters.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use mixer_attribute::{SignedDuration, ValueType};
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{BoundInstance, NOT_BUILT};

use super::names::name;
use super::params::{MetricInfo, MetricKind, Params, Protocol};
use crate::url::has_host;

/// Most bounds of a distribution.
const MAX_BOUNDS: usize = 1000;
/// The least interval of exports: a shorter one would send points faster than collectors take them.
pub(super) const MIN_INTERVAL: Duration = Duration::from_millis(10);

fn root(field: &str) -> FieldPath {
    FieldPath::root().field(field)
}

fn wrong(path: FieldPath, text: String, hint: &str) -> Diagnostic {
    Diagnostic::error("adapter-config", path, text).with_hint(hint)
}

pub(super) fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
    endpoint(params, problems);
    requests(params, problems);
    let at_least = |duration: SignedDuration, least: Duration| {
        duration >= SignedDuration::ZERO && duration.to_std_or_zero() >= least
    };
    if !at_least(params.export_interval, MIN_INTERVAL) {
        let text = format!("exportInterval: {} is less than 10ms", params.export_interval);
        problems.push(wrong(root("exportInterval"), text, "for example 60s"));
    }
    if params.timeout <= SignedDuration::ZERO {
        let text = format!("timeout: {} is not more than 0", params.timeout);
        problems.push(wrong(root("timeout"), text, "for example 10s"));
    }
    if params.metrics_expiry < SignedDuration::ZERO {
        let text = format!("metricsExpiry: {} is less than 0", params.metrics_expiry);
        problems.push(wrong(root("metricsExpiry"), text, "0 keeps all series"));
    }
    if !(0.0..=1.0).contains(&params.sample_probability) {
        let text = format!("sampleProbability: {} is not between 0 and 1", params.sample_probability);
        problems.push(wrong(root("sampleProbability"), text, "1 sends all spans"));
    }
    for instance in instances {
        match &*instance.template.name {
            "metric" => metric(params, instance, problems),
            "logentry" => log(params, instance, problems),
            _ => {}
        }
        attributes(params, instance, problems);
    }
    let unused = |field: &str,
                  template: &str,
                  configured: &mut dyn Iterator<Item = &String>,
                  problems: &mut Diagnostics| {
        let bound = || instances.iter().filter(|one| one.template.name == template).map(|one| &*one.name);
        for unknown in configured.filter(|name| bound().all(|known| known != name.as_str())) {
            let text = format!("no rule sends the {template} `{unknown}` to this handler");
            let problem = Diagnostic::warning("adapter-config", root(field).key(unknown), text);
            let hint = suggestion(unknown, bound());
            problems.push(problem.with_hint(
                hint.unwrap_or_else(|| "the full name is needed: NAME.instance.NAMESPACE".to_owned()),
            ));
        }
    };
    same_names(params, problems);
    unused("metrics", "metric", &mut params.metrics.keys(), problems);
    unused("logs", "logentry", &mut params.logs.keys(), problems);
}

/// Metrics that are sent under one name must be of one kind and unit: OpenTelemetry's data model calls others an error, and collectors drop or mix
/// them.
fn same_names(params: &Params, problems: &mut Diagnostics) {
    let mut sent: BTreeMap<&str, (&String, &MetricInfo)> = BTreeMap::new();
    for (instance, info) in &params.metrics {
        let name = match info.name.as_str() {
            "" => instance.split('.').next().unwrap_or_default(),
            name => name,
        };
        let (other, first) = *sent.entry(name).or_insert((instance, info));
        if (first.kind, &first.unit) != (info.kind, &info.unit) {
            let text = format!(
                "{other} and {instance} are both sent as the metric `{name}`, with different kinds or units"
            );
            let problem = Diagnostic::warning("adapter-config", root("metrics").key(instance), text);
            problems.push(
                problem.with_hint("give one of them another `name`, or both the same `kind` and `unit`"),
            );
        }
    }
}

fn endpoint(params: &Params, problems: &mut Diagnostics) {
    let url = mixer_base::secrets::mask_address(params.base());
    if !has_host(params.base()) {
        let text =
            format!("the handler will not be built: `{url}` is not http://HOST:PORT or https://HOST:PORT");
        let hint = "for example http://otel-collector:4317";
        problems.push(Diagnostic::error(NOT_BUILT, root("endpoint"), text).with_hint(hint));
        return;
    }
    let (other, of, cure) = match params.protocol {
        Protocol::Grpc => (":4318", "HTTP", "HTTP_PROTOBUF"),
        Protocol::HttpProtobuf => (":4317", "gRPC", "GRPC"),
    };
    if params.base().ends_with(other) {
        let text = format!("`{url}` is by its port the endpoint for {of}");
        let problem = Diagnostic::warning("adapter-config", root("endpoint"), text);
        problems.push(problem.with_hint(format!("set `protocol: {cure}`, or the other port")));
    }
    let path = params.base().split_once("://").and_then(|(_, rest)| rest.split_once('/'));
    if params.protocol == Protocol::Grpc && path.is_some() {
        let text = format!("the handler will not be built: `{url}` has a path, and gRPC has its own");
        let hint = "leave the path out, or set `protocol: HTTP_PROTOBUF`";
        problems.push(Diagnostic::error(NOT_BUILT, root("endpoint"), text).with_hint(hint));
    }
}

/// Headers, authentication and TLS.
fn requests(params: &Params, problems: &mut Diagnostics) {
    let not_built = |path: FieldPath, text: String, hint: &str| {
        Diagnostic::error(NOT_BUILT, path, format!("the handler will not be built: {text}")).with_hint(hint)
    };
    for (name, value) in &params.headers {
        let path = || root("headers").key(name);
        let reserved = ["content-type", "content-length", "te", "host", "transfer-encoding", "connection"];
        if HeaderName::try_from(name.as_str()).is_err() || HeaderValue::try_from(value.as_str()).is_err() {
            problems.push(not_built(
                path(),
                format!("`{name}` is no header, or its value is none"),
                "use ASCII letters, digits and `-`",
            ));
        } else if reserved.iter().any(|of| of.eq_ignore_ascii_case(name)) {
            problems.push(not_built(path(), format!("`{name}` is set by the protocol"), "leave it out"));
        } else if name.eq_ignore_ascii_case("authorization") {
            let problem = Diagnostic::warning(
                "adapter-config",
                path(),
                "a secret in the configuration is readable for all who can read it".to_owned(),
            );
            problems.push(problem.with_hint("use `authentication` with a file or an environment variable"));
        }
    }
    if let Some(authentication) = &params.authentication {
        let path = root("authentication");
        if authentication.token_file.is_empty() == authentication.token_environment.is_empty() {
            let text = "one of `tokenFile` and `tokenEnvironment` is needed".to_owned();
            problems.push(not_built(
                path.clone(),
                text,
                "name the file or the environment variable with the token",
            ));
        }
        if !authentication.header.is_empty() && HeaderName::try_from(authentication.header.as_str()).is_err()
        {
            let text = format!("`{}` is no name of a header", authentication.header);
            problems.push(not_built(path.field("header"), text, "for example x-api-key"));
        }
    }
    if let Some(tls) = &params.tls {
        if tls.cert_file.is_empty() != tls.key_file.is_empty() {
            let text = "a certificate and its key belong together".to_owned();
            problems.push(not_built(root("tls"), text, "set both of `certFile` and `keyFile`"));
        }
        if !params.base().get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:")) {
            let text = "`tls` is for https, and the endpoint is not".to_owned();
            problems.push(not_built(root("tls"), text, "begin the endpoint with https://"));
        }
    }
}

fn metric(params: &Params, instance: &BoundInstance, problems: &mut Diagnostics) {
    let name = &*instance.name;
    let Some(info) = params.metrics.get(name) else {
        let text = format!("{name} is sent to this handler, and `metrics` has no entry for it");
        let hint = suggestion(name, params.metrics.keys().map(String::as_str));
        let hint =
            hint.unwrap_or_else(|| format!("add `{name}: {{kind: COUNTER}}`, or GAUGE or DISTRIBUTION"));
        problems.push(wrong(root("metrics"), text, &hint));
        return;
    };
    let path = root("metrics").key(name);
    if info.kind == MetricKind::Unspecified {
        let text = format!("{name} has no kind");
        problems.push(wrong(path.clone().field("kind"), text, "one of COUNTER, GAUGE and DISTRIBUTION"));
    }
    let value = instance.position("value").and_then(|at| instance.leaves.get(at)).map(|leaf| leaf.value_type);
    if !matches!(value, Some(ValueType::Int64 | ValueType::Double | ValueType::Duration)) {
        let kind = value.unwrap_or(ValueType::Unspecified).name();
        let text = format!("the value of {name} is a {kind}, and no number");
        problems.push(wrong(path.clone(), text, "its expression must be an INT64, a DOUBLE or a DURATION"));
    }
    if let Some(text) = wrong_bounds(info) {
        problems.push(wrong(path.field("bounds"), text, "for example [0.005, 0.01, 0.1, 1, 10]"));
    }
}

fn wrong_bounds(info: &MetricInfo) -> Option<String> {
    let bounds = &info.bounds;
    if info.kind != MetricKind::Distribution && !bounds.is_empty() {
        return Some("only a DISTRIBUTION has bounds".to_owned());
    }
    if bounds.len() > MAX_BOUNDS {
        return Some(format!("{} bounds are more than {MAX_BOUNDS}", bounds.len()));
    }
    if let Some(bound) = bounds.iter().find(|bound| !bound.is_finite()) {
        return Some(format!("the bound {bound} is not finite"));
    }
    let [a, b] = bounds.array_windows().find(|[a, b]| a >= b)?;
    Some(format!("bounds must increase: {a} is followed by {b}"))
}

fn log(params: &Params, instance: &BoundInstance, problems: &mut Diagnostics) {
    let name = &*instance.name;
    let Some(info) = params.logs.get(name) else { return };
    for (field, variable) in [("body", &info.body), ("traceId", &info.trace_id), ("spanId", &info.span_id)] {
        let known = || instance.entries("variables").map(|(key, _)| key);
        if variable.is_empty() || known().any(|key| key == variable) {
            continue;
        }
        let text = format!("{name} has no variable `{variable}`");
        let all = || match known().collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "it has no variables".to_owned(),
            all => format!("its variables are {all}"),
        };
        let hint = suggestion(variable, known()).unwrap_or_else(all);
        problems.push(wrong(root("logs").key(name).field(field), text, &hint));
    }
}

/// Attributes of one item must have distinct names.
fn attributes(params: &Params, instance: &BoundInstance, problems: &mut Diagnostics) {
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    for field in ["dimensions", "variables", "span_tags"] {
        for (key, _) in instance.entries(field) {
            let name = name(params, key).into_owned();
            if name.is_empty() {
                let text = format!("the attribute of `{key}` has no name");
                problems.push(wrong(root("attributeNames").key(key), text, "name it"));
            } else if let Some(other) = names.insert(name.clone(), key) {
                let text = format!(
                    "`{other}` and `{key}` of {} are both sent as the attribute `{name}`",
                    instance.name
                );
                problems.push(wrong(
                    root("attributeNames"),
                    text,
                    &format!("give one of them a name of its own: `attributeNames: {{{key}: NAME}}`"),
                ));
            }
        }
    }
}
