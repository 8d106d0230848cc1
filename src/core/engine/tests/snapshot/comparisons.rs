//! Comparisons of attributes with constants that no request has, or that a query evades.

use mixer_attribute::ValueType;
use mixer_config::store::{ConfigStore, MemoryStore};
use mixer_config::{Diagnostic, FieldPath, Severity};
use mixer_engine::snapshot::{ClauseTest, SnapshotBuilder, clause};
use mixer_expr::Language;

use super::options;

/// What is configured beside a condition.
#[derive(Clone, Copy)]
struct Case {
    adapter: &'static str,
    instance: &'static str,
    annotations: &'static str,
    header: &'static str,
}

const DENIES: Case = Case {
    adapter: "{compiledAdapter: denier}",
    instance: "{compiledTemplate: checknothing}",
    annotations: "",
    header: "",
};
const CHARGES: Case = Case {
    adapter: "{compiledAdapter: memquota, params: {quotas: [{name: i.instance.istio-system, maxAmount: 1, validDuration: 1s}]}}",
    instance: "{compiledTemplate: quota}",
    ..DENIES
};
const CEL: Case = Case { annotations: "policy.istio.io/lang: CEL", ..DENIES };

impl Case {
    fn warnings(self, condition: &str) -> Vec<Diagnostic> {
        let Self { adapter, instance, annotations, header } = self;
        let condition = serde_json::Value::from(condition);
        let text = format!(
            r#"
kind: attributemanifest
metadata: {{name: m, namespace: istio-system}}
spec:
  attributes:
    context.protocol: {{valueType: STRING}}
    context.reporter.kind: {{valueType: STRING}}
    destination.principal: {{valueType: STRING}}
    request.headers: {{valueType: STRING_MAP}}
    request.time: {{valueType: TIMESTAMP}}
    source.ip: {{valueType: IP_ADDRESS}}
    request.host: {{valueType: STRING}}
    request.method: {{valueType: STRING}}
    request.path: {{valueType: STRING}}
    request.scheme: {{valueType: STRING}}
    request.url_path: {{valueType: STRING}}
    source.labels: {{valueType: STRING_MAP}}
    source.principal: {{valueType: STRING}}
    source.user: {{valueType: STRING}}
---
kind: handler
metadata: {{name: h, namespace: istio-system}}
spec: {adapter}
---
kind: instance
metadata: {{name: i, namespace: istio-system}}
spec: {instance}
---
kind: rule
metadata: {{name: r, namespace: istio-system, annotations: {{{annotations}}}}}
spec: {{match: {condition}, actions: [{{handler: h, instances: [i]}}]{header}}}
"#
        );
        let contents = MemoryStore::new("memory://test", [("a.yaml", text.as_str())]).contents();
        let snapshot = SnapshotBuilder::new(options()).build(&contents);
        let ours = [
            "constant-pattern",
            "constant-text",
            "default-passes",
            "header-key-case",
            "match-star",
            "match-unanchored",
            "method-case",
            "path-query",
            "quota-dimension-unique",
            "value-never",
        ];
        snapshot.diagnostics.iter().filter(|d| ours.contains(&d.code)).cloned().collect()
    }

    /// Code and hint of each warning.
    fn found(self, condition: &str) -> Vec<(&'static str, String)> {
        let warnings = self.warnings(condition);
        assert!(warnings.iter().all(|d| d.severity == Severity::Warning && d.span.is_some()), "{warnings:?}");
        warnings.into_iter().map(|d| (d.code, d.hint.clone().unwrap_or_default())).collect()
    }
}

#[test]
fn a_constant_that_the_attribute_never_has_is_reported() {
    for (condition, code, hint) in [
        (r#"request.url_path == "/admin*""#, "match-star", r#"write `match(request.url_path, "/admin*")`"#),
        (r#"request.url_path == "/admin/*""#, "match-star", r#"write `match(request.url_path, "/admin/*")`"#),
        (
            r#"request.url_path != "/admin*""#,
            "match-star",
            r#"`match(request.url_path, "/admin*") == false`"#,
        ),
        (
            r#"request.url_path.startsWith("/admin*")"#,
            "match-star",
            r#"write `match(request.url_path, "/admin*")`"#,
        ),
        (
            r#"request.url_path.endsWith("*.php")"#,
            "match-star",
            r#"write `match(request.url_path, "*.php")`"#,
        ),
        (r#"request.url_path == "/a/*/b""#, "match-star", r#"write `"^/a/.*/b$".matches(request.url_path)`"#),
        (
            r#"match(request.path, "/a/*/b")"#,
            "match-star",
            r#"write `"^/a/.*/b$".matches(request.url_path)`"#,
        ),
        (r#"match(request.path, "/a/**")"#, "match-star", r#"write `match(request.path, "/a/*")`"#),
        (
            r#"source.labels["app"] == "front*""#,
            "match-star",
            r#"write `match(source.labels["app"], "front*")`"#,
        ),
        (
            r#"request.host == "*.shop.example""#,
            "match-star",
            r#"write `match(request.host, "*.shop.example")`"#,
        ),
        (r#"request.url_path.startsWith("admin")"#, "value-never", r#"write `"/admin"`"#),
        (r#"request.url_path == "admin""#, "value-never", r#"write `"/admin"`"#),
        (r#"match(request.url_path, "admin*")"#, "value-never", r#"write `"/admin*"`"#),
        (r#"request.url_path == "/admin?debug=1""#, "value-never", "request.query_params"),
        (
            r#"request.url_path.startsWith("https://shop.example/admin")"#,
            "value-never",
            r#"write `"/admin"`"#,
        ),
        (
            r#"request.url_path == "^/admin$""#,
            "value-never",
            r#"write `"^/admin$".matches(request.url_path)`"#,
        ),
        (
            r#""^admin$".matches(request.url_path)"#,
            "value-never",
            "write `/admin` for `admin` in the pattern",
        ),
        (r#"toLower(request.url_path) == "/Admin""#, "value-never", r#"write `"/admin"`"#),
        (r#"toLower(source.user | "") == "Mallory""#, "value-never", r#"write `"mallory"`"#),
        (
            r#"request.method == "DELETE,PUT""#,
            "value-never",
            r#"write `request.method == "DELETE" || request.method == "PUT"`"#,
        ),
        (
            r#"request.method != "DELETE|PUT""#,
            "value-never",
            r#"write `request.method != "DELETE" && request.method != "PUT"`"#,
        ),
        (r#"request.method == "get""#, "method-case", r#"write `"GET"`"#),
        (r#""^get$".matches(request.method)"#, "method-case", "write `GET` for `get` in the pattern"),
        (r#"(request.headers[":method"] | "") == "delete""#, "method-case", r#"write `"DELETE"`"#),
        (r#"context.protocol == "HTTP""#, "value-never", r#"write `"http"`"#),
        (r#"request.scheme == "HTTPS""#, "value-never", r#"write `"https"`"#),
        (r#"context.reporter.kind == "server""#, "value-never", r#"write `"inbound"`"#),
        (r#"source.principal == "spiffe://c/ns/a/sa/b""#, "value-never", r#"write `"c/ns/a/sa/b"`"#),
        (
            r#"(source.principal | "").startsWith("spiffe://c/ns/evil/")"#,
            "value-never",
            r#"write `"c/ns/evil/"`"#,
        ),
        (r#"destination.principal == "spiffe://c/d""#, "value-never", r#"write `"c/d"`"#),
        (r#"request.host == "https://shop.example""#, "value-never", r#"write `"shop.example"`"#),
        (r#"(request.headers["host"] | "") == "h""#, "value-never", "write `request.host`"),
        (
            r#"(request.headers["x-user:"] | "") == "eve""#,
            "value-never",
            r#"write `request.headers["x-user"]`"#,
        ),
        (
            r#"(request.headers[" x-user"] | "") == "eve""#,
            "value-never",
            r#"write `request.headers["x-user"]`"#,
        ),
        (
            r#"(request.headers["X-User"] | "") == "eve""#,
            "header-key-case",
            r#"write `request.headers["x-user"]`"#,
        ),
    ] {
        let found = DENIES.found(condition);
        let [(found_code, found_hint)] = &*found else { panic!("{condition}: {found:?}") };
        assert_eq!(*found_code, code, "{condition}: {found:?}");
        assert!(found_hint.contains(hint), "{condition}: {found_hint}");
    }
    for (condition, code, hint) in [
        (r#"request.method in ["delete"]"#, "method-case", r#"write `"DELETE"`"#),
        (r#"request.url_path in ["/public", "admin"]"#, "value-never", r#"write `"/admin"`"#),
        (r#"request.path in ["/admin"]"#, "path-query", "use `request.url_path`"),
        (r#"request.url_path == "/a*b""#, "match-star", r#"write `request.url_path.matches("^/a.*b$")`"#),
        (r#"!(request.url_path == "/a*")"#, "match-star", r#"write `match(request.url_path, "/a*")`"#),
        (r#"request.url_path.contains("?debug")"#, "value-never", "request.query_params"),
        (r#"request.url_path.matches("^admin$")"#, "value-never", "write `/admin` for `admin`"),
        (r#"match(request.path, "/a/*/b")"#, "match-star", r#"request.url_path.matches("^/a/.*/b$")"#),
    ] {
        let found = CEL.found(condition);
        let [(found_code, found_hint)] = &*found else { panic!("{condition}: {found:?}") };
        assert_eq!(*found_code, code, "{condition}: {found:?}");
        assert!(found_hint.contains(hint), "{condition}: {found_hint}");
    }
}

#[test]
fn what_a_request_may_have_is_not_reported() {
    for condition in [
        r#"request.url_path == "/admin""#,
        r#"match(request.url_path, "/admin*")"#,
        r#"match(request.url_path, "*.php")"#,
        r#"request.url_path.endsWith("admin")"#,
        r#""^/admin/\\*$".matches(request.url_path)"#,
        r#""(^admin|/admin)".matches(request.url_path)"#,
        r#""^a?/admin".matches(request.url_path)"#,
        r#""admin".matches(request.url_path)"#,
        r#"request.url_path == """#,
        r#"(request.method | "none") == "none""#,
        r#"(source.namespace | "*") == "*""#,
        r#"(request.method | "get") == "get""#,
        r#"(context.reporter.kind | "unknown") == "unknown""#,
        r#"toLower(request.method) == "get""#,
        r#"request.method == "PURGE" || request.method == "M-SEARCH""#,
        r#"conditional(source.user == "a", request.method, "none") == "none""#,
        r#"request.headers["accept"] == "*/*""#,
        r#"(request.headers[":path"] | "").startsWith("/admin")"#,
        r#"toLower(source.user) == "eve""#,
        r#""^[A-Z]".matches(toLower(source.user))"#,
        r#"source.user == "Eve""#,
        r#"source.principal == "cluster.local/ns/a/sa/b""#,
        r#"context.protocol == "mongo" || context.protocol == "ratelimit""#,
        r#"context.reporter.kind == "outbound""#,
        r#"request.host == "Shop.example:8080""#,
    ] {
        assert_eq!(DENIES.found(condition), [], "{condition}");
    }
    for condition in [
        r#"pick(request.method, "none") == "none""#,
        r#"request.url_path in ["/a", "/b", ""]"#,
        r#"request.url_path.contains("admin")"#,
        r#"!(request.path == "/public")"#,
        r#"request.method in ["GET", "PURGE"] || "x-user" in request.headers"#,
    ] {
        assert_eq!(CEL.found(condition), [], "CEL {condition}");
    }
}

#[test]
fn a_path_that_a_query_evades_is_reported_wherever_it_decides() {
    let condition = r#"request.path == "/login""#;
    let closes =
        Case { adapter: "{compiledAdapter: noop}", annotations: "mixer.dev/default: deny", ..DENIES };
    let reports = Case { adapter: "{compiledAdapter: noop}", ..DENIES };
    let replaces = Case {
        header: ", requestHeaderOperations: [{name: x-a, values: ['\"b\"'], operation: REPLACE}]",
        ..reports
    };
    let appends = Case {
        header: ", requestHeaderOperations: [{name: x-a, values: ['\"b\"'], operation: APPEND}]",
        ..reports
    };
    for (case, message) in [
        (DENIES, Some("a request with a query passes")),
        (closes, Some("a request with a query passes")),
        (CHARGES, Some("a request with a query is charged to no quota")),
        (replaces, Some("a request with a query keeps the headers")),
        (appends, None),
        (reports, None),
    ] {
        let found = case.warnings(condition);
        let found: Vec<_> = found.iter().map(|d| (d.code, &*d.message)).collect();
        match message {
            None => assert_eq!(found, []),
            Some(message) => {
                assert_eq!(found.len(), 1, "{found:?}");
                assert!(found[0].0 == "path-query" && found[0].1.contains(message), "{found:?}");
            }
        }
    }
    for (condition, expected) in [
        (r#"(request.headers[":path"] | "") == "/admin""#, 1),
        (r#"request.path == "/a" || request.path == "/b""#, 1),
        (r#""^/api/.*$".matches(request.path)"#, 0),
        (r#""^(/api/.*)$".matches(request.path)"#, 0),
        (r#""^/api/.+$".matches(request.path)"#, 0),
        (r#""^(/a|/b)$".matches(request.path)"#, 1),
        (r#"(request.path == "/a") == false"#, 0),
    ] {
        assert_eq!(DENIES.found(condition).len(), expected, "{condition}");
    }
}

#[test]
fn quota_dimensions_and_blacklists_of_paths_with_queries_are_reported() {
    let dimension = |expression: &'static str| Case { instance: expression, ..CHARGES }.found("");
    let by = r#"{compiledTemplate: quota, params: {dimensions: {path: 'request.path | ""', user: 'source.user | ""'}}}"#;
    let codes =
        |found: Vec<(&'static str, String)>| found.into_iter().map(|(code, _)| code).collect::<Vec<_>>();
    assert_eq!(codes(dimension(by)), ["path-query"]);
    let by = r#"{compiledTemplate: quota, params: {dimensions: {path: 'request.url_path | ""'}}}"#;
    assert_eq!(codes(dimension(by)), [""; 0]);
    let by = r#"{compiledTemplate: quota, params: {dimensions: {api: 'conditional(match(request.path, "/api*"), "a", "b")'}}}"#;
    assert_eq!(codes(dimension(by)), [""; 0]);

    let path = r#"{compiledTemplate: listentry, params: {value: 'request.path | ""'}}"#;
    let method = r#"{compiledTemplate: listentry, params: {value: 'request.method | ""'}}"#;
    for (params, instance, expected) in [
        ("{blacklist: true, overrides: [/admin]}", path, &["path-query"][..]),
        (
            "{blacklist: true, overrides: [/admin], entryType: CASE_INSENSITIVE_STRINGS}",
            path,
            &["path-query"],
        ),
        ("{blacklist: true, overrides: [/admin], entryType: REGEX}", path, &[]),
        ("{overrides: [/admin]}", path, &[]),
        ("{blacklist: true, overrides: [DELETE, PUT]}", method, &[]),
        ("{blacklist: true, overrides: [DELETE, put]}", method, &["method-case"]),
        ("{blacklist: true, overrides: [delete], entryType: CASE_INSENSITIVE_STRINGS}", method, &[]),
        ("{blacklist: true, overrides: ['DELETE,PUT']}", method, &["value-never"]),
        ("{blacklist: true, overrides: ['DEL*']}", method, &["match-star"]),
        ("{overrides: [get]}", method, &["method-case"]),
    ] {
        let adapter = format!("{{compiledAdapter: listchecker, params: {params}}}");
        let case = Case { adapter: adapter.leak(), instance, ..DENIES };
        assert_eq!(codes(case.found("")), expected, "{params}");
    }
}

#[test]
fn clauses_are_examined_as_conditions_are() {
    use ClauseTest::{Exact, Prefix, Regex};
    for (attribute, test, expected) in [
        ("request.path", Exact("/login"), Some(("path-query", "use `request.url_path`"))),
        ("request.path", Regex("/login|/logout"), Some(("path-query", "use `request.url_path`"))),
        ("request.path", Regex("/api/.*"), None),
        ("request.path", Regex("/login(\\?.*)?"), None),
        ("request.path", Prefix("/login"), None),
        ("request.url_path", Exact("/login"), None),
        ("request.url_path", Exact("login"), Some(("value-never", "write `exact: /login`"))),
        ("request.url_path", Regex("login/.*"), Some(("value-never", "write `/login/` for `login/`"))),
        ("request.url_path", Prefix("/a*"), Some(("match-star", "write `prefix: /a`"))),
        ("request.url_path", Exact("/a/*/b.c"), Some(("match-star", r"write `regex: '/a/.*/b\.c'`"))),
        ("request.method", Exact("post"), Some(("method-case", "write `exact: POST`"))),
        ("request.method", Exact("POST,PUT"), Some(("value-never", "write `regex: POST|PUT`"))),
        ("request.method", Exact("POST"), None),
        ("source.principal", Prefix("spiffe://c/"), Some(("value-never", "write `prefix: c/`"))),
        ("request.useragent", Exact("curl"), None),
        ("request.url_path", Regex("("), None),
    ] {
        let found = clause(attribute, test, FieldPath::root());
        let found = found.as_ref().map(|d| (d.code, d.hint.as_deref().unwrap_or_default()));
        match (found, expected) {
            (None, None) => {}
            (Some((code, hint)), Some((wanted, part))) => {
                assert!(code == wanted && hint.contains(part), "{attribute} {test:?}: {code} {hint}");
            }
            _ => panic!("{attribute} {test:?}: {found:?}"),
        }
    }
    let charged = clause("request.path", Exact("/login"), FieldPath::root()).map(|d| d.message.clone());
    assert!(charged.is_some_and(|text| text.contains("is charged to no quota")));
}

/// A list of thousands of mistakes is no page of thousands of warnings.
#[test]
fn findings_are_bounded() {
    let texts: Vec<String> = (0..500).map(|i| format!("\"page{i}\"")).collect();
    let condition = format!("request.url_path in [{}]", texts.join(", "));
    assert_eq!(CEL.found(&condition).len(), 16);
}

/// The marks of a text that was pasted, or is written for another format: the same as those of entries of lists.
#[test]
fn constants_that_are_not_what_is_meant_are_told() {
    let told = |hint: &str| vec![("constant-text", hint.to_owned())];
    let template = "write the value; templates are filled in before the server reads the file";
    for (condition, hint) in [
        (r#"source.user == "eve ""#, "write `\"eve\"`"),
        (r#"(source.user | "") != "eve ""#, "write `\"eve\"`"),
        ("source.user == \"eve\u{a0}\"", "write `\"eve\"`"),
        ("source.user == \"e\u{200b}ve\"", "write `\"eve\"`"),
        (r#"source.user == "{{ .Values.user }}""#, template),
        (r#"source.user.startsWith("${USER}")"#, template),
        (r#"request.headers["x-user"] == "{{ .Values.user }}""#, template),
        (r#"source.user == "\"eve\"""#, "write `\"eve\"`"),
        (r#"source.user == "eve,mallory""#, r#"write `source.user == "eve" || source.user == "mallory"`"#),
        (
            r#"(source.user | "") != "eve|mallory""#,
            r#"write `source.user | "" != "eve" && source.user | "" != "mallory"`"#,
        ),
        (r#"match(source.user, "eve *")"#, ""),
        (r#"match(source.user, " eve*")"#, "write `\"eve*\"`"),
        (r#"request.headers["authorization"].startsWith("Bearer ")"#, ""),
        (r#"request.headers["accept"] == "text/html,text/plain""#, ""),
        (r#"request.headers["if-none-match"] == "\"abc\"""#, ""),
        (r#"request.url_path == "/a,b""#, ""),
        (r#"(source.user | "eve ") == "eve ""#, ""),
    ] {
        let found: Vec<_> = DENIES.found(condition);
        match hint {
            "" => assert_eq!(found, Vec::new(), "{condition}"),
            hint => {
                let codes: Vec<_> = found.iter().map(|(code, _)| *code).collect();
                assert_eq!(codes, ["constant-text"], "{condition}: {found:?}");
                if !hint.contains(" && ") {
                    assert_eq!(found, told(hint), "{condition}");
                }
            }
        }
    }
    let found = CEL.found(r#"source.user in ["eve", "mallory "]"#);
    assert_eq!(found, told("write `\"mallory\"`"));
    let clause = clause("source.user", ClauseTest::Exact("eve "), FieldPath::root());
    assert_eq!(clause.map(|problem| problem.code), Some("constant-text"));
}

/// What is written as a regular expression, where none is taken, has a hint with the test that is meant: a test that is no finding itself, that
/// what is meant passes, and that something else does not.
#[test]
fn patterns_in_the_place_of_texts_have_a_hint_that_does_what_is_meant() {
    use mixer_attribute::{AttributeBag, OwnedAttributes, Value, Vocabulary};
    for (language, condition, meant, other) in [
        (Language::Cexl, r#"(source.user | "") == "eve.*""#, "eve2", "bob"),
        (Language::Cexl, r#"(source.user | "") != "eve.*""#, "bob", "eve2"),
        (Language::Cexl, r#"(source.user | "") == "eve*""#, "eve2", "bob"),
        (Language::Cexl, r#"(source.user | "") == "^eve$""#, "eve", "eve2"),
        (Language::Cexl, r#"(source.user | "") == "^eve|mallory$""#, "mallory", "eve2"),
        (Language::Cexl, r#"(source.user | "") == "eve.+""#, "eve2", "eve"),
        (Language::Cexl, r#"(source.user | "") == "[a-z]+\\d""#, "eve1", "eve"),
        (Language::Cexl, r#"(source.user | "").startsWith("^eve")"#, "eve2", "bob"),
        (Language::Cexl, r#"request.url_path.startsWith("/admin/.*")"#, "/admin/x", "/x/admin/"),
        (Language::Cexl, r#"request.url_path.endsWith("min$")"#, "/admin", "/min/x"),
        (Language::Cexl, r#"match(request.url_path, "/adm.*")"#, "/admin", "/x"),
        (Language::Cexl, r#"match(request.url_path, "/api/.*")"#, "/api/x", "/apix"),
        (Language::Cexl, r#"match(request.path, "/api/.*")"#, "/api/x", "/apix"),
        (Language::Cexl, r#"match(request.url_path, "/api/.*/x")"#, "/api/y/x", "/api/y"),
        (Language::Cexl, r#"match(request.host, "*.evil.example$")"#, "a.evil.example", "evil.example"),
        (Language::Cexl, r#"match(source.user | "", "^eve*")"#, "eve2", "bob"),
        (Language::Cexl, r#"match(source.user | "", "ev?")"#, "eve", "evil"),
        (Language::Cexl, r#"match(source.user | "", "[a-z]*")"#, "eve", "1"),
        (Language::Cexl, r#"match(source.user | "", ".*eve")"#, "xeve", "xev"),
        (Language::Cexl, r#"match(source.user | "", "(eve|mallory)")"#, "mallory", "x"),
        (Language::Cel, r#"source.user == "eve.*""#, "eve2", "bob"),
        (Language::Cel, r#"source.user == "^eve$""#, "eve", "eve2"),
        (Language::Cel, r#"source.user.startsWith("^eve")"#, "eve2", "bob"),
        (Language::Cel, r#"source.user.contains("[0-9]")"#, "a1", "a"),
        (Language::Cel, r#"match(source.user, "ev?")"#, "eve", "evil"),
    ] {
        let case = if language == Language::Cel { CEL } else { DENIES };
        let found = case.found(condition);
        let [(code, hint)] = &*found else { panic!("{condition}: {found:?}") };
        assert!(["match-star", "constant-pattern"].contains(code), "{condition}: {found:?}");
        let followed = hint.strip_prefix("write `").and_then(|hint| hint.strip_suffix('`')).unwrap();
        assert_eq!(case.found(followed), [], "{condition}: {followed}");
        let mut vocabulary = Vocabulary::builder();
        for name in ["source.user", "request.url_path", "request.path", "request.host"] {
            vocabulary.declare(name, ValueType::String);
        }
        let vocabulary = vocabulary.build();
        let program = mixer_expr::compile(language, followed, &vocabulary).unwrap();
        for (text, expected) in [(meant, true), (other, false)] {
            let mut attributes = OwnedAttributes::new();
            for (name, _) in vocabulary.declared() {
                attributes.insert(name, text);
            }
            let (bytes, arena) = (attributes.to_bytes(0), bumpalo::Bump::new());
            let bag = AttributeBag::decode(&bytes, None, &vocabulary, &arena).unwrap();
            let result = program.eval(&bag);
            assert!(
                matches!(result, Ok(Value::Bool(result)) if result == expected),
                "{condition}: {followed} of {text}"
            );
        }
    }
}

#[test]
fn patterns_that_match_nothing_and_texts_with_placeholders_are_reported() {
    for (condition, code, hint) in [
        (r#""/^eve$/".matches(source.user | "")"#, "constant-pattern", "not written between slashes"),
        (
            r#""^Eve".matches(toLower(source.user | ""))"#,
            "value-never",
            "write `eve` for `Eve` in the pattern",
        ),
        (r#""^(get|post)$".matches(request.method)"#, "method-case", "write `GET` for `get` in the pattern"),
        (r#"source.user == "$(BAD_USER)""#, "constant-text", "write the value"),
        (r#"source.user == "<user>""#, "constant-text", "write the value"),
    ] {
        let found = DENIES.found(condition);
        let [(found_code, found_hint)] = &*found else { panic!("{condition}: {found:?}") };
        assert!(*found_code == code && found_hint.contains(hint), "{condition}: {found:?}");
    }
    for condition in [
        r#"match(source.labels["version"], "v1.*")"#,
        r#"match(request.host, "www.*")"#,
        r#"match(request.path, "/search?q=*")"#,
        r#"match(request.headers["x-version"] | "", "1.*")"#,
        r#"request.headers["x-price"] == "5$""#,
        r#""^(GET|POST)$".matches(request.method)"#,
        r#""^(get|GET)$".matches(request.method)"#,
        r#""^eve$".matches(toLower(source.user | ""))"#,
    ] {
        assert_eq!(DENIES.found(condition), [], "{condition}");
    }
}

/// The hint for an entry names the type without which it means nothing, and does not repeat itself when it is followed without it.
#[test]
fn entries_of_lists_that_are_patterns_have_a_hint_with_their_type() {
    let user = r#"{compiledTemplate: listentry, params: {value: 'source.user | ""'}}"#;
    let found = |entry: &str| {
        let params = serde_json::json!({"blacklist": true, "overrides": [entry]});
        let adapter = format!("{{compiledAdapter: listchecker, params: {params}}}");
        Case { adapter: adapter.leak(), instance: user, ..DENIES }.found("")
    };
    for entry in ["eve*", "eve.*", "^eve.*$"] {
        let hint = "set `entryType: REGEX` and write `^eve.*$`, and every other entry as `^text$`";
        assert_eq!(found(entry), [("match-star", hint.to_owned())], "{entry}");
    }
}

#[test]
fn what_a_closed_mesh_allows_beyond_what_is_said_is_reported() {
    let codes = |condition: &str, closed: bool| {
        let annotations = if closed { "mixer.dev/default: deny" } else { "" };
        let case = Case { adapter: "{compiledAdapter: noop}", annotations, ..DENIES };
        case.found(condition).into_iter().map(|(code, _)| code).collect::<Vec<_>>()
    };
    for (condition, expected) in [
        (r#""/public".matches(request.url_path)"#, &["match-unanchored"][..]),
        (r#""/public$".matches(request.url_path)"#, &["match-unanchored"]),
        (r#""^/public".matches(request.url_path)"#, &[]),
        (r#""(^/a|^/b)".matches(request.url_path)"#, &[]),
        (r#""\\.shop\\.example$".matches(request.host)"#, &[]),
        (r#"("/admin".matches(request.url_path)) == false"#, &[]),
        (r#"(source.user | "ann") == "ann""#, &["default-passes"]),
        (r#"(source.user | "") == "ann""#, &[]),
        (r#"(source.user | "ann") != "ann""#, &[]),
        (r#"(request.method | "GET") == "GET""#, &[]),
    ] {
        assert_eq!(codes(condition, true), expected, "{condition}");
        assert_eq!(codes(condition, false), [""; 0], "{condition}");
    }

    let value = |value: &str| {
        let instance = format!("{{compiledTemplate: listentry, params: {{value: '{value}'}}}}");
        &*instance.leak()
    };
    let (user, ip) = (value(r#"source.user | "unknown""#), value(r#"source.ip | ip("10.0.0.1")"#));
    for (params, instance, expected) in [
        ("{overrides: [ann, unknown]}", user, &["default-passes"][..]),
        ("{overrides: [Unknown], entryType: CASE_INSENSITIVE_STRINGS}", user, &["default-passes"]),
        ("{overrides: ['^unk'], entryType: REGEX}", user, &["default-passes"]),
        ("{overrides: [ann]}", user, &[]),
        ("{overrides: [unknown], blacklist: true}", user, &[]),
        ("{overrides: [ann, '']}", value(r#"source.user | """#), &["default-passes"]),
        ("{overrides: [10.0.0.0/8], entryType: IP_ADDRESSES}", ip, &["default-passes"]),
        ("{overrides: [11.0.0.0/8], entryType: IP_ADDRESSES}", ip, &[]),
    ] {
        let adapter = format!("{{compiledAdapter: listchecker, params: {params}}}");
        let case = Case { adapter: adapter.leak(), instance, ..DENIES };
        let found: Vec<_> = case.found("").into_iter().map(|(code, _)| code).collect();
        assert_eq!(found, expected, "{params}");
    }
}

#[test]
fn dimensions_that_every_request_has_alone_are_reported() {
    for (expression, expected) in [
        ("request.time", &["quota-dimension-unique"][..]),
        (r#"request.headers["x-request-id"] | """#, &["quota-dimension-unique"]),
        (r#"request.headers["x-user"] | """#, &[]),
    ] {
        let instance = format!("{{compiledTemplate: quota, params: {{dimensions: {{a: '{expression}'}}}}}}");
        let found = Case { instance: instance.leak(), ..CHARGES }.found("");
        let codes: Vec<_> = found.into_iter().map(|(code, _)| code).collect();
        assert_eq!(codes, expected, "{expression}");
    }
}
