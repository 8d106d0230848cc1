//! Byte streams of connections: TCP, TLS and unix.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

/// An accepted socket that is not registered with an event loop.
#[derive(Debug)]
pub(crate) enum Socket {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// Unix.
    Unix(std::os::unix::net::UnixStream),
}

impl Socket {
    /// Registers the socket with the event loop of this thread. Errors: registration failed.
    pub(crate) fn into_stream(self) -> std::io::Result<Stream> {
        Ok(match self {
            Socket::Tcp(socket) => Stream::Tcp(TcpStream::from_std(socket)?),
            Socket::Unix(socket) => Stream::Unix(UnixStream::from_std(socket)?),
        })
    }
}

/// A connection that is registered with an event loop.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// Unix.
    Unix(UnixStream),
}

impl Stream {
    /// Whether the peer has reset the connection, though its input may not be read to the end. Cost: a system call.
    pub fn is_reset(&self) -> bool {
        let error = match self {
            Stream::Tcp(stream) => stream.take_error(),
            Stream::Tls(stream) => stream.get_ref().0.take_error(),
            Stream::Unix(stream) => stream.take_error(),
        };
        error.is_ok_and(|error| error.is_some())
    }

    /// Has the connection reset when it is dropped, so that the peer does not take what came for all of it. What waits for the peer is lost.
    pub fn reset_on_drop(&self) {
        let socket = match self {
            Stream::Tcp(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
            Stream::Unix(_) => return,
        };
        // It fails for a connection that has ended.
        let _ = socket.set_zero_linger();
    }

    /// Whether bytes that were written wait for the socket: those of TLS records. [`poll_flush`](AsyncWrite::poll_flush) sends them.
    pub fn has_unsent(&self) -> bool {
        match self {
            Stream::Tls(stream) => stream.get_ref().1.wants_write(),
            Stream::Tcp(_) | Stream::Unix(_) => false,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
