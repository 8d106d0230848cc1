//! The start and stop of a server: an ordered list of parts, begun in order and ended in reverse.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::listener::{ListenError, Listener, bind_tcp, remove_stale_socket};
use super::service::ApiService;
use super::workers::{ConnectionLimits, WorkerGroup};
use super::{ListenAddress, ProbeOptions, ServerOptions};
use crate::core::adapter::{Commons, SystemClock};
use crate::core::api::MixerService;
use crate::core::build_info::BuildInfo;
use crate::core::check_cache::{CheckCacheCounters, CheckCacheLimits};
use crate::core::dispatch::LastKnownAnswers;
use crate::core::expr::Language;
use crate::core::handler::HandlerEnvironment;
use crate::core::introspect;
use crate::core::load_shedding::LoadShedder;
use crate::core::probe::{FileProbe, ProbeEmitter};
use crate::core::runtime::{Configurator, ConfiguratorOptions, Runtime};
use crate::core::snapshot::{SnapshotBuilder, SnapshotOptions};
use crate::core::store::{self, ConfigStore, WhenLost};
use crate::core::telemetry::log::Log;
use crate::core::telemetry::metrics::{Collect, Collected, Family, Metrics};
use crate::core::telemetry::{http, monitor};

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

    fn because(what: &str, cause: impl std::fmt::Display) -> Self {
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
    parts: Parts,
    api_address: ListenAddress,
    bound: Option<SocketAddr>,
    drain_delay: Duration,
    shutdown_timeout: Duration,
}

/// What was begun so far; ending it in reverse order is the same whether the start failed half-way or the server was asked to stop.
#[derive(Default)]
struct Parts {
    liveness: Option<FileProbe>,
    readiness: Option<FileProbe>,
    alive: Option<ProbeEmitter>,
    configuration: Option<(CancellationToken, tokio::task::JoinHandle<Configurator>)>,
    unstarted: Option<Configurator>,
    accepting: Option<(CancellationToken, tokio::task::JoinHandle<()>)>,
    workers: Option<Arc<WorkerGroup>>,
    endpoints: Vec<(CancellationToken, tokio::task::JoinHandle<()>)>,
    runtime: Option<Arc<Runtime>>,
    store: Option<Arc<dyn ConfigStore>>,
    cache_collector: Option<Arc<dyn Collect>>,
}

impl Server {
    /// Starts a server: everything up to accepting calls. Spec: cli-operations.md 3.1.
    ///
    /// Errors: the first step that failed; everything begun before it is ended again.
    pub fn start(options: &ServerOptions) -> Result<Server, StartError> {
        options.check().map_err(|e| StartError::new(e.0))?;
        let log = Log::install(&options.log).map_err(|e| StartError::new(e.0))?;
        crate::core::adapter::self_check().map_err(|e| StartError::new(e.to_string()))?;
        crate::core::tls::install_crypto_provider();
        let background = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("background")
            .enable_all()
            .build()
            .map_err(|e| StartError::because("unable to start background threads", e))?;
        let mut parts = Parts::default();
        let started = background.block_on(begin(options, &log, &mut parts));
        match started {
            Ok((api_address, bound)) => Ok(Server {
                background,
                parts,
                api_address,
                bound,
                drain_delay: options.drain_delay.to_std_or_zero(),
                shutdown_timeout: options.shutdown_timeout.to_std_or_zero(),
            }),
            Err(error) => {
                tracing::error!("Close server");
                background.block_on(parts.end(Duration::from_secs(10)));
                background.shutdown_timeout(Duration::from_secs(1));
                Err(error)
            }
        }
    }

    /// Where the API listens, as it was asked for.
    pub fn api_address(&self) -> &ListenAddress {
        &self.api_address
    }

    /// The TCP address of the API once a port was chosen.
    pub fn bound_address(&self) -> Option<SocketAddr> {
        self.bound
    }

    /// What requests see.
    pub fn runtime(&self) -> Option<&Arc<Runtime>> {
        self.parts.runtime.as_ref()
    }

    /// The event loop of everything but requests.
    pub fn background(&self) -> &tokio::runtime::Handle {
        self.background.handle()
    }

    /// Stops: not ready, no new calls, running calls answered, handlers closed, files removed. Returns whether all of it was done
    /// in time. Spec: cli-operations.md 3.3 and 9.6.
    pub fn stop(self) -> bool {
        let Server { background, mut parts, drain_delay, shutdown_timeout, .. } = self;
        let complete = background.block_on(async {
            if let Some(readiness) = parts.readiness.take() {
                readiness.close().await;
            }
            tokio::time::sleep(drain_delay).await;
            parts.end(shutdown_timeout).await
        });
        background.shutdown_timeout(Duration::from_secs(1));
        complete
    }
}

/// Steps 5 to 19 of the start.
async fn begin(
    options: &ServerOptions,
    log: &Log,
    parts: &mut Parts,
) -> Result<(ListenAddress, Option<SocketAddr>), StartError> {
    let handle = tokio::runtime::Handle::current();
    parts.liveness = probe(&options.liveness_probe, &handle);
    let alive = parts.liveness.as_ref().map(|p| p.emitter("server", "uninitialized"));
    // compat(1.3): the cause is swallowed; pinned by cli/startup-tracing-exclusive.
    options.tracing.check().map_err(|e| StartError {
        text: "unable to setup tracing".to_owned(),
        detail: Some(e.to_string()),
    })?;
    let api_address = options.listen_address().map_err(|e| StartError::because("unable to listen", e))?;
    if let ListenAddress::Unix(path) = &api_address {
        remove_stale_socket(path)?;
    }
    let listener = Listener::bind(&api_address).map_err(|e| StartError::because("unable to listen", e))?;
    let bound = listener.local_address();

    let metrics = Arc::new(Metrics::new());
    metrics.set_build("mixer", env!("CARGO_PKG_VERSION"));
    log.count_lost_in(metrics.counter(Family::LogRecordsLost, &[]));
    let runtime = configure(options, &metrics, parts).await?;

    let shedder =
        LoadShedder::new(&options.load_shedding, metrics.counter(Family::LoadSheddingThrottled, &[]));
    let workers = start_workers(options, &runtime, &metrics, shedder.map(Arc::new))?;
    let workers = Arc::new(workers);
    parts.workers = Some(Arc::clone(&workers));

    parts.readiness = probe(&options.readiness_probe, &handle);
    if let (Some(readiness), Some(store)) = (&parts.readiness, &parts.store) {
        readiness.emitter("dispatcher", "runtime is not listening to the store").set(Ok(()));
        let emitter = readiness.emitter("store", "not read yet");
        follow_store(Arc::clone(store), emitter, parts);
    }

    tracing::info!("Starting monitor server...");
    start_monitoring(options, &metrics, parts).await?;
    start_introspection(options, &runtime, parts).await;

    follow_configuration(parts);
    accept(listener, workers, parts);
    if let Some(alive) = alive {
        alive.set(Ok(()));
        parts.alive = Some(alive);
    }
    Ok((api_address, bound))
}

fn probe(options: &ProbeOptions, runtime: &tokio::runtime::Handle) -> Option<FileProbe> {
    options
        .is_enabled()
        .then(|| FileProbe::start(options.path.clone(), options.interval.to_std_or_zero(), runtime))
}

/// Steps 9 to 12: opens the store, builds the first configuration.
async fn configure(
    options: &ServerOptions,
    metrics: &Arc<Metrics>,
    parts: &mut Parts,
) -> Result<Arc<Runtime>, StartError> {
    let when_lost = if options.drop_lost_configuration { WhenLost::Drop } else { WhenLost::Keep };
    let store = store::open_with(&options.config_store_url, when_lost)
        .map_err(|e| StartError::because("unable to connect to the configuration server", e))?;
    let store: Arc<dyn ConfigStore> = Arc::from(store);
    parts.store = Some(Arc::clone(&store));
    tracing::info!("Awaiting for config store sync...");
    let cache = options.check_cache_entries().map(|entries| CheckCacheLimits {
        entries,
        bytes: (entries as u64).saturating_mul(CACHE_BYTES_PER_ENTRY).min(MAX_CACHE_BYTES),
    });
    let builder = SnapshotBuilder::new(SnapshotOptions {
        default_namespace: options.config_default_namespace.as_str().into(),
        language: std::env::var("ISTIO_LANG").ok().map(|name| Language::from_name(&name)),
        adapter_kinds: options.use_adapter_crds,
        template_kinds: options.use_template_crds,
    });
    let runtime = Arc::new(Runtime::new(builder.empty(), cache));
    if cache.is_some() {
        let collector: Arc<dyn Collect> = Arc::new(CacheCollector(Arc::clone(runtime.cache_counters())));
        metrics.collect_from(Arc::downgrade(&collector));
        parts.cache_collector = Some(collector);
    }
    parts.runtime = Some(Arc::clone(&runtime));
    let mut configurator = Configurator::new(
        Arc::clone(&runtime),
        builder,
        ConfiguratorOptions {
            store,
            environment: HandlerEnvironment {
                clock: Arc::new(SystemClock),
                runtime: tokio::runtime::Handle::current(),
                metrics_port: options.metrics_port,
                metrics: Arc::clone(metrics),
                commons: Arc::new(Commons::default()),
                build_timeout: HANDLER_BUILD_TIMEOUT,
            },
            metrics: Arc::clone(metrics),
        },
    );
    tracing::info!("Starting runtime config watch...");
    let first = configurator.apply();
    let waited = tokio::time::timeout(options.config_wait_timeout.to_std_or_zero(), first).await;
    parts.unstarted = Some(configurator);
    waited.map_err(|_| StartError::new(format!("exceeded timeout {}", options.config_wait_timeout)))?;
    Ok(runtime)
}

/// What happened in the check cache, for the metrics.
struct CacheCollector(Arc<CheckCacheCounters>);

impl Collect for CacheCollector {
    fn collect(&self, out: &mut Collected) {
        use std::sync::atomic::Ordering::Relaxed;
        out.add(Family::CheckCacheHits, &[], self.0.hits.load(Relaxed) as f64);
        out.add(Family::CheckCacheMisses, &[], self.0.misses.load(Relaxed) as f64);
        out.add(Family::CheckCacheWrites, &[], self.0.writes.load(Relaxed) as f64);
        out.add(Family::CheckCacheEvictions, &[], self.0.evictions.load(Relaxed) as f64);
    }
}

fn start_workers(
    options: &ServerOptions,
    runtime: &Arc<Runtime>,
    metrics: &Arc<Metrics>,
    shedder: Option<Arc<LoadShedder>>,
) -> Result<WorkerGroup, StartError> {
    let count = match options.concurrency {
        _ if options.single_threaded => 1,
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count as usize,
    };
    let limits = ConnectionLimits {
        max_concurrent_streams: u32::try_from(options.max_concurrent_streams).unwrap_or(u32::MAX),
        keep_alive_timeout: KEEP_ALIVE_TIMEOUT,
    };
    let max_message = usize::try_from(options.max_message_size).unwrap_or(usize::MAX);
    let last_known = Arc::new(LastKnownAnswers::default());
    let (runtime, metrics) = (Arc::clone(runtime), Arc::clone(metrics));
    WorkerGroup::start(count, limits, move |_| {
        let mixer = MixerService::new(
            Arc::clone(&runtime),
            Arc::clone(&metrics),
            Arc::clone(&last_known),
            shedder.clone(),
        );
        ApiService::new(mixer, &metrics, shedder.clone(), max_message, tonic::service::Routes::default())
    })
    .map_err(|e| StartError::because("unable to start workers", e))
}

/// Keeps the readiness probe true to the store.
fn follow_store(store: Arc<dyn ConfigStore>, emitter: ProbeEmitter, parts: &mut Parts) {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let task = tokio::spawn(async move {
        loop {
            emitter.set(store.contents().unavailable.clone().map_or(Ok(()), Err));
            tokio::select! {
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
    });
    parts.endpoints.push((stop, task));
}

async fn start_monitoring(
    options: &ServerOptions,
    metrics: &Arc<Metrics>,
    parts: &mut Parts,
) -> Result<(), StartError> {
    let listener = bind_tcp("tcp", &format!(":{}", options.monitoring_port)).map_err(|e| {
        StartError::new(format!("unable to setup monitoring: unable to listen on socket: {e}"))
    })?;
    let routes = monitor::routes(Arc::clone(metrics), &BuildInfo::stamped().short(), options.profile);
    serve_http(listener, routes, parts);
    Ok(())
}

/// The introspection port; a failure is logged and does not end the start.
async fn start_introspection(options: &ServerOptions, runtime: &Arc<Runtime>, parts: &mut Parts) {
    let settings = &options.introspection;
    if settings.port == 0 {
        return;
    }
    let host = if settings.address == "*" { "" } else { settings.address.as_str() };
    match bind_tcp("tcp", &format!("{host}:{}", settings.port)) {
        Ok(listener) => {
            let address = listener.local_addr().map(|a| a.to_string()).unwrap_or_default();
            tracing::info!("ControlZ available at {address}");
            serve_http(listener, introspect::routes(Arc::clone(runtime)), parts);
        }
        Err(error) => tracing::error!("Unable to start ControlZ: {error}"),
    }
}

fn serve_http(listener: TcpListener, routes: axum::Router, parts: &mut Parts) {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let task = tokio::spawn(async move {
        if let Err(error) = http::serve(listener, routes, stopped, HTTP_GRACE).await {
            tracing::error!(%error, "an HTTP endpoint ended");
        }
    });
    parts.endpoints.push((stop, task));
}

/// Begins to follow the store.
fn follow_configuration(parts: &mut Parts) {
    if let Some(configurator) = parts.unstarted.take() {
        let stop = CancellationToken::new();
        let task = tokio::spawn(configurator.run(stop.clone()));
        parts.configuration = Some((stop, task));
    }
}

/// Begins to accept calls.
fn accept(listener: Listener, workers: Arc<WorkerGroup>, parts: &mut Parts) {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let task = tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stopped.cancelled() => return,
            };
            match accepted {
                Ok(connection) => workers.serve(connection).await,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    });
    parts.accepting = Some((stop, task));
}

impl Parts {
    /// Ends everything that was begun, latest first. Returns whether all of it ended within `patience`.
    async fn end(&mut self, patience: Duration) -> bool {
        let mut complete = true;
        if let Some((stop, task)) = self.accepting.take() {
            stop.cancel();
            complete &= task.await.is_ok();
        }
        if let Some(workers) = self.workers.take() {
            // The accepting task, which held the other reference, has ended.
            match Arc::try_unwrap(workers) {
                Ok(workers) => complete &= workers.stop(patience).await,
                Err(_) => complete = false,
            }
        }
        if let Some(readiness) = self.readiness.take() {
            readiness.close().await;
        }
        for (stop, _) in &self.endpoints {
            stop.cancel();
        }
        for (_, task) in self.endpoints.drain(..) {
            complete &= tokio::time::timeout(patience, task).await.is_ok();
        }
        let configurator = match self.configuration.take() {
            Some((stop, task)) => {
                stop.cancel();
                task.await.ok()
            }
            None => self.unstarted.take(),
        };
        if let Some(configurator) = configurator {
            complete &= configurator.close(patience).await;
        }
        if let Some(liveness) = self.liveness.take() {
            liveness.close().await;
        }
        complete
    }
}
