//! Configuration made to cost memory and time: each is refused with a diagnostic, within an address space of 1 GiB.

use std::fmt::Write as _;
use std::fs::{File, write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{DEADLINE, Process, programs};

/// In kilobytes.
const ADDRESS_SPACE: usize = 1 << 20;

const VOCABULARY: &str = "
kind: attributemanifest
metadata: {name: vocabulary, namespace: istio-system}
spec: {attributes: {source.name: {valueType: STRING}, request.path: {valueType: STRING}}}
";

fn rule(condition: &str) -> String {
    format!(
        "{VOCABULARY}---\nkind: rule\nmetadata: {{name: r, namespace: istio-system}}\nspec:\n  match: {condition}\n"
    )
}

fn in_cel(condition: &str) -> String {
    let annotations = "annotations: {policy.istio.io/lang: CEL}";
    rule(&format!("'{condition}'")).replace("name: r, ", &format!("name: r, {annotations}, "))
}

/// A bridge that charges a quota for paths.
fn bridge(patterns: &[String]) -> String {
    let clauses: Vec<String> =
        patterns.iter().map(|p| format!("{{clause: {{request.path: {{regex: \"{p}\"}}}}}}")).collect();
    format!(
        "{VOCABULARY}---\nkind: envoybridge\nmetadata: {{name: default, namespace: istio-system}}\nspec:\n  check:\n    quotaSpec:\n    - rules:\n      - match: [{}]\n        quotas: [{{quota: requests, charge: 1}}]\n",
        clauses.join(", ")
    )
}

/// A command of `mixer` within the address space.
fn limited(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -v {ADDRESS_SPACE} && exec \"$0\" \"$@\""));
    command.arg(programs().path("mixer")).args(arguments);
    // Debug builds reserve 64 MiB for the heap of each thread.
    command.env("MALLOC_ARENA_MAX", "2").stdin(Stdio::null());
    command
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn hostile_files_are_refused_within_bounds() {
    let patterns = (0..100).fold(String::new(), |mut all, i| {
        let separator = if i == 0 { "" } else { " || " };
        let _ = write!(all, "{separator}\"(\\\\pL{{800}}){i}\".matches(source.name)");
        all
    });
    type Make = Box<dyn Fn(&Path)>;
    let text = |text: String| -> Make { Box::new(move |path| write(path, &text).unwrap()) };
    let cases: [(&str, &str, &str, Make); 18] = [
        (
            "4 000 aliases of a text of 2 MB",
            "yaml-syntax",
            "aliases expand the document by more than",
            text(format!(
                "{VOCABULARY}big: &b \"{}\"\nlist: [{}]\n",
                "y".repeat(2 << 20),
                ["*b"; 4_000].join(", ")
            )),
        ),
        (
            "aliases of aliases",
            "yaml-syntax",
            "aliases expand the document by more than",
            text((1..64).fold("a0: &a0 [x, x]\n".to_owned(), |all, i| {
                format!("{all}a{i}: &a{i} [*a{0}, *a{0}]\n", i - 1)
            })),
        ),
        (
            "an identifier of 60 kB",
            "attribute-unknown",
            "unknown attribute aaa",
            text(rule(&"a".repeat(60_000))),
        ),
        (
            "an identifier of 1 MB",
            "expression-parse",
            "expression has 1000000 bytes",
            text(rule(&"a".repeat(1_000_000))),
        ),
        (
            "an identifier of 10 MB",
            "expression-parse",
            "expression has 10000000 bytes",
            text(rule(&"a".repeat(10_000_000))),
        ),
        (
            "a hundred large patterns",
            "expression-compile",
            "expression is too large",
            text(rule(&format!("'{patterns}'"))),
        ),
        (
            "three thousand large patterns in CEL",
            "expression-type",
            "expression is too large",
            text(in_cel(&(0..3_000).fold("false".to_owned(), |mut all, i| {
                let _ = write!(all, " || source.name.matches(\"(\\\\pL{{800}}){i}\")");
                all
            }))),
        ),
        (
            "a reference of a million dots",
            "handler-unknown",
            "Handler not found",
            text(format!(
                "kind: rule\nmetadata: {{name: r, namespace: n}}\nspec: {{actions: [{{handler: '{}', instances: [a]}}]}}\n",
                "a.".repeat(1_000_000)
            )),
        ),
        (
            "150 000 unknown fields",
            "spec-decode",
            "unknown field",
            text((0..150_000).fold(
                "kind: rule\nmetadata: {name: r, namespace: n}\nspec:\n".to_owned(),
                |mut all, i| {
                    let _ = writeln!(all, "  f{i}: 1");
                    all
                },
            )),
        ),
        (
            "100 000 misspelt annotations",
            "annotation-unknown",
            "further annotations are not examined",
            text(
                (0..100_000).fold(
                    "kind: rule\nmetadata:\n  name: r\n  namespace: n\n  annotations:\n".to_owned(),
                    |mut all, i| {
                        let _ = writeln!(all, "    mixer.dev/f{i}: x");
                        all
                    },
                ) + "spec: {}\n",
            ),
        ),
        (
            "an envoybridge with 300 patterns",
            "envoy-setting",
            "more than 256 regular expressions",
            text(bridge(&(0..300).map(|i| format!("^/{i}$")).collect::<Vec<_>>())),
        ),
        (
            "an envoybridge with a large pattern",
            "envoy-setting",
            "expression is too large",
            text(bridge(&[r"(\\pL{800})".to_owned()])),
        ),
        (
            "a field of 1 MB",
            "spec-decode",
            "unknown field",
            text(format!(
                "kind: rule\nmetadata: {{name: r, namespace: n}}\nspec:\n  ? {}\n  : 1\n",
                "f".repeat(1 << 20)
            )),
        ),
        (
            "a name of 1 MB",
            "document-identity",
            "metadata.name has 1048576 bytes, more than 1024",
            text(format!(
                "kind: rule\nmetadata:\n  name: \"{}\"\n  namespace: n\nspec: {{}}\n",
                "n".repeat(1 << 20)
            )),
        ),
        (
            "200 000 brackets",
            "yaml-syntax",
            "nesting is deeper than 128 levels",
            text(format!("a: {}", "[".repeat(200_000))),
        ),
        (
            "a file of 1 GiB",
            "file-too-large",
            "file is larger than 16 MiB",
            Box::new(|path| {
                File::create(path).unwrap().set_len(1 << 30).unwrap();
            }),
        ),
        ("a FIFO", "file-special", "not a regular file but a FIFO", Box::new(fifo)),
        (
            "a link to a device",
            "file-special",
            "not a regular file but a device",
            Box::new(|path| {
                std::os::unix::fs::symlink("/dev/zero", path).unwrap();
            }),
        ),
    ];
    for (name, code, message, make) in cases {
        let directory = tempfile::tempdir().unwrap();
        make(&directory.path().join("a.yaml"));
        let output = limited(&["validate", directory.path().to_str().unwrap()]).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        let start: String = shown.chars().take(600).collect();
        assert_eq!(
            output.status.code(),
            Some(1),
            "{name}: {start} {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(shown.contains(&format!("[{code}]")) && shown.contains(message), "{name}: {start}");
        assert!(shown.len() < 1 << 20, "{name}: {} bytes", shown.len());
    }
}

/// Documents, one for each number.
fn documents(count: usize, document: impl Fn(usize) -> String) -> String {
    (0..count).map(document).collect::<Vec<_>>().join("---\n")
}

fn list(name: &str, params: &str) -> String {
    format!(
        "kind: handler\nmetadata: {{name: {name}, namespace: istio-system}}\nspec: {{compiledAdapter: listchecker, params: {{blacklist: true, {params}}}}}\n"
    )
}

fn instance(name: &str, template: &str, params: &str) -> String {
    format!(
        "kind: instance\nmetadata: {{name: {name}, namespace: istio-system}}\nspec: {{compiledTemplate: {template}, params: {{{params}}}}}\n"
    )
}

fn rule_with(name: &str, condition: &str, handler: &str, instance: &str) -> String {
    format!(
        "kind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\nspec: {{match: '{condition}', actions: [{{handler: {handler}, instances: [{instance}]}}]}}\n"
    )
}

fn memquota(quotas: &str) -> String {
    format!(
        "kind: handler\nmetadata: {{name: limits, namespace: istio-system}}\nspec: {{compiledAdapter: memquota, params: {{quotas: [{quotas}]}}}}\n"
    )
}

fn bridge_with(spec: &str) -> String {
    format!("kind: envoybridge\nmetadata: {{name: bridge, namespace: istio-system}}\nspec: {{{spec}}}\n")
}

/// Joins what is generated for each number by commas.
fn items(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(", ")
}

/// Configurations of some hundred kilobytes of which each took minutes while their parts were compared with each other.
fn quadratic() -> Vec<(&'static str, &'static str, String)> {
    let value = || instance("value", "listentry", "value: 'source.name | \"\"'");
    let quota = |name: &str| instance(name, "quota", "dimensions: {d: '\"x\"'}");
    let limit =
        |name: &str| format!("{{name: {name}.instance.istio-system, maxAmount: 3, validDuration: 60s}}");
    vec![
        (
            "bindings that name no role, beside roles",
            "rbac-ineffective",
            documents(10_000, |i| {
                format!(
                    "apiVersion: rbac.istio.io/v1alpha1\nkind: ServiceRole\nmetadata: {{name: role-{i:06}, namespace: lib}}\nspec: {{rules: [{{services: [\"*\"], methods: [GET]}}]}}\n---\napiVersion: rbac.istio.io/v1alpha1\nkind: ServiceRoleBinding\nmetadata: {{name: b-{i:06}, namespace: lib}}\nspec: {{subjects: [{{user: ann}}], roleRef: {{kind: ServiceRole, name: rule-{i:06}}}}}\n"
                )
            }),
        ),
        (
            "a default in each of many namespaces",
            "namespace-unused",
            documents(10_000, |i| {
                format!(
                    "kind: rule\nmetadata: {{name: closed, namespace: team-{i:06}, annotations: {{mixer.dev/default: deny}}}}\nspec: {{}}\n"
                )
            }),
        ),
        (
            "selectors of descriptors, rules and instances",
            "quota-unchargeable",
            [
                memquota(&limit("q")),
                quota("q"),
                documents(8_000, |i| instance(&format!("v{i}"), "listentry", "value: source.name")),
                documents(1_600, |i| rule_with(&format!("r{i}"), &format!("source.name == \"M{i}\""), "limits", "q")),
                bridge_with(&format!(
                    "ratelimit: {{quotas: [{}]}}",
                    items(1_600, |i| format!("{{domain: d{i}, entries: {{k: v{i}}}, quota: q}}"))
                )),
            ]
            .join("---\n"),
        ),
        (
            "unknown attributes beside a manifest",
            "attribute-unknown",
            [
                format!(
                    "kind: attributemanifest\nmetadata: {{name: many, namespace: istio-system}}\nspec: {{attributes: {{{}}}}}\n",
                    items(6_000, |i| format!("my.attribute.n{i:06}: {{valueType: STRING}}"))
                ),
                documents(6_000, |i| instance(&format!("v{i}"), "listentry", &format!("value: my.atribute.m{i:06}"))),
            ]
            .join("---\n"),
        ),
        (
            "rules that misspell their handlers",
            "handler-unknown",
            [
                value(),
                documents(6_000, |i| list(&format!("list-{i:06}"), "overrides: [x]")),
                documents(6_000, |i| rule_with(&format!("r{i}"), "true", &format!("lost-{i:06}"), "value")),
            ]
            .join("---\n"),
        ),
        (
            "overrides that name no dimension",
            "adapter-config",
            [
                instance("q", "quota", &format!("dimensions: {{{}}}", items(6_000, |i| format!("dim{i:06}: source.name | \"\"")))),
                memquota(&format!(
                    "{{name: q.instance.istio-system, maxAmount: 3, validDuration: 60s, overrides: [{}]}}",
                    items(6_000, |i| format!("{{dimensions: {{dmi{i:06}: x}}, maxAmount: 1, validDuration: 1s}}"))
                )),
                rule_with("r", "true", "limits", "q"),
            ]
            .join("---\n"),
        ),
        (
            "quotas that are charged by as many rules",
            "quota-uncharged",
            [
                documents(6_000, |i| quota(&format!("q{i}"))),
                memquota(&items(6_000, |i| limit(&format!("q{i}")))),
                documents(6_000, |i| rule_with(&format!("r{i}"), "true", "limits", &format!("q{i}"))),
                bridge_with(&format!(
                    "check: {{quotaSpec: [{{rules: [{{quotas: [{}]}}]}}]}}",
                    items(5_999, |i| format!("{{quota: q{i}, charge: 1}}"))
                )),
            ]
            .join("---\n"),
        ),
        (
            "rules that look a value up in a long list",
            "handler-unknown",
            [
                value(),
                rule_with("lost", "true", "nowhere", "value"),
                list("long", &format!("overrides: [{}]", items(40_000, |i| format!("name-{i}")))),
                documents(3_000, |i| rule_with(&format!("r{i}"), &format!("source.name == \"u{i}\""), "long", "value")),
            ]
            .join("---\n"),
        ),
        (
            "instances of one action",
            "instance-repeated",
            [
                value(),
                list("l", "overrides: [x]"),
                documents(20_000, |i| instance(&format!("v{i}"), "listentry", "value: source.name")),
                rule_with("r", "true", "l", &format!("value, value, {}", items(20_000, |i| format!("v{i}")))),
            ]
            .join("---\n"),
        ),
    ]
}

#[test]
fn what_validation_compares_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.yaml");
    for (name, code, text) in quadratic() {
        write(&path, format!("{VOCABULARY}---\n{text}")).unwrap();
        let shown = File::create(directory.path().join("shown")).unwrap();
        let mut command = limited(&["validate", "--output", "plain", path.to_str().unwrap()]);
        let mut process = Process::spawn(command.stdout(shown).stderr(Stdio::null())).unwrap();
        let ended = process.wait(DEADLINE).unwrap_or_else(|| panic!("{name}: not within {DEADLINE:?}"));
        let shown = std::fs::read_to_string(directory.path().join("shown")).unwrap();
        let start: String = shown.chars().take(600).collect();
        assert!(matches!(ended, Some(0 | 1)), "{name}: {ended:?} {start}");
        assert!(shown.contains(&format!("[{code}]")), "{name}: {start}");
    }
}

#[test]
fn validation_ends_with_its_signal() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    fifo(&path);
    for signal in ["TERM", "INT"] {
        // Nobody writes to the pipe: it waits.
        let mut command = Command::new(programs().path("mixer"));
        let mut process = Process::spawn(command.arg("validate").arg(&path).stdout(Stdio::null())).unwrap();
        process.signal(signal);
        assert_eq!(process.wait(DEADLINE), Some(None), "{signal} ends it");
    }
}

#[test]
fn a_fifo_or_a_device_in_place_of_a_file_fails_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    fifo(&pipe);
    let pipe = pipe.to_str().unwrap();
    let address = format!("--address=unix://{}", directory.path().join("api.sock").display());
    for (arguments, message) in [
        (vec!["--pid-file", pipe], "not a regular file but a FIFO"),
        (vec!["--pid-file", "/dev/null"], "not a regular file but a device"),
        (vec!["--tls-cert-file", pipe, "--tls-key-file", pipe], "not a regular file but a FIFO"),
        (vec!["--tls-cert-file", "/dev/zero", "--tls-key-file", pipe], "not a regular file but a device"),
    ] {
        let ports = ["--monitoring-port=0", "--metrics-port=0", "--ctrlz-port=0"];
        let store = "--config-store-url=embedded://sample";
        let output = Command::new(programs().path("mixer"))
            .args(["server", &address, store])
            .args(ports)
            .args(&arguments)
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {shown}");
        assert!(shown.contains(message), "{arguments:?}: {shown}");
    }
}
