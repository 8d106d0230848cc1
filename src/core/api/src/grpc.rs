//! gRPC framing on HTTP/2: unary calls, and messages of client streams.

use std::sync::LazyLock;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Response, header};
use http_body::Body;
use http_body_util::BodyExt as _;

use mixer_base::rpc_code;
use mixer_http2::FixedResponse;
use mixer_net::service::Answer;

/// Length of the prefix of a message: the compressed flag and four bytes of length.
const PREFIX: usize = 5;

/// gRPC status codes that the server itself sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// The client disconnected or reset the stream.
    Cancelled = 1,
    /// A report that failed in part.
    Unknown = 2,
    /// The request is invalid.
    InvalidArgument = 3,
    /// The deadline passed.
    DeadlineExceeded = 4,
    /// The caller is not authorized.
    PermissionDenied = 7,
    /// The message is too large, or the server is overloaded.
    ResourceExhausted = 8,
    /// The method is unknown, or the message is compressed.
    Unimplemented = 12,
    /// The request could not be decoded or evaluated.
    Internal = 13,
    /// The server is overloaded.
    Unavailable = 14,
}

impl Code {
    /// For example `RESOURCE_EXHAUSTED`.
    pub fn name(self) -> &'static str {
        rpc_code::name(self as i32).unwrap_or_default()
    }
}

/// The status of a failed call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.name())]
pub struct GrpcError {
    /// The status code.
    pub code: Code,
    /// The status message.
    pub message: String,
}

impl GrpcError {
    /// A status with this code and message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// INTERNAL for a request message that cannot be decoded.
    pub fn undecodable(error: impl std::fmt::Display) -> Self {
        Self::internal(format_args!("grpc: error unmarshalling request: {error}"))
    }

    /// INTERNAL with the text of `error`.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        Self::new(Code::Internal, error.to_string())
    }
}

/// The body of a response: the framed message of a successful unary call, nothing, or a body of tonic.
pub type ApiBody = Answer<tonic::body::Body>;

/// Headers and trailers of every successful unary call.
pub static OK_RESPONSE: LazyLock<FixedResponse> =
    LazyLock::new(|| FixedResponse::new(("content-type", "application/grpc"), ("grpc-status", "0")));

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

/// The message without its prefix.
pub fn unframed(framed: &[u8]) -> &[u8] {
    framed.get(PREFIX..).unwrap_or_default()
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

/// Begins a framed message in `out`; [`finish_message`] fills in the length.
pub fn begin_message(out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; PREFIX]);
}

/// Fills in the length of a message that [`begin_message`] began.
pub fn finish_message(out: &mut [u8]) {
    let length = u32::try_from(out.len().saturating_sub(PREFIX)).unwrap_or(u32::MAX);
    if let Some(prefix) = out.get_mut(1..PREFIX) {
        prefix.copy_from_slice(&length.to_be_bytes());
    }
}

/// Errors: UNIMPLEMENTED for another HTTP method than POST.
pub fn require_post(method: &Method) -> Result<(), GrpcError> {
    if *method == Method::POST {
        return Ok(());
    }
    Err(GrpcError::new(Code::Unimplemented, "gRPC calls are POST requests"))
}

/// The response of a call: a message framed by [`begin_message`] and [`finish_message`], or headers with the status and no body.
pub fn response(result: Result<Bytes, GrpcError>) -> Response<ApiBody> {
    match result {
        Ok(framed) => Response::new(ApiBody::Fixed(framed)),
        Err(error) => error_response(&error),
    }
}

fn error_response(error: &GrpcError) -> Response<ApiBody> {
    let mut response = Response::new(ApiBody::Empty);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from(error.code as u16));
    if let Ok(message) = HeaderValue::from_str(&percent_encode(&error.message)) {
        headers.insert("grpc-message", message);
    }
    response
}

/// Encodes a `grpc-message`: `%` and everything but printable ASCII as `%XX`.
fn percent_encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if (0x20..0x7f).contains(&byte) && byte != b'%' {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The `grpc-timeout` header: digits and one of `H M S m u n`.
pub(crate) fn timeout(headers: &HeaderMap) -> Option<std::time::Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (unit_at, unit) = text.char_indices().next_back()?;
    let amount: u64 = text.get(..unit_at)?.parse().ok()?;
    Some(match unit {
        'H' => std::time::Duration::from_secs(amount.saturating_mul(3600)),
        'M' => std::time::Duration::from_secs(amount.saturating_mul(60)),
        'S' => std::time::Duration::from_secs(amount),
        'm' => std::time::Duration::from_millis(amount),
        'u' => std::time::Duration::from_micros(amount),
        'n' => std::time::Duration::from_nanos(amount),
        _ => return None,
    })
}
