//! Hosts that answer garbage, too much, too early, or nothing.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::proxy::wait_for;
use crate::scene::{Scene, ask, connect, pause, read_all, read_exact, read_head, reset, serve, status};

/// A host that answers the request for `/n` with the text number `n`, and keeps the connection unless `closes`.
fn scripted(texts: &'static [&'static [u8]], closes: bool) -> u16 {
    serve(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let path = head.split(' ').nth(1).unwrap_or_default();
            let number: Option<usize> = path.trim_start_matches('/').parse().ok();
            let text = number.and_then(|number| texts.get(number).copied());
            let text = text.unwrap_or(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine");
            if stream.write_all(text).is_err() || (closes && number.is_some()) {
                return;
            }
        }
    })
}

/// Responses that no strict reader takes: the client gets 502, and none of their bytes.
const INVALID: &[&[u8]] = &[
    b"garbage\r\n\r\n",
    b"\r\n\r\n",
    b"HTTP/1.1\r\n\r\n",
    b"HTTP/1.1 \r\n\r\n",
    b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 0200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"ICY 200 OK\r\nContent-Length: 0\r\n\r\n",
    b" HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\n\r\n",
    b"HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 O\rK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n Content-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: a\0\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0, 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nabcde",
    b"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\nabcdeHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
];

#[test]
fn invalid_responses_are_not_forwarded() {
    let scene = Scene::start(scripted(INVALID, true));
    let mut wrong = Vec::new();
    for (number, text) in INVALID.iter().enumerate() {
        let response = ask(scene.http, &format!("/{number}"));
        if !response.starts_with("HTTP/1.1 502 Bad Gateway\r\n") || !response.ends_with("protocol error") {
            wrong.push(format!("{}: {response}", text.escape_ascii()));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), INVALID.len(), wrong.join("\n"));
    let large = scene.proxy.stat("cluster.host.upstream_cx_protocol_error");
    assert_eq!(large, INVALID.len() as u64);
    scene.wait_for_rest();
}

/// Responses with more behind them, which must not become the next response.
const TOO_MUCH: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
    b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\npoison",
];

#[test]
fn what_follows_a_response_is_not_the_next_one() {
    let scene = Scene::start(scripted(TOO_MUCH, false));
    for (number, text) in TOO_MUCH.iter().enumerate() {
        for next in ["/next", "/next"] {
            let mut client = scene.connect();
            write!(client, "GET /{number} HTTP/1.1\r\nHost: h\r\n\r\nGET {next} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                .unwrap();
            let responses = read_all(&mut client).unwrap();
            assert!(responses.ends_with("\r\n\r\nfine"), "{}: {responses}", text.escape_ascii());
            assert!(!responses.contains("poison"), "{}: {responses}", text.escape_ascii());
        }
    }
    // A body where none belongs, to a request that has no response body.
    let mut client = scene.connect();
    client
        .write_all(
            b"HEAD /0 HTTP/1.1\r\nHost: h\r\n\r\nGET /next HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let responses = read_all(&mut client).unwrap();
    assert!(responses.ends_with("\r\n\r\nfine") && !responses.contains("poison"), "{responses}");
}

#[test]
fn a_response_without_content_has_no_length() {
    let scene = Scene::start(scripted(&[b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"], false));
    let response = ask(scene.http, "/0");
    assert!(response.starts_with("HTTP/1.1 204 ") && !response.contains("content-length"), "{response}");
}

#[test]
fn a_connection_on_which_a_host_speaks_unasked_is_not_used() {
    let port = serve(|mut stream, _| {
        while read_head(&mut stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine");
            pause();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
        }
    });
    let scene = Scene::start(port);
    let mut client = scene.connect();
    for _ in 0..3 {
        client.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert_eq!(status(&read_head(&mut client).unwrap()), 200);
        assert_eq!(read_exact(&mut client, 4), b"fine");
        pause();
        pause();
    }
    assert!(scene.proxy.stat("cluster.host.upstream_cx_total") >= 3);
}

#[test]
fn a_host_that_never_answers_times_out() {
    let scene = Scene::start(serve(|mut stream, _| drop(stream.read_to_end(&mut Vec::new()))));
    let response = ask(scene.http, "/never");
    assert!(response.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"), "{response}");
    scene.wait_for_rest();
}

#[test]
fn heads_of_responses_are_bounded() {
    let port = serve(|mut stream, number| {
        let _ = read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        let line = if number % 2 == 0 { b"x: y\r\n".to_vec() } else { vec![b'x'; 4096] };
        // Without end.
        while stream.write_all(&line).is_ok() {}
    });
    let scene = Scene::start(port);
    for _ in 0..4 {
        assert_eq!(status(&ask(scene.http, "/a")), 502);
    }
    scene.wait_for_rest();
}

#[test]
fn informational_responses_without_end_are_bounded() {
    let port = serve(|mut stream, _| {
        let _ = read_head(&mut stream);
        while stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").is_ok() {}
    });
    let scene = Scene::start(port);
    let response = ask(scene.http, "/a");
    assert_eq!(status(&response), 502, "{response}");
    scene.wait_for_rest();
}

/// A response in every form; a host that resets or ends after each of its bytes.
#[test]
fn hosts_may_go_at_every_byte() {
    const RESPONSE: &[u8] =
        b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: x\r\n\r\n";
    let port = serve(|mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
            let mut parts = path.split('/');
            let count: Option<usize> = parts.next().and_then(|count| count.parse().ok());
            let Some(count) = count else {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine");
                continue;
            };
            let _ = stream.write_all(&RESPONSE[..count]);
            return if parts.next() == Some("reset") { reset(stream) } else { drop(stream) };
        }
    });
    let scene = Scene::start(port);
    for count in 0..=RESPONSE.len() {
        for how in ["end", "reset"] {
            let response = ask(scene.http, &format!("/{count}/{how}"));
            let is_whole = response.ends_with("0\r\n\r\n");
            assert!(
                count == RESPONSE.len() || !is_whole,
                "{count} {how}: cut, but looks complete: {response}"
            );
            let expected = if response.starts_with("HTTP/1.1 200") { 200 } else { 503 };
            assert!(response == "reset" || status(&response) == expected, "{count} {how}: {response}");
            if count == RESPONSE.len() && how == "end" {
                assert!(is_whole && response.contains("abc"), "{response}");
            }
        }
    }
    assert!(ask(scene.http, "/fine").ends_with("fine"));
    scene.wait_for_rest();
}

#[test]
fn an_early_response_ends_what_was_begun() {
    // Answers the head at once, and reads nothing more.
    let port = serve(|mut stream, number| {
        let Some(head) = read_head(&mut stream) else { return };
        let text = if head.starts_with("POST") {
            "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig"
        } else {
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"
        };
        let _ = stream.write_all(text.as_bytes());
        if number % 2 == 0 {
            pause();
        }
    });
    let scene = Scene::start(port);
    for (length, sent) in [(1 << 20, 0), (1 << 20, 1000), (64 << 20, 8 << 20)] {
        let mut client = scene.connect();
        write!(client, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n").unwrap();
        let body = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n".repeat(sent / 36);
        // The connection may end before everything is sent.
        let _ = client.write_all(&body);
        let head = read_head(&mut client);
        if let Some(head) = head {
            assert_eq!(status(&head), 413, "{head}");
            assert!(head.contains("connection: close"), "the client is told not to go on: {head}");
        }
    }
    assert!(ask(scene.http, "/next").ends_with("fine"));
    scene.wait_for_rest();
}

#[test]
fn a_host_that_stops_reading_holds_little() {
    let received = Arc::new(AtomicUsize::new(0));
    let port = serve(|mut stream, _| {
        // Reads the head only.
        let _ = read_head(&mut stream);
        std::thread::park();
    });
    let scene = Scene::start(port);
    let mut client = scene.connect();
    client.set_write_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
    client.write_all(b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 65536], b"\r\n"].concat();
    while client.write_all(&chunk).is_ok() {
        let sent = received.fetch_add(chunk.len(), Ordering::Relaxed);
        assert!(sent < 64 << 20, "reading pauses while the host does not read");
    }
    reset(client);
    scene.wait_for_rest();
}

/// Sends bytes to the TCP proxy and reads them back.
fn echoes(port: u16) -> bool {
    let mut stream: TcpStream = connect(port);
    stream.write_all(b"ping").unwrap();
    read_exact(&mut stream, 4) == b"ping"
}

#[test]
fn tcp_connections_may_be_reset_at_any_time() {
    let scene = Scene::start(serve(|_, _| {}));
    for round in 0..50 {
        let mut stream = connect(scene.tcp);
        if round % 2 == 0 {
            let _ = stream.write_all(&vec![b'x'; round * 10_000]);
        }
        if round % 3 == 0 {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        reset(stream);
    }
    assert!(echoes(scene.tcp));
    wait_for("all end", || (scene.proxy.stat("cluster.echo.upstream_cx_active") == 0).then_some(()));
    scene.wait_for_rest();
}

#[test]
fn a_tcp_client_that_is_reset_while_its_host_does_not_read_is_noticed() {
    let scene = Scene::start_before(serve(|_, _| {}), serve(|_stream, _| std::thread::park()));
    let mut client = connect(scene.tcp);
    client.set_write_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    while client.write_all(&[b'x'; 65536]).is_ok() {}
    reset(client);
    scene.wait_for_rest();
}

/// What the host speaks afterwards would pass by routes, filters and logs.
#[test]
fn the_protocol_changes_only_to_the_one_that_was_asked_for() {
    const OTHERS: &[&[u8]] = &[
        b"HTTP/1.1 101 S\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\nsecret",
        b"HTTP/1.1 101 S\r\nUpgrade: websocket, h2c\r\nConnection: upgrade\r\n\r\nsecret",
        b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\nsecret",
        b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\n\r\nsecret",
        b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: close\r\n\r\nsecret",
        b"HTTP/1.1 101 S\r\nConnection: upgrade\r\n\r\nsecret",
        b"HTTP/1.1 101 S\r\n\r\nsecret",
        b"HTTP/1.1 101 S\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\r\nsecret",
    ];
    let scene = Scene::start(scripted(OTHERS, true));
    for number in 0..OTHERS.len() {
        let mut client = scene.connect();
        write!(
            client,
            "GET /{number} HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        .unwrap();
        let answer = read_all(&mut client).unwrap_or_default();
        let expected = if number + 1 == OTHERS.len() { (101, true) } else { (502, false) };
        assert_eq!((status(&answer), answer.contains("secret")), expected, "{number}: {answer}");
    }
    scene.wait_for_rest();
}
