//! Strict reading: what several parsers could read differently is refused.

use bytes::BytesMut;

use super::framing::{Framing, Remaining, of_request, of_response};
use crate::head::{Head, HeadError, end_of_head};

const MAX: usize = 60 << 10;

/// Reads a request head as a connection does.
fn request(text: &[u8]) -> Result<(Head, Framing), HeadError> {
    let end = end_of_head(text, &mut 0, MAX)?.ok_or(HeadError::Malformed)?;
    let mut head = Head::default();
    head.read_request(&text[..end], 100)?;
    let framing = of_request(&head)?;
    Ok((head, framing))
}

#[test]
fn plain_requests_are_read() {
    let (head, framing) =
        request(b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nX-Empty:\r\nX-Blanks: \t a b \t\r\n\r\n").unwrap();
    assert_eq!(
        (head.method(), head.path(), head.path_without_query()),
        (&b"GET"[..], &b"/a?b=c"[..], &b"/a"[..])
    );
    assert_eq!((head.get("host"), head.get("x-empty")), (Some(&b"x"[..]), Some(&b""[..])));
    assert_eq!(head.get("x-blanks"), Some(&b"a b"[..]));
    assert_eq!(framing, Framing::Empty);
    let (head, _) = request(b"GET HTTP://h:1?q HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert_eq!((head.authority(), head.path()), (&b"h:1"[..], &b"/?q"[..]));
    let (_, framing) = request(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 007\r\n\r\n").unwrap();
    assert_eq!(framing, Framing::Length(7));
    let (_, framing) = request(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n").unwrap();
    assert_eq!(framing, Framing::Chunked);
}

#[test]
fn ambiguous_heads_are_refused() {
    let refused: [&[u8]; 38] = [
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/1.1\r\nHost: x\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\r\r\n\r\n",
        b"GET / HTTP/1.1\r\nA : b\r\n\r\n",
        b"GET / HTTP/1.1\r\nA\t: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n A: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n",
        b"GET / HTTP/1.1\r\n: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nA\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\0c\r\n\r\n",
        b"GET / HTTP/1.1\r\nA\x80: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nA(b): c\r\n\r\n",
        b"GET  / HTTP/1.1\r\nA: b\r\n\r\n",
        b"GET /  HTTP/1.1\r\nA: b\r\n\r\n",
        b"GET / HTTP/1.1 \r\nA: b\r\n\r\n",
        b" GET / HTTP/1.1\r\nA: b\r\n\r\n",
        b"GET /\tHTTP/1.1\r\nA: b\r\n\r\n",
        b"GET / b HTTP/1.1\r\nA: b\r\n\r\n",
        b"GET /#a HTTP/1.1\r\nA: b\r\n\r\n",
        b"GET a HTTP/1.1\r\nA: b\r\n\r\n",
        b"GET * HTTP/1.1\r\nA: b\r\n\r\n",
        b"GET ftp://a/ HTTP/1.1\r\nA: b\r\n\r\n",
        b"GET http://a@b/ HTTP/1.1\r\nA: b\r\n\r\n",
        b"GET http:///a HTTP/1.1\r\nA: b\r\n\r\n",
        b"GET / HTTP/2.0\r\nA: b\r\n\r\n",
        b"GET / HTTP/1.2\r\nA: b\r\n\r\n",
        b"GET / http/1.1\r\nA: b\r\n\r\n",
        b"GET /\r\n\r\n",
        b"G(T / HTTP/1.1\r\nA: b\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
    ];
    for text in refused {
        assert!(request(text).is_err(), "{}", text.escape_ascii());
    }
    for coding in [
        "identity",
        "gzip, chunked",
        "chunked, chunked",
        "xchunked",
        "chunked;q=1",
        "\"chunked\"",
        "chunked\x0b",
    ] {
        let text = format!("POST / HTTP/1.1\r\nTransfer-Encoding: {coding}\r\n\r\n");
        assert!(request(text.as_bytes()).is_err(), "{coding}");
    }
    let twice = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(request(twice).map(|_| ()), Err(HeadError::Framing));
    let old = b"GET / HTTP/1.0\r\n\r\n";
    assert_eq!(request(old).map(|_| ()), Err(HeadError::OldVersion));
}

#[test]
fn heads_are_bounded() {
    let large = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(MAX));
    assert_eq!(request(large.as_bytes()).map(|_| ()), Err(HeadError::TooLarge));
    assert_eq!(
        end_of_head(&large.as_bytes()[..MAX + 10], &mut 0, MAX),
        Err(HeadError::TooLarge),
        "before it ends"
    );
    for (count, expected) in
        [(100, Ok(())), (101, Err(HeadError::TooManyFields)), (300, Err(HeadError::TooManyFields))]
    {
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(count));
        assert_eq!(request(many.as_bytes()).map(|_| ()), expected, "{count}");
    }
}

/// Reads a chunked body in pieces of `step` bytes; `None` if it is not valid, or does not end.
fn chunked(text: &[u8], step: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut rest, mut input, mut data) = (Remaining::of(Framing::Chunked), BytesMut::new(), Vec::new());
    for piece in text.chunks(step) {
        input.extend_from_slice(piece);
        rest.decode(&mut input, usize::MAX, |part| data.extend_from_slice(part)).ok()?;
    }
    rest.is_done().then(|| (data, input.to_vec()))
}

#[test]
fn chunks_are_read_strictly_however_they_arrive() {
    let body = b"3;a=\"b\"\r\nabc\r\n00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nGET ";
    for step in [1, 2, 3, 5, 100] {
        let read = chunked(body, step);
        assert_eq!(read, Some((b"abc0123456789".to_vec(), b"GET ".to_vec())), "{step}");
    }
    let refused: [&[u8]; 20] = [
        b"3\nabc\r\n0\r\n\r\n",
        b"3\r\nabc\n0\r\n\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"3 \r\nabc\r\n0\r\n\r\n",
        b" 3\r\nabc\r\n0\r\n\r\n",
        b"+3\r\nabc\r\n0\r\n\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"\r\nabc\r\n0\r\n\r\n",
        b"g\r\nabc\r\n0\r\n\r\n",
        b"-1\r\nabc\r\n0\r\n\r\n",
        b"3;a\rb\r\nabc\r\n0\r\n\r\n",
        b"3;a\nb\r\nabc\r\n0\r\n\r\n",
        b"3;\x00\r\nabc\r\n0\r\n\r\n",
        b"FFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n",
        b"0\r\n\n",
        b"0\r\nA\r\n\r\n",
        b"0\r\nA : b\r\n\r\n",
        b"0\r\n A: b\r\n\r\n",
        b"0\r\nA: b\rc\r\n\r\n",
        b"0\r\nA: b\n\r\n",
    ];
    for text in refused {
        for step in [1, 100] {
            assert_eq!(chunked(text, step), None, "{}", text.escape_ascii());
        }
    }
    let long = [b"1;".as_slice(), &[b'a'; 300], b"\r\nb\r\n0\r\n\r\n"].concat();
    assert_eq!(chunked(&long, 64), None, "a line without bound");
}

#[test]
fn responses_end_where_the_standard_says() {
    let read = |text: &str, to_head: bool| {
        let mut head = Head::default();
        let is_http11 = head.read_response(text.as_bytes(), 100)?;
        of_response(&head, to_head, is_http11)
    };
    let rows = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, Ok(Framing::Length(5))),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, Ok(Framing::Empty)),
        ("HTTP/1.1 204 No Content\r\n\r\n", false, Ok(Framing::Empty)),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, Ok(Framing::Empty)),
        ("HTTP/1.1 200\r\n\r\n", false, Ok(Framing::UntilClose)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, Ok(Framing::Chunked)),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
            false,
            Err(HeadError::Framing),
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", false, Err(HeadError::Framing)),
        ("HTTP/2.0 200 OK\r\n\r\n", false, Err(HeadError::Malformed)),
        ("HTTP/1.1 099 OK\r\n\r\n", false, Err(HeadError::Malformed)),
    ];
    for (text, to_head, expected) in rows {
        assert_eq!(read(text, to_head), expected, "{text}");
    }
}

#[test]
fn edited_heads_are_written_in_order() {
    let (mut head, _) =
        request(b"GET /a HTTP/1.1\r\nHost: x\r\nA: 1\r\nB: 2\r\nA: 3\r\nC:\r\nD: 4\r\n\r\n").unwrap();
    let written = |head: &Head| {
        let mut out = Vec::new();
        head.write_fields(&mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(written(&head), "host: x\r\na: 1\r\nb: 2\r\na: 3\r\nc: \r\nd: 4\r\n");
    assert!(head.remove(b"host"));
    head.set("a", b"5");
    assert_eq!(written(&head), "a: 5\r\nb: 2\r\nc: \r\nd: 4\r\n", "the second one is removed");
    head.add("e", b"6");
    head.set("d", b"");
    head.set("f", b"7");
    head.append("f", b"8");
    assert!(head.remove(b"b"));
    assert_eq!(written(&head), "a: 5\r\nc: \r\nd: \r\ne: 6\r\nf: 7,8\r\n");
    assert!(head.remove(b"a") && head.remove(b"f") && !head.remove(b"f"));
    assert_eq!(written(&head), "c: \r\nd: \r\ne: 6\r\n");
    assert!(head.has_element("e", b"6") && !head.has_element("c", b"6"));
}

#[test]
fn appending_keeps_the_values_of_all_fields() {
    let (mut head, _) = request(
        b"GET /a HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 10.1.1.1\r\n\r\n",
    )
    .unwrap();
    head.append("x-forwarded-for", b"127.0.0.1");
    assert_eq!(head.joined("x-forwarded-for").unwrap(), b"6.6.6.6,10.1.1.1,127.0.0.1");
    assert_eq!(head.count("x-forwarded-for"), 1);
}

#[test]
fn as_many_fields_are_read_as_may_be_configured() {
    let text = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1000));
    assert_eq!(Head::default().read_request(text.as_bytes(), 1000), Ok(()));
    let text = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1001));
    assert_eq!(Head::default().read_request(text.as_bytes(), 1000), Err(HeadError::TooManyFields));
}
