//! Rules that another rule makes superfluous.

use mixer_config::store::{ConfigStore, MemoryStore};
use mixer_engine::snapshot::{SnapshotBuilder, lint};

use super::options;

/// A manifest, two deniers, two instances, and rules: name, namespace, annotations and spec.
fn lint_of(rules: &[(&str, &str, &str, &str)]) -> Vec<String> {
    let mut text = r#"
kind: attributemanifest
metadata: {name: m, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    source.name: {valueType: STRING}
    request.headers: {valueType: STRING_MAP}
---
kind: handler
metadata: {name: deny, namespace: shop}
spec: {compiledAdapter: denier}
---
kind: instance
metadata: {name: one, namespace: shop}
spec: {compiledTemplate: checknothing}
---
kind: instance
metadata: {name: two, namespace: shop}
spec: {compiledTemplate: checknothing}
"#
    .to_owned();
    for (name, namespace, annotations, spec) in rules {
        text += &format!(
            "---\nkind: rule\nmetadata: {{name: {name}, namespace: {namespace}, annotations: {{{annotations}}}}}\nspec: {spec}\n"
        );
    }
    let contents = MemoryStore::new("memory://test", [("a.yaml", text.as_str())]).contents();
    let snapshot = SnapshotBuilder::new(options()).build(&contents);
    assert!(
        snapshot.diagnostics.iter().all(|d| d.severity != mixer_config::Severity::Error),
        "{:?}",
        snapshot.diagnostics
    );
    let shadowed = lint(&snapshot).into_iter().filter(|d| d.code == "rule-shadowed");
    shadowed.map(|d| format!("{}: {}", d.resource, d.message)).collect()
}

#[test]
fn rules_that_another_makes_superfluous_are_reported() {
    let act = |instances: &str| format!("[{{handler: deny.shop, instances: [{instances}]}}]");
    let spec =
        |condition: &str, instances: &str| format!("{{match: '{condition}', actions: {}}}", act(instances));
    let user = r#"source.user == "a""#;
    let both = r#"source.name == "b" && source.user == "a""#;
    let found = |first: &str, second: &str| lint_of(&[("a", "shop", "", first), ("b", "shop", "", second)]);
    for (first, second, expected) in [
        (
            spec(user, "one.shop"),
            spec(user, "one.shop"),
            "b.rule.shop: the rule only repeats what a.rule.shop does on the same condition",
        ),
        (
            spec(user, "one.shop, two.shop"),
            spec(user, "two.shop"),
            "b.rule.shop: the rule only repeats what a.rule.shop does on the same condition",
        ),
        (
            spec(user, "one.shop"),
            spec(both, "one.shop"),
            "b.rule.shop: the rule only repeats what a.rule.shop does on a weaker condition",
        ),
        (
            spec(both, "one.shop"),
            spec(user, "one.shop"),
            "a.rule.shop: the rule only repeats what b.rule.shop does on a weaker condition",
        ),
        (
            spec("", "one.shop"),
            spec(both, "one.shop"),
            "b.rule.shop: the rule only repeats what a.rule.shop does on a weaker condition",
        ),
        (
            spec(r#"source.user == "a" && source.name == "b""#, "one.shop"),
            spec(both, "one.shop"),
            "b.rule.shop: the rule only repeats what a.rule.shop does on the same condition",
        ),
    ] {
        assert_eq!(found(&first, &second), [expected], "{first} {second}");
    }
    for (first, second) in [
        (spec(user, "one.shop"), spec(user, "two.shop")),
        (spec(user, "one.shop"), spec(both, "one.shop, two.shop")),
        (spec(user, "one.shop"), spec(r#"source.user == "b""#, "one.shop")),
        (spec(r#"source.user == "a" || source.name == "b""#, "one.shop"), spec(user, "one.shop")),
    ] {
        assert_eq!(found(&first, &second), Vec::<String>::new(), "{first} {second}");
    }
    let same = spec(user, "one.shop");
    for (namespace, annotations) in [
        ("other", ""),
        ("shop", "mixer.dev/dry-run: \"true\""),
        ("shop", "mixer.dev/on-error: deny"),
        ("shop", "mixer.dev/default: deny"),
        ("shop", "policy.istio.io/lang: CEL"),
    ] {
        let found = lint_of(&[("a", "shop", "", &same), ("b", namespace, annotations, &same)]);
        assert_eq!(found, Vec::<String>::new(), "{namespace} {annotations}");
    }
}

/// A rule that refuses where its condition fails refuses more than one without an operand that may fail: without it a door would be open.
#[test]
fn a_rule_that_denies_what_fails_is_not_superfluous_beside_a_weaker_one() {
    let spec = |condition: &str| {
        format!("{{match: '{condition}', actions: [{{handler: deny.shop, instances: [one.shop]}}]}}")
    };
    let denies = "mixer.dev/on-error: deny";
    let both = r#"source.user == "a" && source.name == "b""#;
    let weaker = r#"source.name == "b""#;
    let turned = r#"source.name == "b" && source.user == "a""#;
    for (first, second, annotations, expected) in [
        (weaker, both, denies, 0),
        ("", both, denies, 0),
        (turned, both, denies, 0),
        (both, both, denies, 1),
        (weaker, both, "mixer.dev/on-error: allow", 1),
        (turned, both, "", 1),
    ] {
        let (first, second) = (spec(first), spec(second));
        let found = lint_of(&[("a", "shop", annotations, &first), ("b", "shop", annotations, &second)]);
        assert_eq!(found.len(), expected, "{first}, {second}, {annotations}: {found:?}");
    }
}

/// Removing the rule that allows everywhere would close a namespace.
#[test]
fn a_rule_that_allows_more_is_not_superfluous() {
    let spec = r#"{match: 'source.user == "a"', actions: [{handler: deny.shop, instances: [one.shop]}]}"#;
    let of = |first, second| {
        lint_of(&[("a", "istio-system", first, spec), ("b", "istio-system", second, spec)]).len()
    };
    let everywhere = "mixer.dev/allows: everywhere";
    assert_eq!([of("", everywhere), of(everywhere, everywhere), of("", "")], [0, 1, 1]);
}
