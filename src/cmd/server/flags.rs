//! The flags of `server`.

use std::path::PathBuf;

use super::super::value::{self, PerSecond};
use super::config_file::{self, Merged, Setting};
use super::decision_flags::DecisionFlags;
use super::introspection_flags::IntrospectionFlags;
use mixer_attribute::SignedDuration;
use mixer_server::{
    ClientAuth, LoadSheddingMode, LoadSheddingOptions, LogOptions, ProbeOptions, Reflection, ServerOptions,
    ServerTlsOptions, TlsVersion,
};
use mixer_spans::TracingOptions;

/// Flags of `server`. Every one can also be set by an environment variable or a configuration file.
#[derive(Debug, Clone, clap::Args)]
pub struct ServerArgs {
    /// File with settings, YAML or TOML; names are those of the flags.
    ///
    /// A flag beats an environment variable, which beats the file, which beats the default.
    #[arg(long, value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// Print all settings and where each comes from, then exit.
    #[arg(long)]
    pub(super) print_config: bool,
    /// Go through the start, say what would be served, then exit.
    ///
    /// Opens the API port, reads the configuration and builds its handlers; writes no probe or pid file and removes no socket. Ends
    /// with status 3 if the server would not start or the configuration has errors.
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    listen: ListenFlags,
    #[command(flatten)]
    tls: TlsFlags,
    #[command(flatten)]
    store: StoreFlags,
    #[command(flatten)]
    limits: LimitFlags,
    #[command(flatten)]
    operations: OperationFlags,
    #[command(flatten)]
    envoy: EnvoyFlags,
    #[command(flatten)]
    introspection: IntrospectionFlags,
    #[command(flatten)]
    shedding: SheddingFlags,
    #[command(flatten)]
    log: LogFlags,
    #[command(flatten)]
    tracing: TracingFlags,
    #[command(flatten)]
    decisions: DecisionFlags,
    /// Where every setting comes from, for --print-config.
    #[arg(skip)]
    pub(super) settings: Vec<Setting>,
}

/// Where the server listens.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Listening")]
struct ListenFlags {
    /// TCP port of the gRPC API on all interfaces; used if --address is empty.
    #[arg(short = 'p', long, default_value = "9091", value_parser = value::port, value_name = "PORT")]
    port: u16,
    /// Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ADDRESS")]
    address: String,
    /// Permissions of the file of a unix socket, octal. Example: 0660.
    #[arg(long, value_parser = value::mode_bits, default_value = "", hide_default_value = true, value_name = "MODE")]
    socket_mode: value::ModeBits,
    /// Whether generic gRPC clients are told which services there are: auto means if only this machine can reach the API.
    #[arg(
        long, value_enum, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "auto", default_missing_value = "on", value_name = "WHEN"
    )]
    grpc_reflection: Reflection,
    /// HTTP port of metrics, version, health and profiles, on all interfaces.
    #[arg(long, alias = "monitoringPort", default_value = "15014", value_parser = value::port, value_name = "PORT")]
    monitoring_port: u16,
    /// HTTP port of the metrics of all prometheus handlers, on all interfaces.
    #[arg(long, default_value = "42422", value_parser = value::port, value_name = "PORT")]
    metrics_port: u16,
}

/// How the API port is secured.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "TLS of the API port")]
struct TlsFlags {
    /// Certificate of the server with its chain, PEM; callers on TCP must then speak TLS.
    ///
    /// Files are read again when they change, and on SIGHUP; connections that exist are left alone.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    tls_cert_file: PathBuf,
    /// Key of that certificate, PEM.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    tls_key_file: PathBuf,
    /// Roots that certificates of callers are checked against, PEM; callers are asked for one then.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    tls_client_ca_file: PathBuf,
    /// Whether callers must show a certificate.
    #[arg(long, value_enum, default_value = "require", value_name = "WHEN")]
    tls_client_auth: ClientAuth,
    /// Oldest version of TLS that is spoken.
    #[arg(long, value_enum, default_value = "1.2", value_name = "VERSION")]
    tls_min_version: TlsVersion,
    /// Callers that are let in, by a URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`.
    ///
    /// Example: spiffe://cluster.local/ns/istio-system/*
    #[arg(long, default_value = "", hide_default_value = true, value_name = "LIST")]
    tls_allowed_peers: String,
}

impl TlsFlags {
    fn options(&self) -> ServerTlsOptions {
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

/// Where configuration comes from.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Configuration")]
struct StoreFlags {
    /// Store of the configuration: fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT or embedded://sample.
    ///
    /// Without it `mixer server` runs on its embedded sample configuration. Example: fs:///etc/mixer
    #[arg(long, alias = "configStoreURL", default_value = "", hide_default_value = true, value_name = "URL")]
    config_store_url: String,
    /// Namespace of mesh-wide rules.
    #[arg(long, alias = "configDefaultNamespace", default_value = "istio-system", value_name = "NAMESPACE")]
    config_default_namespace: String,
    /// How long to wait for the first configuration of a remote store.
    #[arg(
        long, alias = "configWaitTimeout", default_value = "2m0s", value_parser = value::duration,
        value_name = "DURATION"
    )]
    config_wait_timeout: SignedDuration,
    /// What becomes of the configuration when its directory disappears: keep or drop.
    #[arg(long, default_value = "keep", value_parser = ["keep", "drop"], value_name = "POLICY")]
    config_loss: String,
    /// Certificate for mcps:// stores.
    #[arg(long, alias = "certFile", value_parser = value::path, default_value = "/etc/certs/cert-chain.pem", value_name = "FILE")]
    cert_file: PathBuf,
    /// Key of that certificate.
    #[arg(long, alias = "keyFile", value_parser = value::path, default_value = "/etc/certs/key.pem", value_name = "FILE")]
    key_file: PathBuf,
    /// Roots that mcps:// stores are checked against.
    #[arg(long, alias = "caCertFile", value_parser = value::path, default_value = "/etc/certs/root-cert.pem", value_name = "FILE")]
    ca_cert_file: PathBuf,
    /// Whether kinds that are named like adapters are read.
    #[arg(
        long = "use-adapter-crds", alias = "useAdapterCRDs", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", value_parser = value::boolean,
        hide_possible_values = true, value_name = "BOOL"
    )]
    use_adapter_crds: bool,
    /// Whether kinds that are named like templates are read.
    #[arg(
        long = "use-template-crds", alias = "useTemplateCRDs", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", value_parser = value::boolean,
        hide_possible_values = true, value_name = "BOOL"
    )]
    use_template_crds: bool,
}

/// How much the server takes on.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitFlags {
    /// Worker threads, each with its own event loop and connections; 0 means one a core.
    #[arg(long, default_value = "0", value_parser = value::uint32, value_name = "THREADS")]
    concurrency: u32,
    /// Run everything on one thread.
    #[arg(
        long, alias = "singleThreaded", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL"
    )]
    single_threaded: bool,
    /// Largest gRPC message in bytes; units are understood. Example: 4MiB.
    #[arg(long, alias = "maxMessageSize", default_value = "1048576", value_parser = value::size, value_name = "BYTES")]
    max_message_size: u64,
    /// Most calls in flight on one connection.
    #[arg(
        long, alias = "maxConcurrentStreams", default_value = "1024", value_parser = value::uint, value_name = "CALLS"
    )]
    max_concurrent_streams: u64,
    /// Age at which callers are asked to make a new connection, so that they spread over the servers there are; 0s means never.
    /// Example: 30m.
    #[arg(long, default_value = "0s", value_parser = value::duration, value_name = "DURATION")]
    max_connection_age: SignedDuration,
    /// Most API calls in flight that wait for something.
    #[arg(long, alias = "apiWorkerPoolSize", default_value = "1024", value_parser = value::int, value_name = "CALLS")]
    api_worker_pool_size: i64,
    /// Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed.
    #[arg(long, default_value = "0", value_parser = value::uint32, value_name = "CALLS")]
    api_worker_pool_floor: u32,
    /// Most API calls that wait for their turn; beyond that they are refused.
    #[arg(long, default_value = "1024", value_parser = value::uint32, value_name = "CALLS")]
    api_queue_length: u32,
    /// Most calls in flight of one handler that waits for the network.
    #[arg(
        long, alias = "adapterWorkerPoolSize", default_value = "1024", value_parser = value::int, value_name = "CALLS"
    )]
    adapter_worker_pool_size: i64,
    /// Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed.
    #[arg(long, default_value = "0", value_parser = value::uint32, value_name = "CALLS")]
    adapter_worker_pool_floor: u32,
    /// Most calls that wait for their turn with one handler; beyond that they fail.
    #[arg(long, default_value = "1024", value_parser = value::uint32, value_name = "CALLS")]
    adapter_queue_length: u32,
    /// Turns the check cache on and bounds its entries; 0 turns it off.
    ///
    /// Without this flag there is no check cache, whatever the default says. Example: 1500000
    #[arg(long, alias = "numCheckCacheEntries", value_parser = value::int32, value_name = "ENTRIES")]
    num_check_cache_entries: Option<i32>,
}

/// How the server is watched and stopped.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Operations")]
struct OperationFlags {
    /// File that is kept fresh while the server is alive.
    #[arg(
        long,
        alias = "livenessProbePath",
        value_parser = value::path, default_value = "",
        hide_default_value = true,
        value_name = "PATH"
    )]
    liveness_probe_path: PathBuf,
    /// How old that file may get; it is refreshed twice as often. Example: 2s.
    #[arg(
        long, alias = "livenessProbeInterval", default_value = "0s", value_parser = value::duration,
        value_name = "DURATION"
    )]
    liveness_probe_interval: SignedDuration,
    /// File that is kept fresh while the server is ready.
    #[arg(
        long,
        alias = "readinessProbePath",
        value_parser = value::path, default_value = "",
        hide_default_value = true,
        value_name = "PATH"
    )]
    readiness_probe_path: PathBuf,
    /// How old that file may get; it is refreshed twice as often. Example: 2s.
    #[arg(
        long, alias = "readinessProbeInterval", default_value = "0s", value_parser = value::duration,
        value_name = "DURATION"
    )]
    readiness_probe_interval: SignedDuration,
    /// File that holds the number of the process while it runs. Example: /run/mixer.pid.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "PATH")]
    pid_file: PathBuf,
    /// Pause between "not ready" and the end of accepting calls, at shutdown.
    #[arg(long, default_value = "0s", value_parser = value::duration, value_name = "DURATION")]
    drain_delay: SignedDuration,
    /// Limit of the whole shutdown; what is left then is cut off.
    #[arg(long, default_value = "30s", value_parser = value::duration, value_name = "DURATION")]
    shutdown_timeout: SignedDuration,
}

/// The services that Envoy calls.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Envoy")]
struct EnvoyFlags {
    /// Whether Envoy is answered on the port of the API: authorization, access logs and rate limits.
    #[arg(
        long, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true",
        value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL"
    )]
    envoy_bridge: bool,
    /// Address of authorization over HTTP, and of rate limits as JSON. Example: 127.0.0.1:9191.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ADDRESS")]
    envoy_http_address: String,
}

/// What happens under overload.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Load shedding")]
struct SheddingFlags {
    /// What happens to calls over the limits: disabled, logonly or enforce.
    #[arg(
        long = "load-shedding-mode", alias = "loadsheddingMode", default_value = "disabled",
        value_parser = value::mode, value_name = "MODE"
    )]
    load_shedding_mode: LoadSheddingMode,
    /// Highest mean latency; 0s means no such limit.
    #[arg(
        long, alias = "averageLatencyThreshold", default_value = "0s", value_parser = value::duration,
        value_name = "DURATION"
    )]
    average_latency_threshold: SignedDuration,
    /// Most latencies measured per second.
    #[arg(
        long, alias = "latencySamplesPerSecond", default_value = "1.7976931348623157e+308",
        value_parser = value::per_second, hide_default_value = true, value_name = "RATE"
    )]
    latency_samples_per_second: PerSecond,
    /// After how long a measured latency counts half.
    #[arg(
        long = "latency-sample-half-life", alias = "latencySampleHalflife", default_value = "1s",
        value_parser = value::duration, value_name = "DURATION"
    )]
    latency_sample_half_life: SignedDuration,
    /// Most calls per second; a Report counts its attribute sets; 0 means no such limit.
    #[arg(
        long, alias = "maxRequestsPerSecond", default_value = "0", value_parser = value::per_second,
        value_name = "RATE"
    )]
    max_requests_per_second: PerSecond,
    /// Calls let through beyond that rate.
    #[arg(long, alias = "burstSize", default_value = "0", value_parser = value::int, value_name = "CALLS")]
    burst_size: i64,
    /// Share of the limits above that is kept for checks: reports are refused that much earlier. From 0 to 1.
    #[arg(long, default_value = "0", value_parser = value::share, value_name = "SHARE")]
    load_shedding_check_reserve: f64,
    /// Make callers share what there is: those who use more than the mean are refused first.
    #[arg(
        long, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL"
    )]
    load_shedding_fair: bool,
}

/// Flags of the log.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogFlags {
    /// Where log records go: a file, stdout or stderr; repeat for several.
    #[arg(long = "log-target", alias = "log_target", default_value = "stdout", action = clap::ArgAction::Append, value_name = "TARGET")]
    log_target: Vec<String>,
    /// An additional file, rotated.
    #[arg(
        long = "log-rotate",
        alias = "log_rotate",
        value_parser = value::path, default_value = "",
        hide_default_value = true,
        value_name = "PATH"
    )]
    log_rotate: PathBuf,
    /// Size of that file before it is rotated, in MiB.
    #[arg(
        long = "log-rotate-max-size", alias = "log_rotate_max_size", default_value = "100", value_parser = value::int,
        value_name = "MIB"
    )]
    log_rotate_max_size: i64,
    /// Days that rotated files are kept; 0 means for ever.
    #[arg(
        long = "log-rotate-max-age", alias = "log_rotate_max_age", default_value = "30", value_parser = value::int,
        value_name = "DAYS"
    )]
    log_rotate_max_age: i64,
    /// Rotated files that are kept; 0 means all.
    #[arg(
        long = "log-rotate-max-backups", alias = "log_rotate_max_backups", default_value = "1000",
        value_parser = value::int, value_name = "FILES"
    )]
    log_rotate_max_backups: i64,
    /// Write log records as JSON objects.
    #[arg(
        long = "log-as-json", alias = "log_as_json", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", value_parser = value::boolean,
        hide_possible_values = true, value_name = "BOOL"
    )]
    log_as_json: bool,
    /// What is logged: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug.
    ///
    /// Scopes: adapters, all, api, attributes, default, grpcAdapter, kube-converter, loadshedding, mcp, meshconfig.
    #[arg(
        long = "log-output-level",
        alias = "log_output_level",
        default_value = "default:info",
        value_name = "LEVELS"
    )]
    log_output_level: String,
    /// From which level on records carry a stack: `[scope:]level,…`.
    #[arg(
        long = "log-stacktrace-level",
        alias = "log_stacktrace_level",
        default_value = "default:none",
        value_name = "LEVELS"
    )]
    log_stacktrace_level: String,
    /// Scopes whose records name their place in the source.
    #[arg(
        long = "log-caller",
        alias = "log_caller",
        default_value = "",
        hide_default_value = true,
        value_name = "SCOPES"
    )]
    log_caller: String,
}

/// Flags of tracing.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Tracing")]
pub(crate) struct TracingFlags {
    /// URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans.
    #[arg(
        long = "trace-zipkin-url",
        alias = "trace_zipkin_url",
        default_value = "",
        hide_default_value = true,
        value_name = "URL"
    )]
    trace_zipkin_url: String,
    /// URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift.
    #[arg(
        long = "trace-jaeger-url",
        alias = "trace_jaeger_url",
        default_value = "",
        hide_default_value = true,
        value_name = "URL"
    )]
    trace_jaeger_url: String,
    /// URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces.
    #[arg(
        long = "trace-otlp-url",
        alias = "trace_otlp_url",
        default_value = "",
        hide_default_value = true,
        value_name = "URL"
    )]
    trace_otlp_url: String,
    /// Write a log record for every span.
    #[arg(
        long = "trace-log-spans", alias = "trace_log_spans", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", value_parser = value::boolean,
        hide_possible_values = true, value_name = "BOOL"
    )]
    trace_log_spans: bool,
    /// Share of new traces that are kept, from 0 to 1.
    #[arg(
        long = "trace-sampling-rate", alias = "trace_sampling_rate", default_value = "0", value_parser = value::float,
        value_name = "RATE"
    )]
    trace_sampling_rate: f64,
}

impl TracingFlags {
    /// The settings.
    pub(crate) fn options(&self) -> TracingOptions {
        TracingOptions {
            zipkin_url: self.trace_zipkin_url.clone(),
            jaeger_url: self.trace_jaeger_url.clone(),
            otlp_url: self.trace_otlp_url.clone(),
            log_spans: self.trace_log_spans,
            sampling_rate: self.trace_sampling_rate,
        }
    }
}

impl LogFlags {
    fn options(&self) -> LogOptions {
        LogOptions {
            targets: self.log_target.clone(),
            rotate: self.log_rotate.clone(),
            rotate_max_size: self.log_rotate_max_size,
            rotate_max_age: self.log_rotate_max_age,
            rotate_max_backups: self.log_rotate_max_backups,
            as_json: self.log_as_json,
            output_level: self.log_output_level.clone(),
            stack_trace_level: self.log_stacktrace_level.clone(),
            caller: self.log_caller.clone(),
        }
    }
}

impl SheddingFlags {
    fn options(&self) -> LoadSheddingOptions {
        LoadSheddingOptions {
            mode: self.load_shedding_mode,
            average_latency_threshold: self.average_latency_threshold,
            samples_per_second: self.latency_samples_per_second.0,
            sample_half_life: self.latency_sample_half_life,
            max_requests_per_second: self.max_requests_per_second.0,
            burst_size: self.burst_size,
            check_reserve: self.load_shedding_check_reserve,
            fair: self.load_shedding_fair,
        }
    }
}

impl ServerArgs {
    /// Notes where every setting comes from.
    pub(crate) fn note_origins(&mut self, root: &clap::Command, matches: &clap::ArgMatches, merged: &Merged) {
        if self.print_config
            && let Some(matches) = matches.subcommand_matches("server")
        {
            self.settings = config_file::settings(root, matches, merged);
        }
    }

    /// The store as given, maybe empty.
    pub(super) fn config_store_url(&self) -> &str {
        &self.store.config_store_url
    }

    /// The settings; an empty store URL still means the default of the personality.
    pub(crate) fn options(&self) -> ServerOptions {
        let Self { listen, store, limits, operations, envoy, .. } = self;
        let defaults = ServerOptions::default();
        let probe = |path: &PathBuf, interval| ProbeOptions { path: path.clone(), interval };
        ServerOptions {
            port: listen.port,
            address: listen.address.clone(),
            tls: self.tls.options(),
            socket_mode: listen.socket_mode.0,
            monitoring_port: listen.monitoring_port,
            metrics_port: listen.metrics_port,
            max_message_size: limits.max_message_size,
            max_concurrent_streams: limits.max_concurrent_streams,
            max_connection_age: limits.max_connection_age,
            api_worker_pool_size: limits.api_worker_pool_size,
            adapter_worker_pool_size: limits.adapter_worker_pool_size,
            api_worker_pool_floor: limits.api_worker_pool_floor,
            api_queue_length: limits.api_queue_length,
            adapter_worker_pool_floor: limits.adapter_worker_pool_floor,
            adapter_queue_length: limits.adapter_queue_length,
            single_threaded: limits.single_threaded,
            concurrency: limits.concurrency,
            num_check_cache_entries: limits
                .num_check_cache_entries
                .unwrap_or(defaults.num_check_cache_entries),
            check_cache_requested: limits.num_check_cache_entries.is_some(),
            config_store_url: store.config_store_url.clone(),
            config_default_namespace: store.config_default_namespace.clone(),
            config_wait_timeout: store.config_wait_timeout,
            drop_lost_configuration: store.config_loss == "drop",
            cert_file: store.cert_file.clone(),
            key_file: store.key_file.clone(),
            ca_cert_file: store.ca_cert_file.clone(),
            use_adapter_crds: store.use_adapter_crds,
            use_template_crds: store.use_template_crds,
            profile: self.introspection.profile,
            legacy_metrics: self.introspection.legacy_metrics,
            heap_profile_rate: self.introspection.heap_profile_rate,
            health_endpoints: defaults.health_endpoints,
            reflection: listen.grpc_reflection,
            liveness_probe: probe(&operations.liveness_probe_path, operations.liveness_probe_interval),
            readiness_probe: probe(&operations.readiness_probe_path, operations.readiness_probe_interval),
            log: self.log.options(),
            tracing: self.tracing.options(),
            decisions: self.decisions.options(),
            introspection: self.introspection.options(),
            load_shedding: self.shedding.options(),
            pid_file: operations.pid_file.clone(),
            envoy_bridge: envoy.envoy_bridge,
            envoy_http_address: envoy.envoy_http_address.clone(),
            drain_delay: operations.drain_delay,
            shutdown_timeout: operations.shutdown_timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        args: ServerArgs,
    }

    #[test]
    fn without_flags_the_settings_are_the_defaults() {
        let mut options = Alone::try_parse_from(["server"]).unwrap().args.options();
        assert_eq!(options.config_store_url, "");
        options.config_store_url = ServerOptions::default().config_store_url;
        assert_eq!(options, ServerOptions::default());
    }

    #[test]
    fn asking_for_the_cache_size_turns_the_cache_on() {
        let options = Alone::try_parse_from(["server", "--numCheckCacheEntries=7"]).unwrap().args.options();
        assert_eq!(options.check_cache_entries(), Some(7));
    }

    #[test]
    fn log_targets_replace_the_default_then_add_up() {
        let args = ["server", "--log_target=a,b", "--log_target=stderr"];
        let options = Alone::try_parse_from(args).unwrap().args.options();
        assert_eq!(options.log.targets, ["a,b", "stderr"]);
    }
}
