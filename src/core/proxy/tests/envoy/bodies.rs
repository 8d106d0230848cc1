//! Bodies that filters see before hosts: long ones, those that wait for memory, and those of requests to change the protocol.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use mixer_proxy::server::DrainOptions;
use mixer_wire::envoy::service::auth::v3::CheckRequest;

use crate::authz::{bootstrap_of, compare_stats};
use crate::backend;
use crate::client::{Client, request};
use crate::pair::{Directory, Pair, ask};
use crate::proxy::{Proxy, free_ports, wait_for};
use crate::services::{Fault, Services, faulty};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const AUTHZ: &str = "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";

/// A listener whose requests are authorized with these fields of the filter.
fn listener(fields: &str) -> String {
    format!(
        r#"
  - name: in
    address: {{socket_address: {{address: 127.0.0.1, port_value: $HTTP}}}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          '@type': {MANAGER}
          stat_prefix: in
          server_name: edge
          upgrade_configs: [{{upgrade_type: websocket}}, {{upgrade_type: other}}]
          http_filters:
          - name: authz
            typed_config: {{'@type': {AUTHZ}, transport_api_version: V3, grpc_service: {{envoy_grpc: {{cluster_name: authz}}, timeout: 10s}}, {fields}}}
          - {{name: router, typed_config: {{'@type': {ROUTER}}}}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:
              - {{match: {{prefix: /}}, route: {{cluster: backend, timeout: 0s}}}}"#
    )
}

/// A proxy by itself, with hosts.
struct Alone {
    proxy: Proxy,
    http: u16,
    received: Arc<Mutex<Vec<String>>>,
    services: Services,
}

impl Alone {
    /// With so much memory for bodies, of which the server is told so much.
    fn start(memory: usize, max: usize) -> Self {
        let services = Services::with_limit(0, 64 << 20);
        let (backend, received) = backend::recording();
        let [http, admin, dead] = free_ports();
        let body = format!("with_request_body: {{max_request_bytes: {max}}}, failure_mode_allow: true");
        let mut text = bootstrap_of(&listener(&body), &[("authz", services.port.to_string())]);
        for (name, port) in [("$HTTP", http), ("$ADMIN", admin), ("$DEAD", dead), ("$BACKEND", backend)] {
            text = text.replace(name, &port.to_string());
        }
        let proxy = Proxy::start_within(&text, admin, 1, DrainOptions::default(), memory);
        Self { proxy, http, received, services }
    }

    /// The body that the server was told, of one check.
    fn told(&self) -> String {
        let mut checks = self.services.checks();
        assert_eq!(checks.len(), 1);
        body_of(checks.remove(0))
    }

    /// The body that the host received, of one request.
    fn forwarded(&self) -> String {
        let mut requests = std::mem::take(&mut *self.received.lock().unwrap());
        assert_eq!(requests.len(), 1);
        let request = requests.remove(0);
        request.split_once("\n\n").unwrap().1.to_owned()
    }
}

fn body_of(check: CheckRequest) -> String {
    check.attributes.unwrap().request.unwrap().http.unwrap().body
}

/// Text of this length in which no part is like another.
fn text(length: usize) -> String {
    let mut text: String = (0..length / 8 + 1).map(|index| format!("{index:07x}-")).collect();
    text.truncate(length);
    text
}

#[test]
fn long_bodies_are_told_and_forwarded_as_they_are() {
    let alone = Alone::start(64 << 20, 20 << 20);
    for length in [1, 16 << 10, 100_000, 9_000_001] {
        let body = text(length);
        let head = format!(
            "POST /up/any HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        let answer = ask(alone.http, &[&head, &body]);
        assert!(answer.starts_with("HTTP/1.1 200"), "{length}: {}", answer.get(..200).unwrap_or(&answer));
        assert!(alone.told() == body && alone.forwarded() == body, "{length}");
        let mut chunked =
            "POST /up/any HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_owned();
        for piece in body.as_bytes().chunks(70_001) {
            chunked.push_str(&format!("{:x}\r\n{}\r\n", piece.len(), std::str::from_utf8(piece).unwrap()));
        }
        let answer = ask(alone.http, &[&chunked, "0\r\n\r\n"]);
        assert!(answer.starts_with("HTTP/1.1 200"), "{length}: {}", answer.get(..200).unwrap_or(&answer));
        assert!(alone.told() == body && alone.forwarded() == body, "{length} in chunks");
        let answer =
            Client::connect(alone.http).ask(request("POST", "/up/any"), Some(body.as_bytes()), None).unwrap();
        assert_eq!(answer.status, 200);
        assert!(alone.told() == body && alone.forwarded() == body, "{length} over HTTP/2");
    }
    // Several requests of a connection: nothing of a body is left for the next one.
    let mut both = String::new();
    for length in [0, 5, 70_000, 3] {
        let body = text(length);
        both.push_str(&format!("POST /up/any HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"));
        both.push_str(&format!(
            "POST /up/any HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
            if length > 0 { format!("{length:x}\r\n{body}\r\n") } else { String::new() }
        ));
    }
    both.push_str("GET /up/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let answer = ask(alone.http, &[&both]);
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 9, "{}", answer.get(..500).unwrap_or(&answer));
    let told: Vec<usize> = alone.services.checks().into_iter().map(|check| body_of(check).len()).collect();
    assert_eq!(told, [0, 0, 5, 5, 70_000, 70_000, 3, 3, 0]);
}

#[test]
fn without_memory_a_body_is_refused_and_never_passes() {
    const MEMORY: usize = 1 << 20;
    let alone = Alone::start(MEMORY, 16 << 20);
    let head = |length: usize| {
        format!("POST /up/any HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n")
    };
    // Two that do not arrive hold three quarters of the memory, and more than they leave is not to be had.
    let slow: Vec<TcpStream> = [MEMORY * 3 / 8 - 20_000, MEMORY * 3 / 16 - 20_000]
        .into_iter()
        .map(|length| {
            let mut client = TcpStream::connect(("127.0.0.1", alone.http)).unwrap();
            client.write_all(head(length + 1).as_bytes()).unwrap();
            client.write_all(text(length).as_bytes()).unwrap();
            client
        })
        .collect();
    let answer_to = |length: usize| {
        let answer = ask(alone.http, &[&head(length), &text(length)]);
        answer.get(9..12).unwrap_or_default().to_owned()
    };
    wait_for("the memory is held", || (answer_to(MEMORY / 4) == "503").then_some(()));
    let refused = alone.proxy.stat("http.in.downstream_rq_body_overflow");
    assert!(refused > 0);
    assert_eq!(alone.services.checks().len(), alone.received.lock().unwrap().drain(..).len(), "those before");
    let over_http2 = |length: usize| {
        let answer =
            Client::connect(alone.http).ask(request("POST", "/up/any"), Some(text(length).as_bytes()), None);
        answer.unwrap().status
    };
    assert_eq!(over_http2(MEMORY / 4), 503);
    assert_eq!(
        (alone.services.checks().len(), alone.received.lock().unwrap().len()),
        (0, 0),
        "nothing passed"
    );
    // Beginnings have memory of their own.
    assert_eq!(answer_to(30_000), "200");
    assert_eq!(alone.forwarded(), text(30_000));
    assert_eq!(alone.told(), text(30_000));
    drop(slow);
    wait_for("the memory is free", || (answer_to(MEMORY / 4) == "200").then_some(()));
    assert!(alone.proxy.stat("http.in.downstream_rq_body_overflow") > refused);
    // What never has room is too large.
    assert_eq!((answer_to(MEMORY / 2).as_str(), over_http2(MEMORY / 2)), ("413", 413));
}

#[test]
fn the_body_of_a_request_to_change_the_protocol_is_told() {
    let alone = Alone::start(1 << 20, 1024);
    for (framing, body) in
        [("Content-Length: 6", "attack"), ("Transfer-Encoding: chunked", "6\r\nattack\r\n0\r\n\r\n")]
    {
        for protocol in ["websocket", "other"] {
            // The host ignores that the protocol is to change.
            let request = format!(
                "POST /up/any HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: {protocol}\r\n{framing}\r\n\r\n{body}"
            );
            let answer = ask(alone.http, &[&request]);
            assert!(answer.contains("attack"), "the host has it: {answer}");
            assert_eq!(
                (alone.told(), alone.forwarded()),
                ("attack".to_owned(), "attack".to_owned()),
                "{request}"
            );
        }
    }
}

#[test]
fn checks_that_nobody_waits_for_are_counted_as_by_envoy() {
    let services = Services::start();
    let filter = listener("stat_prefix: own");
    let text = bootstrap_of(&filter, &[("authz", services.port.to_string())]);
    let pair = Pair::start_with(Directory::new(), &text, &[]);
    for port in pair.ports("$HTTP") {
        assert!(
            ask(port, &["GET /up/any HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]).contains(" 200 ")
        );
        assert_eq!(services.checks().len(), 1);
        // Its client does not wait.
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(b"GET /up/slow HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        wait_for("it is asked", || (services.checks().len() == 1).then_some(()));
        drop(client);
    }
    // Envoy resets the call, and the proxy lets it end.
    compare_checks(&pair, 2, [0, 1]);
    // One takes too long: the server never answers.
    let text = bootstrap_of(&filter, &[("authz", faulty(Fault::Hang).to_string())]);
    let pair = Pair::start_with(Directory::new(), &text.replace("timeout: 10s", "timeout: 0.3s"), &[]);
    for port in pair.ports("$HTTP") {
        assert!(
            ask(port, &["GET /up/any HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]).contains(" 403 ")
        );
    }
    compare_checks(&pair, 1, [1, 1]);
}

#[test]
fn a_request_that_a_filter_does_not_decide_ends_as_with_envoy() {
    let limit = "          server_name: edge\n";
    let filter =
        listener("stat_prefix: own").replace(limit, &format!("{limit}          stream_idle_timeout: 0.5s\n"));
    // The server never answers.
    let text = bootstrap_of(&filter, &[("authz", faulty(Fault::Hang).to_string())]);
    let pair = Pair::start_with(Directory::new(), &text, &[]);
    for request in [
        "GET /up/any HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "POST /up/any HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde",
    ] {
        let [ours, envoys] = pair.ask(&[request]);
        assert!(ours.starts_with("HTTP/1.1 504"), "{ours}");
        assert_eq!(ours, envoys);
    }
}

/// The answer over HTTP/2 to a request that its server decides after three seconds, with a byte of its body every 0.3 s; `ends`: the last one is its
/// end.
fn trickled(port: u16, bytes: usize, ends: bool) -> (u16, String) {
    let mut call = Client::connect(port).send(request("POST", "/up/slow"), false).unwrap();
    for index in 1..=bytes {
        if index > 1 {
            std::thread::sleep(Duration::from_millis(300));
        }
        // It may be answered before.
        let _ = call.body.send_data(Bytes::from_static(b"x"), ends && index == bytes);
    }
    let answer = call.answer().unwrap();
    (answer.status, if answer.status == 200 { String::new() } else { answer.text() })
}

#[test]
fn time_limits_hold_while_a_filter_waits_as_with_envoy() {
    let services = Services::start();
    let limit = "          server_name: edge\n";
    let start = |limits: &str| {
        let filter = listener("stat_prefix: own").replace(limit, &format!("{limit}          {limits}\n"));
        let text = bootstrap_of(&filter, &[("authz", services.port.to_string())]);
        Pair::start_with(Directory::new(), &text, &[])
    };
    let pair = start("request_timeout: 0.7s\n          stream_idle_timeout: 0s");
    let late = |status: u16| (status, "request timeout".to_owned());
    // Not complete; complete too late; complete, and not decided.
    for (bytes, ends, expected) in [(1, false, late(408)), (5, true, late(408)), (2, true, late(504))] {
        let [ours, envoys] = pair.ports("$HTTP").map(|port| trickled(port, bytes, ends));
        assert_eq!(ours, expected, "{bytes} bytes, {ends}");
        assert_eq!(ours, envoys, "{bytes} bytes, {ends}");
    }
    for request in [
        "GET /up/slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "POST /up/slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde",
        "POST /up/slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcd",
    ] {
        let [ours, envoys] = pair.ask(&[request]).map(|answer| answer.replace("reset", "end"));
        assert!(ours.contains("request timeout"), "{request}: {ours}");
        assert_eq!(ours, envoys, "{request}");
    }
    let stats = ["downstream_rq_timeout", "downstream_rq_4xx", "downstream_rq_5xx"];
    compare_stats(&pair, &stats.map(|name| ["http.in.", name].concat()).each_ref().map(String::as_str), 6);
    let pair = start("stream_idle_timeout: 1s");
    let passed = (200, String::new());
    let stopped = |status: u16| (status, "stream timeout".to_owned());
    // A client that sends is not idle.
    for (bytes, ends, expected) in [(1, false, stopped(408)), (1, true, stopped(504)), (10, true, passed)] {
        let [ours, envoys] = pair.ports("$HTTP").map(|port| trickled(port, bytes, ends));
        assert_eq!(ours, expected, "{bytes} bytes, {ends}");
        assert_eq!(ours, envoys, "{bytes} bytes, {ends}");
    }
    compare_stats(&pair, &["http.in.downstream_rq_idle_timeout", "http.in.downstream_rq_4xx"], 2);
}

#[test]
fn small_frames_of_a_request_do_not_end_the_connection_of_others() {
    const FRAMES: usize = 60_000;
    let upload = |port: u16| {
        let client = Client::connect(port);
        let mut call = client.send(request("POST", "/up/slow"), false).unwrap();
        for index in 1..=FRAMES {
            call.body.send_data(Bytes::from_static(b"x"), index == FRAMES).unwrap();
        }
        // Beside it, and before it is decided.
        let other = client.get("/up/any").status;
        (other, call.answer().map(|answer| answer.status).unwrap_or_default())
    };
    // The server is not told of the body, and it is.
    let services = Services::start();
    let text = bootstrap_of(&listener("stat_prefix: own"), &[("authz", services.port.to_string())]);
    let pair = Pair::start_with(Directory::new(), &text, &[]);
    let [ours, envoys] = pair.ports("$HTTP").map(upload);
    assert_eq!(ours, (200, 200));
    assert_eq!(ours, envoys);
    let alone = Alone::start(64 << 20, 1 << 20);
    assert_eq!(upload(alone.http), (200, 200));
    let told: Vec<usize> = alone.services.checks().into_iter().map(|check| body_of(check).len()).collect();
    assert!(told == [FRAMES, 0] || told == [0, FRAMES], "{told:?}");
    assert_eq!(alone.proxy.stat("http.in.downstream_cx_total"), 1);
}

/// Compares what is counted of checks, once all have ended. `resets`: calls that are reset, by the proxy and by Envoy.
fn compare_checks(pair: &Pair, total: u64, resets: [u64; 2]) {
    wait_for("all have ended", || {
        let (_, ours, envoys) = pair.stat("http.in.downstream_rq_active");
        let (_, reset, reset_by_envoy) = pair.stat("cluster.authz.upstream_rq_tx_reset");
        (ours == 0 && envoys == 0 && [reset, reset_by_envoy] == resets).then_some(())
    });
    compare_stats(
        pair,
        &[
            "cluster.authz.upstream_rq_total",
            "cluster.authz.upstream_rq_active",
            "cluster.authz.upstream_rq_timeout",
            "cluster.authz.upstream_rq_rx_reset",
            "cluster.authz.upstream_rq_cancelled",
            "cluster.authz.upstream_rq_completed",
            "cluster.authz.upstream_rq_200",
            "cluster.authz.upstream_rq_504",
            "http.in.ext_authz.own.ok",
            "http.in.ext_authz.own.error",
        ],
        total,
    );
}

#[test]
fn what_cannot_be_written_does_not_pass_as_with_envoy() {
    let services = Services::start();
    let text = bootstrap_of(&listener("stat_prefix: own"), &[("authz", services.port.to_string())]);
    let pair = Pair::start_with(Directory::new(), &text, &[]);
    let names = [
        "break-path",
        "break-host",
        "break-value",
        "break-append",
        "break-control",
        "break-delete",
        "break-name",
    ];
    for name in names {
        let request = format!(
            "GET /up/{name}?user=admin HTTP/1.1\r\nHost: x\r\nX-User: admin\r\nConnection: close\r\n\r\n"
        );
        let [ours, envoys] = pair.ask(&[&request]);
        assert!(ours.starts_with("HTTP/1.1 503"), "{name}: {ours}");
        assert_eq!(ours, envoys, "{name}");
    }
    // A host, a path and parameters that Envoy writes as they are.
    for name in ["blank-path", "blank-host"] {
        let request = format!("GET /up/{name}?user=admin HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = ask(pair.ports("$HTTP")[0], &[&request]);
        assert!(answer.starts_with("HTTP/1.1 503"), "{name}: {answer}");
    }
    let request = "GET /up/blank-query?user=admin&b=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = ask(pair.ports("$HTTP")[0], &[request]);
    assert!(answer.contains("GET /up/blank-query?b=1&user=alice%20smith%23%0D%0A HTTP/1.1"), "{answer}");
}
