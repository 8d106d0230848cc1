//! Lints of `validate`.

use mixer_config::store::{ConfigStore, MemoryStore};
use mixer_config::{Diagnostic, Diagnostics, Severity};
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
            "39:rule-shadowed b.rule.istio-system",
        ]
    );
    let built = found(snapshot.diagnostics.to_vec());
    for expected in ["35:match-constant a.rule.istio-system", "41:match-constant b.rule.istio-system"] {
        assert!(built.iter().any(|problem| problem == expected), "{built:?}");
    }
    assert_eq!(
        found(pitfalls(&snapshot)),
        ["20:instance-name-unknown mq.handler.istio-system", "0:attribute-keyword "]
    );
    let checked = check_params(&snapshot);
    assert!(checked.iter().all(|d| d.code == "adapter-config" && d.span.is_some()), "{checked:?}");
    assert!(!checked.is_empty());
}

#[test]
fn headers_without_a_value_and_truncated_bodies_are_reported() {
    let rule = |name: &str, spec: &str| {
        format!("---\nkind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\nspec:\n{spec}")
    };
    let header = |name: &str, value: &str, operation: &str| {
        let spec = format!(
            "  requestHeaderOperations:\n  - {{name: x-user, values: ['{value}'], operation: {operation}}}\n"
        );
        rule(name, &spec)
    };
    let condition = |name: &str, condition: &str| {
        rule(name, &format!("  match: {condition}\n  actions: [{{handler: deny, instances: [one]}}]\n"))
    };
    let text = [
        r#"
kind: attributemanifest
metadata: {name: m, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    request.path: {valueType: STRING}
    request.headers: {valueType: STRING_MAP}
    request.body.text: {valueType: STRING}
    request.body.partial: {valueType: BOOL}
---
kind: handler
metadata: {name: deny, namespace: istio-system}
spec: {compiledAdapter: denier}
---
kind: instance
metadata: {name: one, namespace: istio-system}
spec: {compiledTemplate: checknothing}
"#
        .to_owned(),
        header("absent", "source.user", "REPLACE"),
        header("empty", r#"request.headers["x-user"] | """#, "REPLACE"),
        header("appended", "source.user", "APPEND"),
        header("fallback", r#"source.user | "none""#, "REPLACE"),
        header("constant", r#""ann""#, "REPLACE"),
        header("always", "request.path", "REPLACE"),
        condition("body", r#"request.body.text.startsWith("a")"#),
        condition("partial", r#"(request.body.partial | false) || request.body.text.startsWith("a")"#),
    ]
    .concat();
    let contents = MemoryStore::new("memory://test", [("a.yaml", text.as_str())]).contents();
    let snapshot = SnapshotBuilder::new(options()).build(&contents);
    let errors = snapshot.diagnostics.iter().filter(|d| d.severity == mixer_config::Severity::Error);
    assert_eq!(errors.count(), 0, "{:?}", snapshot.diagnostics);
    let codes = ["header-value-absent", "body-truncated"];
    let mut reported: Vec<_> = lint(&snapshot)
        .into_iter()
        .filter(|d| codes.contains(&d.code))
        .map(|d| format!("{} {}", d.code, d.resource))
        .collect();
    reported.sort();
    // An empty fallback is replaced, and others are added.
    let hints: String =
        lint(&snapshot).into_iter().filter_map(|d| d.hint.clone()).map(|hint| format!("{hint}\n")).collect();
    for cure in [r#"`source.user | "none"`"#, r#"`request.headers["x-user"] | "none"`"#] {
        assert!(hints.contains(cure), "{hints}");
    }
    assert_eq!(
        reported,
        [
            "body-truncated body.rule.istio-system",
            "header-value-absent absent.rule.istio-system",
            "header-value-absent empty.rule.istio-system",
        ]
    );
}

/// Codes of the warnings about one rule, with its adapter, instance, annotations and condition.
fn warnings(adapter: &str, instance: &str, annotations: &str, condition: &str) -> Vec<&'static str> {
    warnings_on(adapter, "", instance, annotations, condition)
}

/// As [`warnings`], with the annotations of the handler.
fn warnings_on(
    adapter: &str,
    of_handler: &str,
    instance: &str,
    annotations: &str,
    condition: &str,
) -> Vec<&'static str> {
    let condition = serde_json::Value::from(condition);
    let text = format!(
        r#"
kind: attributemanifest
metadata: {{name: m, namespace: istio-system}}
spec:
  attributes:
    source.user: {{valueType: STRING}}
    request.method: {{valueType: STRING}}
    request.headers: {{valueType: STRING_MAP}}
    source.labels: {{valueType: STRING_MAP}}
    source.ip: {{valueType: IP_ADDRESS}}
    request.path: {{valueType: STRING}}
---
kind: handler
metadata: {{name: h, namespace: istio-system, annotations: {{{of_handler}}}}}
spec: {adapter}
---
kind: instance
metadata: {{name: i, namespace: istio-system}}
spec: {instance}
---
kind: rule
metadata: {{name: r, namespace: istio-system, annotations: {{{annotations}}}}}
spec: {{match: {condition}, actions: [{{handler: h, instances: [i]}}]}}
"#
    );
    let contents = MemoryStore::new("memory://test", [("a.yaml", text.as_str())]).contents();
    let snapshot = SnapshotBuilder::new(options()).build(&contents);
    snapshot.diagnostics.iter().map(|d| d.code).collect()
}

#[test]
fn a_condition_that_absence_skips_is_reported_where_it_could_refuse() {
    let (denier, noop) = ("{compiledAdapter: denier}", "{compiledAdapter: noop}");
    let list = "{compiledAdapter: listchecker, params: {overrides: [a]}}";
    let nothing = "{compiledTemplate: checknothing}";
    let entry = "{compiledTemplate: listentry, params: {value: source.user}}";
    let report = "{compiledTemplate: reportnothing}";
    let quota = "{compiledTemplate: quota}";
    let limits = "{compiledAdapter: memquota, params: {quotas: [{name: i.instance.istio-system, maxAmount: 1, validDuration: 1s}]}}";
    let condition = r#"source.user != "ann""#;
    for (adapter, instance, annotations, expected) in [
        (denier, nothing, "", true),
        (list, entry, "", true),
        (noop, nothing, "mixer.dev/default: deny", false),
        (noop, nothing, "mixer.dev/default: deny, mixer.dev/on-error: allow", true),
        (noop, nothing, "mixer.dev/default: deny, mixer.dev/on-error: deny", false),
        (denier, nothing, "mixer.dev/default: deny", true),
        (denier, nothing, "mixer.dev/dry-run: \"true\"", true),
        (noop, nothing, "", false),
        (noop, report, "", false),
        (denier, quota, "", true),
        (limits, quota, "", true),
        (limits, quota, "mixer.dev/on-error: deny", false),
        (denier, nothing, "mixer.dev/on-error: deny", false),
        (denier, nothing, "mixer.dev/on-error: allow", false),
    ] {
        let found = warnings(adapter, instance, annotations, condition);
        let expected = if expected { vec!["match-absent"] } else { vec![] };
        assert_eq!(found, expected, "{adapter} {instance} {annotations}");
    }
    assert_eq!(warnings(denier, nothing, "", r#"request.method != "GET""#), Vec::<&str>::new());
    for (annotation, expected) in [("deny", vec![]), ("lastKnown", vec![]), ("allow", vec!["match-absent"])] {
        let annotation = format!("mixer.dev/on-error: {annotation}");
        assert_eq!(warnings_on(denier, &annotation, nothing, "", condition), expected, "{annotation}");
    }
    assert_eq!(warnings(denier, nothing, "", r#"(source.user | "") != "ann""#), Vec::<&str>::new());
}

#[test]
fn a_condition_that_malformed_text_skips_is_reported_where_it_could_refuse() {
    let (denier, noop) = ("{compiledAdapter: denier}", "{compiledAdapter: noop}");
    let nothing = "{compiledTemplate: checknothing}";
    let condition = r#"ip(request.headers["x-real-ip"] | "") == ip("10.0.0.1")"#;
    let in_cel = r#"ip(pick(request.headers["x-real-ip"], "")) == ip("10.0.0.1")"#;
    for (adapter, annotations, condition, expected) in [
        (denier, "", condition, true),
        (denier, "policy.istio.io/lang: CEL", in_cel, true),
        (denier, "mixer.dev/on-error: deny", condition, false),
        (denier, "mixer.dev/on-error: allow", condition, false),
        (noop, "", condition, false),
        (noop, "mixer.dev/default: deny, mixer.dev/on-error: allow", condition, true),
        (denier, "", r#"request.method == "GET""#, false),
    ] {
        let found = warnings(adapter, nothing, annotations, condition);
        let expected = if expected { vec!["match-malformed"] } else { vec![] };
        assert_eq!(found, expected, "{adapter} {annotations} {condition}");
    }
}

#[test]
fn a_condition_whose_failure_leaves_a_header_as_the_caller_sent_it_is_reported() {
    let found = |operations: &str, annotations: &str| {
        let text = format!(
            r#"
kind: attributemanifest
metadata: {{name: m, namespace: istio-system}}
spec: {{attributes: {{source.user: {{valueType: STRING}}}}}}
---
kind: rule
metadata: {{name: r, namespace: istio-system, annotations: {{{annotations}}}}}
spec: {{match: 'source.user != "admin"', {operations}}}
"#
        );
        let contents = MemoryStore::new("memory://test", [("a.yaml", text.as_str())]).contents();
        let snapshot = SnapshotBuilder::new(options()).build(&contents);
        snapshot.diagnostics.iter().map(|d| (d.code, d.message.clone())).collect::<Vec<_>>()
    };
    let message = "a request without `source.user` keeps the headers that its caller sent: the condition fails, so that the \
                   rule does not apply";
    let replace = "requestHeaderOperations: [{name: x-user, values: ['\"guest\"'], operation: REPLACE}]";
    for operations in [replace, "requestHeaderOperations: [{name: x-user, operation: REMOVE}]"] {
        assert_eq!(found(operations, ""), [("match-absent", message.to_owned())], "{operations}");
        assert_eq!(found(operations, "mixer.dev/on-error: deny"), [], "{operations}");
    }
    let response = "responseHeaderOperations: [{name: x-user, operation: REMOVE}]";
    assert_eq!(found(response, ""), [], "the caller does not send it");
}

#[test]
fn a_misspelt_prefix_of_our_annotations_is_an_error() {
    let (denier, nothing) = ("{compiledAdapter: denier}", "{compiledTemplate: checknothing}");
    for (annotation, expected) in [
        ("mixer.dve/default: deny", true),
        ("Mixer.dev/on-error: deny", true),
        ("mixer-dev/dry-run: \"true\"", true),
        ("mixre.dev/defualt: deny", true),
        ("mixer.dev/default: deny", false),
        ("example.com/default: deny", false),
        ("policy.istio.io/lang: CEL", false),
        ("mixer.dve/owner: ann", false),
        ("default: deny", true),
        ("fault: deny", false),
    ] {
        let expected = if expected { vec!["annotation-unknown"] } else { vec![] };
        assert_eq!(warnings(denier, nothing, annotation, ""), expected, "{annotation}");
    }
}

/// By a header that is absent or malformed a caller makes its checks fail, unless an annotation decides.
#[test]
fn conversions_of_what_a_caller_sends_are_reported_in_the_instances_of_checks() {
    let value = r#"ip(request.headers["x-forwarded-for"])"#;
    let message = "a call whose `request.headers[\"x-forwarded-for\"]` is absent or no valid IP address fails: the \
                   instance cannot be evaluated (INTERNAL; to Envoy a check is INVALID_ARGUMENT, and a descriptor over its limit)";
    for (value, adapter, on_rule, on_handler, expected) in [
        (value, "denier", "", "", Some((12, message))),
        (r#"ip(request.headers["x-forwarded-for"] | "0.0.0.0")"#, "denier", "", "", Some((12, message))),
        (value, "noop", "", "", Some((12, message))),
        (value, "denier", "mixer.dev/on-error: deny", "", None),
        (value, "denier", "mixer.dev/on-error: allow", "", None),
        (value, "denier", "", "mixer.dev/on-error: deny", None),
        (value, "denier", "mixer.dev/dry-run: 'true'", "", None),
        (r#"request.headers["x-forwarded-for"] | "" "#, "denier", "", "", None),
    ] {
        let text = format!(
            r#"
kind: attributemanifest
metadata: {{name: m, namespace: istio-system}}
spec: {{attributes: {{request.headers: {{valueType: STRING_MAP}}}}}}
---
kind: handler
metadata: {{name: h, namespace: istio-system, annotations: {{{on_handler}}}}}
spec: {{compiledAdapter: {adapter}}}
---
kind: instance
metadata: {{name: i, namespace: istio-system}}
spec: {{compiledTemplate: listentry, params: {{value: '{value}'}}}}
---
kind: rule
metadata: {{name: r, namespace: istio-system, annotations: {{{on_rule}}}}}
spec: {{actions: [{{handler: h, instances: [i]}}]}}
"#
        );
        let contents = MemoryStore::new("memory://test", [("a.yaml", text.as_str())]).contents();
        let snapshot = SnapshotBuilder::new(options()).build(&contents);
        let found = lint(&snapshot).into_iter().find(|d| d.code == "instance-malformed");
        let told = found.map(|d| (d.span.unwrap_or_default().start.line, d.message.clone()));
        let expected = expected.map(|(line, message)| (line, message.to_owned()));
        assert_eq!(told, expected, "{value} {adapter} {on_rule} {on_handler}");
    }
}

/// A caller of Envoy decides by its content type whether a request is `http` or `grpc`.
#[test]
fn a_protocol_that_the_caller_chooses_is_reported_where_it_decides() {
    for (condition, adapter, template, expected) in [
        (r#"context.protocol == "http""#, "denier", "checknothing", true),
        (r#"(context.protocol | "") != "grpc""#, "denier", "checknothing", true),
        (r#"context.protocol == "http" && source.user == "a""#, "memquota", "quota", true),
        (r#"context.protocol != "tcp""#, "denier", "checknothing", false),
        (r#"source.user == "http""#, "denier", "checknothing", false),
        (r#"context.protocol == "http""#, "noop", "reportnothing", false),
    ] {
        let text = format!(
            r#"
kind: attributemanifest
metadata: {{name: m, namespace: istio-system}}
spec: {{attributes: {{context.protocol: {{valueType: STRING}}, source.user: {{valueType: STRING}}}}}}
---
kind: handler
metadata: {{name: h, namespace: istio-system}}
spec: {{compiledAdapter: {adapter}}}
---
kind: instance
metadata: {{name: i, namespace: istio-system}}
spec: {{compiledTemplate: {template}}}
---
kind: rule
metadata: {{name: r, namespace: istio-system}}
spec: {{match: '{condition}', actions: [{{handler: h, instances: [i]}}]}}
"#
        );
        let contents = MemoryStore::new("memory://test", [("a.yaml", text.as_str())]).contents();
        let snapshot = SnapshotBuilder::new(options()).build(&contents);
        let found = lint(&snapshot).into_iter().any(|d| d.code == "protocol-chosen");
        assert_eq!(found, expected, "{condition} {adapter}");
    }
}

#[test]
fn header_names_with_capitals_are_reported_in_every_expression() {
    let denier = "{compiledAdapter: denier}";
    let nothing = "{compiledTemplate: checknothing}";
    for (condition, annotations, expected) in [
        (r#"request.headers["X-A"] == "b""#, "", vec!["header-key-case"]),
        (r#"(request.headers["X-A"] | "") == "b""#, "", vec!["header-key-case"]),
        (r#"request.headers["X-A"] == "b""#, "policy.istio.io/lang: CEL", vec!["header-key-case"]),
        (r#""X-A" in request.headers"#, "policy.istio.io/lang: CEL", vec!["header-key-case"]),
        (r#"request.headers["x-a"] == "B""#, "", vec![]),
        (r#"source.labels["App"] == "b""#, "", vec![]),
        (r#"source.user == "X-A""#, "", vec![]),
    ] {
        assert_eq!(warnings(denier, nothing, annotations, condition), expected, "{condition}");
    }
    let list = "{compiledAdapter: listchecker, params: {overrides: [a]}}";
    let entry = r#"{compiledTemplate: listentry, params: {value: 'request.headers["X-User"] | ""'}}"#;
    assert_eq!(warnings(list, entry, "", ""), ["header-key-case"]);
}

#[test]
fn an_expression_that_always_fails_is_an_error_wherever_it_is() {
    let (denier, noop) = ("{compiledAdapter: denier}", "{compiledAdapter: noop}");
    let nothing = "{compiledTemplate: checknothing}";
    let cel = "policy.istio.io/lang: CEL";
    for (adapter, annotations, condition) in [
        (denier, "", r#""^/admin(".matches(request.path)"#),
        (denier, "mixer.dev/on-error: deny", r#"request.path == "/" || source.ip == ip("10.0.0.0/8")"#),
        (noop, "", r#"source.ip == ip("")"#),
        (denier, cel, "size(request.headers) > 0"),
        (denier, cel, r#"request.headers == {"a": "b"}"#),
        (denier, cel, r#"request.headers.exists(k, k == "x-evil")"#),
        (denier, "policy.istio.io/lang: COMPAT", r#"source.ip == ip("10.0.0.300")"#),
    ] {
        let found = warnings(adapter, nothing, annotations, condition);
        assert!(found.contains(&"expression-fails"), "{annotations} {condition}: {found:?}");
    }
    for (condition, code) in [
        (r#"source.ip == ip(conditional(source.user == "a", "x", "y"))"#, "expression-fails"),
        (r#"source.ip == ip(conditional(source.user == "a", "x", "10.0.0.1"))"#, "expression-may-fail"),
    ] {
        let found = warnings(denier, nothing, "mixer.dev/on-error: deny", condition);
        assert!(found.contains(&code), "{condition}: {found:?}");
    }
    let list = "{compiledAdapter: listchecker, params: {overrides: [a]}}";
    let entry = r#"{compiledTemplate: listentry, params: {value: 'conditional("(".matches(source.user), "a", "b")'}}"#;
    assert_eq!(warnings(list, entry, "", ""), ["expression-fails"]);
    let quota = r#"{compiledTemplate: quota, params: {dimensions: {a: 'source.ip | ip("a")'}}}"#;
    assert_eq!(warnings("{compiledAdapter: memquota}", quota, "", ""), ["expression-fails"]);
    let text = r#"
kind: rule
metadata: {name: r, namespace: istio-system}
spec:
  requestHeaderOperations:
  - {name: x-a, operation: REPLACE, values: ['conditional("(".matches("a"), "b", "c")']}
"#;
    let contents = MemoryStore::new("memory://test", [("a.yaml", text)]).contents();
    let snapshot = SnapshotBuilder::new(options()).build(&contents);
    let found: Vec<_> = snapshot.diagnostics.iter().map(|d| (d.code, d.accepted_by_istio)).collect();
    assert_eq!(found, [("expression-fails", true)]);
    assert_eq!(snapshot.rules.len(), 1, "Istio Mixer accepts it");
}

#[test]
fn a_language_that_does_not_exist_is_an_error() {
    let (denier, nothing) = ("{compiledAdapter: denier}", "{compiledTemplate: checknothing}");
    for (annotation, expected) in [
        ("policy.istio.io/lang: cel", vec!["language-unknown"]),
        ("policy.istio.io/lang: CELL", vec!["language-unknown"]),
        ("policy.istio.io/lang: ''", vec!["language-unknown"]),
        ("policy.istio.io/lang: ~", vec!["language-unknown"]),
        ("policy.istio.io/language: CEL", vec!["annotation-unknown"]),
        ("lang: cel", vec!["annotation-unknown"]),
        ("policy.istio.io/lang: CEXL", vec![]),
        ("policy.istio.io/lang: COMPAT", vec![]),
        ("example.com/lang: de", vec![]),
    ] {
        assert_eq!(warnings(denier, nothing, annotation, r#"source.user == "a""#), expected, "{annotation}");
    }
}

#[test]
fn a_condition_without_a_value_that_opens_what_is_closed_is_reported() {
    let found = |namespace: &str, closed: &str, adapter: &str, condition: &str| {
        let text = format!(
            r#"
kind: handler
metadata: {{name: h, namespace: {namespace}}}
spec: {{compiledAdapter: {adapter}}}
---
kind: instance
metadata: {{name: i, namespace: {namespace}}}
spec: {{compiledTemplate: checknothing}}
---
kind: rule
metadata: {{name: closed, namespace: {closed}, annotations: {{mixer.dev/default: deny}}}}
spec: {{}}
---
kind: rule
metadata: {{name: r, namespace: {namespace}}}
spec: {{{condition} actions: [{{handler: h, instances: [i]}}]}}
"#
        );
        let contents = MemoryStore::new("memory://test", [("a.yaml", text.as_str())]).contents();
        let snapshot = SnapshotBuilder::new(options()).build(&contents);
        let codes = snapshot.diagnostics.iter().filter(|d| !d.code.starts_with("namespace-"));
        codes.map(|d| (d.code, d.severity)).collect::<Vec<_>>()
    };
    let (error, warning) = (("match-empty", Severity::Error), ("match-empty", Severity::Warning));
    for (namespace, closed, adapter, condition, expected) in [
        ("shop", "shop", "noop", "match: ,", vec![error]),
        ("shop", "shop", "noop", "match: ~,", vec![error]),
        ("shop", "other", "denier", "match: ,", vec![error]),
        ("shop", "shop", "noop", r#"match: "","#, vec![warning]),
        ("shop", "istio-system", "noop", r#"match: "  ","#, vec![warning]),
        ("istio-system", "shop", "noop", r#"match: "","#, vec![("allows-nothing", Severity::Warning)]),
        ("istio-system", "shop", "noop", "", vec![("allows-nothing", Severity::Warning)]),
        ("istio-system", "shop", "denier", "", vec![]),
        ("istio-system", "istio-system", "noop", r#"match: "","#, vec![warning]),
        ("shop", "other", "noop", r#"match: "","#, vec![]),
        ("shop", "shop", "denier", r#"match: "","#, vec![]),
        ("shop", "shop", "noop", r#"match: "true","#, vec![]),
        ("shop", "shop", "noop", "", vec![]),
    ] {
        assert_eq!(
            found(namespace, closed, adapter, condition),
            expected,
            "{namespace} {closed} {condition}"
        );
    }
}

/// The annotation opens other namespaces: it is for rules of the mesh that can allow.
#[test]
fn an_annotation_that_opens_nothing_is_reported() {
    let noop = "{compiledAdapter: noop}";
    for (namespace, annotations, handler, condition, expected) in [
        ("istio-system", "mixer.dev/allows: everywhere", noop, "", vec![]),
        ("istio-system", "mixer.dev/allows: everywhere", noop, r#"match: " ","#, vec!["match-empty"]),
        ("istio-system", "", noop, "", vec!["allows-nothing"]),
        ("istio-system", "mixer.dev/dry-run: \"true\"", noop, "", vec![]),
        (
            "istio-system",
            "",
            "{compiledAdapter: listchecker, params: {overrides: [a]}}",
            "",
            vec!["default-refuses-all"],
        ),
        (
            "istio-system",
            "mixer.dev/allows: everywhere",
            "{compiledAdapter: listchecker, params: {overrides: [a]}}",
            "",
            vec![],
        ),
        (
            "istio-system",
            "mixer.dev/dry-run: \"true\"",
            "{compiledAdapter: listchecker, params: {overrides: [a]}}",
            "",
            vec![],
        ),
        ("shop", "", "{compiledAdapter: listchecker, params: {overrides: [a]}}", "", vec![]),
        (
            "istio-system",
            "mixer.dev/allows: everywhere",
            "{compiledAdapter: denier}",
            "",
            vec!["allows-unused"],
        ),
        ("shop", "mixer.dev/allows: everywhere", noop, "", vec!["allows-unused"]),
        ("istio-system", "mixer.dev/allows: everywere", noop, "", vec!["allows-nothing", "allows-unknown"]),
        (
            "istio-system",
            "mixer.dev/alows: everywhere",
            noop,
            "",
            vec!["allows-nothing", "annotation-unknown"],
        ),
    ] {
        let template = if handler.contains("listchecker") {
            "{compiledTemplate: listentry, params: {value: '\"a\"'}}"
        } else {
            "{compiledTemplate: checknothing}"
        };
        let text = format!(
            r#"
kind: rule
metadata: {{name: closed, namespace: shop, annotations: {{mixer.dev/default: deny}}}}
---
kind: handler
metadata: {{name: h, namespace: istio-system}}
spec: {handler}
---
kind: instance
metadata: {{name: i, namespace: istio-system}}
spec: {template}
---
kind: rule
metadata:
  name: r
  namespace: {namespace}
  annotations: {{{annotations}}}
spec: {{{condition} actions: [{{handler: h.istio-system, instances: [i.istio-system]}}]}}
"#
        );
        let contents = MemoryStore::new("memory://test", [("a.yaml", text.as_str())]).contents();
        let snapshot = SnapshotBuilder::new(options()).build(&contents);
        let mut codes: Vec<_> = snapshot.diagnostics.iter().map(|d| d.code).collect();
        codes.retain(|code| !code.starts_with("namespace-"));
        codes.sort_unstable();
        assert_eq!(codes, expected, "{namespace} {annotations} {handler} {condition}");
        assert!(snapshot.diagnostics.iter().all(|d| d.span.is_some()), "{:?}", snapshot.diagnostics);
    }
}

#[test]
fn header_operations_without_effect_are_errors() {
    let found = |operations: &str| {
        let text =
            format!("kind: rule\nmetadata: {{name: r, namespace: istio-system}}\nspec: {{{operations}}}\n");
        let contents = MemoryStore::new("memory://test", [("a.yaml", text.as_str())]).contents();
        let snapshot = SnapshotBuilder::new(options()).build(&contents);
        assert_eq!(snapshot.rules.len(), 1, "Istio Mixer accepts it: {operations}");
        snapshot.diagnostics.iter().map(|d| (d.code, d.severity, d.accepted_by_istio)).collect::<Vec<_>>()
    };
    let error = vec![("header-operation", Severity::Error, true)];
    for (operation, is_error) in [
        ("{name: x-role, values: ['\"a\"']}", false),
        ("{name: X-Role, values: ['\"a\"'], operation: APPEND}", false),
        ("{name: x_role.v1, operation: REMOVE}", false),
        ("{name: ':path', values: ['\"/\"']}", false),
        ("{name: x-role}", true),
        ("{name: x-role, values: , operation: REPLACE}", true),
        ("{name: x-role, values: ~, operation: APPEND}", true),
        ("{name: x-role, values: [], operation: REPLACE}", true),
        ("{values: ['\"a\"']}", true),
        ("{name: '', operation: REMOVE}", true),
        ("{name: 'x-role ', operation: REMOVE}", true),
        ("{name: 'x role', operation: REMOVE}", true),
        ("{name: 'x-role:', values: ['\"a\"']}", true),
        ("{name: x-*, operation: REMOVE}", true),
        ("{name: 'x-a, x-b', operation: REMOVE}", true),
        ("{name: \"x-\u{e4}\", operation: REMOVE}", true),
        ("{name: \"x-a\\nb\", operation: REMOVE}", true),
        ("{name: ':path', operation: REMOVE}", true),
        ("{name: ':pth', values: ['\"/\"']}", true),
        ("{name: ':', values: ['\"/\"']}", true),
    ] {
        let expected = if is_error { error.clone() } else { vec![] };
        assert_eq!(found(&format!("requestHeaderOperations: [{operation}]")), expected, "{operation}");
    }
    assert_eq!(found("responseHeaderOperations: [{name: x-role}]"), error);
    assert_eq!(found("responseHeaderOperations: [{name: ':path', values: ['\"a\"']}]"), error);
}

#[test]
fn a_test_that_a_query_evades_is_reported_where_it_could_refuse() {
    let (denier, noop) = ("{compiledAdapter: denier}", "{compiledAdapter: noop}");
    let nothing = "{compiledTemplate: checknothing}";
    for (adapter, condition, expected) in [
        (denier, r#"request.path == "/admin""#, true),
        (denier, r#"(request.path | "") == "/admin""#, true),
        (denier, r#"request.path.endsWith(".php")"#, true),
        (denier, r#"match(request.path, "*.php")"#, true),
        (denier, r#""^/admin$".matches(request.path)"#, true),
        (denier, r#"toLower(request.path) == "/admin""#, true),
        (denier, r#"toLower(request.path | "").endsWith(".php")"#, true),
        (denier, r#"(source.user + request.path) == "ann/admin""#, true),
        (denier, r#"conditional(request.method == "GET", request.path, "") == "/admin""#, true),
        (denier, r#"match(toLower(request.path), "/admin*")"#, false),
        (denier, r#"toLower(request.path) == "/admin?a=1""#, false),
        (denier, r#"request.path == "/admin?a=1""#, false),
        (denier, r#""^/admin.*?$".matches(request.path)"#, false),
        (denier, r#""^/admin[^ ]*$".matches(request.path)"#, false),
        (denier, r#""^/admin(.|\\n)*$".matches(request.path)"#, false),
        (denier, r#""^/admin[a-z]*$".matches(request.path)"#, true),
        (denier, r#"request.path != "/public""#, false),
        (denier, r#"match(request.path, "/admin*") || "^/a.*$".matches(request.path)"#, false),
        (noop, r#"request.path == "/admin""#, false),
    ] {
        let expected = if expected { vec!["path-query"] } else { vec![] };
        assert_eq!(warnings(adapter, nothing, "", condition), expected, "{condition}");
    }
    let in_cel = warnings(denier, nothing, "policy.istio.io/lang: CEL", r#"request.path == "/admin""#);
    assert_eq!(in_cel, ["path-query"]);
    let condition = r#"toLower(request.path) == "/admin""#;
    assert_eq!(warnings(denier, nothing, "policy.istio.io/lang: CEL", condition), ["path-query"]);
}

#[test]
fn small_mistakes_of_conditions_are_reported() {
    let (denier, nothing) = ("{compiledAdapter: denier}", "{compiledTemplate: checknothing}");
    for (condition, expected) in [
        (r#"request.method == "get""#, vec!["method-case"]),
        (r#"request.method != "Post""#, vec!["method-case"]),
        (r#"request.method == "GET" || request.method == "purge""#, vec![]),
        (r#"toLower(request.method) == "get""#, vec![]),
        (r#"match("/x*", request.path)"#, vec!["arguments-reversed"]),
        (r#""/x".startsWith(request.path)"#, vec!["arguments-reversed"]),
        (r#""request.method" == "GET""#, vec!["match-constant"]),
        ("false", vec![]),
        (r#"request.method == ("GET" | "PUT")"#, vec!["default-unused"]),
    ] {
        assert_eq!(warnings(denier, nothing, "", condition), expected, "{condition}");
    }
    let report =
        warnings("{compiledAdapter: noop}", "{compiledTemplate: reportnothing}", "", r#""a" == "b""#);
    assert_eq!(report, Vec::<&str>::new(), "with --lint");
}

/// Its own error tells more.
#[test]
fn an_instance_with_an_error_is_not_unknown() {
    const CONFIG: &str = "kind: instance\nmetadata: {name: requests, namespace: istio-system}\n\
        spec: {compiledTemplate: quota, params: {dimensions: {user: request.usr}}}\n\
        ---\nkind: handler\nmetadata: {name: mq, namespace: istio-system}\n\
        spec: {compiledAdapter: memquota, params: {quotas: [{name: requests.instance.istio-system, maxAmount: 1}]}}\n";
    let contents = MemoryStore::new("memory://test", [("a.yaml", CONFIG)]).contents();
    let snapshot = SnapshotBuilder::new(options()).build(&contents);
    assert!(snapshot.diagnostics.iter().any(|problem| problem.resource == "requests.instance.istio-system"));
    assert!(pitfalls(&snapshot).iter().all(|problem| problem.code != "instance-name-unknown"));
}
