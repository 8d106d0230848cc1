//! TLS: one crypto provider for the whole process.
//!
//! Everything that may open a TLS connection calls [`install_crypto_provider`] before it builds a client or a server.

use std::sync::Once;

/// Makes ring the crypto provider of the process. Cheap to call again; keeps a provider that is already installed.
pub fn install_crypto_provider() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // An error means that somebody installed a provider before us: that one serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_provider_is_installed_once() {
        super::install_crypto_provider();
        super::install_crypto_provider();
        assert!(rustls::crypto::CryptoProvider::get_default().is_some());
    }
}
