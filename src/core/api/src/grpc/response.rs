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
