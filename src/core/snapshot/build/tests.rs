use super::*;
use crate::core::store::{ConfigStore, MemoryStore};

fn build(text: &str) -> Arc<Snapshot> {
    build_all(&mut SnapshotBuilder::new(SnapshotOptions::default()), &[("a.yaml", text)])
}

fn build_all(builder: &mut SnapshotBuilder, files: &[(&str, &str)]) -> Arc<Snapshot> {
    builder.build(&MemoryStore::new("memory://test", files.iter().copied()).contents())
}

fn legacies(snapshot: &Snapshot) -> Vec<String> {
    snapshot.diagnostics.iter().map(|d| d.log_text().into_owned()).collect()
}

fn places(snapshot: &Snapshot) -> Vec<String> {
    let place = |d: &Diagnostic| {
        let start = d.span.unwrap().start;
        format!("{}:{}:{} {}", d.file.as_deref().unwrap(), start.line, start.column, d.code)
    };
    snapshot.diagnostics.iter().map(place).collect()
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
    let store = crate::core::store::open(crate::core::store::EMBEDDED_SAMPLE).unwrap();
    let snapshot = SnapshotBuilder::new(SnapshotOptions::default()).build(&store.contents());
    let found = snapshot.diagnostics.iter().map(|d| d.code).collect::<FxHashSet<_>>();
    if !found.contains("adapter-unknown") {
        assert_eq!(legacies(&snapshot), Vec::<String>::new());
    }
    assert!(!snapshot.rules.is_empty());
}

#[test]
fn broken_rule_is_diagnosed_in_three_places() {
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
        legacies(&snapshot),
        [
            "rule=crooked.rule.istio-system: No valid actions found in rule",
            "rule='crooked.rule.istio-system'.Match: failed to parse expression 'source.user = = \"x\"': \
             unable to parse expression 'source.user = = \"x\"': 1:13: expected '==', found '='",
            "action='crooked.rule.istio-system[0]': Handler not found: handler='ghost.denier'",
        ]
    );
    assert_eq!(
        places(&snapshot),
        ["a.yaml:21:9 rule-empty", "a.yaml:24:10 expression-parse", "a.yaml:26:14 handler-unknown"]
    );
}

#[test]
fn dump_has_the_debug_layout_of_the_originals() {
    use crate::core::snapshot::dump::{DumpSection, SnapshotDump};
    let snapshot = with_manifest(
        "kind: rule
metadata: {name: r, namespace: tea}
spec:
  match: source.user == \"x\"
  actions: [{handler: deny.istio-system, instances: [nothing.instance.istio-system]}]
  requestHeaderOperations: [{name: x-a, values: [source.user, '\"b\"']}, {name: x-b, operation: REMOVE}]
",
    );
    assert_eq!(legacies(&snapshot), Vec::<String>::new());
    let dump = SnapshotDump::of(&snapshot, false);
    let text = dump.debug_text(Some(&[DumpSection::Rules]));
    assert_eq!(
        text,
        r#"Rules:
  Name:      r.rule.tea
  Namespace: tea
  Match:   source.user == "x"
  ActionsStatic:
    Handler: deny.istio-system
    Instances:
      Name: nothing.instance.istio-system
  RequestHeaderOperations:
    Name: "x-a"
    Value: "source.user"
    Value: "\"b\""
    Operation: REPLACE
    Name: "x-b"
    Operation: REMOVE
"#
    );
    assert_eq!(dump.handlers[0].source.line, 11);
    assert_eq!(dump.rules[0].reads, ["source.user"]);
    assert_eq!(dump.attributes.len(), 23 + 4);
}
