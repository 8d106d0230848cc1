//! The sample configuration answers the well-known walkthrough word for word, from its directory and from inside the binary.

#![cfg(test)]

#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/process.rs"]
mod process;

use process::{PATIENCE, Server, ServerArguments, programs, run};

const ATTRIBUTES: [&str; 8] = [
    "--string_attributes",
    "destination.service=abc.ns.svc.cluster.local,source.name=myservice,destination.port=8080",
    "--stringmap_attributes",
    "request.headers=clnt:abcd;source:abcd,destination.labels=app:ratings,source.labels=version:v2",
    "--timestamp_attributes",
    "request.time=2017-07-04T00:01:10Z",
    "--bytes_attributes",
    "source.ip=c0:0:0:2",
];

const CHECKED: &str = "\
Check RPC completed successfully. Check status was OK
  Valid use count: 10000, valid duration: 5m0s
  Referenced Attributes
    context.reporter.kind ABSENCE
    destination.labels::app EXACT
    destination.namespace ABSENCE
    destination.service EXACT
    request.headers::clnt EXACT
    source.labels::version EXACT

";

fn mixc(server: &Server, arguments: &[&str]) -> (i32, String, String) {
    let mut arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    arguments.push(format!("--mixer={}", server.address()));
    let program = programs().path("mixc");
    let finished = run(&program, &arguments, &[], None, None, PATIENCE).expect("the client ends");
    (finished.status, finished.stdout, finished.stderr)
}

fn walk_through(server: &Server) {
    let check: Vec<&str> = std::iter::once("check").chain(ATTRIBUTES).collect();
    assert_eq!(mixc(server, &check), (0, CHECKED.to_owned(), String::new()));
    let mut report: Vec<&str> = std::iter::once("report").chain(ATTRIBUTES).collect();
    report.extend(["--int64_attributes", "response.duration=2003,response.size=1024"]);
    assert_eq!(mixc(server, &report), (0, "Report RPC returned OK\n".to_owned(), String::new()));
}

#[test]
fn the_directory_answers_the_walkthrough() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/config");
    let server = Server::start(&ServerArguments::on(&directory)).expect("the server starts");
    walk_through(&server);
    let log = server.log();
    let complaints: Vec<&str> =
        log.lines().filter(|line| line.contains("\twarn\t") || line.contains("\terror\t")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn the_binary_carries_the_same() {
    let arguments =
        ServerArguments { config: Some("embedded://sample".to_owned()), ..ServerArguments::default() };
    let server = Server::start(&arguments).expect("the server starts");
    walk_through(&server);
}
