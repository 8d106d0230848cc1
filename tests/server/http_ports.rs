//! Connections to the ports for operators that send half a request, and few descriptors.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::signals::{configuration, on};
use crate::support::rpc::{Client, mixer as wire};
use crate::support::{DEADLINE, Server, http, is_listening};

/// A metric of the prometheus adapter.
const METRIC: &str = "apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: metrics, namespace: istio-system}
spec: {compiledAdapter: prometheus, params: {metrics: [{name: calls, instance_name: calls.instance.istio-system, kind: COUNTER}]}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: '1'}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: count, namespace: istio-system}
spec: {actions: [{handler: metrics, instances: [calls]}]}
";

/// Connections that send the begin of a request and no more.
fn half_open(port: u16, count: usize) -> Vec<TcpStream> {
    let connect = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).ok()?;
        // The server may have closed it already.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHo");
        Some(stream)
    };
    (0..count).filter_map(|_| connect()).collect()
}

fn assert_check_is_answered(server: &Server) {
    // A connection of its own: accepting must work.
    let mut client = Client::new(&server.address()).expect("a client");
    let answer = client.check(&wire::CheckRequest::default(), None);
    assert!(answer.is_ok(), "{answer:?}\n{}", server.log());
}

#[test]
fn half_open_requests_take_no_descriptors_from_the_api() {
    let directory = configuration("");
    let limited = ["-c".to_owned(), "ulimit -n 100; exec \"$0\" \"$@\"".to_owned()];
    let envoy = crate::support::free_port();
    let server = on(&directory)
        .native()
        .with(&["--allow-empty-config", "--envoy-http-address", &format!("127.0.0.1:{envoy}")])
        .through(Path::new("/bin/sh"), &limited)
        .start();
    let held: Vec<TcpStream> = [server.ports.monitoring, server.ports.ctrlz, envoy]
        .into_iter()
        .flat_map(|port| half_open(port, 100))
        .collect();
    assert!(held.len() > 250, "{} connections", held.len());
    for _ in 0..10 {
        assert_check_is_answered(&server);
    }
    // A scrape passes as well: the oldest of the connections that wait for a request gives way.
    let scraped = http("GET", &server.monitoring_url("/metrics"), "").expect("an answer");
    assert_eq!(scraped.status, 200);
    let page = http("GET", &format!("http://127.0.0.1:{}/versionj/", server.ports.ctrlz), "");
    assert_eq!(page.expect("an answer").status, 200);
    drop(held);
    assert_check_is_answered(&server);
}

#[test]
fn a_request_that_never_ends_is_closed() {
    let directory = configuration("");
    // Only with a metric the prometheus adapter has a port.
    std::fs::write(directory.path().join("config/metric.yaml"), METRIC).expect("it is writable");
    let envoy = crate::support::free_port();
    let envoy_address = format!("127.0.0.1:{envoy}");
    let server = on(&directory)
        .with(&["--allow-empty-config", "--envoy-http-address", &envoy_address])
        .native()
        .start();
    assert!(is_listening(server.ports.metrics), "{}", server.log());
    let body = b"POST /scopez/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nscope".as_slice();
    let cases = [
        (server.ports.monitoring, b"GET /metrics HTTP/1.1\r\nHo".as_slice()),
        (server.ports.monitoring, b"".as_slice()),
        (server.ports.ctrlz, b"GET / HTTP/1.1\r\nHo".as_slice()),
        (server.ports.ctrlz, body),
        (server.ports.metrics, b"GET /metrics HTTP/1.1\r\nHo".as_slice()),
        (envoy, b"POST /check HTTP/1.1\r\nHo".as_slice()),
        // A connection to the API with a part of the preface of HTTP/2 is pinged after a minute.
        (server.ports.api, b"PRI * HT".as_slice()),
    ];
    let mut open = Vec::new();
    for (port, sent) in cases {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream.write_all(sent).expect("sent");
        open.push((port, sent, stream));
    }
    for (port, sent, mut stream) in open {
        let mut answer = Vec::new();
        let end = stream.read_to_end(&mut answer);
        let closed = end.is_ok() || end.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset);
        assert!(closed, "{port} stays open after {:?}", String::from_utf8_lossy(sent));
    }
}

#[test]
fn a_caller_that_does_not_read_its_answer_is_disconnected() {
    let directory = configuration("");
    let server = on(&directory).with(&["--allow-empty-config"]).native().start();
    // A pipeline of requests whose answers fill every buffer on the way.
    let mut stream = TcpStream::connect(("127.0.0.1", server.ports.monitoring)).expect("a connection");
    stream.set_write_timeout(Some(DEADLINE * 2)).expect("a timeout");
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let closed = (0..2_000_000).find_map(|_| stream.write_all(request).err());
    let error = closed.expect("the connection is closed");
    let timed_out = error.kind() == std::io::ErrorKind::WouldBlock;
    assert!(!timed_out, "{error}");
}

#[test]
fn without_descriptors_the_ports_for_operators_give_up_theirs_for_the_api() {
    let directory = configuration("");
    let server = on(&directory).with(&["--allow-empty-config"]).native().start();
    assert_check_is_answered(&server);
    server.stable_holdings();
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.id())).expect("the process runs").flatten();
    let open: Vec<usize> = open.filter_map(|fd| fd.file_name().to_str()?.parse().ok()).collect();
    // Two more can be opened: connections of the monitoring port can take both.
    let limit =
        (1..).find(|limit| (0..*limit).filter(|fd| !open.contains(fd)).count() == 2).expect("a limit");
    let limit = format!("--nofile={limit}:{limit}");
    let limited = Command::new("prlimit").args(["--pid", &server.id().to_string(), &limit]).status();
    assert!(limited.is_ok_and(|status| status.success()), "prlimit of util-linux");
    let held = half_open(server.ports.monitoring, 8);
    assert_eq!(held.len(), 8);
    for _ in 0..5 {
        assert_check_is_answered(&server);
    }
    let log = server.log();
    assert!(
        log.matches("accept failed").count() + log.matches("could not be accepted").count() < 50,
        "{log}"
    );
}
