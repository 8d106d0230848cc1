//! Changes that may refuse fewer requests although neither condition nor rule tells: what is absent is selected, in CEL or by a default, or what
//! an unchanged rule names is another part. They wait beside an error.

use crate::stage::Answer;
use crate::unwritten::{Edit, NONE, edited, faulty, resource, rule};

/// With annotations.
fn annotated(rule: &str, annotations: &str) -> String {
    rule.replacen("istio-system}", &format!("istio-system, annotations: {{{annotations}}}}}"), 1)
}

/// A rule that is to refuse what `condition` selects from now on, and has an error; until now it refused zoe.
fn mistaken(condition: &str) -> Edit {
    let zoe = rule("r", "istio-system", "source.user == \"zoe\"");
    ("r", zoe, faulty("r", "istio-system", condition))
}

const CEL: &str = "policy.istio.io/lang: CEL";
const TRIAL: &str = "mixer.dev/dry-run: \"true\"";

#[test]
fn what_a_condition_in_cel_selects_without_an_attribute_waits() {
    let empty = rule("x", "istio-system", "source.user == \"\"");
    let change = ("b", annotated(&empty, CEL), annotated(&empty, &format!("{CEL}, {TRIAL}")));
    let (stage, kept) = edited(&[change, mistaken("(source.user | \"anonymous\") == \"anonymous\"")]);
    assert_eq!(stage.check_with([("request.path", "/")]), Answer::Denied, "{kept:?}");
    // The other way round.
    let classic = rule("x", "istio-system", "(source.user | \"anonymous\") == \"anonymous\"");
    let (file, before, after) = mistaken("source.user == \"\"");
    let in_cel = (file, annotated(&before, CEL), annotated(&after, CEL));
    let (stage, kept) = edited(&[("b", classic, NONE.to_owned()), in_cel]);
    assert_eq!(stage.check_with([("request.path", "/")]), Answer::Denied, "{kept:?}");
}

#[test]
fn a_default_selects_that_of_which_its_condition_fails() {
    let text = rule("d", "istio-system", "source.user == \"eve\"");
    let text = format!("{}}}\n", text.split(", actions").next().unwrap());
    let default = "mixer.dev/default: deny";
    let before = annotated(&text, default);
    for after in
        [annotated(&text, &format!("{default}, {TRIAL}")), before.replace("eve", "dan"), NONE.to_owned()]
    {
        let change = ("b", before.clone(), after.clone());
        let (stage, kept) = edited(&[change, mistaken("(source.user | \"\") == \"\"")]);
        assert_eq!(stage.check_with([("request.path", "/")]), Answer::Denied, "{after}: {kept:?}");
    }
}

/// What a request has under that name is an entry of the map no longer.
#[test]
fn an_attribute_that_is_declared_anew_waits_for_what_reads_an_entry_of_its_name() {
    let map = "{attributes: {envoy.context_extensions: {valueType: STRING_MAP}}}";
    let map = resource("attributemanifest", "maps", "istio-system", map);
    let declared =
        resource("attributemanifest", "m", "istio-system", "{attributes: {tenant: {valueType: STRING}}}");
    let reads = rule("x", "istio-system", "(envoy.context_extensions[\"tenant\"] | \"x\") == \"x\"");
    let base = |reads: &str| ("a", format!("{map}---\n{reads}"), format!("{map}---\n{reads}"));
    for (before, after) in [(NONE, &*declared), (&*declared, NONE)] {
        let change = ("m", before.to_owned(), after.to_owned());
        let (stage, kept) = edited(&[base(&reads), change, mistaken("request.path == \"/a\"")]);
        let serving = stage.published().routes.snapshot().vocabulary.slot(b"tenant").is_some();
        assert_eq!(serving, before != NONE, "{kept:?}");
    }
}

/// A reference with one dot is first that of a kind, then that of a namespace.
#[test]
fn a_part_that_takes_the_place_of_another_one_waits() {
    let value = "{compiledTemplate: listentry, params: {value: 'source.user | \"\"'}}";
    let list = |user: &str| format!("{{blacklist: true, overrides: [{user}]}}");
    let in_namespace = resource(
        "handler",
        "gate",
        "listchecker",
        &format!("{{compiledAdapter: listchecker, params: {}}}", list("eve")),
    );
    let action = "[{handler: gate.listchecker, instances: [v]}]";
    let rule = resource("rule", "x", "istio-system", &format!("{{actions: {action}}}"));
    let base = [in_namespace, resource("instance", "v", "istio-system", value), rule].join("---\n");
    let of_kind = |user| resource("listchecker", "gate", "istio-system", &list(user));
    // The one of the kind is new: eve would be no longer refused; or gone: bob.
    for (before, after, user) in
        [(NONE.to_owned(), of_kind("bob"), "eve"), (of_kind("bob"), NONE.to_owned(), "bob")]
    {
        let change = ("n", before, after.clone());
        let base = ("a", base.clone(), base.clone());
        let (stage, kept) = edited(&[base.clone(), change.clone(), mistaken("request.path == \"/a\"")]);
        let request = [("source.user", user), ("request.path", "/a")];
        assert_eq!(stage.check_with(request), Answer::Denied, "{user}: {kept:?}");
        // Also beside what nobody can see.
        let unseen =
            ("r", super::unwritten::rule("r", "istio-system", "source.user == \"zoe\""), String::new());
        let (stage, kept) = edited(&[base, change, unseen]);
        assert_eq!(stage.check_with(request), Answer::Denied, "{user}: {kept:?}");
    }
}

#[test]
fn an_instance_that_checks_no_longer_waits() {
    let instance = |template: &str| {
        resource("instance", "i", "shop", &format!("{{compiledTemplate: {template}, params: {{}}}}"))
    };
    let quota = "{compiledTemplate: quota, params: {dimensions: {a: request.path}}}";
    let quota = resource("instance", "i", "shop", quota);
    let base = [
        resource("handler", "deny", "shop", "{compiledAdapter: denier}"),
        resource(
            "rule",
            "x",
            "shop",
            "{match: 'request.path == \"/shop\"', actions: [{handler: deny, instances: [i]}]}",
        ),
        resource("envoybridge", "b", "istio-system", "{}"),
    ];
    let base = base.join("---\n");
    // Requests that name no namespace are refused as long as one of them has rules that check.
    let (_, kept) = edited(&[
        ("a", base.clone(), base),
        ("i", instance("checknothing"), quota),
        mistaken("request.path == \"/admin\""),
    ]);
    assert!(kept.iter().any(|key| key == "i.instance.shop"), "{kept:?}");
}

/// Of requests that name no namespace, the instance says whose roles decide.
#[test]
fn roles_of_a_namespace_that_an_instance_names_by_default_wait() {
    let action = "{namespace: 'destination.namespace | \"default\"', service: '\"s\"', method: '\"GET\"', path: '\"/\"'}";
    let who = format!(
        "{{compiledTemplate: authorization, params: {{subject: {{user: 'source.user | \"\"'}}, action: {action}}}}}"
    );
    let ask =
        "{match: 'context.reporter.kind == \"inbound\"', actions: [{handler: roles, instances: [who]}]}";
    let of = |text: String| format!("apiVersion: rbac.istio.io/v1alpha1\n{text}");
    let base = [
        resource("handler", "roles", "istio-system", "{compiledAdapter: rbac}"),
        resource("instance", "who", "istio-system", &who),
        resource("rule", "ask", "istio-system", ask),
        resource("envoybridge", "b", "istio-system", "{}"),
        of(resource("ServiceRole", "reader", "default", "{rules: [{services: [\"*\"], methods: [\"*\"]}]}")),
    ];
    let base = base.join("---\n");
    let binding = |users: &str| {
        let spec = format!("{{subjects: [{users}], roleRef: {{kind: ServiceRole, name: reader}}}}");
        of(resource("ServiceRoleBinding", "readers", "default", &spec))
    };
    let (_, kept) = edited(&[
        ("a", base.clone(), base),
        ("b", binding("{user: ann}"), binding("{user: ann}, {user: eve}")),
        ("d", NONE.to_owned(), faulty("first", "web", "request.path == \"/w\"")),
    ]);
    assert!(kept.iter().any(|key| key == "readers.ServiceRoleBinding.default"), "{kept:?}");
}

/// A writer that was ended, or a value that was forgotten: what would be read as a default keeps its last version, without another mistake.
#[test]
fn a_value_that_is_cut_off_is_no_default() {
    let settings = "errorMode: closed, staticAttributes: {request.path: \"x\"}";
    let bridge = resource("envoybridge", "b", "istio-system", &format!("{{check: {{{settings}}}}}"));
    let words = resource(
        "attributemapping",
        "m",
        "istio-system",
        "{mappings: [{attribute: source.user, from: {extension: u}}]}",
    );
    let limits = resource(
        "ratelimit",
        "l",
        "istio-system",
        "{domain: d, descriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 1}}]}",
    );
    let spec =
        |resource: &str, spec: &str| format!("{}spec: {spec}\n", resource.split("spec:").next().unwrap());
    let x = rule("x", "istio-system", "source.user == \"eve\"");
    let replaces = x.replace(
        "actions:",
        "requestHeaderOperations: [{name: x-role, values: ['\"none\"'], operation: REPLACE}], actions:",
    );
    let default = annotated(&x.replace(", actions", "}\n#"), "mixer.dev/default: deny");
    let legacy = resource("listentry", "who", "istio-system", "{value: source.user}");
    for (before, after) in [
        (bridge.clone(), spec(&bridge, "{check: }")),
        (bridge.clone(), spec(&bridge, "{check: {quotaSpec: [~]}}")),
        (bridge.clone(), spec(&bridge, "{check: {errorMode: , staticAttributes: {request.path: \"x\"}}}")),
        (bridge.clone(), spec(&bridge, "{check: {errorMode: closed, staticAttributes: }}")),
        (words.clone(), spec(&words, "{mappings: }")),
        (words.clone(), spec(&words, "{mappings: []}")),
        (limits.clone(), spec(&limits, "{domain: d}")),
        (limits.clone(), spec(&limits, "{domain: d, descriptors: [{key: a}]}")),
        (
            replaces.clone(),
            replaces.replace(
                "requestHeaderOperations: [{name: x-role, values: ['\"none\"'], operation: REPLACE}]",
                "requestHeaderOperations: ",
            ),
        ),
        (default.clone(), default.replace("{mixer.dev/default: deny}", "")),
        (legacy.clone(), spec(&legacy, "{value: }")),
        (legacy.clone(), spec(&legacy, "")),
    ] {
        let (_, kept) = edited(&[("x", before.clone(), after.clone())]);
        assert_eq!(kept.len(), 1, "{after}");
    }
}
