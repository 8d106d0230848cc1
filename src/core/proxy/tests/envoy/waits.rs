//! Requests that wait for a connection to their host, or for a retry, beside Envoy: when they end, with what, and how that counts.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::authz::bootstrap_of;
use crate::client::{Client, request};
use crate::pair::{self, Directory, Pair};
use crate::proxy::{DEADLINE, wait_for};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const FILE: &str = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";

/// A port that takes no connections: its queue is full for as long as the sockets are kept.
fn full() -> (Vec<socket2::Socket>, u16) {
    let new = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let listener = new();
    listener.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut sockets = vec![listener];
    for _ in 0..3 {
        let socket = new();
        socket.set_nonblocking(true).unwrap();
        let _ = socket.connect(&address);
        sockets.push(socket);
    }
    (sockets, address.as_socket().unwrap().port())
}

fn bootstrap(full: u16) -> String {
    let log = "%REQ(:PATH)% %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %BYTES_RECEIVED% %BYTES_SENT%\\n";
    let listener = |name: &str, port: &str, limit: &str| {
        format!(
            r#"
  - name: {name}
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          '@type': {MANAGER}
          stat_prefix: {name}
          server_name: edge
          {limit}
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
              - {{match: {{prefix: /soon/}}, route: {{cluster: full, timeout: 1s}}}}
              - {{match: {{prefix: /full/}}, route: {{cluster: full, timeout: 60s}}}}
              - {{match: {{prefix: /slow/}}, route: {{cluster: slow, timeout: 60s}}}}
              - match: {{prefix: /pause/soon/}}
                route: {{cluster: paused, timeout: 1s, retry_policy: &retry {{retry_on: connect-failure, retry_back_off: {{base_interval: 2000s, max_interval: 2000s}}}}}}
              - {{match: {{prefix: /pause/}}, route: {{cluster: paused, timeout: 60s, retry_policy: *retry}}}}"#
        )
    };
    let listeners = [
        listener("late", "$HTTP", "request_timeout: 1s"),
        listener("idle", "$TLS", "stream_idle_timeout: 1s"),
        listener("none", "$REQUIRED", ""),
    ];
    let cluster = |name: &str, port: &str, timeout: &str| {
        format!(
            "  - {{name: {name}, connect_timeout: {timeout}, circuit_breakers: {{thresholds: [{{max_retries: 100}}]}}, load_assignment: {{cluster_name: {name}, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}]}}]}}}}\n"
        )
    };
    bootstrap_of(&listeners.concat(), &[])
        + &cluster("full", &full.to_string(), "30s")
        + &cluster("slow", &full.to_string(), "1s")
        + &cluster("paused", "$DEAD", "5s")
}

/// The parts of a request, each sent after so many tenths of a second.
type Parts<'p> = &'p [(u64, &'p str)];

/// The status and the body of the answer to a request that comes in parts, and after how long it came.
fn answer(port: u16, head: &str, parts: Parts<'_>) -> (String, Duration) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut sending = stream.try_clone().unwrap();
    let begun = Instant::now();
    sending.write_all(head.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for (pause, part) in parts {
                std::thread::sleep(Duration::from_millis(pause * 100));
                if sending.write_all(part.as_bytes()).is_err() {
                    return;
                }
            }
        });
        let mut piece = [0; 4096];
        while !String::from_utf8_lossy(&bytes).contains("\r\n\r\n") {
            match stream.read(&mut piece).unwrap_or(0) {
                0 => break,
                count => bytes.extend_from_slice(&piece[..count]),
            }
        }
    });
    // What has arrived of a body and was not sent is read by nobody: here it ends the connection, and Envoy has it behind itself.
    let shown = pair::shown(&bytes, false).replace("connection: close\n", "");
    (shown, begun.elapsed())
}

#[test]
fn requests_that_wait_to_be_sent_end_as_with_envoy() {
    let (_sockets, port) = full();
    let pair = Pair::start_with(Directory::new(), &bootstrap(port), &[]);
    let drip: Vec<(u64, &str)> = vec![(4, "x"); 8];
    let chunked = "Transfer-Encoding: chunked\r\n\r\n";
    let ten = "Content-Length: 10\r\n\r\n";
    // The port, the path, what follows the other fields, and later; the status, and after how many tenths of a second it is to come.
    let cases: &[(&str, &str, &str, Parts<'_>, u16, u64)] = &[
        ("$HTTP", "/full/late", "Content-Length: 10\r\n\r\nabc", &[], 408, 10),
        ("$HTTP", "/full/late-chunked", chunked, &[(3, "3\r\nabc\r\n"), (3, "1\r\nx")], 408, 10),
        ("$HTTP", "/soon/complete", "Content-Length: 3\r\n\r\nabc", &[], 504, 10),
        ("$HTTP", "/soon/in-time", ten, &[(6, "0123456789")], 504, 16),
        (
            "$HTTP",
            "/soon/in-time-chunked",
            chunked,
            &[(3, "3\r\nabc\r\n0\r"), (3, "\nx: y\r\n\r\n")],
            504,
            16,
        ),
        ("$HTTP", "/pause/late", "Content-Length: 10\r\n\r\nabc", &[], 408, 10),
        ("$TLS", "/full/idle", "Content-Length: 10\r\n\r\nabc", &[], 408, 10),
        ("$TLS", "/full/idle-complete", "Content-Length: 3\r\n\r\nabc", &[], 504, 10),
        ("$TLS", "/full/drip", ten, &drip, 408, 42),
        ("$TLS", "/full/drip-complete", "Content-Length: 3\r\n\r\n", &drip[..3], 504, 22),
        ("$TLS", "/pause/idle", "\r\n", &[], 504, 10),
        ("$TLS", "/pause/idle-incomplete", "Content-Length: 10\r\n\r\nabc", &[], 408, 10),
        ("$REQUIRED", "/soon/later", ten, &[(15, "0123456789")], 504, 25),
        ("$REQUIRED", "/slow/incomplete", "Content-Length: 10\r\n\r\nabc", &[], 503, 10),
        ("$REQUIRED", "/full/invalid", chunked, &[(3, "zz\r\n")], 400, 3),
        ("$REQUIRED", "/pause/soon/timeout", "\r\n", &[], 504, 10),
    ];
    let asked: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = cases
            .iter()
            .map(|(port, path, fields, parts, ..)| {
                let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\n{fields}");
                pair.ports(port).map(|port| {
                    let head = head.clone();
                    scope.spawn(move || answer(port, &head, parts))
                })
            })
            .collect();
        asking.into_iter().map(|sides| sides.map(|side| side.join().unwrap())).collect()
    });
    let mut differences = Vec::new();
    for ((_, path, _, _, status, tenths), [ours, envoys]) in cases.iter().zip(asked) {
        if ours.0 != envoys.0 || !ours.0.starts_with(&format!("HTTP/1.1 {status} ")) {
            differences.push(format!("{path}\n--- proxy\n{}\n--- envoy\n{}\n", ours.0, envoys.0));
        }
        let expected = Duration::from_millis(tenths * 100);
        let (least, most) = (expected.saturating_sub(Duration::from_millis(100)), Duration::from_secs(20));
        assert!(ours.1 >= least && ours.1 < expected + most, "{path}: {:?}, Envoy {:?}", ours.1, envoys.1);
    }
    // Streams of HTTP/2.
    for (path, is_completed, status) in [("/full/http2", false, 408), ("/soon/http2", true, 504)] {
        let answers = pair.ports("$HTTP").map(|port| {
            let client = Client::connect(port);
            let mut call = client.send(request("POST", path), false).unwrap();
            call.body.send_data(Bytes::from_static(b"abc"), false).unwrap();
            if is_completed {
                std::thread::sleep(Duration::from_millis(300));
                call.body.send_data(Bytes::from_static(b"def"), true).unwrap();
            }
            let answer = call.answer().unwrap();
            (answer.status, answer.text())
        });
        assert_eq!(answers[0], answers[1], "{path}");
        assert_eq!(answers[0].0, status, "{path}");
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    pair.ask(&["GET /ok/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]);
    let [ours, envoys] = pair.logs("/ok/last").map(|log| {
        let mut lines: Vec<_> = log.lines().map(str::to_owned).collect();
        lines.sort();
        lines.join("\n")
    });
    assert_eq!(ours, envoys, "access logs");
    let names: Vec<String> = ["late", "idle", "none"]
        .iter()
        .flat_map(|manager| {
            ["rq_timeout", "rq_idle_timeout", "rq_4xx", "rq_5xx", "rq_total"]
                .map(|name| format!("http.{manager}.downstream_{name}"))
        })
        .chain(["full", "slow", "paused"].iter().flat_map(|cluster| {
            [
                "upstream_rq_cancelled",
                "upstream_rq_pending_total",
                "upstream_rq_pending_active",
                "upstream_rq_timeout",
                "upstream_rq_504",
                "upstream_rq_503",
                "upstream_rq_completed",
                "upstream_rq_retry",
                "upstream_rq_retry_backoff_exponential",
                "upstream_rq_total",
            ]
            .map(|name| format!("cluster.{cluster}.{name}"))
        }))
        .collect();
    let stats = || {
        let stats: Vec<_> = names.iter().map(|name| pair.stat(name)).collect();
        let side = |value: fn(&(&str, u64, u64)) -> u64| {
            stats.iter().map(|stat| format!("{}: {}\n", stat.0, value(stat))).collect::<String>()
        };
        [side(|stat| stat.1), side(|stat| stat.2)]
    };
    wait_for("all have ended", || {
        (pair.stat("cluster.full.upstream_rq_pending_active").1 == 0).then_some(())
    });
    let [ours, envoys] = stats();
    assert_eq!(ours, envoys, "statistics");
}
