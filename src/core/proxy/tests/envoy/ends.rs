//! Requests and responses that end early, and what ends with a connection, beside Envoy.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::authz::bootstrap_of;
use crate::client::{Client, request, wait};
use crate::pair::{self, Directory, Pair};
use crate::proxy::{DEADLINE, wait_for};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const FILE: &str = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";
const HTTP2: &str = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// A host of HTTP/2 that answers each request with a head, data and a reset, all in one write.
fn cutting() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || cut(stream));
        }
    });
    port
}

fn cut(mut stream: TcpStream) -> Option<()> {
    let frame = |kind: u8, flags: u8, stream: &[u8], payload: &[u8]| {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags][..], stream, payload].concat()
    };
    stream.read_exact(&mut [0; 24]).ok()?;
    stream.write_all(&frame(4, 0, &[0; 4], b"")).ok()?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let [a, b, c, kind, flags, id @ ..] = head;
        let mut payload = vec![0; usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)];
        stream.read_exact(&mut payload).ok()?;
        match kind {
            // HEADERS: `:status: 200`, data, and a reset for an error within the host.
            1 => {
                let answer =
                    [frame(1, 4, &id, &[0x88]), frame(0, 0, &id, b"half"), frame(3, 0, &id, &[0, 0, 0, 2])];
                stream.write_all(&answer.concat()).ok()?;
            }
            4 if flags & 1 == 0 => stream.write_all(&frame(4, 1, &[0; 4], b"")).ok()?,
            6 if flags & 1 == 0 => stream.write_all(&frame(6, 1, &[0; 4], &payload)).ok()?,
            _ => {}
        }
    }
}

/// A host of HTTP/1.1 that answers as the path says.
fn telling() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") {
                    if stream.read(&mut byte).unwrap_or(0) == 0 {
                        return;
                    }
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let answer = match head.split(' ').nth(1).unwrap_or_default() {
                    "/426" => {
                        "HTTP/1.1 426 X\r\nUpgrade: other, websocket\r\nConnection: Upgrade, close\r\nContent-Length: 2\r\n\r\nno"
                    }
                    "/426/twice" => {
                        "HTTP/1.1 426 X\r\nUpgrade: other\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n"
                    }
                    "/403" => {
                        "HTTP/1.1 403 X\r\nUpgrade: other\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n"
                    }
                    "/101" => {
                        "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\nhello"
                    }
                    _ => "HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\nhalf",
                };
                let _ = stream.write_all(answer.as_bytes());
            });
        }
    });
    port
}

fn bootstrap(cutting: u16, telling: u16) -> String {
    let log = "%REQ(:PATH)% %PROTOCOL% %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %BYTES_RECEIVED% %BYTES_SENT%\\n";
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
          request_timeout: 1s
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
              - {{match: {{prefix: /cut}}, route: {{cluster: cutting}}}}
              - {{match: {{prefix: /ok}}, route: {{cluster: backend}}}}
              - {{match: {{prefix: /retry/}}, route: {{cluster: backend, prefix_rewrite: /, retry_policy: {{retry_on: 5xx, num_retries: 1}}}}}}
              - {{match: {{prefix: /}}, route: {{cluster: telling}}}}"#
    );
    let cluster = |name: &str, port: u16, fields: &str| {
        format!(
            "  - name: {name}\n{fields}    connect_timeout: 5s\n    load_assignment: {{cluster_name: {name}, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}]}}]}}\n"
        )
    };
    let options = format!(
        "    typed_extension_protocol_options: {{envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {{'@type': {HTTP2}, explicit_http_config: {{http2_protocol_options: {{}}}}}}}}\n"
    );
    bootstrap_of(&listener, &[]) + &cluster("cutting", cutting, &options) + &cluster("telling", telling, "")
}

/// Compares statistics, once both have counted.
pub(crate) fn same_stats(pair: &Pair, names: &[&str]) {
    let all = || {
        names.iter().fold([String::new(), String::new()], |[ours, envoys], name| {
            let (name, ours_is, envoys_is) = pair.stat(name);
            [format!("{ours}{name}: {ours_is}\n"), format!("{envoys}{name}: {envoys_is}\n")]
        })
    };
    // The end of a connection is counted a little later.
    let begun = Instant::now();
    loop {
        let [ours, envoys] = all();
        if ours == envoys || begun.elapsed() > Duration::from_secs(20) {
            return assert_eq!(ours, envoys);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends parts with pauses between them, and shows what comes back, and after how many seconds the connection has ended.
fn slowly(port: u16, parts: &[&str], pause: Duration) -> (String, u64) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut sending = stream.try_clone().unwrap();
    let begun = Instant::now();
    let mut bytes = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for part in parts {
                let _ = sending.write_all(part.as_bytes());
                std::thread::sleep(pause);
            }
        });
        let _ = stream.read_to_end(&mut bytes);
    });
    (pair::shown(&bytes, false), begun.elapsed().as_secs())
}

#[test]
fn the_time_of_a_request_begins_with_its_first_byte_as_with_envoy() {
    let pair = Pair::start_with(Directory::new(), &bootstrap(cutting(), telling()), &[]);
    let pause = Duration::from_millis(700);
    for parts in [
        &["GET /ok"][..],
        &["GET /ok HTTP/1.1\r\nHost: x\r\n"],
        &["GET /ok/a HTTP/1.1\r\n", "Host: x\r\n", "X-A: 1\r\n", "Connection: close\r\n\r\n"],
        // The head in time, and the body not.
        &["POST /ok/b HTTP/1.1\r\n", "Host: x\r\nContent-Length: 3\r\n\r\n", "abc"],
        &["GET /ok/c HTTP/1.1\r\n", "Host: x\r\nConnection: close\r\n\r\n"],
    ] {
        let [ours, envoys] = pair.ports("$HTTP").map(|port| slowly(port, parts, pause));
        assert_eq!(ours.0, envoys.0, "{parts:?}");
        assert_eq!(ours.0.contains("request timeout"), !parts[0].contains("/ok/c"), "{}", ours.0);
        assert!(ours.1 <= 10, "{parts:?}: {} seconds", ours.1);
    }
    pair.ask(&["GET /ok/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]);
    let [ours, envoys] = pair.logs("/ok/last");
    assert_eq!(ours, envoys, "access logs");
    assert_eq!(ours.matches(" 408 - request_overall_timeout ").count(), 4, "{ours}");
    same_stats(
        &pair,
        &["http.in.downstream_rq_timeout", "http.in.downstream_rq_total", "http.in.downstream_rq_4xx"],
    );
}

#[test]
fn what_precedes_a_reset_of_the_host_arrives_as_with_envoy() {
    let pair = Pair::start_with(Directory::new(), &bootstrap(cutting(), telling()), &[]);
    let clients = pair.ports("$HTTP").map(Client::connect);
    for _ in 0..20 {
        let answers = clients.each_ref().map(|client| {
            let call = client.send(request("GET", "/cut/http2"), true).unwrap();
            wait(async {
                let response = call.response.await.expect("the head arrives");
                let status = response.status().as_u16();
                let (mut body, mut data) = (response.into_body(), Vec::new());
                let end = loop {
                    match body.data().await {
                        Some(Ok(piece)) => data.extend_from_slice(&piece),
                        Some(Err(error)) => break error.is_reset(),
                        None => break false,
                    }
                };
                (status, String::from_utf8(data).unwrap(), end)
            })
        });
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[0], (200, "half".to_owned(), true));
    }
    for path in ["/cut/http1", "/half"] {
        let [ours, envoys] = pair
            .ask(&[&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")])
            .map(|answer| answer.replace("reset", "end"));
        assert_eq!(ours, envoys, "{path}");
    }
    pair.ask(&["GET /ok/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]);
    let [ours, envoys] = pair.logs("/ok/last");
    assert_eq!(ours, envoys, "access logs");
    assert_eq!(ours.matches("{remote_reset} 0 4\n").count(), 21, "{ours}");
    same_stats(
        &pair,
        &[
            "http.in.downstream_cx_destroy_active_rq",
            "http.in.downstream_cx_destroy_local_active_rq",
            "http.in.downstream_cx_destroy_remote_active_rq",
            "http.in.downstream_cx_destroy_remote",
            "http.in.downstream_cx_destroy_local",
            "cluster.cutting.upstream_rq_rx_reset",
        ],
    );
}

#[test]
fn upgrades_and_classes_of_statuses_are_those_of_envoy() {
    let pair = Pair::start_with(Directory::new(), &bootstrap(cutting(), telling()), &[]);
    for (path, fields) in [
        ("/426", ""),
        ("/426/twice", ""),
        ("/403", ""),
        ("/426", "Connection: Upgrade\r\nUpgrade: websocket\r\n"),
        ("/101", "Connection: Upgrade\r\nUpgrade: websocket\r\n"),
    ] {
        let get = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        let [ours, envoys] = pair.ports("$HTTP").map(|port| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.write_all(get.as_bytes()).unwrap();
            let (mut bytes, mut byte) = (Vec::new(), [0]);
            let end: &[u8] = if path == "/101" { b"hello" } else { b"\r\n\r\n" };
            while !bytes.ends_with(end) && stream.read(&mut byte).unwrap() == 1 {
                bytes.push(byte[0]);
            }
            pair::shown(&bytes, false)
        });
        // A 426 without them says nothing, which Envoy does not keep.
        let without = |shown: &str| {
            let is_kept = |line: &&str| !line.starts_with("upgrade: ") && !line.starts_with("connection: ");
            shown.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
        };
        match path.starts_with("/426") {
            true => {
                assert_eq!(without(&ours), without(&envoys), "{get}");
                assert!(
                    ours.contains("\nupgrade: other") && ours.contains("\nconnection: upgrade"),
                    "{ours}"
                );
            }
            false => assert_eq!(ours, envoys, "{get}"),
        }
        assert_eq!(ours.contains("\nupgrade: "), path != "/403", "{ours}");
    }
    for path in ["/ok", "/retry/status/503", "/retry/status/200"] {
        pair.ask(&[&format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")]);
    }
    let names: Vec<String> = ["", "external.", "retry."]
        .iter()
        .flat_map(|of| {
            ["1xx", "2xx", "4xx", "5xx", "completed", "200", "426"]
                .map(|name| format!("{of}upstream_rq_{name}"))
        })
        .flat_map(|name| ["backend", "telling"].map(|cluster| format!("cluster.{cluster}.{name}")))
        .collect();
    wait_for("they are counted", || {
        (pair.stat("cluster.backend.external.upstream_rq_2xx").2 > 0).then_some(())
    });
    same_stats(&pair, &names.iter().map(String::as_str).collect::<Vec<_>>());
}
