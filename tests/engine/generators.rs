//! Attribute generators and caches: a request that carries an attribute is never answered as one for which a generator made it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use mixer_api::proto::istio::mixer::v1::{CheckRequest, CheckResponse};
use mixer_api::worker::MessageLimits;
use mixer_api::{Engine, MixerService};
use mixer_attribute::request::{CheckCall, encode_check_request};
use mixer_attribute::{AttributeBag, OwnedAttributes, OwnedValue, Value};
use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::metrics::Metrics;
use mixer_config::Diagnostics;
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, Env, Erase, ErasedAdapter, Generated, GeneratedValue,
    HandleGenerate, Handler, Instance, Inventory, Reply,
};
use mixer_engine::check_cache::CheckCacheLimits;
use mixer_engine::dispatch::{self, DispatchContext, LastKnownAnswers};
use mixer_engine::runtime::Runtime;
use mixer_engine::snapshot::Registry;
use proptest::prelude::*;
use prost::Message as _;

use crate::fixture::{BASE, attributes, condition, serve_with, try_check_encoded};
use crate::proxy_cache::ProxyCache;

mixer_config::message! {
    /// There are none.
    pub struct Params: "test.oracle.Params" {}
}

/// Generates attributes from the inputs `source_uid` and `destination_port`, always the same from the same.
struct Oracle {
    uid: usize,
    port: usize,
    name: usize,
    labels: usize,
}

impl Adapter for Oracle {
    const INFO: AdapterInfo = AdapterInfo { name: "zz-oracle", about: "", templates: &["kubernetes"] };
    type Params = Params;

    fn validate(_: &Params, _: &[BoundInstance], _: &mut Diagnostics) {}

    async fn build(_: Params, instances: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        let position = |field: &str| instances[0].position(field).unwrap();
        let output = |name: &str| instances[0].output(name).unwrap();
        Ok(Box::new(Oracle {
            uid: position("source_uid"),
            port: position("destination_port"),
            name: output("source_pod_name"),
            labels: output("source_labels"),
        }))
    }
}

impl Handler for Oracle {
    fn as_generate(&self) -> Option<&dyn HandleGenerate> {
        Some(self)
    }
}

impl HandleGenerate for Oracle {
    fn generate(&self, instance: &Instance<'_>) -> Reply<Generated> {
        let mut sum = match instance.value(self.uid) {
            Some(Value::String(uid)) => uid.iter().map(|byte| usize::from(*byte)).sum(),
            _ => 0,
        };
        if let Some(Value::Int64(port)) = instance.value(self.port) {
            sum += usize::try_from(port).unwrap();
        }
        let text = |of: usize| ["a", "b", "ab"][of % 3].to_owned();
        let mut values = Vec::new();
        if !sum.is_multiple_of(4) {
            values.push((self.name, GeneratedValue::String(text(sum))));
        }
        if !sum.is_multiple_of(5) {
            let labels = [("k", sum / 3), ("l", sum / 9)];
            let labels = labels.into_iter().filter(|(_, of)| !of.is_multiple_of(4));
            let labels = labels.map(|(key, of)| (key.to_owned(), text(of))).collect();
            values.push((self.labels, GeneratedValue::StringMap(labels)));
        }
        Reply::Ready(Ok(Generated { values }))
    }
}

static ORACLE: Erase<Oracle> = Erase::new();

fn registry() -> Registry {
    static ADAPTERS: LazyLock<Vec<&'static dyn ErasedAdapter>> = LazyLock::new(|| {
        let known = mixer_server::REGISTRY.adapters.iter();
        known.chain([&ORACLE as &dyn ErasedAdapter]).collect()
    });
    Registry { adapters: Inventory::new(&ADAPTERS), extensions: &[] }
}

/// A rule whose handler generates attributes.
#[derive(Debug, Clone)]
struct Generator {
    condition: String,
    uid: &'static str,
    port: &'static str,
    /// Attribute and expression.
    bindings: BTreeMap<&'static str, &'static str>,
    /// Whether it replaces received attributes.
    ignores: bool,
}

/// A rule for checks.
#[derive(Debug, Clone)]
struct Check {
    condition: String,
    namespace: &'static str,
    /// What a list refuses; without, everything is refused.
    listed: Option<&'static str>,
}

/// Random generators. `of_maps`: whether they read string maps.
fn generator(of_maps: bool) -> impl Strategy<Value = Generator> {
    let texts = ["s1", "s2"].map(|attribute| {
        let value = prop::sample::select(vec![
            r#"$out.source_pod_name | "b""#,
            r#"$out.source_labels["k"] | "a""#,
            r#"s2 | "ab""#,
        ]);
        prop::option::of(value).prop_map(move |value| value.map(|value| (attribute, value)))
    });
    let others = [
        ("m", r#"$out.source_labels | emptyStringMap()"#),
        ("num", r#"conditional(b | false, 1, 2)"#),
        ("b", r#"($out.source_pod_name | "b") == "a""#),
        ("destination.namespace", r#"$out.source_pod_name | "b""#),
    ];
    let of_request = ("m", "m | emptyStringMap()");
    let uid = prop::sample::select(vec![r#"s1 | "x""#, r#"s2 | "y""#, r#""z""#, r#"m["k"] | "v""#]);
    let port = prop::sample::select(vec!["num | 0", "1"]);
    let others = prop::sample::subsequence(others.to_vec(), 0..=4);
    (condition(), uid, port, texts, others, prop::bool::weighted(0.1), any::<bool>())
        .prop_map(move |(condition, uid, port, texts, others, copies, ignores)| {
            let mut bindings: BTreeMap<_, _> =
                others.into_iter().chain(texts.into_iter().flatten()).collect();
            if copies && of_maps {
                bindings.extend([of_request]);
            }
            Generator { condition, uid, port, bindings, ignores }
        })
        .prop_filter("reads maps", move |generator| {
            of_maps || !(generator.condition.contains("m[") || generator.uid.contains("m["))
        })
}

fn rule() -> impl Strategy<Value = Check> {
    let listed = prop::option::of(prop::sample::select(vec![r#"s1 | "x""#, r#"m["l"] | "z""#]));
    let namespace = prop::sample::select(vec!["istio-system", "a", "b"]);
    (condition(), namespace, listed).prop_map(|(condition, namespace, listed)| Check {
        condition,
        namespace,
        listed,
    })
}

fn request() -> impl Strategy<Value = OwnedAttributes> {
    (attributes(), prop::option::of(prop::sample::select(vec!["a", "b"]))).prop_map(|(mut all, namespace)| {
        if let Some(namespace) = namespace {
            all.insert("destination.namespace", namespace);
        }
        all
    })
}

fn configuration(generators: &[Generator], checks: &[Check]) -> String {
    let mut text = BASE.to_owned();
    for (i, Generator { condition, uid, port, bindings, ignores }) in generators.iter().enumerate() {
        let annotations = if *ignores { ", annotations: {mixer.dev/received-values: ignore}" } else { "" };
        let (condition, uid, port, bindings) = (
            serde_json::json!(condition),
            serde_json::json!(uid),
            serde_json::json!(port),
            serde_json::json!(bindings),
        );
        write!(
            text,
            "---\nkind: handler\nmetadata: {{name: g{i}, namespace: istio-system}}\nspec: {{compiledAdapter: zz-oracle}}\n\
             ---\nkind: instance\nmetadata: {{name: g{i}, namespace: istio-system{annotations}}}\n\
             spec: {{compiledTemplate: kubernetes, params: {{source_uid: {uid}, destination_port: {port}}}, \
             attributeBindings: {bindings}}}\n\
             ---\nkind: rule\nmetadata: {{name: g{i}, namespace: istio-system}}\n\
             spec: {{match: {condition}, actions: [{{handler: g{i}, instances: [g{i}]}}]}}\n"
        )
        .unwrap();
    }
    for (i, Check { condition, namespace, listed }) in checks.iter().enumerate() {
        let condition = serde_json::json!(condition);
        let head = format!("metadata: {{name: r{i:03}, namespace: {namespace}}}\nspec: ");
        let (adapter, template) = match listed {
            None => (
                format!("denier, params: {{status: {{code: 7, message: m{i}}}, validDuration: 60s}}"),
                "checknothing".to_owned(),
            ),
            Some(value) => (
                "listchecker, params: {overrides: [a, ab], blacklist: true}".to_owned(),
                format!("listentry, params: {{value: {}}}", serde_json::json!(value)),
            ),
        };
        write!(
            text,
            "---\nkind: handler\n{head}{{compiledAdapter: {adapter}}}\n\
             ---\nkind: instance\n{head}{{compiledTemplate: {template}}}\n\
             ---\nkind: rule\n{head}{{match: {condition}, actions: [{{handler: r{i:03}, instances: [r{i:03}]}}]}}\n"
        )
        .unwrap();
    }
    text
}

/// A server of these rules.
struct Stage {
    background: tokio::runtime::Runtime,
    runtime: Arc<Runtime>,
    service: MixerService,
}

impl Stage {
    fn new(text: &str, has_cache: bool) -> Self {
        let cache = has_cache.then_some(CheckCacheLimits { entries: 1000, bytes: 1 << 20 });
        let (background, runtime, metrics): (_, _, Arc<Metrics>) = serve_with(registry(), text, cache);
        let service = MixerService::new(Arc::clone(&runtime), metrics, Arc::default(), None);
        Self { background, runtime, service }
    }

    /// The answer without its duration, or the message of the failure.
    fn check(&self, body: Vec<u8>) -> Result<CheckResponse, String> {
        let mut answer =
            try_check_encoded(&self.background, &self.service, body).map_err(|error| error.message)?;
        if let Some(precondition) = &mut answer.precondition {
            precondition.valid_duration = None;
        }
        Ok(answer)
    }
}

fn encoded(attributes: &OwnedAttributes) -> Vec<u8> {
    encode_check_request(attributes, 0, &CheckCall { deduplication_id: "", quotas: BTreeMap::new() })
}

/// A request with the attribute, which has a value that cannot be read: no generator makes it, and whoever reads it finds none.
fn unreadable(attributes: &OwnedAttributes, name: &str) -> Vec<u8> {
    let mut request = CheckRequest::decode(&*encoded(attributes)).unwrap();
    let message = request.attributes.as_mut().unwrap();
    message.words.push(name.to_owned().into());
    let word = -i32::try_from(message.words.len()).unwrap();
    message.strings.insert(word, i32::MAX);
    request.encode_to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn cached_answers_equal_fresh_answers(
        generators in prop::collection::vec(generator(true), 1..4),
        checks in prop::collection::vec(rule(), 1..10),
        requests in prop::collection::vec((request(), prop::bool::weighted(0.1)), 1..60),
    ) {
        let text = configuration(&generators, &checks);
        let (cached, plain) = (Stage::new(&text, true), Stage::new(&text, false));
        let encode = |(request, spoils): &(OwnedAttributes, bool)| match request.get("s1") {
            None if *spoils => unreadable(request, "s1"),
            _ => encoded(request),
        };
        // Twice: the second round is answered from the cache.
        for request in requests.iter().chain(&requests) {
            let body = encode(request);
            prop_assert_eq!(cached.check(body.clone()), plain.check(body), "{:?}", request);
        }
    }

    /// A proxy of Istio reuses answers as the referenced attributes allow. Everything that has a map gets it from the caller or the first
    /// generator: the cache of the proxies does not distinguish an absent map from one without a key.
    #[test]
    fn answers_that_a_proxy_reuses_equal_fresh_answers(
        generators in prop::collection::vec(generator(false), 0..3),
        ignores in any::<bool>(),
        checks in prop::collection::vec(rule(), 1..10),
        requests in prop::collection::vec(request(), 1..60),
    ) {
        let of_maps = Generator {
            condition: String::new(),
            uid: r#"s2 | "y""#,
            port: "num | 0",
            bindings: [("m", "$out.source_labels | emptyStringMap()")].into(),
            ignores,
        };
        let generators: Vec<Generator> = std::iter::once(of_maps).chain(generators).collect();
        let plain = Stage::new(&configuration(&generators, &checks), false);
        let mut proxy = ProxyCache::default();
        for request in requests.iter().chain(&requests) {
            let Ok(fresh) = plain.check(encoded(request)) else { continue };
            // Nobody can tell where the map is from.
            prop_assert!(!ignores || fresh.precondition.as_ref().unwrap().valid_use_count > 0, "{:?}", request);
            if let Some(reused) = proxy.find(request) {
                let status = |answer: &CheckResponse| answer.precondition.clone().unwrap().status;
                prop_assert_eq!(status(&reused), status(&fresh), "{:?}", request);
            }
            proxy.put(request, fresh);
        }
    }
}

/// One generator of `s1` and `m`, which two rules read.
fn example() -> String {
    example_of(false)
}

/// The same. `ignores`: whether it replaces received attributes.
fn example_of(ignores: bool) -> String {
    let bindings = [("s1", r#"$out.source_pod_name | "a""#), ("m", "$out.source_labels | emptyStringMap()")];
    let generator = Generator {
        condition: String::new(),
        uid: r#"s2 | "y""#,
        port: "1",
        bindings: bindings.into(),
        ignores,
    };
    let rule =
        |condition: &str| Check { condition: condition.to_owned(), namespace: "istio-system", listed: None };
    let mut text = configuration(
        &[generator],
        &[rule(r#"num == 1 && s1 == "own""#), rule(r#"num == 2 && m["k"] == "own""#)],
    );
    text.push_str(
        "---\nkind: instance\nmetadata: {name: calls, namespace: istio-system}\n\
         spec: {compiledTemplate: quota, params: {dimensions: {label: 'm[\"k\"] | \"none\"'}}}\n\
         ---\nkind: handler\nmetadata: {name: calls, namespace: istio-system}\n\
         spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 100}]}}\n\
         ---\nkind: rule\nmetadata: {name: calls, namespace: istio-system}\n\
         spec: {actions: [{handler: calls, instances: [calls]}]}\n",
    );
    text
}

/// The code, the use count, and the referenced attributes besides those that choose the namespace.
fn summary(answer: &CheckResponse) -> (i32, i32, Vec<String>) {
    let precondition = answer.precondition.as_ref().unwrap();
    let referenced = precondition.referenced_attributes.as_ref().unwrap();
    let word = |index: i32| std::str::from_utf8(&referenced.words[usize::try_from(!index).unwrap()]).unwrap();
    let own = referenced.attribute_matches.iter().filter(|found| !word(found.name).contains('.'));
    let text = own.map(|found| match found.map_key {
        0 => format!("{} {}", word(found.name), found.condition),
        key => format!("{}[{}] {}", word(found.name), word(key), found.condition),
    });
    (precondition.status.as_ref().unwrap().code, precondition.valid_use_count, text.collect())
}

#[test]
fn a_value_of_the_caller_is_not_answered_as_a_generated_one() {
    let stage = Stage::new(&example(), true);
    let ask = |number: i64, more: Option<(&str, OwnedValue)>| {
        let mut request = OwnedAttributes::from_iter([("s2", "c")]);
        request.insert("num", number);
        if let Some((name, value)) = more {
            request.insert(name, value);
        }
        summary(&stage.check(encoded(&request)).unwrap())
    };
    let map = |key: &str| OwnedValue::StringMap([(key.into(), b"own".to_vec())].into());
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    for _ in 0..2 {
        assert_eq!(ask(1, None), (0, 10_000, texts(&["num 2", "s1 1", "s2 2"])));
        let own = ("s1", OwnedValue::String(b"own".to_vec()));
        assert_eq!(ask(1, Some(own)), (7, 1000, texts(&["num 2", "s1 2", "s2 2"])));
        // Proxies do not distinguish these three.
        assert_eq!(ask(2, None), (0, 0, texts(&["m 1", "num 2", "s2 2"])));
        assert_eq!(ask(2, Some(("m", map("l")))), (0, 0, texts(&["m[k] 1", "num 2", "s2 2"])));
        assert_eq!(ask(2, Some(("m", map("k")))), (7, 1000, texts(&["m[k] 2", "num 2", "s2 2"])));
    }
    let counters = stage.runtime.cache_counters();
    assert_eq!((counters.hits(), counters.misses()), (5, 5), "the server distinguishes all");
}

/// What a caller sends of a bound attribute changes nothing, and proxies reuse the answer.
#[test]
fn received_values_are_ignored_where_the_instance_says_so() {
    let stage = Stage::new(&example_of(true), true);
    let own = OwnedValue::StringMap([(b"k".to_vec(), b"own".to_vec())].into());
    let received = [None, Some(("m", own)), Some(("s1", OwnedValue::from("own")))];
    for number in [1, 2] {
        for value in &received {
            let mut request = OwnedAttributes::from_iter([("s2", "c")]);
            request.insert("num", number);
            if let Some((name, value)) = value.clone() {
                request.insert(name, value);
            }
            let expected = (0, 10_000, vec!["num 2".to_owned(), "s2 2".to_owned()]);
            assert_eq!(summary(&stage.check(encoded(&request)).unwrap()), expected, "{request:?}");
        }
    }
    let counters = stage.runtime.cache_counters();
    assert_eq!((counters.hits(), counters.misses()), (4, 2), "one answer for all that differ in these only");
}

/// Generators see what was received, and the first one of an attribute wins, also over one that replaces received values.
#[test]
fn one_instance_that_ignores_received_values_decides_for_all_that_bind_the_attribute() {
    let generator = |binding, ignores| Generator {
        condition: r#"(s1 | "") != "quiet""#.to_owned(),
        uid: r#""b""#,
        port: "1",
        bindings: [("s1", binding)].into(),
        ignores,
    };
    let check = Check { condition: r#"s1 == "first""#.to_owned(), namespace: "istio-system", listed: None };
    for ignores in [[true, false], [false, true]] {
        let generators = [generator(r#""first""#, ignores[0]), generator(r#"s1 | "second""#, ignores[1])];
        let stage = Stage::new(&configuration(&generators, std::slice::from_ref(&check)), false);
        let ask = |own: Option<&str>| {
            let request = OwnedAttributes::from_iter(own.map(|own| ("s1", own)));
            summary(&stage.check(encoded(&request)).unwrap())
        };
        assert_eq!(ask(None), (7, 1000, vec!["s1 1".to_owned()]), "{ignores:?}");
        assert_eq!(ask(Some("own")), (7, 1000, vec!["s1 2".to_owned()]), "{ignores:?}");
        assert_eq!(ask(Some("quiet")), (0, 10_000, vec!["s1 2".to_owned()]), "{ignores:?}");
    }
}

/// Nothing that is referenced tells one map from another.
#[test]
fn an_answer_made_from_a_whole_map_is_not_reused_by_proxies() {
    let text = BASE.to_owned()
        + r#"---
kind: handler
metadata: {name: gate, namespace: istio-system}
spec:
  compiledAdapter: opa
  params:
    checkMethod: data.gate.open
    policy:
    - |
      package gate
      default open = false
      open { input.subject.properties.all.k != "x" }
---
kind: instance
metadata: {name: who, namespace: istio-system}
spec: {compiledTemplate: authorization, params: {subject: {properties: {all: m}}, action: {path: '"/"'}}}
---
kind: rule
metadata: {name: ask, namespace: istio-system}
spec: {match: 'num == 1', actions: [{handler: gate, instances: [who]}]}
"#;
    let stage = Stage::new(&text, true);
    let ask = |number: i64, value: &str| {
        let mut request = OwnedAttributes::from_iter([("num", number)]);
        request.insert("m", [("k", value)]);
        let (code, uses, _) = summary(&stage.check(encoded(&request)).unwrap());
        (code, uses)
    };
    assert_eq!([ask(1, "x"), ask(1, "y")], [(7, 0), (0, 0)]);
    assert_eq!(ask(2, "x"), (0, 10_000), "the map is not used");
}

/// As Istio Mixer, proxies are told of what was received. The cache of the server knows the rest.
#[test]
fn as_istio_mixer_generated_attributes_are_not_referenced() {
    let text = example();
    let cache = Some(CheckCacheLimits { entries: 1000, bytes: 1 << 20 });
    let (background, runtime, metrics) = serve_with(registry(), &text, cache);
    let service = MixerService::over(Engine {
        runtime: Arc::clone(&runtime),
        metrics,
        last_known: Arc::default(),
        shedder: None,
        observers: None,
        limits: MessageLimits::default(),
        waiting: Arc::clone(MemoryBudget::default().share(Purpose::WaitingCalls)),
        as_istio_mixer: true,
    });
    let ask = |attributes: &OwnedAttributes| {
        summary(&try_check_encoded(&background, &service, encoded(attributes)).unwrap())
    };
    let mut request = OwnedAttributes::from_iter([("s2", "c")]);
    for (number, name, value) in [
        (1, "s1", OwnedValue::from("own")),
        (2, "m", OwnedValue::StringMap([(b"k".to_vec(), b"own".to_vec())].into())),
    ] {
        request.insert("num", number);
        request.remove(name);
        assert_eq!(ask(&request), (0, 10_000, vec!["num 2".to_owned(), "s2 2".to_owned()]));
        request.insert(name, value);
        assert_eq!(ask(&request).0, 7, "{name}");
    }
    assert_eq!(runtime.cache_counters().hits(), 0);
}

#[test]
fn a_value_that_cannot_be_read_is_not_answered_as_an_absent_one() {
    let stage = Stage::new(&example().replace(r#"s1 == \"own\""#, r#"s1 == \"ab\""#), true);
    let request = OwnedAttributes::from_iter([("num", 1)]);
    let code = |body: Vec<u8>| summary(&stage.check(body).unwrap()).0;
    let made = encoded(&request);
    assert_eq!(
        [code(unreadable(&request, "s1")), code(made.clone()), code(unreadable(&request, "s1"))],
        [0, 7, 0]
    );
    assert_eq!([code(made.clone()), code(made)], [7, 7]);
    assert_eq!(stage.runtime.cache_counters().hits(), 2);
}

/// Callers choose what a binding is evaluated over: its failure is none of the server.
#[test]
fn a_binding_that_fails_is_a_failure_of_the_request() {
    let bindings = [("s1", "$out.source_pod_name")];
    let generator = Generator {
        condition: String::new(),
        uid: r#"s2 | "c""#,
        port: "1",
        bindings: bindings.into(),
        ignores: false,
    };
    let (background, runtime, metrics) = serve_with(registry(), &configuration(&[generator], &[]), None);
    let (published, last_known) = (runtime.load(), LastKnownAnswers::default());
    let context = DispatchContext {
        metrics: &metrics,
        last_known: &last_known,
        deadline: None,
        trace: None,
        fired: None,
    };
    let vocabulary = &published.routes.snapshot().vocabulary;
    let arena = bumpalo::Bump::new();
    let preprocess = |text: &'static str| {
        let mut bag = AttributeBag::empty(vocabulary, &arena);
        bag.set(vocabulary.slot(b"s2").unwrap(), Value::String(text.as_bytes()));
        background.block_on(dispatch::preprocess(&published.routes, &mut bag, &context))
    };
    assert_eq!(preprocess("b"), Ok(()));
    let error = preprocess("c").unwrap_err();
    assert!(error.is_of_request, "{error}");
}

#[test]
fn a_quota_of_a_generated_map_is_not_taken_from_what_a_proxy_keeps() {
    let stage = Stage::new(&example(), false);
    let ask = |attributes: &OwnedAttributes| {
        let quotas = BTreeMap::from([("calls".to_owned(), (1, false))]);
        let answer =
            stage.check(encode_check_request(attributes, 0, &CheckCall { deduplication_id: "", quotas }));
        let answer = answer.unwrap();
        assert_eq!(answer.quotas["calls"].granted_amount, 1);
        summary(&answer)
    };
    let mut request = OwnedAttributes::from_iter([("s2", "c")]);
    let (code, uses, referenced) = ask(&request);
    assert_eq!((code, uses), (0, 0));
    assert!(
        !referenced.iter().any(|text| text.starts_with('m')),
        "the check does not read the map: {referenced:?}"
    );
    request.insert("m", [("k", "own")]);
    assert_eq!(ask(&request).1, 10_000);
}

/// What a generator made is not part of the request: whoever reads a record of a denial, or finds the answer in the cache, does not know it.
#[test]
fn a_secret_that_a_generator_made_is_masked_in_records_of_denials() {
    let generator = Generator {
        condition: String::new(),
        uid: r#"s2 | "c""#,
        port: "1",
        bindings: [("session.token", r#""hunter2hunter2""#)].into(),
        ignores: false,
    };
    let text = configuration(&[generator], &[])
        + r#"---
kind: attributemanifest
metadata: {name: sessions, namespace: istio-system}
spec: {attributes: {session.token: {valueType: STRING}}}
---
kind: handler
metadata: {name: known, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {overrides: [none], blacklist: false}}
---
kind: instance
metadata: {name: token, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: session.token}}
---
kind: rule
metadata: {name: known, namespace: istio-system}
spec: {actions: [{handler: known, instances: [token]}]}
"#;
    for has_cache in [false, true] {
        let stage = Stage::new(&text, has_cache);
        for _ in 0..2 {
            let answer = stage.check(encoded(&OwnedAttributes::from_iter([("s2", "b")]))).unwrap();
            let message = answer.precondition.unwrap().status.unwrap().message;
            assert!(message.contains("hunter2hunter2"), "the caller is told: {message}");
        }
        let published = stage.runtime.load_full();
        let denials = published.denials.list(&published.routes.snapshot().vocabulary);
        let shown: Vec<_> = denials.iter().map(|denial| (denial.cached, denial.message.as_str())).collect();
        let message = "known.istio-system:*** is not whitelisted";
        assert_eq!(shown, [(has_cache, message), (false, message)]);
    }
}
