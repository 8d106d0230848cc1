//! The start sequence. A failed step rolls back all previous ones.

mod configuration;
mod endpoints;
mod upkeep;
mod workers;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::watch;

use self::configuration::FirstConfiguration;
use super::activation::Endpoint;
use super::controls::{Controls, Parts, Reload};
use super::controlz::shedding;
use super::effects::Effects;
use super::error::StartError;
use super::faults::FaultSender;
use super::health::{CONFIGURATION, Conditions, Health, NOT_PUBLISHED, STUCK, of_configuration};
use super::steps::{Components, StopStep};
use super::{InheritedSockets, ProbeOptions, ServerOptions};
use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::log::Log;
use mixer_base::metrics::{Collect, Collected, Family, Metrics};
use mixer_base::output_file;
use mixer_base::pool::AdapterPools;
use mixer_base::probe::FileProbe;
use mixer_base::rotate::os_text;
use mixer_base::task::TaskCollector;
use mixer_config::store::ConfigStore;
use mixer_delivery::DeliveryCollector;
use mixer_engine::decision::DecisionLog;
use mixer_engine::runtime::Runtime;
use mixer_envoy::EnvoyShared;
use mixer_introspect::outcomes::RecentOutcomes;
use mixer_introspect::pprof;
use mixer_net::address::ListenAddress;
use mixer_net::listener::Listener;
use mixer_net::socket_file::SocketWatch;
use mixer_net::tls::ServerTls;
use mixer_spans::Tracer;

/// Maximum variables of the environment that a record names.
const MAX_NAMED_VARIABLES: usize = 10;
/// Time for requests in flight on an HTTP endpoint when it stops.
const HTTP_GRACE: Duration = Duration::from_secs(2);
/// Time limit for rolling back a failed start.
pub(super) const FAILED_START_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for flushing spans at shutdown.
const TRACER_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for writing the queued log records at shutdown: nobody may read them.
const LOG_LIMIT: Duration = Duration::from_secs(1);
/// Time limit for joining the background threads.
pub(super) const THREADS_LIMIT: Duration = Duration::from_secs(1);

/// The result of a start.
pub(super) struct Serving {
    pub(super) api_address: ListenAddress,
    pub(super) bound: Option<SocketAddr>,
    pub(super) controls: Arc<Controls>,
}

/// The result of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RehearsalReport {
    /// The listen address of the API.
    pub api_address: ListenAddress,
    /// Number of rules, handlers and instances.
    pub configured: [u64; 3],
    /// Number of errors and warnings in the configuration.
    pub problems: [usize; 2],
    /// Number of resources in their previous version, which only a cache has.
    pub kept: usize,
    /// Why no call would be answered, if so.
    pub withheld: Option<String>,
    /// The components that would be degraded, with the reasons.
    pub degraded: Vec<(&'static str, String)>,
    /// What the server would serve without, with the reasons.
    pub lacking: Vec<(&'static str, String)>,
    /// Number of worker threads.
    pub workers: usize,
}

/// Runs steps 1 to 4, then `begin`. If `begin` fails or panics, all its components are stopped.
pub(super) fn run_start<T>(
    options: &ServerOptions,
    effects: &dyn Effects,
    begin: impl AsyncFnOnce(&mut Start<'_>) -> Result<T, StartError>,
) -> Result<(tokio::runtime::Runtime, Components, T), StartError> {
    options.check().map_err(|e| StartError::new(e.0))?;
    let log = effects.configure_log(&options.log).map_err(|e| StartError::new(e.0))?;
    super::REGISTRY.adapters.self_check().map_err(|e| StartError::new(e.to_string()))?;
    mixer_net::tls::install_crypto_provider();
    let background =
        effects.background().map_err(|e| StartError::because("unable to start background threads", e))?;
    let mut start = Start {
        options,
        effects,
        log,
        health: Health::new(
            probe_name(&options.liveness_probe, "liveness"),
            probe_name(&options.readiness_probe, "readiness"),
        ),
        memory: Arc::new(MemoryBudget::new(usize::try_from(options.memory_limit).unwrap_or(usize::MAX))),
        adapter_pools: Arc::default(),
        inherited: InheritedSockets::default(),
        has_envoy_http: false,
        decisions: None,
        envoy: None,
        components: Components::default(),
    };
    let log = start.log.clone();
    start.components.started(StopStep::Log, "log", async move |limit: Duration| {
        let flushed = tokio::task::spawn_blocking(move || log.flush(limit.min(LOG_LIMIT)));
        flushed.await.unwrap_or(false)
    });
    let begun = background.block_on(async {
        tokio::select! {
            begun = AssertUnwindSafe(begin(&mut start)).catch_unwind() => begun,
            why = effects.interrupted() => Ok(Err(StartError::new(why))),
        }
    });
    let error = match begun {
        Ok(Ok(begun)) => return Ok((background, start.components, begun)),
        Ok(Err(error)) => error,
        Err(panic) => StartError::because("panic", mixer_base::task::panic_text(&*panic)),
    };
    tracing::error!("Close server");
    background.block_on(start.components.end(FAILED_START_LIMIT));
    background.shutdown_timeout(THREADS_LIMIT);
    Err(error)
}

fn probe_name(options: &ProbeOptions, default: &str) -> String {
    if options.is_enabled() { FileProbe::name_of(&options.path) } else { default.to_owned() }
}

/// A start in progress.
pub(super) struct Start<'s> {
    options: &'s ServerOptions,
    effects: &'s dyn Effects,
    log: Log,
    health: Health,
    /// Bounds everything that callers can make the server keep.
    memory: Arc<MemoryBudget>,
    /// The pools of all handlers; set with the first configuration.
    adapter_pools: Arc<AdapterPools>,
    /// Sockets from socket activation.
    inherited: InheritedSockets,
    /// Whether there is an HTTP endpoint for Envoy.
    has_envoy_http: bool,
    /// The decision log; set with the workers.
    decisions: Option<Arc<DecisionLog>>,
    /// The services for Envoy; set with the workers.
    envoy: Option<Arc<EnvoyShared>>,
    /// The components started so far.
    components: Components,
}

/// The result of steps 6 to 12.
struct Prepared {
    api_address: ListenAddress,
    listener: Listener,
    tls: Option<Arc<ServerTls>>,
    metrics: Arc<Metrics>,
    tracer: Option<Arc<Tracer>>,
    store: Arc<dyn ConfigStore>,
    /// Where it is told what cannot be used, if that is written onto objects.
    faults: Option<FaultSender>,
    runtime: Arc<Runtime>,
    /// The first configuration, which is awaited.
    first: FirstConfiguration,
}

impl Start<'_> {
    /// Steps 5 to 19.
    pub(super) async fn begin(&mut self) -> Result<Serving, StartError> {
        if self.options.heap_profile_rate > 0 {
            pprof::sample_heap(self.options.heap_profile_rate);
        }
        let alive = self.health.liveness.emitter("server", "uninitialized");
        let stuck = self.health.liveness.emitter("workers", "uninitialized");
        self.keep_probe(StopStep::Probes, "liveness probe", true);
        let prepared = self.prepare().await?;
        let Prepared { api_address, listener, tls, metrics, tracer, store, faults, runtime, mut first } =
            prepared;
        let bound = listener.local_address();
        // compat(1.3): mixs has no port that tells of its health, and opens none before it has a configuration.
        let is_awaited = !self.options.health_endpoints;
        if is_awaited {
            self.await_configuration(&mut first, None).await?;
        }
        let workers = self.start_workers(&runtime, &metrics, tracer, &api_address)?;

        let dispatcher = self.health.readiness.emitter("dispatcher", "runtime is not listening to the store");
        let served = self.health.readiness.emitter(CONFIGURATION, NOT_PUBLISHED);
        let tasks = self.health.readiness.emitter("tasks", "not looked at yet");
        let socket = listener.file().map(|file| {
            let emitter = self.health.readiness.emitter("socket", "not looked at yet");
            (SocketWatch::new(file.clone()), emitter)
        });
        let conditions = Conditions {
            socket,
            recent: Mutex::new(RecentOutcomes::new(&metrics, shedding(self.options))),
            store: Arc::clone(&store),
            faults,
            on_config_error: self.options.config_on_error,
            configuration: (Arc::clone(&runtime), served.clone()),
            log: self.log.clone(),
            decisions: self.decisions.clone(),
            workers: (Arc::clone(&workers), stuck.clone()),
            tasks,
            degradations: self.health.degradations.clone(),
            stuck_after: STUCK,
        };
        self.keep_probe(StopStep::Readiness, "readiness probe", false);
        let (log, health) = (self.log.clone(), self.health.clone());
        let controls = Arc::new(Controls::new(Parts {
            runtime,
            metrics,
            log,
            health,
            store,
            workers: Arc::clone(&workers),
            envoy: self.envoy.clone(),
            reloads: tls.iter().map(|tls| ("certificates", reload_of(tls))).collect(),
        }));
        self.start_monitoring(&controls)?;
        self.start_introspection(&controls);
        if !is_awaited {
            // The process is well: nothing is gained by a restart.
            stuck.set(Ok(()));
            alive.set(Ok(()));
            tokio::select! {
                published = self.await_configuration(&mut first, Some(&served)) => published?,
                why = controls.stop_requested() => {
                    return Err(StartError::new(format!("interrupted by {why}")));
                }
            }
        }
        self.follow_configuration(&first.applied)?;
        dispatcher.set(Ok(()));
        let gone = dispatcher.clone();
        self.components.started(StopStep::Readiness, "readiness", async move |_| {
            gone.withdraw("stopping");
            true
        });
        self.accept(listener, tls, workers);
        alive.set(Ok(()));
        self.follow(conditions);
        self.trim_memory();
        self.survey_spills();
        self.supervise(&controls);
        Ok(Serving { api_address, bound, controls })
    }

    /// Steps 6 to 14 without external effects; reports what would be served.
    pub(super) async fn rehearse(&mut self) -> Result<RehearsalReport, StartError> {
        let mut prepared = self.prepare().await?;
        self.await_configuration(&mut prepared.first, None).await?;
        prepared.first.examine().await;
        let workers =
            self.start_workers(&prepared.runtime, &prepared.metrics, None, &prepared.api_address)?;
        let published = prepared.runtime.load_full();
        let counts = &published.routes.snapshot().counts;
        use mixer_config::Severity;
        Ok(RehearsalReport {
            api_address: prepared.api_address,
            configured: [counts.rule_configs, counts.handler_configs, counts.instance_configs],
            problems: [published.problems(Severity::Error), published.problems(Severity::Warning)],
            kept: published.kept.len(),
            withheld: published.withheld.as_deref().map(str::to_owned),
            degraded: of_configuration(&published, self.options.config_on_error)
                .into_iter()
                .filter_map(|(component, state)| Some((component, state.err()?)))
                .collect(),
            lacking: self.lacking(),
            workers: workers.connections().len(),
        })
    }

    /// What a start would do without. A port of ControlZ that is taken may be that of a running server, which the start would replace.
    fn lacking(&self) -> Vec<(&'static str, String)> {
        let probes = [
            ("liveness probe", &self.options.liveness_probe),
            ("readiness probe", &self.options.readiness_probe),
        ];
        let probes = probes.into_iter().filter(|(_, probe)| probe.is_enabled());
        let mut lacking: Vec<_> = probes
            .filter_map(|(name, probe)| {
                let error = output_file::check_replaceable(&probe.path).err()?;
                Some((name, format!("`{}`: {}", probe.path.display(), os_text(&error))))
            })
            .collect();
        let controlz = self.options.introspection.listen_address();
        if let Some(address) = controlz.filter(|_| self.inherited.introspection.is_none())
            && let Err(error) = self.effects.listen_http(Endpoint::Introspection, &address)
            && !error.is_in_use()
        {
            lacking.push(("ControlZ", error.0));
        }
        lacking
    }

    /// Steps 6 to 12: tracing, the socket, the store, the begin of the first configuration.
    async fn prepare(&mut self) -> Result<Prepared, StartError> {
        let (options, effects) = (self.options, self.effects);
        for suspicion in &options.suspicions {
            tracing::warn!("{suspicion}");
        }
        if !options.unread_variables.is_empty() {
            let names = options.unread_variables.iter().take(MAX_NAMED_VARIABLES);
            let names = names.map(String::as_str).collect::<Vec<_>>().join(", ");
            tracing::info!("environment variables that no setting has: {names}");
        }
        if options.sample_by_default {
            tracing::warn!(
                "no --config-store-url is given: the embedded sample configuration serves, which allows almost every call"
            );
        }
        // compat(1.3): the cause is swallowed; pinned by cli/startup-tracing-exclusive.
        let tracing =
            effects.configure_tracing(&options.tracing, self.memory.share(Purpose::Queues)).map_err(|e| {
                StartError { text: "unable to setup tracing".to_owned(), detail: Some(e.to_string()) }
            })?;
        let tracer = tracing.map(|(tracer, task)| {
            self.components.started(StopStep::Tracing, "tracer", async move |timeout: Duration| {
                task.close(timeout.min(TRACER_LIMIT)).await
            });
            tracer
        });
        self.inherited =
            effects.inherited_sockets().map_err(|e| StartError::because("unable to listen", e))?;
        self.refuse_unserved_sockets()?;
        self.tell_lost_settings();
        let api_address = match &self.inherited.grpc {
            Some(socket) => socket.address(),
            None => options.listen_address().map_err(|e| StartError::because("unable to listen", e))?,
        };
        let tls = self.load_tls(&api_address)?;
        self.write_pid_file()?;
        let listener = self.listen(&api_address)?;
        let metrics =
            effects.metrics().map_err(|e| StartError::because("could not build opencensus exporter", e))?;
        let mut store_options = options.store_options();
        let faults = options.config_write_status.then(|| watch::Sender::new(None));
        store_options.faults = faults.as_ref().map(watch::Sender::subscribe);
        let store = effects
            .open_store(&store_options, &metrics)
            .map_err(|e| StartError::because("unable to connect to the configuration server", e))?;
        metrics.set_build("mixer", env!("CARGO_PKG_VERSION"));
        self.log.count_lost_in(metrics.counter(Family::LogRecordsLost, &[]));
        self.log.count_suppressed_in(metrics.counter(Family::LogRecordsSuppressed, &[]));
        self.components.collects(StopStep::Probes, "counts of tasks", &metrics, TaskCollector::default());
        let deliveries = DeliveryCollector::default();
        self.components.collects(StopStep::Probes, "counts of deliveries", &metrics, deliveries);
        // After the handlers: what those that did not close in time still have is lost.
        self.components.started(StopStep::Probes, "losses of deliveries", async |_| {
            mixer_delivery::tell_losses();
            true
        });
        self.components.collects(
            StopStep::Probes,
            "degradations",
            &metrics,
            self.health.degradations.clone(),
        );
        if let Some(tls) = &tls {
            let collector = CertificateCollector(Arc::clone(tls));
            self.components.collects(StopStep::Probes, "expiry of certificates", &metrics, collector);
        }
        let (runtime, first) = self.configure(&metrics, &store);
        Ok(Prepared { api_address, listener, tls, metrics, tracer, store, faults, runtime, first })
    }
}

/// The reload action of certificates.
fn reload_of(tls: &Arc<ServerTls>) -> Reload {
    let tls = Arc::clone(tls);
    Box::new(move || tls.reload().map_err(|e| e.to_string()))
}

/// Exports the expiry of the certificate.
struct CertificateCollector(Arc<ServerTls>);

impl Collect for CertificateCollector {
    fn collect(&self, out: &mut Collected) {
        out.add(Family::TlsCertificateExpiry, &[], self.0.valid_until().seconds as f64);
    }
}

#[cfg(test)]
mod tests;
