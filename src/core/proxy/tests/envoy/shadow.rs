//! Copies of requests: the same ones reach the same hosts, and clients do not notice them.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, Response};

use super::backend;
use super::client::{self, Client, RUNTIME};
use super::pair::{self, Directory, Pair};
use super::proxy::wait_for;

/// What a host received.
type Received = Arc<Mutex<Vec<String>>>;

/// A host of HTTP/2 that answers everything with 200.
fn peer() -> (u16, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let (port, received) = (listener.local_addr().unwrap().port(), Received::default());
    let kept = Arc::clone(&received);
    RUNTIME.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((stream, _)) = listener.accept().await {
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let kept = Arc::clone(&kept);
                    tokio::spawn(async move {
                        let shown = shown_http2(request).await;
                        kept.lock().unwrap().push(shown);
                        let _ = respond.send_response(Response::new(()), true);
                    });
                }
            });
        }
    });
    (port, received)
}

async fn shown_http2(request: Request<h2::RecvStream>) -> String {
    let (head, mut stream) = request.into_parts();
    let fields = |headers: &HeaderMap| {
        let field = |(name, value): (&http::HeaderName, &HeaderValue)| {
            format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
        };
        let mut lines: Vec<String> = headers.iter().map(field).collect();
        lines.sort();
        lines.join("\n")
    };
    let mut body = Vec::new();
    while let Some(Ok(data)) = stream.data().await {
        body.extend_from_slice(&data);
        let _ = stream.flow_control().release_capacity(data.len());
    }
    let trailers = stream.trailers().await.ok().flatten().as_ref().map(fields);
    let (text, body) = (fields(&head.headers), String::from_utf8_lossy(&body));
    pair::masked(&format!("{} {}\n{text}\n\n{body}\n{trailers:?}", head.method, head.uri))
}

/// The address that a proxy appends is that of the machine with Envoy, and the one that the client came to with us.
fn without_own_address(request: &str) -> String {
    let line = |line: &str| match line.strip_prefix("x-forwarded-for: ") {
        Some(addresses) => {
            let before = addresses.rsplit_once(',').map_or("", |(before, _)| before);
            format!("x-forwarded-for: {before}|")
        }
        None => line.to_owned(),
    };
    request.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn request(method: &str, path: &str, host: &str, rest: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{rest}")
}

/// What is sent, and how many copies arrive.
fn cases() -> Vec<(Vec<String>, usize)> {
    let get = |path: &str| vec![request("GET", path, "x.test:81", "\r\n")];
    let with = |path: &str, header: &str| vec![request("GET", path, "x", &format!("{header}\r\n\r\n"))];
    let of = |host: &str| vec![request("GET", "/ok", host, "\r\n")];
    let post = |rest: &str| vec![request("POST", "/ok", "x", rest)];
    let long = "0123456789abcdef".repeat(30 << 10);
    vec![
        (get("/ok"), 1),
        (of("x"), 1),
        (of("[::1]:80"), 1),
        (of("[::1]"), 1),
        (vec![request("HEAD", "/ok", "x", "\r\n")], 1),
        (with("/ok", "X-Forwarded-For: 203.0.113.9\r\nX-Request-Id: abc\r\nX-Envoy-Internal: no"), 1),
        (post("Content-Length: 5\r\n\r\nhello"), 1),
        (post("Content-Length: 0\r\n\r\n"), 1),
        (post("\r\n"), 1),
        (post("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"), 1),
        (
            vec![
                request("POST", "/ok", "x", "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"),
                "hello".to_owned(),
            ],
            1,
        ),
        (post(&format!("Content-Length: {}\r\n\r\n{long}", long.len())), 1),
        (vec![request("POST", "/ok", "x", "Content-Length: 10\r\n\r\nhello"), "world".to_owned()], 1),
        (get("/two"), 2),
        (get("/none"), 0),
        (get("/all"), 1),
        (get("/header"), 0),
        (with("/header", "X-Shadow: shadow"), 1),
        (with("/header", "X-Shadow: nothing"), 0),
        (vec![request("GET", "/header-of-host", "shadow", "\r\n")], 1),
        (vec![request("GET", "/header-of-host", "x", "\r\n")], 0),
        (with("/rewrite/a?b=c", "X-Removed: 1"), 1),
        (get("/table"), 1),
        (get("/direct"), 0),
        (get("/missing"), 1),
        (vec![request("GET", "/", "own.test", "\r\n")], 1),
        (vec![request("GET", "/route", "own.test", "\r\n")], 1),
        (get("/dead"), 0),
        (vec![request("POST", "/dead", "x", "Content-Length: 5\r\n\r\nhello")], 0),
        (get("/empty"), 0),
        (get("/limited"), 0),
        (get("/no-host"), 0),
        (get("/status/503"), 1),
        (get("/slow"), 1),
        (get("/peer/get"), 1),
        (vec![request("POST", "/peer/post", "x", "Content-Length: 5\r\n\r\nhello")], 1),
        (
            vec![request(
                "POST",
                "/peer/chunked",
                "x",
                "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            )],
            1,
        ),
    ]
}

const STATS: [&str; 30] = [
    "cluster.shadow.upstream_rq_total",
    "cluster.shadow.upstream_rq_completed",
    "cluster.shadow.upstream_rq_200",
    "cluster.shadow.internal.upstream_rq_200",
    "cluster.shadow.external.upstream_rq_200",
    "cluster.shadow.upstream_rq_timeout",
    "cluster.backend.internal.upstream_rq_200",
    "cluster.backend.external.upstream_rq_200",
    "cluster.backend.external.upstream_rq_503",
    "cluster.backend.upstream_rq_200",
    "cluster.backend.upstream_rq_retry",
    "cluster.table.internal.upstream_rq_200",
    "cluster.vhost.internal.upstream_rq_200",
    "cluster.failing.internal.upstream_rq_503",
    "cluster.failing.upstream_rq_5xx",
    "cluster.failing.upstream_rq_retry",
    "cluster.late.internal.upstream_rq_504",
    "cluster.late.upstream_rq_timeout",
    "cluster.dead.internal.upstream_rq_503",
    "cluster.dead.upstream_cx_connect_fail",
    "cluster.dead.upstream_rq_pending_failure_eject",
    "cluster.empty.internal.upstream_rq_503",
    "cluster.empty.external.upstream_rq_503",
    "cluster.empty.upstream_cx_none_healthy",
    "cluster.limited.internal.upstream_rq_503",
    "cluster.limited.upstream_rq_active_overflow",
    "cluster.peer.internal.upstream_rq_200",
    "cluster.peer.upstream_rq_total",
    "http.in.downstream_rq_total",
    "http.in.downstream_rq_2xx",
];

/// The requests that arrive at these hosts, once there are so many; a further one would arrive with the next.
fn arrived(hosts: &[Received], count: usize, what: &str) -> Vec<String> {
    let taken = wait_for(what, || {
        let there: usize = hosts.iter().map(|host| host.lock().unwrap().len()).sum();
        (there >= count).then(|| hosts.iter().flat_map(|host| std::mem::take(&mut *host.lock().unwrap())))
    });
    let mut taken: Vec<String> = taken.map(|request| without_own_address(&request)).collect();
    taken.sort();
    taken
}

#[test]
fn copies_of_requests_are_those_of_envoy() {
    let (shadow, received) = backend::recording();
    let (peer, received_http2) = peer();
    let hosts = [received, received_http2];
    // Connections are taken, and nothing is read from them.
    let stalled = TcpListener::bind("127.0.0.1:0").unwrap();
    let others = [
        ("$SHADOW", shadow.to_string()),
        ("$PEER", peer.to_string()),
        ("$QUICK", backend::named("main").to_string()),
        ("$STALLED", stalled.local_addr().unwrap().port().to_string()),
    ];
    let pair = Pair::start_with(Directory::new(), include_str!("shadow.yaml"), &others);
    let ports = pair.ports("$HTTP");
    let mut differences = Vec::new();
    let mut compare = |what: &str, ours: String, envoys: String| {
        if ours != envoys {
            differences.push(format!("{what}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
    };
    for (parts, count) in cases() {
        let what = parts[0].lines().next().unwrap_or_default().to_owned();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let [ours, envoys] = ports.map(|port| {
            let answer = pair::ask(port, &parts);
            (answer, arrived(&hosts, count, &what).join("\n=====\n"))
        });
        compare(&what, ours.0, envoys.0);
        compare(&format!("copy of {what}"), ours.1, envoys.1);
    }
    // Clients of HTTP/2, with trailers.
    for path in ["/ok/http2", "/peer/http2"] {
        let [ours, envoys] = ports.map(|port| {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-trailer", HeaderValue::from_static("t"));
            let answer =
                Client::connect(port).ask(client::request("POST", path), Some(b"abc"), Some(trailers));
            let answer = answer.map(|answer| (answer.status, pair::masked(&answer.text())));
            (format!("{answer:?}"), arrived(&hosts, 1, path).join("\n=====\n"))
        });
        compare(path, ours.0, envoys.0);
        compare(&format!("copy of {path}"), ours.1, envoys.1);
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    // A client that leaves within its request: the copy ends, too.
    for port in ports {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(request("POST", "/cut", "x", "Content-Length: 10\r\n\r\nhello").as_bytes()).unwrap();
        wait_for("the copy is on its way", || {
            let (_, ours, envoys) = pair.stat("cluster.cut.upstream_rq_total");
            (if port == ports[0] { ours } else { envoys } == 1).then_some(())
        });
    }
    wait_for("the copy ends with its request", || {
        let (_, ours, envoys) = pair.stat("cluster.cut.upstream_cx_destroy_local_with_active_rq");
        (ours == 1 && envoys == 1).then_some(())
    });
    // What times out does so after the response.
    wait_for("the late copy is given up", || {
        let (_, ours, envoys) = pair.stat("cluster.late.upstream_rq_timeout");
        (ours == 1 && envoys == 1).then_some(())
    });
    let [ours, envoys] = STATS.map(|name| pair.stat(name)).into_iter().fold(
        [String::new(), String::new()],
        |[ours, envoys], (name, ours_is, envoys_is)| {
            [format!("{ours}{name}: {ours_is}\n"), format!("{envoys}{name}: {envoys_is}\n")]
        },
    );
    assert_eq!(ours, envoys, "statistics");
    assert!(pair.stat("cluster.shadow.internal.upstream_rq_200").1 > 10, "they are counted");
    pair.ask(&[&request("GET", "/ok/last", "x", "\r\n")]);
    let [ours, envoys] = pair.logs("/ok/last");
    assert_eq!(ours, envoys, "access logs");
    // Envoy has the client wait for such a host. Here, the copy ends.
    let body = "0123456789abcdef".repeat(1 << 20);
    let head = format!("Content-Length: {}\r\n\r\n", body.len());
    let answer = pair::ask(ports[0], &[&request("POST", "/stalled", "x", &head), &body]);
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains(&body), "{} bytes", answer.len());
    wait_for("the copy is given up", || {
        (pair.stat("cluster.stalled.upstream_rq_pending_overflow").1 == 1).then_some(())
    });
    drop(stalled);
}

/// The host of the copies takes connections, and never answers.
#[test]
fn a_copy_never_delays_a_request() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let others = [
        ("$SHADOW", silent.local_addr().unwrap().port().to_string()),
        ("$PEER", silent.local_addr().unwrap().port().to_string()),
        ("$QUICK", backend::named("main").to_string()),
        ("$STALLED", silent.local_addr().unwrap().port().to_string()),
    ];
    let pair = Pair::start_with(Directory::new(), include_str!("shadow.yaml"), &others);
    let [port, _] = pair.ports("$HTTP");
    let begun = std::time::Instant::now();
    for _ in 0..20 {
        let answer = pair::ask(port, &[&request("GET", "/peer", "x", "\r\n")]);
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    wait_for("copies wait for their answers", || {
        (pair.stat("cluster.peer.upstream_rq_active").1 == 20).then_some(())
    });
    drop(silent);
}
