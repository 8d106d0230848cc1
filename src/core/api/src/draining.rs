//! Request streams of tonic's services, which end when the server drains or a message takes too long.
//!
//! A client may keep a request stream open indefinitely. When the server drains, the stream ends after the message in progress as if
//! the client had half-closed it, so that the service answers what it received and the shutdown is not delayed.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use mixer_http2::CountedBody;
use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Length of the prefix of a gRPC message: the compressed flag and four bytes of length.
const PREFIX: usize = 5;

/// A request body that ends when the server drains, or when its first message or a message that has begun takes too long.
pub struct DrainingBody<B> {
    inner: B,
    framing: Framing,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    receive_timeout: Duration,
    /// Runs while a message is awaited or being received.
    receiving: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

impl<B: CountedBody + Unpin> DrainingBody<B> {
    /// Ends `inner` between two messages once `stopping` is cancelled, and inside of one that is not complete within
    /// `receive_timeout`.
    pub fn new(inner: B, stopping: CancellationToken, receive_timeout: Duration) -> Self {
        let stopping = Box::pin(stopping.cancelled_owned());
        let framing = Framing::default();
        Self { inner, framing, stopping, receive_timeout, receiving: None, ended: false }
    }

    /// Ready when the message that is awaited or being received takes too long.
    fn poll_receiving(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.framing.whole_messages > 0 && self.framing.is_between_messages() {
            self.receiving = None;
            return Poll::Pending;
        }
        let timeout = self.receive_timeout;
        self.receiving.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout))).as_mut().poll(cx)
    }
}

impl<B: CountedBody + Unpin> Body for DrainingBody<B> {
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
                if this.poll_receiving(cx).is_ready() {
                    this.ended = true;
                    return Poll::Ready(None);
                }
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
                    let before = this.framing.whole_messages;
                    this.framing.take(data);
                    if this.framing.whole_messages > before {
                        this.receiving = None;
                    }
                    // tonic keeps the message that is being received.
                    this.inner.keep(this.framing.received);
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
    /// Received bytes of the message and its prefix.
    received: usize,
    whole_messages: u64,
}

impl Framing {
    fn take(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.missing > 0 {
                let taken = self.missing.min(data.len());
                self.missing -= taken;
                self.received += taken;
                data = data.get(taken..).unwrap_or_default();
                self.end_of_message();
                continue;
            }
            let (Some(byte), Some(slot)) = (data.first(), self.prefix.get_mut(self.have)) else { return };
            *slot = *byte;
            self.have += 1;
            self.received += 1;
            data = data.get(1..).unwrap_or_default();
            if self.have == PREFIX {
                let [_, a, b, c, d] = self.prefix;
                self.have = 0;
                self.missing = u32::from_be_bytes([a, b, c, d]) as usize;
                self.end_of_message();
            }
        }
    }

    fn end_of_message(&mut self) {
        if self.missing == 0 {
            self.whole_messages += 1;
            self.received = 0;
        }
    }

    fn is_between_messages(&self) -> bool {
        self.have == 0 && self.missing == 0
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use http_body_util::{BodyExt as _, StreamBody};
    use tokio::sync::mpsc;

    use super::*;

    type Sender = mpsc::UnboundedSender<&'static [u8]>;

    /// A body that notes how much of it its reader keeps.
    struct Counted<B>(B, Rc<Cell<usize>>);

    impl<B: Body<Data = Bytes> + Unpin> Body for Counted<B> {
        type Data = Bytes;
        type Error = B::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
            Pin::new(&mut self.0).poll_frame(cx)
        }
    }

    impl<B: Body<Data = Bytes> + Unpin> CountedBody for Counted<B> {
        fn keep(&self, bytes: usize) {
            self.1.set(bytes);
        }
    }

    fn body(
        stopping: &CancellationToken,
    ) -> (Sender, impl Body<Data = Bytes, Error = &'static str> + Unpin + use<>) {
        let (sender, body, _) = counted_body(stopping, Duration::from_secs(60));
        (sender, body)
    }

    fn counted_body(
        stopping: &CancellationToken,
        receive_timeout: Duration,
    ) -> (Sender, impl Body<Data = Bytes, Error = &'static str> + Unpin + use<>, Rc<Cell<usize>>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let stream = futures_util::stream::unfold(receiver, async |mut receiver| {
            let data: &'static [u8] = receiver.recv().await?;
            Some((Ok::<_, &'static str>(Frame::data(Bytes::from_static(data))), receiver))
        });
        let kept = Rc::<Cell<usize>>::default();
        let inner = Counted(StreamBody::new(Box::pin(stream)), Rc::clone(&kept));
        (sender, DrainingBody::new(inner, stopping.clone(), receive_timeout), kept)
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
        let waiting = tokio::time::timeout(Duration::from_millis(20), next(&mut body)).await;
        assert!(waiting.is_err(), "a message is in progress");
        sender.send(&[8]).unwrap();
        assert_eq!(next(&mut body).await.as_deref(), Some(&[8][..]));
        assert_eq!(next(&mut body).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_when_a_message_takes_too_long() {
        let stopping = CancellationToken::new();
        let timeout = Duration::from_secs(5);
        // Neither a whole message nor the first byte of one.
        for begun in [&[][..], &[0, 0, 0, 0, 9], &[0, 0, 0, 0, 1, 7, 0]] {
            let (sender, mut body, _) = counted_body(&stopping, timeout);
            let started = tokio::time::Instant::now();
            if !begun.is_empty() {
                sender.send(begun).unwrap();
                assert!(next(&mut body).await.is_some());
            }
            assert_eq!(next(&mut body).await, None);
            assert_eq!(started.elapsed().as_secs(), 5, "{begun:?}");
        }
        // Between two messages a stream may be idle.
        let (sender, mut body, kept) = counted_body(&stopping, timeout);
        sender.send(&[0, 0, 0, 0, 2, 7]).unwrap();
        assert!(next(&mut body).await.is_some());
        assert_eq!(kept.get(), 6);
        sender.send(&[8]).unwrap();
        assert!(next(&mut body).await.is_some());
        assert_eq!(kept.get(), 0);
        let idle = tokio::time::timeout(timeout * 100, next(&mut body)).await;
        assert!(idle.is_err(), "{idle:?}");
    }

    #[tokio::test]
    async fn the_first_message_is_awaited() {
        let stopping = CancellationToken::new();
        let (sender, mut body) = body(&stopping);
        stopping.cancel();
        let waiting = tokio::time::timeout(Duration::from_millis(20), next(&mut body)).await;
        assert!(waiting.is_err());
        // Two messages in one frame, one of them empty.
        sender.send(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9]).unwrap();
        assert_eq!(next(&mut body).await.unwrap().len(), 11);
        assert_eq!(next(&mut body).await, None);
        assert!(body.is_end_stream());
    }
}
