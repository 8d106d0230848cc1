//! The response of a unary call.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::GrpcError;
use mixer_http2::FixedResponse;
use mixer_net::service::Answer;

/// The body of a response: the framed message of a successful unary call, nothing, or a body of tonic.
pub type ApiBody = Answer<tonic::body::Body>;

/// Headers and trailers of every successful unary call.
pub static OK_RESPONSE: LazyLock<FixedResponse> =
    LazyLock::new(|| FixedResponse::new(("content-type", "application/grpc"), ("grpc-status", "0")));

/// The response to a request that is not gRPC: the HTTP status 415. Spec: gRPC over HTTP/2, "Content-Type".
pub fn unsupported_media_type() -> Response<ApiBody> {
    let mut response = Response::new(ApiBody::Empty);
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
}

/// The response of a call: a framed message, or headers with the status and no body.
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

/// Longest `grpc-message` as it is sent, in bytes: half of what common clients accept as a list of headers. They fail a call with a longer
/// list with a status of their own.
pub(crate) const MAX_MESSAGE: usize = 4 << 10;

/// Bytes of a text in a `grpc-message`.
pub(crate) fn encoded_len(text: &str) -> usize {
    text.bytes().map(|byte| if is_plain(byte) { 1 } else { 3 }).sum()
}

/// The start of the text that takes at most so many bytes in a `grpc-message`, with an ellipsis if it is not the whole.
pub(crate) fn cut_to(text: &str, most: usize) -> std::borrow::Cow<'_, str> {
    const ELLIPSIS: &str = "…";
    if encoded_len(text) <= most {
        return text.into();
    }
    let mut left = most.saturating_sub(encoded_len(ELLIPSIS));
    let fits = |byte: &u8| {
        let length = if is_plain(*byte) { 1 } else { 3 };
        let fits = length <= left;
        left = left.saturating_sub(length);
        fits
    };
    let end = text.floor_char_boundary(text.bytes().take_while(fits).count());
    format!("{}{ELLIPSIS}", text.get(..end).unwrap_or_default()).into()
}

/// Whether a `grpc-message` has the byte as it is.
fn is_plain(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte) && byte != b'%'
}

/// Encodes a `grpc-message`: `%` and everything but printable ASCII as `%XX`. A long text is cut.
fn percent_encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len().min(MAX_MESSAGE));
    for byte in cut_to(text, MAX_MESSAGE).bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut() {
        for text in ["x", "%", "é", "日", "𝄞", "a\n", ""] {
            for count in [1, 400, 1360, 1365, 1366, 4095, 4096, 4097, 100_000] {
                let text = text.repeat(count);
                let encoded = percent_encode(&text);
                assert!(encoded.len() <= MAX_MESSAGE, "{}", encoded.len());
                assert_eq!(encoded.ends_with("%E2%80%A6"), encoded_len(&text) > MAX_MESSAGE);
                assert!(
                    encoded_len(&text) <= MAX_MESSAGE || encoded.len() > MAX_MESSAGE - 24,
                    "{}",
                    encoded.len()
                );
            }
        }
        assert_eq!(percent_encode("a%b\n…"), "a%25b%0A%E2%80%A6");
    }
}
