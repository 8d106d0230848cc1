//! The start of a server: step by step, and back again if one fails.

mod endpoints;
mod upkeep;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::components::{Components, StopReport, StopStep};
use super::controls::{Controls, Parts, Reload};
use super::effects::{Effects, Rehearsal, SystemEffects, start_workers};
use super::health::{Conditions, Health, STUCK};
use super::service::ApiService;
use super::{InheritedSockets, ProbeOptions, ServerOptions, discovery, observers};
use mixer_api::grpc::Code;
use mixer_api::load_shedding::LoadShedder;
use mixer_api::{CallPool, Engine, MixerService};
use mixer_base::log::Log;
use mixer_base::metrics::{Collect, Collected, Family, Metrics};
use mixer_base::pool::{AdapterPools, Pool, PoolCollector};
use mixer_base::probe::FileProbe;
use mixer_config::store::{ConfigStore, WhenLost};
use mixer_engine::adapter::{Commons, SystemClock};
use mixer_engine::check_cache::{CheckCacheCounters, CheckCacheLimits};
use mixer_engine::handler::HandlerEnvironment;
use mixer_engine::runtime::{Configurator, ConfiguratorOptions, Runtime};
use mixer_engine::snapshot::{SnapshotBuilder, SnapshotOptions};
use mixer_envoy::{EndpointContext, EnvoyShared, GrpcEndpoint};
use mixer_expr::Language;
use mixer_net::address::ListenAddress;
use mixer_net::connection::ConnectionLimits;
use mixer_net::listener::{ListenError, Listener};
use mixer_net::tls::ServerTls;
use mixer_net::workers::WorkerGroup;
use mixer_profile::heap;
use mixer_spans::Tracer;

/// Memory that the check cache may take, for each entry that it may have; at most [`MAX_CACHE_BYTES`].
const CACHE_BYTES_PER_ENTRY: u64 = 512;
/// Memory that the check cache may take at all.
const MAX_CACHE_BYTES: u64 = 256 << 20;
/// How long the last requests of an HTTP endpoint are waited for.
const HTTP_GRACE: Duration = Duration::from_secs(2);
/// How long one handler may take to build.
// Longer than the first fetch of a list, 30 s: a provider that hangs must fail the checks, not lose the handler.
const HANDLER_BUILD_TIMEOUT: Duration = Duration::from_secs(45);
/// A caller that does not answer a ping for this long is gone.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long everything that a failed start has begun may take to end.
const FAILED_START_LIMIT: Duration = Duration::from_secs(10);
/// How long a collector is waited for, at the end.
const TRACER_LIMIT: Duration = Duration::from_secs(5);
/// How long the background threads are waited for, at the very end.
const THREADS_LIMIT: Duration = Duration::from_secs(1);

/// Why a server did not start. The text is that of the originals behind `Unable to initialize Mixer: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct StartError {
    /// What failed.
    pub text: String,
    /// More about it, where the originals swallow the cause.
    pub detail: Option<String>,
}

impl StartError {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), detail: None }
    }

    pub(super) fn because(what: &str, cause: impl std::fmt::Display) -> Self {
        Self::new(format!("{what}: {cause}"))
    }
}

impl From<ListenError> for StartError {
    fn from(error: ListenError) -> Self {
        Self::new(error.0)
    }
}

/// A server that answers calls.
pub struct Server {
    background: tokio::runtime::Runtime,
    components: Components,
    serving: Serving,
    drain_delay: Duration,
    shutdown_timeout: Duration,
}

/// What a start arrives at.
struct Serving {
    api_address: ListenAddress,
    bound: Option<SocketAddr>,
    controls: Arc<Controls>,
}

/// What a server would serve, found out without serving it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RehearsalReport {
    /// Where the API would listen.
    pub api_address: ListenAddress,
    /// Rules, handlers and instances of the configuration.
    pub configured: [u64; 3],
    /// Errors and warnings in the configuration.
    pub problems: [usize; 2],
    /// Worker threads.
    pub workers: usize,
}

impl Server {
    /// Starts a server: everything up to accepting calls. Spec: cli-operations.md 3.1.
    ///
    /// Errors: the first step that failed; everything begun before it is ended again.
    pub fn start(options: &ServerOptions) -> Result<Server, StartError> {
        Self::start_with(options, &SystemEffects)
    }

    /// Starts a server whose effects on the world are those of `effects`. Errors: as [`start`](Self::start).
    pub fn start_with(options: &ServerOptions, effects: &dyn Effects) -> Result<Server, StartError> {
        let (background, components, serving) =
            run_start(options, effects, async |start| start.begin().await)?;
        Ok(Server {
            background,
            components,
            serving,
            drain_delay: options.drain_delay.to_std_or_zero(),
            shutdown_timeout: options.shutdown_timeout.to_std_or_zero(),
        })
    }

    /// Goes through the start up to serving, leaves no trace, and ends again. Spec: cli-operations.md 9.8, `--dry-run`.
    ///
    /// Errors: as [`start`](Self::start).
    pub fn rehearse(options: &ServerOptions) -> Result<RehearsalReport, StartError> {
        let (background, mut components, report) =
            run_start(options, &Rehearsal, async |start| start.rehearse().await)?;
        background.block_on(components.end(FAILED_START_LIMIT));
        background.shutdown_timeout(THREADS_LIMIT);
        Ok(report)
    }

    /// Where the API listens, as it was asked for.
    pub fn api_address(&self) -> &ListenAddress {
        &self.serving.api_address
    }

    /// The TCP address of the API once a port was chosen.
    pub fn bound_address(&self) -> Option<SocketAddr> {
        self.serving.bound
    }

    /// What operators' tools look at and ask for.
    pub fn controls(&self) -> &Arc<Controls> {
        &self.serving.controls
    }

    /// The event loop of everything but requests.
    pub fn background(&self) -> &tokio::runtime::Handle {
        self.background.handle()
    }

    /// Stops: not ready, no new calls, running calls answered, handlers closed, files removed. Spec: cli-operations.md 3.3 and 9.6.
    pub fn stop(self) -> StopReport {
        let Server { background, mut components, serving, drain_delay, shutdown_timeout } = self;
        let report = background.block_on(async move {
            if let Some(supervisor) = serving.controls.supervisor() {
                supervisor.stopping();
            }
            drop(serving);
            let mut report = components.end_through(StopStep::Readiness, shutdown_timeout).await;
            tokio::time::sleep(drain_delay).await;
            let rest = components.end(shutdown_timeout).await;
            report.ended.extend(rest.ended);
            report.forced.extend(rest.forced);
            report
        });
        background.shutdown_timeout(THREADS_LIMIT);
        report
    }
}

/// Steps 1 to 4, then `begin`; if that fails or panics, everything that it began is ended.
fn run_start<T>(
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
        adapter_pools: Arc::default(),
        inherited: InheritedSockets::default(),
        components: Components::default(),
    };
    let flushed = start.log.clone();
    start.components.begun(StopStep::Log, "log", async move |_| flushed.last_write().is_ok());
    let begun = background.block_on(async {
        tokio::select! {
            begun = AssertUnwindSafe(begin(&mut start)).catch_unwind() => begun,
            why = effects.interrupted() => Ok(Err(StartError::new(why))),
        }
    });
    let error = match begun {
        Ok(Ok(begun)) => return Ok((background, start.components, begun)),
        Ok(Err(error)) => error,
        Err(panic) => {
            let text = panic.downcast_ref::<&'static str>().copied().map(str::to_owned);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            StartError::because("panic", text.unwrap_or_else(|| "unknown cause".to_owned()))
        }
    };
    tracing::error!("Close server");
    background.block_on(start.components.end(FAILED_START_LIMIT));
    background.shutdown_timeout(THREADS_LIMIT);
    Err(error)
}

fn probe_name(options: &ProbeOptions, default: &str) -> String {
    if options.is_enabled() { FileProbe::name_of(&options.path) } else { default.to_owned() }
}

/// A start under way.
struct Start<'s> {
    options: &'s ServerOptions,
    effects: &'s dyn Effects,
    log: Log,
    health: Health,
    /// Those of all handlers, once there are any.
    adapter_pools: Arc<AdapterPools>,
    /// Sockets that are there already.
    inherited: InheritedSockets,
    /// What was begun so far.
    components: Components,
}

/// What the first half of a start makes.
struct Prepared {
    api_address: ListenAddress,
    listener: Listener,
    tls: Option<Arc<ServerTls>>,
    metrics: Arc<Metrics>,
    tracer: Option<Arc<Tracer>>,
    store: Arc<dyn ConfigStore>,
    runtime: Arc<Runtime>,
    /// Not following the store yet; the handlers are closed with it.
    configurator: Arc<Mutex<Option<Configurator>>>,
}

impl Start<'_> {
    /// Steps 5 to 19.
    async fn begin(&mut self) -> Result<Serving, StartError> {
        if self.options.heap_profile_rate > 0 {
            heap::sample_for_good(self.options.heap_profile_rate);
        }
        let alive = self.health.liveness.emitter("server", "uninitialized");
        let stuck = self.health.liveness.emitter("workers", "uninitialized");
        self.keep_probe(StopStep::Probes, "liveness probe", true);
        let prepared = self.prepare().await?;
        let Prepared { api_address, listener, tls, metrics, tracer, store, runtime, configurator } = prepared;
        let bound = listener.local_address();
        let workers = self.start_workers(&runtime, &metrics, tracer, &api_address)?;

        let dispatcher = self.health.readiness.emitter("dispatcher", "runtime is not listening to the store");
        let read = self.health.readiness.emitter("store", "not read yet");
        let written = self.health.readiness.emitter("log", "nothing written yet");
        let conditions = Conditions {
            store: (Arc::clone(&store), read),
            log: (self.log.clone(), written),
            workers: (Arc::clone(&workers), stuck),
            patience: STUCK,
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
            reloads: tls.iter().map(|tls| ("certificates", reload_of(tls))).collect(),
        }));
        tracing::info!("Starting monitor server...");
        self.start_monitoring(&controls)?;
        self.start_introspection(&controls);
        self.follow_configuration(&configurator)?;
        dispatcher.set(Ok(()));
        let gone = dispatcher.clone();
        self.components.begun(StopStep::Readiness, "readiness", async move |_| {
            gone.withdraw("stopping");
            true
        });
        self.accept(listener, tls, workers);
        alive.set(Ok(()));
        self.follow(conditions);
        self.supervise(&controls);
        Ok(Serving { api_address, bound, controls })
    }

    /// Steps 6 to 14 without anything that is seen outside, then looks at what there is.
    async fn rehearse(&mut self) -> Result<RehearsalReport, StartError> {
        let prepared = self.prepare().await?;
        let workers =
            self.start_workers(&prepared.runtime, &prepared.metrics, None, &prepared.api_address)?;
        let published = prepared.runtime.load_full();
        let counts = &published.routes.snapshot().counts;
        use mixer_config::Severity;
        let count = |severity| published.diagnostics.iter().filter(|d| d.severity == severity).count();
        Ok(RehearsalReport {
            api_address: prepared.api_address,
            configured: [counts.rule_configs, counts.handler_configs, counts.instance_configs],
            problems: [count(Severity::Error), count(Severity::Warning)],
            workers: workers.connections().len(),
        })
    }

    /// Steps 6 to 12: tracing, the socket, the store, the first configuration.
    async fn prepare(&mut self) -> Result<Prepared, StartError> {
        let (options, effects) = (self.options, self.effects);
        // compat(1.3): the cause is swallowed; pinned by cli/startup-tracing-exclusive.
        let tracing = effects.configure_tracing(&options.tracing).map_err(|e| StartError {
            text: "unable to setup tracing".to_owned(),
            detail: Some(e.to_string()),
        })?;
        let tracer = tracing.map(|(tracer, task)| {
            self.components.begun(StopStep::Tracing, "tracer", async move |patience: Duration| {
                task.close(patience.min(TRACER_LIMIT)).await
            });
            tracer
        });
        self.inherited =
            effects.inherited_sockets().map_err(|e| StartError::because("unable to listen", e))?;
        let api_address = match &self.inherited.grpc {
            Some(socket) => socket.address(),
            None => options.listen_address().map_err(|e| StartError::because("unable to listen", e))?,
        };
        let tls = self.load_tls(&api_address)?;
        self.write_pid_file()?;
        let listener = self.listen(&api_address)?;
        let when_lost = if options.drop_lost_configuration { WhenLost::Drop } else { WhenLost::Keep };
        let store = effects
            .open_store(&options.config_store_url, when_lost)
            .map_err(|e| StartError::because("unable to connect to the configuration server", e))?;
        let metrics =
            effects.metrics().map_err(|e| StartError::because("could not build opencensus exporter", e))?;
        metrics.set_build("mixer", env!("CARGO_PKG_VERSION"));
        self.log.count_lost_in(metrics.counter(Family::LogRecordsLost, &[]));
        if let Some(tls) = &tls {
            let collector = CertificateCollector(Arc::clone(tls));
            self.components.collects(StopStep::Probes, "expiry of certificates", &metrics, collector);
        }
        let (runtime, configurator) = self.configure(&metrics, &store).await?;
        Ok(Prepared { api_address, listener, tls, metrics, tracer, store, runtime, configurator })
    }

    /// Steps 10 to 12: the first configuration.
    async fn configure(
        &mut self,
        metrics: &Arc<Metrics>,
        store: &Arc<dyn ConfigStore>,
    ) -> Result<(Arc<Runtime>, Arc<Mutex<Option<Configurator>>>), StartError> {
        let options = self.options;
        tracing::info!("Awaiting for config store sync...");
        let cache = options.check_cache_entries().map(|entries| CheckCacheLimits {
            entries,
            bytes: (entries as u64).saturating_mul(CACHE_BYTES_PER_ENTRY).min(MAX_CACHE_BYTES),
        });
        let builder = SnapshotBuilder::new(SnapshotOptions {
            registry: super::REGISTRY,
            default_namespace: options.config_default_namespace.as_str().into(),
            language: std::env::var("ISTIO_LANG").ok().map(|name| Language::from_name(&name)),
            adapter_kinds: options.use_adapter_crds,
            template_kinds: options.use_template_crds,
        });
        let runtime = self.effects.new_runtime(builder.empty(), cache);
        let denials: Arc<dyn Collect> = Arc::clone(runtime.denials()) as Arc<dyn Collect>;
        metrics.collect_from(Arc::downgrade(&denials));
        if cache.is_some() {
            let collector = CacheCollector(Arc::clone(runtime.cache_counters()));
            self.components.collects(StopStep::CheckCache, "check cache", metrics, collector);
        }
        let commons = Arc::new(Commons::default());
        self.adapter_pools = commons.get::<AdapterPools>();
        self.adapter_pools.configure(options.adapter_pool());
        let environment = HandlerEnvironment {
            clock: Arc::new(SystemClock),
            runtime: tokio::runtime::Handle::current(),
            metrics_port: options.metrics_port,
            metrics: Arc::clone(metrics),
            commons,
            build_timeout: HANDLER_BUILD_TIMEOUT,
        };
        let (store, metrics) = (Arc::clone(store), Arc::clone(metrics));
        let following = ConfiguratorOptions { store, environment, metrics };
        let mut configurator = Configurator::new(Arc::clone(&runtime), builder, following);
        tracing::info!("Starting runtime config watch...");
        let first = configurator.apply();
        let waited = tokio::time::timeout(options.config_wait_timeout.to_std_or_zero(), first).await;
        let configurator = Arc::new(Mutex::new(Some(configurator)));
        let closing = Arc::clone(&configurator);
        self.components.begun(StopStep::Handlers, "handlers", async move |patience| {
            let configurator = closing.lock().take();
            match configurator {
                Some(configurator) => configurator.close(patience).await,
                None => false,
            }
        });
        waited.map_err(|_| StartError::new(format!("exceeded timeout {}", options.config_wait_timeout)))?;
        Ok((runtime, configurator))
    }

    /// Step 14.
    fn start_workers(
        &mut self,
        runtime: &Arc<Runtime>,
        metrics: &Arc<Metrics>,
        tracer: Option<Arc<Tracer>>,
        address: &ListenAddress,
    ) -> Result<Arc<WorkerGroup>, StartError> {
        let options = self.options;
        let shedder =
            LoadShedder::new(&options.load_shedding, metrics.counter(Family::LoadSheddingThrottled, &[]))
                .map(Arc::new);
        let count = match options.concurrency {
            _ if options.single_threaded => 1,
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count as usize,
        };
        let limits = ConnectionLimits {
            max_concurrent_streams: u32::try_from(options.max_concurrent_streams).unwrap_or(u32::MAX),
            keep_alive_timeout: KEEP_ALIVE_TIMEOUT,
            max_age: Some(options.max_connection_age.to_std_or_zero()).filter(|age| !age.is_zero()),
        };
        let max_message = usize::try_from(options.max_message_size).unwrap_or(usize::MAX);
        let observers = observers::start(options, self.effects, metrics, tracer, &mut self.components)?;
        let stopping = CancellationToken::new();
        let others = discovery::services(&self.health, options.serves_reflection(address), stopping.clone())
            .map_err(|e| StartError::because("unable to describe the services", e))?;
        let engine = Engine {
            runtime: Arc::clone(runtime),
            metrics: Arc::clone(metrics),
            last_known: Arc::default(),
            shedder: shedder.clone(),
            observers,
        };
        let pool = Pool::new(options.api_pool());
        let adapters = Arc::clone(&self.adapter_pools);
        let collector = PoolCollector { api: Arc::clone(&pool), adapters };
        let calls = CallPool::new(pool);
        let envoy = options.envoy_bridge.then(|| EndpointContext {
            shared: Arc::new(EnvoyShared::new(engine.clone())),
            stopping: stopping.clone(),
            pool: calls.rejecting_with(Code::ResourceExhausted),
            shedder: shedder.clone(),
        });
        if let Some(envoy) = &envoy {
            self.start_envoy_http(envoy)?;
        }
        let (counted, stopped) = (Arc::clone(metrics), stopping.clone());
        let metrics = Arc::clone(metrics);
        let service = move |_| {
            let mixer = MixerService::over(engine.clone());
            let envoy = envoy.clone().map(|context| GrpcEndpoint::new(context, &metrics, max_message));
            let others = others.clone();
            let (stopped, calls) = (stopped.clone(), calls.clone());
            ApiService::new(mixer, &metrics, shedder.clone(), max_message, others, stopped, calls)
                .with_envoy(envoy)
        };
        let workers = start_workers(self.effects, count, limits, stopping, service)
            .map_err(|e| StartError::because("unable to start workers", e))?;
        let workers = Arc::new(workers);
        let draining = Arc::clone(&workers);
        self.components.begun(StopStep::Calls, "calls", async move |patience| draining.drain(patience).await);
        let joining = Arc::clone(&workers);
        self.components.begun(StopStep::Workers, "workers", async move |_| joining.join().await);
        self.components.collects(StopStep::Workers, "pools", &counted, collector);
        Ok(workers)
    }

    /// The second half of step 10: changes are followed from now on.
    fn follow_configuration(
        &mut self,
        configurator: &Arc<Mutex<Option<Configurator>>>,
    ) -> Result<(), StartError> {
        let Some(waiting) = configurator.lock().take() else { return Ok(()) };
        let stop = CancellationToken::new();
        match self.effects.follow_configuration(waiting, stop.clone()) {
            Ok(task) => {
                let back = Arc::clone(configurator);
                self.components.begun(StopStep::Configuration, "configuration", async move |_| {
                    stop.cancel();
                    let ended = task.await.ok();
                    let well = ended.is_some();
                    *back.lock() = ended;
                    well
                });
                Ok(())
            }
            Err((waiting, error)) => {
                *configurator.lock() = Some(*waiting);
                Err(StartError::because("unable to listen", error))
            }
        }
    }
}

/// How certificates are read anew.
fn reload_of(tls: &Arc<ServerTls>) -> Reload {
    let tls = Arc::clone(tls);
    Box::new(move || tls.reload().map_err(|e| e.to_string()))
}

/// When the certificate ends, for the metrics.
struct CertificateCollector(Arc<ServerTls>);

impl Collect for CertificateCollector {
    fn collect(&self, out: &mut Collected) {
        out.add(Family::TlsCertificateExpiry, &[], self.0.valid_until().seconds as f64);
    }
}

/// What happened in the check cache, for the metrics.
struct CacheCollector(Arc<CheckCacheCounters>);

impl Collect for CacheCollector {
    fn collect(&self, out: &mut Collected) {
        out.add(Family::CheckCacheHits, &[], self.0.hits() as f64);
        out.add(Family::CheckCacheMisses, &[], self.0.misses() as f64);
        out.add(Family::CheckCacheWrites, &[], self.0.writes() as f64);
        out.add(Family::CheckCacheEvictions, &[], self.0.evictions() as f64);
    }
}

#[cfg(test)]
mod tests;
