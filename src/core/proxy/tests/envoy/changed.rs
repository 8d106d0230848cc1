//! Connections that have changed their protocol, beside Envoy: how they end.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::authz::bootstrap_of;
use crate::ends::same_stats;
use crate::pair::{Directory, Pair};
use crate::proxy::{DEADLINE, wait_for};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const FILE: &str = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";

/// More than the buffers on the way hold.
const MUCH: usize = 12 << 20;

/// What the host has seen of connections, by their paths.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// What comes until the connection ends, and how it ends.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let end = match stream.read_to_end(&mut bytes) {
        Ok(_) => "end",
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => "reset",
        Err(_) => "silence",
    };
    match bytes.len() {
        0..100 => format!("{} {end}", String::from_utf8_lossy(&bytes)),
        length => format!("{length} {end}"),
    }
}

fn head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

fn reset(stream: &TcpStream) {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// A host that changes the protocol, and goes on as the path says.
fn host(seen: Seen) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || {
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                let head = head(&mut stream);
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let _ =
                    stream.write_all(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
                let saw = match path.rsplit('/').next().unwrap_or_default() {
                    "host" => {
                        let _ = stream.write_all(b"bye");
                        let _ = stream.shutdown(Shutdown::Write);
                        rest(&mut stream)
                    }
                    "much" => {
                        let _ = stream.write_all(&vec![b'x'; MUCH]);
                        String::new()
                    }
                    "host-reset" => {
                        let _ = stream.write_all(b"bye");
                        std::thread::sleep(Duration::from_millis(200));
                        reset(&stream);
                        String::new()
                    }
                    _ => {
                        let saw = rest(&mut stream);
                        let _ = stream.write_all(b"after the end");
                        saw
                    }
                };
                drop(stream);
                seen.lock().unwrap().push((path, saw));
            });
        }
    });
    port
}

fn bootstrap(host: u16) -> String {
    let log = "%REQ(:PATH)% %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %BYTES_RECEIVED% %BYTES_SENT%\\n";
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
          stream_idle_timeout: 2s
          upgrade_configs: [{{upgrade_type: websocket}}]
          access_log:
          - name: f
            typed_config: {{'@type': {FILE}, path: $LOG, log_format: {{text_format_source: {{inline_string: "{log}"}}}}}}
          http_filters: [{{name: router, typed_config: {{'@type': {ROUTER}}}}}]
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:
              - {{match: {{prefix: /ok}}, route: {{cluster: backend}}}}
              - {{match: {{prefix: /}}, route: {{cluster: host, prefix_rewrite: /}}}}"#
    );
    bootstrap_of(&listener, &[])
        + &format!(
            "  - {{name: host, connect_timeout: 5s, load_assignment: {{cluster_name: host, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {host}}}}}}}}}]}}]}}}}\n"
        )
}

/// Changes the protocol, goes on as the path says, and shows what comes back.
fn client(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_nodelay(true).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    assert!(head(&mut stream).starts_with("HTTP/1.1 101 "), "{path}");
    match path.rsplit('/').next().unwrap_or_default() {
        "client" => {
            stream.write_all(b"last").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        }
        "client-reset" => {
            stream.write_all(b"last").unwrap();
            std::thread::sleep(Duration::from_millis(200));
            reset(&stream);
            return String::new();
        }
        // The host has ended long before this reads on.
        "much" => std::thread::sleep(Duration::from_millis(500)),
        _ => {}
    }
    rest(&mut stream)
}

#[test]
fn either_side_ends_a_connection_with_another_protocol_as_with_envoy() {
    let seen = Seen::default();
    let pair = Pair::start_with(Directory::new(), &bootstrap(host(Arc::clone(&seen))), &[]);
    for (path, expected) in [
        // Neither side goes on alone.
        ("/client", [" end", "last end"]),
        ("/host", ["bye end", " end"]),
        ("/much", ["12582912 end", ""]),
        ("/host-reset", ["bye end", ""]),
        ("/client-reset", ["", "last end"]),
        ("/idle", [" end", " end"]),
    ] {
        let ends = pair.ports("$HTTP").map(|port| {
            let came = client(port, path);
            let saw = wait_for("the host tells", || {
                let mut seen = seen.lock().unwrap();
                let place = seen.iter().position(|(known, _)| known == path)?;
                Some(seen.remove(place).1)
            });
            [came, saw]
        });
        assert_eq!(ends[0], ends[1], "{path}");
        assert_eq!(ends[0], expected, "{path}");
    }
    pair.ask(&["GET /ok/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]);
    let [ours, envoys] = pair.logs("/ok/last");
    assert_eq!(ours, envoys, "access logs");
    same_stats(
        &pair,
        &[
            "http.in.downstream_cx_destroy_local",
            "http.in.downstream_cx_destroy_remote",
            "http.in.downstream_cx_destroy_active_rq",
            "http.in.downstream_cx_destroy_remote_active_rq",
            "http.in.downstream_rq_rx_reset",
            "http.in.downstream_rq_response_before_rq_complete",
            "http.in.downstream_rq_idle_timeout",
            "cluster.host.upstream_cx_destroy_local_with_active_rq",
            "cluster.host.upstream_cx_destroy_remote_with_active_rq",
            "cluster.host.upstream_cx_destroy_remote",
            "cluster.host.upstream_cx_destroy_local",
            "cluster.host.upstream_cx_active",
        ],
    );
}
