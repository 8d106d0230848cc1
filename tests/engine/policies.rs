//! Policies of the adapter `opa`: what serves after a mistake in one.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::{BESIDE, good};
use crate::stage::{Answer, Files, Stage};

/// Allows everybody but eve.
const GATE: &str = "kind: handler
metadata: {name: gate, namespace: istio-system}
spec:
  compiledAdapter: opa
  params:
    checkMethod: data.gate.open
    failClose: FAILCLOSE
    policy:
    - |
      package gate
      default open = false
      open { input.subject.user != \"eve\" }
---
kind: instance
metadata: {name: who, namespace: istio-system}
spec: {compiledTemplate: authorization, params: {subject: {user: 'source.user | \"\"'}, action: {path: '\"/\"'}}}
---
kind: rule
metadata: {name: ask, namespace: istio-system}
spec: {actions: [{handler: gate, instances: [who]}]}
";

fn files(gate: &str) -> Files {
    let mut files = good();
    files.put("/conf/gate.yaml", gate);
    files
}

#[test]
fn a_policy_that_does_not_compile_keeps_its_last_version() {
    for fail_close in ["false", "true"] {
        let gate = GATE.replace("FAILCLOSE", fail_close);
        let mistakes = [
            ("open { input", "open { inptu"),
            ("open { input.subject.user != \"eve\" }", "open {{{"),
            ("data.gate.open", "data.gate.opne"),
            ("open { input", "open if { input.subject.user }\n      open { input"),
            ("open { input", "open { startwith(input.subject.user, \"a\"); input"),
        ];
        for (right, wrong) in mistakes {
            let broken = gate.replace(right, wrong);
            assert_ne!(broken, gate, "{right}");
            let mut stage = Stage::new(OnConfigError::KeepLast, false);
            stage.start(&files(&gate));
            let answers = |stage: &Stage| [stage.check("dave"), stage.check("eve")];
            assert_eq!(answers(&stage), [Answer::Allowed, Answer::Denied]);
            let mut changed = files(&broken);
            changed.put("/conf/beside.yaml", BESIDE);
            stage.change(&changed);
            assert_eq!(answers(&stage), [Answer::Allowed, Answer::Denied], "{fail_close} {wrong}");
            assert_eq!(stage.check("carol"), Answer::Denied, "valid changes apply: {fail_close} {wrong}");
            // At a start there is no last version.
            let mut stage = Stage::new(OnConfigError::KeepLast, false);
            stage.start(&files(&broken));
            assert!(
                answers(&stage).iter().all(|answer| *answer != Answer::Allowed),
                "{fail_close} {wrong}: {:?}",
                answers(&stage)
            );
        }
    }
}
