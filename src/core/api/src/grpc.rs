//! gRPC framing on HTTP/2: unary calls, and messages of client streams.

mod framing;
mod received;
pub(crate) use self::received::MAX_REUSED;
mod request;
mod response;

pub use framing::{EMPTY_MESSAGE, finish_message, unframed};
pub(crate) use request::read_message_by;
pub use request::{Messages, is_grpc, require_post};
pub use response::{ApiBody, OK_RESPONSE, response, unsupported_media_type};
pub(crate) use response::{MAX_MESSAGE, cut_to, encoded_len};

use mixer_attribute::DecodeError;
use mixer_attribute::request::RequestError;
use mixer_base::rpc_code;

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
    /// A path of HTTP that is none of the service.
    NotFound = 5,
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
    /// Whether the call failed because of how much its caller sent: callers choose that, and so not what follows from it.
    pub is_of_size: bool,
    /// Whether the call was refused before anything was decided or delivered for it: how long it took tells nothing of the calls that are served.
    pub is_refusal: bool,
    /// Whether the call was refused for what its caller sent, before anything was evaluated: its message cannot be read or understood, or its
    /// service is turned off. That tells nothing of the server.
    pub is_invalid: bool,
}

impl GrpcError {
    /// A status with this code and message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), is_of_size: false, is_refusal: false, is_invalid: false }
    }

    /// A status with this code and message for a call that was refused before anything was decided or delivered for it.
    pub fn refused(code: Code, message: impl Into<String>) -> Self {
        Self { is_refusal: true, ..Self::new(code, message) }
    }

    /// A status with this code and message for a call that is refused for what its caller sent, before anything was evaluated.
    pub fn invalid(code: Code, message: impl Into<String>) -> Self {
        Self { is_invalid: true, ..Self::refused(code, message) }
    }

    /// A status with this code and message for a message of which there is too much.
    fn of_size(code: Code, message: impl Into<String>) -> Self {
        Self { is_of_size: true, ..Self::invalid(code, message) }
    }

    /// INTERNAL for a call that panicked. The cause is in the log: it may contain what other callers sent.
    pub fn panicked() -> Self {
        Self::new(Code::Internal, "internal error; the log of the server has the cause")
    }

    /// INTERNAL for a request message that cannot be decoded, INVALID_ARGUMENT for one with too many parts.
    pub fn undecodable(error: DecodeError) -> Self {
        match error {
            DecodeError::TooManyElements { .. }
            | DecodeError::TooManyFields { .. }
            | DecodeError::LongValues { .. } => Self::of_size(Code::InvalidArgument, error.to_string()),
            _ => Self::invalid(Code::Internal, format!("grpc: error unmarshalling request: {error}")),
        }
    }

    /// INTERNAL for a request that cannot be decoded, INVALID_ARGUMENT for one with too many parts.
    pub(crate) fn of_request(error: RequestError) -> Self {
        match error {
            RequestError::Undecodable(error) => Self::undecodable(error),
            other => Self::invalid(Code::InvalidArgument, other.to_string()),
        }
    }

    /// INTERNAL with the text of `error`.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        Self::new(Code::Internal, error.to_string())
    }
}
