//! One connection without its socket.

pub(super) mod fuzzing;
mod receive;
mod send;

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use rustc_hash::FxBuildHasher;
use tokio::sync::oneshot;

use super::credit::Credit;
use super::frame::{DEFAULT_WINDOW, MAX_FRAME, Reason, kind, push_head, push_number, setting};
use super::hpack::{Decoder, Encoder, FixedResponse};
use super::stream::Stream;
use super::{Incoming, RequestHead};

/// Bytes that a caller may send on one stream before it hears of them being read.
const STREAM_WINDOW: i64 = 1 << 20;
/// Bytes that a caller may send on all streams of a connection.
const CONNECTION_WINDOW: i64 = 8 << 20;
/// Received bytes after which the window of the connection is opened again.
const WINDOW_STEP: i64 = 1 << 20;
/// Bytes that wait to be sent beyond which nothing is read and nothing is prepared.
const MAX_OUTPUT: usize = 256 << 10;
/// Memory for output that is kept while there is none.
const KEPT_OUTPUT: usize = 64 << 10;
/// Streams that a caller may take back or misuse, beyond those that are answered.
const MAX_MISDEEDS: u32 = 10_000;
/// Streams that ended on this side first and of which the caller may not know yet.
const ENDED_EARLY: usize = 64;
/// What is pinged to see that the caller is there, and that it heard of the end.
const ALIVE: [u8; 8] = *b"mx-alive";
const GOODBYE: [u8; 8] = *b"mx-bye!!";
/// In a GOAWAY: nothing is refused yet.
const ALL_STREAMS: u32 = (1 << 31) - 1;

/// Bounds of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Calls in flight.
    pub max_streams: u32,
    /// Bytes of the headers of one call, each counted with 32 bytes more.
    pub max_header_bytes: u32,
}

/// The caller broke the protocol, and the connection with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {what}")]
pub struct ConnectionError {
    /// What the caller is told.
    pub reason: Reason,
    /// In words.
    pub what: &'static str,
}

/// How far the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits for so many bytes of the preface.
    Preface(usize),
    /// Waits for the first frame, which must be settings.
    Settings,
    Open,
}

/// Whether the connection is about to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// The caller was told, and may have sent more meanwhile.
    Announced,
    /// What is open is finished; what comes later is refused.
    Final,
}

/// What the caller asked for.
#[derive(Debug, Clone, Copy)]
struct Peer {
    initial_window: i64,
    max_frame: usize,
}

/// One connection, from bytes to requests and from answers to bytes.
#[derive(Debug)]
pub struct Session {
    limits: Limits,
    phase: Phase,
    leaving: Leaving,
    peer_leaves: bool,
    decoder: Decoder,
    encoder: Encoder,
    heads: Heads,
    /// Headers that go on in another frame.
    block: Option<Block>,
    streams: HashMap<u32, Stream, FxBuildHasher>,
    /// Begun and not given out.
    begun: VecDeque<u32>,
    last_stream: u32,
    ended_early: VecDeque<u32>,
    misdeeds: u32,
    peer: Peer,
    send_window: i64,
    receive_window: i64,
    credit: Arc<Credit>,
    output: Vec<u8>,
    sent: usize,
    /// Streams that wait for room.
    blocked: VecDeque<u32>,
    answered_ping: bool,
}

/// A header block that is not complete.
#[derive(Debug)]
struct Block {
    stream: u32,
    end_stream: bool,
    bytes: Vec<u8>,
}

impl Session {
    /// A connection that has heard nothing yet; its settings are already in the output.
    pub fn new(limits: Limits, fixed: &'static FixedResponse) -> Self {
        let mut output = Vec::new();
        let settings = [
            (setting::MAX_CONCURRENT_STREAMS, limits.max_streams),
            (setting::INITIAL_WINDOW_SIZE, STREAM_WINDOW as u32),
            (setting::MAX_HEADER_LIST_SIZE, limits.max_header_bytes),
        ];
        push_head(&mut output, settings.len() * 6, kind::SETTINGS, 0, 0);
        for (name, value) in settings {
            output.extend_from_slice(&name.to_be_bytes());
            output.extend_from_slice(&value.to_be_bytes());
        }
        push_number(&mut output, kind::WINDOW_UPDATE, 0, (CONNECTION_WINDOW - DEFAULT_WINDOW) as u32);
        Self {
            limits,
            phase: Phase::Preface(0),
            leaving: Leaving::No,
            peer_leaves: false,
            decoder: Decoder::new(),
            encoder: Encoder::new(fixed),
            heads: Heads::default(),
            block: None,
            streams: HashMap::default(),
            begun: VecDeque::new(),
            last_stream: 0,
            ended_early: VecDeque::new(),
            misdeeds: 0,
            peer: Peer { initial_window: DEFAULT_WINDOW, max_frame: MAX_FRAME },
            send_window: DEFAULT_WINDOW,
            receive_window: CONNECTION_WINDOW,
            credit: Arc::default(),
            output,
            sent: 0,
            blocked: VecDeque::new(),
            answered_ping: false,
        }
    }

    /// The next request, in the order of their arrival.
    pub fn next_request(&mut self) -> Option<Incoming> {
        loop {
            let id = self.begun.pop_front()?;
            // It may have been taken back.
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            if let Some((head, body)) = stream.request(&self.credit, id) {
                return Some(Incoming { stream: id, head, body });
            }
        }
    }

    /// Ends when the stream does, whoever ends it; `None` if it has ended. One watch a stream.
    pub fn watch(&mut self, stream: u32) -> Option<oneshot::Receiver<()>> {
        self.streams.get_mut(&stream).map(Stream::watch)
    }

    /// Whether everything that was sent on a stream has left for the output; `None` if the stream has ended.
    pub fn is_drained(&self, stream: u32) -> Option<bool> {
        self.streams.get(&stream).map(|stream| stream.outgoing.is_empty())
    }

    /// Bytes to be sent.
    pub fn output(&self) -> &[u8] {
        self.output.get(self.sent..).unwrap_or_default()
    }

    /// So many bytes of the output were sent.
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.sent >= self.output.len() {
            self.output.clear();
            self.sent = 0;
            self.output.shrink_to(KEPT_OUTPUT);
        }
    }

    /// Whether so much waits to be sent that nothing more should be read.
    pub fn is_congested(&self) -> bool {
        self.output.len() - self.sent > MAX_OUTPUT
    }

    /// Who is woken when a body was read elsewhere and windows can be opened.
    pub fn register(&self, waker: &Waker) {
        self.credit.register(waker);
    }

    /// Whether the caller has said its preface and its settings.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Asks the caller to show that it is there.
    pub fn ping(&mut self) {
        self.push_ping(ALIVE);
    }

    /// Whether a ping was answered since this was last asked.
    pub fn take_pong(&mut self) -> bool {
        std::mem::take(&mut self.answered_ping)
    }

    /// Tells the caller to go elsewhere; everything that it has sent until it knows is still answered.
    pub fn shut_down(&mut self) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Announced;
            self.push_goaway(ALL_STREAMS, Reason::NO_ERROR);
            self.push_ping(GOODBYE);
        }
    }

    /// After [`shut_down`](Self::shut_down): nothing more is taken in. Follows by itself when the caller shows that it has heard.
    pub fn leave(&mut self) {
        if self.leaving == Leaving::Announced {
            self.leaving = Leaving::Final;
            self.push_goaway(self.last_stream, Reason::NO_ERROR);
        }
    }

    /// Tells the caller why the connection ends now.
    pub fn abort(&mut self, reason: Reason) {
        self.push_goaway(self.last_stream, reason);
    }

    /// Whether there is nothing left to do but to close.
    pub fn is_done(&self) -> bool {
        (self.leaving == Leaving::Final || self.peer_leaves) && self.streams.is_empty()
    }

    fn push_ping(&mut self, payload: [u8; 8]) {
        push_head(&mut self.output, payload.len(), kind::PING, 0, 0);
        self.output.extend_from_slice(&payload);
    }

    fn push_goaway(&mut self, last_stream: u32, reason: Reason) {
        push_head(&mut self.output, 8, kind::GOAWAY, 0, 0);
        self.output.extend_from_slice(&last_stream.to_be_bytes());
        self.output.extend_from_slice(&reason.0.to_be_bytes());
    }

    /// Counts something that a caller does not do often.
    fn misdeed(&mut self) -> Result<(), ConnectionError> {
        self.misdeeds += 1;
        if self.misdeeds > MAX_MISDEEDS {
            return Err(ConnectionError {
                reason: Reason::ENHANCE_YOUR_CALM,
                what: "too many streams are taken back or misused",
            });
        }
        Ok(())
    }

    /// Ends a stream on both sides at once.
    fn reset(&mut self, stream: u32, reason: Reason) {
        push_number(&mut self.output, kind::RST_STREAM, stream, reason.0);
        if let Some(gone) = self.streams.remove(&stream) {
            gone.break_off(reason);
        }
        if self.ended_early.len() >= ENDED_EARLY {
            self.ended_early.pop_front();
        }
        self.ended_early.push_back(stream);
    }

    /// Opens windows whose bytes were read.
    pub fn open_windows(&mut self) {
        for (id, count) in self.credit.take_opened() {
            if let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.received) {
                stream.receive_window += count as i64;
                push_number(&mut self.output, kind::WINDOW_UPDATE, id, count as u32);
            }
        }
        let missing = CONNECTION_WINDOW - self.receive_window;
        if missing >= WINDOW_STEP && self.credit.has_room() {
            self.receive_window = CONNECTION_WINDOW;
            push_number(&mut self.output, kind::WINDOW_UPDATE, 0, missing as u32);
        }
    }
}

/// Heads of the last requests by their blocks: callers repeat themselves.
#[derive(Debug, Default)]
struct Heads {
    known: Vec<KnownHead>,
    next: usize,
}

#[derive(Debug)]
struct KnownHead {
    block: Vec<u8>,
    /// The state of the decoder for which the block means this.
    changes: u64,
    head: Rc<RequestHead>,
}

impl Heads {
    /// How many are kept.
    const COUNT: usize = 4;
    /// Larger blocks are not kept.
    const MAX_BLOCK: usize = 1024;

    fn find(&self, block: &[u8], changes: u64) -> Option<&Rc<RequestHead>> {
        self.known
            .iter()
            .find(|known| known.changes == changes && known.block == block)
            .map(|known| &known.head)
    }

    fn keep(&mut self, block: &[u8], changes: u64, head: &Rc<RequestHead>) {
        if block.len() > Self::MAX_BLOCK {
            return;
        }
        let known = KnownHead { block: block.to_vec(), changes, head: Rc::clone(head) };
        match self.known.get_mut(self.next) {
            Some(old) => *old = known,
            None => self.known.push(known),
        }
        self.next = (self.next + 1) % Self::COUNT;
    }
}

#[cfg(test)]
mod tests;
