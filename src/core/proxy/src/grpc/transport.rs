//! The bytes of a connection for calls: when its host was last heard, and what it said of the end of the connection.
//!
//! `h2` forgets a GOAWAY when the connection fails after it, and tells that a connection has ended only once all that waits was sent.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use mixer_net::stream::Stream;

use crate::stats::{Block, Http2Stat};
use crate::transport::Resets;

/// The types of the frames that matter, and how many bytes of a GOAWAY do: the last stream, and the code.
const GOAWAY: u8 = 7;
const RST_STREAM: u8 = 3;
const CODE: std::ops::Range<usize> = 4..8;

/// What is known of the host of a connection.
#[derive(Debug)]
pub(super) struct Heard {
    last: Cell<Instant>,
    times: Cell<u64>,
    is_leaving: Cell<bool>,
    has_fault: Cell<bool>,
    has_ended: Cell<bool>,
    has_cut: Cell<bool>,
}

impl Heard {
    /// Since when nothing came.
    pub(super) fn silence(&self) -> Duration {
        self.last.get().elapsed()
    }

    /// How often something came.
    pub(super) fn times(&self) -> u64 {
        self.times.get()
    }

    /// Whether it said that it ends the connection.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.get()
    }

    /// Whether it has ended the connection, or that failed.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Whether the end of the connection has cut a call.
    pub(super) fn has_cut(&self) -> bool {
        self.has_cut.get()
    }

    /// Notes that the end of the connection has cut a call.
    pub(super) fn note_cut(&self) {
        self.has_cut.set(true);
    }

    /// Whether it ends the connection with an error of HTTP/2, for which it may have the calls on it to blame.
    pub(super) fn has_fault(&self) -> bool {
        self.has_fault.get()
    }
}

/// The frames of a connection, as far as their bytes were seen.
#[derive(Debug, Default)]
struct Frames {
    /// The header of the next one.
    header: [u8; 9],
    filled: usize,
    /// Bytes of the payload that are to come, and how many of those of a GOAWAY have come.
    payload: usize,
    of_goaway: Option<usize>,
}

impl Frames {
    /// Returns how many streams are reset.
    fn see(&mut self, mut bytes: &[u8], heard: &Heard) -> u32 {
        let mut resets = 0;
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at_checked(self.payload).unwrap_or((bytes, b""));
            self.payload -= part.len();
            if let Some(seen) = self.of_goaway {
                let before_code = CODE.start.saturating_sub(seen);
                let code = part.iter().take(CODE.end.saturating_sub(seen)).skip(before_code);
                if code.copied().any(|byte| byte != 0) {
                    heard.has_fault.set(true);
                }
                self.of_goaway = Some(seen.saturating_add(part.len()));
            }
            let taken = (self.header.len() - self.filled).min(rest.len());
            let (part, rest) = rest.split_at_checked(taken).unwrap_or_default();
            if let Some(place) = self.header.get_mut(self.filled..self.filled + taken) {
                place.copy_from_slice(part);
            }
            self.filled += taken;
            bytes = rest;
            if self.filled == self.header.len() {
                let [a, b, c, kind, ..] = self.header;
                self.filled = 0;
                self.payload = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                self.of_goaway = (kind == GOAWAY).then_some(0);
                if kind == GOAWAY {
                    heard.is_leaving.set(true);
                }
                resets += u32::from(kind == RST_STREAM);
            }
        }
        resets
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Transport {
    stream: Stream,
    frames: Frames,
    heard: Rc<Heard>,
    resets: Resets,
}

impl Transport {
    /// The connection to a host of a cluster with these statistics.
    pub(super) fn new(stream: Stream, stats: Option<Arc<Block<Http2Stat>>>) -> (Self, Rc<Heard>) {
        let resets = Resets::new(stats);
        let heard = Rc::new(Heard {
            last: Cell::new(Instant::now()),
            times: Cell::new(0),
            is_leaving: Cell::new(false),
            has_fault: Cell::new(false),
            has_ended: Cell::new(false),
            has_cut: Cell::new(false),
        });
        (Self { stream, frames: Frames::default(), heard: Rc::clone(&heard), resets }, heard)
    }
}

impl Transport {
    fn wrote<'b>(
        &mut self,
        written: &Poll<std::io::Result<usize>>,
        parts: impl IntoIterator<Item = &'b [u8]>,
    ) {
        self.resets.wrote(written, parts);
        if matches!(written, Poll::Ready(Err(_))) {
            self.heard.has_ended.set(true);
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        let came = buffer.filled().get(before..).unwrap_or_default();
        if read.is_ready() && !came.is_empty() {
            this.heard.last.set(Instant::now());
            this.heard.times.set(this.heard.times.get().wrapping_add(1));
            let resets = this.frames.see(came, &this.heard);
            this.resets.received(resets);
        } else if read.is_ready() {
            this.heard.has_ended.set(true);
        }
        read
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.wrote(&written, [bytes]);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.wrote(&written, parts.iter().map(|part| &**part));
        written
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

    #[test]
    fn the_end_of_a_connection_is_seen_however_it_arrives() {
        let frame = |kind: u8, payload: &[u8]| {
            let mut bytes = vec![0, 0, payload.len() as u8, kind, 0, 0, 0, 0, 0];
            bytes.extend_from_slice(payload);
            bytes
        };
        let goaway = |last: u8, code: u8| frame(GOAWAY, &[0, 0, 0, last, 0, 0, 0, code, b't', b'e', b'x']);
        for (bytes, is_leaving, has_fault) in [
            ([frame(4, &[]), frame(1, &[7; 200])].concat(), false, false),
            ([frame(4, &[]), goaway(9, 0), frame(0, &[1; 20])].concat(), true, false),
            ([goaway(9, 0), frame(6, &[1; 8]), goaway(1, 11), frame(0, &[])].concat(), true, true),
            // Data that looks like one.
            ([frame(0, &goaway(1, 2)), frame(3, &[0, 0, 0, 7])].concat(), false, false),
        ] {
            for size in 1..bytes.len() + 1 {
                let heard = Heard {
                    last: Cell::new(Instant::now()),
                    times: Cell::new(0),
                    is_leaving: Cell::new(false),
                    has_fault: Cell::new(false),
                    has_ended: Cell::new(false),
                    has_cut: Cell::new(false),
                };
                let mut frames = Frames::default();
                let resets: u32 = bytes.chunks(size).map(|part| frames.see(part, &heard)).sum();
                assert_eq!(resets, u32::from(bytes.ends_with(&[3, 0, 0, 0, 0, 0, 0, 0, 0, 7])), "{size}");
                assert_eq!((heard.is_leaving(), heard.has_fault()), (is_leaving, has_fault), "{size}");
                assert_eq!((frames.filled, frames.payload), (0, 0), "{size}");
            }
        }
    }
}
