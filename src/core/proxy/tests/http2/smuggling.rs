//! Requests that would be others once they are written as HTTP/1.1.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::Client;
use crate::peers::{read_head, serve};
use crate::raw::{DATA, END_STREAM, GOAWAY, HEADERS, POST, RST_STREAM, Raw};
use crate::scene::{Scene, read_body};

type Fields = &'static [(&'static [u8], &'static [u8])];

#[test]
fn what_would_be_another_request_is_refused() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let scene = Scene::start(serve(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            read_body(&mut stream, &head);
            count.fetch_add(1, Ordering::Relaxed);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    }));
    let after: [(&str, Fields); 29] = [
        ("LF in a value", &[(b"x", b"a\nhost: evil")]),
        ("CR in a value", &[(b"x", b"a\rb")]),
        ("CR LF in a value", &[(b"x", b"a\r\n\r\nGET /evil HTTP/1.1\r\nhost: evil\r\n\r\n")]),
        ("NUL in a value", &[(b"x", b"a\0b")]),
        ("a blank before a value", &[(b"x", b" a")]),
        ("a blank behind a value", &[(b"x", b"a ")]),
        ("a tab behind a value", &[(b"x", b"a\t")]),
        ("nothing but a blank", &[(b"x", b" ")]),
        ("a blank behind a cookie", &[(b"cookie", b"a=1"), (b"cookie", b"b=2 ")]),
        ("CR LF in a name", &[(b"x: y\r\nz", b"a")]),
        ("a colon in a name", &[(b"x:", b"a")]),
        ("a blank in a name", &[(b"transfer-encoding ", b"chunked")]),
        ("upper case", &[(b"Transfer-Encoding", b"chunked")]),
        ("an empty name", &[(b"", b"a")]),
        ("connection", &[(b"connection", b"close")]),
        ("proxy-connection", &[(b"proxy-connection", b"close")]),
        ("keep-alive", &[(b"keep-alive", b"5")]),
        ("transfer-encoding", &[(b"transfer-encoding", b"chunked")]),
        ("upgrade", &[(b"upgrade", b"websocket")]),
        ("te", &[(b"te", b"gzip")]),
        ("another host", &[(b"host", b"evil")]),
        ("two hosts", &[(b"host", b"h"), (b"host", b"evil")]),
        ("two authorities", &[(b":authority", b"evil")]),
        ("two paths", &[(b":path", b"/evil")]),
        ("two lengths", &[(b"content-length", b"3"), (b"content-length", b"0")]),
        ("the same length twice", &[(b"content-length", b"3"), (b"content-length", b"3")]),
        ("no number", &[(b"content-length", b"3, 3")]),
        ("a sign", &[(b"content-length", b"+3")]),
        ("a pseudo header behind a field", &[(b"x", b"y"), (b":path", b"/evil")]),
    ];
    for (name, fields) in after {
        let all: Vec<_> = POST.iter().chain(fields).copied().collect();
        assert_refused(&scene, name, &all, &[b"abc"]);
    }
    let instead: [(&str, usize, &[u8]); 14] = [
        ("an empty scheme", 1, b""),
        ("a scheme that begins with a digit", 1, b"1x"),
        ("a blank in the path", 3, b"/a HTTP/1.1\r\nhost: evil"),
        ("CR LF in the path", 3, b"/a\r\nx: y"),
        ("no path", 3, b""),
        ("a path without a slash", 3, b"evil"),
        ("a query without a path", 3, b"?x=1"),
        ("an empty authority", 2, b""),
        ("a blank in the method", 0, b"GET /evil HTTP/1.1\r\n"),
        ("LF in the method", 0, b"GET\n"),
        ("user information", 2, b"user@evil"),
        ("CR LF in the authority", 2, b"h\r\nx: y"),
        ("a blank in the authority", 2, b"h evil"),
        ("a path in the authority", 2, b"h/evil"),
    ];
    for (name, place, value) in instead {
        let mut all = POST;
        all[place].1 = value;
        assert_refused(&scene, name, &all, &[b"abc"]);
    }
    // The decoder tells no scheme without an authority, whatever it is.
    let without: [(&str, Fields); 3] = [
        (
            "a host without an authority",
            &[(b":method", b"POST"), (b":scheme", b"https"), (b":path", b"/a"), (b"host", b"h")],
        ),
        (
            "an authority without a path",
            &[(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"h")],
        ),
        ("neither", &[(b":method", b"POST"), (b":scheme", b"http"), (b"host", b"h")]),
    ];
    for (name, fields) in without {
        assert_refused(&scene, name, fields, &[b"abc"]);
    }
    // The length says where the next request begins.
    for (name, length, parts) in [
        ("more than the length", b"2", &[&b"abc"[..]][..]),
        ("more than the length, in parts", b"4", &[b"abc", b"def"]),
        ("less than the length", b"9", &[b"abc"]),
        ("nothing of the length", b"9", &[b""]),
    ] {
        let all: Vec<_> = POST.iter().copied().chain([(&b"content-length"[..], &length[..])]).collect();
        assert_refused(&scene, name, &all, parts);
    }
    assert_eq!(seen.load(Ordering::Relaxed), 0, "no host has got a whole request");
    assert_eq!(Client::connect(scene.auto).get("/fine").status, 200);
    scene.wait_for_rest();
}

/// The other requests of a connection may be those of other clients.
#[test]
fn a_malformed_head_ends_its_stream_alone() {
    let scene = Scene::start(serve(|mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            read_body(&mut stream, &head);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    }));
    let odd: [(&str, &[u8], &[u8]); 13] = [
        ("a byte that is not UTF-8 in the path", b":path", b"/\xe9"),
        ("one in the authority", b":authority", b"\xff"),
        ("one in the scheme", b":scheme", b"\xff"),
        ("a blank in the method", b":method", b"G T"),
        ("no method", b":method", b""),
        ("an empty name", b"", b"a"),
        ("upper case", b"X-Upper", b"a"),
        ("a blank in a name", b"x y", b"a"),
        ("LF in a value", b"x", b"a\nb"),
        ("NUL in a value", b"x", b"\0"),
        ("DEL in a value", b"x", b"\x7f"),
        ("an unknown pseudo header", b":x", b"a"),
        ("a status", b":status", b"2000"),
    ];
    let mut raw = Raw::connect(scene.auto, &[]);
    let mut stream = 1;
    for (name, field, value) in odd {
        // One is on its way before, whose length and trailers follow.
        raw.request(stream, 0, &POST);
        let mut all: Vec<_> = POST.iter().copied().filter(|(known, _)| *known != field).collect();
        let place = POST.iter().position(|(known, _)| *known == field).unwrap_or(all.len());
        all.insert(place, (field, value));
        raw.request(stream + 2, END_STREAM, &all);
        let head = raw.next_of(&[HEADERS, RST_STREAM, GOAWAY]).unwrap();
        assert_eq!(
            (head.kind, head.stream, head.payload[0]),
            (HEADERS, stream + 2, 0x8c),
            "{name}: {head:?}"
        );
        raw.send(DATA, 0, stream, b"abc");
        raw.request(stream, END_STREAM, &[(b"x-trailer", b"1")]);
        raw.request(stream + 4, END_STREAM, &POST);
        for _ in 0..2 {
            let head = raw.next_of(&[HEADERS, RST_STREAM, GOAWAY]).unwrap();
            assert_eq!((head.kind, head.payload[0]), (HEADERS, 0x88), "{name}: {head:?}");
            assert!([stream, stream + 4].contains(&head.stream), "{name}: {head:?}");
        }
        stream += 6;
    }
    // Trailers with a path, which `h2` would drop, with the length of another body, and with a value that others read without its blank.
    for field in [(&b":path"[..], &b"/b"[..]), (b"content-length", b"5"), (b"x", b"admin ")] {
        raw.request(stream, 0, &POST);
        raw.send(DATA, 0, stream, b"abc");
        raw.request(stream, END_STREAM, &[field]);
        let next = raw.next_of(&[HEADERS, RST_STREAM, GOAWAY]).unwrap();
        let is_refused = next.kind == RST_STREAM || (next.kind == HEADERS && next.payload[0] == 0x8c);
        assert!(is_refused && next.stream == stream, "{next:?}");
        stream += 2;
    }
    raw.request(stream, END_STREAM, &POST);
    loop {
        let head = raw.next_of(&[HEADERS, GOAWAY]).unwrap();
        if head.stream == stream {
            assert_eq!((head.kind, head.payload[0]), (HEADERS, 0x88));
            break;
        }
    }
    drop(raw);
    scene.wait_for_rest();
}

/// A refusal of HEAD has no body, which would end the connection of a strict client.
#[test]
fn a_refusal_of_head_has_no_body() {
    let scene = Scene::start(serve(|_, _| {}));
    let many = vec![(&b"x"[..], &b"y"[..]); 101];
    for (name, fields) in [
        ("another host", &[(&b"host"[..], &b"evil"[..])][..]),
        ("an empty host", &[(b"host", b"")]),
        ("too many fields", &many),
    ] {
        for (method, has_body) in [(&b"HEAD"[..], false), (b"GET", true)] {
            let mut all = POST.to_vec();
            all[0].1 = method;
            all.extend(fields);
            let mut raw = Raw::connect(scene.auto, &[]);
            raw.request(1, END_STREAM, &all);
            let head = raw.next_of(&[HEADERS, RST_STREAM, GOAWAY]).unwrap();
            assert_eq!((head.kind, head.flags & END_STREAM == 0), (HEADERS, has_body), "{name}: {head:?}");
        }
    }
}

/// Sends a request, and asserts that it gets no answer of a host.
fn assert_refused(scene: &Scene, name: &str, fields: &[(&[u8], &[u8])], parts: &[&[u8]]) {
    let mut raw = Raw::connect(scene.auto, &[]);
    raw.request(1, 0, fields);
    for (index, part) in parts.iter().enumerate() {
        let flags = if index + 1 == parts.len() { END_STREAM } else { 0 };
        raw.send(DATA, flags, 1, part);
    }
    let next =
        raw.next_of(&[HEADERS, RST_STREAM, GOAWAY]).unwrap_or_else(|| panic!("{name}: the connection ended"));
    // 400 is the twelfth entry of the static table, 404 the thirteenth.
    let is_refused = next.kind != HEADERS || [&[0x8c], &[0x8d]].contains(&&[next.payload[0]]);
    assert!(is_refused, "{name}: {next:?}");
}
