//! `galley server`: starts the configuration plane from flags and a configuration file.

use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::effects;
use super::flags::{
    KEEP_LAST, OldFlags, OperationFlags, RegistryFlags, ServingFlags, SourceFlags, ValidationFlags,
};
use crate::cmd::exit::{Exit, Failure, Outcome, Stop};
use crate::cmd::flags::{GivenFlags, LogFlags};
use crate::cmd::io::Io;
use crate::cmd::personality::Personality;
use crate::cmd::server::StopSignal;
use crate::cmd::value;
use crate::cmd::verbosity::Verbosity;
use mixer_base::task::{self, Group, log_panics};
use mixer_engine::snapshot::SnapshotOptions;
use mixer_galley::options::Debounce;
use mixer_galley::{Face, Options};
use mixer_galley_server::admission::{Depth, ValidationOptions};
use mixer_galley_server::host::Request;
use mixer_galley_server::{Host, HostOptions, ProbeFile, ServingOptions, StartError};
use mixer_introspect::IntrospectionOptions;
use mixer_mcp::Rate;

/// Time limit for writing the records of the stop itself.
const LAST_RECORDS: Duration = Duration::from_millis(200);

/// Flags of `galley server`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct GalleyServerArgs {
    /// Those that are given. The first field: the others take their values out of the matches.
    #[command(flatten)]
    pub(super) given: GivenFlags,
    /// Configuration file, YAML, JSON or TOML. Precedence: flag, file, default.
    #[arg(short = 'c', long = "config", value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    config: PathBuf,
    #[command(flatten)]
    pub(super) source: SourceFlags,
    #[command(flatten)]
    pub(super) registries: RegistryFlags,
    #[command(flatten)]
    pub(super) serving: ServingFlags,
    #[command(flatten)]
    pub(super) validation: ValidationFlags,
    #[command(flatten)]
    pub(super) operations: OperationFlags,
    #[command(flatten)]
    log: LogFlags,
    #[command(flatten)]
    old: OldFlags,
}

impl GalleyServerArgs {
    /// Applies --verbose and --quiet to the log.
    pub(super) fn apply(&mut self, verbosity: Verbosity) {
        self.log.apply(verbosity);
    }

    /// The settings.
    pub(super) fn options(&self, personality: Personality) -> HostOptions {
        let Self { source, serving, operations, old, .. } = self;
        let face = if source.use_old_processor { Face::First } else { Face::Second };
        let pace = source.istio_pace || personality.is_legacy();
        let probe = |path: &PathBuf, interval: &mixer_attribute::SignedDuration| ProbeFile {
            path: path.clone(),
            interval: interval.to_std_or_zero(),
        };
        let hosts = operations.ctrlz_allowed_hosts.split(',').map(|name| name.trim().to_ascii_lowercase());
        HostOptions {
            serves: serving.enable_server,
            processing: Options {
                face,
                excluded_kinds: source.excluded_resource_kinds.clone(),
                service_discovery: source.enable_service_discovery,
                domain: source.domain.clone(),
                // compat(1.3): a change is visible after the pause of the processor; pinned by the cases that reload.
                debounce: if pace { Debounce::of_istio(face) } else { Debounce::FAST },
                // compat(1.3): what cannot be read is gone; pinned by the cases reload-*.
                keeps_last: source
                    .config_on_error
                    .as_deref()
                    .map_or(!personality.is_legacy(), |policy| policy == KEEP_LAST),
                allows_empty: source.allow_empty_config,
                ..Options::default()
            },
            config_path: source.config_path.clone(),
            config_cache: source.config_cache.clone(),
            analyses: source.enable_analysis,
            watches_files: source.watch_config_files,
            mesh_file: source.mesh_config_file.clone(),
            zookeeper: self.registries.zookeeper(),
            eureka: self.registries.eureka(),
            kubeconfig: old.kube_config.clone().unwrap_or_else(|| source.kubeconfig.clone()),
            resync: source.resync_period.to_std_or_zero(),
            skips_ready_check: source.disable_resource_ready_check,
            serving: self.serving_options(personality),
            validation: self.validation_options(personality),
            introspection: IntrospectionOptions {
                port: operations.ctrlz_port,
                address: operations.ctrlz_address.clone(),
                read_only: operations.ctrlz_readonly,
                token_file: operations.ctrlz_token_file.clone(),
                allowed_hosts: hosts.filter(|name| !name.is_empty()).collect(),
                // compat(1.3): the PUT of a scope passes over what is no level; pinned by cli/ctrlz.yaml.
                scopes_as_istio: personality.is_legacy(),
            },
            monitoring_port: operations.monitoring_port,
            monitoring_address: operations.monitoring_address.clone(),
            pprof_port: operations.enable_profiling.then_some(operations.pprof_port),
            // compat(1.3): Galley serves them to whoever reaches the port.
            serves_profiles_to_all: personality.is_legacy(),
            liveness: probe(&operations.liveness_probe_path, &operations.liveness_probe_interval),
            readiness: probe(&operations.readiness_probe_path, &operations.readiness_probe_interval),
            log: {
                let mut log = self.log.options();
                log.output_level = known_scopes(&log.output_level);
                log.stack_trace_level = known_scopes(&log.stack_trace_level);
                log.caller = known_scopes(&log.caller);
                log
            },
            metric_per_resource: operations.metric_per_resource,
            ..HostOptions::default()
        }
    }

    fn serving_options(&self, personality: Personality) -> ServingOptions {
        let Self { serving, old, .. } = self;
        let size = old.max_received_message_size.unwrap_or(serving.server_max_received_message_size);
        let streams = old.max_concurrent_streams.unwrap_or(serving.server_max_concurrent_streams);
        ServingOptions {
            address: old.address.clone().unwrap_or_else(|| serving.server_address.clone()),
            max_message: usize::try_from(size).unwrap_or(usize::MAX),
            max_streams: u32::try_from(streams).unwrap_or(u32::MAX),
            max_memory: usize::try_from(serving.memory_limit).unwrap_or(usize::MAX),
            is_insecure: serving.insecure,
            cert_file: serving.tls_cert_file.clone(),
            key_file: serving.tls_key_file.clone(),
            ca_file: serving.ca_cert_file.clone(),
            access_list: serving.access_list_file.clone(),
            // compat(1.3): a list that does not exist denies nobody.
            needs_access_list: !personality.is_legacy(),
            // compat(1.3): Galley sends the whole state always; pinned by proto-incremental-not-granted.
            incremental: serving.incremental.unwrap_or(!personality.is_legacy()),
            serves_legacy: serving.legacy_mcp,
            sinks: serving.sink_address.iter().filter(|address| !address.is_empty()).cloned().collect(),
            sink_auth: serving.sink_auth_mode.clone(),
            sink_meta: serving.sink_meta.iter().filter(|pair| !pair.is_empty()).cloned().collect(),
            stream_rate: rate("SOURCE_SERVER_STREAM", streams_of(personality)),
            request_rate: rate("MCP_SOURCE_REQ", OF_GALLEY),
        }
    }

    fn validation_options(&self, personality: Personality) -> ValidationOptions {
        let Self { validation, serving, old, .. } = self;
        let or = |own: &PathBuf, other: &PathBuf| match own.as_os_str().is_empty() {
            true => other.clone(),
            false => own.clone(),
        };
        ValidationOptions {
            is_enabled: validation.enable_validation,
            port: u32::try_from(validation.validation_port).unwrap_or(u32::MAX),
            cert_file: or(&old.validation_certificate, &serving.tls_cert_file),
            key_file: or(&old.validation_key, &serving.tls_key_file),
            ca_file: or(&old.validation_ca, &serving.ca_cert_file),
            webhook_config_file: validation.validation_webhook_config_file.clone(),
            webhook_name: validation.webhook_name.clone(),
            deployment_namespace: validation.deployment_namespace.clone(),
            deployment_name: validation.deployment_name.clone(),
            service_name: validation.service_name.clone(),
            reconciles: validation.enable_reconcile_webhook_configuration,
            requires_config_file: personality.is_legacy(),
            depth: if validation.validation_depth == "deep" { Depth::Deep } else { Depth::Structural },
        }
    }
}

/// The rates of streams and of requests of Istio Galley.
const OF_GALLEY: Rate = Rate { every: Duration::from_secs(1), burst: 100 };

/// How fast streams may begin. With the rate of Istio Galley, a thousand sinks that come back need 15 minutes.
fn streams_of(personality: Personality) -> Rate {
    match personality.is_legacy() {
        true => OF_GALLEY,
        false => Rate { every: Duration::from_millis(1), burst: 1_000 },
    }
}

/// A rate from the environment, as Galley reads it: `NAME_FREQ` and `NAME_BURST_SIZE`.
fn rate(name: &str, default: Rate) -> Rate {
    let read = |suffix: &str| std::env::var(format!("{name}_{suffix}")).ok();
    let every = read("FREQ").and_then(|text| mixer_attribute::SignedDuration::parse(&text).ok());
    let burst = read("BURST_SIZE").and_then(|text| text.parse().ok());
    Rate {
        every: every.map_or(default.every, |every| every.to_std_or_zero()),
        burst: burst.unwrap_or(default.burst),
    }
}

/// compat(1.3): scopes of Galley that have no records here are accepted; theirs are those of `default`.
fn known_scopes(list: &str) -> String {
    const OF_GALLEY: [&str; 9] =
        ["conversions", "kube", "model", "processing", "rbac", "resource", "runtime", "server", "source"];
    let is_ours = |element: &&str| {
        let scope = element.split(':').next().unwrap_or_default();
        let names_scope = element.contains(':') || !element.is_empty();
        !(names_scope && (OF_GALLEY.contains(&scope) || scope == "validation"))
    };
    list.split(',').filter(is_ours).collect::<Vec<_>>().join(",")
}

/// Starts the configuration plane and returns when it has stopped.
pub(crate) fn run(args: &GalleyServerArgs, personality: Personality, io: &mut Io) -> Outcome {
    let mut options = args.options(personality);
    if !personality.is_legacy() {
        options.suspicions = effects::lost(args)?;
    }
    run_with(&options, personality, io)
}

/// As [`run`], of settings.
pub(super) fn run_with(options: &HostOptions, personality: Personality, _: &mut Io) -> Outcome {
    let policy = SnapshotOptions {
        standard_attributes: !personality.is_legacy(),
        ..SnapshotOptions::new(mixer_server::REGISTRY)
    };
    let (mut signals, mut exit) = (None, Exit::Success);
    let interrupted = async {
        let signals = signals.insert(Signals::listen()?);
        let signal = signals.stop().await;
        exit = signal.exit();
        Ok::<_, std::io::Error>(signal.name().to_owned())
    };
    let host = match Host::start(options, policy, interrupted) {
        Ok(host) => host,
        Err(StartError::Interrupted(_)) => return Ok(exit),
        Err(error) => return Err(start_failure(&error)),
    };
    let Some(signals) = signals else { return Ok(Exit::Internal) };
    log_panics();
    let bound = host.bound();
    let shown = |address: Option<std::net::SocketAddr>| address.map(|a| a.to_string()).unwrap_or_default();
    tracing::info!(
        sinks = shown(bound.sinks),
        webhook = shown(bound.webhook),
        monitoring = shown(bound.monitoring),
        "galley is running"
    );
    Ok(serve(host, signals))
}

fn start_failure(error: &StartError) -> Stop {
    let (what, legacy) = match error {
        StartError::Settings(text) => ("the settings contradict each other", text.clone()),
        other => ("unable to start galley", format!("Error creating server: {other}")),
    };
    let cause = error.to_string();
    let mut failure = Failure::local(what).fatal(legacy);
    failure.hint = HINTS.iter().find(|(part, _)| cause.contains(part)).map(|(_, hint)| (*hint).to_owned());
    failure.cause(cause.trim_end()).into()
}

/// Hints for start failures, by a part of the reason.
const HINTS: &[(&str, &str)] = &[
    (
        "webhookConfigFile",
        "name one with --validation-webhook-config-file, or set --enable-reconcile-webhook-configuration=false",
    ),
    ("unknown network", "an address to listen at is tcp://HOST:PORT or unix:///PATH"),
    (
        "failed to lookup address information",
        "an address to listen at is HOST:PORT, without http:// and without a path; HOST is a name or address of this machine",
    ),
    (
        "address already in use",
        "another process uses the port: `ss -ltnp` shows processes; choose another one",
    ),
    (
        "permission denied",
        "ports below 1024 need a permission: choose another one, for example --validation-port 9443",
    ),
    (
        "cannot read the certificates",
        "name the files with --tls-cert-file, --tls-key-file and --ca-cert-file; --insecure serves sinks without TLS",
    ),
    ("cannot read the key", "name the file with --tls-key-file; --insecure serves sinks without TLS"),
    (
        "no configuration has been provided",
        "outside a cluster, name a directory with --config-path, or a cluster with --kubeconfig",
    ),
    ("runs in no", "outside a cluster, name a directory with --config-path, or a cluster with --kubeconfig"),
    ("CRDs) not found", "create them, or start without them: --disable-resource-ready-check"),
    (
        "cannot ask for the resources",
        "look at --kubeconfig, or start and wait for the API server: --disable-resource-ready-check",
    ),
    ("auth plugin", "modes are NONE, TLS, MUTUAL_TLS and GOOGLE"),
    ("no such file or directory", "create the directory, or name another file"),
];

/// What SIGUSR2 does, which has a server of Mixer log its state.
const NO_DUMP: &str = "SIGUSR2 has no effect on galley: `mixer galley status` and ControlZ show its state";

/// The signals that galley handles, from before its start on: as the first process of a container it has those of no system.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// The next signal that ends the process.
    async fn stop(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
        }
    }
}

/// Serves until a signal or an operator stops it. A second signal exits immediately.
fn serve(mut host: Host, mut signals: Signals) -> Exit {
    let handle = host.background().clone();
    let (reason, failed) = handle.block_on(until_ended(&mut host, &mut signals));
    if failed {
        tracing::error!("stopping on {reason}");
    } else {
        tracing::info!("stopping on {reason}");
    }
    let log = host.log().clone();
    Group::new("second signal").spawn_on(&handle, async move {
        signals.stop().await;
        std::process::exit(i32::from(Exit::Terminated.code()));
    });
    let report = host.stop();
    log.flush(LAST_RECORDS);
    match (report.is_complete(), failed) {
        (_, true) => Exit::Internal,
        (true, false) => Exit::Success,
        (false, false) => Exit::Local,
    }
}

/// Handles signals until the process must stop. Returns the reason, and whether it is a failure of an essential task, of which handling
/// signals is one.
async fn until_ended(host: &mut Host, signals: &mut Signals) -> (String, bool) {
    let parts = tokio::sync::Mutex::new((host, signals));
    let handle = || async {
        let (host, signals) = &mut *parts.lock().await;
        until_stopped(host, signals).await.to_owned()
    };
    task::main_loop(handle).await
}

async fn until_stopped(host: &mut Host, signals: &mut Signals) -> &'static str {
    loop {
        let galley = host.plane().galley.clone();
        let log = host.log().clone();
        let reopen = || {
            if let Err(error) = log.reopen() {
                tracing::error!("reopening the log failed: {error}");
            }
        };
        tokio::select! {
            _ = signals.interrupt.recv() => return "SIGINT",
            _ = signals.terminate.recv() => return "SIGTERM",
            _ = signals.hangup.recv() => reopen(),
            _ = signals.user1.recv() => {
                if let Some(galley) = galley {
                    galley.reload();
                }
            }
            _ = signals.user2.recv() => tracing::info!("{NO_DUMP}"),
            request = host.requested() => match request {
                Request::Stop => return "ControlZ",
                Request::Reload => reopen(),
            },
        }
    }
}

/// Flags of `galley validator` of Galley 1.0.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ValidatorArgs {
    /// Port of the webhook.
    #[arg(long, default_value = "443", value_parser = value::uint, value_name = "PORT")]
    port: u64,
    /// Certificate chain, PEM.
    #[arg(long = "tls-cert-file", alias = "tlsCertFile", value_parser = value::path, default_value = "/etc/istio/certs/cert-chain.pem", value_name = "FILE")]
    tls_cert_file: PathBuf,
    /// Its private key, PEM.
    #[arg(long = "tls-key-file", alias = "tlsKeyFile", value_parser = value::path, default_value = "/etc/istio/certs/key.pem", value_name = "FILE")]
    tls_key_file: PathBuf,
    /// Its root, PEM.
    #[arg(long = "ca-cert-file", alias = "caCertFile", value_parser = value::path, default_value = "/etc/istio/certs/root-cert.pem", value_name = "FILE")]
    ca_cert_file: PathBuf,
    /// The webhook configuration that the cluster is to have, YAML.
    #[arg(long = "webhook-config-file", value_parser = value::path, default_value = "", value_name = "FILE")]
    webhook_config_file: PathBuf,
    /// Probe file.
    #[arg(long = "health-check-file", alias = "healthCheckFile", value_parser = value::path, default_value = "", value_name = "FILE")]
    health_check_file: PathBuf,
    /// Maximum age of the probe file.
    #[arg(long = "health-check-interval", alias = "healthCheckInterval", default_value = "0s", value_parser = value::duration, value_name = "DURATION")]
    health_check_interval: mixer_attribute::SignedDuration,
    /// HTTP port of metrics.
    #[arg(long = "monitoring-port", alias = "monitoringPort", default_value = "9093", value_parser = value::port, value_name = "PORT")]
    monitoring_port: u16,
    /// Namespace of the deployment.
    #[arg(long = "deployment-namespace", default_value = "istio-system", value_name = "NAMESPACE")]
    deployment_namespace: String,
    /// Name of the deployment.
    #[arg(long = "deployment-name", default_value = "istio-galley", value_name = "NAME")]
    deployment_name: String,
    /// Kubeconfig of the cluster.
    #[arg(long, value_parser = value::path, default_value = "", value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Accepted without effect: the validator reads no resources.
    #[arg(long = "resync-period", alias = "resyncPeriod", hide = true, default_value = "0s", value_parser = value::duration, value_name = "DURATION")]
    resync_period: mixer_attribute::SignedDuration,
    #[command(flatten)]
    log: LogFlags,
}

impl ValidatorArgs {
    /// The settings of a process that is a webhook alone.
    pub(super) fn options(&self) -> HostOptions {
        HostOptions {
            serves: false,
            kubeconfig: self.kubeconfig.clone(),
            validation: ValidationOptions {
                is_enabled: true,
                port: u32::try_from(self.port).unwrap_or(u32::MAX),
                cert_file: self.tls_cert_file.clone(),
                key_file: self.tls_key_file.clone(),
                ca_file: self.ca_cert_file.clone(),
                webhook_config_file: self.webhook_config_file.clone(),
                deployment_namespace: self.deployment_namespace.clone(),
                deployment_name: self.deployment_name.clone(),
                reconciles: !self.webhook_config_file.as_os_str().is_empty(),
                ..ValidationOptions::default()
            },
            introspection: IntrospectionOptions { port: 0, ..IntrospectionOptions::default() },
            monitoring_port: self.monitoring_port,
            liveness: ProbeFile {
                path: self.health_check_file.clone(),
                interval: self.health_check_interval.to_std_or_zero(),
            },
            readiness: ProbeFile::default(),
            log: self.log.options(),
            ..HostOptions::default()
        }
    }
}
