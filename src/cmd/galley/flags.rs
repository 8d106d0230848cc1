//! The flags of `galley server`. The first alias is the spelling of Istio Galley.

use std::path::PathBuf;

use crate::cmd::value;
use mixer_attribute::SignedDuration;
use mixer_galley::source::eureka::EurekaOptions;
use mixer_galley::source::zookeeper::ZookeeperOptions;
use mixer_net::tls::ClientTlsOptions;

/// Where configuration comes from.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Where configuration comes from")]
pub(super) struct SourceFlags {
    /// Directory or file of resources; without it, a Kubernetes cluster.
    #[arg(long = "config-path", alias = "configPath", value_parser = value::path, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) config_path: PathBuf,
    /// Notice changes of files; otherwise on SIGUSR1 only.
    #[arg(long = "watch-config-files", alias = "watchConfigFiles", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) watch_config_files: bool,
    /// Mesh configuration, YAML; empty: the defaults.
    #[arg(long = "mesh-config-file", alias = "meshConfigFile", value_parser = value::path, default_value = "/etc/mesh-config/mesh", value_name = "FILE")]
    pub(super) mesh_config_file: PathBuf,
    /// Kubeconfig of the cluster; without it, the one in which this process runs.
    #[arg(long = "kubeconfig", value_parser = value::path, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) kubeconfig: PathBuf,
    /// How often all objects are listed again and compared; 0 means never.
    #[arg(long = "resync-period", alias = "resyncPeriod", default_value = "0s", value_parser = value::duration, value_name = "DURATION")]
    pub(super) resync_period: SignedDuration,
    /// Start although the cluster lacks kinds of resources.
    #[arg(long = "disable-resource-ready-check", alias = "disableResourceReadyCheck", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) disable_resource_ready_check: bool,
    /// Kinds that are not read, separated by commas.
    #[arg(long = "excluded-resource-kinds", alias = "excludedResourceKinds", default_values = ["Endpoints", "Namespace", "Node", "Pod", "Service"], action = clap::ArgAction::Append, value_delimiter = ',', value_name = "KINDS")]
    pub(super) excluded_resource_kinds: Vec<String>,
    /// Domain of services.
    #[arg(long = "domain", default_value = "cluster.local", value_name = "DOMAIN")]
    pub(super) domain: String,
    /// Make service entries from services, endpoints, pods and nodes.
    #[arg(long = "enable-service-discovery", alias = "enableServiceDiscovery", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) enable_service_discovery: bool,
    /// Tell in the log what published resources say together, as the analyzers of Istio 1.5: references that lead nowhere, conflicts.
    #[arg(long = "enable-analysis", alias = "enableAnalysis", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) enable_analysis: bool,
    /// Versions and collections as of the first processor of Istio Galley; otherwise as of the second.
    #[arg(long = "use-old-processor", alias = "useOldProcessor", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) use_old_processor: bool,
    /// Wait as long as Istio Galley before a change is published: about a second.
    #[arg(long = "istio-pace", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) istio_pace: bool,
    /// What sinks get while files or objects have errors: keep-last, which they have already, or serve-valid, what is valid, as from Istio Galley. Default:
    /// keep-last; called as galley, serve-valid.
    #[arg(long = "config-on-error", value_parser = [KEEP_LAST, SERVE_VALID], value_name = "POLICY")]
    pub(super) config_on_error: Option<String>,
    /// Accept a --config-path without resources, which allows every request, and at a start one with an empty directory below it.
    ///
    /// Without it an empty configuration counts as lost: what is published stays, and a start waits for resources, unless
    /// --config-on-error is serve-valid.
    #[arg(long = "allow-empty-config", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) allow_empty_config: bool,
    /// Directory that keeps the files that were published last for the next start, with --config-path.
    ///
    /// A start beside a broken, empty or missing --config-path then publishes them. One file of at most 256 MiB, readable by its owner
    /// only. Without effect with serve-valid. Example: /var/lib/galley
    #[arg(long = "config-cache", value_parser = value::path, default_value = "", hide_default_value = true, value_name = "DIR")]
    pub(super) config_cache: PathBuf,
}

/// Policies of `--config-on-error`.
pub(super) const KEEP_LAST: &str = "keep-last";
const SERVE_VALID: &str = "serve-valid";
/// Registries of services.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Registries of services")]
pub(super) struct RegistryFlags {
    /// ZooKeeper with the registry of Dubbo, whose services become service entries: HOST:PORT, separated by commas, and perhaps /CHROOT at the end.
    #[arg(long = "zookeeper-address", alias = "zookeeperAddress", action = clap::ArgAction::Append, value_delimiter = ',', value_name = "SERVERS")]
    pub(super) zookeeper_address: Vec<String>,
    /// Node below which services are.
    #[arg(long = "zookeeper-root", alias = "zookeeperRoot", default_value = "/dubbo", value_name = "PATH")]
    pub(super) zookeeper_root: String,
    /// Time after which a session without a sign of life ends.
    #[arg(long = "zookeeper-session-timeout", alias = "zookeeperSessionTimeout", default_value = "10s", value_parser = value::duration, value_name = "DURATION")]
    pub(super) zookeeper_session_timeout: SignedDuration,
    /// Namespace of these service entries.
    #[arg(
        long = "zookeeper-namespace",
        alias = "zookeeperNamespace",
        default_value = "dubbo",
        value_name = "NAMESPACE"
    )]
    pub(super) zookeeper_namespace: String,
    /// User of the scheme digest.
    #[arg(
        long = "zookeeper-user",
        alias = "zookeeperUser",
        default_value = "",
        value_name = "NAME",
        hide_default_value = true
    )]
    pub(super) zookeeper_user: String,
    /// File with his password, which is read for each connection.
    #[arg(long = "zookeeper-password-file", alias = "zookeeperPasswordFile", value_parser = value::path, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) zookeeper_password_file: PathBuf,
    /// Connect to ZooKeeper with TLS, and verify it with the roots in this file, PEM.
    #[arg(long = "zookeeper-ca-cert-file", alias = "zookeeperCaCertFile", value_parser = value::path, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) zookeeper_ca_cert_file: PathBuf,
    /// Client certificate chain for ZooKeeper, PEM.
    #[arg(long = "zookeeper-cert-file", alias = "zookeeperCertFile", value_parser = value::path, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) zookeeper_cert_file: PathBuf,
    /// Its private key, PEM.
    #[arg(long = "zookeeper-key-file", alias = "zookeeperKeyFile", value_parser = value::path, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) zookeeper_key_file: PathBuf,
    /// Eureka servers whose applications become service entries: http://HOST:PORT/eureka, separated by commas.
    #[arg(long = "eureka-address", alias = "eurekaAddress", action = clap::ArgAction::Append, value_delimiter = ',', value_name = "URLS")]
    pub(super) eureka_address: Vec<String>,
    /// How often Eureka is asked for changes.
    #[arg(long = "eureka-refresh", alias = "eurekaRefresh", default_value = "15s", value_parser = value::duration, value_name = "DURATION")]
    pub(super) eureka_refresh: SignedDuration,
    /// Time limit of a request to Eureka.
    #[arg(long = "eureka-timeout", alias = "eurekaTimeout", default_value = "30s", value_parser = value::duration, value_name = "DURATION")]
    pub(super) eureka_timeout: SignedDuration,
    /// Namespace of these service entries.
    #[arg(
        long = "eureka-namespace",
        alias = "eurekaNamespace",
        default_value = "eureka",
        value_name = "NAMESPACE"
    )]
    pub(super) eureka_namespace: String,
    /// Port of their services; 0: that of the first instance.
    #[arg(long = "eureka-service-port", alias = "eurekaServicePort", default_value = "0", value_parser = value::port, value_name = "PORT")]
    pub(super) eureka_service_port: u16,
    /// User of Eureka, with HTTP basic authentication.
    #[arg(
        long = "eureka-user",
        alias = "eurekaUser",
        default_value = "",
        value_name = "NAME",
        hide_default_value = true
    )]
    pub(super) eureka_user: String,
    /// File with his password, which is read again when it changes.
    #[arg(long = "eureka-password-file", alias = "eurekaPasswordFile", value_parser = value::path, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) eureka_password_file: PathBuf,
    /// Roots of the certificates of Eureka, PEM; empty: those of the system.
    #[arg(long = "eureka-ca-cert-file", alias = "eurekaCaCertFile", value_parser = value::path, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) eureka_ca_cert_file: PathBuf,
    /// Client certificate chain for Eureka, PEM.
    #[arg(long = "eureka-cert-file", alias = "eurekaCertFile", value_parser = value::path, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) eureka_cert_file: PathBuf,
    /// Its private key, PEM.
    #[arg(long = "eureka-key-file", alias = "eurekaKeyFile", value_parser = value::path, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) eureka_key_file: PathBuf,
}

impl RegistryFlags {
    /// The settings of ZooKeeper, if there is one.
    pub(super) fn zookeeper(&self) -> Option<ZookeeperOptions> {
        let address = joined(&self.zookeeper_address)?;
        let tls = ClientTlsOptions {
            ca_file: self.zookeeper_ca_cert_file.clone(),
            cert_file: self.zookeeper_cert_file.clone(),
            key_file: self.zookeeper_key_file.clone(),
            ..ClientTlsOptions::default()
        };
        Some(ZookeeperOptions {
            address,
            root: self.zookeeper_root.clone(),
            session_timeout: self.zookeeper_session_timeout.to_std_or_zero(),
            namespace: self.zookeeper_namespace.clone(),
            user: self.zookeeper_user.clone(),
            password_file: self.zookeeper_password_file.clone(),
            tls: (tls != ClientTlsOptions::default()).then_some(tls),
        })
    }

    /// The settings of Eureka, if there is one.
    pub(super) fn eureka(&self) -> Option<EurekaOptions> {
        joined(&self.eureka_address)?;
        Some(EurekaOptions {
            addresses: self.eureka_address.clone(),
            refresh: self.eureka_refresh.to_std_or_zero(),
            timeout: self.eureka_timeout.to_std_or_zero(),
            namespace: self.eureka_namespace.clone(),
            service_port: Some(self.eureka_service_port).filter(|port| *port > 0),
            user: self.eureka_user.clone(),
            password_file: self.eureka_password_file.clone(),
            tls: ClientTlsOptions {
                ca_file: self.eureka_ca_cert_file.clone(),
                cert_file: self.eureka_cert_file.clone(),
                key_file: self.eureka_key_file.clone(),
                ..ClientTlsOptions::default()
            },
        })
    }
}

/// The addresses with commas; `None` if there are none.
fn joined(addresses: &[String]) -> Option<String> {
    let addresses: Vec<&str> =
        addresses.iter().map(|address| address.trim()).filter(|a| !a.is_empty()).collect();
    (!addresses.is_empty()).then(|| addresses.join(","))
}

/// Sinks.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Sinks")]
pub(super) struct ServingFlags {
    /// Read configuration and serve it to sinks.
    #[arg(long = "enable-server", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) enable_server: bool,
    /// Address of sinks: tcp://HOST:PORT or unix:///PATH.
    #[arg(long = "server-address", default_value = "tcp://0.0.0.0:9901", value_name = "ADDRESS")]
    pub(super) server_address: String,
    /// Most bytes of a message of a sink.
    #[arg(long = "server-max-received-message-size", alias = "server-maxReceivedMessageSize", default_value = "1048576", value_parser = value::size, value_name = "BYTES")]
    pub(super) server_max_received_message_size: u64,
    /// Most memory that all sinks together can make the server keep: connections, streams, requests.
    ///
    /// Beyond it, the connection that takes most is closed. A sink takes about 100 KiB. Example: 1GiB.
    #[arg(long = "memory-limit", default_value = "256MiB", value_parser = value::size, value_name = "BYTES")]
    pub(super) memory_limit: u64,
    /// Streams of a connection; a sink needs one.
    #[arg(long = "server-max-concurrent-streams", alias = "server-maxConcurrentStreams", default_value = "32", value_parser = value::uint, value_name = "COUNT")]
    pub(super) server_max_concurrent_streams: u64,
    /// Serve plain text to everyone.
    #[arg(long = "insecure", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) insecure: bool,
    /// Certificate chain, PEM.
    #[arg(long = "tls-cert-file", alias = "tlsCertFile", value_parser = value::path, default_value = "/etc/certs/cert-chain.pem", value_name = "FILE")]
    pub(super) tls_cert_file: PathBuf,
    /// Its private key, PEM.
    #[arg(long = "tls-key-file", alias = "tlsKeyFile", value_parser = value::path, default_value = "/etc/certs/key.pem", value_name = "FILE")]
    pub(super) tls_key_file: PathBuf,
    /// Roots of the certificates of sinks, PEM.
    #[arg(long = "ca-cert-file", alias = "caCertFile", value_parser = value::path, default_value = "/etc/certs/root-cert.pem", value_name = "FILE")]
    pub(super) ca_cert_file: PathBuf,
    /// Identities of sinks that may connect, YAML.
    #[arg(long = "access-list-file", alias = "accessListFile", value_parser = value::path, default_value = "/etc/config/accesslist.yaml", value_name = "FILE")]
    pub(super) access_list_file: PathBuf,
    /// Send differences to sinks that ask for them: by default, unless called as galley.
    #[arg(long = "incremental", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) incremental: Option<bool>,
    /// Serve sinks of Istio 1.0 and 1.1 too, which call AggregatedMeshConfigService.
    #[arg(long = "legacy-mcp", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) legacy_mcp: bool,
    /// Sink to call, HOST:PORT; may be repeated.
    #[arg(long = "sink-address", alias = "sinkAddress", action = clap::ArgAction::Append, value_name = "ADDRESS")]
    pub(super) sink_address: Vec<String>,
    /// How sinks that are called are authenticated: NONE, TLS, MUTUAL_TLS or GOOGLE.
    #[arg(
        long = "sink-auth-mode",
        alias = "sinkAuthMode",
        default_value = "",
        value_name = "MODE",
        hide_default_value = true
    )]
    pub(super) sink_auth_mode: String,
    /// Headers of streams: KEY=VALUE, separated by commas.
    #[arg(long = "sink-meta", alias = "sinkMeta", action = clap::ArgAction::Append, value_delimiter = ',', value_name = "PAIRS")]
    pub(super) sink_meta: Vec<String>,
}

/// Admission webhook.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Admission webhook")]
pub(super) struct ValidationFlags {
    /// Serve the webhook that API servers ask about resources.
    #[arg(long = "enable-validation", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) enable_validation: bool,
    /// Port of the webhook on all interfaces.
    #[arg(long = "validation-port", default_value = "443", value_parser = value::uint, value_name = "PORT")]
    pub(super) validation_port: u64,
    /// What is checked of resources of the policy engine: structural, as Istio does, or deep, as `mixer validate` does.
    #[arg(long = "validation-depth", default_value = "structural", value_parser = ["structural", "deep"], value_name = "DEPTH")]
    pub(super) validation_depth: String,
    /// The webhook configuration that the cluster is to have, YAML; without it, the one that it has is completed.
    #[arg(long = "validation-webhook-config-file", value_parser = value::path, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) validation_webhook_config_file: PathBuf,
    /// Keep the webhook configuration of the cluster as it should be.
    #[arg(long = "enable-reconcile-webhook-configuration", alias = "enable-reconcileWebhookConfiguration", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) enable_reconcile_webhook_configuration: bool,
    /// Name of the webhook configuration.
    #[arg(long = "webhook-name", default_value = "istio-galley", value_name = "NAME")]
    pub(super) webhook_name: String,
    /// Namespace of the deployment and the service of Galley.
    #[arg(long = "deployment-namespace", default_value = "istio-system", value_name = "NAMESPACE")]
    pub(super) deployment_namespace: String,
    /// Name of the deployment.
    #[arg(long = "deployment-name", default_value = "istio-galley", value_name = "NAME")]
    pub(super) deployment_name: String,
    /// Name of the service.
    #[arg(long = "service-name", default_value = "istio-galley", value_name = "NAME")]
    pub(super) service_name: String,
}

/// Operations.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Operations")]
pub(super) struct OperationFlags {
    /// Port of the ControlZ introspection pages; 0 disables them.
    #[arg(long = "ctrlz-port", alias = "ctrlz_port", default_value = "9876", value_parser = value::port, value_name = "PORT")]
    pub(super) ctrlz_port: u16,
    /// Address of the ControlZ introspection pages; `*` means all interfaces.
    #[arg(
        long = "ctrlz-address",
        alias = "ctrlz_address",
        default_value = "localhost",
        value_name = "ADDRESS"
    )]
    pub(super) ctrlz_address: String,
    /// Make ControlZ read-only.
    #[arg(long = "ctrlz-readonly", alias = "ctrlz_readonly", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) ctrlz_readonly: bool,
    /// File with the bearer token that ControlZ requires.
    #[arg(long = "ctrlz-token-file", alias = "ctrlz_token_file", value_parser = value::path, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) ctrlz_token_file: PathBuf,
    /// Host names that ControlZ accepts besides localhost and IP addresses.
    #[arg(
        long = "ctrlz-allowed-hosts",
        alias = "ctrlz_allowed_hosts",
        default_value = "",
        value_name = "NAMES",
        hide_default_value = true
    )]
    pub(super) ctrlz_allowed_hosts: String,
    /// HTTP port of metrics, version and health on all interfaces; texts of errors are for clients on this host.
    #[arg(long = "monitoring-port", alias = "monitoringPort", default_value = "15014", value_parser = value::port, value_name = "PORT")]
    pub(super) monitoring_port: u16,
    /// Address of that port, instead of all interfaces; texts of errors are then for whoever reaches it. Example: 127.0.0.1:15014.
    #[arg(
        long = "monitoring-address",
        alias = "monitoring_address",
        default_value = "",
        hide_default_value = true,
        value_name = "ADDRESS"
    )]
    pub(super) monitoring_address: String,
    /// Serve profiles, to clients on this host.
    #[arg(long = "enable-profiling", alias = "enableProfiling", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) enable_profiling: bool,
    /// HTTP port of profiles.
    #[arg(long = "pprof-port", alias = "pprofPort", default_value = "9094", value_parser = value::port, value_name = "PORT")]
    pub(super) pprof_port: u16,
    /// Export a metric for every resource.
    #[arg(long = "metric-per-resource", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL")]
    pub(super) metric_per_resource: bool,
    /// Probe file that is updated while the process works.
    #[arg(long = "liveness-probe-path", alias = "livenessProbePath", value_parser = value::path, default_value = "/healthLiveness", value_name = "FILE")]
    pub(super) liveness_probe_path: PathBuf,
    /// Maximum age of that file.
    #[arg(long = "liveness-probe-interval", alias = "livenessProbeInterval", default_value = "2s", value_parser = value::duration, value_name = "DURATION")]
    pub(super) liveness_probe_interval: SignedDuration,
    /// Probe file that is updated while sinks are served.
    #[arg(long = "readiness-probe-path", alias = "readinessProbePath", value_parser = value::path, default_value = "/healthReadiness", value_name = "FILE")]
    pub(super) readiness_probe_path: PathBuf,
    /// Maximum age of that file.
    #[arg(long = "readiness-probe-interval", alias = "readinessProbeInterval", default_value = "2s", value_parser = value::duration, value_name = "DURATION")]
    pub(super) readiness_probe_interval: SignedDuration,
}

/// Spellings of Galley 1.0, which replace those above.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct OldFlags {
    /// As --server-address.
    #[arg(long = "address", hide = true, value_name = "ADDRESS")]
    pub(super) address: Option<String>,
    /// As --kubeconfig.
    #[arg(long = "kubeConfig", hide = true, value_parser = value::path, value_name = "FILE")]
    pub(super) kube_config: Option<PathBuf>,
    /// As --server-max-received-message-size.
    #[arg(long = "maxReceivedMessageSize", hide = true, value_parser = value::uint, value_name = "BYTES")]
    pub(super) max_received_message_size: Option<u64>,
    /// As --server-max-concurrent-streams.
    #[arg(long = "maxConcurrentStreams", hide = true, value_parser = value::uint, value_name = "COUNT")]
    pub(super) max_concurrent_streams: Option<u64>,
    /// Certificate of the webhook; empty: that of the server.
    #[arg(long = "validation.tls.clientCertificate", hide = true, value_parser = value::path, default_value = "", value_name = "FILE")]
    pub(super) validation_certificate: PathBuf,
    /// Key of that certificate.
    #[arg(long = "validation.tls.privateKey", hide = true, value_parser = value::path, default_value = "", value_name = "FILE")]
    pub(super) validation_key: PathBuf,
    /// Root of that certificate.
    #[arg(long = "validation.tls.caCertificates", hide = true, value_parser = value::path, default_value = "", value_name = "FILE")]
    pub(super) validation_ca: PathBuf,
}
