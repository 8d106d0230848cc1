//! Runs the golden cases under `testdata/conformance`, or under the directory that `MIXER_CONFORMANCE_DIR` names.
//!
//! A suite is a directory; [`SUITES`] maps it to the module that runs it. A case is data: a new one needs no new code. A directory
//! without a suite is a failure. An argument selects the cases whose `SUITE/ID` contains it.
//!
//! Suites that need a server start the binary under test. `MIXER_CONFORMANCE_SERVER` and `MIXER_CONFORMANCE_CLIENT` replace `mixs` and
//! `mixc` by other binaries: the runners themselves are verified against Istio Mixer. Such a run does not test this product.

#![expect(clippy::print_stdout, reason = "a test harness prints its results")]
#![expect(clippy::indexing_slicing, reason = "members of JSON values that are absent are null")]

#[path = "conformance/adapters.rs"]
mod adapters;
#[path = "conformance/adapters_remote.rs"]
mod adapters_remote;
#[path = "conformance/galley/admission.rs"]
mod admission;
#[path = "conformance/attributes.rs"]
mod attributes;
#[path = "conformance/case.rs"]
mod case;
#[path = "conformance/cli.rs"]
mod cli;
#[path = "conformance/envoy.rs"]
mod envoy;
#[path = "conformance/expressions.rs"]
mod expressions;
#[path = "conformance/galley.rs"]
mod galley;
#[path = "conformance/scenarios.rs"]
mod scenarios;
#[path = "conformance/sink.rs"]
mod sink;
#[cfg(test)]
#[path = "support/support.rs"]
mod support;
#[path = "conformance/wire.rs"]
mod wire;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use case::{Case, Outcome};

/// Runs the cases found in one directory whose id contains the filter.
type Run = fn(&Path, Option<&str>) -> Vec<Case>;

/// The suites and their runners, cheap ones first.
const SUITES: &[(&str, &[Run])] = &[
    ("expressions", &[expressions::run]),
    ("attributes", &[attributes::run, wire::run_rpc]),
    ("envoy", &[envoy::run]),
    ("adapters", &[adapters::run, wire::run_adapters]),
    ("adapters-remote", &[adapters_remote::run]),
    ("scenarios", &[scenarios::run]),
    ("cli", &[cli::run]),
    ("galley", &[galley::run, sink::run, admission::run]),
];

/// Maximum length of a failure, in characters.
const SHOWN: usize = 400;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    // Flags of the standard test harness are ignored.
    let filter = arguments.iter().find(|argument| !argument.starts_with('-')).map(String::as_str);
    let root = std::env::var_os("MIXER_CONFORMANCE_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/conformance"), PathBuf::from);
    let found = match directories(&root) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("cannot read {}: {error}", root.display());
            return ExitCode::FAILURE;
        }
    };
    let mut total = Tally::default();
    for (name, runs) in SUITES {
        if found.iter().any(|directory| directory == name) {
            total.add(&suite(name, runs, &root.join(name), filter));
        }
    }
    for name in found.iter().filter(|found| SUITES.iter().all(|(name, _)| name != found)) {
        println!("{name}: no suite runs this directory");
        total.failed += 1;
    }
    println!();
    let verdict = if total.failed == 0 { "ok" } else { "FAILED" };
    println!(
        "test result: {verdict}. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out",
        total.passed, total.failed
    );
    if total.passed + total.failed == 0 {
        eprintln!("no case in {} matches", root.display());
        return ExitCode::FAILURE;
    }
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Names of the directories in one directory, sorted.
fn directories(root: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.path().is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs one suite and prints its lines.
fn suite(name: &str, runs: &[Run], directory: &Path, filter: Option<&str>) -> Tally {
    // A filter may name the suite itself, or a part of an id.
    let inner = match filter.map(|filter| filter.split_once('/').unwrap_or(("", filter))) {
        Some((suite, rest)) if suite == name => Some(rest),
        Some(("", rest)) if name.contains(rest) => None,
        _ => filter,
    };
    let mut tally = Tally::default();
    for case in runs.iter().flat_map(|run| run(directory, inner)) {
        match case.outcome {
            Outcome::Passed => tally.passed += 1,
            Outcome::Failed(difference) => {
                tally.failed += 1;
                println!("{name}/{}: {}", case.id, one_line(&difference));
            }
        }
    }
    if tally.passed + tally.failed > 0 || filter.is_none() {
        println!("{name}: passed {} of {}", tally.passed, tally.passed + tally.failed);
    }
    tally
}

/// The text on one line, with escaped line ends, truncated.
fn one_line(text: &str) -> String {
    let flat = text.trim_end().replace('\n', "\\n");
    if std::env::var_os("MIXER_CONFORMANCE_VERBOSE").is_some() || flat.chars().count() <= SHOWN {
        return flat;
    }
    let mut cut: String = flat.chars().take(SHOWN).collect();
    cut.push('…');
    cut
}
