//! TLS of servers and clients, with one crypto provider for the process.
//!
//! Call [`install_crypto_provider`] before building a TLS client or server. [`ServerTls`] reloads certificates while it is in use,
//! [`PeerIdentity`] is the verified identity of a client, [`ClientTls`] and [`ClientPem`] configure clients; [`context`] is TLS of
//! proxies, in both directions. This module opens no connection.

mod certificate;
mod chain;
mod client;
mod clients;
pub mod context;
mod der;
mod error;
mod files;
mod follow;
mod identity;
mod pem;
mod roots;
mod server;
pub(crate) mod sessions;
mod usage;
mod validity;

use std::sync::Once;

pub use certificate::PeerCertificate;
pub use client::{ClientTls, ClientTlsOptions, ServerIdentity};
pub use error::TlsError;
pub use identity::PeerIdentity;
pub use pem::ClientPem;
pub use server::{ClientAuth, EXPIRES_SOON, ServerTls, ServerTlsOptions};
pub use validity::valid_until;

/// Minimum TLS version.
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
    /// This version and later ones.
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

/// Installs ring as crypto provider of the process, unless one is installed. Idempotent.
pub fn install_crypto_provider() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // An error means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

#[cfg(test)]
mod tests;
