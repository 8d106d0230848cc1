//! Defaults that do not compile.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::{MANIFEST, MODES};
use crate::stage::{Answer, Files, Stage};

/// A default for bob.
const CLOSED: &str = "kind: rule
metadata: {name: closed, namespace: istio-system, annotations: {mixer.dev/default: deny}}
spec: {match: 'source.user == \"bob\"'}
";

#[test]
fn a_default_that_does_not_compile_is_closed() {
    let broken = [
        ("a condition does not compile", CLOSED.replace("source.user", "sorce.user")),
        ("a condition is not Boolean", CLOSED.replace(" == \"bob\"", "")),
        ("a field is unknown", CLOSED.replace("match", "mach")),
        (
            "a failure allows",
            CLOSED.replace("deny}", "deny, mixer.dev/on-error: allow}").replace("source.", "sorce."),
        ),
        ("the value is misspelt", CLOSED.replace("deny}", "dney}").replace("match", "mach")),
        (
            "an action names no handler",
            CLOSED.replace("spec: {", "spec: {actions: [{handler: x, instances: [z]}], "),
        ),
    ];
    for (name, text) in &broken {
        for mode in MODES {
            let mut files = Files::default();
            files.put("/conf/words.yaml", MANIFEST);
            files.put("/conf/closed.yaml", text.as_str());
            let mut stage = Stage::new(mode, false);
            stage.start(&files);
            let unavailable =
                if mode == OnConfigError::ServeValid { Answer::Denied } else { Answer::Unavailable };
            assert_eq!(stage.check("bob"), unavailable, "{name}, {mode:?}, at the start");
            // What it selects is unknown, unless its condition compiles.
            let others = match *name {
                "an action names no handler" if mode == OnConfigError::ServeValid => Answer::Allowed,
                _ => unavailable,
            };
            assert_eq!(stage.check("ann"), others, "{name}, {mode:?}, at the start");
            files.put("/conf/closed.yaml", CLOSED);
            stage.change(&files);
            assert_eq!((stage.check("bob"), stage.check("ann")), (Answer::Denied, Answer::Allowed), "{name}");
            files.put("/conf/closed.yaml", text.as_str());
            stage.change(&files);
            assert_eq!(stage.check("bob"), Answer::Denied, "{name}, {mode:?}, after a change");
        }
    }
}

/// In dry run it closes nothing, whether it compiles or not.
#[test]
fn a_default_in_dry_run_that_does_not_compile_is_not_enforced() {
    let dry = CLOSED.replace("deny}", "deny, mixer.dev/dry-run: 'true'}");
    for text in [dry.replace("source.user", "sorce.user"), dry.replace("match", "mach")] {
        let mut files = Files::default();
        files.put("/conf/words.yaml", MANIFEST);
        files.put("/conf/closed.yaml", text.as_str());
        let mut stage = Stage::new(OnConfigError::ServeValid, false);
        stage.start(&files);
        assert_eq!((stage.check("bob"), stage.check("ann")), (Answer::Allowed, Answer::Allowed), "{text}");
    }
}
