//! The flags of listening sockets and of their TLS.

use std::path::PathBuf;

use crate::cmd::value;
use mixer_server::{ClientAuth, Reflection, ServerTlsOptions, TlsVersion};

/// The listening sockets.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Listening")]
pub(crate) struct ListenFlags {
    /// TCP port of the gRPC API on all interfaces; ignored if --address is set.
    #[arg(short = 'p', long, default_value = "9091", value_parser = value::port, value_name = "PORT")]
    pub(crate) port: u16,
    /// Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ADDRESS")]
    pub(crate) address: String,
    /// File mode of a Unix socket, octal. Example: 0660.
    #[arg(long, value_parser = value::mode_bits, default_value = "", hide_default_value = true, value_name = "MODE")]
    pub(crate) socket_mode: value::ModeBits,
    /// Whether to serve gRPC reflection; auto enables it if the API listens on loopback or a Unix socket only.
    #[arg(
        long, value_enum, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "auto", default_missing_value = "on", value_name = "WHEN"
    )]
    pub(crate) grpc_reflection: Reflection,
    /// HTTP port of metrics, version and health, on all interfaces; profiles and texts of errors are for clients on this host.
    #[arg(long, alias = "monitoringPort", default_value = "15014", value_parser = value::port, value_name = "PORT")]
    pub(crate) monitoring_port: u16,
    /// Address of that port, instead of all interfaces; both are then for whoever reaches it. Example: 127.0.0.1:15014.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ADDRESS")]
    pub(crate) monitoring_address: String,
    /// HTTP port of the metrics of prometheus handlers, on all interfaces.
    #[arg(long, default_value = "42422", value_parser = value::port, value_name = "PORT")]
    pub(crate) metrics_port: u16,
    /// Address of those metrics, instead of all interfaces. Example: 127.0.0.1:42422.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ADDRESS")]
    pub(crate) metrics_address: String,
}

/// TLS of the API port.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "TLS of the API port")]
pub(crate) struct TlsFlags {
    /// Server certificate chain, PEM; TCP clients must then use TLS.
    ///
    /// Files are reloaded when they change and on SIGHUP; existing connections are not affected.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    tls_cert_file: PathBuf,
    /// Private key of the certificate, PEM.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    tls_key_file: PathBuf,
    /// CA certificates that verify client certificates, PEM; requests a certificate from clients.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    tls_client_ca_file: PathBuf,
    /// Whether clients must present a certificate.
    #[arg(long, value_enum, default_value = "require", value_name = "WHEN")]
    tls_client_auth: ClientAuth,
    /// Minimum TLS version.
    #[arg(long, value_enum, default_value = "1.2", value_name = "VERSION")]
    tls_min_version: TlsVersion,
    /// Allowed clients, by URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`.
    ///
    /// Example: spiffe://cluster.local/ns/istio-system/*
    #[arg(long, default_value = "", hide_default_value = true, value_name = "LIST")]
    tls_allowed_peers: String,
}

impl TlsFlags {
    /// The settings.
    pub(crate) fn options(&self) -> ServerTlsOptions {
        ServerTlsOptions {
            cert_file: self.tls_cert_file.clone(),
            key_file: self.tls_key_file.clone(),
            client_ca_file: self.tls_client_ca_file.clone(),
            client_auth: self.tls_client_auth,
            min_version: self.tls_min_version,
            allowed_peers: self.tls_allowed_peers.clone(),
        }
    }
}
