//! The configuration of the chaos, and mistakes in it.

const HEADER: &str = "apiVersion: config.istio.io/v1alpha2\n";

/// The files that every good configuration has, and what they hold.
pub(crate) const FILES: [(&str, &str); 4] = [
    (
        "manifest.yaml",
        "kind: attributemanifest
metadata: {name: chaos, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    destination.service: {valueType: STRING}
",
    ),
    (
        "instances.yaml",
        "kind: instance
metadata: {name: caller, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: user, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: source.user}}
",
    ),
    (
        "handlers.yaml",
        "kind: handler
metadata: {name: refuse, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7, message: not you}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: members, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {overrides: [ann], blacklist: false}}
",
    ),
    (
        "rules.yaml",
        "kind: rule
metadata: {name: mallory, namespace: istio-system}
spec: {match: source.user == \"mallory\", actions: [{handler: refuse, instances: [caller]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: vault, namespace: istio-system}
spec: {match: destination.service == \"vault\", actions: [{handler: members, instances: [user]}]}
",
    ),
];

/// Mistakes: in which file, and what is replaced by what.
pub(crate) const TYPOS: [(&str, &str, &str); 12] = [
    ("handlers.yaml", "denier", "deniar"),
    ("handlers.yaml", "listchecker", "listcheker"),
    ("handlers.yaml", "code: 7", "code: seven"),
    ("handlers.yaml", "name: refuse", "name: refuze"),
    ("instances.yaml", "checknothing", "checknothin"),
    ("instances.yaml", "value: source.user", "value: sorce.user"),
    ("instances.yaml", "name: caller", "name: callr"),
    ("rules.yaml", "handler: refuse", "handler: refuze"),
    ("rules.yaml", "instances: [user]", "instances: [usr]"),
    ("rules.yaml", "source.user ==", "source.user ="),
    ("rules.yaml", "destination.service ==", "destination.servis =="),
    ("manifest.yaml", "source.user: {valueType: STRING}", "source.user: {valueType: STRNG}"),
];

/// Edits that change no answer.
pub(crate) const EDITS: [(&str, &str, &str); 6] = [
    ("handlers.yaml", "not you", "not you either"),
    ("handlers.yaml", "overrides: [ann]", "overrides: [ann, bea]"),
    ("instances.yaml", "value: source.user", "value: source.user | \"\""),
    ("rules.yaml", "source.user == \"mallory\"", "source.user == \"mallory\" || source.user == \"malory\""),
    ("rules.yaml", "destination.service == \"vault\"", "(destination.service | \"vault\") == \"vault\""),
    ("manifest.yaml", "  attributes:\n", "  attributes:\n    request.size: {valueType: INT64}\n"),
];

/// Texts that make a line of YAML invalid.
pub(crate) const SYNTAX: [&str; 4] = ["\t- x\n", "{\n", "\"\n", "a: b: c\n"];

pub(crate) fn good(file: &str) -> String {
    let text = FILES.iter().find(|(name, _)| *name == file).map_or("", |(_, text)| *text);
    format!("{HEADER}{text}")
}

/// A rule that denies one user with a number as its text.
pub(crate) fn numbered(user: &str, number: u64) -> String {
    format!(
        "{HEADER}kind: handler
metadata: {{name: {user}, namespace: istio-system}}
spec: {{compiledAdapter: denier, params: {{status: {{code: 7, message: number {number}}}}}}}
---
{HEADER}kind: rule
metadata: {{name: {user}, namespace: istio-system}}
spec: {{match: source.user == \"{user}\", actions: [{{handler: {user}, instances: [caller]}}]}}
"
    )
}
