//! The annotation `mixer.dev/default` of rules: what no rule allows is refused.

use mixer_attribute::OwnedAttributes;
use mixer_engine::check_cache::CheckCacheLimits;

use crate::fixture::Served;

const BASE: &str = r#"
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    destination.namespace: {valueType: STRING}
    destination.service.name: {valueType: STRING}
    context.reporter.kind: {valueType: STRING}
---
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
kind: instance
metadata: {name: user, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: 'source.user | ""'}}
---
kind: handler
metadata: {name: allow, namespace: istio-system}
spec: {compiledAdapter: noop}
---
kind: handler
metadata: {name: refuse, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 16, message: who}}}
---
kind: handler
metadata: {name: banned, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {overrides: [eve], blacklist: true}}
---
kind: handler
metadata: {name: staff, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {overrides: [ann]}}
---
kind: handler
metadata: {name: unreachable, namespace: istio-system, annotations: {mixer.dev/on-error: allow}}
spec: {compiledAdapter: listchecker, params: {providerUrl: "http://127.0.0.1:9/none"}}
"#;

/// A default of the namespace `shop`.
const CLOSED: &str = r#"
---
kind: rule
metadata: {name: closed, namespace: shop, annotations: {mixer.dev/default: deny}}
"#;

fn rule(name: &str, namespace: &str, condition: &str, action: &str) -> String {
    let quoted = serde_json::Value::from(condition);
    format!(
        "\n---\nkind: rule\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{match: {quoted}, actions: [{action}]}}\n"
    )
}

const ALLOW: &str = "{handler: allow.istio-system, instances: [nothing.istio-system]}";
const REFUSE: &str = "{handler: refuse.istio-system, instances: [nothing.istio-system]}";
const BANNED: &str = "{handler: banned.istio-system, instances: [user.istio-system]}";
const STAFF: &str = "{handler: staff.istio-system, instances: [user.istio-system]}";
const UNREACHABLE: &str = "{handler: unreachable.istio-system, instances: [user.istio-system]}";

/// The rule, whose OK opens every namespace.
fn everywhere(rule: &str) -> String {
    let (head, spec) = rule.split_once("}\nspec").expect("a rule");
    format!("{head}, annotations: {{mixer.dev/allows: everywhere}}}}\nspec{spec}")
}

fn request(pairs: &[(&str, &str)]) -> OwnedAttributes {
    pairs.iter().copied().collect()
}

/// Code of the answer to `user` in `namespace`.
fn code(text: &str, namespace: &str, user: &str) -> i32 {
    let served = Served::start(text, None);
    let attributes = request(&[("destination.namespace", namespace), ("source.user", user)]);
    let answer = served.check(&served.service(), &attributes);
    answer.precondition.unwrap().status.unwrap().code
}

#[test]
fn what_no_rule_allowed_is_refused() {
    let with = |rules: &[String]| format!("{BASE}{CLOSED}{}", rules.concat());
    let ann = r#"source.user == "ann""#;
    for (name, rules, user, expected) in [
        ("no rule", vec![], "ann", 7),
        ("a rule allows", vec![rule("a", "shop", ann, ALLOW)], "ann", 0),
        ("a rule that does not match", vec![rule("a", "shop", ann, ALLOW)], "ben", 7),
        ("a rule for the mesh allows", vec![rule("a", "istio-system", ann, ALLOW)], "ann", 7),
        ("a list of the mesh has the user", vec![rule("a", "istio-system", "", STAFF)], "ann", 7),
        (
            "rules of both allow",
            vec![rule("a", "istio-system", "", STAFF), rule("b", "shop", "", ALLOW)],
            "ann",
            0,
        ),
        (
            "the mesh refuses",
            vec![rule("a", "istio-system", "", STAFF), rule("b", "shop", "", ALLOW)],
            "ben",
            7,
        ),
        (
            "a rule for the mesh that opens",
            vec![everywhere(&rule("a", "istio-system", ann, ALLOW))],
            "ann",
            0,
        ),
        ("it selects others", vec![everywhere(&rule("a", "istio-system", ann, ALLOW))], "ben", 7),
        ("it refuses", vec![everywhere(&rule("a", "istio-system", "", REFUSE))], "ann", 16),
        (
            "of another namespace it opens its own",
            vec![everywhere(&rule("a", "other", ann, ALLOW))],
            "ann",
            7,
        ),
        ("a rule of another namespace", vec![rule("a", "other", ann, ALLOW)], "ann", 7),
        ("a refusal keeps its code", vec![rule("a", "shop", "", REFUSE)], "ann", 16),
        (
            "a refusal is stronger than a rule that allows",
            vec![rule("a", "shop", "", ALLOW), rule("b", "shop", "", REFUSE)],
            "ann",
            16,
        ),
        ("on the list", vec![rule("a", "shop", "", STAFF)], "ann", 0),
        ("not on the list", vec![rule("a", "shop", "", STAFF)], "ben", 7),
        ("no objection allows nothing", vec![rule("a", "istio-system", "", BANNED)], "ann", 7),
        ("an ignored failure allows nothing", vec![rule("a", "shop", "", UNREACHABLE)], "ann", 7),
    ] {
        assert_eq!(code(&with(&rules), "shop", user), expected, "{name}");
    }
    assert_eq!(code(&with(&[]), "other", "ann"), 0, "another namespace");
    let allowed = CLOSED.replace("default: deny", "default: allow").replace("}}", "}}\nspec: {actions: [")
        + REFUSE
        + "], match: 'source.user == \"eve\"'}";
    assert_eq!(code(&format!("{BASE}{allowed}"), "shop", "ann"), 0, "the default is `allow`");
}

#[test]
fn a_default_of_the_mesh_namespace_is_for_every_request() {
    let text = format!("{BASE}{}", CLOSED.replace("shop", "istio-system")) + &rule("a", "shop", "", ALLOW);
    assert_eq!(code(&text, "shop", "ann"), 0);
    assert_eq!(code(&text, "other", "ann"), 7);
}

#[test]
fn a_default_of_the_mesh_namespace_and_one_of_a_namespace_are_satisfied_by_their_own_rules() {
    let mesh = CLOSED.replace("shop", "istio-system");
    let by_mesh = rule("a", "istio-system", r#"source.user == "ann""#, ALLOW);
    let by_shop = rule("b", "shop", r#"source.user == "ben""#, ALLOW);
    let text = format!("{BASE}{CLOSED}{mesh}{by_mesh}{by_shop}");
    let served = Served::start(&text, None);
    let service = served.service();
    let message = |namespace: &str, user: &str| {
        let attributes = request(&[("destination.namespace", namespace), ("source.user", user)]);
        let status = served.check(&service, &attributes).precondition.unwrap().status.unwrap();
        (status.code, status.message)
    };
    let refused = |text: &str| (7, format!("mixer:{text}"));
    let by_namespace = "no rule of its namespace allows this request, default of closed.rule.shop";
    assert_eq!(message("shop", "ann"), refused(by_namespace));
    assert_eq!(message("shop", "ben").0, 0, "a rule of the namespace opens both");
    let by_default = "no rule allows this request, default of closed.rule.istio-system";
    assert_eq!(message("shop", "cid"), refused(by_default));
    assert_eq!(message("other", "ann").0, 0);
    assert_eq!(message("other", "ben"), refused(by_default));
}

/// The misspelt annotation of a rule for the mesh opens nothing, and is an error.
#[test]
fn a_misspelt_value_opens_no_namespace() {
    for (value, expected) in
        [("everywhere", 0), ("everywere", 7), ("Everywhere", 7), ("\"true\"", 7), ("", 7)]
    {
        let rule =
            everywhere(&rule("a", "istio-system", "", ALLOW)).replace("everywhere}", &format!("{value}}}"));
        assert_eq!(code(&format!("{BASE}{CLOSED}{rule}"), "shop", "ann"), expected, "{value}");
    }
}

#[test]
fn a_condition_selects_a_service() {
    let closed = |annotations: &str| {
        format!(
            "{BASE}\n---\nkind: rule\nmetadata: {{name: closed, namespace: shop, annotations: {{{annotations}}}}}\n\
             spec: {{match: 'destination.service.name == \"till\"'}}\n"
        )
    };
    let ask = |text: &str, service: Option<&str>| {
        let served = Served::start(text, None);
        let mut attributes = request(&[("destination.namespace", "shop")]);
        if let Some(service) = service {
            attributes
                .insert("destination.service.name", mixer_attribute::OwnedValue::String(service.into()));
        }
        served.check(&served.service(), &attributes).precondition.unwrap().status.unwrap()
    };
    let text = closed("mixer.dev/default: deny");
    let refused = ask(&text, Some("till"));
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (7, "mixer:no rule allows this request, default of closed.rule.shop")
    );
    assert_eq!(ask(&text, Some("window")).code, 0);
    assert_eq!(ask(&text, None).code, 7, "a condition that fails selects the request");
    for policy in ["deny", "lastKnown"] {
        let strict = closed(&format!("mixer.dev/default: deny, mixer.dev/on-error: {policy}"));
        assert_eq!(ask(&strict, None).code, 7, "{policy}");
        assert_eq!(ask(&strict, Some("window")).code, 0, "{policy}");
    }
    let lax = closed("mixer.dev/default: deny, mixer.dev/on-error: allow");
    assert_eq!(ask(&lax, None).code, 0, "unless the rule ignores failures");
    assert_eq!(ask(&lax, Some("till")).code, 7);
    let allowed = text + &rule("a", "shop", "", ALLOW);
    assert_eq!(ask(&allowed, None).code, 0, "a rule allows");
}

/// A caller who makes a handler fail does not turn the refusal by the default into a failed call.
#[test]
fn what_no_rule_allowed_is_refused_whatever_fails() {
    let broken = "\n---\nkind: handler\nmetadata: {name: broken, namespace: istio-system}\n\
                  spec: {compiledAdapter: drill, params: {outcome: ERROR}}\n";
    let failing = rule("b", "shop", "", "{handler: broken.istio-system, instances: [nothing.istio-system]}");
    let instance = "\n---\nkind: instance\nmetadata: {name: caller, namespace: istio-system}\n\
                    spec: {compiledTemplate: listentry, params: {value: source.user}}\n";
    let of_instance =
        rule("b", "shop", "", "{handler: staff.istio-system, instances: [caller.istio-system]}");
    let cache = CheckCacheLimits { entries: 100, bytes: 1 << 20 };
    let ann = request(&[("destination.namespace", "shop"), ("source.user", "ann")]);
    let nobody = request(&[("destination.namespace", "shop")]);
    for (rules, caller) in
        [(broken.to_owned() + &failing, &ann), (instance.to_owned() + &of_instance, &nobody)]
    {
        let served = Served::start(&format!("{BASE}{CLOSED}{rules}"), Some(cache));
        let service = served.service();
        for failures in 1..3 {
            let answer = served.check(&service, caller).precondition.unwrap();
            let status = answer.status.unwrap();
            let refused = "mixer:no rule allows this request, default of closed.rule.shop";
            assert_eq!((status.code, status.message.as_str()), (7, refused));
            assert_eq!(answer.valid_use_count, 0, "the next call asks again");
            let counted = format!("mixer_check_overruled_failures_total {failures}");
            assert_eq!(served.samples("mixer_check_overruled_failures_total"), [counted]);
        }
        // What a rule allowed, and what the default does not select, fails.
        let allowed = format!("{BASE}{CLOSED}{rules}{}", rule("a", "shop", "", ALLOW));
        let elsewhere = format!("{BASE}{}{rules}", CLOSED.replace("shop", "other"));
        for text in [allowed, elsewhere] {
            let served = Served::start(&text, None);
            assert!(served.check_fails(&served.service(), caller), "{text}");
        }
    }
}

/// Two rules with one condition: only that of the default selects when the condition fails.
#[test]
fn the_actions_of_a_default_do_not_apply_when_its_condition_fails() {
    let text = format!(
        "{BASE}\n---\nkind: rule\nmetadata: {{name: closed, namespace: shop, annotations: {{mixer.dev/default: deny}}}}\n\
         spec: {{match: 'destination.service.name == \"till\"', actions: [{REFUSE}]}}\n"
    );
    assert_eq!(code(&text, "shop", "ann"), 7, "refused by the default, not by the action");
}

#[test]
fn cached_answers_are_those_of_a_default_whose_condition_fails() {
    let limits = CheckCacheLimits { entries: 100, bytes: 1 << 20 };
    let text = format!(
        "{BASE}\n---\nkind: rule\nmetadata: {{name: closed, namespace: shop, annotations: {{mixer.dev/default: deny}}}}\n\
         spec: {{match: 'destination.service.name == \"till\" && source.user != \"ann\"'}}\n"
    );
    let (cached, uncached) = (Served::start(&text, Some(limits)), Served::start(&text, None));
    let (first, second) = (cached.service(), uncached.service());
    let mut codes = Vec::new();
    for _ in 0..3 {
        for service in [None, Some("till"), Some("window")] {
            for user in [None, Some("ann"), Some("ben")] {
                let given = [("destination.service.name", service), ("source.user", user)];
                let mut pairs = vec![("destination.namespace", "shop")];
                pairs.extend(given.into_iter().filter_map(|(name, value)| Some((name, value?))));
                let attributes = request(&pairs);
                let answer = cached.check(&first, &attributes);
                assert_eq!(answer, uncached.check(&second, &attributes), "{pairs:?}");
                codes.push(answer.precondition.unwrap().status.unwrap().code);
            }
        }
    }
    assert_eq!(codes, [7, 7, 7, 7, 0, 7, 0, 0, 0].repeat(3));
    assert_eq!(cached.runtime.cache_counters().hits(), 22, "5 different sets of references");
}

#[test]
fn cached_answers_are_those_of_the_default() {
    let limits = CheckCacheLimits { entries: 100, bytes: 1 << 20 };
    let text = format!("{BASE}{CLOSED}") + &rule("a", "shop", r#"source.user == "ann""#, ALLOW);
    let mut served = Served::start(&text, Some(limits));
    let service = served.service();
    for _ in 0..3 {
        for (namespace, user, expected) in
            [("shop", "ann", 0), ("shop", "ben", 7), ("other", "ben", 0), ("other", "ann", 0)]
        {
            let attributes = request(&[("destination.namespace", namespace), ("source.user", user)]);
            let answer = served.check(&service, &attributes);
            assert_eq!(answer.precondition.unwrap().status.unwrap().code, expected, "{namespace} {user}");
        }
    }
    assert_eq!(served.runtime.cache_counters().hits(), 9, "`source.user` matters in `shop` only");
    // Without the default, cached refusals are not valid any more.
    served.change(&(BASE.to_owned() + &rule("a", "shop", r#"source.user == "ann""#, ALLOW)));
    let attributes = request(&[("destination.namespace", "shop"), ("source.user", "ben")]);
    assert_eq!(served.check(&service, &attributes).precondition.unwrap().status.unwrap().code, 0);
}

/// What a rule for the mesh allows is cached by what it read, and by what the default of the namespace reads.
#[test]
fn cached_answers_are_those_of_a_rule_for_the_mesh_that_allows() {
    let limits = CheckCacheLimits { entries: 100, bytes: 1 << 20 };
    let closed = CLOSED.to_owned() + "spec: {match: 'destination.service.name == \"till\"'}\n";
    let by_mesh = rule("a", "istio-system", r#"source.user == "ann""#, ALLOW);
    for (by_mesh, opened) in [(everywhere(&by_mesh), 0), (by_mesh, 7)] {
        let text = format!("{BASE}{closed}{by_mesh}");
        let (cached, uncached) = (Served::start(&text, Some(limits)), Served::start(&text, None));
        let (first, second) = (cached.service(), uncached.service());
        for _ in 0..3 {
            for (namespace, service, user, expected) in [
                ("shop", "till", "ann", opened),
                ("shop", "till", "ben", 7),
                ("shop", "window", "ann", 0),
                ("shop", "window", "ben", 0),
                ("other", "till", "ann", 0),
                ("other", "till", "ben", 0),
            ] {
                let attributes = request(&[
                    ("destination.namespace", namespace),
                    ("destination.service.name", service),
                    ("source.user", user),
                ]);
                let answer = cached.check(&first, &attributes);
                assert_eq!(answer, uncached.check(&second, &attributes), "{namespace} {service} {user}");
                let code = answer.precondition.unwrap().status.unwrap().code;
                assert_eq!(code, expected, "{namespace} {service} {user}");
            }
        }
        assert!(cached.runtime.cache_counters().hits() >= 12);
    }
}

#[test]
fn a_refusal_after_an_ignored_failure_is_not_valid_for_later_requests() {
    let text = format!("{BASE}{CLOSED}") + &rule("a", "shop", "", UNREACHABLE);
    let served = Served::start(&text, None);
    let answer = served.check(&served.service(), &request(&[("destination.namespace", "shop")]));
    assert_eq!(answer.precondition.unwrap().valid_use_count, 0);
}

#[test]
fn a_default_in_dry_run_is_counted_and_not_enforced() {
    let closed = CLOSED.replace("default: deny", "default: deny, mixer.dev/dry-run: \"true\"");
    let text = format!("{BASE}{closed}") + &rule("a", "shop", r#"source.user == "ann""#, ALLOW);
    let served = Served::start(&text, None);
    let service = served.service();
    for user in ["ann", "ben", "cid"] {
        let attributes = request(&[("destination.namespace", "shop"), ("source.user", user)]);
        assert_eq!(served.check(&service, &attributes).precondition.unwrap().status.unwrap().code, 0);
    }
    // What only a rule for the mesh allows counts as denied, unless the rule opens namespaces.
    let by_mesh = rule("a", "istio-system", "", ALLOW);
    for (by_mesh, outcome) in [(everywhere(&by_mesh), "allowed"), (by_mesh, "denied")] {
        let served = Served::start(&format!("{BASE}{closed}{by_mesh}"), None);
        let attributes = request(&[("destination.namespace", "shop")]);
        assert_eq!(
            served.check(&served.service(), &attributes).precondition.unwrap().status.unwrap().code,
            0
        );
        let counted = served.samples("mixer_dry_run_outcomes_total{");
        let outcome = format!("outcome=\"{outcome}\"");
        assert!(counted.iter().any(|s| s.contains(&outcome) && s.ends_with(" 1")), "{counted:?}");
    }
    // The rule with a condition that fails for all of them.
    let conditional = closed.replace("}}", "}}\nspec: {match: destination.service.name == \"till\"}");
    let conditional = Served::start(&format!("{BASE}{conditional}"), None);
    let attributes = request(&[("destination.namespace", "shop")]);
    let answer = conditional.check(&conditional.service(), &attributes);
    assert_eq!(answer.precondition.unwrap().status.unwrap().code, 0);
    let denied = conditional.samples("mixer_dry_run_outcomes_total{");
    assert!(denied.iter().any(|s| s.contains("outcome=\"denied\"") && s.ends_with(" 1")), "{denied:?}");
    let samples = served.samples("mixer_dry_run_outcomes_total{");
    assert!(
        samples
            .iter()
            .any(|s| s.contains("outcome=\"denied\"") && s.contains("closed.rule.shop") && s.ends_with(" 2")),
        "{samples:?}"
    );
    assert!(samples.iter().any(|s| s.contains("outcome=\"allowed\"") && s.ends_with(" 1")), "{samples:?}");
}
