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
}

/// Begins every text of a failed connection.
macro_rules! before_headers {
    ($reason:literal) => {
        concat!("upstream connect error or disconnect/reset before headers. reset reason: ", $reason)
    };
}

impl Failure {
    /// The status, the response flag and the details of the response code.
    pub(super) fn outcome(self) -> (u16, Flag, &'static str) {
        match self {
            Failure::NoHost => (503, Flag::UH, "no_healthy_upstream"),
            Failure::Overflow => (503, Flag::UO, "upstream_reset_before_response_started{overflow}"),
            Failure::ConnectFailed => {
                (503, Flag::UF, "upstream_reset_before_response_started{remote_connection_failure}")
            }
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
            Failure::ResponseTimeout => (504, Flag::UT, "response_timeout"),
            Failure::TryTimeout => (504, Flag::UT, "upstream_per_try_timeout"),
        }
    }

    /// The body of the response.
    pub(super) fn text(self) -> &'static str {
        match self {
            Failure::NoHost => "no healthy upstream",
            Failure::Overflow => before_headers!("overflow"),
            Failure::ConnectFailed => before_headers!("remote connection failure"),
            Failure::ConnectTimeout => before_headers!("connection timeout"),
            Failure::Gone => before_headers!("connection termination"),
            Failure::Reset => before_headers!("remote reset"),
            Failure::Refused => before_headers!("remote refused stream reset"),
            Failure::Invalid => before_headers!("protocol error"),
            Failure::ResponseTimeout | Failure::TryTimeout => "upstream request timeout",
        }
    }
}
