//! The arguments of `server`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::config_file::{self, MergedArgs, Setting};
use super::environment;
use super::flags::{
    DecisionFlags, EnvoyFlags, IntrospectionFlags, LimitFlags, ListenFlags, OperationFlags, SheddingFlags,
    StoreFlags, TlsFlags,
};
use crate::cmd::flags::{LogFlags, TracingFlags};
use crate::cmd::shown::Shown;
use crate::cmd::verbosity::Verbosity;
use mixer_engine::runtime::OnConfigError;
use mixer_server::{ProbeOptions, ServerOptions};

/// Parses a command line, program name first, into the settings of `server`; `None` if it names another command.
pub(crate) type ParseOptions = fn(Vec<OsString>) -> Result<Option<ServerOptions>, Shown>;

/// Flags of `server`. Every one can also be set by an environment variable or a configuration file.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServerArgs {
    /// Settings file, YAML or TOML; keys are flag names.
    ///
    /// Precedence: flag, environment variable, file, default.
    #[arg(long, value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// Print all settings with their origin, then exit.
    #[arg(long)]
    pub(super) print_config: bool,
    /// Run the start-up sequence, print what would be served, then exit.
    ///
    /// Opens the API port, reads the configuration and builds its handlers; writes no probe or PID file and removes no socket. Exits
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
    /// Settings with their origin, for --print-config.
    #[arg(skip)]
    pub(super) settings: Vec<Setting>,
    /// Whether the embedded sample serves because no store is given.
    #[arg(skip)]
    sample_by_default: bool,
    /// What the environment probably meant to set.
    #[arg(skip)]
    suspicions: Vec<String>,
    /// Variables that begin like settings and set nothing.
    #[arg(skip)]
    unread_variables: Vec<String>,
    /// What --verbose and --quiet say.
    #[arg(skip)]
    pub(super) verbosity: Verbosity,
}

/// The identifier of --config-store-url.
pub(crate) const STORE_URL: &str = "config_store_url";
/// The identifier of --config-default-namespace.
pub(crate) const DEFAULT_NAMESPACE: &str = "config_default_namespace";

impl ServerArgs {
    /// Applies --verbose and --quiet.
    pub(crate) fn apply(&mut self, verbosity: Verbosity) {
        self.log.apply(verbosity);
        self.verbosity = verbosity;
    }

    /// Records the origin of every setting, for --print-config.
    pub(crate) fn note_origins(
        &mut self,
        root: &clap::Command,
        matches: &clap::ArgMatches,
        merged: &MergedArgs,
    ) {
        if self.print_config
            && let Some(matches) = matches.subcommand_matches("server")
        {
            self.settings = config_file::settings(root, matches, merged);
            if self.verbosity != Verbosity::Normal {
                config_file::replace_default(&mut self.settings, "log-output-level", self.log.output_level());
            }
        }
    }

    /// Records what `mixer server` was not told: the store, and settings in variables whose names are misspelt.
    pub(crate) fn note_omissions(&mut self, root: &clap::Command, matches: &clap::ArgMatches) {
        let given = matches.subcommand_matches("server").and_then(|server| server.value_source(STORE_URL));
        self.sample_by_default = given == Some(clap::parser::ValueSource::DefaultValue);
        self.suspicions = environment::suspicions(root, std::env::vars_os());
        self.unread_variables = environment::unread(root, std::env::vars_os());
    }

    /// The value of --config-store-url; may be empty.
    pub(super) fn config_store_url(&self) -> &str {
        &self.store.config_store_url
    }

    /// Whether --config-on-error is given; its default depends on the personality.
    pub(super) fn says_config_on_error(&self) -> bool {
        self.store.config_on_error.is_some()
    }

    /// The settings. The store URL is empty if the flag is: its default depends on the personality.
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
            monitoring_address: listen.monitoring_address.clone(),
            metrics_port: listen.metrics_port,
            metrics_address: listen.metrics_address.clone(),
            max_message_size: limits.max_message_size,
            memory_limit: limits.memory_limit,
            max_concurrent_streams: limits.max_concurrent_streams,
            max_check_quotas: limits.max_check_quotas,
            max_report_records: limits.max_report_records,
            receive_timeout: limits.receive_timeout,
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
            sample_by_default: self.sample_by_default,
            suspicions: self.suspicions.clone(),
            unread_variables: self.unread_variables.clone(),
            config_default_namespace: store.config_default_namespace.clone(),
            config_wait_timeout: store.config_wait_timeout,
            drop_lost_configuration: store.config_loss == "drop",
            config_on_error: (store.config_on_error.as_deref())
                .and_then(OnConfigError::from_name)
                .unwrap_or(defaults.config_on_error),
            allow_empty_config: store.empty.allow_empty_config,
            problems_as_istio_mixer: defaults.problems_as_istio_mixer,
            standard_attributes: defaults.standard_attributes,
            config_cache: store.config_cache.clone(),
            config_write_status: store.config_write_status,
            mcp_max_message_size: store.mcp_max_message_size,
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
            envoy_ratelimit_http_address: envoy.envoy_ratelimit_http_address.clone(),
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
    struct ServerCommand {
        #[command(flatten)]
        args: ServerArgs,
    }

    #[test]
    fn default_flags_give_default_options() {
        let mut options = ServerCommand::try_parse_from(["server"]).unwrap().args.options();
        assert_eq!(options.config_store_url, "");
        options.config_store_url = ServerOptions::default().config_store_url;
        assert_eq!(options, ServerOptions::default());
    }

    #[test]
    fn setting_the_cache_size_enables_the_cache() {
        let options =
            ServerCommand::try_parse_from(["server", "--numCheckCacheEntries=7"]).unwrap().args.options();
        assert_eq!(options.check_cache_entries(), Some(7));
    }

    #[test]
    fn log_targets_replace_the_default_and_accumulate() {
        let args = ["server", "--log_target=a,b", "--log_target=stderr"];
        let options = ServerCommand::try_parse_from(args).unwrap().args.options();
        assert_eq!(options.log.targets, ["a,b", "stderr"]);
    }
}
