//! Connections to a server: of a sink to a source, or of a source that calls out to a sink.

use mixer_net::tls::ClientTlsOptions;

/// How a client authenticates the server and itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClientAuth {
    /// Plain text.
    #[default]
    None,
    /// TLS; the server is verified. With a certificate of its own, mutual TLS.
    Tls(ClientTlsOptions),
    /// TLS with the roots of the system, and a token of Google's default credentials.
    Google,
}

/// How to reach a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// `HOST:PORT`, or `unix:PATH`.
    pub address: String,
    /// How both sides are authenticated.
    pub auth: ClientAuth,
    /// Metadata of the call: names and values.
    pub metadata: Vec<(String, String)>,
}

impl ClientOptions {
    /// Plain text without metadata.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), auth: ClientAuth::None, metadata: Vec::new() }
    }
}
