//! Names that a policy reads and that nothing can define: they are undefined, so that a rule that refuses does not.

use super::*;
use mixer_config::{Diagnostic, Severity};

/// Allows whom the rules do not deny.
fn gate(rules: &str) -> Params {
    Params {
        check_method: "data.gate.allow".to_owned(),
        fail_close: true,
        ..params(&format!("package gate\ndefault allow := false\nallow if not deny\n{rules}\n"))
    }
}

pub(super) fn found(params: &Params, instances: &[BoundInstance]) -> Vec<Diagnostic> {
    let mut found = Diagnostics::new();
    Opa::validate(params, instances, &mut found);
    found.into_iter().collect()
}

/// An instance whose leaves are these.
pub(super) fn with_leaves(leaves: &[(&str, Option<&str>, ValueType)]) -> BoundInstance {
    let leaf =
        |(field, key, value_type): &(&str, Option<&str>, ValueType)| Leaf::new(field, *key, *value_type);
    BoundInstance { leaves: leaves.iter().map(leaf).collect(), ..bound() }
}

#[tokio::test]
async fn names_that_cannot_exist_are_errors() {
    let place = |column: usize, text: &str| {
        format!("the handler will not be built: Policy: opa_policy.0:4:{column}: {text}")
    };
    let user = "input.subject.usr does not exist: it is undefined in every evaluation";
    let mistyped = "did you mean `input.subject.user`?";
    let rows = [
        ("deny if input.subject.usr == \"eve\"", place(9, user), mistyped),
        ("deny if input[\"subject\"].usr == \"eve\"", place(9, user), mistyped),
        ("deny if { who := input.subject; who.usr == \"eve\" }", place(33, user), mistyped),
        ("deny if not startswith(input.subject.usr, \"a\")", place(24, user), mistyped),
        ("deny if count([1 | input.subject.usr == \"eve\"]) > 0", place(20, user), mistyped),
        (
            "deny if input.attributes.request.http.path == \"/admin\"",
            place(9, "input.attributes does not exist: it is undefined in every evaluation"),
            "`input` has `action` and `subject`",
        ),
        (
            "deny if input.action.properties.sise == 7",
            place(9, "input.action.properties.sise does not exist: it is undefined in every evaluation"),
            "did you mean `input.action.properties.size`?",
        ),
        (
            "deny if input.subject.properties.role == \"guest\"",
            place(9, "input.subject.properties.role does not exist: it is undefined in every evaluation"),
            "no instance configures `subject.properties`",
        ),
        (
            "deny if input.subject.user.name == \"eve\"",
            place(9, "input.subject.user.name does not exist: it is undefined in every evaluation"),
            "input.subject.user is a text",
        ),
        (
            "deny if input.subject.user in data.blocked",
            place(31, "data.blocked does not exist: no rule has this name, and there are no dataFiles"),
            "",
        ),
        (
            "deny if data.gate.denny\ndenied if input.subject.user == \"eve\"",
            place(9, "data.gate.denny does not exist: no rule has this name, and there are no dataFiles"),
            "did you mean `data.gate.deny`?",
        ),
        (
            "deny if input.subject.groups[0] == \"staff\"",
            place(9, "input.subject.groups is left out: no instance configures `subject.groups`"),
            "configure it",
        ),
    ];
    for (rules, text, hint) in rows {
        let params = gate(rules);
        let errors: Vec<Diagnostic> = found(&params, &[bound()])
            .into_iter()
            .filter(|problem| problem.severity == Severity::Error)
            .collect();
        assert_eq!(errors.len(), 1, "{rules}: {errors:#?}");
        assert_eq!(errors[0].message, text, "{rules}");
        assert!(
            errors[0].hint.as_deref().unwrap_or_default().contains(hint),
            "{rules}: {:?}",
            errors[0].hint
        );
        assert!(errors[0].accepted_by_istio);
        assert!(built(params.clone()).await.is_err(), "{rules}");
        // Istio Mixer evaluates such a policy.
        let env = test_env("h.istio-system");
        env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
        assert!(Opa::build(params, vec![bound()], env).await.is_ok(), "{rules}");
    }
}

/// A policy often has its tests in it.
#[tokio::test]
async fn what_a_test_replaces_is_read_all_the_same() {
    let rows = [
        (
            "deny if input.subject.usr == \"eve\"",
            "test_eve if { not allow with input as {\"subject\": {\"user\": \"eve\"}} }",
        ),
        (
            "deny if input.subject.usr == \"eve\"",
            "test_eve if { not allow with input.subject.usr as \"eve\" }",
        ),
        ("deny if input.subject.user in data.blocked", "test_nobody if { allow with data.blocked as [] }"),
        // Evaluated, but the rule is needed without it, too.
        (
            "deny if bad\nbad if input.subject.usr == \"eve\"",
            "deny if bad with input.subject as {\"usr\": input.action.path}",
        ),
        (
            "deny if input.subject.usr == \"eve\"",
            "deny if input.subject.user == \"bob\" with input.subject as {\"user\": input.action.path}",
        ),
        // The value is none of what is replaced.
        ("deny if bad with input as input.subjects", "bad if input.usr == \"eve\""),
    ];
    for (rule, other) in rows {
        let params = gate(&format!("{rule}\n{other}"));
        let problems = found(&params, &[bound()]);
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
        assert_eq!(errors.count(), 1, "{rule} {other}: {problems:#?}");
        assert!(built(params).await.is_err(), "{rule} {other}");
    }
    // What is tested only there is not tested.
    let tested = gate("deny if input.subject.user != \"ann\"\ntest_nobody if not input.subject.user");
    let problems = found(&tested, &[bound()]);
    let codes: Vec<&str> = problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["opa-absent"], "{problems:#?}");
}

#[test]
fn names_that_may_exist_are_no_errors() {
    let rows = [
        "deny if input.subject.user == \"eve\"",
        "deny if { some key; input.subject[key] == \"eve\" }",
        "deny if input.action.properties[input.subject.user] == 7",
        "deny if object.get(input.subject, \"usr\", \"\") == \"eve\"",
        "deny if { some input_path in [\"a\"]; input_path == input.action.path }",
        "deny if { x := {\"usr\": \"eve\"}; x.usr == input.subject.user }",
        "deny if { some who in [{\"usr\": \"eve\"}]; who.usr == input.subject.user }",
        "deny if is_eve(input.subject)\nis_eve(subject) if subject.user == \"eve\"",
        "deny if roles.eve.denied\nroles := {\"eve\": {\"denied\": input.subject.user == \"eve\"}}",
        "deny if data.gate.roles[input.subject.user].denied\nroles := {\"eve\": {\"denied\": true}}",
        "deny if data.gate.roles.bob.denied\nroles[name] := {\"denied\": true} if name := \"eve\"",
        "deny if bad with input as {\"usr\": \"eve\"}\nbad if input.usr == \"eve\"",
        "deny if bad with input.subject.usr as \"eve\"\nbad if input.subject.usr == \"eve\"",
        "deny if bad with data.list as [\"eve\"]\nbad if input.subject.user in data.list",
        "deny if count(input) == 0",
        "deny if { walk(input, [path, value]); value == \"eve\" }",
        // Never evaluated.
        "deny if input.subject.user == \"eve\"\ntest_eve if input.subject.usr == \"eve\"",
    ];
    for rules in rows {
        let errors: Vec<Diagnostic> = found(&gate(rules), &[bound()])
            .into_iter()
            .filter(|problem| problem.severity == Severity::Error)
            .collect();
        assert!(errors.is_empty(), "{rules}: {errors:#?}");
    }
    // Data files may have what no rule has; where a package has its rules it is probably a mistake.
    let of_files = |rules: &str| Params { data_files: vec!["/tmp/roles.json".into()], ..gate(rules) };
    assert!(found(&of_files("deny if input.subject.user in data.blocked"), &[bound()]).is_empty());
    let denny = found(&of_files("deny if data.gate.denny"), &[bound()]);
    assert_eq!(
        (denny.len(), denny[0].severity, denny[0].code),
        (1, Severity::Warning, "opa-name"),
        "{denny:?}"
    );
    assert_eq!(denny[0].hint.as_deref(), Some("did you mean `data.gate.deny`?"));
    // Of a handler that no rule uses nothing is known.
    assert!(found(&gate("deny if input.subject.usr == \"eve\""), &[]).is_empty());
}

#[test]
fn imports_are_names_of_what_they_import() {
    let policy = |import: &str, rule: &str| Params {
        policy: vec![format!("package gate\n{import}\ndefault allow := true\nallow := false if {rule}\n")],
        ..gate("")
    };
    let rows = [
        ("import input.subject as who", "who.user == \"eve\"", true),
        ("import input.subject as who", "who.usr == \"eve\"", false),
        ("import input.attributes.request.http", "http.path == \"/\"", false),
        ("import data.lists", "input.subject.user in lists.blocked", false),
        (
            "import input.subject\nis_eve(subject) if subject.usr == \"eve\"",
            "is_eve({\"usr\": input.subject.user})",
            true,
        ),
    ];
    for (import, rule, is_good) in rows {
        let problems = found(&policy(import, rule), &[bound()]);
        assert_eq!(problems.is_empty(), is_good, "{import} {rule}: {problems:?}");
    }
}

#[test]
fn rules_are_names_of_the_part_of_the_input_that_they_stand_for() {
    let other = "package other\nimport data.gate.sub\nusr := sub.usr\nuser := sub.user\n";
    let rows = [
        ("sub := input.subject\ndeny if sub.usr == \"eve\"", false),
        ("sub := input.subject\ndeny if sub.user == \"eve\"", true),
        ("sub = input.subject\ndeny if data.gate.sub.usr == \"eve\"", false),
        ("sub := input.subject if input.action\ndeny if not sub.usr", false),
        ("everything := input\nsub := everything.subject\ndeny if sub.usr == \"eve\"", false),
        ("sub := input.subject\ndeny if { it := sub; who := it.usr; who == \"eve\" }", false),
        ("sub := input.subject\ndeny if data.other.usr == \"eve\"", false),
        ("sub := input.subject\ndeny if data.other.user == \"eve\"", true),
        ("sub := data.lists\ndeny if input.subject.user in sub.blocked", false),
        ("sub[\"of\"] := input.subject\ndeny if sub.of.usr == \"eve\"", false),
        // They have another value, too, or are local names.
        ("default sub := {\"usr\": \"eve\"}\nsub := input.subject\ndeny if sub.usr == \"eve\"", true),
        ("sub := input.subject if input.action else := {\"usr\": \"eve\"}\ndeny if sub.usr == \"eve\"", true),
        ("sub := input.subject\ndeny if { some sub in [{\"usr\": \"eve\"}]; sub.usr == \"eve\" }", true),
        ("sub := input.subject\ndeny if f({\"usr\": \"eve\"})\nf(sub) if sub.usr == \"eve\"", true),
        ("sub := sup\nsup := sub\ndeny if sub.usr == \"eve\"", true),
        (
            "sub := input.subject\ndeny if bad with data.gate.sub as {\"usr\": \"eve\"}\nbad if sub.usr == \"eve\"",
            true,
        ),
    ];
    for (rules, is_good) in rows {
        let mut params = gate(rules);
        params.policy.push(other.to_owned());
        let problems = found(&params, &[bound()]);
        let names = problems.iter().filter(|problem| problem.message.contains("does not exist"));
        assert_eq!(names.count() == 0, is_good, "{rules}: {problems:#?}");
    }
}

#[test]
fn what_may_be_left_out_is_a_warning_where_that_opens() {
    let codes = |params: &Params, instances: &[BoundInstance]| -> Vec<(Severity, String)> {
        let code = |problem: Diagnostic| (problem.severity, problem.code.to_string());
        found(params, instances).into_iter().map(code).collect()
    };
    let absent = vec![(Severity::Warning, "opa-absent".to_owned())];
    let rows = [
        ("deny if input.subject.user != \"ann\"", true),
        ("deny if lower(input.subject.user) != \"ann\"", true),
        ("deny if { user := input.subject.user; user != \"ann\" }", true),
        ("deny if startswith(input.subject.user, \"a\") == false", true),
        ("deny if count(input.subject.user) < 3", true),
        ("deny if not input.subject.user == \"ann\"", false),
        ("deny if object.get(input.subject, \"user\", \"\") != \"ann\"", false),
        ("deny if input.subject.user == \"eve\"", false),
        ("deny if not input.subject.user\ndeny if input.subject.user != \"ann\"", false),
        ("deny if { every name in [\"ann\", \"bob\"] { input.subject.user != name } }", true),
        // A property is there, also if it is empty.
        ("deny if input.action.properties.size != 7", false),
    ];
    for (rules, warns) in rows {
        let wanted = if warns { absent.clone() } else { Vec::new() };
        assert_eq!(codes(&gate(rules), &[bound()]), wanted, "{rules}");
    }
    // A rule that allows allows nothing without the member.
    let allows = Params {
        policy: vec!["package gate\ndefault allow := false\nallow if input.subject.user != \"eve\"\n".into()],
        ..gate("")
    };
    assert_eq!(codes(&allows, &[bound()]), []);
    let every = "allow if { every name in [\"eve\", \"bob\"] { input.subject.user != name } }";
    let every = format!("package gate\ndefault allow := false\n{every}\n");
    assert_eq!(codes(&Params { policy: vec![every], ..gate("") }, &[bound()]), []);
    let groups = Params {
        policy: vec![
            "package gate\ndefault allow := false\nallow if input.subject.groups[_] == \"a\"\n".into(),
        ],
        ..gate("")
    };
    assert_eq!(codes(&groups, &[bound()]), [(Severity::Warning, "opa-name".to_owned())]);
    // Of two instances, one lacks the property.
    let text = ValueType::String;
    let other = with_leaves(&[("subject.user", None, text), ("subject.properties", Some("role"), text)]);
    let role = gate("deny if input.subject.properties.role == \"guest\"");
    assert_eq!(codes(&role, &[bound(), other.clone()]), [(Severity::Warning, "opa-name".to_owned())]);
    assert_eq!(codes(&role, &[other]), []);
    let of_map = with_leaves(&[("action.properties", Some("headers"), ValueType::StringMap)]);
    assert_eq!(codes(&gate("deny if input.action.properties.headers.cookie == \"x\""), &[of_map]), []);
    // A member without an expression is none.
    let null = with_leaves(&[("subject.user", None, ValueType::Unspecified)]);
    let null = codes(&gate("deny if input.subject.user == \"eve\""), &[null]);
    assert_eq!(null, [(Severity::Error, "adapter-build".to_owned())]);
}

#[test]
fn a_constant_in_the_place_of_a_text_of_the_request_is_suspicious() {
    let warnings = |expression: &str| {
        let policy = format!("package gate\ndefault open := false\nopen if {expression}\n");
        let mut found = Diagnostics::new();
        Opa::validate(&params(&policy), &[bound()], &mut found);
        found.retain(|problem| problem.code == "opa-arguments");
        found.into_iter().map(|found| (found.message.clone(), found.hint.clone())).collect::<Vec<_>>()
    };
    let text = "Policy: opa_policy.0:3:9: startswith asks whether \"/admin\" begins with input.action.path, not the other way round";
    let hint = "write `startswith(input.action.path, \"/admin\")`";
    let found = warnings("startswith(\"/admin\", input.action.path)");
    assert_eq!(found, [(text.to_owned(), Some(hint.to_owned()))]);
    assert_eq!(warnings("not endswith(\".html\", input.action.path)").len(), 1);
    for meant in [
        "startswith(input.action.path, \"/admin\")",
        "startswith(input.action.path, input.subject.user)",
        // One of several methods.
        "contains(\"GET,HEAD\", input.action.method)",
    ] {
        assert_eq!(warnings(meant), [], "{meant}");
    }
}

#[test]
fn a_text_with_which_no_path_begins_is_suspicious() {
    let warnings = |expression: &str| {
        let policy = format!("package gate\ndefault open := false\nopen if {expression}\n");
        let mut found = Diagnostics::new();
        Opa::validate(&params(&policy), &[bound()], &mut found);
        found.retain(|problem| problem.code == "opa-path");
        found.into_iter().map(|found| (found.message.clone(), found.hint.clone())).collect::<Vec<_>>()
    };
    let text = "Policy: opa_policy.0:3:13: input.action.path begins with `/`, so that it never begins with \"admin/\": the paths of requests do";
    let hint = "write `startswith(input.action.path, \"/admin/\")`";
    let found = warnings("not startswith(input.action.path, \"admin/\")");
    assert_eq!(found, [(text.to_owned(), Some(hint.to_owned()))]);
    for meant in [
        "startswith(input.action.path, \"/admin\")",
        "startswith(input.action.path, \"\")",
        "startswith(input.action.path, \"*\")",
        "startswith(input.action.path, \"http://\")",
        "startswith(input.action.path, input.subject.user)",
        "startswith(input.action.method, \"GE\")",
        "endswith(input.action.path, \"admin\")",
    ] {
        assert_eq!(warnings(meant), [], "{meant}");
    }
}
