//! A rule whose kind becomes another kind of this server or of Istio: nobody knows that it was a rule.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::{BESIDE, HANDLER, INSTANCE, MANIFEST, RULE, deny, good};
use crate::stage::{Answer, Files, Stage};

/// Kinds of this server, of which some decide about requests by themselves or are read by a handler, and of Istio's adapters and clients.
const KINDS: [&str; 22] = [
    "handler",
    "instance",
    "attributemanifest",
    "template",
    "adapter",
    "noop",
    "metric",
    "apikey",
    "listchecker",
    "opa",
    "rbac",
    "redisquota",
    "ServiceRole",
    "ServiceRoleBinding",
    "RbacConfig",
    "ClusterRbacConfig",
    "envoybridge",
    "ratelimit",
    "attributemapping",
    "statsd",
    "QuotaSpec",
    "HTTPAPISpecBinding",
];

/// Refuses whatever no rule allows.
const CLOSED: &str = "kind: rule
metadata: {name: closed, namespace: istio-system, annotations: {mixer.dev/default: deny}}
";

fn files(rule: &str) -> Files {
    let mut files = Files::default();
    files.put("/conf/words.yaml", MANIFEST);
    files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, rule]));
    files
}

/// Asserts that a rule that denies bob goes on doing so if it becomes `broken`, and that a start without it answers nothing.
fn holds(rule: &str, broken: &str) {
    for file in ["/conf/deny.yaml", "/conf/denials.yaml"] {
        let mut stage = Stage::new(OnConfigError::KeepLast, true);
        stage.start(&files(rule));
        assert_eq!(stage.check("bob"), Answer::Denied, "{rule}");
        let mut changed = files(rule);
        changed.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
        let before = changed.texts.get(file).map_or_else(String::new, |text| format!("{text}---\n"));
        changed.put(file, before + broken);
        changed.put("/conf/beside.yaml", BESIDE);
        stage.change(&changed);
        let told = |stage: &Stage| !stage.kept().is_empty();
        assert_eq!((stage.check("bob"), told(&stage)), (Answer::Denied, true), "{file}: {broken}");
        let rules =
            stage.published().routes.snapshot().rules.iter().any(|rule| &*rule.key.name == "no-carol");
        assert!(rules, "valid changes apply, {file}: {broken}");
        stage.stop();
        stage.start(&changed);
        assert_eq!((stage.check("bob"), told(&stage)), (Answer::Denied, true), "the cache, {file}: {broken}");
        for policy in [OnConfigError::KeepLast, OnConfigError::Refuse] {
            let mut stage = Stage::new(policy, false);
            stage.start(&changed);
            assert_eq!(stage.check("bob"), Answer::Unavailable, "{policy:?}, {file}: {broken}");
        }
    }
}

#[test]
fn a_rule_with_another_kind_is_not_deleted() {
    for kind in KINDS {
        let broken = RULE.replace("kind: rule", &format!("kind: {kind}"));
        holds(RULE, &broken);
        holds(RULE, &broken.replace("no-bob", "no-robert"));
        holds(
            RULE,
            &broken
                .replace("spec: {match: ", "spec:\nmatch: ")
                .replace("]}]}", "]}]")
                .replace(", actions", "\nactions"),
        );
    }
}

/// The rule has the name of the handler: there are two versions of the handler.
#[test]
fn a_rule_that_becomes_another_version_of_a_handler_is_not_deleted() {
    let rule = RULE.replace("no-bob", "closed-list");
    let broken = rule.replace("kind: rule", "kind: handler");
    for file in ["/conf/deny.yaml", "/conf/denials.yaml"] {
        let mut changed = files("");
        let before = changed.texts.get(file).map_or_else(String::new, |text| format!("{text}---\n"));
        changed.put(file, before + &broken);
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        stage.start(&files(&rule));
        stage.change(&changed);
        assert_eq!((stage.check("bob"), stage.kept().is_empty()), (Answer::Denied, false), "{file}");
        for policy in [OnConfigError::KeepLast, OnConfigError::Refuse] {
            let mut stage = Stage::new(policy, false);
            stage.start(&changed);
            assert_eq!(stage.check("bob"), Answer::Unavailable, "{policy:?}, {file}");
        }
    }
}

#[test]
fn a_default_with_another_kind_is_not_deleted() {
    for kind in KINDS {
        for spec in ["", "spec: {}\n", "spec: {match: 'source.user == \"bob\"'}\n"] {
            let rule = format!("{CLOSED}{spec}");
            holds(&rule, &rule.replace("kind: rule", &format!("kind: {kind}")));
        }
    }
}

/// A handler that names its adapter is one, whatever its parameters are: nothing waits for it.
#[test]
fn a_new_handler_with_a_wrong_parameter_holds_nothing() {
    const WRONG: &str = "kind: handler
metadata: {name: more, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {overides: [bob]}}
";
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&good());
    let mut changed = good();
    changed.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
    changed.put("/conf/more.yaml", WRONG);
    changed.put("/conf/beside.yaml", BESIDE);
    stage.change(&changed);
    assert_eq!((stage.check("bob"), stage.check("carol")), (Answer::Allowed, Answer::Denied));
    assert_eq!(stage.kept(), Vec::<String>::new());
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&changed);
    assert_eq!((stage.check("bob"), stage.check("carol")), (Answer::Allowed, Answer::Denied));
}

/// What serves says which error holds a rule.
#[test]
fn the_reason_names_the_error() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&good());
    stage.change(&files(&RULE.replace("kind: rule", "kind: handler")));
    let kept = stage.kept();
    let expected = "no-bob.rule.istio-system: its file is not read completely: /conf/deny.yaml:11: \
                    no-bob.handler.istio-system: unknown field \"match\"";
    assert!(matches!(kept.as_slice(), [one] if one.starts_with(expected)), "{kept:?}");
}
