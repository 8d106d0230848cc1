//! Unary calls of gRPC to a backend.

use std::time::Duration;

use base64::Engine as _;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use prost::Message;
use tonic::{Code, Status};

use crate::RemoteError;
use crate::answer::{Answer, foreign};
use crate::http::{HttpOptions, HttpTarget, ProxySetting, Reply, gzip};

/// The URL of the type that asks for a pause.
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
/// The trailer with the details of a status.
const DETAILS: &str = "grpc-status-details-bin";

/// Why a call failed. Texts are for operators, and hold no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrpcFailure {
    /// There is no answer, or it is none of gRPC.
    NoAnswer(String),
    /// The server took the call: its status is OK, but its message is too long to be read.
    TooLong,
    /// The server answered with a status.
    Status {
        /// Its code; that of an HTTP status is the one that gRPC gives it.
        code: Code,
        /// Its message.
        message: String,
        /// The pause of a `RetryInfo` in its details.
        retry_after: Option<Duration>,
        /// Its other details.
        details: Vec<GrpcDetail>,
    },
}

/// A detail of a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcDetail {
    /// The full name of its type, such as `google.rpc.BadRequest`.
    pub kind: String,
    /// Its message, encoded.
    pub message: Vec<u8>,
}

/// A backend that takes calls of one method. Connections are HTTP/2 and kept between calls. A proxy is used for `https` only: plain text
/// would have to be HTTP/2 to the proxy as well.
#[derive(Debug)]
pub struct GrpcTarget {
    http: HttpTarget,
    headers: HeaderMap,
    gzip: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Details {
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

impl GrpcTarget {
    /// As [`HttpTarget::new`]; the path of the URL is that of the method. With `gzip`, messages are compressed, as gRPC does it.
    pub fn new(options: HttpOptions) -> Result<Self, RemoteError> {
        let is_plain = options.url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
        let gzip = options.gzip;
        let proxy = if is_plain { ProxySetting::Direct } else { options.proxy };
        let http = HttpTarget::new(HttpOptions { proxy, http2_only: true, gzip: false, ..options })?;
        let mut headers = HeaderMap::from_iter([
            (header::CONTENT_TYPE, HeaderValue::from_static("application/grpc")),
            (header::TE, HeaderValue::from_static("trailers")),
        ]);
        if gzip {
            headers.insert("grpc-encoding", HeaderValue::from_static("gzip"));
        }
        Ok(Self { http, headers, gzip })
    }

    /// Sends a message and returns that of the answer, which is at most 64 KiB long.
    pub async fn call(&self, message: &[u8]) -> Result<Bytes, GrpcFailure> {
        self.call_with(&HeaderMap::new(), message).await
    }

    /// As [`call`](Self::call), with metadata for this call.
    pub async fn call_with(&self, metadata: &HeaderMap, message: &[u8]) -> Result<Bytes, GrpcFailure> {
        let mut headers = self.headers.clone();
        headers.extend(metadata.iter().map(|(name, value)| (name.clone(), value.clone())));
        let compressed = self.gzip.then(|| gzip(message));
        let message = compressed.as_deref().unwrap_or(message);
        let mut body = BytesMut::with_capacity(message.len() + 5);
        body.put_u8(u8::from(self.gzip));
        body.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
        body.put_slice(message);
        answer(self.http.post(&headers, body.freeze()).await)
    }
}

fn answer(reply: Reply) -> Result<Bytes, GrpcFailure> {
    let status = match (reply.status, reply.answer) {
        (Some(status), _) => status,
        (None, Answer::Retry { why, .. } | Answer::Refused(why)) => return Err(GrpcFailure::NoAnswer(why)),
        (None, Answer::Delivered) => return Err(GrpcFailure::NoAnswer("no answer".to_owned())),
    };
    let Some(told) = Status::from_header_map(&reply.headers) else {
        if status != StatusCode::OK {
            let message = format!("HTTP status {status}");
            let details = Vec::new();
            return Err(GrpcFailure::Status { code: of_http(status), message, retry_after: None, details });
        }
        let why = match reply.cut {
            None => "the answer is none of gRPC: it has no `grpc-status`",
            Some(_) => "the answer ended before its `grpc-status`",
        };
        return Err(GrpcFailure::NoAnswer(why.to_owned()));
    };
    if told.code() != Code::Ok {
        let (retry_after, details) = details(&reply.headers);
        let message = foreign(told.message());
        return Err(GrpcFailure::Status { code: told.code(), message, retry_after, details });
    }
    if reply.cut.is_some() {
        return Err(GrpcFailure::TooLong);
    }
    match reply.body.split_at_checked(5) {
        None => Ok(Bytes::new()),
        Some(([0, length @ ..], message)) if length_of(length) == Some(message.len()) => {
            Ok(reply.body.slice(5..))
        }
        Some(_) => Err(GrpcFailure::NoAnswer("the answer is no message of gRPC".to_owned())),
    }
}

fn length_of(bytes: &[u8]) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(bytes.try_into().ok()?)).ok()
}

/// <https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md>
pub(crate) fn of_http(status: StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502 | 503 | 504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

/// The pause in the details of a status, and its other details.
fn details(headers: &HeaderMap) -> (Option<Duration>, Vec<GrpcDetail>) {
    let all = encoded_details(headers).unwrap_or_default();
    let is_pause = |detail: &&prost_types::Any| detail.type_url == RETRY_INFO;
    let pause = all.iter().find(is_pause).and_then(|info| RetryInfo::decode(&*info.value).ok());
    let pause =
        pause.map(|info| Duration::try_from(info.retry_delay.unwrap_or_default()).unwrap_or_default());
    let others = all.into_iter().filter(|detail| !is_pause(&detail)).map(|detail| GrpcDetail {
        kind: detail.type_url.rsplit('/').next().unwrap_or_default().to_owned(),
        message: detail.value,
    });
    (pause, others.collect())
}

fn encoded_details(headers: &HeaderMap) -> Option<Vec<prost_types::Any>> {
    let encoded = headers.get(DETAILS)?.to_str().ok()?;
    let engine = &base64::engine::general_purpose::STANDARD_NO_PAD;
    let details = Details::decode(&*engine.decode(encoded.trim_end_matches('=')).ok()?).ok()?;
    Some(details.details)
}

#[cfg(test)]
mod tests;
