//! A call whose messages follow one by one, and whose answer says only that it has ended.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};

/// A call in progress. Dropping it cancels the call.
#[derive(Debug)]
pub(crate) struct Outgoing {
    body: SendStream<Bytes>,
    answer: Answer,
    /// Last, so that it is given back after the call has ended.
    _place: Place,
}

/// The place of a call among those of its host, and the connection that it is on.
type Place = (super::link::Stream, super::link::Used);

/// How far the answer of the server is.
#[derive(Debug)]
enum Answer {
    Awaited(ResponseFuture),
    Begun(RecvStream),
    Ended,
}

/// The call has ended: the server answered, or the connection is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended;

impl Outgoing {
    pub(super) fn new(answer: ResponseFuture, body: SendStream<Bytes>, place: Place) -> Self {
        Self { body, answer: Answer::Awaited(answer), _place: place }
    }

    /// Sends a message with its prefix, as fast as the server takes it.
    ///
    /// Errors: the call has ended before the whole message was handed over.
    pub(crate) async fn send(&mut self, mut message: Bytes) -> Result<(), Ended> {
        while !message.is_empty() {
            self.body.reserve_capacity(message.len());
            let room = poll_fn(|cx| self.poll_room(cx)).await?;
            let piece = message.split_to(room.min(message.len()));
            self.body.send_data(piece, false).map_err(|_| Ended)?;
        }
        Ok(())
    }

    /// Waits for the end of the call.
    pub(crate) async fn ended(&mut self) {
        poll_fn(|cx| self.poll_end(cx)).await;
    }

    /// Says that no message follows, and waits for the answer.
    pub(crate) async fn finish(mut self) {
        if self.body.send_data(Bytes::new(), true).is_ok() {
            self.ended().await;
        }
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Ended>> {
        if self.poll_end(cx).is_ready() {
            return Poll::Ready(Err(Ended));
        }
        loop {
            match self.body.poll_capacity(cx) {
                Poll::Ready(Some(Ok(0))) => {}
                Poll::Ready(Some(Ok(room))) => return Poll::Ready(Ok(room)),
                Poll::Ready(_) => return Poll::Ready(Err(Ended)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Messages of the answer are dropped: they say nothing.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.answer = match &mut self.answer {
                Answer::Awaited(head) => match Pin::new(head).poll(cx) {
                    Poll::Ready(Ok(head)) => Answer::Begun(head.into_body()),
                    Poll::Ready(Err(_)) => Answer::Ended,
                    Poll::Pending => return Poll::Pending,
                },
                Answer::Begun(body) => match body.poll_data(cx) {
                    Poll::Ready(Some(Ok(data))) => {
                        if body.flow_control().release_capacity(data.len()).is_ok() {
                            continue;
                        }
                        Answer::Ended
                    }
                    Poll::Ready(_) => Answer::Ended,
                    Poll::Pending => return Poll::Pending,
                },
                Answer::Ended => return Poll::Ready(()),
            };
        }
    }
}
