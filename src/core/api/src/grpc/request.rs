//! The message of a unary call, and the messages of a client stream.

use bytes::{Buf as _, Bytes, BytesMut};
use http::Method;
use http_body::Body;
use http_body_util::BodyExt as _;

use super::framing::PREFIX;
use super::{Code, GrpcError};

/// Errors: UNIMPLEMENTED for another HTTP method than POST.
pub fn require_post(method: &Method) -> Result<(), GrpcError> {
    if *method == Method::POST {
        return Ok(());
    }
    Err(GrpcError::new(Code::Unimplemented, "gRPC calls are POST requests"))
}

/// Reads the message of a unary call. A message that arrives in one DATA frame is not copied.
///
/// Errors: RESOURCE_EXHAUSTED above `max_message` bytes; UNIMPLEMENTED for a compressed message; INTERNAL for a body that is not
/// one message; CANCELLED if the client resets the stream or disconnects.
pub(crate) async fn read_message<B>(mut body: B, max_message: usize) -> Result<Bytes, GrpcError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    // END_STREAM often comes with the last DATA frame; polling again would cost a lookup.
    while !body.is_end_stream()
        && let Some(frame) = body.frame().await
    {
        let frame =
            frame.map_err(|e| GrpcError::new(Code::Cancelled, format!("the request broke off: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if data.is_empty() {
            continue;
        }
        if rest.is_empty() {
            match first.take() {
                None => {
                    check_prefix(&data, max_message)?;
                    first = Some(data);
                }
                Some(head) => {
                    rest.reserve(expected_length(&head).unwrap_or(0).max(head.len() + data.len()));
                    rest.extend_from_slice(&head);
                    rest.extend_from_slice(&data);
                    check_prefix(&rest, max_message)?;
                }
            }
        } else {
            rest.extend_from_slice(&data);
            check_prefix(&rest, max_message)?;
        }
    }
    let mut framed = first.unwrap_or_else(|| rest.freeze());
    if expected_length(&framed) != Some(framed.len()) {
        return Err(GrpcError::new(Code::Internal, "the request is not one whole gRPC message"));
    }
    framed.advance(PREFIX);
    Ok(framed)
}

/// The messages of a client stream.
pub struct Messages<B> {
    body: B,
    /// Received bytes of the next messages.
    rest: BytesMut,
    max_message: usize,
}

impl<B> Messages<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    /// The messages in `body`, each at most `max_message` bytes.
    pub fn new(body: B, max_message: usize) -> Self {
        Self { body, rest: BytesMut::new(), max_message }
    }

    /// The next message; `None` at the end of the stream. Cancel-safe.
    ///
    /// Errors: as `read_message`.
    pub async fn next(&mut self) -> Result<Option<Bytes>, GrpcError> {
        loop {
            if self.rest.first().is_some_and(|flag| *flag != 0) {
                return Err(compressed());
            }
            if let Some(length) = expected_length(&self.rest) {
                if length - PREFIX > self.max_message {
                    return Err(too_large(length - PREFIX, self.max_message));
                }
                if self.rest.len() >= length {
                    let mut message = self.rest.split_to(length);
                    message.advance(PREFIX);
                    return Ok(Some(message.freeze()));
                }
                self.rest.reserve(length - self.rest.len());
            }
            match self.body.frame().await {
                None if self.rest.is_empty() => return Ok(None),
                None => return Err(GrpcError::new(Code::Internal, "the call ends inside a message")),
                Some(Err(e)) => {
                    return Err(GrpcError::new(Code::Cancelled, format!("the request broke off: {e}")));
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

fn compressed() -> GrpcError {
    GrpcError::new(Code::Unimplemented, "compressed messages are not accepted here; send identity")
}

fn too_large(length: usize, max_message: usize) -> GrpcError {
    let text = format!("grpc: received message larger than max ({length} vs. {max_message})");
    GrpcError::new(Code::ResourceExhausted, text)
}

/// Length of prefix and message, once the prefix is complete.
fn expected_length(framed: &[u8]) -> Option<usize> {
    let [_, a, b, c, d, ..] = *framed else { return None };
    Some(PREFIX + u32::from_be_bytes([a, b, c, d]) as usize)
}

fn check_prefix(framed: &[u8], max_message: usize) -> Result<(), GrpcError> {
    if framed.first().is_some_and(|flag| *flag != 0) {
        return Err(compressed());
    }
    match expected_length(framed) {
        Some(length) if length - PREFIX > max_message => Err(too_large(length - PREFIX, max_message)),
        Some(length) if framed.len() > length => {
            Err(GrpcError::new(Code::Internal, "more than one message in a unary call"))
        }
        _ => Ok(()),
    }
}
