//! The sample configuration answers the walkthrough of Istio Mixer byte for byte, from its directory and embedded in the binary.

use crate::support::{DEADLINE, Server, http, programs, run, sample_configuration};

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
    let finished = run(&program, &arguments, &[], None, None, DEADLINE).expect("the client ends");
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
fn the_configuration_directory_answers_the_walkthrough() {
    let server = Server::on(&sample_configuration()).start();
    walk_through(&server);
    let log = server.log();
    let problems: Vec<&str> =
        log.lines().filter(|line| line.contains("\twarn\t") || line.contains("\terror\t")).collect();
    assert!(problems.is_empty(), "{problems:?}");
    let overview =
        http("GET", &format!("http://127.0.0.1:{}/", server.ports.ctrlz), "").expect("a page").body;
    assert!(!overview.contains("The embedded sample configuration serves"), "{overview}");
}

#[test]
fn the_embedded_configuration_answers_the_walkthrough() {
    let server = Server::on_store("embedded://sample").start();
    walk_through(&server);
    let overview =
        http("GET", &format!("http://127.0.0.1:{}/", server.ports.ctrlz), "").expect("a page").body;
    assert!(overview.contains("The embedded sample configuration serves"), "{overview}");
}
