//! Why the configuration plane cannot be started.

/// Why the configuration plane cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is nothing to read from.
    #[error("no source of configuration: name a directory with --configPath, or a cluster")]
    NoSource,
    /// A setting of a source is wrong.
    #[error("{0}")]
    Source(String),
}
