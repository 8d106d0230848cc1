//! Statistics of TLS, with Envoy's names.

use std::sync::Arc;

use mixer_net::tls::context::{HandshakeError, TlsSession};

use crate::stats::{Block, NamedCounters, Scope, SslStat, Stats};

/// Versions, cipher suites and groups of handshakes.
static DETAILS: [&str; 14] = [
    "ssl.versions.TLSv1.2",
    "ssl.versions.TLSv1.3",
    "ssl.ciphers.TLS_AES_128_GCM_SHA256",
    "ssl.ciphers.TLS_AES_256_GCM_SHA384",
    "ssl.ciphers.TLS_CHACHA20_POLY1305_SHA256",
    "ssl.ciphers.ECDHE-ECDSA-AES128-GCM-SHA256",
    "ssl.ciphers.ECDHE-ECDSA-AES256-GCM-SHA384",
    "ssl.ciphers.ECDHE-ECDSA-CHACHA20-POLY1305",
    "ssl.ciphers.ECDHE-RSA-AES128-GCM-SHA256",
    "ssl.ciphers.ECDHE-RSA-AES256-GCM-SHA384",
    "ssl.ciphers.ECDHE-RSA-CHACHA20-POLY1305",
    "ssl.curves.X25519",
    "ssl.curves.P-256",
    "ssl.curves.P-384",
];

/// What handshakes of a listener or a cluster count.
#[derive(Debug, Clone)]
pub(crate) struct TlsStats {
    block: Arc<Block<SslStat>>,
    details: Arc<NamedCounters>,
}

impl TlsStats {
    pub(crate) fn new(stats: &Stats, scope: &Scope) -> Self {
        Self { block: stats.block(scope), details: stats.named(scope, &DETAILS) }
    }

    /// Counts a handshake.
    pub(crate) fn succeeded(&self, session: &TlsSession) {
        self.block.increment(SslStat::Handshake);
        if session.is_resumed {
            self.block.increment(SslStat::SessionReused);
        }
        if session.peer.is_none() {
            self.block.increment(SslStat::NoCertificate);
        }
        self.details.increment(&["ssl.versions.", session.version]);
        self.details.increment(&["ssl.ciphers.", session.cipher]);
        self.details.increment(&["ssl.curves.", session.group]);
    }

    /// Counts a handshake that failed. One that takes too long is no error of TLS, nor is one that the peer ended.
    pub(crate) fn failed(&self, error: &HandshakeError) {
        self.block.increment(match error {
            HandshakeError::Timeout(_) | HandshakeError::Closed => return,
            HandshakeError::NoCertificate => SslStat::FailVerifyNoCert,
            HandshakeError::Certificate(_) => SslStat::FailVerifyError,
            HandshakeError::Name => SslStat::FailVerifySan,
            _ => SslStat::ConnectionError,
        });
    }
}
