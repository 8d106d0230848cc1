//! Attributes that Envoy's mappings make: what serves while a mapping has an error and rules change for it, or the other way round.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::{HANDLER, INSTANCE, MANIFEST, RULE, deny, good};
use crate::stage::{Answer, Files, Stage};

const WORDS: &str = "kind: attributemanifest
metadata: {name: teams, namespace: istio-system}
spec: {attributes: {source.team: {valueType: STRING}, source.plan: {valueType: STRING}}}
";

fn mapping(attribute: &str, header: &str) -> String {
    format!(
        "kind: attributemapping\nmetadata: {{name: teams, namespace: istio-system}}\n\
         spec: {{mappings: [{{attribute: {attribute}, from: {{requestHeader: {header}}}}}]}}\n"
    )
}

/// Denies bob, and who has a value of an attribute; without the attribute everybody.
fn rule(attribute: &str, value: &str) -> String {
    let condition = format!("source.user == \"bob\" || ({attribute} | \"{value}\") == \"{value}\"");
    RULE.replace("source.user == \"bob\"", &condition)
}

fn files(mapping: &str, rule: &str) -> Files {
    let mut files = good();
    files.put("/conf/words.yaml", format!("{MANIFEST}---\n{WORDS}"));
    files.put("/conf/mapping.yaml", mapping);
    files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, rule]));
    files
}

/// Which resources serve in their previous version.
fn kept(stage: &Stage) -> Vec<String> {
    let published = stage.published();
    published.kept.iter().map(|kept| kept.key.to_string()).collect()
}

#[test]
fn a_rule_waits_for_the_mapping_for_which_its_condition_changed() {
    let (mapping_key, rule_key) = ("teams.attributemapping.istio-system", "no-bob.rule.istio-system");
    // `(mapping, rule)` before and after: another header, another attribute, both.
    for (before, after) in [
        (
            (mapping("source.team", "x-team"), rule("source.team", "red")),
            (mapping("source.team", "x-group"), rule("source.team", "banned")),
        ),
        (
            (mapping("source.team", "x-team"), rule("source.team", "red")),
            (mapping("source.plan", "x-plan"), rule("source.plan", "free")),
        ),
        (
            (mapping("source.team", "x-team"), rule("source.team", "red")),
            (mapping("source.plan", "x-plan"), rule("source.team", "banned")),
        ),
        // The rule loses the part that reads the attribute.
        (
            (mapping("source.team", "x-team"), rule("source.team", "red")),
            (mapping("source.plan", "x-plan"), RULE.to_owned()),
        ),
    ] {
        for mistake in [
            ("requestHeader", "requestHaeder"),
            ("spec: {", "spec: {{"),
            ("kind: attributemapping", "kind: atributemapping"),
        ] {
            let mut stage = Stage::new(OnConfigError::KeepLast, false);
            stage.start(&files(&before.0, &before.1));
            assert_eq!((stage.check("bob"), kept(&stage)), (Answer::Denied, Vec::new()), "{before:?}");
            // The mapping has an error, and the rule changed for it.
            let faulty = after.0.replace(mistake.0, mistake.1);
            assert_ne!(faulty, after.0);
            stage.change(&files(&faulty, &after.1));
            assert_eq!(kept(&stage), [mapping_key, rule_key], "{mistake:?}: {after:?}");
            assert_eq!(stage.check("bob"), Answer::Denied);
            // The other way round.
            stage.change(&files(&before.0, &before.1));
            assert_eq!(kept(&stage), [""; 0], "{mistake:?}");
            let typo = after.1.replace("source.user", "sorce.user");
            stage.change(&files(&after.0, &typo));
            assert_eq!(kept(&stage), [mapping_key, rule_key], "{after:?}: {:?}", stage.kept());
            // Both are right.
            stage.change(&files(&after.0, &after.1));
            assert_eq!((stage.check("bob"), kept(&stage)), (Answer::Denied, Vec::new()), "{after:?}");
        }
    }
}

/// What has nothing to do with the mapping changes.
#[test]
fn a_rule_that_reads_no_mapped_attribute_does_not_wait() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&files(&mapping("source.team", "x-team"), RULE));
    let faulty = mapping("source.team", "x-group").replace("requestHeader", "requestHaeder");
    stage.change(&files(&faulty, &RULE.replace("\"bob\"", "\"carl\"")));
    assert_eq!((stage.check("carl"), stage.check("bob")), (Answer::Allowed, Answer::Allowed));
    assert_eq!(kept(&stage), ["teams.attributemapping.istio-system"]);
}
