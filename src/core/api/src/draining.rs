//! Request streams that end when the server drains.
//!
//! A client may keep a request stream open indefinitely. When the server drains, the stream ends after the message in progress as if
//! the client had half-closed it, so that the service answers what it received and the shutdown is not delayed.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Length of the prefix of a gRPC message: the compressed flag and four bytes of length.
const PREFIX: usize = 5;

/// A request body that ends when the server drains.
pub struct DrainingBody<B> {
    inner: B,
    framing: Framing,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    ended: bool,
}

impl<B> DrainingBody<B> {
    /// Ends `inner` between two messages once `stopping` is cancelled.
    pub fn new(inner: B, stopping: CancellationToken) -> Self {
        let stopping = Box::pin(stopping.cancelled_owned());
        Self { inner, framing: Framing::default(), stopping, ended: false }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for DrainingBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Pending => {
                ready!(this.stopping.as_mut().poll(cx));
                // The first message is awaited even then: the call has begun.
                if this.framing.whole_messages > 0 && this.framing.is_between_messages() {
                    this.ended = true;
                    return Poll::Ready(None);
                }
                Poll::Pending
            }
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    this.framing.take(data);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            end => end,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.inner.is_end_stream()
    }
}

/// The position in a stream of gRPC messages.
#[derive(Debug, Default)]
struct Framing {
    prefix: [u8; PREFIX],
    /// Received bytes of the prefix.
    have: usize,
    /// Missing bytes of the message.
    missing: usize,
    whole_messages: u64,
}

impl Framing {
    fn take(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.missing > 0 {
                let taken = self.missing.min(data.len());
                self.missing -= taken;
                data = data.get(taken..).unwrap_or_default();
                if self.missing == 0 {
                    self.whole_messages += 1;
                }
                continue;
            }
            let (Some(byte), Some(slot)) = (data.first(), self.prefix.get_mut(self.have)) else { return };
            *slot = *byte;
            self.have += 1;
            data = data.get(1..).unwrap_or_default();
            if self.have == PREFIX {
                let [_, a, b, c, d] = self.prefix;
                self.have = 0;
                self.missing = u32::from_be_bytes([a, b, c, d]) as usize;
                if self.missing == 0 {
                    self.whole_messages += 1;
                }
            }
        }
    }

    fn is_between_messages(&self) -> bool {
        self.have == 0 && self.missing == 0
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, StreamBody};
    use tokio::sync::mpsc;

    use super::*;

    type Sender = mpsc::UnboundedSender<&'static [u8]>;

    fn body(
        stopping: &CancellationToken,
    ) -> (Sender, impl Body<Data = Bytes, Error = &'static str> + Unpin + use<>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let stream = futures_util::stream::unfold(receiver, async |mut receiver| {
            let data: &'static [u8] = receiver.recv().await?;
            Some((Ok::<_, &'static str>(Frame::data(Bytes::from_static(data))), receiver))
        });
        (sender, DrainingBody::new(StreamBody::new(Box::pin(stream)), stopping.clone()))
    }

    async fn next(body: &mut (impl Body<Data = Bytes, Error = &'static str> + Unpin)) -> Option<Bytes> {
        body.frame().await.map(|frame| frame.unwrap().into_data().unwrap())
    }

    #[tokio::test]
    async fn a_stream_ends_after_the_message_in_progress() {
        let stopping = CancellationToken::new();
        let (sender, mut body) = body(&stopping);
        sender.send(&[0, 0, 0, 0, 2, 7]).unwrap();
        assert_eq!(next(&mut body).await.unwrap().len(), 6);
        stopping.cancel();
        let rest = tokio::spawn(async move {
            let rest = next(&mut body).await;
            (rest, next(&mut body).await)
        });
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        assert!(!rest.is_finished(), "a message is in progress");
        sender.send(&[8]).unwrap();
        let (rest, end) = rest.await.unwrap();
        assert_eq!(rest.as_deref(), Some(&[8][..]));
        assert_eq!(end, None);
    }

    #[tokio::test]
    async fn the_first_message_is_awaited() {
        let stopping = CancellationToken::new();
        let (sender, mut body) = body(&stopping);
        stopping.cancel();
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(20), next(&mut body)).await;
        assert!(waiting.is_err());
        // Two messages in one frame, one of them empty.
        sender.send(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9]).unwrap();
        assert_eq!(next(&mut body).await.unwrap().len(), 11);
        assert_eq!(next(&mut body).await, None);
        assert!(body.is_end_stream());
    }
}
