//! Which hosts are chosen, and changes of the protocol, beside Envoy.

use crate::backend;
use crate::pair::{self, Directory, Pair};
use crate::proxy;

/// A pair with clusters of all kinds.
fn balanced() -> Pair {
    let named = ["A", "B", "C"].map(backend::named);
    let mut others: Vec<(&str, String)> =
        ["$A", "$B", "$C"].into_iter().zip(named.map(|port| port.to_string())).collect();
    // Longer names first: `$A` begins `$ADMIN`, too.
    others.push(("$WS", backend::upgrading().to_string()));
    let text = include_str!("balance.yaml").replace("$ADMIN", "#ADMIN");
    let text = others.iter().fold(text, |text, (name, value)| text.replace(name, value));
    Pair::start_with(Directory::new(), &text.replace("#ADMIN", "$ADMIN"), &[])
}

#[test]
fn protocols_change_as_with_envoy() {
    let pair = balanced();
    let upgrade = |path: &str, protocol: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\nSec-WebSocket-Key: k\r\n\r\n"
        )
    };
    let mut differences = Vec::new();
    for (name, head, expected) in [
        ("a web socket", upgrade("/ws", "websocket"), "hello"),
        ("in another case", upgrade("/ws", "WebSocket"), "hello"),
        ("refused by the host", upgrade("/ws/refused", "websocket"), "no"),
        ("disabled", upgrade("/ws", "other"), "403"),
        ("not configured", upgrade("/ws", "third"), "403"),
        ("disabled by the route", upgrade("/own", "websocket"), "403"),
        ("enabled by the route", upgrade("/own", "other"), "hello"),
        ("no route", upgrade("/nowhere", "websocket"), "404"),
    ] {
        let [ours, envoys] = pair.ports("$HTTP").map(|port| pair::ask(port, &[&head, "hello"]));
        // How the connection ends depends on which bytes were read.
        let [ours, envoys] =
            [ours, envoys].map(|shown| shown.trim_end_matches("reset").trim_end_matches("end").to_owned());
        assert!(ours.contains(expected), "{name}: {ours}");
        if ours != envoys {
            differences.push(format!("{name}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    for name in [
        "http.in.downstream_cx_upgrades_total",
        "http.in.downstream_rq_ws_on_non_ws_route",
        "cluster.ws.upstream_rq_101",
    ] {
        let (_, ours, envoys) = pair.stat(name);
        assert_eq!(ours, envoys, "{name}");
    }
}

#[test]
fn hosts_are_chosen_as_by_envoy() {
    let pair = balanced();
    let get = |path: &str, field: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{field}\r\n");
        pair.ports("$HTTP").map(|port| pair::ask(port, &[&request]))
    };
    let mut seen = std::collections::HashSet::new();
    for user in 0..30 {
        let by_header = get("/hash", &format!("x-user: {user}\r\n"));
        seen.insert(by_header[0].clone());
        assert_eq!(by_header[0], by_header[1], "header {user}");
        let by_cookie = get("/hash", &format!("Cookie: a=b; user={user}\r\n"));
        assert_eq!(by_cookie[0], by_cookie[1], "cookie {user}");
        let by_query = get(&format!("/hash?user={user}"), "");
        assert_eq!(by_query[0], by_query[1], "query {user}");
        let agents = get("/by-agent", &format!("User-Agent: {user}\r\nUser-Agent: b\r\n"));
        assert_eq!(agents[0], agents[1], "several values that are one {user}");
        let request = format!("GET /by-host HTTP/1.1\r\nHost: {user}.test\r\nConnection: close\r\n\r\n");
        let [ours, envoys] = pair.ask(&[&request]);
        assert_eq!(ours, envoys, "host {user}");
        let many = get("/hash", &format!("x-user: {user}\r\nx-user: b\r\nx-user: a\r\n"));
        assert_eq!(many[0], many[1], "several values of a header {user}");
        let quoted = get("/hash", &format!("Cookie: a=b\r\nCookie: user=\"{user}\"\r\nCookie: user=x\r\n"));
        assert_eq!(quoted[0], quoted[1], "several cookies {user}");
        let address = get("/source", &format!("x-forwarded-for: 10.0.0.1, 10.0.0.{user}\r\n"));
        assert_eq!(address[0], address[1], "address {user}");
    }
    assert_eq!(seen.len(), 3, "all hosts: {seen:?}");
    let [echo] = proxy::free_ports::<1>();
    for field in [
        "",
        "x-envoy-original-dst-host: nowhere\r\n",
        &format!("x-envoy-original-dst-host: 127.0.0.1:{echo}\r\n"),
    ] {
        let [ours, envoys] = get("/original", field);
        assert_eq!(ours, envoys, "{field}");
    }
    let named = backend::named("D");
    let [ours, envoys] = get("/original", &format!("x-envoy-original-dst-host: 127.0.0.1:{named}\r\n"));
    assert!(ours.contains("\nD\n"), "{ours}");
    assert_eq!(ours, envoys);
    for path in ["/no-requests", "/no-pending", "/logical"] {
        let [ours, envoys] = get(path, "");
        assert_eq!(ours, envoys, "{path}");
    }
    let echo = backend::echo();
    for port in pair.ports("$TCP") {
        let header = format!("PROXY TCP4 127.0.0.1 127.0.0.1 1 {echo}\r\nhello");
        assert_eq!(pair::echoed(port, std::time::Duration::ZERO, &header, 5), "hello");
        let shown = pair::ask(port, &["hello"]);
        assert!(matches!(shown.as_str(), "reset" | "end"), "no original destination: {shown}");
    }
    for port in pair.ports("$TLS") {
        let shown = pair::ask(port, &["hello"]);
        assert!(matches!(shown.as_str(), "reset" | "end"), "no TCP connection may wait: {shown}");
    }
    for name in [
        "cluster.full.upstream_rq_pending_overflow",
        "cluster.full.upstream_cx_connect_attempts_exceeded",
        "cluster.full.upstream_cx_total",
        "cluster.original.upstream_rq_pending_total",
        "cluster.original.original_dst_host_invalid",
        "cluster.original.upstream_cx_none_healthy",
        "cluster.no-requests.upstream_rq_active_overflow",
        "cluster.no-requests.upstream_rq_pending_overflow",
        "cluster.no-requests.upstream_rq_pending_total",
        "cluster.no-requests.upstream_cx_total",
        "cluster.no-pending.upstream_rq_pending_overflow",
        "cluster.no-pending.upstream_rq_pending_total",
        "cluster.no-pending.upstream_cx_total",
        "cluster.one.circuit_breakers.default.remaining_cx",
    ] {
        let (_, ours, envoys) = pair.stat(name);
        assert_eq!(ours, envoys, "{name}");
    }
    for side in 0..2 {
        let count = (0..40).filter(|_| get("/weights", "")[side].contains("\nA\n")).count();
        assert!((8..=12).contains(&count), "1 of 4: {count}");
    }
    // More requests at once than connections: they wait for one.
    let [port, _] = pair.ports("$HTTP");
    let request = "GET /one/slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let asking: Vec<_> = (0..6).map(|_| std::thread::spawn(move || pair::ask(port, &[request]))).collect();
    for asking in asking {
        let shown = asking.join().unwrap();
        assert!(shown.contains("\nA\n"), "{shown}");
    }
    assert!(pair.stat("cluster.one.upstream_cx_overflow").1 > 0);
    assert!(pair.stat("cluster.one.upstream_cx_total").1 <= 2, "one for each worker");
}
