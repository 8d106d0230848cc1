//! Clients that violate HTTP/2, gRPC or HTTP/1.1: what each violation is answered, and that others are served meanwhile.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use prost::Message as _;
use tonic::Code;

use crate::support::http2::{
    self, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, check_headers, frame,
};
use crate::support::rpc::{self, Client, mixer};
use crate::support::{DEADLINE, Server};

/// Error codes of RFC 9113, section 7.
const PROTOCOL_ERROR: u32 = 0x1;
const FLOW_CONTROL_ERROR: u32 = 0x3;
const STREAM_CLOSED: u32 = 0x5;
const FRAME_SIZE_ERROR: u32 = 0x6;
const COMPRESSION_ERROR: u32 = 0x9;
const ENHANCE_YOUR_CALM: u32 = 0xb;

/// A pseudo-random sequence with a fixed seed (xorshift64).
struct Noise(u64);

impl Noise {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let byte = |_| {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0.to_le_bytes()[0]
        };
        (0..count).map(byte).collect()
    }
}

fn serve() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = Server::on(directory.path()).start();
    (directory, server)
}

/// Everything that comes back on a connection that sends these bytes and no more, until the server closes it.
fn exchange(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let end = stream.read_to_end(&mut answer);
    let timed_out = end.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!timed_out, "the connection stays open after {answer:?}");
    answer
}

/// The frames that answer these bytes, up to the acknowledgement of a PING behind them.
fn frames_until_pong(port: u16, bytes: &[u8]) -> Vec<Frame> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    stream.write_all(&[bytes, &frame(PING, 0, 0, b"still up")].concat()).expect("sent");
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let frames = http2::frames(&answer);
        if frames.iter().any(|frame| frame.kind == PING && frame.payload == b"still up") {
            return frames;
        }
        let length = stream.read(&mut buffer).expect("an answer to the PING");
        assert!(length > 0, "the connection was closed after {frames:?}");
        answer.extend_from_slice(&buffer[..length]);
    }
}

fn goaway_code(frames: &[Frame]) -> Option<u32> {
    frames.iter().rfind(|frame| frame.kind == GOAWAY)?.error_code()
}

fn assert_serves(server: &Server) {
    let mut client = Client::new(&server.address()).expect("a client");
    let answer = client.check(&mixer::CheckRequest::default(), None);
    assert!(answer.is_ok(), "{answer:?}\n{}", server.log());
}

#[test]
fn bytes_without_the_preface_of_http2_are_a_protocol_error() {
    let (_directory, server) = serve();
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut inputs = vec![
        b"GET / HTTP/1.1\r\nHost: mixer\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        vec![0; 64],
    ];
    inputs.extend((0..50).map(|_| noise.bytes(512)));
    for input in inputs {
        let frames = http2::frames(&exchange(server.ports.api, &input));
        assert_eq!(goaway_code(&frames), Some(PROTOCOL_ERROR), "{input:?}: {frames:?}");
    }
    assert_serves(&server);
}

#[test]
fn violations_of_http2_are_answered_with_the_error_codes_of_rfc_9113() {
    let (_directory, server) = serve();
    let stream_1 = check_headers(1);
    let after_headers = |rest: Vec<u8>| [stream_1.clone(), rest].concat();
    let oversized = [&[0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1][..], &[0; 64]].concat();
    let empty_continuations = [frame(HEADERS, 0, 1, &[0x83]), frame(CONTINUATION, 0, 1, &[])].concat();
    for (violation, bytes, code) in [
        ("a frame above SETTINGS_MAX_FRAME_SIZE", oversized, FRAME_SIZE_ERROR),
        ("DATA on stream 0", frame(DATA, 0, 0, b"x"), PROTOCOL_ERROR),
        ("DATA on an idle stream", frame(DATA, 0, 1, b"x"), PROTOCOL_ERROR),
        ("HEADERS on stream 0", frame(HEADERS, END_HEADERS, 0, &[0x83]), PROTOCOL_ERROR),
        ("HEADERS on an even stream", frame(HEADERS, END_HEADERS, 2, &[0x83]), PROTOCOL_ERROR),
        ("an invalid header block", frame(HEADERS, END_HEADERS, 1, &[0xff; 16]), COMPRESSION_ERROR),
        (
            "an interrupted header block",
            [frame(HEADERS, 0, 1, &[0x83]), frame(PING, 0, 0, &[0; 8])].concat(),
            PROTOCOL_ERROR,
        ),
        ("CONTINUATION without HEADERS", frame(CONTINUATION, END_HEADERS, 1, &[0x83]), PROTOCOL_ERROR),
        ("empty CONTINUATION frames", empty_continuations, ENHANCE_YOUR_CALM),
        ("RST_STREAM of an idle stream", frame(RST_STREAM, 0, 1, &[0; 4]), PROTOCOL_ERROR),
        (
            "RST_STREAM of an invalid length",
            after_headers(frame(RST_STREAM, 0, 1, &[0; 3])),
            FRAME_SIZE_ERROR,
        ),
        ("SETTINGS on a stream", frame(SETTINGS, 0, 1, &[]), PROTOCOL_ERROR),
        ("SETTINGS of an invalid length", frame(SETTINGS, 0, 0, &[0; 5]), FRAME_SIZE_ERROR),
        (
            "SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1",
            frame(SETTINGS, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff]),
            FLOW_CONTROL_ERROR,
        ),
        ("PUSH_PROMISE", frame(5, END_HEADERS, 1, &[0; 4]), PROTOCOL_ERROR),
        ("PING of an invalid length", frame(PING, 0, 0, &[0; 7]), FRAME_SIZE_ERROR),
        ("GOAWAY of an invalid length", frame(GOAWAY, 0, 0, &[0; 7]), FRAME_SIZE_ERROR),
        ("WINDOW_UPDATE of 0", frame(WINDOW_UPDATE, 0, 0, &[0; 4]), PROTOCOL_ERROR),
        (
            "WINDOW_UPDATE beyond 2^31-1",
            frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
            FLOW_CONTROL_ERROR,
        ),
    ] {
        let frames = http2::frames(&exchange(server.ports.api, &[PREFACE, &bytes].concat()));
        assert_eq!(frames.first().map(|frame| frame.kind), Some(SETTINGS), "{violation}: {frames:?}");
        assert_eq!(goaway_code(&frames), Some(code), "{violation}: {frames:?}");
    }
    assert_serves(&server);
}

#[test]
fn violations_on_a_stream_reset_the_stream_only() {
    let (_directory, server) = serve();
    let empty_message = frame(DATA, END_STREAM, 1, &[0; 5]);
    let ended = [check_headers(1), empty_message.clone(), empty_message.clone()].concat();
    let with_lengths = |lengths: &[&str]| {
        let fields: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
        let headers = http2::headers(1, rpc::CHECK, "application/grpc", &fields);
        [headers, frame(DATA, END_STREAM, 1, &[0; 5])].concat()
    };
    for (violation, bytes, code) in [
        ("DATA after END_STREAM", ended, STREAM_CLOSED),
        (
            "WINDOW_UPDATE of 0",
            [check_headers(1), frame(WINDOW_UPDATE, 0, 1, &[0; 4])].concat(),
            PROTOCOL_ERROR,
        ),
        ("a head without pseudo-header fields", frame(HEADERS, END_HEADERS, 1, &[]), PROTOCOL_ERROR),
        ("a length with a sign", with_lengths(&["+5"]), PROTOCOL_ERROR),
        ("two different lengths", with_lengths(&["5", "6"]), PROTOCOL_ERROR),
    ] {
        let frames = frames_until_pong(server.ports.api, &[PREFACE, &bytes].concat());
        let reset = frames.iter().find(|frame| frame.kind == RST_STREAM);
        assert_eq!(reset.and_then(Frame::error_code), Some(code), "{violation}: {frames:?}");
        assert_eq!(goaway_code(&frames), None, "{violation}: the connection stays\n{frames:?}");
    }
    assert_serves(&server);
}

#[test]
fn random_frames_end_in_a_goaway_that_names_the_error() {
    let (_directory, server) = serve();
    let mut noise = Noise(0x2545_f491_4f6c_dd1d);
    for _ in 0..100 {
        let mut garbage = noise.bytes(512);
        // A first frame that is larger than any that was agreed, whatever its type.
        garbage[0] |= 0x80;
        let frames = http2::frames(&exchange(server.ports.api, &[PREFACE, &garbage].concat()));
        assert_eq!(goaway_code(&frames), Some(FRAME_SIZE_ERROR), "{garbage:?}: {frames:?}");
    }
    for _ in 0..100 {
        // Whole frames of random types, flags and streams with random payloads.
        let random = noise.bytes(64);
        let frames = random.chunks_exact(4).map(|head| {
            let payload = noise.bytes(usize::from(head[3] % 32));
            frame(head[0] % 10, head[1], u32::from(head[2] % 8), &payload)
        });
        let input = [PREFACE.to_vec(), frames.collect::<Vec<_>>().concat()].concat();
        let frames = http2::frames(&exchange(server.ports.api, &input));
        let code = goaway_code(&frames).unwrap_or_default();
        let errors = [
            PROTOCOL_ERROR,
            FLOW_CONTROL_ERROR,
            STREAM_CLOSED,
            FRAME_SIZE_ERROR,
            COMPRESSION_ERROR,
            ENHANCE_YOUR_CALM,
        ];
        assert!(errors.contains(&code), "{input:?}: {frames:?}");
    }
    assert_serves(&server);
}

#[test]
fn messages_that_do_not_decode_are_answered_with_internal() {
    let (_directory, server) = serve();
    let mut client = Client::new(&server.address()).expect("a client");
    let mut noise = Noise(0x853c_49e6_748f_ea9b);
    let mut inputs: Vec<Vec<u8>> = vec![vec![0x0a, 0xff, 0xff, 0x7f], vec![0x0a], vec![0x07], vec![0xff; 10]];
    // An unknown wire type decodes in no message.
    inputs.extend((1..64).map(|length| [vec![0x0f], noise.bytes(length)].concat()));
    for input in inputs {
        for method in [rpc::CHECK, rpc::REPORT] {
            let status = client.call(method, input.clone(), None).expect_err("an error");
            assert_eq!(status.code(), Code::Internal, "{method} {input:?}: {status:?}");
            let text = status.message();
            assert!(text.starts_with("grpc: error unmarshalling request: "), "{method} {input:?}: {text}");
        }
    }
    assert_serves(&server);
}

#[test]
fn unknown_methods_are_answered_with_unimplemented() {
    let (_directory, server) = serve();
    let mut client = Client::new(&server.address()).expect("a client");
    for path in ["/istio.mixer.v1.Mixer/Nosuch", "/nosuch.Service/Check", "/", "/../../etc/passwd"] {
        let status = client.call(path, Vec::new(), None).expect_err("an error");
        assert_eq!(status.code(), Code::Unimplemented, "{path}: {status:?}");
    }
}

#[test]
fn garbage_on_the_http_ports_is_a_bad_request() {
    let (_directory, server) = serve();
    let mut noise = Noise(0xda3e_39cb_94b9_5bdb);
    let mut inputs = vec![
        b"GET\r\n\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n".to_vec(),
    ];
    // Control characters begin no method.
    inputs.extend((0..20).map(|_| [vec![1], noise.bytes(64), b"\r\n\r\n".to_vec()].concat()));
    for port in [server.ports.monitoring, server.ports.ctrlz] {
        for input in &inputs {
            let answer = exchange(port, input);
            let text = String::from_utf8_lossy(&answer);
            assert!(text.starts_with("HTTP/1.1 400 "), "{port} {input:?}: {text}");
        }
    }
    assert_serves(&server);
}

/// The answers to calls of a method with these messages.
fn codes(server: &Server, method: &'static str, messages: &[Vec<u8>]) -> Vec<(Code, String)> {
    let mut client = Client::new(&server.address()).expect("a client");
    let call = |message: &Vec<u8>| match client.call(method, message.clone(), None) {
        Ok(_) => (Code::Ok, String::new()),
        Err(status) => (status.code(), status.message().to_owned()),
    };
    messages.iter().map(call).collect()
}

#[test]
fn messages_with_too_many_parts_are_refused() {
    let (directory, server) = serve();
    // A record of two bytes without attributes.
    let report = |records: usize| [0x0a, 0].repeat(records);
    let found = codes(&server, rpc::REPORT, &[report(20_000), report(20_001), report(520_000)]);
    let text = |count: usize| {
        format!("the report has {count} records; at most 20000 are allowed (--max-report-records)")
    };
    assert_eq!(found[0], (Code::Ok, String::new()));
    assert_eq!(found[1], (Code::InvalidArgument, text(20_001)));
    assert_eq!(found[2], (Code::InvalidArgument, text(520_000)));
    let check = |quotas: usize| {
        let params = mixer::check_request::QuotaParams { amount: 1, best_effort: false };
        let quotas = (0..quotas).map(|number| (format!("quota-{number}"), params)).collect();
        mixer::CheckRequest { quotas, ..Default::default() }.encode_to_vec()
    };
    let found = codes(&server, rpc::CHECK, &[check(64), check(65)]);
    let text = "the check asks for more than 64 quotas (--max-check-quotas)".to_owned();
    assert_eq!(found, [(Code::Ok, String::new()), (Code::InvalidArgument, text)]);
    let server =
        Server::on(directory.path()).with(&["--max-check-quotas=65", "--max-report-records=3"]).start();
    assert_eq!(codes(&server, rpc::CHECK, &[check(65)])[0].0, Code::Ok);
    assert_eq!(codes(&server, rpc::REPORT, &[report(4)])[0].0, Code::InvalidArgument);
}

#[test]
fn requests_that_are_not_grpc_are_refused_with_415() {
    let (_directory, server) = serve();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let status = |path: &str, content_type: Option<&str>| {
        mixer_net::tls::install_crypto_provider();
        let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().expect("a client");
        let mut request = client.post(format!("http://{}{path}", server.address())).body(vec![0; 5]);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let answer = runtime.block_on(async { request.timeout(DEADLINE).send().await });
        answer.expect("a response").status().as_u16()
    };
    for path in [rpc::CHECK, rpc::REPORT, "/grpc.health.v1.Health/Check", "/nosuch.Service/Check"] {
        for foreign in [None, Some("application/json"), Some("text/plain"), Some("application/grpc-web")] {
            assert_eq!(status(path, foreign), 415, "{path} {foreign:?}");
        }
    }
    for own in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"] {
        assert_eq!(status(rpc::CHECK, Some(own)), 200, "{own}");
    }
}

#[test]
fn a_message_that_does_not_arrive_ends_its_call_in_time() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = Server::on(directory.path()).with(&["--receive-timeout=50ms"]).start();
    let health = "/grpc.health.v1.Health/Check";
    let logs = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";
    let begun = frame(DATA, 0, 1, &[0, 0, 0, 0, 9, 1, 2]);
    for (path, timeout) in [(rpc::CHECK, "1H"), (rpc::REPORT, "1H"), (health, "1H"), (logs, "1H")] {
        let call = http2::headers(1, path, "application/grpc", &[("grpc-timeout", timeout)]);
        assert_eq!(reset_of(server.ports.api, &[&call[..], &begun].concat(), 1), 0, "{path}");
    }
    // The deadline of the caller counts from the head as well, and before the first byte of a message.
    let server = Server::on(directory.path()).with(&["--receive-timeout=1h"]).start();
    for path in [rpc::CHECK, logs] {
        let call = http2::headers(1, path, "application/grpc", &[("grpc-timeout", "50m")]);
        assert_eq!(reset_of(server.ports.api, &call, 1), 0, "{path}");
    }
    assert_serves(&server);
}

/// The error code of RST_STREAM for a stream on a connection that stays open.
fn reset_of(port: u16, bytes: &[u8], stream: u32) -> u32 {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    connection.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    connection.write_all(&[PREFACE, bytes].concat()).expect("sent");
    read_reset(&mut connection, stream)
}

fn read_reset(connection: &mut TcpStream, stream: u32) -> u32 {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let reset = |frame: &&Frame| frame.kind == RST_STREAM && frame.stream == stream;
        if let Some(reset) = http2::frames(&answer).iter().find(reset) {
            return reset.error_code().expect("an error code");
        }
        let length = connection.read(&mut buffer).expect("RST_STREAM");
        assert!(length > 0, "the connection was closed after {:?}", http2::frames(&answer));
        answer.extend_from_slice(&buffer[..length]);
    }
}

#[test]
fn the_memory_of_unfinished_requests_is_bounded() {
    let (_directory, server) = serve();
    let mut connection = TcpStream::connect(("127.0.0.1", server.ports.api)).expect("a connection");
    connection.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    connection.write_all(PREFACE).expect("sent");
    let mut refused = None;
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 65_536]);
    // The prefix claims 1 MiB; all but the end of it arrives. A PING after each message leaves the server time for WINDOW_UPDATE.
    for number in 0..40_u32 {
        let stream = number * 2 + 1;
        let mut message = vec![0, 0, 0x0f, 0xff, 0xff];
        message.resize(960 << 10, 0);
        let mut call = check_headers(stream);
        call.extend(message.chunks(16_384).flat_map(|part| frame(DATA, 0, stream, part)));
        call.extend(frame(PING, 0, 0, &u64::from(number).to_be_bytes()));
        connection.write_all(&call).expect("sent");
        let answered = |frames: &[Frame]| {
            frames.iter().any(|f| f.kind == PING && f.payload == u64::from(number).to_be_bytes())
        };
        while !answered(&http2::frames(&answer)) {
            let length = connection.read(&mut buffer).expect("an answer");
            assert!(length > 0, "the connection was closed");
            answer.extend_from_slice(&buffer[..length]);
        }
        let frames = http2::frames(&answer);
        let reset = frames.iter().find(|frame| frame.kind == RST_STREAM).cloned();
        if let Some(reset) = reset {
            refused = Some((number, reset.error_code()));
            break;
        }
    }
    // 16 MiB a connection, with what the calls take.
    assert_eq!(refused, Some((16, Some(ENHANCE_YOUR_CALM))));
    // A complete request on the same connection is served, and everything else goes on.
    let whole = [check_headers(101), frame(DATA, END_STREAM, 101, &[0; 5])].concat();
    connection.write_all(&whole).expect("sent");
    answer.clear();
    let is_answer = |frame: &Frame| frame.kind == DATA && frame.stream == 101;
    while !http2::frames(&answer).iter().any(is_answer) {
        let length = connection.read(&mut buffer).expect("an answer");
        assert!(length > 0, "the connection was closed");
        answer.extend_from_slice(&buffer[..length]);
    }
    assert_serves(&server);
}
