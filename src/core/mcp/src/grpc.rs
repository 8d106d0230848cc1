//! Messages of gRPC on streams of HTTP/2. A message that is sent is prepared bytes; a message that is received has a bounded size.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder, Streaming};
use tonic::{Code, Status};

use crate::account::StreamCharge;

/// The bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// Bodies up to this size are copied behind their head: one frame instead of two.
const SMALL: usize = 8 << 10;
/// The buffer of a stream that receives nothing.
const BUFFER: usize = 1 << 10;
pub(crate) const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// A message to be sent: a beginning of its own, and a rest that other streams send as well.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// With the prefix of gRPC.
    head: Bytes,
    body: Bytes,
}

impl Message {
    /// Errors: the length, if it is more than gRPC allows.
    pub(crate) fn new(head: Bytes, body: Bytes) -> Result<Self, usize> {
        let total = head.len().saturating_add(body.len());
        let length = u32::try_from(total).map_err(|_| total)?;
        let copied = if body.len() <= SMALL { body.len() } else { 0 };
        let mut framed = BytesMut::with_capacity(PREFIX + head.len() + copied);
        framed.put_u8(0);
        framed.put_u32(length);
        framed.put_slice(&head);
        if copied == 0 {
            return Ok(Self { head: framed.freeze(), body });
        }
        framed.put_slice(&body);
        Ok(Self { head: framed.freeze(), body: Bytes::new() })
    }

    /// Of a small message. Errors: as [`new`](Self::new).
    pub(crate) fn of(message: &impl prost::Message) -> Result<Self, usize> {
        Self::new(message.encode_to_vec().into(), Bytes::new())
    }

    /// Without the prefix.
    #[cfg(test)]
    pub(crate) fn payload(&self) -> Bytes {
        [&self.head[PREFIX..], &self.body].concat().into()
    }
}

/// Messages to be sent; an error is the status with which the stream ends.
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Result<Message, Status>> + Send>>;

/// The body of a request or of a response.
pub(crate) struct Outgoing {
    messages: Option<Messages>,
    frames: VecDeque<Bytes>,
    /// Responses end with trailers.
    is_response: bool,
}

impl Outgoing {
    pub(crate) fn request(messages: Messages) -> Self {
        Self { messages: Some(messages), frames: VecDeque::new(), is_response: false }
    }

    pub(crate) fn response(messages: Messages) -> Self {
        Self { is_response: true, ..Self::request(messages) }
    }

    fn empty() -> Self {
        Self { messages: None, frames: VecDeque::new(), is_response: true }
    }

    /// What ends the body.
    fn end(&mut self, status: Result<(), Status>) -> Option<Result<Frame<Bytes>, Status>> {
        self.messages = None;
        match (self.is_response, status) {
            (true, status) => {
                let status = status.err().unwrap_or_else(|| Status::new(Code::Ok, ""));
                let mut trailers = HeaderMap::new();
                if status.add_header(&mut trailers).is_err() {
                    trailers.insert(Status::GRPC_STATUS, HeaderValue::from(status.code() as i32));
                }
                Some(Ok(Frame::trailers(trailers)))
            }
            (false, Ok(())) => None,
            (false, Err(status)) => Some(Err(status)),
        }
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if let Some(data) = self.frames.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            let Some(messages) = &mut self.messages else { return Poll::Ready(None) };
            match messages.poll_next_unpin(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(message))) => {
                    self.frames.push_back(message.head);
                    if !message.body.is_empty() {
                        self.frames.push_back(message.body);
                    }
                }
                Poll::Ready(Some(Err(status))) => return Poll::Ready(self.end(Err(status))),
                Poll::Ready(None) => return Poll::Ready(self.end(Ok(()))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.messages.is_none() && self.frames.is_empty()
    }
}

/// A message as its receiver takes it.
pub(crate) trait Receivable: Sized + Send + 'static {
    /// Of its bytes, which it may keep. Errors: they are not such a message.
    fn receive(bytes: Bytes) -> Result<Self, String>;
}

impl<T: prost::Message + Default + 'static> Receivable for T {
    fn receive(bytes: Bytes) -> Result<Self, String> {
        Self::decode(bytes).map_err(|error| error.to_string())
    }
}

/// Decodes messages, and tells their sizes.
struct Received<T>(PhantomData<fn() -> T>);

impl<T> Default for Received<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Receivable> Decoder for Received<T> {
    type Item = (T, usize);
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        let size = source.remaining();
        let message = T::receive(source.copy_to_bytes(size))
            .map_err(|error| Status::internal(format!("the message cannot be decoded: {error}")))?;
        Ok(Some((message, size)))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, BUFFER)
    }
}

/// Messages that arrive, and their sizes.
pub(crate) type Arriving<T> = Pin<Box<dyn Stream<Item = Result<(T, usize), Status>> + Send>>;

/// The messages of a request, of at most `max` bytes each, which are charged from their first byte until the next message is read.
pub(crate) fn requests<T: Receivable>(body: Incoming, max: usize, charge: StreamCharge) -> Arriving<T> {
    let body = Charged { body, charge, max, prefix: (0, 0), missing: 0, kept: 0 };
    arriving(Streaming::new_request(Received::<T>::default(), body, None, Some(max)))
}

/// A body whose messages are charged. The decoder reserves what a prefix announces, so that this counts, not what has arrived.
struct Charged<B> {
    body: B,
    charge: StreamCharge,
    max: usize,
    /// Bytes of the prefix that have arrived, and the length as far as it is known.
    prefix: (usize, u32),
    /// Bytes of the message that have not arrived.
    missing: usize,
    kept: usize,
}

impl<B> Charged<B> {
    fn arrived(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.missing > 0 {
                let now = self.missing.min(bytes.len());
                self.missing -= now;
                bytes = bytes.get(now..).unwrap_or_default();
                continue;
            }
            bytes = rest;
            let (have, length) = self.prefix;
            // The first byte says whether it is compressed.
            let length = if have == 0 { 0 } else { (length << 8) | u32::from(*first) };
            self.prefix = (have + 1, length);
            if have + 1 == PREFIX {
                self.prefix = (0, 0);
                self.missing = length as usize;
                // A longer one is refused by the decoder.
                let kept = self.missing.min(self.max);
                self.kept += kept;
                self.charge.keep(kept);
            }
        }
    }
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Charged<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        // The decoder asks for more when it has taken all complete messages.
        if self.missing == 0 && self.kept > 0 {
            let kept = std::mem::take(&mut self.kept);
            self.charge.give_back(kept);
        }
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.arrived(data);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Charged<B> {
    fn drop(&mut self) {
        self.charge.give_back(self.kept);
    }
}

/// The messages of a response, of at most `max` bytes each.
pub(crate) fn responses<T: Receivable>(body: Incoming, status: StatusCode, max: usize) -> Arriving<T> {
    arriving(Streaming::new_response(Received::<T>::default(), body, status, None, Some(max)))
}

fn arriving<T: Send + 'static>(messages: Streaming<(T, usize)>) -> Arriving<T> {
    messages
        .map(|message| {
            message.map_err(|status| match status.code() {
                // Other libraries have another code for a message that is too long.
                Code::OutOfRange => Status::resource_exhausted(status.message()),
                _ => status,
            })
        })
        .boxed()
}

/// The response that begins a stream: its headers are sent at once.
pub(crate) fn streaming(metadata: &[(HeaderName, HeaderValue)], messages: Messages) -> Response<Outgoing> {
    let mut response = Response::new(Outgoing::response(messages));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    for (name, value) in metadata {
        headers.append(name, value.clone());
    }
    response
}

/// The response to a call that is refused.
pub(crate) fn refused(status: &Status) -> Result<Response<Outgoing>, Infallible> {
    let mut response = Response::new(Outgoing::empty());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    if status.add_header(headers).is_err() {
        headers.insert(Status::GRPC_STATUS, HeaderValue::from(status.code() as i32));
    }
    Ok(response)
}

/// Names and values as metadata. Errors: one that no header can have.
pub(crate) fn metadata(pairs: &[(String, String)]) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let parse = |(name, value): &(String, String)| {
        let refuse =
            || format!("`{name}={value}` cannot be sent as metadata: names have letters, digits and `-_.`");
        let name = HeaderName::try_from(name.to_ascii_lowercase()).map_err(|_| refuse())?;
        let value = HeaderValue::try_from(value.as_str()).map_err(|_| refuse())?;
        Ok((name, value))
    };
    pairs.iter().map(parse).collect()
}
