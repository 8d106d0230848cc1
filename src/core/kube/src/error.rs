//! Why a request to an API server failed.

use std::time::Duration;

use serde::Deserialize;

use crate::access::AccessError;

/// The status that an API server answers with instead of objects: `meta/v1.Status`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct ApiStatus {
    /// The HTTP status.
    pub code: u16,
    /// For example `Expired` or `Forbidden`.
    pub reason: String,
    /// For users.
    pub message: String,
}

/// Why a request failed. Texts are for operators, and hold no credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster or the credentials are not known.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// There is no connection, or it broke.
    #[error("{server}: {why}")]
    Unreachable {
        /// Host and port.
        server: String,
        /// The innermost cause.
        why: String,
    },
    /// The answer did not come, or did not end.
    #[error("{server}: no answer within {limit:?}")]
    Timeout {
        /// Host and port.
        server: String,
        /// The limit.
        limit: Duration,
    },
    /// The API server refused.
    #[error("{server}: {path}: {}", shown(status))]
    Refused {
        /// Host and port.
        server: String,
        /// What was asked for.
        path: String,
        /// Its status.
        status: ApiStatus,
        /// The pause that it asked for; zero if it did not.
        after: Duration,
    },
    /// An answer that is none of the API.
    #[error("{server}: {path}: {why}")]
    Malformed {
        /// Host and port.
        server: String,
        /// What was asked for.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// An answer with more bytes than the bound.
    #[error("{server}: {path}: the answer has more than {} MiB", .bound >> 20)]
    TooLarge {
        /// Host and port.
        server: String,
        /// What was asked for.
        path: String,
        /// The bound.
        bound: usize,
    },
}

fn shown(status: &ApiStatus) -> String {
    let ApiStatus { code, reason, message } = status;
    match (&**reason, &**message) {
        ("", "") => format!("HTTP status {code}"),
        ("", message) => format!("HTTP status {code}: {message}"),
        (reason, "") => format!("HTTP status {code} ({reason})"),
        (reason, message) => format!("HTTP status {code} ({reason}): {message}"),
    }
}

impl Error {
    /// Whether what was asked for is too old: the objects have to be listed again.
    pub fn is_gone(&self) -> bool {
        matches!(self, Error::Refused { status: ApiStatus { code: 410, .. }, .. })
    }

    /// Whether the account may not do what was asked for.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Error::Refused { status: ApiStatus { code: 403, .. }, .. })
    }

    /// The pause that the API server asked for; zero if it did not.
    pub fn after(&self) -> Duration {
        match self {
            Error::Refused { after, .. } => *after,
            _ => Duration::ZERO,
        }
    }
}
