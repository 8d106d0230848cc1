//! Certificates and keys in PEM files.

use std::path::Path;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::error::{TlsError, read};

/// All certificates of a file, in order. Errors: none, or an invalid one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read("the certificates in", path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|e| TlsError::unusable(format!("`{}`", path.display()), e))?;
    if found.is_empty() {
        return Err(TlsError::Empty { what: "certificate", path: path.to_path_buf() });
    }
    Ok(found)
}

/// The private key of a file. Errors: none, or invalid; errors never contain the key.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = read("the key in", path)?;
    PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|_| TlsError::Empty { what: "private key", path: path.to_path_buf() })
}
