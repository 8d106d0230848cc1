//! Why a request has no response of a host, and what the client gets instead.

use crate::flags::Flag;

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The cluster has no host.
    NoHost,
    /// The cluster has too many requests in flight.
    Overflow,
    ConnectFailed,
    /// The host refuses connections.
    ConnectRefused,
    ConnectTimeout,
    /// Closed or reset before a response.
    Gone,
    /// The host reset the stream before a response.
    Reset,
    /// The host says that nothing of the request was begun.
    Refused,
    /// The host sent what is no valid response.
    Invalid,
    ResponseTimeout,
    TryTimeout,
    /// The time of the response was over in the pause before a retry: there is no host that took too long.
    PauseTimeout,
}

/// The texts of a failed connection: of a request that was sent once, and of one that was retried.
macro_rules! before_headers {
    ($was_retried:expr, $reason:literal) => {
        if $was_retried {
            concat!(
                "upstream connect error or disconnect/reset before headers. retried and the latest reset reason: ",
                $reason
            )
        } else {
            concat!("upstream connect error or disconnect/reset before headers. reset reason: ", $reason)
        }
    };
}

impl Failure {
    /// The status, the response flag and the details of the response code; `is_taken`: the host had begun to answer, with an informational
    /// response.
    pub(super) fn outcome(self, is_taken: bool) -> (u16, Flag, &'static str) {
        match self {
            Failure::Gone if is_taken => {
                (503, Flag::UC, "upstream_reset_after_response_started{connection_termination}")
            }
            Failure::Reset if is_taken => {
                (503, Flag::UR, "upstream_reset_after_response_started{remote_reset}")
            }
            Failure::Invalid if is_taken => {
                (502, Flag::Upe, "upstream_reset_after_response_started{protocol_error}")
            }
            Failure::NoHost => (503, Flag::UH, "no_healthy_upstream"),
            Failure::Overflow => (503, Flag::UO, "upstream_reset_before_response_started{overflow}"),
            Failure::ConnectFailed => {
                (503, Flag::UF, "upstream_reset_before_response_started{remote_connection_failure}")
            }
            Failure::ConnectRefused => (
                503,
                Flag::UF,
                "upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}",
            ),
            Failure::ConnectTimeout => {
                (503, Flag::UF, "upstream_reset_before_response_started{connection_timeout}")
            }
            Failure::Gone => {
                (503, Flag::UC, "upstream_reset_before_response_started{connection_termination}")
            }
            Failure::Reset => (503, Flag::UR, "upstream_reset_before_response_started{remote_reset}"),
            Failure::Refused => {
                (503, Flag::UR, "upstream_reset_before_response_started{remote_refused_stream_reset}")
            }
            Failure::Invalid => (502, Flag::Upe, "upstream_reset_before_response_started{protocol_error}"),
            Failure::ResponseTimeout | Failure::PauseTimeout => (504, Flag::UT, "response_timeout"),
            Failure::TryTimeout => (504, Flag::UT, "upstream_per_try_timeout"),
        }
    }

    /// The body of the response to a request, which `was_retried` or not.
    pub(super) fn text(self, was_retried: bool) -> &'static str {
        match self {
            Failure::NoHost => "no healthy upstream",
            Failure::Overflow => before_headers!(was_retried, "overflow"),
            Failure::ConnectFailed | Failure::ConnectRefused => {
                before_headers!(was_retried, "remote connection failure")
            }
            Failure::ConnectTimeout => before_headers!(was_retried, "connection timeout"),
            Failure::Gone => before_headers!(was_retried, "connection termination"),
            Failure::Reset => before_headers!(was_retried, "remote reset"),
            Failure::Refused => before_headers!(was_retried, "remote refused stream reset"),
            Failure::Invalid => before_headers!(was_retried, "protocol error"),
            Failure::ResponseTimeout | Failure::TryTimeout | Failure::PauseTimeout => {
                "upstream request timeout"
            }
        }
    }
}
