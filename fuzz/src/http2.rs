//! A server session, fed frame by frame, against a model of the client side of RFC 9113: every malformed frame is answered with
//! an error of its class, every frame of the server is valid, and all state stays bounded.

mod client;
mod frame;
mod oracle;

use std::sync::LazyLock;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use mixer_http2::{ErrorCode, FixedResponse, IncomingRequest, Limits, Session, UnlimitedMemory};

use crate::input::Input;
use client::Client;
use frame::Frame;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const POST: &[u8] = b"\x83\x86\x04\x02/a";
const LIMITS: Limits = Limits { max_streams: 4, max_header_bytes: 1000, max_request_bytes: 48 << 10 };
const MAX_BLOCK: usize = 128 << 10;

static GRPC: LazyLock<FixedResponse> =
    LazyLock::new(|| FixedResponse::new(("content-type", "application/grpc"), ("grpc-status", "0")));

pub(crate) fn run(data: &[u8]) {
    let Some((selector, rest)) = data.split_first() else { return };
    match selector % 4 {
        0 => pieces(&mut Input::new(rest), false),
        1 => pieces(&mut Input::new(rest), true),
        _ => frames(&mut Input::new(rest)),
    }
}

/// The result does not depend on how the bytes are split.
fn pieces(input: &mut Input<'_>, greeted: bool) {
    let sizes: Vec<usize> = input.short().iter().map(|size| usize::from(*size) + 1).collect();
    let mut wire = if greeted { greeting() } else { Vec::new() };
    wire.extend_from_slice(input.rest());
    assert_eq!(played(&wire, &sizes), played(&wire, &[]));
}

fn greeting() -> Vec<u8> {
    [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat()
}

/// The output, and the requests with their bodies.
fn played(wire: &[u8], sizes: &[usize]) -> (Vec<u8>, Vec<(u32, usize)>) {
    let mut session = Session::new(LIMITS, &GRPC, UnlimitedMemory);
    let (mut kept, mut at) = (Vec::new(), 0);
    for size in sizes.iter().copied().chain([usize::MAX]) {
        let end = at + size.min(wire.len() - at);
        kept.extend_from_slice(&wire[at..end]);
        at = end;
        let received = loop {
            match session.receive(&kept) {
                Ok(taken) => drop(kept.drain(..taken)),
                Err(error) => break Err(error),
            }
            if !session.has_stopped() || session.is_full() {
                break Ok(());
            }
        };
        if let Err(error) = received {
            session.abort(error.code);
            break;
        }
    }
    let mut requests = Vec::new();
    while let Some(request) = session.next_request() {
        let body = request.body.collect().now_or_never().and_then(Result::ok);
        requests.push((request.stream, body.map_or(0, |body| body.to_bytes().len())));
        session.send_fixed_response(request.stream, Bytes::from_static(b"hello"));
    }
    (session.output().to_vec(), requests)
}

/// Both ends of a connection.
struct Pair {
    session: Session,
    client: Client,
    requests: Vec<IncomingRequest>,
    is_over: bool,
}

fn frames(input: &mut Input<'_>) {
    let mut session = Session::new(LIMITS, &GRPC, UnlimitedMemory);
    let greeting = greeting();
    assert_eq!(session.receive(&greeting), Ok(greeting.len()));
    let mut pair = Pair { session, client: Client::new(), requests: Vec::new(), is_over: false };
    pair.drain();
    while !input.is_empty() && !pair.is_over {
        pair.step(input);
    }
}

impl Pair {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(19) {
            0 | 1 => self.request(input, POST.to_vec()),
            2 => {
                let block = [POST, input.short()].concat();
                self.request(input, block);
            }
            3 | 4 => {
                let (stream, flags) = (self.stream(input), input.byte() & 1);
                let length = usize::from(input.byte()) << input.below(8);
                self.send(&Frame::new(0, flags, stream, vec![7; length.min(16_384)]));
            }
            5 => {
                let stream = if input.byte() & 1 == 0 { 0 } else { self.stream(input) };
                self.send(&Frame::new(8, 0, stream, input.u32().to_be_bytes().to_vec()));
            }
            6 => {
                let name = input.below(8) as u16;
                let payload = [&name.to_be_bytes()[..], &input.u32().to_be_bytes()].concat();
                self.send(&Frame::new(4, 0, 0, payload));
            }
            7 => {
                let stream = self.stream(input);
                self.send(&Frame::new(3, 0, stream, vec![0, 0, 0, 8]));
            }
            8 => self.send(&Frame::new(6, input.byte() & 1, 0, b"mx-bye!!".to_vec())),
            9 => {
                let (kind, flags, stream) = (input.byte() % 12, input.byte(), self.stream(input));
                let stream = if input.byte() & 3 == 0 { 0 } else { stream };
                self.send(&Frame::new(kind, flags, stream, input.short().to_vec()));
            }
            10 => {
                let (kind, flags, stream) = (input.byte(), input.byte(), input.u32());
                self.send(&Frame::new(kind, flags, stream, input.short().to_vec()));
            }
            11 | 12 => self.take_request(),
            13 => self.answer(input),
            14 => {
                if let Some(request) = self.requests.pop() {
                    self.session.send_reset(request.stream, ErrorCode(8));
                }
            }
            15 => self.read_bodies(),
            16 => self.session.begin_shutdown(),
            17 => self.session.finish_shutdown(),
            _ => self.session.ping(),
        }
        if !self.is_over {
            self.session.send_window_updates();
            while self.session.send_blocked() && !self.session.is_congested() {}
            self.drain();
        }
    }

    /// A request, sometimes with CONTINUATION frames.
    fn request(&mut self, input: &mut Input<'_>, block: Vec<u8>) {
        let how = input.byte();
        let stream = self.client.next_stream();
        let at = if how & 2 == 0 { block.len() } else { input.below(block.len() + 1) };
        let (first, second) = block.split_at(at);
        let end = if second.is_empty() { 4 } else { 0 };
        self.send(&Frame::new(1, how & 1 | end, stream, first.to_vec()));
        if end == 0 && !self.is_over {
            self.send(&Frame::new(9, 4, stream, second.to_vec()));
        }
    }

    /// A stream identifier close to the open ones.
    fn stream(&self, input: &mut Input<'_>) -> u32 {
        let back = input.below(6) as u32 * 2;
        (self.client.next_stream() + 2).saturating_sub(back)
    }

    fn send(&mut self, frame: &Frame) {
        let expected = oracle::violations(frame, &self.client);
        match self.session.receive(&frame.bytes()) {
            Ok(taken) => {
                assert_eq!(taken, frame.bytes().len(), "{frame:?}");
                assert!(expected.is_empty(), "{frame:?} is taken, not {expected:?}");
                let answer = oracle::stream_violation(frame, &self.client);
                self.client.sent(frame);
                let resets = self.drain();
                if let Some((stream, reason)) = answer {
                    assert!(
                        resets.contains(&(stream, reason)),
                        "{frame:?}: {resets:?}, not reset for {reason}"
                    );
                }
            }
            Err(error) => {
                let reason = error.code.0;
                let allowed = if expected.is_empty() { oracle::state_violations(frame) } else { expected };
                assert!(allowed.contains(&reason), "{frame:?}: {error}, not {allowed:?}");
                self.session.abort(error.code);
                self.client.takes_end(self.session.output(), reason);
                self.is_over = true;
            }
        }
    }

    fn take_request(&mut self) {
        if let Some(request) = self.session.next_request() {
            assert!(self.client.has_opened(request.stream), "a request of stream {}", request.stream);
            self.requests.push(request);
        }
    }

    fn answer(&mut self, input: &mut Input<'_>) {
        if self.requests.is_empty() {
            return;
        }
        let request = self.requests.remove(input.below(self.requests.len()));
        let (id, how) = (request.stream, input.byte());
        let body = Bytes::from(vec![b'x'; usize::from(input.byte()) << (how >> 4)]);
        if how & 1 == 0 {
            self.session.send_fixed_response(id, body);
            return;
        }
        let mut headers = HeaderMap::new();
        let long = vec![b'y'; usize::from(how >> 4) * 2000];
        headers.insert("x", HeaderValue::from_bytes(&long).expect("letters"));
        self.session.send_headers(id, StatusCode::OK, &headers, how & 2 != 0);
        if how & 2 == 0 {
            self.session.send_data(id, body);
            self.session.send_end_stream(id, (how & 4 != 0).then_some(headers));
        }
    }

    /// Reads the received part of every body.
    fn read_bodies(&mut self) {
        for request in &mut self.requests {
            while let Some(Some(Ok(_))) = request.body.frame().now_or_never() {}
        }
    }

    /// Passes the output to the client; returns the reset streams.
    fn drain(&mut self) -> Vec<(u32, u32)> {
        let sizes = self.session.sizes();
        assert!(sizes.streams <= LIMITS.max_streams as usize, "{sizes:?}");
        assert!(sizes.recently_reset <= 64 && sizes.block <= MAX_BLOCK, "{sizes:?}");
        assert!(sizes.held <= LIMITS.max_request_bytes, "{sizes:?}");
        assert!(sizes.blocked <= 2 * LIMITS.max_streams as usize, "{sizes:?}");
        let output = self.session.output().to_vec();
        self.session.advance(output.len());
        self.client.takes(&output)
    }
}
