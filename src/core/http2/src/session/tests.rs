use std::pin::Pin;
use std::sync::LazyLock;

use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use proptest::prelude::*;

use super::super::frame::{FRAME_HEADER_LEN, FrameHeader, PREFACE, flag, frame_type};
use super::super::{FixedResponse, IncomingRequest, RequestBody, UnlimitedMemory};
use super::output::MAX_OUTPUT;
use super::*;

mod bounds;

static GRPC: LazyLock<FixedResponse> =
    LazyLock::new(|| FixedResponse::new(("content-type", "application/grpc"), ("grpc-status", "0")));
const LIMITS: Limits = Limits { max_streams: 3, max_header_bytes: 1000, max_request_bytes: 16 << 20 };
const POST: &[u8] = b"\x83\x86\x04\x02/a";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_frame_header(&mut out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
    out
}

fn headers(stream: u32, end: bool, block: &[u8]) -> Vec<u8> {
    frame(frame_type::HEADERS, flag::END_HEADERS | u8::from(end), stream, block)
}

fn data(stream: u32, end: bool, bytes: &[u8]) -> Vec<u8> {
    frame(frame_type::DATA, u8::from(end), stream, bytes)
}

fn setting(name: u16, value: u32) -> Vec<u8> {
    frame(frame_type::SETTINGS, 0, 0, &[&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(frame_type::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

/// A session that has received preface and SETTINGS, with empty output.
fn open() -> Session {
    let mut session = Session::new(LIMITS, &GRPC, UnlimitedMemory);
    let hello = [PREFACE, &frame(frame_type::SETTINGS, 0, 0, &[])].concat();
    assert_eq!(session.receive(&hello), Ok(hello.len()));
    sent(&mut session);
    session
}

fn receive(session: &mut Session, frames: &[Vec<u8>]) -> Result<(), ConnectionError> {
    let input = frames.concat();
    receive_all(session, &input).map(|taken| assert_eq!(taken, input.len()))
}

/// What the session takes of the input, a few frames at a time.
fn receive_all(session: &mut Session, input: &[u8]) -> Result<usize, ConnectionError> {
    let mut all = 0;
    loop {
        let taken = session.receive(&input[all..])?;
        all += taken;
        if taken == 0 || !session.has_stopped() {
            return Ok(all);
        }
    }
}

#[test]
fn frames_are_taken_a_few_at_a_time() {
    let mut session = open();
    let pings = vec![frame(frame_type::PING, 0, 0, &[7; 8]); 600].concat();
    let one = pings.len() / 600;
    assert_eq!((session.receive(&pings), session.has_stopped()), (Ok(256 * one), true));
    assert_eq!((session.receive(&pings[256 * one..]), session.has_stopped()), (Ok(256 * one), true));
    assert_eq!((session.receive(&pings[512 * one..]), session.has_stopped()), (Ok(88 * one), false));
    assert_eq!(sent(&mut session).len(), 600, "each is answered once");
}

/// The frames in the output since the last call, as text.
fn sent(session: &mut Session) -> Vec<String> {
    let output = session.output().to_vec();
    session.advance(output.len());
    let mut rest = &output[..];
    let mut words = Vec::new();
    while let Some(head) = FrameHeader::read(rest) {
        let payload = &rest[FRAME_HEADER_LEN..FRAME_HEADER_LEN + head.length];
        let stream = head.stream;
        let end = if head.kind < 2 && head.has(flag::END_STREAM) { " end" } else { "" };
        words.push(match head.kind {
            frame_type::DATA => format!("data {stream} {}{end}", payload.len()),
            frame_type::HEADERS => format!("headers {stream}{end}"),
            frame_type::CONTINUATION => format!("more {stream}"),
            frame_type::RST_STREAM => format!("reset {stream} {}", payload[3]),
            frame_type::SETTINGS if head.has(flag::ACK) => "ack".to_owned(),
            frame_type::SETTINGS => format!("settings {}", payload.len() / 6),
            frame_type::PING if head.has(flag::ACK) => format!("pong {}", String::from_utf8_lossy(payload)),
            frame_type::PING => format!("ping {}", String::from_utf8_lossy(payload)),
            frame_type::GOAWAY => {
                format!("goaway {} {}", u32::from_be_bytes(payload[..4].try_into().unwrap()), payload[7])
            }
            frame_type::WINDOW_UPDATE => {
                format!("window {stream} {}", u32::from_be_bytes(payload.try_into().unwrap()))
            }
            other => format!("type {other}"),
        });
        rest = &rest[FRAME_HEADER_LEN + head.length..];
    }
    assert!(rest.is_empty());
    words
}

fn next(session: &mut Session) -> IncomingRequest {
    session.next_request().unwrap()
}

fn read(body: RequestBody) -> Option<Result<Bytes, ErrorCode>> {
    match body.collect().now_or_never()? {
        Ok(all) => Some(Ok(all.to_bytes())),
        Err(error) => Some(Err(error.0)),
    }
}

fn piece(body: &mut RequestBody) -> Poll<Option<usize>> {
    let mut cx = Context::from_waker(Waker::noop());
    Pin::new(body).poll_frame(&mut cx).map(|piece| piece.map(|p| p.unwrap().into_data().unwrap().len()))
}

#[test]
fn the_server_preface_is_settings_and_a_window_update() {
    let mut session = Session::new(LIMITS, &GRPC, UnlimitedMemory);
    assert_eq!(sent(&mut session), ["settings 3", &format!("window 0 {}", (8 << 20) - 65_535)]);
    assert!(!session.is_established());
    // The preface may come in pieces; the first frame must be settings.
    assert_eq!(session.receive(&PREFACE[..10]), Ok(10));
    assert_eq!(session.receive(&PREFACE[10..]), Ok(14));
    assert_eq!(session.receive(&frame(frame_type::SETTINGS, 0, 0, &[])[..5]), Ok(0));
    assert_eq!(receive(&mut session, &[frame(frame_type::SETTINGS, 0, 0, &[])]), Ok(()));
    assert!(session.is_established());
    assert_eq!(sent(&mut session), ["ack"]);
    for bad in [b"GET / HTTP/1.1\r\n\r\n", &[PREFACE, &frame(frame_type::PING, 0, 0, &[0; 8])].concat()[..]] {
        assert_eq!(
            Session::new(LIMITS, &GRPC, UnlimitedMemory).receive(bad).unwrap_err().code,
            ErrorCode::PROTOCOL_ERROR
        );
    }
}

#[test]
fn a_complete_request_is_answered_in_three_frames() {
    let mut session = open();
    for id in [1, 3, 5] {
        receive(&mut session, &[headers(id, false, POST), data(id, false, b"ab"), data(id, true, b"cd")])
            .unwrap();
        let mut request = next(&mut session);
        assert_eq!((request.stream, request.head.path()), (id, "/a"));
        assert_eq!(request.body.take_complete(), Some(Bytes::from_static(b"abcd")));
        session.send_fixed_response(id, Bytes::from_static(b"answer"));
        let answer = [format!("headers {id}"), format!("data {id} 6"), format!("headers {id} end")];
        assert_eq!(sent(&mut session), answer);
        assert_eq!(session.is_drained(id), None);
    }
    assert!(session.next_request().is_none());
    // An identical header block is decoded once.
    assert_eq!(session.head_cache.len(), 1);
}

#[test]
fn a_body_may_arrive_after_the_headers() {
    let mut session = open();
    receive(&mut session, &[headers(1, false, POST), data(1, false, b"ab")]).unwrap();
    let mut body = next(&mut session).body;
    assert_eq!(body.take_complete(), None);
    assert_eq!(piece(&mut body), Poll::Ready(Some(2)));
    assert_eq!(piece(&mut body), Poll::Pending);
    // `x: y` as a trailer.
    receive(&mut session, &[data(1, false, b"cde"), headers(1, true, b"\x00\x01x\x01y")]).unwrap();
    assert_eq!(piece(&mut body), Poll::Ready(Some(3)));
    let rest = body.collect().now_or_never().unwrap().unwrap();
    assert_eq!(rest.trailers().unwrap()["x"], "y");
    session.send_headers(1, StatusCode::OK, &HeaderMap::new(), false);
    session.send_data(1, Bytes::from_static(b"123"));
    session.send_end_stream(1, None);
    assert_eq!(sent(&mut session), ["headers 1", "data 1 3", "data 1 0 end"]);
}

#[test]
fn content_length_is_enforced() {
    let with_length = |length: &str| [POST, b"\x0f\x0d", &[length.len() as u8], length.as_bytes()].concat();
    for (length, sizes, good) in
        [("3", &[1, 2][..], true), ("3", &[1, 1], false), ("3", &[4], false), ("0", &[], true)]
    {
        let mut session = open();
        let mut frames = vec![headers(1, sizes.is_empty(), &with_length(length))];
        frames.extend(
            sizes.iter().enumerate().map(|(i, size)| data(1, i + 1 == sizes.len(), &vec![b'x'; *size])),
        );
        receive(&mut session, &frames).unwrap();
        assert_eq!(session.next_request().is_some(), good, "{length} {sizes:?}");
        assert_eq!(sent(&mut session), if good { vec![] } else { vec!["reset 1 1"] });
    }
}

#[test]
fn responses_wait_for_send_windows() {
    let mut session = open();
    receive(&mut session, &[setting(4, 10), headers(1, true, POST), headers(3, true, POST)]).unwrap();
    sent(&mut session);
    session.send_fixed_response(1, Bytes::from(vec![b'x'; 25]));
    session.send_fixed_response(3, Bytes::from_static(b"short"));
    assert_eq!(sent(&mut session), ["headers 1", "data 1 10", "headers 3", "data 3 5", "headers 3 end"]);
    assert_eq!(session.is_drained(1), Some(false));
    receive(&mut session, &[window_update(1, 5)]).unwrap();
    assert!(session.send_blocked());
    assert_eq!(sent(&mut session), ["data 1 5"]);
    // A larger initial window applies to open streams.
    receive(&mut session, &[setting(4, 1000)]).unwrap();
    assert!(session.send_blocked());
    assert_eq!(sent(&mut session), ["ack", "data 1 10", "headers 1 end"]);
    assert_eq!(session.is_drained(1), None);
    assert!(!session.send_blocked());
}

#[test]
fn the_window_of_the_connection_is_shared() {
    let mut session = open();
    receive(&mut session, &[setting(4, 1 << 20), headers(1, true, POST), headers(3, true, POST)]).unwrap();
    sent(&mut session);
    session.send_fixed_response(1, Bytes::from(vec![0; 65_530]));
    session.send_fixed_response(3, Bytes::from(vec![0; 10]));
    let words = sent(&mut session);
    assert_eq!(words.last().unwrap(), "data 3 5");
    assert_eq!(words.iter().filter(|w| w.starts_with("data 1")).count(), 4, "frames of 16 KiB: {words:?}");
    receive(&mut session, &[window_update(0, 100)]).unwrap();
    session.send_blocked();
    assert_eq!(sent(&mut session), ["data 3 5", "headers 3 end"]);
}

#[test]
fn queued_output_is_bounded() {
    let mut session = open();
    receive(&mut session, &[setting(4, 1 << 30), window_update(0, 1 << 30), headers(1, true, POST)]).unwrap();
    session.send_fixed_response(1, Bytes::from(vec![0; 4 << 20]));
    assert!(session.is_congested());
    assert!(session.output().len() < 300 << 10);
    let mut all = 0;
    while !session.output().is_empty() {
        let count = session.output().len();
        all += count;
        session.advance(count);
        session.send_blocked();
    }
    assert!(all > 4 << 20);
    assert!(!session.is_congested());
    assert_eq!(session.flow_control.held(), 0, "an empty output counts nothing");
    let mut lent = Vec::new();
    session.return_output(&mut lent);
    assert_eq!(session.output.capacity(), 0);
    assert!((1..=256 << 10).contains(&lent.capacity()), "{}", lent.capacity());
}

#[test]
fn window_updates_follow_reads() {
    let mut session = open();
    receive(&mut session, &[headers(1, false, POST)]).unwrap();
    let mut body = next(&mut session).body;
    let full = vec![0; 16_384];
    for _ in 0..63 {
        receive(&mut session, &[data(1, false, &full)]).unwrap();
    }
    session.send_window_updates();
    assert_eq!(sent(&mut session), Vec::<String>::new(), "nothing was read");
    assert_eq!(piece(&mut body), Poll::Ready(Some(63 * 16_384)));
    session.send_window_updates();
    assert_eq!(sent(&mut session), [format!("window 1 {}", 63 * 16_384)]);
    // One frame beyond the stream window.
    for _ in 0..64 {
        receive(&mut session, &[data(1, false, &full)]).unwrap();
    }
    assert_eq!(sent(&mut session), Vec::<String>::new());
    receive(&mut session, &[data(1, false, &full)]).unwrap();
    assert_eq!(sent(&mut session), ["reset 1 3"]);
    assert_eq!(read(body), Some(Err(ErrorCode::FLOW_CONTROL_ERROR)));
    // Discarded data counts as read.
    session.send_window_updates();
    assert_eq!(sent(&mut session), [format!("window 0 {}", (63 + 65) * 16_384)]);
}

#[test]
fn unread_bodies_close_the_connection_window() {
    let mut session = Session::new(Limits { max_streams: 100, ..LIMITS }, &GRPC, UnlimitedMemory);
    let hello = [PREFACE, &frame(frame_type::SETTINGS, 0, 0, &[])].concat();
    session.receive(&hello).unwrap();
    let full = vec![0; 16_384];
    let mut bodies = Vec::new();
    let mut refused = None;
    'all: for id in (1..40).step_by(2) {
        receive(&mut session, &[headers(id, false, POST)]).unwrap();
        bodies.push(next(&mut session).body);
        for _ in 0..60 {
            session.send_window_updates();
            if let Err(error) = receive(&mut session, &[data(id, false, &full)]) {
                refused = Some(error.code);
                break 'all;
            }
        }
    }
    assert_eq!(refused, Some(ErrorCode::FLOW_CONTROL_ERROR));
    assert!(bodies.len() <= 14, "{}", bodies.len());
}

#[test]
fn padding_is_credited_at_once() {
    let mut session = open();
    let padded = [&[200_u8][..], b"ab", &[0; 200]].concat();
    receive(&mut session, &[headers(1, false, POST), frame(frame_type::DATA, flag::PADDED, 1, &padded)])
        .unwrap();
    assert_eq!(sent(&mut session), ["window 1 201"]);
    assert_eq!(piece(&mut next(&mut session).body), Poll::Ready(Some(2)));
}

#[test]
fn streams_are_refused_beyond_the_limit() {
    let mut session = open();
    let calls: Vec<_> = [1, 3, 5, 7].map(|id| headers(id, true, POST)).into();
    receive(&mut session, &calls).unwrap();
    assert_eq!(sent(&mut session), ["reset 7 7"]);
    while let Some(request) = session.next_request() {
        session.send_fixed_response(request.stream, Bytes::new());
    }
    receive(&mut session, &[headers(9, true, POST)]).unwrap();
    assert_eq!(next(&mut session).stream, 9);
}

#[test]
fn a_reset_notifies_the_waiting_request() {
    let mut session = open();
    let reset = |id| frame(frame_type::RST_STREAM, 0, id, &8_u32.to_be_bytes());
    receive(&mut session, &[headers(1, false, POST), headers(3, true, POST), reset(3)]).unwrap();
    let request = next(&mut session);
    assert!(session.next_request().is_none(), "3 was reset");
    let watch = session.watch_closed(1).unwrap();
    receive(&mut session, &[reset(1)]).unwrap();
    assert!(watch.now_or_never().is_some());
    assert_eq!(read(request.body), Some(Err(ErrorCode(8))));
    // A late response is ignored.
    session.send_fixed_response(1, Bytes::from_static(b"late"));
    session.send_data(1, Bytes::from_static(b"late"));
    session.send_end_stream(1, None);
    assert_eq!(sent(&mut session), Vec::<String>::new());
}

#[test]
fn exceeding_the_violation_budget_closes_the_connection() {
    let mut session = open();
    let mut id = 1;
    let error = loop {
        let reset = frame(frame_type::RST_STREAM, 0, id, &8_u32.to_be_bytes());
        match receive(&mut session, &[headers(id, true, POST), reset]) {
            Ok(()) => id += 2,
            Err(error) => break error,
        }
    };
    assert_eq!((error.code, id), (ErrorCode::ENHANCE_YOUR_CALM, 1 + 2 * PROTOCOL_VIOLATION_BUDGET));
    assert!(session.new_requests.len() <= PROTOCOL_VIOLATION_BUDGET as usize + 1);
    // So does an interval of keep-alive.
    let mut session = open();
    for number in 0..3 * PROTOCOL_VIOLATION_BUDGET {
        if number % PROTOCOL_VIOLATION_BUDGET == 0 {
            session.forget_violations();
        }
        let id = 1 + 2 * number;
        let reset = frame(frame_type::RST_STREAM, 0, id, &8_u32.to_be_bytes());
        receive(&mut session, &[headers(id, true, POST), reset]).unwrap();
        while session.next_request().is_some() {}
    }
    // Completed responses refill the budget.
    let mut session = open();
    for turn in 0..PROTOCOL_VIOLATION_BUDGET * 2 {
        let id = turn * 4 + 1;
        let reset = frame(frame_type::RST_STREAM, 0, id, &8_u32.to_be_bytes());
        receive(&mut session, &[headers(id, true, POST), reset, headers(id + 2, true, POST)]).unwrap();
        let answered = next(&mut session).stream;
        session.send_fixed_response(answered, Bytes::new());
        let count = session.output().len();
        session.advance(count);
    }
}

#[test]
fn an_early_response_resets_the_request() {
    let mut session = open();
    receive(&mut session, &[headers(1, false, POST), data(1, false, b"ab")]).unwrap();
    next(&mut session);
    let mut refusal = HeaderMap::new();
    refusal.insert("grpc-status", HeaderValue::from_static("8"));
    session.send_headers(1, StatusCode::OK, &refusal, true);
    assert_eq!(sent(&mut session), ["headers 1 end", "reset 1 0"]);
    // Frames in flight are ignored.
    receive(&mut session, &[data(1, false, b"cd"), headers(1, true, b"\x00\x01x\x01y")]).unwrap();
    assert_eq!(sent(&mut session), Vec::<String>::new());
}

#[test]
fn stream_errors_do_not_affect_other_streams() {
    for (what, bad, code) in [
        ("no path", headers(3, true, b"\x83\x86"), 1),
        ("upper case", headers(3, true, &[POST, b"\x00\x01A\x01b"].concat()), 1),
        ("a zero window increment", [headers(3, false, POST), window_update(3, 0)].concat(), 1),
        ("a window overflow", [headers(3, false, POST), window_update(3, (1 << 31) - 1)].concat(), 3),
        ("data after the end", [headers(3, true, POST), data(3, false, b"x")].concat(), 5),
        ("headers after the end", [headers(3, true, POST), headers(3, true, b"\x00\x01x\x01y")].concat(), 5),
        (
            "trailers without END_STREAM",
            [headers(3, false, POST), headers(3, false, b"\x00\x01x\x01y")].concat(),
            1,
        ),
        ("pseudo headers as trailers", [headers(3, false, POST), headers(3, true, POST)].concat(), 1),
        (
            "PRIORITY with an invalid length",
            [headers(3, true, POST), frame(frame_type::PRIORITY, 0, 3, &[0; 4])].concat(),
            6,
        ),
    ] {
        let mut session = open();
        receive(&mut session, &[headers(1, true, POST), bad]).unwrap();
        assert_eq!(sent(&mut session), [format!("reset 3 {code}")], "{what}");
        assert_eq!(next(&mut session).stream, 1, "{what}");
    }
    // An oversized header list gets 431.
    let mut session = open();
    let many = [POST, &b"\x00\x01x\x01y".repeat(100)].concat();
    receive(&mut session, &[headers(1, true, &many), headers(3, true, POST)]).unwrap();
    assert_eq!(sent(&mut session), ["headers 1 end"]);
    assert_eq!(next(&mut session).stream, 3);
}

#[test]
fn connection_errors_send_goaway_with_the_code() {
    let ping = |len| frame(frame_type::PING, 0, 0, &vec![0; len]);
    let block = frame(frame_type::HEADERS, 0, 1, POST);
    let more = |len: usize| frame(frame_type::CONTINUATION, 0, 1, &vec![0; len]);
    for (what, bad, code) in [
        ("DATA on stream 0", data(0, false, b""), 1),
        ("DATA on an idle stream", data(1, false, b""), 1),
        (
            "padding beyond the payload",
            [headers(1, false, POST), frame(frame_type::DATA, flag::PADDED, 1, &[3, 0])].concat(),
            1,
        ),
        ("an even stream id", headers(2, true, POST), 1),
        ("HEADERS on stream 0", headers(0, true, POST), 1),
        ("HEADERS on a closed stream", [headers(3, true, POST), headers(1, true, POST)].concat(), 5),
        ("an invalid header block", headers(1, true, b"\xff\xff"), 9),
        ("PRIORITY on stream 0", frame(frame_type::PRIORITY, 0, 0, &[0; 5]), 1),
        ("HEADERS with truncated priority", frame(frame_type::HEADERS, flag::PRIORITY | 4, 1, &[0; 4]), 6),
        ("RST_STREAM on an idle stream", frame(frame_type::RST_STREAM, 0, 1, &[0; 4]), 1),
        ("a short RST_STREAM", frame(frame_type::RST_STREAM, 0, 1, &[0; 3]), 6),
        ("SETTINGS on a stream", frame(frame_type::SETTINGS, 0, 1, &[]), 1),
        ("a truncated setting", frame(frame_type::SETTINGS, 0, 0, &[0; 7]), 6),
        ("SETTINGS ACK with a payload", frame(frame_type::SETTINGS, flag::ACK, 0, &[0; 6]), 6),
        ("INITIAL_WINDOW_SIZE beyond the limit", setting(4, 1 << 31), 3),
        ("MAX_FRAME_SIZE too small", setting(5, 100), 1),
        ("MAX_FRAME_SIZE too large", setting(5, 1 << 24), 1),
        ("ENABLE_PUSH of 2", setting(2, 2), 1),
        ("PUSH_PROMISE", frame(frame_type::PUSH_PROMISE, 4, 1, &[0; 8]), 1),
        ("PING on a stream", frame(frame_type::PING, 0, 1, &[0; 8]), 1),
        ("a short PING", ping(7), 6),
        ("GOAWAY on a stream", frame(frame_type::GOAWAY, 0, 1, &[0; 8]), 1),
        ("a short GOAWAY", frame(frame_type::GOAWAY, 0, 0, &[0; 7]), 6),
        ("a short WINDOW_UPDATE", frame(frame_type::WINDOW_UPDATE, 0, 0, &[0; 3]), 6),
        ("a zero window increment", window_update(0, 0), 1),
        ("a window overflow", window_update(0, (1 << 31) - 1), 3),
        ("WINDOW_UPDATE on an idle stream", window_update(1, 1), 1),
        ("CONTINUATION without HEADERS", more(1), 1),
        (
            "CONTINUATION on another stream",
            [block.clone(), frame(frame_type::CONTINUATION, 4, 3, &[])].concat(),
            1,
        ),
        ("an interrupted header block", [block.clone(), ping(8)].concat(), 1),
        ("an empty CONTINUATION", [block.clone(), more(0)].concat(), 11),
        ("an endless header block", [block.clone(), more(16_000).repeat(9)].concat(), 11),
        ("an oversized frame", frame(frame_type::DATA, 0, 1, &vec![0; 16_385]), 6),
    ] {
        let mut session = open();
        let error = session.receive(&bad).unwrap_err();
        assert_eq!(error.code.0, code, "{what}: {error}");
        session.abort(error.code);
        let last = sent(&mut session).pop().unwrap();
        assert!(last.starts_with("goaway ") && last.ends_with(&format!(" {code}")), "{what}: {last}");
    }
}

#[test]
fn unknown_frames_and_settings_are_ignored() {
    let mut session = open();
    let frames = [
        frame(77, 0xff, 0, b"anything"),
        frame(frame_type::PRIORITY, 0, 9, &[0; 5]),
        setting(99, 7),
        setting(2, 0),
        frame(frame_type::PING, 0, 0, b"12345678"),
        headers(1, true, POST),
    ];
    receive(&mut session, &frames).unwrap();
    assert_eq!(sent(&mut session), ["ack", "ack", "pong 12345678"]);
    assert_eq!(next(&mut session).stream, 1);
}

#[test]
fn a_header_block_may_be_fragmented() {
    let mut session = open();
    let first = frame(
        frame_type::HEADERS,
        flag::END_STREAM | flag::PADDED | flag::PRIORITY,
        1,
        b"\x01\0\0\0\0\0\x83\0",
    );
    let frames = [
        first,
        frame(frame_type::CONTINUATION, 0, 1, b"\x86\x04"),
        frame(frame_type::CONTINUATION, 4, 1, b"\x02/a"),
    ];
    receive(&mut session, &frames).unwrap();
    assert_eq!(next(&mut session).head.path(), "/a");
    // So may that of a response.
    let mut long = HeaderMap::new();
    long.insert("x", HeaderValue::from_bytes(&[b'y'; 40_000]).unwrap());
    session.send_headers(1, StatusCode::OK, &long, true);
    assert_eq!(sent(&mut session), ["headers 1 end", "more 1", "more 1"]);
}

#[test]
fn streams_before_the_final_goaway_are_answered() {
    let mut session = open();
    receive(&mut session, &[headers(1, true, POST)]).unwrap();
    session.begin_shutdown();
    session.begin_shutdown();
    assert_eq!(sent(&mut session), ["goaway 2147483647 0", "ping mx-bye!!"]);
    let pong = frame(frame_type::PING, flag::ACK, 0, b"mx-bye!!");
    receive(&mut session, &[headers(3, true, POST), pong, headers(5, true, POST)]).unwrap();
    assert_eq!(sent(&mut session), ["goaway 3 0", "reset 5 7"]);
    assert!(!session.is_finished());
    while let Some(request) = session.next_request() {
        session.send_fixed_response(request.stream, Bytes::new());
    }
    assert!(session.is_finished());
}

#[test]
fn open_streams_are_answered_after_a_goaway_of_the_client() {
    let mut session = open();
    receive(&mut session, &[headers(1, true, POST), frame(frame_type::GOAWAY, 0, 0, &[0; 8])]).unwrap();
    assert!(!session.is_finished());
    session.send_fixed_response(1, Bytes::new());
    assert!(session.is_finished());
}

#[test]
fn ping_acks_are_recorded() {
    let mut session = open();
    session.ping();
    assert_eq!(sent(&mut session), ["ping mx-alive"]);
    assert!(!session.take_ping_ack());
    receive(&mut session, &[frame(frame_type::PING, flag::ACK, 0, b"mx-alive")]).unwrap();
    assert!(session.take_ping_ack());
    assert!(!session.take_ping_ack());
}

#[test]
fn cached_heads_are_valid_for_one_table_version() {
    let mut session = open();
    // The first request inserts `x: 1` at index 62; `x: 2` of the third moves it to 63.
    let blocks = [&b"\x40\x01x\x011"[..], b"\xbe", b"\x7e\x012", b"\xbe", b"\xbf"];
    let expected = ["1", "1", "2", "2", "1"];
    for (turn, (block, value)) in blocks.iter().zip(expected).enumerate() {
        let id = turn as u32 * 2 + 1;
        receive(&mut session, &[headers(id, true, &[POST, block].concat())]).unwrap();
        let request = next(&mut session);
        assert_eq!(request.head.headers()["x"], value, "call {turn}");
        session.send_fixed_response(id, Bytes::new());
    }
}

/// Mostly valid frames of a client.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let id = (0..8_u32).prop_map(|n| n * 2 + 1);
    let any_frame = (0..12_u8, any::<u8>(), 0..9_u32, prop::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload));
    prop_oneof![
        6 => (id.clone(), any::<bool>()).prop_map(|(id, end)| headers(id, end, POST)),
        6 => (id.clone(), any::<bool>(), 0..300_usize).prop_map(|(id, end, n)| data(id, end, &vec![7; n])),
        1 => (id, 1..1000_u32).prop_map(|(id, n)| window_update(id, n)),
        1 => (0..70_000_u32).prop_map(|n| setting(4, n)),
        1 => Just(frame(frame_type::PING, 0, 0, b"12345678")),
        1 => any_frame,
    ]
}

/// Output and requests for `input` split into chunks of these sizes.
fn played(input: &[u8], sizes: &[usize]) -> (Vec<String>, Vec<(u32, usize)>) {
    let mut session = open();
    let (mut kept, mut at) = (Vec::new(), 0);
    let mut requests = Vec::new();
    for size in sizes.iter().copied().chain([usize::MAX]) {
        let end = at + size.min(input.len() - at);
        kept.extend_from_slice(&input[at..end]);
        at = end;
        match session.receive(&kept) {
            Ok(taken) => drop(kept.drain(..taken)),
            Err(error) => {
                session.abort(error.code);
                break;
            }
        }
    }
    while let Some(request) = session.next_request() {
        let (id, body) = (request.stream, read(request.body));
        requests.push((id, body.and_then(Result::ok).map_or(0, |body| body.len())));
        session.send_fixed_response(id, Bytes::from_static(b"hello"));
    }
    (sent(&mut session), requests)
}

proptest! {
    #[test]
    fn chunking_does_not_change_the_result(
        frames in prop::collection::vec(frames(), 0..30),
        sizes in prop::collection::vec(1..60_usize, 0..100),
    ) {
        let input = frames.concat();
        prop_assert_eq!(played(&input, &sizes), played(&input, &[]));
    }

    #[test]
    fn random_input_is_an_error_or_incomplete(input in prop::collection::vec(any::<u8>(), 0..2000)) {
        played(&input, &[]);
    }
}
