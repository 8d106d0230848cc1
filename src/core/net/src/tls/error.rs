//! Errors of TLS settings.

use std::path::{Path, PathBuf};

use mixer_base::regular_file;
use mixer_base::rotate::os_text;

/// Maximum size of a file of certificates or keys, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// TLS cannot be configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// An unreadable file.
    #[error("cannot read {what} `{}`: {}", path.display(), os_text(source))]
    Unreadable {
        /// For example `the certificates in`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file without the expected content.
    #[error("there is no {what} in `{}`", path.display())]
    Empty {
        /// For example `certificate`.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// Unusable content.
    #[error("{what} cannot be used: {source}")]
    Unusable {
        /// For example `the certificate in …`.
        what: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No root can be trusted now: it has expired, is not valid yet, or may not sign certificates.
    #[error("{0}: no certificate can be trusted because of it; replace it")]
    Root(String),
    /// Inconsistent settings.
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
    regular_file::read(path, MAX_FILE).map_err(|source| TlsError::Unreadable {
        what,
        path: path.to_path_buf(),
        source,
    })
}
