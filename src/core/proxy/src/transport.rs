//! The bytes of an HTTP/2 connection: counted, and watched for a peer that takes none.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use mixer_net::stream::Stream;

/// Bytes of a body that wait for the socket, of each stream.
pub(crate) const SEND_BUFFER: usize = 32 << 10;

/// What happened on a connection.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Bytes since the last call of [`take`](Self::take): received and sent.
    bytes: Cell<(u64, u64)>,
    /// Since when the peer takes nothing of what waits for it.
    stalled: Cell<Option<Instant>>,
    /// Whether the peer ended the connection, or it failed.
    has_ended: Cell<bool>,
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
    traffic: Rc<Traffic>,
}

impl Transport {
    /// A connection whose input begins with `input`, which was counted when it was read.
    pub(crate) fn new(stream: Stream, input: BytesMut) -> (Self, Rc<Traffic>) {
        let traffic = Rc::<Traffic>::default();
        (Self { stream, input, traffic: Rc::clone(&traffic) }, traffic)
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        if !this.input.is_empty() {
            let count = this.input.len().min(buffer.remaining());
            buffer.put_slice(this.input.get(..count).unwrap_or_default());
            this.input.advance(count);
            if this.input.is_empty() {
                this.input = BytesMut::new();
            }
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if let Poll::Ready(result) = &read {
            let count = buffer.filled().len() - before;
            this.traffic.add(count, 0);
            if result.is_err() || count == 0 {
                this.traffic.has_ended.set(true);
            }
        }
        read
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.traffic.wrote(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
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
