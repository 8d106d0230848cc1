//! What `validate` finds beyond the build of a configuration, a server tells as well, once it has published it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use mixer_base::metrics::Family;
use mixer_config::store::{ConfigStore as _, MemoryStore};
use mixer_config::{Diagnostic, Severity};
use mixer_engine::runtime::OnConfigError;
use mixer_engine::snapshot::{SnapshotBuilder, SnapshotOptions, check_params, pitfalls};

use crate::refusal::good;
use crate::stage::{Answer, Files, Stage};

/// Codes that only `validate` and `doctor` would know otherwise.
const CODES: [&str; 18] = [
    "adapter-config",
    "attribute-unmapped",
    "denier-allows",
    "denier-code",
    "denier-validity",
    "instance-name-unknown",
    "labels-differ",
    "list-empty",
    "list-entry",
    "opa-absent",
    "opa-name",
    "opa-undecided",
    "quota-amount",
    "quota-held",
    "quota-override-shadowed",
    "quota-override-value",
    "rbac-ineffective",
    "response-before-check",
];

/// The files of a directory below testdata/bad.
fn files_of(name: &str, files: &mut Files) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/bad").join(name);
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            files.put(&format!("/conf/{name}-{}", entry.file_name().display()), text);
        }
    }
}

/// Every code, and its resource.
fn told<'d>(problems: impl IntoIterator<Item = &'d Diagnostic>) -> BTreeSet<(&'static str, String)> {
    problems.into_iter().map(|problem| (problem.code, problem.resource.clone())).collect()
}

#[test]
fn a_server_tells_what_validate_finds() {
    let mut known = BTreeSet::new();
    let bad = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/bad");
    for entry in std::fs::read_dir(&bad).unwrap().flatten() {
        let Ok(expected) = std::fs::read_to_string(entry.path().join("expected")) else { continue };
        if !CODES.iter().any(|code| expected.contains(&format!("code: {code}\n"))) {
            continue;
        }
        let name = entry.file_name().display().to_string();
        let mut files = Files::default();
        files_of("_base", &mut files);
        files_of(&name, &mut files);
        let texts = files.texts.iter().map(|(file, text)| (file.as_str(), text.as_str()));
        let contents = MemoryStore::new("memory://", texts).contents();
        let snapshot = SnapshotBuilder::new(SnapshotOptions::new(mixer_server::REGISTRY)).build(&contents);
        let found: Vec<Diagnostic> = check_params(&snapshot).into_iter().chain(pitfalls(&snapshot)).collect();
        known.extend(found.iter().map(|problem| problem.code));

        let mut stage = Stage::new(OnConfigError::ServeValid, false);
        stage.start(&files);
        assert!(!stage.published().is_examined(), "{name}: nothing waits for it");
        stage.examine();
        let published = stage.published();
        let all = told(published.all_diagnostics());
        let faulty: BTreeSet<&str> = published
            .all_diagnostics()
            .filter(|problem| problem.severity == Severity::Error)
            .map(|problem| &*problem.resource)
            .collect();
        for problem in &found {
            let is_told = all.contains(&(problem.code, problem.resource.clone()));
            // A handler that is not built says so in other words.
            let is_error = problem.severity == Severity::Error && faulty.contains(&*problem.resource);
            assert!(is_told || is_error, "{name}: {} {}: {all:?}", problem.code, problem.resource);
        }
        // Each once.
        let errors = published.problems(Severity::Error) + published.problems(Severity::Warning);
        let counted = published.all_diagnostics().filter(|problem| problem.severity != Severity::Info);
        assert_eq!(errors, counted.map(Diagnostic::count).sum::<usize>(), "{name}");
    }
    let missing: Vec<_> = CODES.iter().filter(|code| !known.contains(*code)).collect();
    assert!(missing.is_empty(), "testdata/bad has no example of {missing:?}");
}

/// Labels that are not the dimensions of their instance: every report would fail.
fn with_other_labels() -> Files {
    let mut files = good();
    files.put(
        "/conf/metrics.yaml",
        "kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: '1', dimensions: {caller: source.user | \"\"}}}
---
kind: handler
metadata: {name: counts, namespace: istio-system}
spec:
  compiledAdapter: prometheus
  params: {metrics: [{name: calls, instanceName: calls.instance.istio-system, kind: COUNTER, labelNames: [path]}]}
",
    );
    files
}

#[test]
fn suggestions_decide_nothing_and_last_until_the_next_examination() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&with_other_labels());
    let problems = |stage: &Stage| stage.published().problems(Severity::Error);
    let errors = |stage: &Stage| {
        let metrics = stage.metrics();
        metrics.gauge(Family::Diagnostics, &["error"]).get()
    };
    assert_eq!((problems(&stage), errors(&stage)), (0, Some(0.0)));
    // Soon after the publication, without a question.
    stage.pass(Duration::from_secs(1));
    assert!(stage.published().is_examined());
    assert_eq!((problems(&stage), errors(&stage)), (1, Some(1.0)));
    let published = stage.published();
    let codes: Vec<&str> = published.suggestions().iter().map(|problem| problem.code).collect();
    assert_eq!((codes, published.diagnostics.len(), published.kept.len()), (vec!["labels-differ"], 0, 0));
    assert_eq!((stage.check("ann"), stage.check("bob")), (Answer::Allowed, Answer::Denied));
    assert_eq!(stage.history().first().map(|latest| latest.tally.errors), Some(1));

    // Another change: what is known of it is that of before, until it is examined.
    let mut files = with_other_labels();
    files.put("/conf/beside.yaml", crate::refusal::BESIDE);
    stage.change(&files);
    assert_eq!((problems(&stage), stage.published().is_examined()), (1, false));
    stage.pass(Duration::from_secs(1));
    assert_eq!((problems(&stage), stage.published().is_examined()), (1, true));

    stage.change(&good());
    assert_eq!(stage.check("bob"), Answer::Denied);
    stage.pass(Duration::from_secs(1));
    assert_eq!((problems(&stage), errors(&stage)), (0, Some(0.0)), "mended");
}
