//! Access logs that are sent to a server, beside Envoy: what entries tell, how calls begin and end, and what is lost.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use mixer_proxy::server::DrainOptions;
use mixer_wire::envoy::config::core::v3::{Address, address};
use mixer_wire::envoy::data::accesslog::v3::AccessLogCommon;
use mixer_wire::envoy::service::accesslog::v3::StreamAccessLogsMessage;
use mixer_wire::envoy::service::accesslog::v3::stream_access_logs_message::LogEntries;

use crate::authz::bootstrap_of;
use crate::pair::{Directory, Pair, ask};
use crate::proxy::{DEADLINE, Proxy, free_ports, wait_for};
use crate::services::{Fault, Services, faulty};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const TCP: &str = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
const HTTP_LOG: &str = "type.googleapis.com/envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig";
const TCP_LOG: &str = "type.googleapis.com/envoy.extensions.access_loggers.grpc.v3.TcpGrpcAccessLogConfig";

fn common(name: &str, fields: &str) -> String {
    format!(
        "common_config: {{log_name: {name}, transport_api_version: V3, grpc_service: {{envoy_grpc: {{cluster_name: logs}}}}{fields}}}"
    )
}

fn http(port: &str, common: &str) -> String {
    format!(
        r#"
  - name: http
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          '@type': {MANAGER}
          stat_prefix: in
          server_name: edge
          access_log:
          - name: log
            typed_config:
              '@type': {HTTP_LOG}
              {common}
              additional_request_headers_to_log: [X-Two, ':path', Host, User-Agent, x-absent, x-forwarded-proto]
              additional_response_headers_to_log: [X-Up, x-absent, content-type]
          http_filters:
          - {{name: router, typed_config: {{'@type': {ROUTER}}}}}
          route_config:
            virtual_hosts:
            - name: all
              domains: [x]
              routes:
              - {{name: direct, match: {{prefix: /direct}}, direct_response: {{status: 200, body: {{inline_string: here}}}}}}
              - {{name: redirect, match: {{prefix: /redirect}}, redirect: {{path_redirect: /there}}}}
              - {{name: dead, match: {{prefix: /dead}}, route: {{cluster: dead}}}}
              - {{name: slow, match: {{prefix: /slow}}, route: {{cluster: backend, timeout: 0.2s}}}}
              - {{name: rewrite, match: {{prefix: /old}}, route: {{cluster: backend, prefix_rewrite: /new}}}}
              - {{name: up, match: {{prefix: /ok}}, route: {{cluster: backend}}}}"#
    )
}

fn tcp(port: &str, common: &str) -> String {
    format!(
        r#"
  - name: tcp
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: tcp
        typed_config:
          '@type': {TCP}
          stat_prefix: tcp
          cluster: backend
          access_log:
          - {{name: log, typed_config: {{'@type': {TCP_LOG}, {common}}}}}"#
    )
}

fn port_of(address: Option<&Address>) -> u16 {
    match address.and_then(|address| address.address.as_ref()) {
        Some(address::Address::SocketAddress(socket)) => u16::try_from(socket.port_value).unwrap(),
        _ => 0,
    }
}

/// Takes what differs from one request to the next; checks that it is there.
fn mask(common: &mut AccessLogCommon) {
    let addresses = [
        &mut common.downstream_remote_address,
        &mut common.downstream_local_address,
        &mut common.downstream_direct_remote_address,
    ];
    for address in addresses {
        if let Some(Address { address: Some(address::Address::SocketAddress(socket)) }) = address
            && socket.port_value != 0
        {
            socket.port_value = 1;
        }
    }
    assert!(common.start_time.take().is_some_and(|time| time.seconds > 1_600_000_000));
    assert!(common.duration.take().is_some());
    assert!(!common.stream_id.is_empty(), "{common:?}");
    common.stream_id.clear();
    // Times between parts of a request, attempts and why a connection failed are not told here.
    common.upstream_transport_failure_reason.clear();
    common.upstream_request_attempt_count = 0;
    for time in [
        &mut common.time_to_last_rx_byte,
        &mut common.time_to_first_upstream_tx_byte,
        &mut common.time_to_last_upstream_tx_byte,
        &mut common.time_to_first_upstream_rx_byte,
        &mut common.time_to_last_upstream_rx_byte,
        &mut common.time_to_first_downstream_tx_byte,
        &mut common.time_to_last_downstream_tx_byte,
    ] {
        *time = None;
    }
}

/// Entries of listeners at a port, sorted, without what differs from one to the next.
fn entries(messages: &[(usize, StreamAccessLogsMessage)], port: u16) -> Vec<String> {
    let mut shown = Vec::new();
    for (_, message) in messages {
        match message.log_entries.clone() {
            Some(LogEntries::HttpLogs(logs)) => {
                for mut entry in logs.log_entry {
                    let common = entry.common_properties.as_mut().unwrap();
                    if port_of(common.downstream_local_address.as_ref()) != port {
                        continue;
                    }
                    mask(common);
                    entry.request.as_mut().unwrap().request_id.clear();
                    if common.upstream_remote_address.is_some() {
                        // The time of the host has more digits or fewer.
                        entry.response.as_mut().unwrap().response_headers_bytes = 0;
                    }
                    shown.push(format!("{entry:#?}"));
                }
            }
            Some(LogEntries::TcpLogs(logs)) => {
                for mut entry in logs.log_entry {
                    let common = entry.common_properties.as_mut().unwrap();
                    if port_of(common.downstream_local_address.as_ref()) != port {
                        continue;
                    }
                    if common.stream_id.is_empty() {
                        common.stream_id = "none".to_owned();
                    }
                    mask(common);
                    shown.push(format!("{entry:#?}"));
                }
            }
            None => panic!("a message without entries"),
        }
    }
    // Each worker has a call of its own.
    shown.sort();
    shown
}

#[test]
fn entries_tell_what_those_of_envoy_tell() {
    let services = Services::start();
    let listeners = [
        http("$HTTP", &common("web", ", buffer_flush_interval: 0.1s")),
        tcp("$TCP", &common("raw", ", buffer_flush_interval: 0.1s")),
    ];
    let text = bootstrap_of(&listeners.concat(), &[("logs", services.port.to_string())]);
    let pair = Pair::start_with(Directory::new(), &text, &[]);
    let end = "Connection: close\r\n\r\n";
    let requests = [
        format!(
            "GET /ok?a=b HTTP/1.1\r\nHost: x\r\nx-two: 1\r\nX-Two: 2\r\nUser-Agent: u\r\nReferer: r\r\nUser-Agent: v\r\nx-forwarded-for: 1.2.3.4\r\n{end}"
        ),
        format!("POST /old/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n{end}hello"),
        format!("HEAD /ok/a HTTP/1.1\r\nHost: x\r\n{end}"),
        format!("PURGE /direct HTTP/1.1\r\nHost: x\r\n{end}"),
        format!("GET /redirect HTTP/1.1\r\nHost: x\r\n{end}"),
        format!("GET /dead HTTP/1.1\r\nHost: x\r\n{end}"),
        format!("GET /slow HTTP/1.1\r\nHost: x\r\n{end}"),
        format!("GET /none HTTP/1.1\r\nHost: x\r\n{end}"),
        format!("GET /ok HTTP/1.1\r\nHost: other\r\n{end}"),
        format!("DELETE /direct HTTP/1.1\r\nHost: x\r\n{end}"),
        format!("GET https://x/ok/scheme HTTP/1.1\r\nHost: x\r\n{end}"),
        format!("GET /ok/forwarded HTTP/1.1\r\nHost: x\r\nx-forwarded-proto: HTTPS\r\n{end}"),
    ];
    for request in &requests {
        let [ours, envoys] = pair.ask(&[request]);
        assert_eq!(ours, envoys);
    }
    for port in pair.ports("$HTTP") {
        assert_eq!(crate::client::Client::connect(port).get("/direct").status, 404);
    }
    for port in pair.tcp_ports() {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // To its end: how much is sent to a client that leaves is a matter of time.
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
    let ports: Vec<u16> = ["$HTTP", "$TCP"].into_iter().flat_map(|name| pair.ports(name)).collect();
    let all = wait_for("all entries", || {
        let received = services.received.lock().unwrap();
        let all = received.logs.clone();
        drop(received);
        let counts: Vec<usize> = ports.iter().map(|port| entries(&all, *port).len()).collect();
        (counts == [13, 13, 1, 1]).then_some(all)
    });
    for (name, sides) in [("http", &ports[..2]), ("tcp", &ports[2..])] {
        let (mut ours, mut envoys) = (entries(&all, sides[0]), entries(&all, sides[1]));
        // Workers send by themselves.
        ours.sort();
        envoys.sort();
        for (ours, envoys) in ours.iter().zip(&envoys) {
            assert_eq!(ours, envoys, "{name}");
        }
    }
    // Each call begins with who sends, and says it once.
    let mut calls = std::collections::BTreeMap::<usize, Vec<_>>::new();
    for (call, message) in &all {
        calls.entry(*call).or_default().push(message.identifier.clone());
    }
    for identifiers in calls.values() {
        let (first, others) = identifiers.split_first().unwrap();
        let first = first.clone().expect("who sends");
        let node = first.node.unwrap();
        assert_eq!((node.id.as_str(), node.cluster.as_str()), ("edge-1", "edge"));
        assert!(matches!(first.log_name.as_str(), "web" | "raw"));
        assert!(others.iter().all(Option::is_none));
    }
    let (_, written, envoys) = pair.stat("access_logs.grpc_access_log.logs_written");
    // Envoy does not count those of TCP.
    assert_eq!((written, envoys), (14, 13));
}

/// A proxy alone with a log at a port.
fn alone(logs: u16, fields: &str) -> (Proxy, u16) {
    let [admin, port, dead] = free_ports::<3>();
    let text = bootstrap_of(&http(&port.to_string(), &common("web", fields)), &[("logs", logs.to_string())]);
    let text = [("$ADMIN", admin), ("$BACKEND", dead), ("$DEAD", dead)]
        .iter()
        .fold(text, |text, (name, port)| text.replace(name, &port.to_string()));
    (Proxy::start(&text, admin, 1, DrainOptions::default()), port)
}

fn direct(port: u16, field: &str) {
    let request = format!("GET /direct HTTP/1.1\r\nHost: x\r\nx-two: {field}\r\nConnection: close\r\n\r\n");
    assert!(ask(port, &[&request]).starts_with("HTTP/1.1 200"));
}

fn count(services: &Services) -> usize {
    let received = services.received.lock().unwrap();
    let entries = received.logs.iter().map(|(_, message)| match &message.log_entries {
        Some(LogEntries::HttpLogs(logs)) => logs.log_entry.len(),
        _ => 0,
    });
    entries.sum()
}

#[test]
fn entries_are_sent_by_size_by_time_and_at_the_end() {
    let services = Services::start();
    let (proxy, port) = alone(services.port, ", buffer_flush_interval: 600s, buffer_size_bytes: 1000");
    direct(port, "a");
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(count(&services), 0, "it waits for others");
    let mut written = 1;
    while count(&services) == 0 {
        direct(port, "a");
        written += 1;
        assert!(written < 20, "a full buffer is sent");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    direct(port, "last");
    written += 1;
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(count(&services) < written, "the last one waits");
    drop(proxy);
    assert_eq!(count(&services), written, "what waits is sent at the end");
    let calls: std::collections::BTreeSet<usize> =
        services.received.lock().unwrap().logs.iter().map(|(call, _)| *call).collect();
    assert_eq!(calls.len(), 1, "in one call");

    let services = Services::start();
    let (_proxy, port) = alone(services.port, ", buffer_flush_interval: 600s, buffer_size_bytes: 0");
    direct(port, "a");
    wait_for("every entry is sent at once", || (count(&services) == 1).then_some(()));
}

#[test]
fn a_call_that_ends_is_begun_again() {
    let services = Services::start();
    let text = ", buffer_size_bytes: 0";
    let (_proxy, port) = {
        let [admin, port, dead] = free_ports::<3>();
        let text = bootstrap_of(
            &http(&port.to_string(), &common("ends", text)),
            &[("logs", services.port.to_string())],
        );
        let text = [("$ADMIN", admin), ("$BACKEND", dead), ("$DEAD", dead)]
            .iter()
            .fold(text, |text, (name, port)| text.replace(name, &port.to_string()));
        (Proxy::start(&text, admin, 1, DrainOptions::default()), port)
    };
    for index in 1..=3 {
        direct(port, "a");
        wait_for("each call takes an entry", || (count(&services) == index).then_some(()));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let received = services.received.lock().unwrap();
    assert!(received.logs.iter().all(|(_, message)| message.identifier.is_some()), "each says who sends");
}

#[test]
fn entries_wait_for_a_server_and_those_beyond_the_bound_are_lost_and_counted() {
    // More than 1 MiB of entries in few requests, and nobody who takes them.
    let large = "v".repeat(50_000);
    for logs in [free_ports::<1>()[0], faulty(Fault::Hang)] {
        let (proxy, port) = alone(logs, ", buffer_flush_interval: 0.05s");
        for _ in 0..40 {
            direct(port, &large);
        }
        let written = proxy.stat("access_logs.grpc_access_log.logs_written");
        let dropped = proxy.stat("access_logs.grpc_access_log.logs_dropped");
        assert_eq!(written + dropped, 40);
        assert!(dropped > 0 && written >= 20, "{written} {dropped}");
    }
    // The same port, where a server begins to listen later.
    let services = Services::start();
    let (proxy, port) = alone(services.port, ", buffer_flush_interval: 0.05s");
    let at = services.port;
    drop(services);
    for _ in 0..5 {
        direct(port, "a");
    }
    assert_eq!(proxy.stat("access_logs.grpc_access_log.logs_dropped"), 0);
    let services = Services::at(at);
    wait_for("what waited arrives", || (count(&services) == 5).then_some(()));
}

#[test]
fn entries_that_a_server_does_not_take_do_not_hold_up_others() {
    let services = Services::with_limit(0, 1 << 10);
    let (proxy, port) = alone(services.port, ", buffer_flush_interval: 600s, buffer_size_bytes: 2500000");
    // Together more than the windows of the server, which refuses them before they are handed over.
    let large = "v".repeat(50_000);
    for _ in 0..50 {
        direct(port, &large);
    }
    let dropped = || proxy.stat("access_logs.grpc_access_log.logs_dropped");
    wait_for("they are given up", || (dropped() == 50).then_some(()));
    direct(port, "a");
    drop(proxy);
    assert_eq!(count(&services), 1, "the next one arrives");
}
