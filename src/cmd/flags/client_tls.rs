//! The TLS flags of clients.

use std::path::PathBuf;

use crate::cmd::exit::Failure;
use crate::cmd::value::{self, ApiAddress};
use mixer_net::tls::{ClientTls, ClientTlsOptions};

/// TLS flags of commands that call a server over gRPC.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct ClientTlsFlags {
    /// Use TLS; implied by the other flags of this group.
    #[arg(long)]
    tls: bool,
    /// CA certificates that verify the server, PEM; default: those of the system.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    ca_file: PathBuf,
    /// Client certificate chain, PEM.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    cert_file: PathBuf,
    /// Private key of the client certificate, PEM.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    key_file: PathBuf,
    /// Server name in the server certificate; default: the host of the target.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    server_name: String,
}

impl ClientTlsFlags {
    /// The TLS settings of connections to `target`; `None` without TLS.
    ///
    /// Errors: unusable files, contradicting settings.
    pub(crate) fn load(&self, address: &ApiAddress) -> Result<Option<ClientTls>, Failure> {
        let target = address.target.as_str();
        let Self { tls, ca_file, cert_file, key_file, server_name } = self.clone();
        let options =
            ClientTlsOptions { ca_file, cert_file, key_file, server_name, ..ClientTlsOptions::default() };
        if !tls && !address.is_tls && options == ClientTlsOptions::default() {
            return Ok(None);
        }
        let refuse = |cause: String| Failure::local(format!("cannot set up TLS to `{target}`")).cause(cause);
        if target.starts_with("unix:") && options.server_name.is_empty() {
            return Err(refuse("a unix socket has no host name".to_owned()).hint("set --server-name"));
        }
        ClientTls::load(&options, host(target)).map(Some).map_err(|e| {
            refuse(e.to_string())
                .hint("--ca-file is a file with PEM certificates; --cert-file and --key-file, both PEM, go together")
        })
    }
}

/// The host of a target.
fn host(target: &str) -> &str {
    let address = target.strip_prefix("dns:///").unwrap_or(target);
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() { "localhost" } else { host }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_hosts() {
        for (target, expected) in [
            ("mixer.istio-system:9091", "mixer.istio-system"),
            ("dns:///mixer:9091", "mixer"),
            ("[::1]:9091", "::1"),
            (":9091", "localhost"),
        ] {
            assert_eq!(host(target), expected);
        }
    }
}
