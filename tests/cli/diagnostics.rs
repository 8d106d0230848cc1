//! Every directory of `testdata/bad` has one mistake that users make; `mixer validate` reports it with its position.
//!
//! Each is validated together with `testdata/bad/_base`, which is valid. Its file `expected` lists the diagnostics in order: code,
//! severity, `at: FILE:LINE:COLUMN`, and texts that message and hint contain.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{DEADLINE, programs, run};

/// The least number of examples, so that the test cannot pass without any.
const MIN_EXAMPLES: usize = 300;

fn examples() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/bad");
    let entries = std::fs::read_dir(root).expect("testdata/bad is there");
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable entry").path())
        .filter(|path| path.join("expected").exists())
        .collect();
    found.sort();
    found
}

fn validate(paths: &[&Path]) -> (i32, Value) {
    let mut arguments = vec!["validate".to_owned(), "--output".to_owned(), "json".to_owned()];
    arguments.extend(paths.iter().map(|path| path.display().to_string()));
    let mixer = programs().path("mixer");
    let finished = run(&mixer, &arguments, &[], None, None, DEADLINE).expect("the command ends");
    let document = serde_json::from_str(&finished.stdout)
        .unwrap_or_else(|error| panic!("no JSON ({error}): {} {}", finished.stdout, finished.stderr));
    (finished.status, document)
}

/// A diagnostic in the format of the file `expected`.
fn shown(diagnostic: &Value, example: &Path) -> String {
    let text = |key: &str| diagnostic.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| diagnostic.get(key).and_then(Value::as_u64).unwrap_or_default();
    let file = Path::new(text("file"));
    let file = file.strip_prefix(example).unwrap_or(file).display();
    format!(
        "- code: {}\n  severity: {}\n  at: {file}:{}:{}\n  message: {:?}\n  hint: {:?}\n",
        text("code"),
        text("severity"),
        number("line"),
        number("column"),
        text("message"),
        text("hint")
    )
}

fn difference(example: &Path, status: i32, document: &Value) -> Option<String> {
    let text = std::fs::read_to_string(example.join("expected")).expect("expected is readable");
    let expected: Vec<Value> = serde_yaml::from_str(&text).expect("expected is a list");
    let found = document["diagnostics"].as_array().cloned().unwrap_or_default();
    let is_error = |diagnostic: &Value| diagnostic["severity"] == "error";
    let mut same = found.len() == expected.len() && status == i32::from(expected.iter().any(is_error));
    for (found, expected) in found.iter().zip(&expected) {
        let contains = |key: &str| {
            let wanted = expected[key].as_str().unwrap_or_default();
            found[key].as_str().unwrap_or_default().contains(wanted)
        };
        let file = Path::new(found["file"].as_str().unwrap_or_default());
        let file = file.strip_prefix(example).unwrap_or(file).display();
        let place = format!("{file}:{}:{}", found["line"], found["column"]);
        same &= found["code"] == expected["code"]
            && found["severity"] == expected["severity"]
            && Some(place.as_str()) == expected["at"].as_str()
            && contains("message")
            && contains("hint");
    }
    let name = example.file_name().unwrap_or_default().display();
    let list: String = found.iter().map(|diagnostic| shown(diagnostic, example)).collect();
    (!same).then(|| format!("== {name} (exit {status})\nfound:\n{list}expected:\n{text}"))
}

#[test]
fn every_mistake_is_reported_with_position_and_hint() {
    let examples = examples();
    assert!(examples.len() >= MIN_EXAMPLES, "{} examples", examples.len());
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/bad/_base");
    let differences: Vec<String> = examples
        .iter()
        .filter_map(|example| {
            let (status, document) = validate(&[&base, example]);
            difference(example, status, &document)
        })
        .collect();
    assert!(
        differences.is_empty(),
        "{} of {}\n{}",
        differences.len(),
        examples.len(),
        differences.join("\n")
    );
}

/// The line alone suffices to mend a mistake: each has its hint, but for one that only repeats the message, and for what follows from a mistake
/// with a line of its own.
#[test]
fn plain_lines_have_the_hints() {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/bad/_base");
    let mixer = programs().path("mixer");
    let mut hints = 0;
    for example in examples() {
        let (_, document) = validate(&[&base, &example]);
        let paths = [&base, &example].map(|path| path.display().to_string());
        let arguments = [&["validate", "-o", "plain"].map(str::to_owned)[..], &paths[..]].concat();
        let plain = run(&mixer, &arguments, &[], None, None, DEADLINE).expect("the command ends").stdout;
        let found = document["diagnostics"].as_array().cloned().unwrap_or_default();
        assert_eq!(plain.lines().count(), found.len(), "{}: {plain}", example.display());
        for (line, problem) in plain.lines().zip(&found) {
            let text = |key: &str| problem[key].as_str().unwrap_or_default();
            let follows = matches!(text("code"), "rule-empty" | "action-empty" | "rule-skipped");
            let (hint, is_empty) = (text("hint").replace('\n', " "), text("hint").is_empty());
            let has_hint = line.ends_with(&format!(" ({hint})"));
            assert!(
                is_empty || has_hint || follows || hint.starts_with("compare with "),
                "{}: {line}: no {hint}",
                example.display()
            );
            hints += usize::from(has_hint);
        }
    }
    assert!(hints > MIN_EXAMPLES, "{hints}");
}

#[test]
fn valid_configuration_has_no_diagnostics() {
    for good in ["testdata/bad/_base", "testdata/config"] {
        let (status, document) = validate(&[&Path::new(env!("CARGO_MANIFEST_DIR")).join(good)]);
        assert_eq!(document["diagnostics"].as_array().map(Vec::len), Some(0), "{good}: {document}");
        assert_eq!(status, 0, "{good}");
    }
}

/// With `--analyze`: messages with positions, also of documents without a namespace, and without what is suppressed.
#[test]
fn resources_are_analyzed_together() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let text = "apiVersion: networking.istio.io/v1alpha3
kind: VirtualService
metadata: {name: v, namespace: default}
spec:
  hosts: [a.com]
  gateways:
  - mesh
  - ghost
  http:
  - route:
    - destination: {host: web, port: {number: 81}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: default}
";
    std::fs::write(directory.path().join("mesh.yaml"), text).expect("it is writable");
    let analyzed = |flags: &[&str]| {
        let place = directory.path().display().to_string();
        let arguments: Vec<String> = [&["validate", &place, "-o", "json", "--allow-empty-config"], flags]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect();
        let mixer = programs().path("mixer");
        let finished = run(&mixer, &arguments, &[], None, None, DEADLINE).expect("the command ends");
        let document: Value = serde_json::from_str(&finished.stdout)
            .unwrap_or_else(|error| panic!("{error}: {} {}", finished.stdout, finished.stderr));
        let all = document["diagnostics"].as_array().cloned().unwrap_or_default();
        let of =
            all.iter().filter(|found| found["code"].as_str().is_some_and(|code| code.starts_with("IST")));
        let short = |found: &Value| {
            let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
            (
                text("code"),
                text("severity"),
                found["line"].as_u64().unwrap_or(0),
                text("resource"),
                text("message"),
            )
        };
        (finished.status, of.map(short).collect::<Vec<_>>())
    };
    let row = |code: &str, severity: &str, line: u64, resource: &str, message: &str| {
        let [code, severity, resource, message] = [code, severity, resource, message].map(str::to_owned);
        (code, severity, line, resource, message)
    };
    let gateway = "Referenced gateway not found: \"ghost\"";
    let port = "Referenced host:port not found: \"web:81\"";
    let (status, found) = analyzed(&["--analyze"]);
    assert_eq!(
        (status, &found[..2]),
        (
            1,
            &[
                row("IST0101", "error", 8, "v.VirtualService.default", gateway),
                row("IST0101", "error", 11, "v.VirtualService.default", port),
            ][..]
        )
    );
    assert!(found.len() == 3 && found[2].0 == "IST0102" && found[2].2 == 18, "{found:?}");
    let muted =
        analyzed(&["--analyze", "--suppress", "IST0101=VirtualService v.*", "--suppress", "IST0102=*"]);
    assert_eq!(muted, (0, Vec::new()));
    assert_eq!(analyzed(&[]), (0, Vec::new()));
}
