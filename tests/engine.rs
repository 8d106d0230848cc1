//! Properties of the engine as a whole, over random rules and requests: looked-up rules are rules in order, cached answers are
//! fresh answers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use mixer_api::MixerService;
use mixer_api::proto::istio::mixer::v1::CheckResponse;
use mixer_attribute::request::{
    CheckCall, ReportWords, Semantics, encode_check_request, encode_report_request,
};
use mixer_attribute::{AttributeBag, OwnedAttributes, OwnedValue, Value};
use mixer_base::metrics::Metrics;
use mixer_config::store::MemoryStore;
use mixer_engine::adapter::{Commons, SystemClock};
use mixer_engine::check_cache::CheckCacheLimits;
use mixer_engine::handler::HandlerEnvironment;
use mixer_engine::routing::{RoutingTable, RuleKind};
use mixer_engine::runtime::{Configurator, ConfiguratorOptions, Runtime};
use mixer_engine::snapshot::{Condition, SnapshotBuilder, SnapshotOptions};
use proptest::prelude::*;
use prost::Message as _;

/// Vocabulary, a denier with a message for each rule, and what the rules give to it.
const BASE: &str = r#"
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

/// One test of a condition.
fn test() -> impl Strategy<Value = String> {
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

fn condition() -> impl Strategy<Value = String> {
    prop::collection::vec(test(), 0..4).prop_map(|tests| tests.join(" && "))
}

fn attributes() -> impl Strategy<Value = OwnedAttributes> {
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
            // Now and then an attribute of another type than declared.
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

/// A rule with a handler of its own for each condition, so that an answer tells which rules matched.
fn configuration(conditions: &[String]) -> String {
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

/// A runtime that serves `text`.
fn serve(
    text: &str,
    cache: Option<CheckCacheLimits>,
) -> (tokio::runtime::Runtime, Arc<Runtime>, Arc<Metrics>) {
    let (background, runtime, metrics, ..) = serve_editable(text, cache);
    assert_eq!(runtime.load_full().diagnostics, Vec::new(), "the configuration is sound");
    (background, runtime, metrics)
}

/// A runtime that serves `text`, with the store that holds it and what follows the store.
fn serve_editable(
    text: &str,
    cache: Option<CheckCacheLimits>,
) -> (tokio::runtime::Runtime, Arc<Runtime>, Arc<Metrics>, Arc<MemoryStore>, Configurator) {
    let background = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let metrics = Arc::new(Metrics::new());
    let builder = SnapshotBuilder::new(SnapshotOptions::new(mixer_server::REGISTRY));
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
    };
    let mut configurator = Configurator::new(Arc::clone(&runtime), builder, options);
    background.block_on(configurator.apply());
    (background, runtime, metrics, store, configurator)
}

/// A runtime whose configuration can be changed.
struct Served {
    background: tokio::runtime::Runtime,
    runtime: Arc<Runtime>,
    metrics: Arc<Metrics>,
    store: Arc<MemoryStore>,
    configurator: Configurator,
}

impl Served {
    fn start(text: &str, cache: Option<CheckCacheLimits>) -> Self {
        let (background, runtime, metrics, store, configurator) = serve_editable(text, cache);
        Self { background, runtime, metrics, store, configurator }
    }

    fn change(&mut self, text: &str) {
        self.store.set([("rules.yaml", text)]);
        self.apply();
    }

    fn apply(&mut self) {
        self.background.block_on(self.configurator.apply());
        let published = self.runtime.load_full();
        assert_eq!(published.diagnostics, Vec::new(), "the configuration is sound");
    }

    fn service(&self) -> MixerService {
        MixerService::new(Arc::clone(&self.runtime), Arc::clone(&self.metrics), Arc::default(), None)
    }

    /// The answer but for its duration, which shrinks while it is kept.
    fn check(&self, service: &MixerService, attributes: &OwnedAttributes) -> CheckResponse {
        let mut answer = check(&self.background, service, attributes);
        if let Some(precondition) = &mut answer.precondition {
            precondition.valid_duration = None;
        }
        answer
    }
}

fn wire(attributes: &OwnedAttributes) -> Vec<u8> {
    attributes.to_bytes(0)
}

/// Names of the rules that match by look-up, and what was read.
fn looked_up(table: &RoutingTable, bytes: &[u8]) -> (Vec<String>, Vec<String>) {
    let arena = Bump::new();
    let bag = AttributeBag::decode(bytes, None, &table.snapshot().vocabulary, &arena).unwrap();
    let rules = table.select(RuleKind::Check, &bag);
    let mut matched = ArenaVec::new_in(&arena);
    rules.sets().for_each(|set| {
        set.matches(&bag, &mut matched);
    });
    let names = matched.iter().filter(|m| m.failed.is_none()).map(|m| m.route.rule.key.to_string()).collect();
    (names, references(&bag))
}

/// The same by evaluating every rule in order.
fn evaluated(table: &RoutingTable, bytes: &[u8]) -> (Vec<String>, Vec<String>) {
    let arena = Bump::new();
    let bag = AttributeBag::decode(bytes, None, &table.snapshot().vocabulary, &arena).unwrap();
    // Choosing the namespace reads attributes too.
    table.namespace_of(&bag);
    let mut names = Vec::new();
    for rule in &table.snapshot().rules {
        let holds = match &rule.condition {
            Condition::Always => true,
            Condition::Broken(_) => false,
            Condition::When(program) => program.eval(&bag) == Ok(Value::Bool(true)),
        };
        if holds {
            names.push(rule.key.to_string());
        }
    }
    (names, references(&bag))
}

fn references(bag: &AttributeBag<'_>) -> Vec<String> {
    bag.references().iter().map(mixer_engine::explain::reference_text).collect()
}

fn check(
    background: &tokio::runtime::Runtime,
    service: &MixerService,
    attributes: &OwnedAttributes,
) -> CheckResponse {
    let call = CheckCall { deduplication_id: "", quotas: BTreeMap::new() };
    let body = encode_check_request(attributes, 0, &call);
    let framed = background.block_on(service.check(body.into(), None)).unwrap();
    CheckResponse::decode(framed.slice(5..)).unwrap()
}

/// Handlers and instances of every variety, and rules that bind each pair, so that other rules change no handler.
const PAIRS: &str = r#"
---
kind: attributemanifest
metadata: {name: more, namespace: istio-system}
spec: {attributes: {destination.namespace: {valueType: STRING}, context.reporter.kind: {valueType: STRING}}}
---
kind: handler
metadata: {name: gate, namespace: istio-system}
spec: {compiledAdapter: denier}
---
kind: handler
metadata: {name: any, namespace: istio-system}
spec: {compiledAdapter: noop}
---
kind: instance
metadata: {name: size, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: num, dimensions: {a: s1, b: s2}}}
---
kind: instance
metadata: {name: count, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {a: s1}}}
---
kind: rule
metadata: {name: bind, namespace: istio-system}
spec:
  actions:
  - {handler: gate, instances: [nothing, count]}
  - {handler: any, instances: [nothing, size, count]}
"#;

/// A rule in one of its versions.
#[derive(Debug, Clone)]
struct Version {
    namespace: &'static str,
    annotations: &'static str,
    condition: String,
    actions: &'static str,
    headers: bool,
}

fn version() -> impl Strategy<Value = Version> {
    let few = prop_oneof![
        Just(r#"s1 == "a" && num == 1"#.to_owned()),
        Just(r#"s1 == "a" && num == 2"#.to_owned()),
        Just(r#"s1 == "b""#.to_owned()),
        Just("nobody == 1".to_owned()),
    ];
    (
        prop_oneof![3 => Just("istio-system"), 1 => Just("tea"), 1 => Just("coffee")],
        prop_oneof![
            4 => Just(""),
            1 => Just("mixer.dev/on-error: deny"),
            1 => Just("mixer.dev/on-error: allow"),
            1 => Just("mixer.dev/dry-run: \"true\""),
        ],
        prop_oneof![condition(), few],
        prop_oneof![
            Just("{handler: gate.istio-system, instances: [nothing.istio-system]}"),
            Just("{handler: any.istio-system, instances: [nothing.istio-system, size.istio-system]}"),
            Just("{handler: any.istio-system, instances: [count.istio-system]}"),
            Just("{handler: ghost, instances: [nothing.istio-system]}"),
        ],
        any::<bool>(),
    )
        .prop_map(|(namespace, annotations, condition, actions, headers)| Version {
            namespace,
            annotations,
            condition,
            actions,
            headers,
        })
}

/// Rules by number, behind `lines` lines of comment.
fn edited(rules: &BTreeMap<usize, Version>, lines: usize) -> String {
    let mut text = format!("{}{BASE}{PAIRS}", "# moved\n".repeat(lines));
    for (number, rule) in rules {
        let condition = serde_json::Value::from(rule.condition.as_str());
        let headers = if rule.headers { "[{name: x, operation: REMOVE}]" } else { "[]" };
        let (namespace, annotations, actions) = (rule.namespace, rule.annotations, rule.actions);
        write!(
            text,
            "---\nkind: rule\nmetadata: {{name: r{number}, namespace: {namespace}, annotations: {{{annotations}}}}}\n\
             spec: {{match: {condition}, actions: [{actions}], requestHeaderOperations: {headers}}}\n"
        )
        .unwrap();
    }
    text
}

/// Everything that a request sees of a table: rules by kind with their actions, failed conditions, references.
fn seen(table: &RoutingTable, bytes: &[u8]) -> Vec<String> {
    let mut seen = Vec::new();
    for kind in [RuleKind::Generate, RuleKind::Check, RuleKind::Quota, RuleKind::Report, RuleKind::Headers] {
        let arena = Bump::new();
        let bag = AttributeBag::decode(bytes, None, &table.snapshot().vocabulary, &arena).unwrap();
        for (dry_run, rules) in
            [(false, Some(table.select(kind, &bag))), (true, table.select_dry_run(kind, &bag))]
        {
            let Some(rules) = rules else { continue };
            let mut matched = ArenaVec::new_in(&arena);
            let failures: usize = rules.sets().map(|set| set.matches(&bag, &mut matched)).sum();
            seen.push(format!("{kind:?} {dry_run} {failures} failed, {} destinations", rules.destinations()));
            for hit in matched {
                seen.push(format!("{} {:?}", hit.route.rule.key, hit.failed.is_some()));
                for action in &hit.route.actions {
                    let handler = action.handler.name();
                    let instances = action.instances.iter().map(|i| (i.config.name(), i.bound));
                    seen.push(format!("{} {handler} {:?}", action.index, instances.collect::<Vec<_>>()));
                    for instance in &action.instances {
                        let destination = table.destinations().get(instance.destination.index()).unwrap();
                        assert!(Arc::ptr_eq(&destination.handler, &action.handler));
                        assert_eq!(destination.template.name, instance.config.template().name);
                    }
                }
            }
        }
        seen.extend(references(&bag));
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn edited_rules_are_routed_like_fresh_ones(
        first in prop::collection::btree_map(0_usize..60, version(), 8..50),
        edits in prop::collection::vec(
            (prop::collection::vec((0_usize..60, prop::option::of(version())), 1..4), 0_usize..3), 1..8),
        requests in prop::collection::vec((attributes(), 0_usize..2), 1..8),
    ) {
        let mut rules = first;
        let (background, runtime, _, store, mut configurator) = serve_editable(&edited(&rules, 0), None);
        for (changes, lines) in edits {
            for (number, version) in changes {
                match version {
                    Some(version) => drop(rules.insert(number, version)),
                    None => drop(rules.remove(&number)),
                }
            }
            let text = edited(&rules, lines);
            store.set([("rules.yaml", text.as_str())]);
            background.block_on(configurator.apply());
            let (_other, fresh, ..) = serve_editable(&text, None);
            let (patched, fresh) = (runtime.load_full(), fresh.load_full());
            let texts = |all: &[mixer_config::Diagnostic]| {
                all.iter().map(|d| format!("{} {:?} {}", d.code, d.span, d.message)).collect::<Vec<_>>()
            };
            prop_assert_eq!(texts(&patched.diagnostics), texts(&fresh.diagnostics));
            for (request, namespace) in &requests {
                let mut request = request.clone();
                request.insert("destination.namespace", if *namespace == 0 { "tea" } else { "coffee" });
                let bytes = wire(&request);
                prop_assert_eq!(seen(&patched.routes, &bytes), seen(&fresh.routes, &bytes));
            }
        }
    }

    #[test]
    fn looked_up_rules_are_rules_in_order(
        conditions in prop::collection::vec(condition(), 1..40),
        requests in prop::collection::vec(attributes(), 1..20),
    ) {
        let (_background, runtime, _) = serve(&configuration(&conditions), None);
        let published = runtime.load_full();
        for request in &requests {
            let bytes = wire(request);
            prop_assert_eq!(looked_up(&published.routes, &bytes), evaluated(&published.routes, &bytes));
        }
    }

    #[test]
    fn cached_answers_are_fresh_answers(
        conditions in prop::collection::vec(condition(), 1..12),
        requests in prop::collection::vec(attributes(), 1..60),
    ) {
        let text = configuration(&conditions);
        let limits = CheckCacheLimits { entries: 1000, bytes: 1 << 20 };
        let (background, cached, metrics) = serve(&text, Some(limits));
        let (_other, plain, _) = serve(&text, None);
        let service = |runtime: &Arc<Runtime>| {
            MixerService::new(Arc::clone(runtime), Arc::clone(&metrics), Arc::default(), None)
        };
        let (cached, plain) = (service(&cached), service(&plain));
        // Twice, so that the second round is answered from the cache.
        for request in requests.iter().chain(&requests) {
            let (mut a, mut b) = (check(&background, &cached, request), check(&background, &plain, request));
            for answer in [&mut a, &mut b] {
                if let Some(precondition) = &mut answer.precondition {
                    precondition.valid_duration = None;
                }
            }
            prop_assert_eq!(a, b);
        }
    }

    #[test]
    fn cached_answers_are_fresh_answers_whatever_is_reloaded(
        turns in prop::collection::vec(
            (prop::collection::vec(condition(), 1..6), any::<bool>(), prop::collection::vec(attributes(), 1..8)),
            1..6,
        ),
    ) {
        let limits = CheckCacheLimits { entries: 1000, bytes: 1 << 20 };
        let mut cached = Served::start(&configuration(&[]), Some(limits));
        let mut plain = Served::start(&configuration(&[]), None);
        let (with, without) = (cached.service(), plain.service());
        let mut requests = Vec::new();
        let mut rules: Vec<String> = Vec::new();
        for (conditions, keeps, more) in turns {
            // Every other time nothing changes that decides, or nothing at all.
            if !keeps {
                rules = conditions;
            }
            let text = configuration(&rules) + &bystander(requests.len());
            cached.change(&text);
            plain.change(&text);
            requests.extend(more);
            // All that was ever asked, so that an answer of an earlier configuration would show.
            for request in requests.iter().chain(&requests) {
                prop_assert_eq!(cached.check(&with, request), plain.check(&without, request));
            }
        }
    }
}

/// Something that has no say in checks.
fn bystander(number: usize) -> String {
    format!(
        "---\nkind: handler\nmetadata: {{name: bystander, namespace: istio-system}}\nspec: {{compiledAdapter: noop}}\n\
         ---\nkind: instance\nmetadata: {{name: report, namespace: istio-system}}\n\
         spec: {{compiledTemplate: reportnothing}}\n\
         ---\nkind: rule\nmetadata: {{name: bystander, namespace: istio-system}}\n\
         spec: {{match: num == {number}, actions: [{{handler: bystander, instances: [report]}}]}}\n"
    )
}

#[test]
fn only_what_decides_checks_empties_their_cache() {
    let rule = |text: &str| configuration(&[format!(r#"s1 == "{text}""#)]);
    let limits = CheckCacheLimits { entries: 1000, bytes: 1 << 20 };
    let mut served = Served::start(&rule("a"), Some(limits));
    let service = served.service();
    let mut request = OwnedAttributes::new();
    request.insert("s1", "a");
    let counters = Arc::clone(served.runtime.cache_counters());
    let mut hits = 0;
    // The second time finds what the first one left, and so does every change that does not decide.
    for (text, found) in [
        (rule("a"), false),
        (rule("a"), true),
        (rule("a") + &bystander(1), true),
        (rule("a") + &bystander(2), true),
        (rule("b") + &bystander(2), false),
        (rule("b"), true),
        // Another handler behind the same rule.
        (rule("b").replace("message: m0", "message: other"), false),
        (rule("b").replace("message: m0", "message: other"), true),
        // Another type of an attribute.
        (rule("b").replace("num: {valueType: INT64}", "num: {valueType: STRING}"), false),
        (configuration(&[]), false),
        (rule("b"), false),
    ] {
        served.change(&text);
        served.check(&service, &request);
        hits += u64::from(found);
        assert_eq!(counters.hits(), hits, "{text}");
    }
    assert_eq!(counters.hits() + counters.misses(), 11);
    assert_eq!(counters.writes(), counters.misses());
    assert_eq!(counters.evictions(), 0);
}

/// A list that cannot be fetched, so that its handler fails every check; `{}` is an annotation.
const FAILING: &str = r#"
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec: {attributes: {s1: {valueType: STRING}}}
---
kind: instance
metadata: {name: entry, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: 's1 | "x"'}}
---
kind: handler
metadata: {name: list, namespace: istio-system, annotations: {ANNOTATION}}
spec: {compiledAdapter: listchecker, params: {providerUrl: "http://127.0.0.1:9/none"}}
---
kind: rule
metadata: {name: ask, namespace: istio-system}
spec: {actions: [{handler: list, instances: [entry]}]}
"#;

/// Code and message of the answer, or of the failed call.
fn outcome(text: &str, attributes: &OwnedAttributes) -> (i32, String) {
    let (background, runtime, metrics) = serve(text, None);
    let service = MixerService::new(runtime, metrics, Arc::default(), None);
    let call = CheckCall { deduplication_id: "", quotas: BTreeMap::new() };
    let body = encode_check_request(attributes, 0, &call);
    match background.block_on(service.check(body.into(), None)) {
        Err(error) => (-1, error.message),
        Ok(framed) => {
            let answer = CheckResponse::decode(framed.slice(5..)).unwrap();
            let status = answer.precondition.unwrap().status.unwrap();
            (status.code, status.message)
        }
    }
}

#[test]
fn a_failing_handler_does_what_its_annotation_says() {
    for (annotation, code, text) in [
        ("", -1, "performing check operation failed: 1 error occurred:"),
        ("mixer.dev/on-error: allow", 0, ""),
        (
            "mixer.dev/on-error: deny",
            7,
            "list.istio-system:handler `list.istio-system` failed: could not fetch list",
        ),
        (
            "mixer.dev/on-error: lastKnown",
            7,
            "list.istio-system:handler `list.istio-system` failed and has no last answer",
        ),
    ] {
        let (found, message) = outcome(&FAILING.replace("ANNOTATION", annotation), &OwnedAttributes::new());
        assert_eq!(found, code, "{annotation}: {message}");
        assert!(message.starts_with(text), "{annotation}: {message}");
    }
}

#[test]
fn a_failing_condition_does_what_the_annotation_of_its_rule_says() {
    let rules = |annotation: &str| {
        format!(
            "{BASE}---\nkind: handler\nmetadata: {{name: h, namespace: istio-system}}\n\
             spec: {{compiledAdapter: noop}}\n---\nkind: rule\n\
             metadata: {{name: r, namespace: istio-system, annotations: {{{annotation}}}}}\n\
             spec: {{match: s1 == \"a\", actions: [{{handler: h, instances: [nothing]}}]}}\n"
        )
    };
    for (annotation, code, text) in [
        ("", 0, ""),
        ("mixer.dev/on-error: allow", 0, ""),
        (
            "mixer.dev/on-error: deny",
            7,
            "mixer:condition of rule `r.rule.istio-system` failed: lookup failed: 's1'",
        ),
    ] {
        let found = outcome(&rules(annotation), &OwnedAttributes::new());
        assert_eq!(found, (code, text.to_owned()), "{annotation}");
    }
}

/// A denier, a quota and header operations, each in a rule of its own; `{}` is the annotation of all of them.
const TRIED: &str = r#"
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec: {attributes: {s1: {valueType: STRING}, s2: {valueType: STRING}}}
---
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {who: 's1 | "x"'}}}
---
kind: instance
metadata: {name: lines, namespace: istio-system}
spec: {compiledTemplate: reportnothing}
---
kind: handler
metadata: {name: refuse, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7, message: closed}, validDuration: 1s, validUseCount: 3}}
---
kind: handler
metadata: {name: few, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 2, validDuration: 60s}]}}
---
kind: handler
metadata: {name: nowhere, namespace: istio-system}
spec: {compiledAdapter: noop}
---
kind: rule
metadata: {name: deny, namespace: istio-system, annotations: {ANNOTATION}}
spec: {match: 's2 == "a"', actions: [{handler: refuse, instances: [nothing]}]}
---
kind: rule
metadata: {name: limit, namespace: istio-system, annotations: {ANNOTATION}}
spec: {actions: [{handler: few, instances: [calls]}]}
---
kind: rule
metadata: {name: mark, namespace: istio-system, annotations: {ANNOTATION}}
spec: {requestHeaderOperations: [{name: x-mark, values: ['"yes"']}]}
---
kind: rule
metadata: {name: tell, namespace: istio-system, annotations: {ANNOTATION}}
spec: {actions: [{handler: nowhere, instances: [lines]}]}
"#;

/// Answers to a check with a quota of 5, and the lines of the metrics about rules in dry run.
fn tried(text: &str, s2: &str) -> (CheckResponse, Vec<String>) {
    let (background, runtime, metrics) = serve(text, None);
    let service = MixerService::new(runtime, Arc::clone(&metrics), Arc::default(), None);
    let attributes: OwnedAttributes = [("s1", "me"), ("s2", s2)].into_iter().collect();
    let quotas = BTreeMap::from([("calls".to_owned(), (5, true))]);
    let body = encode_check_request(&attributes, 0, &CheckCall { deduplication_id: "1", quotas });
    let framed = background.block_on(service.check(body.into(), None)).unwrap();
    let report = encode_report_request([&attributes], 0, ReportWords::Own, Semantics::Delta);
    background.block_on(service.report(report.into(), None)).unwrap();
    let mut exposition = Vec::new();
    metrics.write(&mut exposition);
    let exposition = String::from_utf8(exposition).unwrap();
    let lines = exposition
        .lines()
        .filter(|line| line.starts_with("mixer_dry_run_outcomes_total{") && !line.ends_with(" 0"));
    (CheckResponse::decode(framed.slice(5..)).unwrap(), lines.map(str::to_owned).collect())
}

#[test]
fn rules_in_dry_run_are_counted_and_change_no_bit_of_the_answer() {
    let dry = TRIED.replace("ANNOTATION", r#"mixer.dev/dry-run: "true""#);
    let enforced = TRIED.replace("ANNOTATION", r#"mixer.dev/dry-run: "false""#);
    let none = TRIED.split("---\nkind: rule").next().unwrap();
    let line = |outcome: &str, rule: &str, variety: &str| {
        format!(
            "mixer_dry_run_outcomes_total{{outcome=\"{outcome}\",rule=\"{rule}.rule.istio-system\",variety=\"{variety}\"}} 1"
        )
    };

    let (answer, counted) = tried(&dry, "a");
    assert_eq!(answer, tried(none, "a").0, "as if the rules were not there");
    assert_eq!(
        counted,
        [
            line("denied", "deny", "check"),
            line("matched", "mark", "headers"),
            line("matched", "tell", "report"),
            line("refused", "limit", "quota"),
        ]
    );
    let (answer, counted) = tried(&dry, "b");
    assert_eq!(answer, tried(none, "b").0);
    assert!(!counted.iter().any(|line| line.contains("deny")), "{counted:?}");

    let (refused, counted) = tried(&enforced, "a");
    assert_eq!(refused.precondition.unwrap().status.unwrap().code, 7);
    assert_eq!(counted, [""; 0]);
    let (passed, _) = tried(&enforced, "b");
    assert_eq!(passed.quotas.get("calls").unwrap().granted_amount, 2);
    assert!(passed.precondition.unwrap().route_directive.is_some());
}

/// What the check cache knows must not hide requests from rules in dry run, nor may these hide what it knows from requests that they
/// have no say in.
#[test]
fn rules_in_dry_run_count_requests_that_a_cache_could_answer() {
    let text = TRIED.split("---\nkind: rule").next().unwrap().to_owned()
        + "---\nkind: rule\nmetadata: {name: enforced, namespace: istio-system}\n\
           spec: {match: 's1 == \"bad\"', actions: [{handler: refuse, instances: [nothing]}]}\n\
           ---\nkind: rule\nmetadata: {name: tried, namespace: istio-system, annotations: {mixer.dev/dry-run: \"true\"}}\n\
           spec: {match: 's2 == \"a\"', actions: [{handler: refuse, instances: [nothing]}]}\n";
    let (background, runtime, metrics) =
        serve(&text, Some(CheckCacheLimits { entries: 1000, bytes: 1 << 20 }));
    let service = MixerService::new(Arc::clone(&runtime), Arc::clone(&metrics), Arc::default(), None);
    let ask = |s1: &str, s2: &str| {
        let attributes: OwnedAttributes = [("s1", s1), ("s2", s2)].into_iter().collect();
        let answer = check(&background, &service, &attributes).precondition.unwrap();
        let referenced = answer.referenced_attributes.unwrap().attribute_matches.len();
        (answer.status.map_or(0, |status| status.code), referenced)
    };
    let hits = || runtime.cache_counters().hits();
    // Kept: no rule in dry run applies. That it was asked does not show.
    let (code, referenced) = ask("good", "b");
    assert_eq!((code, hits()), (0, 0));
    assert_eq!(ask("good", "b"), (0, referenced));
    assert_eq!(hits(), 1);
    // Equal in all that decides, and yet not the same for the rule in dry run.
    for _ in 0..3 {
        assert_eq!(ask("good", "a"), (0, referenced));
        assert_eq!(ask("bad", "a").0, 7);
    }
    assert_eq!(hits(), 1);
    assert_eq!(ask("good", "b").0, 0);
    assert_eq!(hits(), 2);
    let mut exposition = Vec::new();
    metrics.write(&mut exposition);
    let exposition = String::from_utf8(exposition).unwrap();
    let expected = "mixer_dry_run_outcomes_total{outcome=\"denied\",rule=\"tried.rule.istio-system\",variety=\"check\"} 6";
    assert!(exposition.lines().any(|line| line == expected), "{exposition}");
}

#[test]
fn a_rule_in_dry_run_takes_nothing_from_a_quota_in_force() {
    let second = "---\nkind: rule\nmetadata: {name: again, namespace: istio-system, annotations: {mixer.dev/dry-run: \"true\"}}\n\
                  spec: {actions: [{handler: few, instances: [calls]}]}\n";
    let text = TRIED.replace("ANNOTATION", "") + second;
    let (answer, counted) = tried(&text, "b");
    assert_eq!(answer, tried(&TRIED.replace("ANNOTATION", ""), "b").0);
    let expected = "mixer_dry_run_outcomes_total{outcome=\"matched\",rule=\"again.rule.istio-system\",variety=\"quota\"} 1";
    assert_eq!(counted, [expected], "the handler is not asked: its cells are those of real requests");
}

#[test]
fn what_a_quota_reads_is_not_part_of_the_cache_key() {
    let text = TRIED.replace("ANNOTATION", "");
    let (background, runtime, metrics) =
        serve(&text, Some(CheckCacheLimits { entries: 1000, bytes: 1 << 20 }));
    let service = MixerService::new(Arc::clone(&runtime), metrics, Arc::default(), None);
    let attributes = |s1: &str| [("s1", s1), ("s2", "b")].into_iter().collect::<OwnedAttributes>();
    let quotas = BTreeMap::from([("calls".to_owned(), (1, false))]);
    let body = encode_check_request(&attributes("me"), 0, &CheckCall { deduplication_id: "1", quotas });
    let framed = background.block_on(service.check(body.into(), None)).unwrap();
    assert_eq!(CheckResponse::decode(framed.slice(5..)).unwrap().quotas["calls"].granted_amount, 1);
    assert_eq!(runtime.cache_counters().writes(), 1);
    // The quota reads `s1`, the check does not.
    let response = check(&background, &service, &attributes("other"));
    assert_eq!(response.precondition.unwrap().status.map_or(0, |status| status.code), 0);
    assert_eq!(runtime.cache_counters().hits(), 1);
}
