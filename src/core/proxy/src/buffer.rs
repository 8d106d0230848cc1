//! Reading into and writing from buffers, without futures of their own.
//!
//! A connection has buffers only while it has bytes: between requests they are with the worker, for whoever needs one next.

use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};

use mixer_net::stream::Stream;

/// Bytes that are read at once.
pub(crate) const READ_SIZE: usize = 16 << 10;
/// Bytes that wait for the other side before reading pauses.
pub(crate) const HIGH_WATERMARK: usize = 64 << 10;

/// Reads once, up to `READ_SIZE` bytes; `Ok(0)` at the end.
pub(crate) fn poll_read(
    stream: &mut Stream,
    buffer: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<std::io::Result<usize>> {
    acquire(buffer);
    buffer.reserve(READ_SIZE);
    let mut limited = buffer.limit(READ_SIZE);
    pin!(stream.read_buf(&mut limited)).poll(cx)
}

/// Whether anything waits to be sent: in the buffer, or in records of TLS that the socket did not take yet.
pub(crate) fn has_output(stream: &Stream, buffer: &BytesMut) -> bool {
    !buffer.is_empty() || stream.has_unsent()
}

/// Writes everything. Ready when [`has_output`] is false, or something was written.
pub(crate) fn poll_write(
    stream: &mut Stream,
    buffer: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<std::io::Result<usize>> {
    let mut written = 0;
    while !buffer.is_empty() {
        match Pin::new(&mut *stream).poll_write(cx, buffer) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(count)) => {
                buffer.advance(count);
                written += count;
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending if written == 0 => return Poll::Pending,
            // The caller polls again before it waits.
            Poll::Pending => return Poll::Ready(Ok(written)),
        }
    }
    if stream.has_unsent() {
        match Pin::new(stream).poll_flush(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending if written == 0 => return Poll::Pending,
            Poll::Pending => {}
        }
    }
    Poll::Ready(Ok(written))
}

/// Ends the sending direction.
pub(crate) fn poll_shutdown(stream: &mut Stream, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
    Pin::new(stream).poll_shutdown(cx)
}

/// Buffers that a worker keeps for the next request, and the largest of them, in bytes.
const MAX_SPARE: usize = 64;
const MAX_SPARE_SIZE: usize = 32 << 10;

thread_local! {
    static SPARE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// Gives up what an idle connection does not need.
pub(crate) fn release(buffer: &mut BytesMut) {
    if !buffer.is_empty() || buffer.capacity() == 0 {
        return;
    }
    let mut released = std::mem::take(buffer);
    released.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MAX_SPARE && released.capacity() <= MAX_SPARE_SIZE {
            spare.push(released);
        }
    });
}

/// A buffer to write to.
pub(crate) fn acquire(buffer: &mut BytesMut) {
    if buffer.capacity() == 0 {
        *buffer = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
    }
}
