//! Counts the bytes of heads of requests that have not arrived completely.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connections::Place;

/// Most bytes of one read: what may arrive uncounted behind the end of a head.
const READ: usize = 8 << 10;

/// A socket whose reads are counted.
pub(super) struct HeadMeter<'p, S> {
    socket: S,
    place: &'p Place,
}

impl<'p, S> HeadMeter<'p, S> {
    pub(super) fn new(socket: S, place: &'p Place) -> Self {
        Self { socket, place }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadMeter<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = buffer.remaining().min(READ);
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
        let read = Pin::new(&mut self.socket).poll_read(cx, &mut part);
        let bytes = part.filled().len();
        buffer.advance(bytes);
        if bytes > 0 {
            self.place.arrived(bytes);
        }
        if read.is_pending() {
            self.place.read_all();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadMeter<'_, S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
