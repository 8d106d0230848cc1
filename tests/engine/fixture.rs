//! Random conditions and requests, and a runtime that serves a configuration.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use mixer_api::MixerService;
use mixer_api::grpc::GrpcError;
use mixer_api::proto::istio::mixer::v1::CheckResponse;
use mixer_attribute::request::{CheckCall, encode_check_request};
use mixer_attribute::{OwnedAttributes, OwnedValue};
use mixer_base::metrics::Metrics;
use mixer_config::Severity;
use mixer_config::store::MemoryStore;
use mixer_engine::adapter::{Commons, SystemClock};
use mixer_engine::check_cache::CheckCacheLimits;
use mixer_engine::handler::HandlerEnvironment;
use mixer_engine::runtime::{ConfigPolicy, Configurator, ConfiguratorOptions, Runtime};
use mixer_engine::snapshot::{Registry, SnapshotBuilder, SnapshotOptions};
use proptest::prelude::*;
use prost::Message as _;

/// Vocabulary, and an instance for checks.
pub(crate) const BASE: &str = r#"
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec:
  attributes:
    s1: {valueType: STRING}
    s2: {valueType: STRING}
    num: {valueType: INT64}
    b: {valueType: BOOL}
    m: {valueType: STRING_MAP}
    destination.namespace: {valueType: STRING}
    context.reporter.kind: {valueType: STRING}
---
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
"#;

/// A term of a condition.
pub(crate) fn term() -> impl Strategy<Value = String> {
    let text = prop_oneof![Just("a"), Just("b"), Just("ab"), Just("")];
    prop_oneof![
        (prop_oneof![Just("s1"), Just("s2")], text.clone()).prop_map(|(s, t)| format!(r#"{s} == "{t}""#)),
        (prop_oneof![Just("s1"), Just("s2")], text.clone()).prop_map(|(s, t)| format!(r#"{s} != "{t}""#)),
        (0..3).prop_map(|n| format!("num == {n}")),
        any::<bool>().prop_map(|b| format!("b == {b}")),
        Just("b".to_owned()),
        (prop_oneof![Just("k"), Just("l")], text.clone()).prop_map(|(k, t)| format!(r#"m["{k}"] == "{t}""#)),
        (prop_oneof![Just("s1"), Just("s2")], text.clone())
            .prop_map(|(s, t)| format!(r#"{s}.startsWith("{t}")"#)),
        text.clone().prop_map(|t| format!(r#"match(s1, "{t}*")"#)),
        (text.clone(), text).prop_map(|(t, u)| format!(r#"(s1 | "{t}") == "{u}""#)),
        Just(r#"(num == 1 || s2 == "a")"#.to_owned()),
    ]
}

pub(crate) fn condition() -> impl Strategy<Value = String> {
    prop::collection::vec(term(), 0..4).prop_map(|terms| terms.join(" && "))
}

pub(crate) fn attributes() -> impl Strategy<Value = OwnedAttributes> {
    let text = || prop::option::of(prop_oneof![Just("a"), Just("b"), Just("ab"), Just("abc"), Just("")]);
    let map = prop::option::of((text(), text()));
    (text(), text(), prop::option::of(0..4_i64), prop::option::of(any::<bool>()), map, any::<bool>())
        .prop_map(|(s1, s2, n, b, map, odd)| {
            let mut all = OwnedAttributes::new();
            let mut set = |name: &str, value: Option<OwnedValue>| {
                if let Some(value) = value {
                    all.insert(name, value);
                }
            };
            set("s1", s1.map(|t| OwnedValue::String(t.into())));
            // Sometimes an attribute of another type than declared.
            set(
                "s2",
                if odd { Some(OwnedValue::Int64(7)) } else { s2.map(|t| OwnedValue::String(t.into())) },
            );
            set("num", n.map(OwnedValue::Int64));
            set("b", b.map(OwnedValue::Bool));
            if let Some((k, l)) = map {
                let entries = [("k", k), ("l", l)];
                let present =
                    entries.into_iter().filter_map(|(key, value)| Some((key.into(), value?.into())));
                set("m", Some(OwnedValue::StringMap(present.collect())));
            }
            all
        })
}

/// A rule with a handler of its own per condition, so that an answer shows which rules matched.
pub(crate) fn configuration(conditions: &[String]) -> String {
    let mut text = BASE.to_owned();
    for (i, condition) in conditions.iter().enumerate() {
        let quoted = serde_json::Value::from(condition.as_str());
        let code = 3 + i % 5;
        write!(
            text,
            "---\nkind: handler\nmetadata: {{name: h{i:03}, namespace: istio-system}}\n\
             spec: {{compiledAdapter: denier, params: {{status: {{code: {code}, message: m{i}}}, validDuration: 60s}}}}\n\
             ---\nkind: rule\nmetadata: {{name: r{i:03}, namespace: istio-system}}\n\
             spec: {{match: {quoted}, actions: [{{handler: h{i:03}, instances: [nothing]}}]}}\n"
        )
        .unwrap();
    }
    text
}

/// Random conditions may be contradictory, which is a warning; errors leave something out.
fn assert_valid(runtime: &Runtime) {
    let published = runtime.load_full();
    let mut problems = published.diagnostics.iter();
    assert_eq!(problems.find(|d| d.severity == Severity::Error), None, "the configuration is valid");
}

/// A runtime that serves `text`.
pub(crate) fn serve(
    text: &str,
    cache: Option<CheckCacheLimits>,
) -> (tokio::runtime::Runtime, Arc<Runtime>, Arc<Metrics>) {
    serve_with(mixer_server::REGISTRY, text, cache)
}

/// [`serve`] with other adapters.
pub(crate) fn serve_with(
    registry: Registry,
    text: &str,
    cache: Option<CheckCacheLimits>,
) -> (tokio::runtime::Runtime, Arc<Runtime>, Arc<Metrics>) {
    let (background, runtime, metrics, ..) = serve_editable_with(registry, text, cache);
    assert_valid(&runtime);
    (background, runtime, metrics)
}

/// A runtime that serves `text`, with its store and configurator.
pub(crate) fn serve_editable(
    text: &str,
    cache: Option<CheckCacheLimits>,
) -> (tokio::runtime::Runtime, Arc<Runtime>, Arc<Metrics>, Arc<MemoryStore>, Configurator) {
    serve_editable_with(mixer_server::REGISTRY, text, cache)
}

fn serve_editable_with(
    registry: Registry,
    text: &str,
    cache: Option<CheckCacheLimits>,
) -> (tokio::runtime::Runtime, Arc<Runtime>, Arc<Metrics>, Arc<MemoryStore>, Configurator) {
    let background = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let metrics = Arc::new(Metrics::new());
    let builder = SnapshotBuilder::new(SnapshotOptions::new(registry));
    let runtime = Arc::new(Runtime::new(builder.empty(), cache));
    let store = Arc::new(MemoryStore::new("memory://", [("rules.yaml", text)]));
    let options = ConfiguratorOptions {
        store: store.clone(),
        environment: HandlerEnvironment {
            clock: Arc::new(SystemClock),
            runtime: background.handle().clone(),
            metrics_port: 0,
            metrics: Arc::clone(&metrics),
            commons: Arc::new(Commons::default()),
            build_timeout: Duration::from_secs(10),
        },
        metrics: Arc::clone(&metrics),
        policy: ConfigPolicy::serve_valid(),
    };
    let mut configurator = Configurator::new(Arc::clone(&runtime), builder, options);
    background.block_on(configurator.apply());
    (background, runtime, metrics, store, configurator)
}

/// A runtime with a configuration that tests edit.
pub(crate) struct Served {
    background: tokio::runtime::Runtime,
    pub(crate) runtime: Arc<Runtime>,
    metrics: Arc<Metrics>,
    store: Arc<MemoryStore>,
    configurator: Configurator,
}

impl Served {
    pub(crate) fn start(text: &str, cache: Option<CheckCacheLimits>) -> Self {
        let (background, runtime, metrics, store, configurator) = serve_editable(text, cache);
        Self { background, runtime, metrics, store, configurator }
    }

    pub(crate) fn change(&mut self, text: &str) {
        self.store.set([("rules.yaml", text)]);
        self.apply();
    }

    pub(crate) fn apply(&mut self) {
        self.background.block_on(self.configurator.apply());
        assert_valid(&self.runtime);
    }

    /// Runs the tasks of the handlers for a while.
    pub(crate) fn run_tasks(&self, time: Duration) {
        self.background.block_on(async { tokio::time::sleep(time).await });
    }

    pub(crate) fn service(&self) -> MixerService {
        MixerService::new(Arc::clone(&self.runtime), Arc::clone(&self.metrics), Arc::default(), None)
    }

    /// The samples of a metric that are not 0.
    pub(crate) fn samples(&self, prefix: &str) -> Vec<String> {
        let mut exposition = Vec::new();
        self.metrics.write(&mut exposition);
        let exposition = String::from_utf8(exposition).unwrap();
        let lines = exposition.lines().filter(|line| line.starts_with(prefix) && !line.ends_with(" 0"));
        lines.map(str::to_owned).collect()
    }

    /// The answer without its valid duration, which shrinks in the cache.
    pub(crate) fn check(&self, service: &MixerService, attributes: &OwnedAttributes) -> CheckResponse {
        let mut answer = check(&self.background, service, attributes);
        if let Some(precondition) = &mut answer.precondition {
            precondition.valid_duration = None;
        }
        answer
    }

    /// The answer as it is.
    pub(crate) fn answer(&self, service: &MixerService, attributes: &OwnedAttributes) -> CheckResponse {
        check(&self.background, service, attributes)
    }

    /// Whether the call fails.
    pub(crate) fn check_fails(&self, service: &MixerService, attributes: &OwnedAttributes) -> bool {
        try_check(&self.background, service, attributes).is_err()
    }
}

pub(crate) fn check(
    background: &tokio::runtime::Runtime,
    service: &MixerService,
    attributes: &OwnedAttributes,
) -> CheckResponse {
    try_check(background, service, attributes).unwrap()
}

fn try_check(
    background: &tokio::runtime::Runtime,
    service: &MixerService,
    attributes: &OwnedAttributes,
) -> Result<CheckResponse, GrpcError> {
    let call = CheckCall { deduplication_id: "", quotas: BTreeMap::new() };
    try_check_encoded(background, service, encode_check_request(attributes, 0, &call))
}

/// The answer to an encoded CheckRequest.
pub(crate) fn try_check_encoded(
    background: &tokio::runtime::Runtime,
    service: &MixerService,
    body: Vec<u8>,
) -> Result<CheckResponse, GrpcError> {
    let framed = background.block_on(service.check(body.into(), None))?;
    Ok(CheckResponse::decode(framed.slice(5..)).unwrap())
}
