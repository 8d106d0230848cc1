use std::pin::Pin;
use std::sync::LazyLock;

use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use proptest::prelude::*;

use super::super::frame::{FrameHead, HEAD_LEN, PREFACE, flag, kind};
use super::super::{FixedResponse, Incoming, RequestBody};
use super::*;

static GRPC: LazyLock<FixedResponse> =
    LazyLock::new(|| FixedResponse::new(("content-type", "application/grpc"), ("grpc-status", "0")));
const LIMITS: Limits = Limits { max_streams: 3, max_header_bytes: 1000 };
const POST: &[u8] = b"\x83\x86\x04\x02/a";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_head(&mut out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
    out
}

fn headers(stream: u32, end: bool, block: &[u8]) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS | u8::from(end), stream, block)
}

fn data(stream: u32, end: bool, bytes: &[u8]) -> Vec<u8> {
    frame(kind::DATA, u8::from(end), stream, bytes)
}

fn setting(name: u16, value: u32) -> Vec<u8> {
    frame(kind::SETTINGS, 0, 0, &[&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

/// A session whose caller has said its preface and settings, with nothing to send.
fn open() -> Session {
    let mut session = Session::new(LIMITS, &GRPC);
    let hello = [PREFACE, &frame(kind::SETTINGS, 0, 0, &[])].concat();
    assert_eq!(session.receive(&hello), Ok(hello.len()));
    sent(&mut session);
    session
}

fn receive(session: &mut Session, frames: &[Vec<u8>]) -> Result<(), ConnectionError> {
    let input = frames.concat();
    session.receive(&input).map(|taken| assert_eq!(taken, input.len()))
}

/// What was sent since this was last asked, a word a frame.
fn sent(session: &mut Session) -> Vec<String> {
    let output = session.output().to_vec();
    session.advance(output.len());
    let mut rest = &output[..];
    let mut words = Vec::new();
    while let Some(head) = FrameHead::read(rest) {
        let payload = &rest[HEAD_LEN..HEAD_LEN + head.length];
        let stream = head.stream;
        let end = if head.kind < 2 && head.has(flag::END_STREAM) { " end" } else { "" };
        words.push(match head.kind {
            kind::DATA => format!("data {stream} {}{end}", payload.len()),
            kind::HEADERS => format!("headers {stream}{end}"),
            kind::CONTINUATION => format!("more {stream}"),
            kind::RST_STREAM => format!("reset {stream} {}", payload[3]),
            kind::SETTINGS if head.has(flag::ACK) => "ack".to_owned(),
            kind::SETTINGS => format!("settings {}", payload.len() / 6),
            kind::PING if head.has(flag::ACK) => format!("pong {}", String::from_utf8_lossy(payload)),
            kind::PING => format!("ping {}", String::from_utf8_lossy(payload)),
            kind::GOAWAY => {
                format!("goaway {} {}", u32::from_be_bytes(payload[..4].try_into().unwrap()), payload[7])
            }
            kind::WINDOW_UPDATE => {
                format!("window {stream} {}", u32::from_be_bytes(payload.try_into().unwrap()))
            }
            other => format!("kind {other}"),
        });
        rest = &rest[HEAD_LEN + head.length..];
    }
    assert!(rest.is_empty());
    words
}

fn next(session: &mut Session) -> Incoming {
    session.next_request().unwrap()
}

fn read(body: RequestBody) -> Option<Result<Bytes, Reason>> {
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
fn a_greeting_is_settings_and_a_wide_window() {
    let mut session = Session::new(LIMITS, &GRPC);
    assert_eq!(sent(&mut session), ["settings 3", &format!("window 0 {}", (8 << 20) - 65_535)]);
    assert!(!session.is_open());
    // The preface may come in pieces; the first frame must be settings.
    assert_eq!(session.receive(&PREFACE[..10]), Ok(10));
    assert_eq!(session.receive(&PREFACE[10..]), Ok(14));
    assert_eq!(session.receive(&frame(kind::SETTINGS, 0, 0, &[])[..5]), Ok(0));
    assert_eq!(receive(&mut session, &[frame(kind::SETTINGS, 0, 0, &[])]), Ok(()));
    assert!(session.is_open());
    assert_eq!(sent(&mut session), ["ack"]);
    for bad in [b"GET / HTTP/1.1\r\n\r\n", &[PREFACE, &frame(kind::PING, 0, 0, &[0; 8])].concat()[..]] {
        assert_eq!(Session::new(LIMITS, &GRPC).receive(bad).unwrap_err().reason, Reason::PROTOCOL_ERROR);
    }
}

#[test]
fn a_whole_call_is_answered_in_three_frames() {
    let mut session = open();
    for id in [1, 3, 5] {
        receive(&mut session, &[headers(id, false, POST), data(id, false, b"ab"), data(id, true, b"cd")])
            .unwrap();
        let mut request = next(&mut session);
        assert_eq!((request.stream, request.head.path()), (id, "/a"));
        assert_eq!(request.body.take_whole(), Some(Bytes::from_static(b"abcd")));
        session.answer_fixed(id, Bytes::from_static(b"answer"));
        let answer = [format!("headers {id}"), format!("data {id} 6"), format!("headers {id} end")];
        assert_eq!(sent(&mut session), answer);
        assert_eq!(session.is_drained(id), None);
    }
    assert!(session.next_request().is_none());
    // The same block is read once.
    assert_eq!(session.heads.known.len(), 1);
}

#[test]
fn a_body_may_arrive_after_its_request() {
    let mut session = open();
    receive(&mut session, &[headers(1, false, POST), data(1, false, b"ab")]).unwrap();
    let mut body = next(&mut session).body;
    assert_eq!(body.take_whole(), None);
    assert_eq!(piece(&mut body), Poll::Ready(Some(2)));
    assert_eq!(piece(&mut body), Poll::Pending);
    // `x: y` as a trailer.
    receive(&mut session, &[data(1, false, b"cde"), headers(1, true, b"\x00\x01x\x01y")]).unwrap();
    assert_eq!(piece(&mut body), Poll::Ready(Some(3)));
    let rest = body.collect().now_or_never().unwrap().unwrap();
    assert_eq!(rest.trailers().unwrap()["x"], "y");
    session.send_head(1, StatusCode::OK, &HeaderMap::new(), false);
    session.send_data(1, Bytes::from_static(b"123"));
    session.send_end(1, None);
    assert_eq!(sent(&mut session), ["headers 1", "data 1 3", "data 1 0 end"]);
}

#[test]
fn an_announced_length_holds() {
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
fn answers_wait_for_windows() {
    let mut session = open();
    receive(&mut session, &[setting(4, 10), headers(1, true, POST), headers(3, true, POST)]).unwrap();
    sent(&mut session);
    session.answer_fixed(1, Bytes::from(vec![b'x'; 25]));
    session.answer_fixed(3, Bytes::from_static(b"short"));
    assert_eq!(sent(&mut session), ["headers 1", "data 1 10", "headers 3", "data 3 5", "headers 3 end"]);
    assert_eq!(session.is_drained(1), Some(false));
    receive(&mut session, &[window_update(1, 5)]).unwrap();
    assert!(session.send_blocked());
    assert_eq!(sent(&mut session), ["data 1 5"]);
    // A larger window for all streams.
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
    session.answer_fixed(1, Bytes::from(vec![0; 65_530]));
    session.answer_fixed(3, Bytes::from(vec![0; 10]));
    let words = sent(&mut session);
    assert_eq!(words.last().unwrap(), "data 3 5");
    assert_eq!(words.iter().filter(|w| w.starts_with("data 1")).count(), 4, "frames of 16 KiB: {words:?}");
    receive(&mut session, &[window_update(0, 100)]).unwrap();
    session.send_blocked();
    assert_eq!(sent(&mut session), ["data 3 5", "headers 3 end"]);
}

#[test]
fn nothing_is_prepared_beyond_what_is_sent() {
    let mut session = open();
    receive(&mut session, &[setting(4, 1 << 30), window_update(0, 1 << 30), headers(1, true, POST)]).unwrap();
    session.answer_fixed(1, Bytes::from(vec![0; 4 << 20]));
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
    assert!(!session.is_congested() && session.output.capacity() <= KEPT_OUTPUT);
}

#[test]
fn windows_open_as_bodies_are_read() {
    let mut session = open();
    receive(&mut session, &[headers(1, false, POST)]).unwrap();
    let mut body = next(&mut session).body;
    let full = vec![0; 16_384];
    for _ in 0..63 {
        receive(&mut session, &[data(1, false, &full)]).unwrap();
    }
    session.open_windows();
    assert_eq!(sent(&mut session), Vec::<String>::new(), "nobody has read anything");
    assert_eq!(piece(&mut body), Poll::Ready(Some(63 * 16_384)));
    session.open_windows();
    assert_eq!(sent(&mut session), [format!("window 1 {}", 63 * 16_384)]);
    // One frame over the window of the stream.
    for _ in 0..64 {
        receive(&mut session, &[data(1, false, &full)]).unwrap();
    }
    assert_eq!(sent(&mut session), Vec::<String>::new());
    receive(&mut session, &[data(1, false, &full)]).unwrap();
    assert_eq!(sent(&mut session), ["reset 1 3"]);
    assert_eq!(read(body), Some(Err(Reason::FLOW_CONTROL_ERROR)));
    // What was thrown away does not count any more.
    session.open_windows();
    assert_eq!(sent(&mut session), [format!("window 0 {}", (63 + 65) * 16_384)]);
}

#[test]
fn bodies_that_nobody_reads_close_the_window_of_the_connection() {
    let mut session = Session::new(Limits { max_streams: 100, ..LIMITS }, &GRPC);
    let hello = [PREFACE, &frame(kind::SETTINGS, 0, 0, &[])].concat();
    session.receive(&hello).unwrap();
    let full = vec![0; 16_384];
    let mut bodies = Vec::new();
    let mut refused = None;
    'all: for id in (1..40).step_by(2) {
        receive(&mut session, &[headers(id, false, POST)]).unwrap();
        bodies.push(next(&mut session).body);
        for _ in 0..60 {
            session.open_windows();
            if let Err(error) = receive(&mut session, &[data(id, false, &full)]) {
                refused = Some(error.reason);
                break 'all;
            }
        }
    }
    assert_eq!(refused, Some(Reason::FLOW_CONTROL_ERROR));
    assert!(bodies.len() <= 14, "{}", bodies.len());
}

#[test]
fn padding_is_given_back() {
    let mut session = open();
    let padded = [&[200_u8][..], b"ab", &[0; 200]].concat();
    receive(&mut session, &[headers(1, false, POST), frame(kind::DATA, flag::PADDED, 1, &padded)]).unwrap();
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
        session.answer_fixed(request.stream, Bytes::new());
    }
    receive(&mut session, &[headers(9, true, POST)]).unwrap();
    assert_eq!(next(&mut session).stream, 9);
}

#[test]
fn a_stream_that_is_taken_back_tells_who_waits() {
    let mut session = open();
    let reset = |id| frame(kind::RST_STREAM, 0, id, &8_u32.to_be_bytes());
    receive(&mut session, &[headers(1, false, POST), headers(3, true, POST), reset(3)]).unwrap();
    let request = next(&mut session);
    assert!(session.next_request().is_none(), "3 is gone");
    let watch = session.watch(1).unwrap();
    receive(&mut session, &[reset(1)]).unwrap();
    assert!(watch.now_or_never().is_some());
    assert_eq!(read(request.body), Some(Err(Reason::CANCEL)));
    // An answer now is no harm.
    session.answer_fixed(1, Bytes::from_static(b"late"));
    session.send_data(1, Bytes::from_static(b"late"));
    session.send_end(1, None);
    assert_eq!(sent(&mut session), Vec::<String>::new());
}

#[test]
fn whoever_takes_back_too_much_is_sent_away() {
    let mut session = open();
    let mut id = 1;
    let error = loop {
        let reset = frame(kind::RST_STREAM, 0, id, &8_u32.to_be_bytes());
        match receive(&mut session, &[headers(id, true, POST), reset]) {
            Ok(()) => id += 2,
            Err(error) => break error,
        }
    };
    assert_eq!((error.reason, id), (Reason::ENHANCE_YOUR_CALM, 1 + 2 * MAX_MISDEEDS));
    assert!(session.begun.len() <= MAX_MISDEEDS as usize + 1);
    // Whoever lets its calls be answered may go on for ever.
    let mut session = open();
    for turn in 0..MAX_MISDEEDS * 2 {
        let id = turn * 4 + 1;
        let reset = frame(kind::RST_STREAM, 0, id, &8_u32.to_be_bytes());
        receive(&mut session, &[headers(id, true, POST), reset, headers(id + 2, true, POST)]).unwrap();
        let answered = next(&mut session).stream;
        session.answer_fixed(answered, Bytes::new());
        let count = session.output().len();
        session.advance(count);
    }
}

#[test]
fn an_early_answer_takes_the_rest_of_the_request_off() {
    let mut session = open();
    receive(&mut session, &[headers(1, false, POST), data(1, false, b"ab")]).unwrap();
    next(&mut session);
    let mut refusal = HeaderMap::new();
    refusal.insert("grpc-status", HeaderValue::from_static("8"));
    session.send_head(1, StatusCode::OK, &refusal, true);
    assert_eq!(sent(&mut session), ["headers 1 end", "reset 1 0"]);
    // What was on its way is ignored.
    receive(&mut session, &[data(1, false, b"cd"), headers(1, true, b"\x00\x01x\x01y")]).unwrap();
    assert_eq!(sent(&mut session), Vec::<String>::new());
}

#[test]
fn what_breaks_a_stream_leaves_the_others_alone() {
    for (what, bad, reason) in [
        ("no path", headers(3, true, b"\x83\x86"), 1),
        ("upper case", headers(3, true, &[POST, b"\x00\x01A\x01b"].concat()), 1),
        ("an empty window update", [headers(3, false, POST), window_update(3, 0)].concat(), 1),
        ("too wide a window", [headers(3, false, POST), window_update(3, (1 << 31) - 1)].concat(), 3),
        ("data after the end", [headers(3, true, POST), data(3, false, b"x")].concat(), 5),
        ("headers after the end", [headers(3, true, POST), headers(3, true, b"\x00\x01x\x01y")].concat(), 5),
        (
            "trailers that do not end",
            [headers(3, false, POST), headers(3, false, b"\x00\x01x\x01y")].concat(),
            1,
        ),
        ("pseudo headers as trailers", [headers(3, false, POST), headers(3, true, POST)].concat(), 1),
        (
            "a priority of a strange size",
            [headers(3, true, POST), frame(kind::PRIORITY, 0, 3, &[0; 4])].concat(),
            6,
        ),
    ] {
        let mut session = open();
        receive(&mut session, &[headers(1, true, POST), bad]).unwrap();
        assert_eq!(sent(&mut session), [format!("reset 3 {reason}")], "{what}");
        assert_eq!(next(&mut session).stream, 1, "{what}");
    }
    // Headers without end are answered.
    let mut session = open();
    let many = [POST, &b"\x00\x01x\x01y".repeat(100)].concat();
    receive(&mut session, &[headers(1, true, &many), headers(3, true, POST)]).unwrap();
    assert_eq!(sent(&mut session), ["headers 1 end"]);
    assert_eq!(next(&mut session).stream, 3);
}

#[test]
fn what_breaks_a_connection_says_why() {
    let ping = |len| frame(kind::PING, 0, 0, &vec![0; len]);
    let block = frame(kind::HEADERS, 0, 1, POST);
    let more = |len: usize| frame(kind::CONTINUATION, 0, 1, &vec![0; len]);
    for (what, bad, reason) in [
        ("data of no stream", data(0, false, b""), 1),
        ("data of an idle stream", data(1, false, b""), 1),
        (
            "padding over all",
            [headers(1, false, POST), frame(kind::DATA, flag::PADDED, 1, &[3, 0])].concat(),
            1,
        ),
        ("an even stream", headers(2, true, POST), 1),
        ("headers of no stream", headers(0, true, POST), 1),
        ("headers of a closed stream", [headers(3, true, POST), headers(1, true, POST)].concat(), 5),
        ("a block that does not decode", headers(1, true, b"\xff\xff"), 9),
        ("priority of no stream", frame(kind::PRIORITY, 0, 0, &[0; 5]), 1),
        ("headers cut within their priority", frame(kind::HEADERS, flag::PRIORITY | 4, 1, &[0; 4]), 6),
        ("a reset of an idle stream", frame(kind::RST_STREAM, 0, 1, &[0; 4]), 1),
        ("a short reset", frame(kind::RST_STREAM, 0, 1, &[0; 3]), 6),
        ("settings of a stream", frame(kind::SETTINGS, 0, 1, &[]), 1),
        ("half a setting", frame(kind::SETTINGS, 0, 0, &[0; 7]), 6),
        ("a full acknowledgement", frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]), 6),
        ("a window beyond the limit", setting(4, 1 << 31), 3),
        ("frames that are too small", setting(5, 100), 1),
        ("frames that are too large", setting(5, 1 << 24), 1),
        ("push of 2", setting(2, 2), 1),
        ("a push", frame(kind::PUSH_PROMISE, 4, 1, &[0; 8]), 1),
        ("a ping on a stream", frame(kind::PING, 0, 1, &[0; 8]), 1),
        ("a short ping", ping(7), 6),
        ("a goodbye on a stream", frame(kind::GOAWAY, 0, 1, &[0; 8]), 1),
        ("a short goodbye", frame(kind::GOAWAY, 0, 0, &[0; 7]), 6),
        ("a short window update", frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]), 6),
        ("an empty window update", window_update(0, 0), 1),
        ("too wide a window", window_update(0, (1 << 31) - 1), 3),
        ("a window of an idle stream", window_update(1, 1), 1),
        ("a continuation of nothing", more(1), 1),
        (
            "a continuation of another block",
            [block.clone(), frame(kind::CONTINUATION, 4, 3, &[])].concat(),
            1,
        ),
        ("a block that is interrupted", [block.clone(), ping(8)].concat(), 1),
        ("an empty continuation", [block.clone(), more(0)].concat(), 11),
        ("a block without end", [block.clone(), more(16_000).repeat(9)].concat(), 11),
        ("an enormous frame", frame(kind::DATA, 0, 1, &vec![0; 16_385]), 6),
    ] {
        let mut session = open();
        let error = session.receive(&bad).unwrap_err();
        assert_eq!(error.reason.0, reason, "{what}: {error}");
        session.abort(error.reason);
        let last = sent(&mut session).pop().unwrap();
        assert!(last.starts_with("goaway ") && last.ends_with(&format!(" {reason}")), "{what}: {last}");
    }
}

#[test]
fn what_is_unknown_is_ignored() {
    let mut session = open();
    let frames = [
        frame(77, 0xff, 0, b"anything"),
        frame(kind::PRIORITY, 0, 9, &[0; 5]),
        setting(99, 7),
        setting(2, 0),
        frame(kind::PING, 0, 0, b"12345678"),
        headers(1, true, POST),
    ];
    receive(&mut session, &frames).unwrap();
    assert_eq!(sent(&mut session), ["ack", "ack", "pong 12345678"]);
    assert_eq!(next(&mut session).stream, 1);
}

#[test]
fn a_block_may_come_in_pieces() {
    let mut session = open();
    let first =
        frame(kind::HEADERS, flag::END_STREAM | flag::PADDED | flag::PRIORITY, 1, b"\x01\0\0\0\0\0\x83\0");
    let frames =
        [first, frame(kind::CONTINUATION, 0, 1, b"\x86\x04"), frame(kind::CONTINUATION, 4, 1, b"\x02/a")];
    receive(&mut session, &frames).unwrap();
    assert_eq!(next(&mut session).head.path(), "/a");
    // And so may an answer.
    let mut long = HeaderMap::new();
    long.insert("x", HeaderValue::from_bytes(&[b'y'; 40_000]).unwrap());
    session.send_head(1, StatusCode::OK, &long, true);
    assert_eq!(sent(&mut session), ["headers 1 end", "more 1", "more 1"]);
}

#[test]
fn a_shut_down_answers_what_was_sent_before_it_was_known() {
    let mut session = open();
    receive(&mut session, &[headers(1, true, POST)]).unwrap();
    session.shut_down();
    session.shut_down();
    assert_eq!(sent(&mut session), ["goaway 2147483647 0", "ping mx-bye!!"]);
    let pong = frame(kind::PING, flag::ACK, 0, b"mx-bye!!");
    receive(&mut session, &[headers(3, true, POST), pong, headers(5, true, POST)]).unwrap();
    assert_eq!(sent(&mut session), ["goaway 3 0", "reset 5 7"]);
    assert!(!session.is_done());
    while let Some(request) = session.next_request() {
        session.answer_fixed(request.stream, Bytes::new());
    }
    assert!(session.is_done());
}

#[test]
fn a_caller_that_leaves_gets_its_answers() {
    let mut session = open();
    receive(&mut session, &[headers(1, true, POST), frame(kind::GOAWAY, 0, 0, &[0; 8])]).unwrap();
    assert!(!session.is_done());
    session.answer_fixed(1, Bytes::new());
    assert!(session.is_done());
}

#[test]
fn pings_show_that_a_caller_is_there() {
    let mut session = open();
    session.ping();
    assert_eq!(sent(&mut session), ["ping mx-alive"]);
    assert!(!session.take_pong());
    receive(&mut session, &[frame(kind::PING, flag::ACK, 0, b"mx-alive")]).unwrap();
    assert!(session.take_pong());
    assert!(!session.take_pong());
}

#[test]
fn heads_are_known_again_only_while_they_mean_the_same() {
    let mut session = open();
    // `x: 1` is remembered as number 62 with the first call, and `x: 2` pushes it to 63 with the third.
    let blocks = [&b"\x40\x01x\x011"[..], b"\xbe", b"\x7e\x012", b"\xbe", b"\xbf"];
    let expected = ["1", "1", "2", "2", "1"];
    for (turn, (block, value)) in blocks.iter().zip(expected).enumerate() {
        let id = turn as u32 * 2 + 1;
        receive(&mut session, &[headers(id, true, &[POST, block].concat())]).unwrap();
        let request = next(&mut session);
        assert_eq!(request.head.headers()["x"], value, "call {turn}");
        session.answer_fixed(id, Bytes::new());
    }
}

/// Frames of a caller that is mostly well-behaved.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let id = (0..8_u32).prop_map(|n| n * 2 + 1);
    let any_frame = (0..12_u8, any::<u8>(), 0..9_u32, prop::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload));
    prop_oneof![
        6 => (id.clone(), any::<bool>()).prop_map(|(id, end)| headers(id, end, POST)),
        6 => (id.clone(), any::<bool>(), 0..300_usize).prop_map(|(id, end, n)| data(id, end, &vec![7; n])),
        1 => (id, 1..1000_u32).prop_map(|(id, n)| window_update(id, n)),
        1 => (0..70_000_u32).prop_map(|n| setting(4, n)),
        1 => Just(frame(kind::PING, 0, 0, b"12345678")),
        1 => any_frame,
    ]
}

/// Everything that comes of `input` in pieces of these sizes: what is sent, and what the requests are.
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
                session.abort(error.reason);
                break;
            }
        }
    }
    while let Some(request) = session.next_request() {
        let (id, body) = (request.stream, read(request.body));
        requests.push((id, body.and_then(Result::ok).map_or(0, |body| body.len())));
        session.answer_fixed(id, Bytes::from_static(b"hello"));
    }
    (sent(&mut session), requests)
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        frames in prop::collection::vec(frames(), 0..30),
        sizes in prop::collection::vec(1..60_usize, 0..100),
    ) {
        let input = frames.concat();
        prop_assert_eq!(played(&input, &sizes), played(&input, &[]));
    }

    #[test]
    fn garbage_ends_in_an_error_or_nothing(input in prop::collection::vec(any::<u8>(), 0..2000)) {
        played(&input, &[]);
    }
}
