//! What a caller makes fail, and what cannot be charged, opens nothing.

use crate::direct::{AUTHORIZATION, LIMITS, Setting};
use crate::support::{DEADLINE, ServerBuilder, free_port, http, wait_for};
use crate::unknown::{Asked, DENIED, EXHAUSTED, MANIFEST, QUOTA, bridge, limit, validated};

/// INVALID_ARGUMENT.
const INVALID: i32 = 3;

/// As a server starts that is not called as Istio Mixer.
const NATIVE: [&str; 1] = ["--config-on-error=keep-last"];

const DENY: &str = "---
kind: handler
metadata: {name: deny, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7}}}
---
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
";

#[test]
fn a_body_is_text_however_envoy_packs_it() {
    let rule = "---
kind: rule
metadata: {name: attack, namespace: istio-system}
spec: {match: '\"(?i)attack\".matches(request.body.text | \"\")', actions: [{handler: deny, instances: [nothing]}]}
";
    let setting =
        Setting::on(&format!("{MANIFEST}{DENY}{rule}{}", bridge("{check: {includeBody: true}}")), &[]);
    let mut client = setting.client();
    for as_bytes in [false, true] {
        for (body, code) in [("an Attack", DENIED), ("nothing", 0)] {
            let asked = Asked::of("POST", "/").body(body, as_bytes);
            assert_eq!(asked.code(&mut client), code, "{body}, {as_bytes}");
        }
    }
}

/// The quota with another handler.
fn charged_by(handler: &str) -> String {
    let rule = QUOTA.replace("NAMESPACE", "istio-system");
    let start = rule.find("kind: handler").zip(rule.find("---\nkind: instance")).expect("the parts");
    format!("{}{handler}{}", &rule[..start.0], &rule[start.1..])
}

/// A handler whose calls fail.
fn failing(annotations: &str) -> String {
    format!(
        "kind: handler\nmetadata: {{name: memory, namespace: istio-system{annotations}}}\n\
         spec: {{compiledAdapter: drill, params: {{outcome: ERROR}}}}\n"
    )
}

/// A quota whose backend is not there, and what descriptors get for it.
fn limited(handler: &str, settings: &str) -> Result<bool, tonic::Status> {
    let rule = charged_by(handler);
    let quotas = "quotas: [{domain: d, entries: {k: '*'}, quota: calls}]";
    let bridge = bridge(&format!("{{ratelimit: {{{quotas}{settings}}}}}"));
    let setting = Setting::on(&format!("{MANIFEST}{rule}{bridge}"), &NATIVE);
    let mut client = setting.client();
    let first = limit(&mut client, "d", ("k", "v"));
    let again = limit(&mut client, "d", ("k", "v"));
    let shown =
        |answer: &Result<bool, tonic::Status>| format!("{:?}", answer.as_ref().map_err(tonic::Status::code));
    assert_eq!(shown(&first), shown(&again), "{handler}, {settings}");
    assert!(limit(&mut client, "d", ("other", "v")).expect("an answer"), "no quota is for it");
    first
}

/// The filter of Envoy allows by default what is an error.
#[test]
fn a_limit_that_cannot_be_charged_is_over() {
    let redis = format!(
        "kind: handler\nmetadata: {{name: memory, namespace: istio-system}}\n\
         spec: {{compiledAdapter: redisquota, params: {{redisServerUrl: \"127.0.0.1:{}\", connectionPoolSize: 1, \
         quotas: [{{name: calls.instance.istio-system, maxAmount: 9, validDuration: 60s}}]}}}}\n",
        free_port()
    );
    assert!(!limited(&failing(""), "").expect("an answer"));
    assert!(!limited(&redis, "").expect("an answer"), "Redis is not there");
    let told = limited(&redis, ", errorMode: delegate").expect_err("an error");
    assert_eq!(told.code(), tonic::Code::Unavailable, "{told}");
    assert!(limited(&redis, ", errorMode: open").expect("an answer"), "on purpose");
    let allows = ", annotations: {mixer.dev/on-error: allow}";
    assert!(limited(&failing(allows), "").expect("an answer"), "on purpose");
}

/// A condition that fails decides nothing: neither that the quota is charged, nor that it is granted.
#[test]
fn a_charge_that_no_rule_takes_is_no_grant_if_a_condition_fails() {
    let of = |condition: &str| {
        let actions = "spec: {actions: ";
        let rule = QUOTA
            .replace("NAMESPACE", "istio-system")
            .replace(actions, &format!("spec: {{match: '{condition}', actions: "));
        let quotas = "quotas: [{domain: d, entries: {k: '*', tier: '*'}, quota: calls}, {domain: d, entries: {k: '*'}, quota: calls}]";
        let check = "check: {quotaSpec: [{rules: [{quotas: [{quota: calls}]}]}]}";
        let setting = Setting::on(
            &format!("{MANIFEST}{rule}{}", bridge(&format!("{{{check}, ratelimit: {{{quotas}}}}}"))),
            &[],
        );
        let mut client = setting.client();
        let limits =
            [("k", "v"), ("k", "free")].map(|entry| limit(&mut client, "d", entry).expect("an answer"));
        (limits, Asked::of("GET", "/").code(&mut client))
    };
    // Only some tiers are limited: nothing is charged for the others.
    assert_eq!(of("(ratelimit.descriptor[\"tier\"] | \"none\") == \"free\"").0, [true, true]);
    let (limits, code) =
        of("(ratelimit.descriptor[\"tier\"] | ratelimit.key) == \"free\" || source.namespace == \"x\"");
    assert_eq!(limits, [false, false], "nobody knows whether the rule is for it");
    assert_ne!(code, 0, "likewise a check");
}

/// An absent attribute of a plain comparison says that the rule is for others; one whose absence would evade the charge says nothing.
#[test]
fn a_charge_is_refused_only_to_requests_that_would_evade_it() {
    let setting = |annotations: &str, condition: &str| {
        let actions = "spec: {actions: ";
        let rule = QUOTA
            .replace("NAMESPACE", "istio-system")
            .replace(
                "{name: charge, namespace: istio-system}",
                &format!("{{name: charge, namespace: istio-system{annotations}}}"),
            )
            .replace(actions, &format!("spec: {{match: '{condition}', actions: "));
        let quotas = "quotas: [{domain: d, entries: {k: '*'}, quota: calls}]";
        let check = "check: {errorMode: open, quotaSpec: [{rules: [{quotas: [{quota: calls}]}]}]}";
        let bridge = bridge(&format!("{{{check}, ratelimit: {{{quotas}}}}}"));
        let attributes = "  attributes:\n    ratelimit.descriptor: {valueType: STRING_MAP}\n";
        let manifest = MANIFEST.replace("  attributes:\n", attributes);
        Setting::on(&format!("{manifest}{rule}{bridge}"), &[])
    };
    let cel = ", annotations: {policy.istio.io/lang: CEL}";
    let equal = "request.headers[\"x-plan\"] == \"free\"";
    for (annotations, condition, plain, free) in [
        // Most requests are on no plan, and not charged.
        (cel, equal, 0, [0, EXHAUSTED]),
        ("", "source.namespace == \"bot\"", 0, [0, 0]),
        ("", &format!("{equal} && source.namespace == \"bot\""), 0, [0, 0]),
        // Who leaves the plan out is not better off than with any other plan.
        (cel, "request.headers[\"x-plan\"] != \"gold\"", INVALID, [0, EXHAUSTED]),
        ("", "source.namespace != \"ops\"", INVALID, [INVALID, INVALID]),
    ] {
        let setting = setting(annotations, condition);
        let mut client = setting.client();
        assert_eq!(Asked::of("GET", "/").code(&mut client), plain, "{condition}");
        let on_plan = || Asked::of("GET", "/").headers(&[("x-plan", b"free")]);
        assert_eq!([(); 2].map(|()| on_plan().code(&mut client)), free, "{condition}");
    }
    for (annotations, condition, expected) in [
        (cel, "ratelimit.descriptor[\"tier\"] == \"free\"", true),
        (cel, "ratelimit.descriptor[\"tier\"] != \"gold\"", false),
        // Every check has a method, and descriptors have none.
        ("", "request.method != \"PUT\" || ratelimit.domain == \"e\"", false),
    ] {
        let setting = setting(annotations, condition);
        let told = limit(&mut setting.client(), "d", ("k", "v")).expect("an answer");
        assert_eq!(told, expected, "{condition}");
    }
}

/// A condition that is false says who is charged, and is evaluated once: what patterns may search suffices for five of them.
#[test]
fn a_condition_over_a_long_body_that_is_false_grants_the_quota() {
    let searched: Vec<String> =
        (0..5).map(|n| format!("\"(?i)bot{n}\".matches(request.body.text | \"\")")).collect();
    let actions = "spec: {actions: ";
    let rule = QUOTA
        .replace("NAMESPACE", "istio-system")
        .replace(actions, &format!("spec: {{match: '{}', actions: ", searched.join(" || ")));
    let bridge = bridge("{check: {includeBody: true, quotaSpec: [{rules: [{quotas: [{quota: calls}]}]}]}}");
    let setting = Setting::on(&format!("{MANIFEST}{rule}{bridge}"), &NATIVE);
    let mut client = setting.client();
    let long = "x".repeat(950_000);
    let mut ask = |body: &str| Asked::of("POST", "/").body(body, false).ask(&mut client);
    for body in ["nothing", &long, &long] {
        let (code, message) = ask(body);
        assert_eq!(code, 0, "{}: {message}", body.len());
    }
    let codes = [(); 2].map(|()| ask(&format!("{long}bot4")).0);
    assert_eq!(codes, [0, EXHAUSTED], "it is charged");
}

/// Values that make rules fail are refused, as in a check: the caller could choose the mode.
#[test]
fn a_descriptor_that_makes_rules_fail_is_over_its_limit_whatever_the_mode() {
    for mode in ["open", "delegate", "closed"] {
        let rule = QUOTA.replace("NAMESPACE", "istio-system").replace("maxAmount: 1,", "maxAmount: 2,");
        let dimension = "dimensions: {address: 'ip(ratelimit.descriptor[\"ip\"] | \"0.0.0.0\")'}";
        let by_address = rule.replace("dimensions: {}", dimension);
        let searched: Vec<String> =
            (0..10).map(|n| format!("\"(?i)bot{n}\".matches(ratelimit.descriptor[\"ip\"] | \"\")")).collect();
        let condition = format!("({}) == false", searched.join(" || "));
        let by_pattern =
            rule.replace("spec: {actions: ", &format!("spec: {{match: '{condition}', actions: "));
        let long = "x".repeat(950_000);
        for (rule, failing) in [(by_address, "zzz"), (by_pattern, &*long)] {
            let quotas = "quotas: [{domain: d, entries: {ip: '*'}, quota: calls}]";
            let bridge = bridge(&format!("{{ratelimit: {{errorMode: {mode}, {quotas}}}}}"));
            let setting = Setting::on(&format!("{MANIFEST}{rule}{bridge}"), &NATIVE);
            let mut client = setting.client();
            let mut ask = |ip: &str| limit(&mut client, "d", ("ip", ip)).expect("an answer");
            let told = [(); 4].map(|()| ask(failing));
            assert_eq!(told, [false; 4], "{mode}: {}", failing.len());
            let told = [(); 3].map(|()| ask("10.0.0.7"));
            assert_eq!(told, [true, true, false], "{mode}: nothing was charged before");
        }
    }
}

/// Failures that depend on the request alone, in rules of every kind.
#[test]
fn what_a_caller_makes_fail_is_refused_whatever_the_mode() {
    let list = "---
kind: handler
metadata: {name: office, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {entryType: IP_ADDRESSES, overrides: [\"10.0.0.0/8\"]}}
---
kind: instance
metadata: {name: client, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: 'ip(request.headers[\"x-real-ip\"] | \"10.0.0.1\")'}}
---
kind: rule
metadata: {name: office, namespace: istio-system}
spec: {actions: [{handler: office, instances: [client]}]}
";
    let patterns: String = (0..10)
        .map(|n| {
            format!(
                "---\nkind: rule\nmetadata: {{name: attack-{n}, namespace: istio-system}}\n\
                 spec: {{match: '\"(?i)attack{n}\".matches(request.body.text | \"\")', actions: [{{handler: deny, instances: [nothing]}}]}}\n"
            )
        })
        .collect();
    let rego = "---
kind: handler
metadata: {name: gate, namespace: istio-system}
spec:
  compiledAdapter: opa
  params:
    checkMethod: data.gate.allow
    policy:
    - |
      package gate
      default allow := false
      allow if net.cidr_contains(\"10.0.0.0/8\", input.action.path)
---
kind: instance
metadata: {name: who, namespace: istio-system}
spec: {compiledTemplate: authorization, params: {subject: {user: '\"ann\"'}, action: {path: 'request.headers[\"x-real-ip\"] | \"10.0.0.1\"'}}}
---
kind: rule
metadata: {name: gate, namespace: istio-system}
spec: {actions: [{handler: gate, instances: [who]}]}
";
    let long = "x".repeat(950_000);
    for mode in ["open", "delegate", "closed"] {
        let bridge = bridge(&format!("{{check: {{errorMode: {mode}, includeBody: true}}}}"));
        let setting = |rules: &str| Setting::on(&format!("{MANIFEST}{DENY}{rules}{bridge}"), &NATIVE);
        for rules in [list, rego] {
            let setting = setting(rules);
            let mut client = setting.client();
            let mut from = |address: &[u8]| {
                let asked = Asked::of("GET", "/").headers(&[("x-real-ip", address)]);
                asked.ask(&mut client)
            };
            assert_eq!(from(b"10.0.0.7").0, 0, "{mode}");
            assert!([DENIED, 5].contains(&from(b"11.1.1.1").0), "{mode}");
            let (code, message) = from(b"zzz");
            assert_eq!(code, INVALID, "{mode}: {message}");
        }
        let setting = setting(&patterns);
        let mut client = setting.client();
        let mut ask = |body: &str| Asked::of("POST", "/").body(body, false).code(&mut client);
        assert_eq!([ask("nothing"), ask("attack9"), ask(&long)], [0, DENIED, INVALID], "{mode}");
        // The rule that denies it may be among those that are evaluated.
        assert_ne!(ask(&format!("attack9{long}")), 0, "{mode}");
    }
}

/// A policy that takes as long as there is time for a long header, and denies what is not from `10.0.0.0/8`.
const SLOW_IF_LONG: &str = "---
kind: handler
metadata: {name: gate, namespace: istio-system, annotations: {ANNOTATION}}
spec:
  compiledAdapter: opa
  params:
    evaluationTimeout: 1s
    checkMethod: data.gate.allow
    failClose: CLOSE
    policy:
    - |
      package gate
      default allow := false
      n := numbers.range(1, 3000)
      allow if {
        count(input.action.path) > 1000
        count([1 | n[_] * n[_] * n[_] == 17]) > 1000000
      }
      allow if input.action.path == \"10.0.0.7\"
---
kind: instance
metadata: {name: who, namespace: istio-system}
spec: {compiledTemplate: authorization, params: {subject: {user: '\"ann\"'}, action: {path: 'request.headers[\"x-real-ip\"] | \"10.0.0.1\"'}}}
---
kind: rule
metadata: {name: gate, namespace: istio-system}
spec: {actions: [{handler: gate, instances: [who]}]}
";

/// Callers choose how long a policy takes over what they send. `mixer.dev/on-error: allow` is for every failure, on purpose, and a policy with
/// `failClose` has none.
#[test]
fn a_policy_that_a_caller_makes_slow_opens_nothing() {
    let allows = "mixer.dev/on-error: allow";
    for (mode, annotation, closes, late) in [
        ("open", "", false, INVALID),
        ("delegate", "", false, INVALID),
        ("closed", "", false, INVALID),
        ("open", "", true, DENIED),
        ("open", allows, true, DENIED),
        ("closed", allows, false, 0),
    ] {
        let policy = SLOW_IF_LONG.replace("ANNOTATION", annotation).replace("CLOSE", &closes.to_string());
        let bridge = bridge(&format!("{{check: {{errorMode: {mode}}}}}"));
        let setting = Setting::on(&format!("{MANIFEST}{policy}{bridge}"), &NATIVE);
        let mut client = setting.client();
        let mut from = |address: &str| {
            let asked = Asked::of("GET", "/").headers(&[("x-real-ip", address.as_bytes())]);
            asked.ask(&mut client)
        };
        let row = format!("{mode}, {annotation}, {closes}");
        assert_eq!((from("10.0.0.7").0, from("11.0.0.1").0), (0, DENIED), "{row}");
        let (code, message) = from(&"a".repeat(2000));
        assert_eq!(code, late, "{row}: {message}");
    }
}

/// Descriptors have its default.
const MAPPING: &str = "kind: attributemapping
metadata: {name: tenant, namespace: istio-system}
spec: {mappings: [{attribute: request.tenant, from: {requestHeader: x-tenant}, default: unknown}]}
";

/// A rule over what descriptors do not have would never charge the quota: the warning of a dimension, as an error.
#[test]
fn a_quota_whose_conditions_no_descriptor_fulfils_is_an_error() {
    let all = |condition: &str, entry: &str, rest: &str| {
        let rule = QUOTA
            .replace("NAMESPACE", "istio-system")
            .replace("spec: {actions: ", &format!("spec: {{match: '{condition}', actions: "));
        let quotas = format!("quotas: [{{domain: d, entries: {{{entry}}}, quota: calls}}]");
        let manifest = MANIFEST.replace(
            "  attributes:\n",
            "  attributes:\n    context.reporter.kind: {valueType: STRING}\n    context.protocol: {valueType: STRING}\n    \
             context.reporter.principal: {valueType: STRING}\n    request.user: {valueType: STRING}\n    \
             source.ip: {valueType: IP_ADDRESS}\n    destination.service.name: {valueType: STRING}\n    \
             request.tenant: {valueType: STRING}\n",
        );
        let text = format!(
            "{manifest}{rule}---\n{MAPPING}{}",
            bridge(&format!("{{ratelimit: {{{quotas}}}{rest}}}"))
        );
        let is_told = |told: &String| told.starts_with("error") || told.contains("[quota-unchargeable]");
        validated(&text, &[]).into_iter().filter(is_told).collect::<Vec<String>>()
    };
    let told = |condition: &str, entry: &str, rest: &str| {
        let mut found = all(condition, entry, rest);
        found.retain(|told| told.starts_with("error"));
        found
    };
    for condition in [
        "request.auth.claims[\"plan\"] == \"free\"",
        "context.protocol == \"http\"",
        "(request.headers[\"x-user\"] | \"\") != \"\"",
        "(destination.namespace | \"\") == \"shop\"",
        "ratelimit.descriptor[\"k\"] == \"v\" && request.headers[\"x-user\"] == \"bot\"",
    ] {
        let found = told(condition, "k: \"*\"", "");
        assert_eq!(found.len(), 1, "{condition}: {found:?}");
        assert!(found[0].contains("[quota-unchargeable]"), "{condition}: {found:?}");
    }
    // A descriptor may have entries that the selector does not name.
    for (condition, is_warned) in [
        ("source.ip != ip(\"10.0.0.1\")", false),
        ("destination.service.name == \"shop\"", false),
        ("context.reporter.principal == \"envoy\"", false),
        ("request.user == \"bot\"", true),
        ("ratelimit.domain == \"d\" && request.user == \"bot\"", true),
        ("source.namespace == \"shop\"", true),
        ("request.method == \"GET\"", true),
        ("request.url_path.startsWith(\"/api\")", true),
        ("context.reporter.kind == \"inbound\"", true),
        ("request.tenant == \"unknown\"", false),
    ] {
        let found = all(condition, "k: \"*\"", "");
        assert_eq!(found.len(), usize::from(is_warned), "{condition}: {found:?}");
        assert!(found.iter().all(|told| told.starts_with("warning[quota-unchargeable]")), "{found:?}");
    }
    let any = all("request.method == \"POST\"", "", "");
    assert!(any.len() == 1 && any[0].starts_with("warning[quota-unchargeable]"), "{any:?}");
    let certain = all("request.user == \"bot\" && request.headers[\"x-user\"] == \"bot\"", "k: \"*\"", "");
    assert!(certain.len() == 1 && certain[0].contains("`request.headers`"), "{certain:?}");
    let shop = ", defaultNamespace: shop";
    for (condition, entry, rest) in [
        ("ratelimit.descriptor[\"k\"] == \"v\"", "k: \"*\"", ""),
        ("ratelimit.domain == \"d\" || request.method == \"GET\"", "k: \"*\"", ""),
        ("(request.method | \"GET\") == \"GET\"", "k: \"*\"", ""),
        ("context.protocol == \"ratelimit\"", "k: \"*\"", ""),
        ("context.protocol != \"http\"", "k: \"*\"", ""),
        ("request.method == \"GET\"", "request.method: \"*\"", ""),
        ("(destination.namespace | \"\") == \"shop\"", "k: \"*\"", shop),
        ("origin.ip == ip(\"10.0.0.1\")", "remote_address: \"*\"", ""),
    ] {
        assert_eq!(told(condition, entry, rest), [""; 0], "{condition}");
    }
}

/// Callers choose how much they send, and Envoy's failure mode may allow what is an error.
#[test]
fn a_request_that_is_too_large_is_refused_in_every_mode() {
    let large = "x".repeat(100 << 10);
    let many: Vec<String> = (0..6_000).map(|number| format!("x-{number}")).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), &b"v"[..])).collect();
    for mode in ["delegate", "open", "closed"] {
        let rule = QUOTA.replace("NAMESPACE", "istio-system");
        let quotas = "quotas: [{domain: d, entries: {k: '*'}, quota: calls}]";
        let bridge =
            bridge(&format!("{{check: {{errorMode: {mode}}}, ratelimit: {{errorMode: {mode}, {quotas}}}}}"));
        for (arguments, is_long) in [(&["--maxMessageSize=65536"][..], true), (&[], false)] {
            let setting = Setting::on(&format!("{MANIFEST}{rule}{bridge}"), arguments);
            let mut client = setting.client();
            assert_eq!(Asked::of("POST", "/").body("little", true).code(&mut client), 0, "{mode}");
            if is_long {
                assert_eq!(Asked::of("POST", "/").body(&large, true).code(&mut client), INVALID, "{mode}");
                assert!(!limit(&mut client, "d", ("k", &large)).expect("an answer"), "{mode}");
            } else {
                assert_eq!(Asked::of("GET", "/").headers(&many).code(&mut client), INVALID, "{mode}");
            }
            assert!(limit(&mut client, "d", ("k", "v")).expect("an answer"), "{mode}");
        }
    }
}

/// Callers choose what they send, and operators are called for what the server cannot do.
#[test]
fn calls_that_are_refused_for_what_they_send_are_no_failures() {
    let large = "x".repeat(100 << 10);
    let quotas = "quotas: [{domain: d, entries: {k: '*'}, quota: calls}]";
    let bridge = bridge(&format!("{{check: {{enabled: false}}, ratelimit: {{{quotas}}}}}"));
    let policy = format!("{MANIFEST}{}{bridge}", charged_by(&failing("")));
    let setting = Setting::of(&policy, &["--maxMessageSize=65536"], ServerBuilder::native);
    let mut client = setting.client();
    for _ in 0..10 {
        let status = client.call(AUTHORIZATION, Vec::new(), None).expect_err("the service is disabled");
        assert_eq!(status.code(), tonic::Code::Unimplemented, "{status}");
        let status = client.call(LIMITS, vec![0xff], None).expect_err("it is no message");
        assert_eq!(status.code(), tonic::Code::Internal, "{status}");
        assert!(!limit(&mut client, "d", ("k", &large)).expect("an answer"));
    }
    for _ in 0..5 {
        assert!(!limit(&mut client, "d", ("k", "v")).expect("an answer"), "its quota cannot be charged");
    }
    let told = || {
        let answer = http("GET", &setting.server.monitoring_url("/readyz?verbose"), "").expect("an answer");
        let state: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        state["degraded"]["calls"]["why"].as_str().map(str::to_owned)
    };
    let told = wait_for(DEADLINE, told).expect("calls are degraded");
    assert_eq!(told, "5 of the last 5 rate-limit calls failed: 5 UNKNOWN");
}
