//! The component host: starts the parts of the process in order, and stops them in the reverse order.
//!
//! The order is that of Galley 1.3: probes, webhook, processing, monitoring, profiles, ControlZ. The first failure ends what was started, and
//! is returned. Spec: galley.md, 2.

mod collect;
mod processing;
mod sources;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request as HttpRequest;
use axum::response::{IntoResponse as _, Response};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use mixer_base::budget::Share;
use mixer_base::build_info::BuildInfo;
use mixer_base::components::{self, StopReport};
use mixer_base::degradation::Degradations;
use mixer_base::log::Log;
use mixer_base::metrics::{Family, Metrics};
use mixer_base::probe::{Availability, FileProbe, ProbeEmitter};
use mixer_base::task::{Task, TaskCollector};
use mixer_engine::snapshot::SnapshotOptions;
use mixer_galley::Galley;
use mixer_introspect::{Action, Guard, Introspection, NOT_STARTED_CURE, Program, monitor, pprof};
use mixer_net::descriptors::DescriptorPlan;
use mixer_net::http::{Endpoint, HttpLimits, LargeAnswers};
use mixer_net::listener::bind_tcp;
use mixer_net::tls::{ServerTls, ServerTlsOptions, install_crypto_provider};

use crate::admission::reconcile::{ReconcileOptions, Reconciler};
use crate::admission::{Admission, PublishedPolicy};
use crate::introspect::{self, Plane};
use crate::options::{HostOptions, ProbeFile};
use crate::publications::Publications;

/// Time for requests in flight on an HTTP endpoint when it stops.
const HTTP_GRACE: Duration = Duration::from_secs(2);
/// Time limit for ending what a failed start had started.
const FAILED_START_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for joining the threads.
const THREADS_LIMIT: Duration = Duration::from_secs(1);
/// How often the certificate of the webhook is looked at.
const CERTIFICATE_INTERVAL: Duration = Duration::from_millis(500);
/// Arenas of the allocator: each reserves 64 MiB of address space, and keeps what is freed in it.
const ARENAS: usize = 4;
/// Bytes of large answers of monitoring and ControlZ, each.
const PAGES: usize = 64 << 20;

/// All components end in the reverse order of their start: there is one step.
type Components = components::Components<()>;

/// Why the process does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The settings contradict each other, or say nothing to do.
    #[error("{0}")]
    Settings(String),
    /// A component does not start. The text is Galley's where it has one.
    #[error("{0}")]
    Component(String),
    /// It was asked to stop meanwhile; by whom, for example `SIGTERM`.
    #[error("interrupted by {0}")]
    Interrupted(String),
}

/// What an operator asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// To end the process.
    Stop,
    /// To look for changes now.
    Reload,
}

/// A running process.
pub struct Host {
    background: tokio::runtime::Runtime,
    components: Components,
    plane: Arc<Plane>,
    log: Log,
    bound: Bound,
    requests: mpsc::Receiver<Request>,
    shutdown_timeout: Duration,
}

/// Where the process listens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bound {
    /// For sinks; `None` of a unix socket.
    pub sinks: Option<SocketAddr>,
    /// For API servers.
    pub webhook: Option<SocketAddr>,
    /// Metrics.
    pub monitoring: Option<SocketAddr>,
    /// ControlZ.
    pub introspection: Option<SocketAddr>,
}

impl Host {
    /// Starts everything. `policy` are the settings of the policy engine, whose kinds the webhook checks. `interrupted` is polled on the
    /// runtime of the process before anything starts, so that it may install handlers of signals, and ends the start when it tells who asks
    /// for that; its error is one of the start.
    ///
    /// Errors: the first component that does not start, or that it was interrupted; what had started has ended.
    pub fn start(
        options: &HostOptions,
        policy: SnapshotOptions,
        interrupted: impl Future<Output = std::io::Result<String>>,
    ) -> Result<Self, StartError> {
        options.check().map_err(StartError::Settings)?;
        let log = Log::install(&options.log).map_err(|error| StartError::Component(error.0))?;
        for suspicion in &options.suspicions {
            tracing::warn!("{suspicion}");
        }
        install_crypto_provider();
        mixer_base::memory::set_up_allocator(ARENAS);
        let background = tokio::runtime::Builder::new_multi_thread()
            .thread_name("galley")
            .enable_all()
            .build()
            .map_err(|error| StartError::Component(format!("unable to start threads: {error}")))?;
        let (asked, requests) = mpsc::channel(8);
        let mut start = Start::new(options, log.clone(), asked);
        let begun = background.block_on(async {
            use futures_util::FutureExt as _;
            tokio::select! {
                biased;
                by = interrupted => Err(by),
                begun = AssertUnwindSafe(start.begin(policy)).catch_unwind() => Ok(begun),
            }
        });
        let begun = match begun {
            Ok(Ok(begun)) => begun.map_err(StartError::Component),
            Ok(Err(panic)) => {
                Err(StartError::Component(format!("panic: {}", mixer_base::task::panic_text(&*panic))))
            }
            Err(Ok(by)) => Err(StartError::Interrupted(by)),
            Err(Err(error)) => Err(StartError::Component(format!("unable to handle signals: {error}"))),
        };
        let error = match begun {
            Ok(plane) => {
                let Start { components, bound, .. } = start;
                let shutdown_timeout = options.shutdown_timeout;
                return Ok(Self { background, components, plane, log, bound, requests, shutdown_timeout });
            }
            Err(error) => error,
        };
        if let StartError::Interrupted(by) = &error {
            tracing::info!("stopping on {by} before everything has started");
        }
        background.block_on(start.components.end(FAILED_START_LIMIT));
        background.shutdown_timeout(THREADS_LIMIT);
        Err(error)
    }

    /// The event loop of the process.
    pub fn background(&self) -> &tokio::runtime::Handle {
        self.background.handle()
    }

    /// What runs.
    pub fn plane(&self) -> &Arc<Plane> {
        &self.plane
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Where it listens.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// The next request of an operator through ControlZ. Without ControlZ there is none.
    pub async fn requested(&mut self) -> Request {
        match self.requests.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }

    /// Stops all components in the reverse order of their start. Sinks keep what they have.
    pub fn stop(self) -> StopReport<()> {
        let Self { background, mut components, plane, shutdown_timeout, .. } = self;
        drop(plane);
        let report = background.block_on(components.end(shutdown_timeout));
        background.shutdown_timeout(THREADS_LIMIT);
        report
    }
}

/// A start in progress.
struct Start<'o> {
    options: &'o HostOptions,
    log: Log,
    metrics: Arc<Metrics>,
    liveness: Availability,
    readiness: Availability,
    degradations: Degradations,
    publications: Arc<Publications>,
    asked: mpsc::Sender<Request>,
    components: Components,
    bound: Bound,
}

impl<'o> Start<'o> {
    fn new(options: &'o HostOptions, log: Log, asked: mpsc::Sender<Request>) -> Self {
        let name = |probe: &ProbeFile, default: &str| match probe.is_enabled() {
            true => FileProbe::name_of(&probe.path),
            false => default.to_owned(),
        };
        let cache = mixer_mcp::Cache::new(|collection, _| mixer_schema::group_of(collection).into());
        Self {
            liveness: Availability::new(name(&options.liveness, "liveness")),
            readiness: Availability::new(name(&options.readiness, "readiness")),
            metrics: Arc::new(Metrics::new()),
            degradations: Degradations::default(),
            publications: Publications::new(cache),
            components: Components::default(),
            bound: Bound::default(),
            options,
            log,
            asked,
        }
    }

    async fn begin(&mut self, policy: SnapshotOptions) -> Result<Arc<Plane>, String> {
        self.metrics.set_build("galley", env!("CARGO_PKG_VERSION"));
        self.log.count_lost_in(self.metrics.counter(Family::LogRecordsLost, &[]));
        self.log.count_suppressed_in(self.metrics.counter(Family::LogRecordsSuppressed, &[]));
        let log = self.log.clone();
        self.components.started((), "log", async move |limit: Duration| {
            let flushed = tokio::task::spawn_blocking(move || log.flush(limit.min(THREADS_LIMIT)));
            flushed.await.unwrap_or(false)
        });
        self.components.collects((), "counts of tasks", &self.metrics, TaskCollector::default());
        self.components.collects((), "degradations", &self.metrics, self.degradations.clone());
        let started = self.liveness.emitter("server", "uninitialized");
        // Until all emitters are there.
        let begun = self.readiness.emitter("start", "not every component was started yet");
        self.keep_probe("liveness probe", true);
        self.keep_probe("readiness probe", false);
        self.watch_tasks();
        self.trim_memory();
        let admission = match self.options.validation.is_enabled {
            true => Some(self.start_webhook(policy.clone())?),
            false => None,
        };
        let galley = match self.options.serves {
            true => Some(self.start_processing(policy).await?),
            false => None,
        };
        let plane = Arc::new(Plane {
            galley,
            publications: Arc::clone(&self.publications),
            admission,
            served: self.options.processing.served_collections().len(),
        });
        let monitoring = self.start_monitoring()?;
        self.bound.monitoring = monitoring.local_addr().ok();
        let answers = Arc::new(LargeAnswers::new(&Arc::new(Share::new(PAGES))));
        let version = BuildInfo::stamped().short();
        let routes =
            monitor::routes(Arc::clone(&self.metrics), &version, monitor::Profiles::Off, None, answers)
                .merge(self.health_routes());
        self.serve_http("monitoring endpoint", monitoring, None, routes);
        self.start_profiles()?;
        self.start_introspection(&plane);
        started.set(Ok(()));
        begun.set(Ok(()));
        Ok(plane)
    }

    /// Not ready while a task is down without which sinks are not served; degraded while another one is.
    fn watch_tasks(&mut self) {
        let stop = CancellationToken::new();
        let (until, emitter) = (stop.clone(), self.readiness.emitter("tasks", "not looked at yet"));
        let degradations = self.degradations.clone();
        let follow = move || {
            let (until, emitter, degradations) = (until.clone(), emitter.clone(), degradations.clone());
            async move {
                let mut changes = mixer_base::task::changes();
                loop {
                    let (needed, others) = mixer_base::task::down();
                    let none_of = |down: Vec<String>| match down.is_empty() {
                        true => Ok(()),
                        false => Err(down.join("; ")),
                    };
                    degradations.set("tasks", none_of(others));
                    emitter.set(none_of(needed));
                    tokio::select! {
                        () = until.cancelled() => return,
                        // The sender is never dropped.
                        _ = changes.changed() => {}
                    }
                }
            }
        };
        let task = Task::restarted("conditions").spawn(stop.clone(), follow);
        self.components.started((), "conditions", async move |_| {
            stop.cancel();
            task.await.is_ok()
        });
    }

    /// Returns memory to the system when load has ended.
    fn trim_memory(&mut self) {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let trim = move || mixer_base::memory::trim(stopped.clone());
        let task = Task::restarted("memory trimmer").spawn(stop.clone(), trim);
        self.components.started((), "memory trimmer", async move |_| {
            stop.cancel();
            task.await.is_ok()
        });
    }

    fn keep_probe(&mut self, name: &'static str, is_liveness: bool) {
        let (file, of) = match is_liveness {
            true => (&self.options.liveness, &self.liveness),
            false => (&self.options.readiness, &self.readiness),
        };
        if !file.is_enabled() {
            return;
        }
        let handle = tokio::runtime::Handle::current();
        let probe = FileProbe::start(file.path.clone(), file.interval, of.clone(), &handle);
        self.components.started((), name, async move |_| {
            probe.close().await;
            true
        });
    }

    /// An emitter of both probes.
    fn emitters(&self, name: &str, reason: &str) -> [ProbeEmitter; 2] {
        [self.liveness.emitter(name, reason), self.readiness.emitter(name, reason)]
    }

    fn start_webhook(&mut self, policy: SnapshotOptions) -> Result<Arc<Admission>, String> {
        let validation = &self.options.validation;
        let ready = self.emitters("validation", "unable to connect to the webhook");
        let tls = ServerTls::load_http1(ServerTlsOptions {
            cert_file: validation.cert_file.clone(),
            key_file: validation.key_file.clone(),
            ..ServerTlsOptions::default()
        });
        let tls = Arc::new(tls.map_err(|error| error.to_string())?);
        let listener = self.listen(&format!(":{}", validation.port))?;
        self.bound.webhook = listener.local_addr().ok();
        let cache = Arc::clone(self.publications.cache());
        let published: PublishedPolicy = Arc::new(move || cache.snapshot(mixer_schema::DEFAULT_GROUP));
        let admission = Admission::new(policy, validation.depth, published, Arc::clone(&self.metrics));
        self.follow_certificate(Arc::clone(&tls));
        self.serve_http("webhook", listener, Some(tls), Arc::clone(&admission).routes());
        ready.iter().for_each(|emitter| emitter.set(Ok(())));
        if validation.reconciles {
            self.start_reconciliation()?;
        }
        Ok(admission)
    }

    fn follow_certificate(&mut self, tls: Arc<ServerTls>) {
        let (stop, metrics) = (CancellationToken::new(), Arc::clone(&self.metrics));
        let until = stop.clone();
        let follow = move || {
            let (tls, until, metrics) = (Arc::clone(&tls), until.clone(), Arc::clone(&metrics));
            let noted = move |reload: Result<(), &str>| match reload {
                Ok(()) => metrics.counter(Family::GalleyValidationCertUpdates, &[]).increment(),
                Err(_) => {
                    metrics.counter(Family::GalleyValidationCertUpdateErrors, &["unusable"]).increment()
                }
            };
            tls.follow_every(CERTIFICATE_INTERVAL, until, noted)
        };
        let task = Task::restarted("certificates").of("webhook").spawn(stop.clone(), follow);
        self.components.started((), "certificates of the webhook", async move |_| {
            stop.cancel();
            task.await.is_ok()
        });
    }

    fn start_reconciliation(&mut self) -> Result<(), String> {
        let options = ReconcileOptions::of(&self.options.validation);
        let client = sources::client(&self.options.kubeconfig)?;
        let reconciler = Arc::new(Reconciler::new(client, options, Arc::clone(&self.metrics)));
        let stop = CancellationToken::new();
        let run = move || {
            let reconciler = Arc::clone(&reconciler);
            async move { reconciler.run().await }
        };
        let until = stop.clone();
        let run = move || {
            let (run, until) = (run(), until.clone());
            async move {
                tokio::select! {
                    () = until.cancelled() => {}
                    () = run => {}
                }
            }
        };
        let task = Task::restarted("webhook configuration").spawn(stop.clone(), run);
        self.components.started((), "webhook configuration", async move |_| {
            stop.cancel();
            task.await.is_ok()
        });
        Ok(())
    }

    fn listen(&self, address: &str) -> Result<TcpListener, String> {
        bind_tcp("tcp", address).map_err(|error| format!("unable to listen: {error}"))
    }

    fn start_monitoring(&self) -> Result<TcpListener, String> {
        self.listen(&self.options.monitoring_listen_address())
            .map_err(|error| format!("unable to setup monitoring: {error}"))
    }

    /// `/healthz` and `/readyz`: 200 or 503, and the reason. `/readyz?verbose` has the status of every emitter and the degradations, as
    /// that of a policy server. Reasons may have texts of files: they are for clients on this host, and for whoever reaches the address of the
    /// port, if it has one.
    fn health_routes(&self) -> Router {
        let (readiness, degradations) = (self.readiness.clone(), self.degradations.clone());
        let is_open = !self.options.monitoring_address.is_empty();
        let ready = async move |request: HttpRequest| {
            let (request, _) = request.into_parts();
            let is_whole = is_open || monitor::is_local(&request);
            if !monitor::is_verbose(request.uri.query()) {
                return brief(&readiness, is_whole);
            }
            let shown = |name: &str, why: String| if is_whole { why } else { without_texts(name, why) };
            let mut degraded = monitor::degraded(&degradations);
            if let Some(why) = degraded.pointer_mut("/sources/why").filter(|_| !is_whole) {
                *why = FOR_THIS_HOST.into();
            }
            let more = [("degraded", degraded), ("loads", monitor::loads())];
            monitor::health_report("readiness", &readiness, shown, more.into_iter())
        };
        let liveness = self.liveness.clone();
        Router::new()
            // Of the ports of this process: it has nothing of files.
            .route("/healthz", axum::routing::get(async move || brief(&liveness, true)))
            .route("/readyz", axum::routing::get(ready))
    }

    fn start_profiles(&mut self) -> Result<(), String> {
        let Some(port) = self.options.pprof_port else { return Ok(()) };
        let listener = self.listen(&format!(":{port}"))?;
        let routes = match self.options.serves_profiles_to_all {
            true => pprof::routes(),
            false => monitor::local_profiles(),
        };
        self.serve_http("profiles", listener, None, routes);
        Ok(())
    }

    /// A failure is logged and does not fail the start.
    fn start_introspection(&mut self, plane: &Arc<Plane>) {
        let settings = &self.options.introspection;
        let Some(address) = settings.listen_address() else { return };
        let mut guard = match settings.guard() {
            Ok(guard) => guard,
            Err(error) => return tracing::error!("Unable to start ControlZ: {error}"),
        };
        match self.listen(&address) {
            Ok(listener) => {
                self.bound.introspection = listener.local_addr().ok();
                settings.listening(&mut guard, self.bound.introspection);
                let parts = self.introspection(guard, plane);
                let routes = introspect::routes(parts, Arc::clone(plane));
                self.serve_http("ControlZ", listener, None, routes);
            }
            Err(error) => tracing::error!("Unable to start ControlZ: {error}{NOT_STARTED_CURE}"),
        }
    }

    fn introspection(&self, guard: Guard, plane: &Arc<Plane>) -> Introspection {
        let readiness = self.readiness.clone();
        let (of_badge, of_denials) = (Arc::clone(plane), Arc::clone(plane));
        Introspection {
            metrics: Arc::clone(&self.metrics),
            log: self.log.clone(),
            conditions: Arc::new(move || readiness.emitters()),
            degradations: self.degradations.clone(),
            actions: self.actions(plane),
            settings: self.options.settings(),
            guard,
            scopes_as_istio: self.options.introspection.scopes_as_istio,
            large_answers: Arc::new(LargeAnswers::new(&Arc::new(Share::new(PAGES)))),
            program: Program {
                topics: introspect::TOPICS,
                badge: Arc::new(move || Some(introspect::badge(&of_badge))),
                denials: Arc::new(move || {
                    of_denials.admission.as_ref().map_or(0, |admission| admission.tally().failed())
                }),
            },
        }
    }

    fn actions(&self, plane: &Arc<Plane>) -> Vec<Action> {
        let ask = |request: Request| {
            let asked = self.asked.clone();
            // A full queue has such a request already.
            move || {
                let _ = asked.try_send(request);
            }
        };
        let reload = Arc::clone(plane);
        let reload = move || {
            if let Some(galley) = &reload.galley {
                galley.reload();
            }
        };
        vec![
            Action { name: "SIGHUP", about: "reopens log files", run: Arc::new(ask(Request::Reload)) },
            Action {
                name: "SIGUSR1",
                about: "looks for changed files and objects now",
                run: Arc::new(reload),
            },
            Action {
                name: "SIGTERM",
                about: "stops: streams end, sinks keep what they have",
                run: Arc::new(ask(Request::Stop)),
            },
        ]
    }

    fn serve_http(
        &mut self,
        name: &'static str,
        listener: TcpListener,
        tls: Option<Arc<ServerTls>>,
        routes: Router,
    ) {
        let stop = CancellationToken::new();
        let limits = HttpLimits::for_operators(DescriptorPlan::of_process().operator);
        let endpoint = Endpoint { listener, tls, routes, limits };
        let task = endpoint.serve(Task::restarted(name), stop.clone(), HTTP_GRACE);
        self.components.started((), name, async move |_| {
            stop.cancel();
            task.await.is_ok()
        });
    }
}

/// `ok`, or the reason; without texts of files unless it `is_whole`.
fn brief(of: &Availability, is_whole: bool) -> Response {
    let (status, text) = match of.status() {
        Ok(()) => (http::StatusCode::OK, "ok".to_owned()),
        Err(why) if is_whole => (http::StatusCode::SERVICE_UNAVAILABLE, why),
        Err(_) => {
            let conditions = of.emitters().into_iter();
            let reasons = conditions.filter_map(|(name, state)| {
                let why = without_texts(&name, state.err()?);
                Some(format!("{name}: {why}"))
            });
            (http::StatusCode::SERVICE_UNAVAILABLE, reasons.collect::<Vec<_>>().join(", "))
        }
    };
    (status, text + "\n").into_response()
}

/// Stands for texts that clients on other hosts do not get.
const FOR_THIS_HOST: &str = "its text is for clients on this host";

/// What clients on other hosts get of the reason of a condition: that of the sources may have what files have.
fn without_texts(name: &str, why: String) -> String {
    match name {
        processing::SYNC => format!("{}; {FOR_THIS_HOST}", processing::NOT_PUBLISHED),
        _ => why,
    }
}

/// What the parts of the process share of the plane.
impl Plane {
    /// Whether every group was published.
    pub fn is_synced(&self) -> bool {
        self.galley.as_ref().is_none_or(|galley: &Arc<Galley>| galley.is_synced())
    }
}
