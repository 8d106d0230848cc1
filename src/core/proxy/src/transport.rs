//! The bytes of an HTTP/2 connection: counted, and watched for a peer that takes none.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use mixer_http2::Screen;
use mixer_net::stream::Stream;

use crate::stats::{Block, Http2Stat};

/// Bytes of a body that wait for the socket, of each stream.
pub(crate) const SEND_BUFFER: usize = 32 << 10;

/// Frames that are received before the other connections of the worker have their turn: `h2` reads on while there is anything, and takes 100 000
/// of the smallest at once.
const MAX_FRAMES: u32 = 1000;

/// As many frames does one count that is answered: SETTINGS and PING.
const CONTROL: u32 = 20;
/// Such frames of a peer within a second, and those without a pause, after which it is one that only wants them answered. One that measures
/// round trips with PING sends the next one after the answer.
const MAX_CONTROLS: u32 = 5000;
const MAX_PRESSED: u32 = 1000;
const SECOND: Duration = Duration::from_secs(1);

/// What happened on a connection.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Bytes since the last call of [`take`](Self::take): received and sent.
    bytes: Cell<(u64, u64)>,
    /// Since when the peer takes nothing of what waits for it.
    stalled: Cell<Option<Instant>>,
    /// Whether the peer ended the connection, or it failed.
    has_ended: Cell<bool>,
    /// Frames of data that have none, and do not end their stream.
    empty: Cell<u32>,
    /// Whether the peer sent too many frames that are to be answered. Nothing is read any more.
    is_flooded: Cell<bool>,
}

impl Traffic {
    /// Bytes received and sent since the last call.
    pub(crate) fn take(&self) -> (u64, u64) {
        self.bytes.take()
    }

    /// Since when the peer takes nothing of what waits for it.
    pub(crate) fn stalled(&self) -> Option<Instant> {
        self.stalled.get()
    }

    /// Whether the peer ended the connection, or it failed.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Frames of data that were received, have none, and do not end their stream. `h2` takes 100 of them in the life of a connection.
    pub(crate) fn empty_frames(&self) -> u32 {
        self.empty.get()
    }

    /// Whether the peer sent too many SETTINGS and PING: its connection is to be ended.
    pub(crate) fn is_flooded(&self) -> bool {
        self.is_flooded.get()
    }

    fn add(&self, received: usize, sent: usize) {
        let (before, after) = self.bytes.get();
        let number = |count: usize| u64::try_from(count).unwrap_or(0);
        self.bytes.set((before + number(received), after + number(sent)));
    }

    fn wrote(&self, result: Poll<std::io::Result<usize>>) -> Poll<std::io::Result<usize>> {
        match &result {
            Poll::Ready(Ok(count)) => {
                self.add(0, *count);
                self.stalled.set(None);
            }
            Poll::Ready(Err(_)) => self.has_ended.set(true),
            Poll::Pending => self.stalled.set(Some(self.stalled.get().unwrap_or_else(Instant::now))),
        }
        result
    }
}

/// A connection, of which some bytes may have been read before.
#[derive(Debug)]
pub(crate) struct Transport {
    stream: Stream,
    input: BytesMut,
    frames: Frames,
    /// Frames that were received since the last turn.
    taken: u32,
    controls: Controls,
    traffic: Rc<Traffic>,
    /// Of the connection of a client.
    screened: Option<Box<Screened>>,
    /// Of the connection to a host.
    resets: Resets,
}

/// Bytes that a client sends before its first frame. RFC 9113, section 3.4.
const PREFACE: usize = 24;

/// The frames RST_STREAM of a connection to a host, in both directions.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    stats: Option<Arc<Block<Http2Stat>>>,
    sent: Frames,
}

impl Resets {
    /// Counts them with the statistics of a cluster, if it has such.
    pub(crate) fn new(stats: Option<Arc<Block<Http2Stat>>>) -> Self {
        Self { stats, sent: Frames { payload: PREFACE, ..Frames::default() } }
    }

    /// Counts those that were received.
    pub(crate) fn received(&self, count: u32) {
        self.add(Http2Stat::RxReset, count);
    }

    /// Counts those among bytes that were sent.
    pub(crate) fn wrote<'b>(
        &mut self,
        written: &Poll<std::io::Result<usize>>,
        parts: impl IntoIterator<Item = &'b [u8]>,
    ) {
        let Poll::Ready(Ok(written)) = written else { return };
        if self.stats.is_none() {
            return;
        }
        let (mut left, mut count) = (*written, 0);
        for part in parts {
            let part = part.get(..left.min(part.len())).unwrap_or_default();
            left -= part.len();
            count += self.sent.count(part).resets;
        }
        self.add(Http2Stat::TxReset, count);
    }

    fn add(&self, stat: Http2Stat, count: u32) {
        if let (Some(stats), 1..) = (&self.stats, count) {
            stats.add(stat, u64::from(count));
        }
    }
}

/// SETTINGS and PING of a peer.
#[derive(Debug, Default)]
struct Controls {
    /// When this second has begun.
    since: Option<Instant>,
    /// Those of this second, and those of them since there was nothing to read.
    count: u32,
    pressed: u32,
}

impl Controls {
    /// Counts more. Returns whether there are too many.
    fn add(&mut self, more: u32) -> bool {
        let now = Instant::now();
        if self.since.is_none_or(|since| now.duration_since(since) >= SECOND) {
            *self = Self { since: Some(now), count: 0, pressed: 0 };
        }
        self.count = self.count.saturating_add(more);
        self.pressed = self.pressed.saturating_add(more);
        self.count > MAX_CONTROLS || self.pressed > MAX_PRESSED
    }
}

/// Heads of a client that `h2` would take for errors of the connection.
#[derive(Debug)]
struct Screened {
    screen: Screen,
    /// The beginning of a head.
    held: BytesMut,
    /// What comes next.
    ready: BytesMut,
}

/// Frames that begin among some bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    all: u32,
    /// Those of data that have none, and do not end their stream.
    empty: u32,
    /// Those that are to be answered.
    controls: u32,
    /// RST_STREAM.
    pub(crate) resets: u32,
}

/// The frames of a direction, as far as their bytes were seen.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The header of the next one.
    header: [u8; 9],
    filled: usize,
    /// Bytes of the payload that are to come.
    payload: usize,
}

impl Frames {
    /// Counts the frames that begin among these bytes.
    pub(crate) fn count(&mut self, mut bytes: &[u8]) -> Counts {
        let mut counts = Counts::default();
        while !bytes.is_empty() {
            let skipped = self.payload.min(bytes.len());
            self.payload -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let taken = (self.header.len() - self.filled).min(bytes.len());
            let (part, rest) = bytes.split_at_checked(taken).unwrap_or_default();
            if let Some(place) = self.header.get_mut(self.filled..self.filled + taken) {
                place.copy_from_slice(part);
            }
            self.filled += taken;
            bytes = rest;
            if self.filled == self.header.len() {
                let [a, b, c, kind, flags, ..] = self.header;
                self.filled = 0;
                self.payload = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                counts.all += 1;
                // DATA without END_STREAM.
                counts.empty += u32::from(kind == 0 && self.payload == 0 && flags & 1 == 0);
                // SETTINGS and PING without ACK.
                counts.controls += u32::from(matches!(kind, 4 | 6) && flags & 1 == 0);
                counts.resets += u32::from(kind == 3);
            }
        }
        counts
    }
}

impl Transport {
    /// A connection whose input begins with `input`, which was counted when it was read.
    pub(crate) fn new(stream: Stream, input: BytesMut) -> (Self, Rc<Traffic>) {
        let traffic = Rc::<Traffic>::default();
        let frames = Frames::default();
        let (controls, screened, resets) = (Controls::default(), None, Resets::default());
        let (taken, of_traffic) = (0, Rc::clone(&traffic));
        (Self { stream, input, frames, taken, controls, traffic: of_traffic, screened, resets }, traffic)
    }

    /// The connection to a host of a cluster with these statistics.
    pub(crate) fn of_host(stream: Stream, stats: Option<Arc<Block<Http2Stat>>>) -> (Self, Rc<Traffic>) {
        let (transport, traffic) = Self::new(stream, BytesMut::new());
        (Self { resets: Resets::new(stats), ..transport }, traffic)
    }

    /// The connection of a client, with header blocks of at most so many bytes and heads of at most `max_head`: malformed heads, and trailers
    /// that are too large, end their streams alone.
    pub(crate) fn of_client(
        stream: Stream,
        input: BytesMut,
        max_block: usize,
        max_head: usize,
    ) -> (Self, Rc<Traffic>) {
        let (transport, traffic) = Self::new(stream, input);
        let screen = Screen::new(max_block).with_max_trailers(max_head);
        let (held, ready) = (BytesMut::new(), BytesMut::new());
        (Self { screened: Some(Box::new(Screened { screen, held, ready })), ..transport }, traffic)
    }

    /// Reads what was read before, or from the socket.
    fn poll_input(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        if !self.input.is_empty() {
            move_to(&mut self.input, buffer);
            return Poll::Ready(Ok(()));
        }
        if self.taken >= MAX_FRAMES {
            self.taken = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Poll::Ready(result) = &read {
            let count = buffer.filled().len() - before;
            self.traffic.add(count, 0);
            if result.is_err() || count == 0 {
                self.traffic.has_ended.set(true);
            }
        } else {
            self.taken = 0;
            self.controls.pressed = 0;
        }
        read
    }

    fn count_frames(&mut self, counts: Counts) {
        let Counts { all, empty, controls, resets } = counts;
        self.resets.received(resets);
        self.taken = self.taken.saturating_add(all).saturating_add(controls.saturating_mul(CONTROL));
        if controls > 0 && self.controls.add(controls) {
            self.traffic.is_flooded.set(true);
        }
        if empty > 0 {
            self.traffic.empty.set(self.traffic.empty.get().saturating_add(empty));
        }
    }

    fn poll_screened(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        screened: &mut Screened,
    ) -> Poll<std::io::Result<()>> {
        let Screened { screen, held, ready } = screened;
        let before = buffer.filled().len();
        loop {
            if !ready.is_empty() {
                move_to(ready, buffer);
                return Poll::Ready(Ok(()));
            }
            if !held.is_empty() {
                if self.taken >= MAX_FRAMES {
                    self.taken = 0;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if screen.pass(held, ready).is_err() {
                    return Poll::Ready(Err(std::io::ErrorKind::InvalidData.into()));
                }
                self.count_frames(taken(screen));
                if held.is_empty() {
                    *held = BytesMut::new();
                }
                if !ready.is_empty() {
                    continue;
                }
            }
            match self.poll_input(cx, buffer) {
                Poll::Ready(Ok(())) if buffer.filled().len() > before => {}
                other => return other,
            }
            let read = buffer.filled().get(before..).unwrap_or_default();
            let passed = if held.is_empty() { screen.scan(read) } else { 0 };
            let is_all = passed == read.len();
            if !is_all {
                held.extend_from_slice(read.get(passed..).unwrap_or_default());
                buffer.set_filled(before + passed);
            }
            self.count_frames(taken(screen));
            if passed > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// The frames that a screen has seen.
fn taken(screen: &mut Screen) -> Counts {
    let (all, empty) = screen.take_frames();
    Counts { all, empty, controls: screen.take_controls(), resets: 0 }
}

/// Moves as much as there is room for.
fn move_to(from: &mut BytesMut, buffer: &mut ReadBuf<'_>) {
    let count = from.len().min(buffer.remaining());
    buffer.put_slice(from.get(..count).unwrap_or_default());
    from.advance(count);
    if from.is_empty() {
        *from = BytesMut::new();
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        if this.traffic.is_flooded() {
            // Who serves the connection ends it.
            return Poll::Pending;
        }
        if let Some(mut screened) = this.screened.take() {
            let read = this.poll_screened(cx, buffer, &mut screened);
            this.screened = Some(screened);
            return read;
        }
        let is_counted = this.input.is_empty();
        let before = buffer.filled().len();
        let read = this.poll_input(cx, buffer);
        if is_counted && let Poll::Ready(_) = &read {
            let counts = this.frames.count(buffer.filled().get(before..).unwrap_or_default());
            this.count_frames(counts);
        }
        read
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.resets.wrote(&written, [bytes]);
        this.traffic.wrote(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.resets.wrote(&written, parts.iter().map(|part| &**part));
        this.traffic.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn others_have_their_turn_however_many_frames_are_there() {
        use std::future::poll_fn;
        use tokio::io::AsyncWriteExt as _;
        use tokio::net::{TcpListener, TcpStream};
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut transport, _) =
            Transport::new(Stream::Tcp(listener.accept().await.unwrap().0), BytesMut::new());
        // PRIORITY without a payload: nine bytes each.
        let (count, frame) = (6_000, [0, 0, 0, 2, 0, 0, 0, 0, 1]);
        let sending = tokio::spawn(async move {
            client.write_all(&frame.repeat(count)).await.unwrap();
            client
        });
        // As much as h2 reads at once.
        let (mut piece, mut received, mut most, mut turn) = ([0; 8 << 10], 0, 0, 0);
        while received < count * frame.len() {
            let read = poll_fn(|cx| {
                let mut buffer = ReadBuf::new(&mut piece);
                match Pin::new(&mut transport).poll_read(cx, &mut buffer) {
                    Poll::Ready(result) => Poll::Ready(result.map(|()| buffer.filled().len()).unwrap()),
                    Poll::Pending => {
                        turn = 0;
                        Poll::Pending
                    }
                }
            });
            let count = read.await;
            received += count;
            turn += count / frame.len();
            most = most.max(turn);
        }
        drop(sending.await.unwrap());
        assert!(most <= 1_000 + piece.len() / frame.len(), "{most}");
    }

    #[test]
    fn who_only_wants_answers_is_told_from_who_waits_for_them() {
        // Without a pause, and with one after each.
        let (mut pressing, mut waiting) = (Controls::default(), Controls::default());
        assert!((0..MAX_PRESSED).all(|_| !pressing.add(1)));
        assert!(pressing.add(1));
        let mut add = || {
            waiting.pressed = 0;
            waiting.add(1)
        };
        let begun = Instant::now();
        let count = (0..MAX_CONTROLS + 1).filter(|_| add()).count();
        assert!(count == 1 || begun.elapsed() >= SECOND, "{count}");
        // The next second.
        pressing.since = Instant::now().checked_sub(SECOND);
        assert!(!pressing.add(1));
    }

    #[test]
    fn frames_are_counted_however_they_arrive() {
        let frame = |kind: u8, flags: u8, payload: &[u8]| {
            let mut bytes = vec![0, 0, payload.len() as u8, kind, flags, 0, 0, 0, 1];
            bytes.extend_from_slice(payload);
            bytes
        };
        // Settings, data, empty data, an end without data, empty data, data that looks like a frame.
        let bytes = [
            frame(4, 0, &[]),
            frame(0, 0, b"abc"),
            frame(0, 0, b""),
            frame(0, 1, b""),
            frame(0, 0, b""),
            frame(0, 0, &frame(0, 0, b"")),
            frame(1, 4, &[7; 200]),
            frame(3, 0, &[0, 0, 0, 8]),
        ]
        .concat();
        for size in 1..bytes.len() + 1 {
            let mut frames = Frames::default();
            let mut count = [0; 4];
            for part in bytes.chunks(size) {
                let Counts { all, empty, controls, resets } = frames.count(part);
                count = [count[0] + all, count[1] + empty, count[2] + controls, count[3] + resets];
            }
            assert_eq!((count, frames.filled, frames.payload), ([8, 2, 1, 1], 0, 0), "{size}");
        }
    }
}
