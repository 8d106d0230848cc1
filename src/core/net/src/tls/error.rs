//! Why TLS cannot be set up.

use std::path::{Path, PathBuf};

use mixer_base::rotate::os_text;

/// Why certificates or keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {what} `{}`: {}", path.display(), os_text(source))]
    Unreadable {
        /// For example `the certificates in`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("there is no {what} in `{}`", path.display())]
    Empty {
        /// For example `certificate`.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// What was read cannot be used.
    #[error("{what} cannot be used: {source}")]
    Unusable {
        /// For example `the certificate in …`.
        what: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Settings that contradict each other.
    #[error("{0}")]
    Settings(String),
}

impl TlsError {
    pub(super) fn unusable(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unusable { what: what.into(), source: source.into() }
    }
}

/// The bytes of a file.
pub(super) fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable { what, path: path.to_path_buf(), source })
}
