//! Hosts of HTTP/2.

use std::io::Write as _;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};

use crate::client::{Call, Client, request};
use crate::host::Host;
use crate::peers::{connect, read_head};
use crate::proxy::wait_for;
use crate::scene::Scene;

fn scene(host: &Host) -> Scene {
    Scene::start_before(host.port, host.port)
}

#[test]
fn calls_of_grpc_keep_their_trailers() {
    let host = Host::start(100);
    let scene = scene(&host);
    let client = Client::connect(scene.auto);
    let mut call = request("POST", "/peer/grpc");
    call.headers_mut().insert("te", HeaderValue::from_static("trailers"));
    call.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    let answer = client.ask(call, Some(b"\0\0\0\0\x03abc"), None).unwrap();
    let trailers = answer.trailers.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &b"\0\0\0\0\x03abc"[..]));
    assert_eq!(trailers["grpc-status"], "0");
    assert_eq!(trailers["grpc-message"], "fine");
    let only = client.get("/peer/trailers-only");
    assert_eq!((&only.headers["grpc-status"], only.body.len()), (&HeaderValue::from_static("5"), 0));
    // As clients of HTTP/1.1 read them.
    let blanks = client.get("/peer/blanks");
    assert_eq!(
        (&blanks.headers["x-up"], &blanks.trailers.unwrap()["grpc-message"]),
        (&HeaderValue::from_static("1"), &HeaderValue::from_static("not fine:"))
    );
    // Trailers of a request.
    let mut trailers = HeaderMap::new();
    trailers.insert("x-trailer", HeaderValue::from_static("t"));
    let text = client.ask(request("POST", "/peer/mirror"), Some(b"abc"), Some(trailers)).unwrap().text();
    assert!(
        text.starts_with("POST http://h/peer/mirror\n") && text.ends_with("\n\nabc\nx-trailer: t"),
        "{text}"
    );
    assert!(!text.contains("transfer-encoding") && !text.contains("content-length"), "{text}");
    // What a head says is not said again, by either side.
    for name in ["content-length", "te", "host"] {
        let mut trailers = HeaderMap::new();
        trailers.insert(name, HeaderValue::from_static("trailers"));
        let answer = client.ask(request("POST", "/peer/mirror"), Some(b"abc"), Some(trailers));
        assert!(answer.as_ref().map_or(true, |answer| answer.status == 400), "{name}: {answer:?}");
    }
    // What is beyond the limits would vanish, and the message would be taken for whole.
    let many = |count: usize, length: usize| {
        let mut trailers = HeaderMap::new();
        let value = HeaderValue::try_from("x".repeat(length)).unwrap();
        for _ in 0..count {
            trailers.append("x-trailer", value.clone());
        }
        client.ask(request("POST", "/peer/mirror"), Some(b"abc"), Some(trailers))
    };
    assert_eq!(many(100, 1).unwrap().text().matches("x-trailer").count(), 100);
    for (count, length) in [(101, 1), (1, 70_000), (70, 1000)] {
        let answer = many(count, length);
        assert!(answer.as_ref().map_or(true, |answer| answer.status == 400), "{count} {length}: {answer:?}");
    }
    let answer = client.send(request("GET", "/peer/many-trailers"), true).unwrap().answer();
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(client.get("/peer/big").body.len(), 3 << 20);
    let body = vec![b'y'; 3 << 20];
    assert!(client.ask(request("POST", "/peer/grpc"), Some(&body), None).unwrap().body == body);
    assert_eq!(host.connections.load(Ordering::Relaxed), 1, "they share a connection");
    assert_eq!(scene.proxy.stat("cluster.peer.upstream_cx_http2_total"), 1);
    assert_eq!(scene.proxy.stat("cluster.peer.upstream_rq_2xx"), 8);
    drop(client);
    scene.wait_for_rest();
}

#[test]
fn clients_of_http1_reach_hosts_of_http2() {
    let host = Host::start(100);
    let scene = scene(&host);
    let ask = |text: &str| {
        let mut client = connect(scene.auto);
        client.write_all(text.as_bytes()).unwrap();
        let head = read_head(&mut client).unwrap();
        let mut body = Vec::new();
        let _ = std::io::Read::read_to_end(&mut client, &mut body);
        (head, String::from_utf8_lossy(&body).into_owned())
    };
    let (head, body) = ask(
        "POST /peer/mirror HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("transfer-encoding: chunked\r\n"),
        "{head}"
    );
    assert!(body.contains("POST http://h/peer/mirror\n") && body.contains("abc\r\n0\r\n\r\n"), "{body}");
    assert!(!body.contains("connection:") && !body.contains("transfer-encoding"), "{body}");
    let (head, body) = ask("GET /peer/length HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(head.contains("content-length: 4\r\n") && body == "four", "{head}{body}");
    let (head, _) = ask("GET /peer/empty HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(head.contains("content-length: 0\r\n"), "{head}");
    let (head, body) =
        ask("POST /peer/grpc HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc");
    assert!(
        head.contains("transfer-encoding: chunked\r\n") && body == "3\r\nabc\r\n0\r\n\r\n",
        "{head}{body}"
    );
    scene.wait_for_rest();
}

#[test]
fn connections_have_as_many_requests_as_the_host_takes() {
    let host = Host::start(2);
    let scene = scene(&host);
    let client = Client::connect(scene.auto);
    // The limit of the host is known from its settings.
    assert_eq!(client.get("/peer/empty").status, 200);
    let held: Vec<Call> = (0..5)
        .map(|index| {
            let call = client.send(request("GET", "/peer/hold"), true).unwrap();
            wait_for("it is there", || (host.requests.load(Ordering::Relaxed) == 2 + index).then_some(()));
            call
        })
        .collect();
    assert_eq!(host.connections.load(Ordering::Relaxed), 3);
    assert_eq!(scene.proxy.stat("cluster.peer.upstream_cx_active"), 3);
    assert_eq!(scene.proxy.stat("cluster.peer.upstream_cx_http2_active"), 3);
    for _ in 0..5 {
        host.gate.notify_one();
    }
    for call in held {
        assert_eq!(call.answer().unwrap().status, 200);
    }
    // Of `narrow`, one connection with one request at a time.
    let narrow: Vec<Call> =
        (0..3).map(|_| client.send(request("GET", "/narrow/hold"), true).unwrap()).collect();
    wait_for("one is there", || (host.requests.load(Ordering::Relaxed) == 7).then_some(()));
    wait_for("others wait", || {
        (scene.proxy.stat("cluster.narrow.upstream_rq_pending_active") == 2).then_some(())
    });
    assert_eq!(scene.proxy.stat("cluster.narrow.upstream_cx_total"), 1);
    for count in 0..narrow.len() {
        wait_for("the next one", || (host.requests.load(Ordering::Relaxed) == 7 + count).then_some(()));
        host.gate.notify_one();
    }
    for call in narrow {
        assert_eq!(call.answer().unwrap().status, 200);
    }
    assert_eq!(scene.proxy.stat("cluster.narrow.upstream_cx_total"), 1);
    drop(client);
    scene.wait_for_rest();
}

#[test]
fn what_a_host_refuses_is_sent_again_where_the_route_says_so() {
    let host = Host::start(100);
    let scene = scene(&host);
    let client = Client::connect(scene.auto);
    assert_eq!(client.ask(request("POST", "/peer/refuse-first"), Some(b"abc"), None).unwrap().status, 200);
    assert_eq!(client.get("/peer/unavailable-first").headers["grpc-status"], "0");
    assert_eq!(scene.proxy.stat("cluster.peer.upstream_rq_retry"), 2);
    assert_eq!(scene.proxy.stat("cluster.peer.upstream_rq_retry_success"), 2);
    // A connection that its host ends in order answers what was begun, and others follow on a new one.
    assert_eq!(host.connections.load(Ordering::Relaxed), 1);
    assert_eq!(client.get("/peer/leave").status, 200);
    assert_eq!(client.get("/peer/empty").status, 200);
    assert_eq!(host.connections.load(Ordering::Relaxed), 2);
    // Not by itself.
    for (path, text) in [
        ("/bare/refuse-first", "reset reason: remote refused stream reset"),
        ("/bare/reset", "reset reason: remote reset"),
    ] {
        let answer = client.get(path);
        assert_eq!(answer.status, 503, "{path}");
        assert!(answer.text().ends_with(text), "{path}: {}", answer.text());
    }
    let error = client.send(request("GET", "/bare/reset-late"), true).unwrap().answer().unwrap_err();
    assert_eq!((error.is_reset(), error.reason()), (true, Some(h2::Reason::INTERNAL_ERROR)), "{error}");
    assert_eq!(scene.proxy.stat("cluster.peer.http2.rx_reset"), 4);
    drop(client);
    scene.wait_for_rest();
}

#[test]
fn a_client_that_leaves_resets_the_stream_of_the_host() {
    let host = Host::start(100);
    let scene = scene(&host);
    let client = Client::connect(scene.auto);
    let mut never = client.send(request("POST", "/peer/never"), false).unwrap();
    let held = client.send(request("GET", "/peer/hold"), true).unwrap();
    wait_for("both are there", || (host.requests.load(Ordering::Relaxed) == 2).then_some(()));
    never.body.send_data(Bytes::from_static(b"abc"), false).unwrap();
    never.body.send_reset(h2::Reason::CANCEL);
    wait_for("one is cancelled", || (host.resets.load(Ordering::Relaxed) == 1).then_some(()));
    host.gate.notify_one();
    assert_eq!(held.answer().unwrap().status, 200, "the other is not");
    // A client of HTTP/1.1 that leaves, and a deadline.
    let mut http1 = connect(scene.auto);
    http1.write_all(b"GET /peer/never HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    wait_for("it is there", || (host.requests.load(Ordering::Relaxed) == 3).then_some(()));
    drop(http1);
    wait_for("it is cancelled", || (host.resets.load(Ordering::Relaxed) == 2).then_some(()));
    assert_eq!(client.get("/late/never").status, 504);
    wait_for("it is cancelled, too", || (host.resets.load(Ordering::Relaxed) == 3).then_some(()));
    assert_eq!(host.connections.load(Ordering::Relaxed), 1);
    drop((client, never));
    scene.wait_for_rest();
}

#[test]
fn data_beside_a_status_without_a_body_reaches_nobody() {
    let host = Host::start(100);
    let scene = scene(&host);
    let client = Client::connect(scene.auto);
    for (kind, status) in [("204-data", 204), ("304-data", 304), ("304-length", 304), ("204-length", 502)] {
        let mut http1 = connect(scene.auto);
        for turn in 0..2 {
            write!(http1, "GET /peer/{kind} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            let head = read_head(&mut http1).unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{kind} {turn}: {head}");
            assert!(!head.contains("transfer-encoding"), "{kind}: {head}");
            if status == 502 {
                // The text of the proxy.
                break;
            }
        }
        let answer = client.get(&format!("/peer/{kind}"));
        assert_eq!(answer.status, status, "{kind}");
        assert!(status == 502 || answer.body.is_empty(), "{kind}: {}", answer.text());
    }
    drop(client);
    scene.wait_for_rest();
}

#[test]
fn a_client_that_takes_nothing_leaves_others_on_the_connection_of_the_host_alone() {
    let host = Host::start(100);
    let scene = scene(&host);
    let mut settings = h2::client::Builder::new();
    settings.initial_window_size(0);
    let silent = Client::connect_with(scene.auto, &settings);
    let other = Client::connect(scene.auto);
    for turn in 1..=3 {
        let held = silent.send(request("GET", "/peer/drip"), true).unwrap();
        wait_for("it is there", || (host.requests.load(Ordering::Relaxed) >= 2 * turn - 1).then_some(()));
        let answer = other.get("/peer/big");
        assert_eq!((answer.status, answer.body.len()), (200, 3 << 20));
        drop(held);
    }
    let dripped = other.get("/peer/drip");
    assert_eq!((dripped.status, dripped.body.len()), (200, 100_000));
    assert_eq!(host.connections.load(Ordering::Relaxed), 1);
    assert_eq!(scene.proxy.stat("cluster.peer.upstream_cx_protocol_error"), 0);
    drop((silent, other));
    scene.wait_for_rest();
}

#[test]
fn a_connection_with_many_empty_frames_is_replaced_before_it_ends() {
    let host = Host::start(100);
    let scene = scene(&host);
    let client = Client::connect(scene.auto);
    for turn in 0..130 {
        assert_eq!(client.get("/peer/flush").text(), "flushed", "{turn}");
    }
    assert_eq!(host.connections.load(Ordering::Relaxed), 3);
    assert_eq!(scene.proxy.stat("cluster.peer.upstream_cx_protocol_error"), 0);
    drop(client);
    scene.wait_for_rest();
}

#[test]
fn a_target_that_http2_does_not_have_is_refused_and_is_no_failure_of_the_host() {
    let host = Host::start(100);
    let scene = scene(&host);
    for target in ["/peer/a<b", "/peer/a>b", "/peer/a`b"] {
        let mut client = connect(scene.auto);
        write!(client, "GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let head = read_head(&mut client).unwrap();
        assert!(head.starts_with("HTTP/1.1 400 "), "{target}: {head}");
    }
    assert_eq!(Client::connect(scene.auto).get("/peer/a%3Cb|{}\"").status, 200);
    assert_eq!(scene.proxy.stat("cluster.peer.upstream_rq_total"), 1);
    assert_eq!(host.requests.load(Ordering::Relaxed), 1);
}
