//! Datagrams: the same replies, and what is counted of them.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mixer_proxy::bootstrap;

use super::pair::{self, Directory, Pair};
use super::proxy::{DEADLINE, ask_admin, wait_for};

const PROXY: &str = "type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig";
const ROUTE: &str = "type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.Route";

/// The hosts of the ring.
const RING: u16 = 5;

/// A host that answers with its name and what it was sent; `reply N` is answered with N bytes, `silence` not at all.
fn host(name: String) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 65_536];
        loop {
            // What it sent before may have been refused.
            let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let answer = match text.strip_prefix("reply ").map(|length| length.parse::<usize>().unwrap()) {
                Some(length) => vec![b'r'; length],
                None => [name.as_bytes(), &bytes[..length]].concat(),
            };
            if text != "silence" {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    port
}

/// A port at which nothing listens, for as long as the socket is kept: it takes datagrams of one peer only.
fn closed() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect("127.0.0.1:9").unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

/// A client of an address, from this address.
fn client(own: &str, address: &str, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::new(own.parse().unwrap(), 0)).unwrap();
    // Only what comes from there is received.
    socket.connect(SocketAddr::new(address.parse::<IpAddr>().unwrap(), port)).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket
}

/// Sends a datagram and receives the next one.
fn ask(client: &UdpSocket, data: &[u8]) -> Vec<u8> {
    client.send(data).unwrap();
    let mut bytes = vec![0; 65_536];
    let length = client.recv(&mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

/// Clients of both at a port.
fn clients(pair: &Pair, port: &str) -> [UdpSocket; 2] {
    pair.ports(port).map(|port| client("127.0.0.1", "127.0.0.1", port))
}

/// What both answer to a datagram, which must be the same.
fn answer(clients: &[UdpSocket; 2], data: &[u8]) -> String {
    let [ours, envoys] = clients.each_ref().map(|client| ask(client, data));
    assert!(ours == envoys, "{} and {} bytes", ours.len(), envoys.len());
    String::from_utf8(ours).unwrap()
}

/// Sends a datagram that is not answered.
fn send(clients: &[UdpSocket; 2], data: &[u8]) {
    for client in clients {
        // The one before may have been refused.
        if client.send(data).is_err() {
            client.send(data).unwrap();
        }
    }
}

/// What is counted of a UDP proxy and of the cluster that it forwards to.
fn names(proxy: &str, cluster: &str) -> Vec<String> {
    let own = [
        "downstream_sess_active",
        "downstream_sess_total",
        "downstream_sess_no_route",
        "downstream_sess_rx_bytes",
        "downstream_sess_rx_datagrams",
        "downstream_sess_rx_errors",
        "downstream_sess_tx_bytes",
        "downstream_sess_tx_datagrams",
        "downstream_sess_tx_errors",
        "idle_timeout",
    ];
    let of_cluster = [
        "udp.sess_rx_datagrams",
        "udp.sess_rx_datagrams_dropped",
        "udp.sess_rx_errors",
        "udp.sess_tx_datagrams",
        "udp.sess_tx_errors",
        "upstream_cx_total",
        "upstream_cx_active",
        "upstream_cx_overflow",
        "upstream_cx_none_healthy",
        "upstream_cx_rx_bytes_total",
        "upstream_cx_tx_bytes_total",
        "circuit_breakers.default.cx_open",
        "circuit_breakers.default.remaining_cx",
    ];
    let own = own.iter().map(|name| format!("udp.{proxy}.{name}"));
    own.chain(of_cluster.iter().map(|name| format!("cluster.{cluster}.{name}"))).collect()
}

/// Waits until both have counted the same. What is counted of a datagram may come after its answer.
fn same_stats(pair: &Pair, names: &[String], when: &str) {
    let begun = Instant::now();
    loop {
        let [ours, envoys] = names.iter().fold([String::new(), String::new()], |[ours, envoys], name| {
            let (_, own, envoy) = pair.stat(name);
            [format!("{ours}{name}: {own}\n"), format!("{envoys}{name}: {envoy}\n")]
        });
        if ours == envoys || begun.elapsed() > Duration::from_secs(20) {
            return assert_eq!(ours, envoys, "{when}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until both have counted so many.
fn wait_for_stat(pair: &Pair, name: &str, count: u64) {
    wait_for(&format!("{name} {count}"), || {
        let (_, ours, envoys) = pair.stat(name);
        (ours == count && envoys == count).then_some(())
    });
}

/// A bootstrap, a host, and hosts of the ring.
fn start() -> (Pair, UdpSocket) {
    let (socket, closed) = closed();
    let ring = (0..RING).map(|number| {
        let port = host(format!("{number}:"));
        // The places of a host on the ring follow from its port.
        format!("{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}")
    });
    let others = [
        ("$PROXY", PROXY.to_owned()),
        ("$ROUTE", ROUTE.to_owned()),
        ("$UDPECHO", host("h:".to_owned()).to_string()),
        ("$UDPCLOSED", closed.to_string()),
        ("$RING", ring.collect::<Vec<_>>().join(", ")),
    ];
    (Pair::start_with(Directory::new(), include_str!("udp.yaml"), &others), socket)
}

#[test]
fn datagrams_and_what_is_counted_of_them_are_those_of_envoy() {
    let (pair, _closed) = start();
    let [ours, envoys] = pair.ports("$ADMIN").map(|admin| ask_admin(admin, "GET", "/listeners").unwrap().1);
    let places =
        |text: &str| text.lines().map(|line| line.rsplit_once(':').unwrap().0.to_owned()).collect::<Vec<_>>();
    assert_eq!(places(&ours), places(&envoys));
    assert!(ours.contains("any6::[::]:"), "{ours}");

    let echo = names("echo", "echo");
    let dropped = "listener.127.0.0.1_$HTTP.udp.downstream_rx_datagram_dropped";
    let (first, second) = (clients(&pair, "$HTTP"), clients(&pair, "$HTTP"));
    assert_eq!(answer(&first, b"one"), "h:one");
    assert_eq!(answer(&second, b"two"), "h:two");
    assert_eq!(answer(&first, b""), "h:");
    assert_eq!(answer(&first, b"reply 0"), "");
    same_stats(&pair, &echo, "two clients, and empty datagrams");
    wait_for_stat(&pair, "udp.echo.downstream_sess_active", 2);
    let long = [b'x'; 1501];
    assert_eq!(answer(&second, &[b"silence-".as_slice(), &long[..1400]].concat()).len(), 1410);
    assert_eq!(answer(&first, b"reply 1500").len(), 1500);
    send(&first, &long);
    wait_for_stat(&pair, dropped, 1);
    send(&first, b"reply 1501");
    wait_for_stat(&pair, "cluster.echo.udp.sess_rx_datagrams_dropped", 1);
    same_stats(&pair, &echo, "datagrams that are too long");

    let large = clients(&pair, "$TCP");
    assert_eq!(answer(&large, &[b'y'; 65_505]).len(), 65_507, "the longest there is");
    assert_eq!(answer(&large, b"reply 65507").len(), 65_507);
    same_stats(&pair, &names("large", "echo"), "large datagrams");

    // From the address that the client writes to; it takes no others.
    let mut chosen = Vec::new();
    for number in 1..=20 {
        let own = format!("127.0.0.{number}");
        let at = pair.ports("$TLS").map(|port| client(&own, &format!("127.0.1.{number}"), port));
        chosen.push(answer(&at, b""));
    }
    chosen.sort();
    chosen.dedup();
    assert!(chosen.len() > 1, "not all go to {chosen:?}");
    let at = || pair.ports("$REQUIRED").map(|port| client("::1", "::1", port));
    let by_key: Vec<String> = (0..5).map(|_| answer(&at(), b"")).collect();
    assert!(by_key.windows(2).all(|pair| pair[0] == pair[1]), "{by_key:?}");
    same_stats(&pair, &[names("any", "ring"), names("any6", "ring")].concat(), "consistent hashing");

    let empty = clients(&pair, "$NAMED");
    send(&empty, b"a");
    send(&empty, b"b");
    wait_for_stat(&pair, "cluster.empty.upstream_cx_none_healthy", 2);
    same_stats(&pair, &names("empty", "empty"), "no host");
    let unknown = clients(&pair, "$CHAINS");
    send(&unknown, b"a");
    send(&unknown, b"b");
    wait_for_stat(&pair, "udp.unknown.downstream_sess_no_route", 2);
    same_stats(&pair, &names("unknown", "unknown"), "no cluster");
    let refused = clients(&pair, "$PATIENT");
    for count in 1..=3 {
        send(&refused, b"a");
        // What the system tells of one datagram would otherwise fail the next one, or not, as it happens.
        wait_for_stat(&pair, "cluster.refused.udp.sess_rx_errors", count);
    }
    same_stats(&pair, &names("refused", "refused"), "nothing listens");

    // The system refuses what goes to all machines: there is no way to this host.
    let lost = clients(&pair, "$ADMIN");
    for count in 1..=20 {
        send(&lost, b"abc");
        wait_for_stat(&pair, "cluster.broadcast.udp.sess_tx_errors", count);
    }
    same_stats(&pair, &names("broadcast", "broadcast"), "no way to the host");
    assert_eq!(pair.stat("udp.broadcast.downstream_sess_total").1, 1, "one session");
    assert_eq!(pair.stat("udp.broadcast.downstream_sess_active").1, 1, "it stays");

    let few: Vec<_> = (0..4).map(|_| clients(&pair, "$SOURCES")).collect();
    for clients in &few[..2] {
        assert_eq!(answer(clients, b"a"), "h:a");
    }
    for clients in &few[2..] {
        send(clients, b"a");
    }
    wait_for_stat(&pair, "cluster.few.upstream_cx_overflow", 2);
    same_stats(&pair, &names("few", "few"), "too many sessions");

    let idle = clients(&pair, "$OPTIONAL");
    for count in 1..=2 {
        assert_eq!(answer(&idle, b"a"), "h:a");
        wait_for_stat(&pair, "udp.idle.idle_timeout", count);
    }
    same_stats(&pair, &names("idle", "echo"), "idle sessions");

    // Under the same names for Prometheus.
    let [ours, envoys] = pair.ports("$ADMIN").map(|admin| {
        let text = ask_admin(admin, "GET", "/stats/prometheus").unwrap().1;
        let is_own = |line: &&str| line.contains("_udp_") && line.contains("\"echo\"");
        text.lines().filter(is_own).map(str::to_owned).collect::<Vec<_>>()
    });
    assert!(ours.len() >= 15, "{ours:?}");
    for line in ours {
        assert!(envoys.contains(&line), "{line}\n{envoys:?}");
    }

    // A listener that stops ends its sessions.
    for admin in pair.ports("$ADMIN") {
        assert_eq!(ask_admin(admin, "POST", "/drain_listeners").unwrap().0, 200);
    }
    wait_for_stat(&pair, "listener_manager.listener_stopped", 10);
    wait_for("sessions end", || {
        let (_, ours, envoys) = pair.stat("udp.echo.downstream_sess_active");
        (ours == 0 && envoys == 0).then_some(())
    });
    same_stats(&pair, &echo, "stopped");
    assert_eq!(
        pair.stat("listener_manager.total_listeners_active"),
        ("listener_manager.total_listeners_active", 10, 10)
    );
}

/// A listener of a file.
fn listener(port: &str, fields: &str) -> String {
    format!(
        "- '@type': type.googleapis.com/envoy.config.listener.v3.Listener\n  name: u\n  address: {{socket_address: {{protocol: UDP, address: 127.0.0.1, port_value: {port}}}}}\n  listener_filters:\n  - {{name: u, typed_config: {{'@type': {PROXY}, stat_prefix: u, cluster: echo{fields}}}}}\n"
    )
}

fn file(version: u32, listeners: &str) -> String {
    match listeners {
        "" => format!("version_info: '{version}'\nresources: []\n"),
        listeners => format!("version_info: '{version}'\nresources:\n{listeners}"),
    }
}

#[test]
fn udp_listeners_of_a_file_are_those_of_envoy() {
    let bootstrap =
        include_str!("lds.yaml").replace("name: backend", "name: echo").replace("$BACKEND", "$UDPECHO");
    let echo = [("$UDPECHO", host("h:".to_owned()).to_string())];
    let directory = Directory::new();
    let drain = 3;
    let pair = Pair::start_alone_with(directory, &bootstrap, &echo, drain);
    let manager = [
        "listener_added",
        "listener_modified",
        "listener_removed",
        "listener_in_place_updated",
        "listener_create_success",
        "listener_create_failure",
        "total_listeners_active",
        "lds.update_success",
        "lds.update_rejected",
    ];
    let mut stats: Vec<String> = manager.iter().map(|name| format!("listener_manager.{name}")).collect();
    stats.extend(names("u", "echo"));
    let active = "udp.u.downstream_sess_active";
    pair.publish(&file(1, &listener("$HTTP", "")));
    wait_for_stat(&pair, "listener_manager.listener_added", 1);
    let kept = clients(&pair, "$HTTP");
    assert_eq!(answer(&kept, b"1"), "h:1");
    same_stats(&pair, &stats, "added");
    // The sockets stay, sessions do not.
    pair.publish(&file(2, &listener("$HTTP", ", idle_timeout: 30s")));
    wait_for_stat(&pair, "listener_manager.listener_modified", 1);
    wait_for_stat(&pair, active, 0);
    same_stats(&pair, &stats, "updated");
    assert_eq!(answer(&kept, b"2"), "h:2");
    same_stats(&pair, &stats, "after the update");
    wait_for_stat(&pair, "listener_manager.total_listeners_draining", 0);
    assert_eq!(answer(&kept, b"3"), "h:3");
    wait_for_stat(&pair, "udp.u.downstream_sess_total", 2);
    // Another address.
    pair.publish(&file(3, &listener("$TCP", "")));
    wait_for_stat(&pair, "listener_manager.listener_modified", 2);
    wait_for("the old port is closed", || kept.iter().all(|client| client.send(b"x").is_err()).then_some(()));
    assert_eq!(answer(&clients(&pair, "$TCP"), b"4"), "h:4");
    // One that has the address of another one beside it, and one that is not valid.
    let refused = listener("$TCP", "").replace("name: u\n  address", "name: v\n  address");
    let refused = [
        listener("$TCP", ""),
        refused,
        listener("$TLS", ", hash_policies: [{}]").replace("name: u\n", "name: w\n"),
    ];
    pair.publish(&file(4, &refused.concat()));
    wait_for_stat(&pair, "listener_manager.lds.update_rejected", 1);
    let shown = pair.ports("$ADMIN").map(|admin| {
        let (_, text) = ask_admin(admin, "GET", "/config_dump?resource=dynamic_listeners").unwrap();
        let dump: serde_json::Value = serde_json::from_str(&text).unwrap();
        let states = dump["configs"].as_array().unwrap();
        let of = |name: &str| states.iter().find(|state| state["name"] == name).cloned().unwrap();
        let address = of("u")["active_state"]["listener"]["address"]["socket_address"].clone();
        (
            address["protocol"].clone(),
            of("v")["error_state"]["details"].clone(),
            of("w")["error_state"].is_object(),
        )
    });
    let [(ours, duplicate, _), (envoys, envoys_duplicate, _)] = &shown;
    assert_eq!((ours.as_str(), envoys.as_str()), (Some("UDP"), Some("UDP")));
    let [own_port, envoys_port] = pair.ports("$TCP").map(|port| port.to_string());
    let masked = |details: &serde_json::Value, port: &str| details.as_str().unwrap().replace(port, "PORT");
    assert_eq!(masked(duplicate, &own_port), masked(envoys_duplicate, &envoys_port));
    assert!(shown.iter().all(|(_, _, is_refused)| *is_refused));
    pair.publish(&file(5, ""));
    wait_for_stat(&pair, "listener_manager.listener_removed", 1);
    wait_for_stat(&pair, active, 0);
    let gone = clients(&pair, "$TCP");
    wait_for("the port is closed", || gone.iter().all(|client| client.send(b"x").is_err()).then_some(()));
    // What is counted of listeners that are gone is forgotten.
    same_stats(&pair, &stats[..manager.len()], "removed");
}

/// The text by which Envoy refuses a bootstrap; `None` if it takes it.
fn envoys_refusal(directory: &Directory, text: &str) -> Option<String> {
    let path = directory.0.join("envoy.yaml");
    std::fs::write(&path, text).unwrap();
    let ran = Command::new(pair::envoy())
        .arg("-c")
        .arg(&path)
        .args(["--mode", "validate", "--concurrency", "2", "--log-level", "error"])
        .args(["--base-id", &(std::process::id() % 60_000).to_string()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (!ran.status.success()).then(|| String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
}

#[test]
fn what_is_not_valid_is_told_in_the_words_of_envoy() {
    const TCP: &str = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
    const TLS: &str = "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector";
    let directory = Directory::new();
    let text = |filter: &str, fields: &str| {
        format!(
            "static_resources:\n  clusters: [{{name: c}}]\n  listeners:\n  - name: l\n    address: {{socket_address: {{protocol: UDP, address: 127.0.0.1, port_value: 5}}}}\n    listener_filters: [{{name: u, typed_config: {{'@type': {filter}}}}}]\n{fields}\n"
        )
    };
    let proxy = |fields: &str| text(&format!("{PROXY}, stat_prefix: p, {fields}"), "");
    let chain = format!(
        "    filter_chains: [{{filters: [{{name: t, typed_config: {{'@type': {TCP}, stat_prefix: p, cluster: c}}}}]}}]"
    );
    let good = format!("{PROXY}, stat_prefix: p, cluster: c");
    for (name, text, is_valid) in [
        ("a cluster", proxy("cluster: c"), true),
        ("a cluster that does not exist", proxy("cluster: d"), true),
        ("a protocol in lower case", proxy("cluster: c").replace(": UDP", ": udp"), true),
        ("a protocol by number", proxy("cluster: c").replace(": UDP", ": '1'"), true),
        ("a protocol that does not exist", proxy("cluster: c").replace(": UDP", ": UDPX"), false),
        ("the longest time", proxy("cluster: c, idle_timeout: 9223372035.999999999s"), true),
        ("too long a time", proxy("cluster: c, idle_timeout: 9223372036s"), false),
        ("a thousand years", proxy("cluster: c, idle_timeout: 31557600000s"), false),
        ("ten thousand years", proxy("cluster: c, idle_timeout: 315576000000s"), false),
        ("a filter chain", text(&good, &chain), false),
        (
            "a default filter chain",
            text(&good, &chain.replace("filter_chains: [", "default_filter_chain: ").replace("]}]", "]}")),
            false,
        ),
        ("one socket", text(&good, "    enable_reuse_port: false"), false),
        ("no prefix", text(&format!("{PROXY}, cluster: c"), ""), false),
        ("an empty cluster", proxy("cluster: ''"), false),
        ("a source that is not", proxy("cluster: c, hash_policies: [{source_ip: false}]"), false),
        ("two hashes", proxy("cluster: c, hash_policies: [{key: a}, {key: b}]"), false),
        ("no length", proxy("cluster: c, upstream_socket_config: {max_rx_datagram_size: 65536}"), false),
        ("a filter of connections", text(TLS, ""), false),
        ("a filter of datagrams", text(&good, &chain).replace("protocol: UDP, ", ""), false),
    ] {
        let problems = match bootstrap::read(&text, "b.yaml") {
            Ok((bootstrap, _)) => bootstrap.problems_with(2, "b.yaml"),
            Err(problems) => problems,
        };
        let refusal = envoys_refusal(&directory, &text);
        assert_eq!(
            (problems.is_empty(), refusal.is_none()),
            (is_valid, is_valid),
            "{name}: {problems:?} {refusal:?}"
        );
        if let (Some(problem), Some(refusal)) = (problems.first(), refusal) {
            let message = &problem.message;
            assert!(refusal.contains(message), "{name}: {message}\n{refusal}");
        }
    }
}
