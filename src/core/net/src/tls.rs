//! TLS: one crypto provider for the whole process, the API port secured, and calls to a secured one.
//!
//! Everything that may open a TLS connection calls [`install_crypto_provider`] before it builds a client or a server.
//! [`ServerTls`] holds certificates that are read anew while it is used; [`PeerIdentity`] says who called; [`ClientTls`] is the
//! other end. Nothing here opens a connection.
//! Spec: cli-operations.md 9.3.

mod client;
mod error;
mod files;
mod identity;
mod server;
mod validity;

use std::sync::Once;

pub use client::{ClientTls, ClientTlsOptions};
pub use error::TlsError;
pub use identity::{AllowedPeers, PeerIdentity};
pub use server::{ClientAuth, SOON, ServerTls, ServerTlsOptions};
pub use validity::valid_until;

/// Oldest version of TLS that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    #[value(name = "1.2")]
    V1_2,
    /// TLS 1.3.
    #[value(name = "1.3")]
    V1_3,
}

impl TlsVersion {
    /// This version and those after it.
    fn versions(self) -> &'static [&'static rustls::SupportedProtocolVersion] {
        static SINCE_1_2: [&rustls::SupportedProtocolVersion; 2] =
            [&rustls::version::TLS13, &rustls::version::TLS12];
        static SINCE_1_3: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
        match self {
            TlsVersion::V1_2 => &SINCE_1_2,
            TlsVersion::V1_3 => &SINCE_1_3,
        }
    }
}

/// Makes ring the crypto provider of the process. Cheap to call again; keeps a provider that is already installed.
pub fn install_crypto_provider() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // An error means that somebody installed a provider before us: that one serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

#[cfg(test)]
mod tests;
