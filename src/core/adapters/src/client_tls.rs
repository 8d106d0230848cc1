//! The parameter `tls` of adapters: TLS of connections to a backend.

use mixer_config::{Diagnostic, Diagnostics, FieldPath};

mixer_config::message! {
    /// TLS of a connection.
    pub struct Tls: "mixer.adapter.Tls" {
        /// File with the trusted roots, PEM; empty: those of the system.
        1 ca_file: String = String::new();
        /// File with the client certificate, PEM; empty: none.
        2 cert_file: String = String::new();
        /// File with its key, PEM.
        3 key_file: String = String::new();
        /// Expected name of the server; empty: the host of the address.
        4 server_name: String = String::new();
    }
}

/// Reports what is wrong with them.
pub(crate) fn validate(tls: Option<&Tls>, problems: &mut Diagnostics) {
    if tls.is_some_and(|tls| tls.cert_file.is_empty() != tls.key_file.is_empty()) {
        let text = "tls: a certificate and its key belong together";
        problems.push(Diagnostic::error("adapter-config", FieldPath::root().field("tls"), text));
    }
}

#[cfg(any(feature = "adapter-fluentd", feature = "adapter-redisquota"))]
impl From<&Tls> for mixer_net::tls::ClientTlsOptions {
    fn from(tls: &Tls) -> Self {
        Self {
            ca_file: (&tls.ca_file).into(),
            cert_file: (&tls.cert_file).into(),
            key_file: (&tls.key_file).into(),
            server_name: tls.server_name.clone(),
            ..Self::default()
        }
    }
}
