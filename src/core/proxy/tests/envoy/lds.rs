//! Listeners of a file: the same changes, the same connections that go on, end and are refused.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::pair::{self, Directory, Pair};
use super::proxy::{DEADLINE, ask_admin, wait_for};
use super::secure::{self, Authority, Client, Issued};

/// A listener that answers with a text.
fn listener(name: &str, port: &str, text: &str, fields: &str) -> String {
    listener_of(name, port, ("prefix: /", text), "", fields)
}

/// A listener with one route, and fields of its filter chain.
fn listener_of(name: &str, port: &str, (matching, text): (&str, &str), chain: &str, fields: &str) -> String {
    let manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    format!(
        "- '@type': type.googleapis.com/envoy.config.listener.v3.Listener\n  name: {name}\n  address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}\n  filter_chains: [{{filters: [{{name: h, typed_config: {{'@type': {manager}, stat_prefix: in, server_name: edge, http_filters: [{{name: r, typed_config: {{'@type': {router}}}}}], route_config: {{virtual_hosts: [{{name: v, domains: ['*'], routes: [{{match: {{{matching}}}, direct_response: {{status: 200, body: {{inline_string: {text}}}}}}}]}}]}}}}}}]{chain}}}]\n{fields}"
    )
}

fn file(version: &str, listeners: &[String]) -> String {
    let listeners = listeners.concat();
    let listeners = if listeners.is_empty() { " []\n".to_owned() } else { format!("\n{listeners}") };
    format!("version_info: '{version}'\nresources:{listeners}")
}

const STATS: [&str; 16] = [
    "listener_manager.listener_added",
    "listener_manager.listener_modified",
    "listener_manager.listener_removed",
    "listener_manager.listener_in_place_updated",
    "listener_manager.listener_create_success",
    "listener_manager.listener_create_failure",
    "listener_manager.listener_stopped",
    "listener_manager.total_listeners_active",
    "listener_manager.total_listeners_warming",
    "listener_manager.total_listeners_draining",
    "listener_manager.total_filter_chains_draining",
    "listener_manager.workers_started",
    "listener_manager.lds.update_success",
    "listener_manager.lds.update_failure",
    "listener_manager.lds.update_rejected",
    "listener_manager.lds.version",
];

fn shown_stats(pair: &Pair) -> [String; 2] {
    STATS
        .map(|name| pair.stat(name))
        .into_iter()
        .fold([String::new(), String::new()], |[a, b], (name, x, y)| {
            [format!("{a}{name}: {x}\n"), format!("{b}{name}: {y}\n")]
        })
}

fn same_stats(pair: &Pair, when: &str) {
    // Gauges of workers are updated a little later.
    let begun = Instant::now();
    loop {
        let [ours, envoys] = shown_stats(pair);
        if ours == envoys || begun.elapsed() > Duration::from_secs(20) {
            return assert_eq!(ours, envoys, "{when}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// A connection that is kept: sends a request, and shows the answer.
fn keep(stream: &mut TcpStream, length: usize) -> String {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(REQUEST.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "the connection has ended");
        bytes.push(byte[0]);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    bytes.extend_from_slice(&body);
    pair::shown(&bytes, false)
}

fn connect(pair: &Pair, port: &str) -> [TcpStream; 2] {
    pair.ports(port).map(|port| TcpStream::connect(("127.0.0.1", port)).unwrap())
}

/// Waits until new connections of both get this text.
fn wait_for_text(pair: &Pair, port: &str, text: &str) {
    let request = REQUEST.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    wait_for(text, || {
        pair.ports(port)
            .iter()
            .all(|port| {
                TcpStream::connect(("127.0.0.1", *port)).is_ok()
                    && pair::ask(*port, &[&request]).contains(text)
            })
            .then_some(())
    });
}

fn wait_for_stat(pair: &Pair, name: &str, value: u64) {
    wait_for(name, || {
        let (_, ours, envoys) = pair.stat(name);
        (ours == value && envoys == value).then_some(())
    });
}

#[test]
fn listeners_of_a_file_are_those_of_envoy() {
    let drain = Duration::from_secs(3);
    let pair = Pair::start_alone(Directory::new(), include_str!("lds.yaml"), 3);
    same_stats(&pair, "no listener");
    pair.publish(&file("1", &[listener("a", "$HTTP", "one", "")]));
    wait_for_text(&pair, "$HTTP", "one");
    same_stats(&pair, "added");
    let mut kept = connect(&pair, "$HTTP");
    let [ours, envoys] = kept.each_mut().map(|stream| keep(stream, 3));
    assert_eq!(ours, envoys);
    pair.publish(&file("2", &[listener("a", "$HTTP", "one", "")]));
    wait_for_stat(&pair, "listener_manager.lds.update_success", 3);
    same_stats(&pair, "the same");
    // Another filter chain: connections go on with the old one.
    pair.publish(&file("3", &[listener("a", "$HTTP", "two", "")]));
    let updated = Instant::now();
    wait_for_text(&pair, "$HTTP", "two");
    same_stats(&pair, "filter chains");
    let [ours, envoys] = kept.each_mut().map(|stream| keep(stream, 3));
    assert_eq!(ours, envoys);
    assert!(ours.contains("\none\n") && ours.contains("connection: close"), "{ours}");
    let mut idle = connect(&pair, "$HTTP");
    idle.iter_mut().for_each(|stream| assert!(keep(stream, 3).contains("\ntwo\n")));
    // More than filter chains: the sockets stay.
    pair.publish(&file("4", &[listener("a", "$HTTP", "three", "  listener_filters_timeout: 7s\n")]));
    wait_for_text(&pair, "$HTTP", "three");
    same_stats(&pair, "fields");
    // Another address.
    pair.publish(&file("5", &[listener("a", "$TCP", "four", "")]));
    let moved = Instant::now();
    wait_for_text(&pair, "$TCP", "four");
    wait_for("the old port is closed", || {
        pair.ports("$HTTP").iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_err()).then_some(())
    });
    same_stats(&pair, "address");
    // A connection that is idle ends with the drain time, not before.
    for stream in &mut idle {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
        assert!(updated.elapsed() >= drain, "{:?}", updated.elapsed());
    }
    wait_for_stat(&pair, "listener_manager.total_listeners_draining", 0);
    assert!(moved.elapsed() >= drain);
    same_stats(&pair, "drained");
    // One that is refused, beside one that is taken.
    let refused = [
        listener("a", "$TCP", "five", ""),
        listener("bad", "$ADMIN", "x", ""),
        listener("third", "$TLS", "x", ""),
    ];
    pair.publish(&file("6", &refused));
    wait_for_text(&pair, "$TCP", "five");
    wait_for_stat(&pair, "listener_manager.lds.update_rejected", 1);
    same_stats(&pair, "refused");
    let shown = pair.ports("$ADMIN").map(|admin| {
        let (_, text) = ask_admin(admin, "GET", "/config_dump?resource=dynamic_listeners").unwrap();
        let dump: serde_json::Value = serde_json::from_str(&text).unwrap();
        let of = |name: &str| {
            let states = dump["configs"].as_array().unwrap();
            states.iter().find(|state| state["name"] == name).cloned().unwrap()
        };
        let (bad, good) = (of("bad"), of("a"));
        let why = bad["error_state"]["details"].as_str().unwrap().replace(&admin.to_string(), "ADMIN");
        let is_named = bad["error_state"]["failed_configuration"]["name"] == "bad";
        let version = good["active_state"]["version_info"].as_str().unwrap().to_owned();
        ((why, is_named, bad["active_state"].is_null()), version)
    });
    let [(ours, version), (envoys, old_version)] = shown;
    assert_eq!(ours, envoys);
    assert_eq!(ours.0, "cannot bind '127.0.0.1:ADMIN': Address already in use");
    // Envoy names the version that brought the listener, and not the one that changed its filter chains.
    assert_eq!((version.as_str(), old_version.as_str()), ("6", "5"));
    let [ours, envoys] =
        pair.ports("$ADMIN").map(|admin| ask_admin(admin, "GET", "/listeners").unwrap().1.lines().count());
    assert_eq!((ours, envoys), (2, 2));
    // What cannot be read changes nothing.
    pair.publish("resources: [");
    wait_for_stat(&pair, "listener_manager.lds.update_failure", 1);
    wait_for_text(&pair, "$TCP", "five");
    // One without a name is another one each time, and takes the place of the one before.
    for version in ["seven", "eight"] {
        pair.publish(&file(version, &[listener("''", "$TCP", version, "")]));
        wait_for_text(&pair, "$TCP", version);
        wait_for_stat(&pair, "listener_manager.total_listeners_draining", 0);
        same_stats(&pair, version);
    }
    // One that was written without empty lists.
    pair.publish("{\"versionInfo\": \"9\"}");
    wait_for("the port is closed", || {
        pair.ports("$TCP").iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_err()).then_some(())
    });
    same_stats(&pair, "removed");
}

/// A client that has not yet said all that listener filters wait for is served by the filter chains that there are once it has.
#[test]
fn a_connection_that_is_looked_at_gets_the_filter_chains_of_an_update() {
    let pair = Pair::start_alone(Directory::new(), include_str!("lds.yaml"), 30);
    let filter = "type.googleapis.com/envoy.extensions.filters.listener.http_inspector.v3.HttpInspector";
    let fields = format!("  listener_filters: [{{name: i, typed_config: {{'@type': {filter}}}}}]\n");
    let publish = |version: &str| {
        pair.publish(&file(version, &[listener("a", "$HTTP", version, &fields)]));
        wait_for_text(&pair, "$HTTP", version);
    };
    publish("one");
    let mut begun = connect(&pair, "$HTTP");
    begun.iter_mut().for_each(|stream| stream.write_all(b"GET / HT").unwrap());
    // It is looked at once it is accepted.
    std::thread::sleep(Duration::from_millis(300));
    publish("two");
    publish("three");
    let answers = begun.each_mut().map(|stream| {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(b"TP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        pair::shown(&bytes, false)
    });
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].contains("\nthree\n"), "{}", answers[0]);
}

/// The fields of a filter chain that serves clients with a certificate of this root.
fn guarded_by(root: &str, server: &Issued) -> String {
    let [root, chain, key] = [root, &server.chain, &server.key].map(|text| STANDARD.encode(text));
    let tls = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
    format!(
        ", transport_socket: {{name: tls, typed_config: {{'@type': {tls}, require_client_certificate: true, common_tls_context: {{tls_certificates: [{{certificate_chain: {{inline_bytes: {chain}}}, private_key: {{inline_bytes: {key}}}}}], validation_context: {{trusted_ca: {{inline_bytes: {root}}}}}}}}}}}"
    )
}

#[test]
fn what_dumps_do_not_show_is_updated_as_well() {
    mixer_net::tls::install_crypto_provider();
    let pair = Pair::start_alone(Directory::new(), include_str!("lds.yaml"), 1);
    let (old, new) = (Authority::new(), Authority::new());
    let [server, renewed] = [(), ()].map(|()| old.issue(&["a.test"]));
    // As long as keys, and beginning as they do.
    let [token, other] = ["A", "B"].map(|letter| format!("MIIB{}", letter.repeat(70)));
    let clients = [&old, &new].map(|authority| Client {
        certificate: Some(authority.issue(&["c.test"])),
        server_name: "a.test",
        ..Client::default()
    });
    let ask = |port: u16, token: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Token: {token}\r\nConnection: close\r\n\r\n");
        pair::ask(port, &[&request]).starts_with("HTTP/1.1 200 ")
    };
    let get = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let version = |letter: &str| format!("MIIB{}", letter.repeat(70));
    let states = [
        (&old, &server, &token, "1".to_owned()),
        (&new, &server, &token, "2".to_owned()),
        (&new, &renewed, &token, "3".to_owned()),
        (&new, &renewed, &other, "4".to_owned()),
        (&new, &renewed, &other, version("A")),
        (&new, &renewed, &other, version("B")),
    ];
    for (index, (authority, server, taken, version)) in states.into_iter().enumerate() {
        let matching = format!("prefix: /, headers: [{{name: x-token, string_match: {{exact: {taken}}}}}]");
        let listeners = [
            listener_of("tls", "$TLS", ("prefix: /", "one"), &guarded_by(&authority.root, server), ""),
            listener_of("plain", "$HTTP", (&matching, "two"), "", ""),
        ];
        pair.publish(&file(&version, &listeners));
        wait_for_stat(&pair, "listener_manager.lds.update_success", u64::try_from(index).unwrap() + 2);
        let expected = (
            [&old, &new].map(|known| std::ptr::eq(known, authority)),
            Some(secure::der(server)),
            [&token, &other].map(|known| known == taken),
        );
        wait_for(&format!("both serve as version {version} says"), || {
            let is_expected = |(tls, plain)| {
                let served = clients.each_ref().map(|client| client.ask(tls, get).contains("200 OK"));
                let [old, new] = &clients;
                let shown = [old, new].into_iter().find_map(|client| secure::certificate(client, tls));
                (served, shown, [&token, &other].map(|token| ask(plain, token))) == expected
            };
            pair.ports("$TLS").into_iter().zip(pair.ports("$HTTP")).all(is_expected).then_some(())
        });
        same_stats(&pair, &version);
    }
}
