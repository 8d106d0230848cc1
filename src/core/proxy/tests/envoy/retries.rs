//! Retries beside Envoy: what is sent again, within which bounds, and how it is counted.

use std::time::Duration;

use crate::authz::bootstrap_of;
use crate::backend;
use crate::pair::{Directory, Pair, ask};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const FILE: &str = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";

/// Clusters: their names, hosts, conditions of retries, and how many there may be in the cluster.
const CLUSTERS: [(&str, &[&str], &str, u32); 10] = [
    ("any", &["$SEQUENCE"], "5xx", 3),
    ("reset", &["$SEQUENCE"], "reset", 3),
    ("connect", &["$SEQUENCE"], "connect-failure", 3),
    ("refused", &["$DEAD"], "connect-failure", 3),
    ("unretried", &["$DEAD"], "5xx", 0),
    ("none", &["$SEQUENCE"], "5xx", 0),
    ("mixed", &["$DEAD", "$SEQUENCE"], "connect-failure", 3),
    ("one", &["$SEQUENCE"], "5xx", 1),
    ("long", &["$SEQUENCE"], "5xx", 1),
    ("limits", &["$SEQUENCE"], "envoy-ratelimited", 3),
];

const STATS: [&str; 9] = [
    "upstream_rq_retry",
    "upstream_rq_retry_overflow",
    "upstream_rq_retry_limit_exceeded",
    "upstream_rq_retry_success",
    "upstream_rq_retry_backoff_exponential",
    "upstream_rq_total",
    "upstream_rq_rx_reset",
    "upstream_cx_connect_fail",
    "retry_or_shadow_abandoned",
];

fn bootstrap(sequence: u16) -> String {
    let log = "%REQ(:PATH)% %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS%\\n";
    let (mut routes, mut clusters) = (String::new(), String::new());
    for (name, hosts, on, retries) in CLUSTERS {
        routes.push_str(&format!(
            "\n              - {{match: {{prefix: /{name}/}}, route: {{cluster: {name}, timeout: 5s, retry_policy: {{retry_on: '{on}', num_retries: 2, \
             retry_back_off: {{base_interval: 0.01s}}}}}}}}"
        ));
        let hosts: Vec<String> = hosts
            .iter()
            .map(|port| {
                format!("{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}")
            })
            .collect();
        clusters.push_str(&format!(
            "  - {{name: {name}, connect_timeout: 5s, circuit_breakers: {{thresholds: [{{max_retries: {retries}}}]}}, \
             load_assignment: {{cluster_name: {name}, endpoints: [{{lb_endpoints: [{}]}}]}}}}\n",
            hosts.join(", ")
        ));
    }
    let listener = format!(
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
          access_log:
          - name: f
            typed_config: {{'@type': {FILE}, path: $LOG, log_format: {{text_format_source: {{inline_string: "{log}"}}}}}}
          http_filters: [{{name: router, typed_config: {{'@type': {ROUTER}}}}}]
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:{routes}"#
    );
    (bootstrap_of(&listener, &[]) + &clusters).replace("$SEQUENCE", &sequence.to_string())
}

/// A request with a body, which is sent again with it.
fn post(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{}",
        "x".repeat(length)
    )
}

#[test]
fn retries_are_bounded_and_counted_as_with_envoy() {
    let pair = Pair::start_alone(Directory::new(), &bootstrap(backend::sequence()), 1);
    let mut differences = Vec::new();
    // Each side has paths of its own: the host counts.
    let sides = ["ours", "envoys"];
    let ports = pair.ports("$HTTP");
    let mut compare = |answers: [String; 2], what: &str| {
        let [ours, envoys] = answers;
        if ours != envoys {
            differences.push(format!("{what}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
    };
    for path in [
        "/any/503,200/1",
        "/any/503,503,503/2",
        "/any/close,200/3",
        "/any/503,404/4",
        "/any/503,close,200/5",
        "/reset/close,503/6",
        "/reset/close,200/7",
        "/reset/close,close,close/8",
        "/reset/garbage,200/9",
        "/reset/503/10",
        "/connect/close/11",
        "/connect/200/12",
        "/refused/200/13",
        "/unretried/200/14",
        "/none/503,200/15",
        "/none/close,200/16",
        "/mixed/200/17",
        "/mixed/200/18",
        "/mixed/close/19",
        "/mixed/503/20",
        "/any/limited,200/22",
        "/any/503,limited,200/23",
        "/limits/limited,200/24",
        "/limits/503,200/25",
        // A host that has begun to answer has taken the request.
        "/any/103+close,200/26",
        "/reset/103+close,200/27",
        "/any/103+503,200/28",
        "/any/close,103+200/29",
        "/any/close,103+close,200/30",
    ] {
        for length in [3, 0] {
            let answers = [0, 1]
                .map(|side| ask(ports[side], &[&post(&format!("{path}-{length}{}", sides[side]), length)]));
            compare(answers, path);
        }
    }
    // More than is kept of a body is not sent again.
    let answers =
        [0, 1].map(|side| ask(ports[side], &[&post(&format!("/any/503,200/21{}", sides[side]), 2 << 20)]));
    compare(answers, "a large body");
    // One retry at a time: while another is on its way there is none, and there is one again as soon as its response has begun.
    for (name, first, second) in [("one", "503,slow", "503,200"), ("long", "503,long", "503,200")] {
        let answers = [0, 1].map(|side| {
            let path = |answers: &str, which: &str| format!("/{name}/{answers}/{which}{}", sides[side]);
            let (port, first) = (ports[side], path(first, "a"));
            let asking = std::thread::spawn(move || ask(port, &[&post(&first, 3)]));
            std::thread::sleep(Duration::from_millis(400));
            let other = ask(port, &[&post(&path(second, "b"), 3)]);
            format!("{}\n{other}", asking.join().unwrap())
        });
        assert_eq!(answers[0].contains("HTTP/1.1 503"), name == "one", "{}", answers[0]);
        compare(answers, name);
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    let [ours, envoys] = pair.logs("/long/503,long/a").map(|log| {
        let mut lines: Vec<String> = log
            .lines()
            .map(|line| sides.iter().fold(line.to_owned(), |line, side| line.replace(side, "")))
            .collect();
        lines.sort();
        lines.join("\n")
    });
    assert_eq!(ours, envoys, "access logs");
    assert!(
        ours.contains("/unretried/200/14-3 503 UO,UF") || ours.contains("/unretried/200/14-3 503 UF,UO"),
        "{ours}"
    );
    let (mut ours, mut envoys) = (String::new(), String::new());
    for (cluster, ..) in CLUSTERS {
        // Envoy begins with any of several hosts.
        for stat in STATS.into_iter().filter(|stat| cluster != "mixed" || *stat == "upstream_rq_total") {
            let name = format!("cluster.{cluster}.{stat}");
            let (_, our, envoy) = pair.stat(&name);
            ours.push_str(&format!("{name}: {our}\n"));
            envoys.push_str(&format!("{name}: {envoy}\n"));
        }
    }
    assert_eq!(ours, envoys, "statistics");
}
