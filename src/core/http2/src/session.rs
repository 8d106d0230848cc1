//! The state of one connection.

pub(super) mod fuzzing;
mod head_cache;
mod kept;
mod output;
mod receive;
mod requests;
mod send;
mod waiting;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use rustc_hash::FxBuildHasher;

use self::head_cache::HeadCache;
use self::waiting::Waiting;
use super::flow_control::{FlowControl, MemoryAccount};
use super::frame::{
    DEFAULT_WINDOW, ErrorCode, MAX_FRAME, frame_type, push_frame_header, push_number, setting,
};
use super::hpack::{Decoder, Encoder, FixedResponse};
use super::stream::Stream;

/// Receive window of a stream in bytes.
const STREAM_WINDOW: i64 = 1 << 20;
/// Receive window of the connection in bytes.
const CONNECTION_WINDOW: i64 = 8 << 20;
/// Received bytes before a WINDOW_UPDATE of the connection.
const WINDOW_STEP: i64 = 1 << 20;
/// Resets and stream errors that a client may cause beyond completed responses in an interval of keep-alive; a defence against rapid resets.
const PROTOCOL_VIOLATION_BUDGET: u32 = 10_000;
/// Streams reset by the server on which frames may still be in flight.
const RECENTLY_RESET: usize = 64;
/// PING payloads: liveness of the peer, and receipt of the first GOAWAY.
const KEEP_ALIVE_PING: [u8; 8] = *b"mx-alive";
const SHUTDOWN_PING: [u8; 8] = *b"mx-bye!!";
/// Last-Stream-ID of the first GOAWAY: no stream is refused yet.
const ALL_STREAMS: u32 = (1 << 31) - 1;

/// Limits of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    pub max_streams: u32,
    /// SETTINGS_MAX_HEADER_LIST_SIZE: names and values plus 32 bytes per field.
    pub max_header_bytes: u32,
    /// Memory of requests that are not answered, except of those that arrive complete in 16 KiB, and of answers that find no window.
    pub max_request_bytes: usize,
}

/// A connection error. Spec: RFC 9113 section 5.4.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ConnectionError {
    /// The code for GOAWAY.
    pub code: ErrorCode,
    /// For the log.
    pub message: &'static str,
}

/// Progress of the connection preface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Bytes of the client preface received so far.
    Preface(usize),
    /// Waiting for the first frame, which must be SETTINGS.
    Settings,
    Established,
}

/// Progress of a graceful shutdown. Spec: RFC 9113 section 6.8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shutdown {
    None,
    /// GOAWAY with the maximum stream identifier was sent; new streams are still accepted.
    Announced,
    /// GOAWAY with the last stream identifier was sent; new streams are refused.
    Final,
}

/// Settings of the client.
#[derive(Debug, Clone, Copy)]
struct PeerSettings {
    initial_window: i64,
    max_frame: usize,
}

/// The server side of one HTTP/2 connection.
#[derive(Debug)]
pub struct Session {
    limits: Limits,
    phase: Phase,
    shutdown: Shutdown,
    received_goaway: bool,
    decoder: Decoder,
    encoder: Encoder,
    head_cache: HeadCache,
    /// A header block that waits for CONTINUATION.
    partial_block: Option<PartialBlock>,
    streams: HashMap<u32, Stream, FxBuildHasher>,
    /// Streams whose request is not delivered yet.
    new_requests: VecDeque<u32>,
    /// Memory of their heads, without those of the cache.
    waiting_heads: usize,
    /// Whether frames of the last input may be left.
    has_stopped: bool,
    last_stream: u32,
    recently_reset: VecDeque<u32>,
    violations: u32,
    peer: PeerSettings,
    send_window: i64,
    receive_window: i64,
    flow_control: Arc<FlowControl>,
    output: Vec<u8>,
    sent: usize,
    /// Whether the output counts in the memory of requests.
    holds_output: bool,
    /// What the account counts of what the connection keeps between two events.
    kept: usize,
    /// Streams that wait for flow-control window or output space.
    blocked: Waiting,
    /// Streams of which [`watch_drained`](Self::watch_drained) was called, and that are drained or closed since.
    drained: VecDeque<u32>,
    /// No open stream has a higher [`send_credit`](Stream::send_credit).
    max_send_credit: i64,
    ping_acked: bool,
}

/// An incomplete header block.
#[derive(Debug)]
struct PartialBlock {
    stream: u32,
    end_stream: bool,
    bytes: Vec<u8>,
}

impl Session {
    /// A new connection. The output starts with the server preface. `fixed` is the form of
    /// [`send_fixed_response`](Self::send_fixed_response); its requests also count in `account`.
    pub fn new(limits: Limits, fixed: &'static FixedResponse, account: impl MemoryAccount + 'static) -> Self {
        let mut output = Vec::new();
        let settings = [
            (setting::MAX_CONCURRENT_STREAMS, limits.max_streams),
            (setting::INITIAL_WINDOW_SIZE, STREAM_WINDOW as u32),
            (setting::MAX_HEADER_LIST_SIZE, limits.max_header_bytes),
        ];
        push_frame_header(&mut output, settings.len() * 6, frame_type::SETTINGS, 0, 0);
        for (name, value) in settings {
            output.extend_from_slice(&name.to_be_bytes());
            output.extend_from_slice(&value.to_be_bytes());
        }
        push_number(&mut output, frame_type::WINDOW_UPDATE, 0, (CONNECTION_WINDOW - DEFAULT_WINDOW) as u32);
        Self {
            limits,
            phase: Phase::Preface(0),
            shutdown: Shutdown::None,
            received_goaway: false,
            decoder: Decoder::new(),
            encoder: Encoder::new(fixed),
            head_cache: HeadCache::default(),
            partial_block: None,
            streams: HashMap::default(),
            new_requests: VecDeque::new(),
            waiting_heads: 0,
            has_stopped: false,
            last_stream: 0,
            recently_reset: VecDeque::new(),
            violations: 0,
            peer: PeerSettings { initial_window: DEFAULT_WINDOW, max_frame: MAX_FRAME },
            send_window: DEFAULT_WINDOW,
            receive_window: CONNECTION_WINDOW,
            flow_control: Arc::new(FlowControl::new(limits.max_request_bytes, Box::new(account))),
            output,
            sent: 0,
            holds_output: false,
            kept: 0,
            blocked: Waiting::default(),
            drained: VecDeque::new(),
            max_send_credit: 0,
            ping_acked: false,
        }
    }

    /// Whether all data queued on a stream has moved to the output; `None` if the stream is closed.
    pub fn is_drained(&self, stream: u32) -> Option<bool> {
        self.streams.get(&stream).map(|stream| stream.outgoing.is_empty())
    }

    /// As [`is_drained`](Self::is_drained). If not, [`next_drained`](Self::next_drained) tells once it is drained or closed.
    pub fn watch_drained(&mut self, stream: u32) -> Option<bool> {
        let found = self.streams.get_mut(&stream)?;
        found.is_watched = !found.outgoing.is_empty();
        Some(!found.is_watched)
    }

    /// The next of the watched streams that is drained or closed.
    pub fn next_drained(&mut self) -> Option<u32> {
        self.drained.pop_front()
    }

    /// Registers the waker for window updates caused by readers of request bodies.
    pub fn register_waker(&self, waker: &Waker) {
        self.flow_control.register(waker);
    }

    /// Whether the client's preface and SETTINGS were received.
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// Whether the client's preface was not received yet.
    pub fn expects_preface(&self) -> bool {
        matches!(self.phase, Phase::Preface(_))
    }

    /// Queues a PING.
    pub fn ping(&mut self) {
        self.push_ping(KEEP_ALIVE_PING);
    }

    /// Whether a [`ping`](Self::ping) was acknowledged since the last call.
    pub fn take_ping_ack(&mut self) -> bool {
        std::mem::take(&mut self.ping_acked)
    }

    /// Starts a graceful shutdown: queues GOAWAY and a PING. New streams are accepted until the client acknowledges the PING.
    pub fn begin_shutdown(&mut self) {
        if self.shutdown == Shutdown::None {
            self.shutdown = Shutdown::Announced;
            self.push_goaway(ALL_STREAMS, ErrorCode::NO_ERROR);
            self.push_ping(SHUTDOWN_PING);
        }
    }

    /// Queues the final GOAWAY after [`begin_shutdown`](Self::begin_shutdown); later streams are refused. Also happens when the client
    /// acknowledges the PING.
    pub fn finish_shutdown(&mut self) {
        if self.shutdown == Shutdown::Announced {
            self.shutdown = Shutdown::Final;
            self.push_goaway(self.last_stream, ErrorCode::NO_ERROR);
        }
    }

    /// Queues GOAWAY with an error code; the connection must be closed.
    pub fn abort(&mut self, code: ErrorCode) {
        self.push_goaway(self.last_stream, code);
    }

    /// Whether either side has sent its final GOAWAY and no stream is open.
    pub fn is_finished(&self) -> bool {
        (self.shutdown == Shutdown::Final || self.received_goaway) && self.streams.is_empty()
    }

    fn push_ping(&mut self, payload: [u8; 8]) {
        push_frame_header(&mut self.output, payload.len(), frame_type::PING, 0, 0);
        self.output.extend_from_slice(&payload);
    }

    fn push_goaway(&mut self, last_stream: u32, code: ErrorCode) {
        push_frame_header(&mut self.output, 8, frame_type::GOAWAY, 0, 0);
        self.output.extend_from_slice(&last_stream.to_be_bytes());
        self.output.extend_from_slice(&code.0.to_be_bytes());
    }

    /// Spends one unit of the protocol-violation budget. Errors: it is exhausted.
    fn spend_violation(&mut self) -> Result<(), ConnectionError> {
        self.violations += 1;
        if self.violations > PROTOCOL_VIOLATION_BUDGET {
            return Err(ConnectionError {
                code: ErrorCode::ENHANCE_YOUR_CALM,
                message: "protocol-violation budget exceeded",
            });
        }
        Ok(())
    }

    /// Begins a new interval of the protocol-violation budget: a connection that lives for days has more resets than one that attacks.
    pub fn forget_violations(&mut self) {
        self.violations = 0;
    }

    /// Resets the streams whose response waits and of which nothing was sent since the last call. A client that opens no window would
    /// otherwise keep responses in memory for as long as it acknowledges PINGs.
    pub fn reset_stalled(&mut self) {
        let Self { blocked, streams, .. } = self;
        let stalled: Vec<u32> = blocked
            .all()
            .filter(|id| streams.get_mut(id).is_some_and(|stream| !std::mem::take(&mut stream.has_moved)))
            .collect();
        for id in stalled {
            self.reset(id, ErrorCode::ENHANCE_YOUR_CALM);
        }
    }

    /// Queues RST_STREAM and closes the stream.
    fn reset(&mut self, stream: u32, code: ErrorCode) {
        push_number(&mut self.output, frame_type::RST_STREAM, stream, code.0);
        self.close(stream, code);
        if self.recently_reset.len() >= RECENTLY_RESET {
            self.recently_reset.pop_front();
        }
        self.recently_reset.push_back(stream);
    }

    /// Forgets a stream and fails a body that is still being read. Returns whether it was open.
    fn close(&mut self, stream: u32, code: ErrorCode) -> bool {
        let Some(gone) = self.forget(stream) else { return false };
        self.waiting_heads -= gone.head_memory;
        gone.fail_body(code);
        true
    }

    /// Forgets a stream and what it counts.
    fn forget(&mut self, id: u32) -> Option<Stream> {
        let mut gone = self.streams.remove(&id)?;
        self.blocked.remove(id, gone.wait);
        if gone.is_watched {
            self.drained.push_back(id);
        }
        gone.release_all(&self.flow_control);
        Some(gone)
    }

    /// Frees what each stream keeps, one for each step of the iterator, in a session that is used no more: very many take as long as some calls.
    pub fn close_all(&mut self) -> impl Iterator<Item = ()> + use<> {
        let flow_control = Arc::clone(&self.flow_control);
        let streams = std::mem::take(&mut self.streams).into_values();
        streams.map(move |mut stream| stream.release_all(&flow_control))
    }

    /// Queues WINDOW_UPDATEs for bytes that were read.
    pub fn send_window_updates(&mut self) {
        for (id, count) in self.flow_control.take_updates() {
            if let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.is_half_closed) {
                stream.receive_window += count as i64;
                push_number(&mut self.output, frame_type::WINDOW_UPDATE, id, count as u32);
            }
        }
        let missing = CONNECTION_WINDOW - self.receive_window;
        if missing >= WINDOW_STEP && self.flow_control.has_room() {
            self.receive_window = CONNECTION_WINDOW;
            push_number(&mut self.output, frame_type::WINDOW_UPDATE, 0, missing as u32);
        }
    }
}

#[cfg(test)]
mod tests;
