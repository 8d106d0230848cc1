//! Lints of `validate`.

use mixer_config::store::{ConfigStore, MemoryStore};
use mixer_config::{Diagnostic, Diagnostics};
use mixer_engine::snapshot::{SnapshotBuilder, check_params, lint, pitfalls};

use super::options;

const CONFIG: &str = r#"
kind: attributemanifest
metadata: {name: m, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    test.map: {valueType: STRING}
---
kind: handler
metadata: {name: lonely, namespace: istio-system}
spec: {compiledAdapter: denier}
---
kind: handler
metadata: {name: mq, namespace: istio-system}
spec:
  compiledAdapter: memquota
  params:
    minDeduplicationDuration: -5s
    quotas:
    - name: rq
      maxAmount: 5
      validDuration: 1s
---
kind: instance
metadata: {name: rq, namespace: istio-system}
spec: {compiledTemplate: quota}
---
kind: instance
metadata: {name: spare, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
kind: rule
metadata: {name: a, namespace: istio-system}
spec:
  match: 1 == 2
  actions: [{handler: mq, instances: [rq]}]
---
kind: rule
metadata: {name: b, namespace: istio-system}
spec:
  match: 1 == 2
  actions: [{handler: mq, instances: [rq]}]
"#;

fn found(problems: Diagnostics) -> Vec<String> {
    let line = |d: &Diagnostic| d.span.map_or(0, |s| s.start.line);
    problems.iter().map(|d| format!("{}:{} {}", line(d), d.code, d.resource)).collect()
}

#[test]
fn suspicious_configuration_is_reported() {
    let contents = MemoryStore::new("memory://test", [("a.yaml", CONFIG)]).contents();
    let snapshot = SnapshotBuilder::new(options()).build(&contents);
    assert_eq!(
        found(lint(&snapshot)),
        [
            "10:handler-unused lonely.handler.istio-system",
            "29:instance-unused spare.instance.istio-system",
            "35:match-constant a.rule.istio-system",
            "41:match-constant b.rule.istio-system",
            "39:rule-shadowed b.rule.istio-system",
        ]
    );
    assert_eq!(
        found(pitfalls(&snapshot)),
        ["20:instance-name-unknown mq.handler.istio-system", "0:attribute-keyword "]
    );
    let checked = check_params(&snapshot);
    assert!(checked.iter().all(|d| d.code == "adapter-config" && d.span.is_some()), "{checked:?}");
    assert!(!checked.is_empty());
}
