//! Decisions on paper: the decision log and the recording of a running server, and what the tools make of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/process.rs"]
mod process;

use std::path::{Path, PathBuf};

use process::{Finished, PATIENCE, Server, ServerArguments, http, programs, run};
use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Runs `mixer` in the root of the repository.
fn mixer(arguments: &[&str]) -> Finished {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    run(&programs().path("mixer"), &arguments, &[], Some(&root()), None, PATIENCE).unwrap()
}

/// The lines of a file of JSON lines.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A server on the sample configuration that logs and records into `directory`.
fn recording_server(directory: &Path, more: &[&str]) -> Server {
    let log = format!("--decision-log={}", directory.join("log.json").display());
    let recording = format!("--record-requests={}", directory.join("calls.jsonl").display());
    let arguments = ServerArguments::on(&root().join("testdata/config")).with(&[&log, &recording]).with(more);
    Server::start(&arguments).unwrap()
}

#[test]
fn a_server_logs_and_records_what_it_decides() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = recording_server(directory.path(), &["--record-max-requests=2"]);
    let address = server.address();
    for token in ["Bearer one", "Bearer two", "Bearer three"] {
        let headers = format!("request.headers=authorization:{token};accept:text");
        let asked = ["check", "-m", &address, "-s", "source.name=web", "--stringmap-attributes", &headers];
        let done = mixer(&[&asked[..], &["-q", "request-count=1"]].concat());
        assert!(done.stdout.starts_with("Check RPC completed"), "{} {}", done.stdout, done.stderr);
    }
    let metrics =
        || http("GET", &format!("http://127.0.0.1:{}/metrics", server.monitoring), "").unwrap().body;
    let wanted = "mixer_decision_log_written_total{file=\"log\"} 3";
    let found = process::wait_for(PATIENCE, || metrics().contains(wanted).then_some(()));
    assert!(found.is_some(), "{}", metrics());
    assert_eq!(server.terminate(), Ok(Some(0)));

    let logged = lines(&directory.path().join("log.json"));
    assert_eq!(logged.len(), 3);
    let recorded = lines(&directory.path().join("calls.jsonl"));
    assert_eq!(recorded, logged[..2], "the recording is full after two");
    let first = &logged[0];
    assert_eq!(first["method"], "check");
    assert_eq!(first["attributes"]["request.headers"]["authorization"], "***");
    assert_eq!(first["attributes"]["request.headers"]["accept"], "text");
    assert_eq!(first["masked"], serde_json::json!(["request.headers[authorization]"]));
    assert_eq!(first["answer"]["status"]["name"], "OK");
    assert!(first["answer"]["referenced"].as_array().is_some_and(|list| !list.is_empty()), "{first}");
    assert_eq!(first["answer"]["quotas"]["request-count"]["granted"], 1);
    assert!(first["tookMicros"].as_u64().is_some_and(|micros| micros > 0));
}

#[test]
fn a_decision_log_that_cannot_be_written_ends_the_start() {
    let refused = Server::start(
        &ServerArguments::on(&root().join("testdata/config")).with(&["--decision-log=/proc/none/log"]),
    )
    .unwrap_err();
    let text =
        "unable to log decisions: cannot open decision log `/proc/none/log`: no such file or directory";
    assert!(refused.contains(text), "{refused}");
}
