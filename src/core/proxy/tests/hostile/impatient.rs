//! Clients that wait for less time than a handshake with a host takes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mixer_proxy::server::{DEFAULT_BODY_MEMORY, DrainOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::proxy::{DEADLINE, Proxy, free_ports, wait_for};

/// Time that a handshake takes, and that clients wait.
const HANDSHAKE: Duration = Duration::from_millis(1000);
const PATIENCE: Duration = Duration::from_millis(300);

/// A host whose handshakes take long. Returns its port, and counts its connections.
fn slow_host(protocol: &'static [u8], count: Arc<AtomicU64>) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let issued = rcgen::generate_simple_self_signed(["host.test".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(HANDSHAKE).await;
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    match protocol {
                        b"h2" => answer_http2(stream).await,
                        _ => answer_http1(stream).await,
                    }
                });
            }
        });
    });
    port
}

async fn answer_http1(mut stream: TlsStream<tokio::net::TcpStream>) {
    let mut head = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        head.push(byte);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";
            if stream.write_all(response).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
    }
}

async fn answer_http2(stream: TlsStream<tokio::net::TcpStream>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let sent = respond.send_response(http::Response::new(()), false);
        if let Ok(mut body) = sent {
            let _ = body.send_data(bytes::Bytes::from_static(b"fine"), true);
        }
    }
}

/// A proxy before such a host, with at most so many connections to it.
fn proxy(host: u16, is_http2: bool, max_connections: u32) -> (Proxy, u16) {
    let [port, admin] = free_ports();
    let options = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let options = match is_http2 {
        true => format!(
            "\n    typed_extension_protocol_options: {{envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {{\"@type\": {options}, explicit_http_config: {{http2_protocol_options: {{}}}}}}}}"
        ),
        false => String::new(),
    };
    let text = format!(
        r#"
admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin}}}}}}}
static_resources:
  listeners:
  - name: http
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config:
            virtual_hosts: [{{name: all, domains: ["*"], routes: [{{match: {{prefix: /}}, route: {{cluster: host, timeout: 0s}}}}]}}]
  clusters:
  - name: host
    connect_timeout: 60s
    circuit_breakers: {{thresholds: [{{max_connections: {max_connections}}}]}}{options}
    transport_socket:
      name: tls
      typed_config: {{"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext}}
    load_assignment: {{cluster_name: host, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {host}}}}}}}}}]}}]}}
"#
    );
    // Validation warns that nobody verifies the host.
    (Proxy::start_within(&text, admin, 1, DrainOptions::default(), DEFAULT_BODY_MEMORY), port)
}

fn begin(port: u16) -> TcpStream {
    let mut stream = crate::scene::connect(port);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// Sends a request, and leaves after a time. Returns whether it was answered.
fn ask(port: u16, patience: Duration) -> bool {
    let mut stream = begin(port);
    stream.set_read_timeout(Some(patience)).unwrap();
    let mut response = [0; 15];
    stream.read_exact(&mut response).is_ok() && response == *b"HTTP/1.1 200 OK"
}

#[test]
fn a_connection_attempt_outlives_the_clients_that_caused_it() {
    for (protocol, max_connections) in [(&b"http/1.1"[..], 1024), (b"http/1.1", 1), (b"h2", 1024), (b"h2", 1)]
    {
        let what = format!("{} {max_connections}", protocol.escape_ascii());
        let count = Arc::new(AtomicU64::new(0));
        let host = slow_host(protocol, Arc::clone(&count));
        let (proxy, port) = proxy(host, protocol == b"h2", max_connections);
        let begun = Instant::now();
        while !ask(port, PATIENCE) {
            assert!(begun.elapsed() < DEADLINE / 4, "{what}: nobody is ever answered");
        }
        assert!(ask(port, DEADLINE), "{what}");
        assert_eq!(count.load(Ordering::Relaxed), 1, "{what}: connections to the host");
        let stat = |name: &str| proxy.stat(&format!("cluster.host.{name}"));
        assert_eq!((stat("upstream_cx_total"), stat("upstream_cx_active")), (1, 1), "{what}");
        assert!(stat("upstream_rq_cancelled") > 0, "{what}");
        wait_for("nobody waits", || (stat("upstream_rq_pending_active") == 0).then_some(()));
    }
}

#[test]
fn all_who_wait_at_once_are_answered_in_turn() {
    for (protocol, max_connections, connections) in
        [(&b"http/1.1"[..], 1024, 20), (b"http/1.1", 3, 3), (b"h2", 1024, 1)]
    {
        let what = format!("{} {max_connections}", protocol.escape_ascii());
        let count = Arc::new(AtomicU64::new(0));
        let host = slow_host(protocol, Arc::clone(&count));
        let (proxy, port) = proxy(host, protocol == b"h2", max_connections);
        let clients: Vec<_> = (0..20).map(|_| begin(port)).collect();
        for mut client in clients {
            let mut response = String::new();
            client.read_to_string(&mut response).unwrap();
            assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{what}: {response}");
        }
        assert!(count.load(Ordering::Relaxed) <= connections, "{what}");
        assert_eq!(proxy.stat("cluster.host.upstream_rq_200"), 20, "{what}");
        assert_eq!(proxy.stat("cluster.host.upstream_rq_pending_active"), 0, "{what}");
    }
}

#[test]
fn who_waits_is_told_of_a_host_that_fails() {
    // It closes each connection at once.
    let host = crate::scene::serve(|stream, _| drop(stream));
    for is_http2 in [false, true] {
        let (proxy, port) = proxy(host, is_http2, 1024);
        let clients: Vec<_> = (0..10).map(|_| begin(port)).collect();
        for mut client in clients {
            let mut response = String::new();
            client.read_to_string(&mut response).unwrap();
            assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
        }
        let stat = |name: &str| proxy.stat(&format!("cluster.host.{name}"));
        assert_eq!((stat("upstream_cx_active"), stat("upstream_rq_pending_active")), (0, 0));
        assert_eq!(stat("upstream_rq_pending_failure_eject"), 10);
        assert!((1..=10).contains(&stat("upstream_cx_connect_fail")));
    }
}
