//! Clients that send slowly: what they take is not the time of hosts.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::authz::bootstrap_of;
use crate::backend;
use crate::pair::{Directory, Pair};
use crate::proxy::DEADLINE;
use crate::services::Services;

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const AUTHZ: &str = "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";

/// A listener with these filters before the router.
fn listener(name: &str, port: &str, filters: &str, fields: &str) -> String {
    format!(
        r#"
  - name: {name}
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          '@type': {MANAGER}
          stat_prefix: {name}{fields}
          http_filters: [{filters}{{name: router, typed_config: {{'@type': {ROUTER}}}}}]
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:
              - {{match: {{prefix: /tried}}, route: {{cluster: watched, timeout: 60s, retry_policy: {{retry_on: 5xx, num_retries: 1, per_try_timeout: 1s}}}}}}
              - {{match: {{prefix: /again}}, route: {{cluster: watched, timeout: 2s, retry_policy: {{retry_on: reset, num_retries: 1}}}}}}
              - {{match: {{prefix: /idle}}, route: {{cluster: watched, timeout: 0s}}}}
              - {{match: {{prefix: /before}}, route: {{cluster: single, timeout: 0s}}}}
              - {{match: {{prefix: /late}}, route: {{cluster: single, timeout: 0.3s}}}}
              - {{match: {{prefix: /}}, route: {{cluster: single, timeout: 3s}}}}"#
    )
}

fn cluster(name: &str, port: u16, fields: &str) -> String {
    format!(
        r#"  - name: {name}
    connect_timeout: 60s
    common_lb_config: {{healthy_panic_threshold: {{value: 0}}}}
    {fields}
    load_assignment: {{cluster_name: {name}, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}]}}]}}
"#
    )
}

/// Sends a request of which the second half comes after a pause. Returns the status of the answer.
fn upload(port: u16, path: &str, pause: Duration) -> String {
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    let head = "HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10\r\n\r\n";
    client.write_all(format!("POST {path} {head}first").as_bytes()).unwrap();
    std::thread::sleep(pause);
    // It may be answered already.
    let _ = client.write_all(b"later");
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

/// Uploads at the same time to both. Returns what each answers.
fn uploads(ports: [u16; 2], paths: &[&str], pause: Duration) -> [Vec<String>; 2] {
    std::thread::scope(|scope| {
        let sides: Vec<Vec<_>> = (0..2)
            .map(|side| {
                let start = |path: &&str| {
                    let (port, path) = (ports[side], path.replace("$SIDE", &side.to_string()));
                    scope.spawn(move || upload(port, &path, pause))
                };
                paths.iter().map(start).collect()
            })
            .collect();
        let mut sides =
            sides.into_iter().map(|side| side.into_iter().map(|one| one.join().unwrap()).collect());
        [sides.next().unwrap(), sides.next().unwrap()]
    })
}

#[test]
fn slow_clients_take_no_time_of_hosts_as_with_envoy() {
    let services = Services::start();
    let host = backend::once();
    let authz = format!(
        "{{name: authz, typed_config: {{'@type': {AUTHZ}, transport_api_version: V3, with_request_body: {{max_request_bytes: 4096}}, grpc_service: {{envoy_grpc: {{cluster_name: authz}}, timeout: 60s}}}}}}, "
    );
    let listeners = [
        listener("plain", "$HTTP", "", ""),
        listener("read", "$TLS", &authz, ""),
        listener("idle", "$REQUIRED", "", "\n          stream_idle_timeout: 1s"),
    ]
    .concat();
    let mut text = bootstrap_of(&listeners, &[("authz", services.port.to_string())]);
    text.push_str(&cluster(
        "watched",
        host,
        "outlier_detection: {consecutive_5xx: 3, consecutive_gateway_failure: 3, enforcing_consecutive_gateway_failure: 100, base_ejection_time: 600s, max_ejection_percent: 100}",
    ));
    text.push_str(&cluster("single", host, "circuit_breakers: {thresholds: [{max_connections: 1}]}"));
    let pair = Pair::start_alone_with(Directory::new(), &text, &[], 1);
    let (plain, read) = (pair.ports("$HTTP"), pair.ports("$TLS"));
    let fine = |count: usize| vec!["HTTP/1.1 200 OK".to_owned(); count];

    // Longer than an attempt may take, by which hosts would be ejected.
    let [ours, envoys] = uploads(plain, &["/tried"; 4], Duration::from_millis(2500));
    assert_eq!((&ours, &envoys), (&fine(4), &fine(4)));
    // The first attempt of each is given up by the host, after the time limit of the response since the request began.
    let [ours, envoys] = uploads(plain, &["/again/$SIDE"], Duration::from_millis(2500));
    assert_eq!((&ours, &envoys), (&fine(1), &fine(1)));
    let late = "HTTP/1.1 504 Gateway Timeout".to_owned();
    // The only connection is taken when the requests are complete, for less than the time limit of one, and for more than that of the other.
    let (before, behind) = std::thread::scope(|scope| {
        let before = scope.spawn(|| uploads(plain, &["/before/hold"], Duration::ZERO));
        let behind = scope.spawn(|| uploads(read, &["/behind", "/late"], Duration::from_millis(4000)));
        (before.join().unwrap(), behind.join().unwrap())
    });
    assert_eq!(before, [fine(1), fine(1)]);
    let expected = || vec!["HTTP/1.1 200 OK".to_owned(), late.clone()];
    assert_eq!(behind, [expected(), expected()]);
    for name in ["per_try_timeout", "timeout"].map(|name| format!("cluster.watched.upstream_rq_{name}")) {
        assert_eq!(pair.stat(&name), (name.as_str(), 0, 0));
    }
    // Whoever lets nothing happen for too long: the host, or the client.
    let idle = pair.ports("$REQUIRED");
    assert_eq!(uploads(idle, &["/idle/hold"], Duration::ZERO), [vec![late.clone()], vec![late.clone()]]);
    let client = || vec!["HTTP/1.1 408 Request Timeout".to_owned()];
    assert_eq!(uploads(idle, &["/idle"], Duration::from_millis(2500)), [client(), client()]);
    // The time of a host is limited as ever, once it has the whole request.
    let [ours, envoys] = uploads(plain, &["/tried/hold"], Duration::ZERO);
    assert_eq!((&ours, &envoys), (&vec![late], &ours));
    let name = "cluster.watched.upstream_rq_per_try_timeout";
    assert_eq!(pair.stat(name), (name, 2, 2));
    let name = "cluster.watched.outlier_detection.ejections_enforced_total";
    assert_eq!(pair.stat(name), (name, 0, 0));
}
