//! Clients that are slow, send too much, reset, or end one direction.

use std::io::Write as _;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::scene::{Scene, ask, connect, pause, read_all, read_exact, read_head, reset, serve, status};

/// A host that answers every request after its body with its path.
fn host() -> u16 {
    serve(|mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            read_exact(&mut stream, length.unwrap_or(0));
            let path = head.split(' ').nth(1).unwrap_or_default();
            if write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()).is_err() {
                return;
            }
        }
    })
}

/// Sends bytes and reads to the end.
fn send(scene: &Scene, bytes: &[u8]) -> String {
    let mut client = scene.connect();
    let _ = client.write_all(bytes);
    read_all(&mut client).unwrap_or_else(|| "reset".to_owned())
}

#[test]
fn heads_and_trailers_are_bounded() {
    let scene = Scene::start(host());
    let filler = "a".repeat(61 << 10);
    let fields = |count: usize| "A: b\r\n".repeat(count - 1);
    let rows = [
        (format!("GET /{filler} HTTP/1.1\r\nHost: h\r\n\r\n"), 431),
        (format!("GET /{filler}"), 431),
        (format!("GET / HTTP/1.1\r\nHost: h\r\nX: {filler}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nHost: h\r\nX: {filler}"), 431),
        (format!("GET / HTTP/1.1\r\nHost: h\r\n{}", "X: y\r\n".repeat(11 << 10)), 431),
        (format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", fields(101)), 431),
        (
            format!(
                "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: {filler}\r\n\r\n"
            ),
            400,
        ),
        (format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: {filler}"), 400),
        (
            format!(
                "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;{filler}\r\nabc\r\n0\r\n\r\n"
            ),
            400,
        ),
        (format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;{filler}"), 400),
        (format!("GET /fine HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{}\r\n", fields(99)), 200),
    ];
    for (text, expected) in rows {
        let response = send(&scene, text.as_bytes());
        assert_eq!(status(&response), expected, "{}: {response}", &text[..text.len().min(80)]);
    }
    scene.wait_for_rest();
}

#[test]
fn a_slow_head_times_out_and_a_slow_body_does_not() {
    let scene = Scene::start(host());
    let mut client = scene.connect();
    client.write_all(b"GET / HT").unwrap();
    let begun = Instant::now();
    let response = read_all(&mut client).unwrap();
    assert_eq!(status(&response), 408, "{response}");
    assert!(begun.elapsed() >= Duration::from_millis(900), "after a second: {:?}", begun.elapsed());
    // An idle connection is no head that was begun, before a request and after it.
    let mut client = scene.connect();
    std::thread::sleep(Duration::from_millis(1300));
    client.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(status(&read_head(&mut client).unwrap()), 200);
    assert_eq!(read_exact(&mut client, 2), b"/a");
    std::thread::sleep(Duration::from_millis(1300));
    client
        .write_all(b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nConnection: close\r\n\r\n")
        .unwrap();
    for byte in b"slowly" {
        std::thread::sleep(Duration::from_millis(300));
        client.write_all(&[*byte]).unwrap();
    }
    assert!(read_all(&mut client).unwrap().ends_with("/b"));
    scene.wait_for_rest();
}

#[test]
fn clients_may_go_at_every_byte() {
    const REQUEST: &[u8] =
        b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: x\r\n\r\n";
    let scene = Scene::start(serve(|mut stream, _| {
        while read_head(&mut stream).is_some() {
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine").is_err() {
                return;
            }
        }
    }));
    for count in 0..=REQUEST.len() {
        for how in 0..3 {
            let mut client = scene.connect();
            client.write_all(&REQUEST[..count]).unwrap();
            match how {
                0 => reset(client),
                1 => drop(client),
                _ => {
                    client.shutdown(Shutdown::Write).unwrap();
                    // Whatever comes, the connection ends.
                    let _ = read_all(&mut client);
                }
            }
        }
    }
    scene.wait_for_rest();
    assert!(ask(scene.http, "/fine").ends_with("fine"));
}

#[test]
fn a_client_that_expects_100_gets_it_before_it_sends() {
    let scene = Scene::start(host());
    let mut client = scene.connect();
    client
        .write_all(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        .unwrap();
    assert_eq!(read_head(&mut client).unwrap(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"abc").unwrap();
    assert_eq!(status(&read_head(&mut client).unwrap()), 200);
    assert_eq!(read_exact(&mut client, 2), b"/a");
    // Who does not send the body after all, but another request, has sent a part of the body.
    let mut client = scene.connect();
    client
        .write_all(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 36\r\nExpect: 100-continue\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\na")
        .unwrap();
    assert_eq!(status(&read_head(&mut client).unwrap()), 200);
    assert_eq!(read_exact(&mut client, 2), b"/a");
    // Without a body there is nothing to wait for.
    let mut client = scene.connect();
    client
        .write_all(b"GET /b HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
        .unwrap();
    let response = read_all(&mut client).unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("/b"), "{response}");
}

#[test]
fn a_client_that_does_not_read_is_waited_for() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let port = serve(move |mut stream, _| {
        if read_head(&mut stream).is_none() || stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").is_err() {
            return;
        }
        while stream.write_all(&[b'x'; 65536]).is_ok() {
            count.fetch_add(65536, Ordering::Relaxed);
        }
    });
    let scene = Scene::start(port);
    let mut client = scene.connect();
    client.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut before = usize::MAX;
    // Until everything on the way is full.
    while before != sent.load(Ordering::Relaxed) || before == 0 {
        before = sent.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(500));
        assert!(before < 64 << 20, "reading pauses while the client does not read");
    }
    reset(client);
    scene.wait_for_rest();
}

#[test]
fn a_flood_of_requests_whose_answers_nobody_reads_is_bounded() {
    let scene = Scene::start(host());
    for path in ["/direct", "/a"] {
        let mut client = scene.connect();
        client.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let requests = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").repeat(1000);
        let mut sent = 0;
        while client.write_all(requests.as_bytes()).is_ok() {
            sent += requests.len();
            assert!(sent < 64 << 20, "reading pauses while nothing is read");
        }
        // Others are served beside it.
        assert!(ask(scene.http, "/fine").ends_with("/fine"));
        reset(client);
    }
    scene.wait_for_rest();
}

#[test]
fn a_flood_of_empty_lines_is_no_request() {
    let scene = Scene::start(host());
    let mut client = scene.connect();
    client.write_all(&b"\r\n".repeat(100_000)).unwrap();
    assert!(ask(scene.http, "/fine").ends_with("/fine"));
    client.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    assert!(read_all(&mut client).unwrap().ends_with("/a"));
    scene.wait_for_rest();
}

#[test]
fn an_invalid_body_after_the_response_began_is_a_protocol_error() {
    let port = serve(|mut stream, _| {
        let _ = read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        while read_head(&mut stream).is_some() {}
    });
    let scene = Scene::start(port);
    let mut client = scene.connect();
    client
        .write_all(b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        .unwrap();
    assert_eq!(status(&read_head(&mut client).unwrap()), 200);
    assert_eq!(read_exact(&mut client, 4), b"half");
    client.write_all(b"no size\r\n").unwrap();
    // The response was begun: its end tells.
    let _ = read_all(&mut client);
    scene.wait_for_rest();
    assert_eq!(scene.proxy.stat("http.in.downstream_cx_protocol_error"), 1);
}

#[test]
fn a_host_in_several_connection_fields_cannot_be_hidden() {
    let port = serve(|mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            if write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len()).is_err() {
                return;
            }
        }
    });
    let scene = Scene::start(port);
    let mut client = connect(scene.http);
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: x-one\r\nConnection: x-two, close\r\nX-One: 1\r\nX-Two: 2\r\nX-Three: 3\r\n\r\n")
        .unwrap();
    let seen = read_all(&mut client).unwrap();
    assert!(!seen.contains("x-one") && !seen.contains("x-two") && seen.contains("x-three: 3"), "{seen}");
    pause();
}

/// What followed the head would be a response to nobody.
#[test]
fn a_refusal_of_head_has_no_body() {
    let scene = Scene::start(serve(|mut stream, _| while read_head(&mut stream).is_some() {}));
    for (method, has_body) in [("HEAD", false), ("POST", true)] {
        let mut client = scene.connect();
        write!(client, "{method} /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
            .unwrap();
        let answer = read_all(&mut client).unwrap_or_default();
        assert_eq!((status(&answer), answer.ends_with("Bad Request")), (400, has_body), "{answer}");
    }
}
