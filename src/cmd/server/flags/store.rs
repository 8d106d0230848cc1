//! The flags of the configuration store.

use std::path::PathBuf;

use crate::cmd::flags::EmptyConfigFlags;
use crate::cmd::value;
use mixer_attribute::SignedDuration;

/// The configuration store.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct StoreFlags {
    /// Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample.
    ///
    /// k8s:// without a file is the cluster that the server runs in. With mcp+listen:// a source connects to the server; mcps:// and
    /// mcps+listen:// have TLS with certificates on both sides. Default of `mixer server`: its embedded sample configuration.
    /// Example: fs:///etc/mixer
    #[arg(long, alias = "configStoreURL", default_value = "", hide_default_value = true, value_name = "URL")]
    pub(crate) config_store_url: String,
    /// Namespace of mesh-wide rules.
    #[arg(long, alias = "configDefaultNamespace", default_value = "istio-system", value_name = "NAMESPACE")]
    pub(crate) config_default_namespace: String,
    /// Timeout of the initial configuration of a remote store.
    #[arg(
        long, alias = "configWaitTimeout", default_value = "2m0s", value_parser = value::duration,
        value_name = "DURATION"
    )]
    pub(crate) config_wait_timeout: SignedDuration,
    /// What serves when the configuration has errors: keep-last, serve-valid or refuse.
    ///
    /// keep-last: what has an error goes on in its last good version; without one, calls are answered with UNAVAILABLE. serve-valid:
    /// what is valid serves, the rest is left out, as in Istio Mixer. refuse: any error keeps the whole last good configuration.
    /// Default: keep-last; called as mixs, serve-valid.
    #[arg(
        long, hide_possible_values = true, value_parser = ["keep-last", "serve-valid", "refuse"],
        value_name = "POLICY"
    )]
    pub(crate) config_on_error: Option<String>,
    #[command(flatten)]
    pub(crate) empty: EmptyConfigFlags,
    /// Directory that keeps the last good configuration for the next start.
    ///
    /// A start with a broken or missing configuration then serves it. One file of at most 256 MiB, readable by its owner only.
    /// Example: /var/lib/mixer
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "DIR")]
    pub(crate) config_cache: PathBuf,
    /// What to do when the configuration directory disappears, with --config-on-error serve-valid: keep or drop the configuration.
    #[arg(long, default_value = "keep", value_parser = ["keep", "drop"], value_name = "POLICY")]
    pub(crate) config_loss: String,
    /// Whether to write onto Kubernetes objects whether they can be used, as a condition `Accepted` of their status.
    ///
    /// Only with k8s://; needs permission to patch them.
    #[arg(
        long, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL"
    )]
    pub(crate) config_write_status: bool,
    /// Maximum size of a message of an MCP source in bytes, or with a unit: a collection is one message. Example: 128MiB.
    #[arg(long, alias = "mcpMaxMessageSize", default_value = "67108864", value_parser = value::size, value_name = "BYTES")]
    pub(crate) mcp_max_message_size: u64,
    /// Client certificate for mcps:// stores, PEM.
    #[arg(long, alias = "certFile", value_parser = value::path, default_value = "/etc/certs/cert-chain.pem", value_name = "FILE")]
    pub(crate) cert_file: PathBuf,
    /// Private key of the client certificate, PEM.
    #[arg(long, alias = "keyFile", value_parser = value::path, default_value = "/etc/certs/key.pem", value_name = "FILE")]
    pub(crate) key_file: PathBuf,
    /// CA certificates that verify mcps:// stores, PEM.
    #[arg(long, alias = "caCertFile", value_parser = value::path, default_value = "/etc/certs/root-cert.pem", value_name = "FILE")]
    pub(crate) ca_cert_file: PathBuf,
    /// Whether to read adapter-specific kinds (denier, memquota, …).
    #[arg(
        long = "use-adapter-crds", alias = "useAdapterCRDs", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", value_parser = value::boolean,
        hide_possible_values = true, value_name = "BOOL"
    )]
    pub(crate) use_adapter_crds: bool,
    /// Whether to read template-specific kinds (metric, quota, …).
    #[arg(
        long = "use-template-crds", alias = "useTemplateCRDs", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", value_parser = value::boolean,
        hide_possible_values = true, value_name = "BOOL"
    )]
    pub(crate) use_template_crds: bool,
}
