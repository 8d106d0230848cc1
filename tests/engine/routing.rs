//! The predicate index and incremental builds, compared with rules in order and full builds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use mixer_attribute::{AttributeBag, OwnedAttributes, Value};
use mixer_engine::routing::{MatchCounts, RoutingTable, RuleKind};
use mixer_engine::snapshot::Condition;
use proptest::prelude::*;

use crate::fixture::{BASE, attributes, condition, configuration, serve, serve_editable};

fn wire(attributes: &OwnedAttributes) -> Vec<u8> {
    attributes.to_bytes(0)
}

/// Names of the rules that the index finds, and the referenced attributes.
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
    // The choice of the namespace references attributes too.
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

/// Handlers and instances of every variety, all bound by a rule, so that other rules change no handler.
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

/// A version of a rule.
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

/// Rules by number, after `lines` lines of comment.
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

/// What a request reads of a table: rules by kind with their actions, failed conditions, referenced attributes.
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
            let mut counts = MatchCounts::default();
            rules.sets().for_each(|set| counts += set.matches(&bag, &mut matched));
            // The work that finds them depends on the edits: a branch of the index stays when one condition is left in it.
            let MatchCounts { failures, groups, .. } = counts;
            let destinations = rules.destinations();
            seen.push(format!(
                "{kind:?} {dry_run} {failures} failures, {groups} of {destinations} destinations"
            ));
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
    fn an_incremental_build_equals_a_full_build(
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
    fn indexed_rules_match_like_rules_in_order(
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
}
