//! Attributes that Envoy's mappings make: what serves while a mapping has an error and rules change for it, or the other way round.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::{BESIDE, HANDLER, INSTANCE, MANIFEST, RULE, deny, good};
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

/// What refuses more applies beside a mapping with a mistake; what refuses fewer waits for it.
#[test]
fn a_rule_that_reads_no_mapped_attribute_applies_if_it_refuses_more() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&files(&mapping("source.team", "x-team"), RULE));
    let faulty = mapping("source.team", "x-group").replace("requestHeader", "requestHaeder");
    let condition = "source.user == \"bob\"";
    stage.change(&files(
        &faulty,
        &RULE.replace(condition, &format!("{condition} || source.plan == \"free\"")),
    ));
    assert_eq!(kept(&stage), ["teams.attributemapping.istio-system"]);
    stage.change(&files(&faulty, &RULE.replace("\"bob\"", "\"carl\"")));
    assert_eq!(stage.check("bob"), Answer::Denied);
    assert_eq!(kept(&stage), ["teams.attributemapping.istio-system", "no-bob.rule.istio-system"]);
}

/// A mapping waits beside a mistake of another rule for the rule that reads its attribute, however that is written.
#[test]
fn a_mapping_waits_for_what_reads_its_attribute_in_any_spelling() {
    let cel = ", annotations: {policy.istio.io/lang: CEL}";
    for (condition, language) in [
        ("'source.user == \"bob\" || source.team == \"red\"'", ""),
        ("'source.user == \"bob\" || source . team == \"red\"'", ""),
        ("'source.user == \"bob\" || source.\n  team == \"red\"'", ""),
        ("\"source.user == \\\"bob\\\" || source\\x2eteam == \\\"red\\\"\"", ""),
        ("\"source.user == \\\"bob\\\" ||source.te\\\n  am == \\\"red\\\"\"", ""),
        ("'source.user == \"bob\" ? true:source.team == \"red\"'", cel),
        ("'source.user == \"bob\" || (source).team == \"red\"'", cel),
    ] {
        let reads = RULE.replace("'source.user == \"bob\"'", condition);
        let reads = reads.replace("istio-system}", &format!("istio-system{language}}}"));
        let all = |mapping: &str, beside: &str| {
            let mut files = files(mapping, &reads);
            files.put("/conf/beside.yaml", beside.to_owned());
            files
        };
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        stage.start(&all(&mapping("source.team", "x-team"), BESIDE));
        assert_eq!((stage.check("bob"), kept(&stage)), (Answer::Denied, Vec::new()), "{reads}");
        let typo =
            BESIDE.replace("\"carol\"", "\"dora\"").replace("handler: turn-away", "handler: turn-awya");
        stage.change(&all(&mapping("source.team", "x-group"), &typo));
        let kept = kept(&stage);
        assert!(kept.contains(&"teams.attributemapping.istio-system".to_owned()), "{reads}: {kept:?}");
    }
}
