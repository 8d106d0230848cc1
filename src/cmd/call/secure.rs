//! The flags by which calls are secured.

use std::path::PathBuf;

use super::super::Failure;
use super::super::value;
use mixer_net::tls::{ClientTls, ClientTlsOptions};

/// Flags of everything that calls a server over gRPC.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct SecureFlags {
    /// Speak TLS with the server; any other flag of this group means this one as well.
    #[arg(long)]
    tls: bool,
    /// Roots that the server is checked against, PEM; without it those of the system.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    ca_file: PathBuf,
    /// Certificate to show to the server, with its chain, PEM.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    cert_file: PathBuf,
    /// Key of that certificate, PEM.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    key_file: PathBuf,
    /// Name that the certificate of the server must carry; without it the host that is called.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    server_name: String,
}

impl SecureFlags {
    /// What secures connections to `target`, if anything does.
    ///
    /// Errors: files that cannot be used; settings that contradict each other.
    pub(crate) fn load(&self, target: &str) -> Result<Option<ClientTls>, Failure> {
        let Self { tls, ca_file, cert_file, key_file, server_name } = self.clone();
        let options = ClientTlsOptions { ca_file, cert_file, key_file, server_name };
        if !tls && options == ClientTlsOptions::default() {
            return Ok(None);
        }
        let refuse = |cause: String| Failure::local(format!("cannot speak TLS with `{target}`")).cause(cause);
        if target.starts_with("unix:") && options.server_name.is_empty() {
            return Err(refuse("a unix socket has no host name".to_owned())
                .hint("name the server with --server-name"));
        }
        ClientTls::load(&options, host(target)).map(Some).map_err(|e| refuse(e.to_string()))
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
    fn hosts_are_found_in_targets() {
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
