//! Why the proxy does not start.

/// Why the proxy does not start. The texts are Envoy's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A socket cannot be bound.
    #[error("{0}")]
    Listen(String),
    /// An access log cannot be opened.
    #[error("{0}")]
    AccessLog(String),
    /// A thread or an event loop cannot be created.
    #[error("cannot create a thread: {0}")]
    Thread(String),
    /// The file of `admin_address_path` cannot be written.
    #[error("{0}")]
    AdminAddress(String),
}
