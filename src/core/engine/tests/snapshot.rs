//! Snapshots of complete configurations, with the built-in adapters.

#![cfg(test)]

#[path = "snapshot/comparisons.rs"]
mod comparisons;
#[path = "snapshot/external.rs"]
mod external;
#[path = "snapshot/lint.rs"]
mod lint;
#[path = "snapshot/standard.rs"]
mod standard;
#[path = "snapshot/superfluous.rs"]
mod superfluous;

use std::collections::HashSet;
use std::sync::Arc;

use mixer_config::store::{ConfigStore, MemoryStore, StoreContents};
use mixer_config::{Diagnostic, Severity};
use mixer_engine::snapshot::{Condition, Registry, Snapshot, SnapshotBuilder, SnapshotOptions};

fn options() -> SnapshotOptions {
    SnapshotOptions::new(Registry { adapters: mixer_adapters::INVENTORY, extensions: &[] })
}

fn build(text: &str) -> Arc<Snapshot> {
    build_all(&mut SnapshotBuilder::new(options()), &[("a.yaml", text)])
}

fn build_all(builder: &mut SnapshotBuilder, files: &[(&str, &str)]) -> Arc<Snapshot> {
    builder.build(&MemoryStore::new("memory://test", files.iter().copied()).contents())
}

fn log_texts(snapshot: &Snapshot) -> Vec<String> {
    snapshot.diagnostics.iter().map(|d| d.log_text().into_owned()).collect()
}

fn positions(snapshot: &Snapshot) -> Vec<String> {
    let position = |d: &Diagnostic| {
        let start = d.span.unwrap().start;
        format!("{}:{}:{} {}", d.file.as_deref().unwrap(), start.line, start.column, d.code)
    };
    snapshot.diagnostics.iter().map(position).collect()
}

const MANIFEST: &str = "
kind: attributemanifest
metadata: {name: m, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    request.size: {valueType: INT64}
    request.path: {valueType: STRING}
    source.labels: {valueType: STRING_MAP}
---
kind: handler
metadata: {name: deny, namespace: istio-system}
spec: {compiledAdapter: denier}
---
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
";

fn with_manifest(text: &str) -> Arc<Snapshot> {
    build(&format!("{MANIFEST}{text}"))
}

#[test]
fn sample_configuration_has_no_problems() {
    let store = mixer_config::store::open(mixer_config::store::EMBEDDED_SAMPLE).unwrap();
    let snapshot = SnapshotBuilder::new(options()).build(&store.contents());
    let found = snapshot.diagnostics.iter().map(|d| d.code).collect::<HashSet<_>>();
    if !found.contains("adapter-unknown") {
        assert_eq!(log_texts(&snapshot), Vec::<String>::new());
    }
    assert!(!snapshot.rules.is_empty());
}

#[test]
fn each_problem_of_a_rule_has_its_position() {
    let snapshot = with_manifest(
        "kind: rule
metadata:
  name: crooked
  namespace: istio-system
spec:
  match: source.user = = \"x\"
  actions:
  - handler: ghost.denier
    instances: [nothing]
",
    );
    assert_eq!(
        log_texts(&snapshot),
        [
            "rule=crooked.rule.istio-system: No valid actions found in rule",
            "rule='crooked.rule.istio-system'.Match: failed to parse expression 'source.user = = \"x\"': \
             unable to parse expression 'source.user = = \"x\"': 1:13: expected '==', found '='",
            "action='crooked.rule.istio-system[0]': Handler not found: handler='ghost.denier'",
        ]
    );
    assert_eq!(
        positions(&snapshot),
        ["a.yaml:21:9 rule-empty", "a.yaml:24:10 expression-parse", "a.yaml:26:14 handler-unknown"]
    );
}

/// The log of `mixs` has the words of Istio Mixer.
#[test]
fn users_are_told_of_expressions_and_fields_in_their_words() {
    let told = |text: &str| {
        let snapshot = with_manifest(text);
        let errors = snapshot.diagnostics.iter().filter(|problem| problem.severity == Severity::Error);
        errors.map(|problem| (problem.message.clone(), problem.log_text().into_owned())).collect::<Vec<_>>()
    };
    let rule = |spec: &str| {
        told(&format!("kind: rule\nmetadata: {{name: r, namespace: istio-system}}\nspec: {spec}\n"))
    };
    let actions = "actions: [{handler: deny, instances: [nothing]}]";
    let legacy = "EQ($source.user, 80) arg 2 (80) typeError got INT64, expected STRING";
    assert_eq!(
        rule(&format!("{{match: source.user == 80, {actions}}}")),
        [(
            "`80` is INT64, expected STRING".to_owned(),
            format!("rule='r.rule.istio-system'.Match: {legacy}")
        )]
    );
    let header = rule(&format!(
        "{{{actions}, requestHeaderOperations: [{{name: x-a, values: ['conditional(source.user == 80, source.user, source.user)']}}]}}"
    ));
    assert_eq!(header.len(), 1, "{header:?}");
    assert!(
        header.iter().all(|(message, log)| {
            message.contains("\"`80` is INT64, expected STRING\"")
                && log.contains("typeError")
                && !message.contains("typeError")
        }),
        "{header:?}"
    );
    assert_eq!(
        told(
            "kind: instance\nmetadata: {name: i, namespace: istio-system}\n\
             spec: {compiledTemplate: listentry, params: {value: toLower(request.size)}}\n"
        ),
        [(
            "failed to evaluate expression for field 'Value'; `request.size` is INT64, expected STRING"
                .to_owned(),
            "instance='i.instance.istio-system': failed to evaluate expression for field 'Value'; \
             toLower($request.size) arg 1 ($request.size) typeError got INT64, expected STRING"
                .to_owned()
        )]
    );
    let unknown = rule("{action: []}");
    assert!(
        unknown.contains(&(
            "unknown field \"action\"".to_owned(),
            "Failed to convert r.rule.istio-system spec: unknown field \"action\" in v1beta1.Rule".to_owned()
        )),
        "{unknown:?}"
    );
}

/// A document has a problem in three bytes; nobody reads more than the first ones.
#[test]
fn of_very_many_problems_of_a_resource_the_first_are_kept_and_all_are_counted() {
    const MANY: usize = 20_000;
    let rule = |actions: &str| {
        format!(
            "kind: rule\nmetadata: {{name: r, namespace: istio-system}}\nspec: {{actions: [{actions}]}}\n"
        )
    };
    let errors = |actions: &str| {
        let snapshot = with_manifest(&rule(&actions.repeat(MANY)));
        let listed = snapshot.diagnostics.iter().filter(|problem| problem.severity == Severity::Error);
        let listed: Vec<_> = listed.map(|problem| (problem.code, problem.count())).collect();
        assert!(listed.len() < 1_100, "{}", listed.len());
        (listed.iter().map(|(_, count)| count).sum::<usize>(), listed.last().map(|(code, _)| *code))
    };
    let (counted, _) = errors("{},");
    assert!(counted > MANY, "each action has an error, and the rule: {counted}");
    let (counted, _) = errors("{handler: deny, instances: [ghost]},");
    assert!(counted > MANY, "{counted}");
    // Fields that do not exist are not counted beyond the first.
    let (counted, last) = errors("{x: 1},");
    assert!((1_000..1_100).contains(&counted), "{counted}");
    assert_eq!(last, Some("spec-decode"));
}

/// Resources are built by kind and name, and shown by file and line: a handler behind all rules is built before them.
#[test]
fn of_very_many_resources_those_that_are_shown_first_keep_their_texts() {
    const MANY: usize = 6_000;
    let rule = |n: usize| {
        format!(
            "kind: rule\nmetadata: {{name: r{n}, namespace: istio-system}}\n\
             spec: {{match: 'source.user = \"x\"', actions: [{{handler: ghost, instances: [nothing]}}]}}\n---\n"
        )
    };
    let handler = |n: usize| {
        format!(
            "kind: handler\nmetadata: {{name: h{n}, namespace: istio-system}}\nspec: {{compiledAdapter: nobody}}\n---\n"
        )
    };
    let mut builder = SnapshotBuilder::new(options());
    let rules: String = (0..MANY).map(rule).collect();
    let handlers: String = (0..MANY).map(handler).collect();
    let check = |snapshot: &Snapshot, count: usize| {
        let errors: Vec<_> =
            snapshot.diagnostics.iter().filter(|problem| problem.severity == Severity::Error).collect();
        let is_short = |problem: &&Diagnostic| problem.message.starts_with("further problems");
        let kept = errors.iter().position(is_short).unwrap();
        assert_eq!(kept, 10_000);
        assert!(errors.get(kept..).unwrap().iter().all(is_short));
        assert_eq!(errors.iter().map(|problem| problem.count()).sum::<usize>(), count);
    };
    // Of a rule: its condition, its handler, and that it has no action.
    check(&build_all(&mut builder, &[("a.yaml", &rules), ("b.yaml", &handlers)]), 4 * MANY);
    // What is first afterwards has its texts, too.
    check(&build_all(&mut builder, &[("0.yaml", &rule(MANY)), ("a.yaml", &rules)]), 3 * (MANY + 1));
}

#[test]
fn dump_shows_sources_types_and_references() {
    let snapshot = with_manifest(
        "# a comment
kind: rule
metadata: {name: r, namespace: tea}
spec:
  match: source.user == \"x\"
  actions: [{handler: deny.istio-system, instances: [nothing.instance.istio-system]}]
  requestHeaderOperations: [{name: x-a, values: [source.user, '\"b\"']}, {name: x-b, operation: REMOVE}]
",
    );
    assert_eq!(log_texts(&snapshot), Vec::<String>::new());
    let dump = mixer_engine::snapshot::dump(&snapshot);
    assert_eq!((dump.handlers[0].source.line, dump.handlers[0].references), (11, 1));
    assert_eq!((dump.rules[0].source.line, dump.instances[0].references), (20, 1));
    assert_eq!(dump.rules[0].request_header_operations[0].values, ["source.user", "\"b\""]);
    assert_eq!(dump.rules[0].request_header_operations[1].operation, "REMOVE");
    assert_eq!(dump.attributes.len(), 23 + 4);
}

/// Valid and invalid versions of small resources that refer to each other.
fn version(kind: usize, name: usize, variant: usize) -> String {
    let head = |kind: &str, name: String| {
        format!("kind: {kind}\nmetadata: {{name: {name}, namespace: istio-system}}\n")
    };
    let n = name % 3;
    match kind {
        0 => {
            let head = head("handler", format!("h{n}"));
            match variant % 4 {
                0 => format!("{head}spec: {{compiledAdapter: denier}}"),
                1 => format!("{head}spec: {{compiledAdapter: denier, params: {{validUseCount: {variant}}}}}"),
                2 => format!("{head}spec: {{compiledAdapter: nobody}}"),
                _ => format!("{head}spec: {{compiledAdapter: denier, params: {{bogus: 1}}}}"),
            }
        }
        1 => {
            let head = head("instance", format!("i{n}"));
            match variant % 4 {
                0 => format!("{head}spec: {{compiledTemplate: checknothing}}"),
                1 => format!("{head}spec: {{compiledTemplate: listentry, params: {{value: source.user}}}}"),
                2 => format!("{head}spec: {{compiledTemplate: listentry, params: {{value: source.nobody}}}}"),
                _ => format!("# moved\n\n{head}spec: {{compiledTemplate: metric}}"),
            }
        }
        2 => {
            let head = head("rule", format!("r{n}"));
            let action = format!(
                "actions: [{{handler: h{}, instances: [i{}, i{}]}}]",
                variant % 3,
                variant % 2,
                variant % 3
            );
            let condition =
                ["source.user == \"a\"", "true", "request.size", "source.later == \"x\""][variant % 4];
            format!("{head}spec:\n  match: '{condition}'\n  {action}")
        }
        _ => {
            let head = head("attributemanifest", format!("m{}", n % 2));
            let later = if variant.is_multiple_of(2) {
                "source.later: {valueType: STRING}"
            } else {
                "request.size: {valueType: INT64}"
            };
            format!("{head}spec:\n  attributes:\n    source.user: {{valueType: STRING}}\n    {later}")
        }
    }
}

/// Everything but the id, for comparison.
fn content(snapshot: &Snapshot) -> String {
    let mut dump = mixer_engine::snapshot::dump(snapshot);
    dump.id = 0;
    let hints = snapshot
        .diagnostics
        .iter()
        .map(|d| (&d.hint, &d.legacy, &d.expression, &d.field))
        .collect::<Vec<_>>();
    format!("{}\n{hints:?}\n{:?}", serde_json::to_string_pretty(&dump).unwrap(), snapshot.counts)
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..Default::default()
    })]
    #[test]
    fn incremental_builds_equal_full_builds(
        edits in proptest::collection::vec((0usize..4, 0usize..3, 0usize..8, 0usize..4), 1..40)
    ) {
        let mut files = std::collections::BTreeMap::<String, String>::new();
        let mut builder = SnapshotBuilder::new(options());
        for (kind, name, variant, action) in edits {
            let file = format!("{kind}-{name}.yaml");
            match action {
                0 => { files.remove(&file); }
                _ => { files.insert(file, version(kind, name, variant)); }
            }
            let files = files.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect::<Vec<_>>();
            let incremental = build_all(&mut builder, &files);
            let full = build_all(&mut SnapshotBuilder::new(options()), &files);
            proptest::prop_assert_eq!(content(&incremental), content(&full));
        }
    }
}

#[test]
fn unchanged_resources_are_not_rebuilt() {
    let rule = |name: &str, user: &str| {
        format!(
            "kind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\nspec:\n  match: source.user == \"{user}\"\n  actions: [{{handler: deny, instances: [nothing]}}]\n"
        )
    };
    let mut builder = SnapshotBuilder::new(options());
    let (a, b) = (rule("a", "x"), rule("b", "x"));
    let first = build_all(&mut builder, &[("m.yaml", MANIFEST), ("a.yaml", &a), ("b.yaml", &b)]);
    let second =
        build_all(&mut builder, &[("m.yaml", MANIFEST), ("a.yaml", &rule("a", "y")), ("b.yaml", &b)]);
    assert!(!Arc::ptr_eq(first.rules.nth(0).unwrap(), second.rules.nth(0).unwrap()));
    assert!(Arc::ptr_eq(first.rules.nth(1).unwrap(), second.rules.nth(1).unwrap()));
    assert!(Arc::ptr_eq(first.handlers.nth(0).unwrap(), second.handlers.nth(0).unwrap()));
    let moved = format!("# one line more\n{MANIFEST}");
    let third = build_all(&mut builder, &[("m.yaml", &moved), ("a.yaml", &rule("a", "y")), ("b.yaml", &b)]);
    let line = |snapshot: &Snapshot| snapshot.handlers.nth(0).unwrap().origin.first_line;
    assert_eq!(line(&third), line(&first) + 1);
    assert!(
        Arc::ptr_eq(first.rules.nth(1).unwrap(), third.rules.nth(1).unwrap()),
        "rules do not depend on the position of handlers"
    );
    let shared = |snapshot: &Snapshot, i: usize| match &snapshot.rules.nth(i).unwrap().condition {
        Condition::When(program) => Arc::as_ptr(program),
        other => panic!("{other:?}"),
    };
    assert_eq!(shared(&first, 0), shared(&first, 1), "equal texts share a program");
    assert_eq!(shared(&first, 1), shared(&third, 1));
}

/// Of a first build all resources, of an incremental one those that changed and their dependents.
#[test]
fn a_build_counts_the_resources_that_it_builds() {
    const RULES: u64 = 137;
    let rule = |index: u64| {
        format!(
            "kind: rule\nmetadata: {{name: r{index}, namespace: istio-system}}\nspec: {{actions: [{{handler: deny, instances: [nothing]}}]}}\n"
        )
    };
    let rules: String = (0..RULES).map(rule).collect::<Vec<_>>().join("---\n");
    // Builds of other tests count as well.
    let counts = |builds: &dyn Fn(), counted: u64| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            builds();
            let ended = mixer_base::load::ended();
            let built = ended.iter().filter(|load| (&*load.what, load.stage) == ("configuration", "built"));
            if built.clone().any(|load| load.is_complete() && load.documents == counted) {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "{counted}: {:?}", built.collect::<Vec<_>>());
        }
    };
    let contents = MemoryStore::new("memory://test", [("m.yaml", MANIFEST), ("r.yaml", &*rules)]).contents();
    counts(&|| drop(SnapshotBuilder::new(options()).build(&contents)), 3 + RULES);
    // One resource of another file is changed: a rule, and the instance of all rules.
    let other = rule(0).replace("handler: deny", "handler: deny.istio-system");
    let instance = "kind: instance\nmetadata: {name: nothing, namespace: istio-system, labels: {a: b}}\n\
                    spec: {compiledTemplate: metric, params: {value: '1'}}\n";
    for (text, counted) in [(&*other, 1), (instance, 1 + RULES)] {
        let changed = MemoryStore::new("memory://test", [("z.yaml", text)]).contents();
        let mut next = StoreContents::clone(&contents);
        next.resources.put(changed.resources.iter().next().expect("a resource").clone());
        let builds = || {
            let mut builder = SnapshotBuilder::new(options());
            builder.build(&contents);
            builder.build(&next);
        };
        counts(&builds, counted);
    }
}

#[test]
fn the_last_valid_version_stays_in_force() {
    let rule =
        |spec: &str| format!("kind: rule\nmetadata: {{name: r, namespace: istio-system}}\nspec: {spec}\n");
    let good = rule("{actions: [{handler: deny, instances: [nothing]}]}");
    let bad = rule("{bogus: 1}");
    let mut builder = SnapshotBuilder::new(options());
    build_all(&mut builder, &[("m.yaml", MANIFEST), ("r.yaml", &good)]);
    let snapshot = build_all(&mut builder, &[("m.yaml", MANIFEST), ("r.yaml", &bad)]);
    assert_eq!(snapshot.rules.len(), 1);
    assert_eq!(
        log_texts(&snapshot),
        ["Failed to convert r.rule.istio-system an event: unknown field \"bogus\" in v1beta1.Rule"]
    );
    let fresh = build_all(&mut SnapshotBuilder::new(options()), &[("m.yaml", MANIFEST), ("r.yaml", &bad)]);
    assert_eq!(fresh.rules.len(), 0);
    assert_eq!(
        log_texts(&fresh),
        ["Failed to convert r.rule.istio-system spec: unknown field \"bogus\" in v1beta1.Rule"]
    );
    // It also survives a change of the vocabulary.
    let more = format!(
        "{MANIFEST}kind: attributemanifest\nmetadata: {{name: z, namespace: z}}\nspec: {{attributes: {{z.z: {{valueType: STRING}}}}}}\n"
    );
    let snapshot = build_all(&mut builder, &[("m.yaml", &more), ("r.yaml", &bad)]);
    assert_eq!(snapshot.rules.len(), 1);
    let snapshot = build_all(&mut builder, &[("m.yaml", &more)]);
    assert_eq!(snapshot.rules.len(), 0);
}

/// Builds many known names beside as many misspelt ones; the problems with this code, and those of them with a suggestion.
fn suggestions(
    code: &str,
    known: impl Fn(usize) -> String,
    misspelt: impl Fn(usize) -> String,
) -> [usize; 2] {
    const COUNT: usize = 1_500;
    let known = (0..COUNT).map(known);
    let texts: Vec<String> = known.chain((0..COUNT).map(misspelt)).collect();
    let snapshot = with_manifest(&texts.join("---\n"));
    let problems: Vec<_> = snapshot.diagnostics.iter().filter(|d| d.code == code).collect();
    let suggests = |d: &&&Diagnostic| d.hint.as_deref().is_some_and(|hint| hint.starts_with("did you mean"));
    [problems.len(), problems.iter().filter(suggests).count()]
}

#[test]
fn the_suggestions_of_a_build_are_bounded() {
    let rule = |i: usize, actions: &str| {
        format!(
            "kind: rule\nmetadata: {{name: r{i}, namespace: istio-system}}\nspec: {{actions: [{actions}]}}\n"
        )
    };
    let handler = |i: usize| {
        format!(
            "kind: handler\nmetadata: {{name: handler-{i:06}, namespace: istio-system}}\nspec: {{compiledAdapter: denier}}\n"
        )
    };
    let instance = |i: usize| {
        format!(
            "kind: instance\nmetadata: {{name: instance-{i:06}, namespace: istio-system}}\nspec: {{compiledTemplate: checknothing}}\n"
        )
    };
    let manifest = |i: usize| {
        format!(
            "kind: attributemanifest\nmetadata: {{name: m{i}, namespace: istio-system}}\nspec: {{attributes: {{my.attribute.n{i:06}: {{valueType: STRING}}}}}}\n"
        )
    };
    let condition = |i: usize| {
        format!(
            "kind: rule\nmetadata: {{name: r{i}, namespace: istio-system}}\nspec: {{match: my.atribute.m{i:06} == \"x\", actions: [{{handler: deny, instances: [nothing]}}]}}\n"
        )
    };
    let closed = |i: usize| {
        format!(
            "kind: rule\nmetadata: {{name: closed, namespace: team-{i:06}, annotations: {{mixer.dev/default: deny}}}}\nspec: {{}}\n"
        )
    };
    let lost_handler = |i| rule(i, &format!("{{handler: hndler-{i:06}, instances: [nothing]}}"));
    let lost_instance = |i| rule(i, &format!("{{handler: deny, instances: [instnce-{i:06}]}}"));
    for (code, [all, suggested]) in [
        ("handler-unknown", suggestions("handler-unknown", handler, lost_handler)),
        ("instance-unknown", suggestions("instance-unknown", instance, lost_instance)),
        ("attribute-unknown", suggestions("attribute-unknown", manifest, condition)),
        ("namespace-unused", suggestions("namespace-unused", closed, |i| closed(i + 1_000_000))),
    ] {
        assert!(all >= 1_500 && (10..200).contains(&suggested), "{code}: {suggested} of {all}");
    }
}
