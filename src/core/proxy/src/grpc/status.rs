//! How calls end that have no answer: the texts, and what they say of the server.

use h2::Reason;
use tonic::{Code, Status};

use crate::upstream::ConnectError;

/// What a call that took too long ends with.
pub(crate) const TIMED_OUT: &str = "upstream request timeout";
/// What the text of a call begins with that did not get to a server.
pub(crate) const NOT_SENT: &str = "upstream connect error or disconnect/reset before headers";

/// The text of a call that the proxy has no place or no resources for.
pub(crate) const OVERFLOW: &str =
    "upstream connect error or disconnect/reset before headers. reset reason: overflow";
/// The text of a call whose message the worker has no memory for, because of others that nobody waits for any more.
pub(super) const NO_MEMORY: &str = "upstream connect error or disconnect/reset before headers. reset reason: overflow, no memory for the message";

/// Why a call failed before there was an answer.
pub(super) enum Broken {
    Connect(ConnectError),
    Http2(h2::Error),
    /// The connection ended before anything came on it since the call was sent, or after its host said that it ends it.
    Unheard(h2::Error),
    /// The host takes no more calls at once.
    Overflow,
    /// The host has ended the connection with an error of HTTP/2.
    Faulted,
    /// The task that made the call has ended.
    Lost,
}

pub(super) fn not_sent(reason: &str) -> Status {
    Status::unavailable(format!("{NOT_SENT}. reset reason: {reason}"))
}

/// Whether a call failed because there was no place for it here or at the host.
pub(crate) fn is_overflow(status: &Status) -> bool {
    status.code() == Code::Unavailable && status.message().starts_with(OVERFLOW)
}

/// Whether a call failed because there is no memory for it, which clients bring about: whatever waits for it is refused.
pub(crate) fn is_without_memory(status: &Status) -> bool {
    status.code() == Code::Unavailable && status.message() == NO_MEMORY
}

/// Whether a call failed for want of an answer, for reasons that no client can bring about. Any other status is an answer: a client may have
/// chosen what the server cannot evaluate.
pub(crate) fn is_unanswered(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) && !is_overflow(status)
}

/// The status of a call without an answer. What the host says of the call or of the connection by a code of HTTP/2 is an answer: it may say it
/// because of what is asked, or of how much.
pub(super) fn status_of(broken: &Broken) -> Status {
    let reason = match broken {
        Broken::Connect(ConnectError::Exhausted) | Broken::Overflow => return Status::unavailable(OVERFLOW),
        Broken::Faulted => {
            return Status::internal("the server ended the connection with an error of HTTP/2");
        }
        Broken::Lost => return Status::internal("the call was lost"),
        Broken::Connect(ConnectError::Failed | ConnectError::Refused) => "remote connection failure",
        Broken::Connect(ConnectError::TimedOut) => "connection timeout",
        Broken::Http2(error) | Broken::Unheard(error) => match (error.is_remote(), error.reason()) {
            (true, Some(Reason::NO_ERROR)) => "connection termination",
            (true, Some(Reason::REFUSED_STREAM)) => return Status::unavailable(OVERFLOW),
            (true, Some(Reason::ENHANCE_YOUR_CALM)) => return Status::resource_exhausted(error.to_string()),
            (true, Some(Reason::CANCEL)) => return Status::cancelled(error.to_string()),
            (true, Some(_)) => return Status::internal(error.to_string()),
            // An answer that is none by the rules of HTTP/2, or too long: what is asked may be the cause.
            _ if error.is_library() => return Status::internal(error.to_string()),
            _ if error.is_io() => "connection termination",
            _ => "protocol error",
        },
    };
    not_sent(reason)
}
