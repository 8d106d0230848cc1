//! Requests that are answered, or whose clients leave, before all of them is there.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use crate::client::{Client, request};
use crate::ends::same_stats;
use crate::pair::{Directory, Pair};
use crate::proxy::{DEADLINE, wait_for};

const STATS: [&str; 13] = [
    "http.in.downstream_rq_total",
    "http.in.downstream_rq_http1_total",
    "http.in.downstream_rq_completed",
    "http.in.downstream_rq_2xx",
    "http.in.downstream_rq_4xx",
    "http.in.downstream_rq_rx_reset",
    "http.in.downstream_rq_response_before_rq_complete",
    "http.in.downstream_rq_active",
    "http.in.downstream_cx_destroy_remote",
    "http.in.downstream_cx_destroy_active_rq",
    "http.in.downstream_cx_destroy_remote_active_rq",
    "http.in.downstream_cx_protocol_error",
    "http.in.downstream_cx_active",
];

/// What a client does that has sent something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It closes the connection once `http.in.downstream_rq_total` counts so many more.
    Leaves(u64),
    /// It ends its direction then.
    Ends(u64),
    /// It reads to the end.
    Reads,
}

/// The parts of requests, and what follows. Direct responses are those of `/direct`, and the host does not answer `/slow` in time.
const CASES: [(&str, Then); 15] = [
    ("G", Then::Leaves(1)),
    ("GET / HT", Then::Leaves(1)),
    ("GET / HTTP/1.1\r\n", Then::Leaves(1)),
    ("GET / HTTP/1.1\r\nHost: x\r\nX-", Then::Leaves(1)),
    ("GET / HTTP/1.1\r\nHost: x\r\nX-", Then::Ends(1)),
    ("GET /direct HTTP/1.1\r\nHost: x\r\n\r\nGET / HT", Then::Leaves(2)),
    ("PRI * HT", Then::Leaves(1)),
    ("POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", Then::Leaves(1)),
    ("POST /direct HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", Then::Reads),
    ("POST /direct HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", Then::Reads),
    ("POST /direct HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", Then::Reads),
    ("GET /direct HTTP/1.1\r\nConnection: close\r\n\r\n", Then::Reads),
    ("GET /direct HTTP/1.1\r\nHost: x\r\nX y\r\n\r\n", Then::Reads),
    (
        "GET /direct HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        Then::Reads,
    ),
    ("POST /slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Then::Reads),
];

#[test]
fn requests_that_do_not_arrive_as_a_whole_count_as_with_envoy() {
    let pair = Pair::start();
    for (text, then) in CASES {
        let (_, before, _) = pair.stat("http.in.downstream_rq_total");
        let mut streams = pair.ports("$HTTP").map(|port| TcpStream::connect(("127.0.0.1", port)).unwrap());
        for stream in &mut streams {
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
        }
        if let Then::Leaves(count) | Then::Ends(count) = then {
            // Envoy counts it with its first byte, the proxy when it ends: they are waited for with what both count.
            wait_for("Envoy has read it", || {
                (pair.stat("http.in.downstream_rq_total").2 == before + count).then_some(())
            });
        }
        let answers = streams.map(|mut stream| {
            match then {
                Then::Leaves(_) => return String::new(),
                Then::Ends(_) => stream.shutdown(Shutdown::Write).unwrap(),
                Then::Reads => {}
            }
            let mut bytes = Vec::new();
            // What was not read may end it with a reset.
            let _ = stream.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().to_owned()
        });
        assert_eq!(answers[0], answers[1], "{text:?}");
        println!("{text:?}: {:?}", answers[0]);
        same_stats(&pair, &STATS);
    }
    pair.ask(&["GET /ok/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]);
    let [ours, envoys] = pair.logs("/ok/last");
    assert_eq!(ours, envoys, "access logs");
    assert!(ours.starts_with("- - HTTP/1.1 0 DC 0 0 "), "{ours}");
    same_stats(&pair, &STATS);
}

#[test]
fn requests_on_streams_that_are_answered_early_count_as_with_envoy() {
    let text = include_str!("http2.yaml");
    let host = crate::host::Host::start(100);
    let pair = Pair::start_with(Directory::new(), text, &[("$PEER", host.port.to_string())]);
    for port in pair.ports("$HTTP") {
        let client = Client::connect(port);
        for (method, path) in [("POST", "/direct"), ("POST", "/dead"), ("GET", "/direct")] {
            // The request has no end.
            let call = client.send(request(method, path), false).unwrap();
            let _ = call.answer();
        }
        assert!(client.get("/direct").status > 0, "the connection goes on");
    }
    same_stats(
        &pair,
        &[
            "http.in.downstream_rq_total",
            "http.in.downstream_rq_rx_reset",
            "http.in.downstream_rq_response_before_rq_complete",
            "http.in.downstream_cx_destroy_active_rq",
            "http2.rx_reset",
            "http2.tx_reset",
        ],
    );
    assert!(pair.stat("http.in.downstream_rq_rx_reset").1 >= 3);
}
