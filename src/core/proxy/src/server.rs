//! Start and stop, in the order of Envoy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use socket2::Type;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::{CancellationToken, DropGuard};

use mixer_base::log::Log;
use mixer_base::task::Task;
use mixer_net::http::{Endpoint, HttpLimits};

use crate::access_log::AccessLogFiles;
use crate::admin;
use crate::bodies::Budget;
pub use crate::bodies::DEFAULT_BODY_MEMORY;
use crate::bootstrap::{Bootstrap, Discovery, KnownClusters};
use crate::certificates;
use crate::cluster::{Cluster, detect_outliers, forget_destinations, resolve_all};
use crate::context::Shared;
pub use crate::error::StartError;
use crate::health::check_hosts;
use crate::lds::Lds;
use crate::listener_manager::ListenerManager;
use crate::mixer::FilterBuilder;
use crate::node::NodeIdentity;
pub use crate::running::{DrainOptions, Options};
use crate::running::{Running, State};
use crate::socket_factory::{SocketFactory, reason};
use crate::stats::{Scope, Stats, Value};

/// Connections of the admin interface that wait to be accepted.
const ADMIN_BACKLOG: u32 = 128;

/// Runs a proxy until it is told to end.
///
/// Errors: it cannot start; what was started is stopped.
pub fn serve(bootstrap: Bootstrap, options: Options, log: Log) -> Result<(), StartError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let main = builder.worker_threads(1).thread_name("proxy-main").enable_all().build();
    let main = main.map_err(|error| StartError::Thread(error.to_string()))?;
    let outcome = main.block_on(run(bootstrap, options, log));
    main.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn run(bootstrap: Bootstrap, mut options: Options, log: Log) -> Result<(), StartError> {
    options.concurrency = options.concurrency.max(1);
    let mut signals = Signals::listen().map_err(|error| StartError::Thread(error.to_string()))?;
    let stats = Arc::new(Stats::default());
    let clusters: Vec<_> =
        bootstrap.clusters.iter().map(|config| Cluster::new(config.clone(), &stats)).collect();
    let node = NodeIdentity {
        id: bootstrap.node_id.clone(),
        cluster: bootstrap.node_cluster.clone(),
        metadata: bootstrap.document.pointer("/node/metadata").cloned().unwrap_or_default(),
    };
    let (draining, connections) = (AtomicBool::new(false), AtomicU64::new(0));
    let bodies = Budget::new(options.body_memory);
    let shared = Arc::new(Shared { clusters, node, draining, connections, bodies });
    let lds = bootstrap.listener_file.clone().map(|path| {
        let mut clusters = KnownClusters::default();
        for cluster in &bootstrap.clusters {
            clusters.add(cluster);
        }
        Lds::new(path, clusters, &stats)
    });
    let running = Arc::new(Running {
        lds,
        bootstrap,
        options,
        stats,
        shared,
        logs: AccessLogFiles::default(),
        log,
        started: Instant::now(),
        quit: CancellationToken::new(),
        listeners: std::sync::OnceLock::new(),
        state: AtomicU8::new(State::PreInitializing as u8),
        failing: AtomicBool::new(false),
    });
    add_server_stats(&running);
    let stop = CancellationToken::new();
    start_admin(&running, &stop)?;
    running.set_state(State::Initializing);
    let outcome = run_listeners(&running, &mut signals).await;
    if let Some(listeners) = running.listeners.get() {
        // Joining blocks; the admin interface answers no more.
        tokio::task::block_in_place(|| listeners.stop());
    }
    stop.cancel();
    running.logs.stop();
    tracing::info!("exiting");
    outcome
}

/// Binds and starts the admin interface, before clusters and listeners.
fn start_admin(running: &Arc<Running>, stop: &CancellationToken) -> Result<(), StartError> {
    let Some(address) = running.bootstrap.admin else {
        tracing::warn!("No admin address given, so no admin HTTP server started.");
        return Ok(());
    };
    let failed = |error: std::io::Error| {
        StartError::Listen(format!("cannot listen on '{address}': {}", reason(&error)))
    };
    let factory = SocketFactory::bind(address, Type::STREAM, false, 1).map_err(StartError::Listen)?;
    let listener =
        factory.socket(0, ADMIN_BACKLOG).and_then(tokio::net::TcpListener::from_std).map_err(failed)?;
    let bound = factory.address;
    if let Some(path) = &running.options.admin_address_path {
        let written = std::fs::write(path, bound.to_string());
        written.map_err(|error| {
            let why = reason(&error);
            StartError::AdminAddress(format!(
                "cannot open admin address output file {}: {why}",
                path.display()
            ))
        })?;
    }
    tracing::info!("Starting admin HTTP server at {bound}");
    let endpoint = Endpoint {
        listener,
        tls: None,
        routes: admin::routes(running),
        limits: HttpLimits::for_operators(64),
    };
    drop(endpoint.serve(Task::restarted("proxy admin"), stop.clone(), Duration::from_millis(200)));
    Ok(())
}

async fn run_listeners(running: &Arc<Running>, signals: &mut Signals) -> Result<(), StartError> {
    let bootstrap = &running.bootstrap;
    tracing::info!("loading {} cluster(s)", bootstrap.clusters.len());
    let initialized = start_resolving(running);
    tracing::info!("loading {} listener(s)", bootstrap.listeners.len());
    let options = &running.options;
    let (shared, stats) = (Arc::clone(&running.shared), Arc::clone(&running.stats));
    let mixer = FilterBuilder::new(bootstrap, options.exact_tcp_deltas);
    let manager = ListenerManager::new(options.concurrency, shared, stats, mixer, options.drain);
    for listener in &bootstrap.listeners {
        manager.add(listener.clone(), &running.logs)?;
    }
    let _certificates = follow_certificates(running);
    if let Some(lds) = &running.lds {
        lds.begin(&manager, &running.logs).await;
    }
    running.logs.start().map_err(|error| StartError::Thread(error.to_string()))?;
    let manager = running.listeners.get_or_init(|| manager);
    tokio::select! {
        () = initialized => tracing::info!("cm init: all clusters initialized"),
        () = end(running, signals) => return Ok(()),
    }
    tracing::info!("all dependencies initialized. starting workers");
    manager.start_workers().await?;
    let ticking = Arc::clone(manager);
    Task::restarted("proxy clock").spawn(running.quit.clone(), move || {
        let manager = Arc::clone(&ticking);
        async move { manager.tick().await }
    });
    if running.lds.is_some() {
        let running = Arc::clone(running);
        Task::restarted("proxy listener file")
            .spawn(running.quit.clone(), move || follow_listeners(Arc::clone(&running)));
    }
    tracing::info!("starting main dispatch loop");
    // What only the start needed.
    mixer_base::resident::release_startup_code();
    running.set_state(State::Live);
    end(running, signals).await;
    drain(running).await;
    Ok(())
}

/// Follows the file of listeners.
async fn follow_listeners(running: Arc<Running>) {
    if let (Some(lds), Some(manager)) = (&running.lds, running.listeners.get()) {
        lds.follow(manager, &running.logs).await;
    }
}

/// Follows the files of the certificates of clusters until what is returned is dropped.
fn follow_certificates(running: &Running) -> DropGuard {
    let stop = CancellationToken::new();
    for cluster in &running.bootstrap.clusters {
        if let Some(context) = &cluster.tls {
            let scope = Scope::Cluster(cluster.name.clone());
            certificates::follow_files(context, &cluster.name, &running.stats, &scope, stop.clone());
        }
    }
    stop.drop_guard()
}

/// Starts the resolution of names, health checks and outlier detection. Completes when each name was tried, and each host checked, once.
fn start_resolving(running: &Running) -> impl Future<Output = ()> + use<> {
    let (done, mut tried) = tokio::sync::mpsc::channel::<()>(1);
    for cluster in &running.shared.clusters {
        let task = |name| Task::restarted(name).of(cluster.config.name.clone());
        if matches!(cluster.config.discovery, Discovery::Dns { .. }) {
            let (mut done, cluster) = (Some(done.clone()), Arc::clone(cluster));
            task("proxy dns").spawn(running.quit.clone(), move || {
                let first = done.take();
                resolve_all(Arc::clone(&cluster), move || drop(first))
            });
        }
        if matches!(cluster.config.discovery, Discovery::OriginalDestination(_)) {
            let cluster = Arc::clone(cluster);
            task("proxy destinations")
                .spawn(running.quit.clone(), move || forget_destinations(Arc::clone(&cluster)));
        }
        if cluster.config.health_check.is_some() {
            let (mut done, cluster) = (Some(done.clone()), Arc::clone(cluster));
            task("proxy health checks")
                .spawn(running.quit.clone(), move || check_hosts(Arc::clone(&cluster), done.take()));
        }
        if cluster.config.outlier.is_some() {
            let cluster = Arc::clone(cluster);
            task("proxy outlier detection")
                .spawn(running.quit.clone(), move || detect_outliers(Arc::clone(&cluster)));
        }
    }
    drop(done);
    async move {
        // Nothing is ever sent: the channel ends with its last sender.
        let _ = tried.recv().await;
    }
}

/// Waits until the process is to end; other signals are handled.
async fn end(running: &Running, signals: &mut Signals) {
    loop {
        tokio::select! {
            name = signals.next() => match name {
                "SIGHUP" => tracing::warn!("caught and eating SIGHUP."),
                "SIGUSR1" => {
                    tracing::info!("caught SIGUSR1: reopening access logs");
                    running.logs.reopen();
                }
                name => return tracing::warn!("caught {name}"),
            },
            () = running.quit.cancelled() => return,
        }
    }
}

/// Lets connections end: responses close theirs, and new ones are still accepted until the time is up.
async fn drain(running: &Running) {
    let limit = running.options.terminate_drain;
    if limit.is_zero() || running.quit.is_cancelled() {
        return;
    }
    tracing::info!("draining for {limit:?} at most");
    running.fail_health_checks(true);
    let deadline = tokio::time::Instant::now() + limit;
    let mut quiet = 0;
    // A quarter of a second without a connection is the end of a drain that clients have noticed.
    while quiet < 5 {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
            () = running.quit.cancelled() => return,
        }
        if tokio::time::Instant::now() >= deadline {
            return;
        }
        let open = running.shared.connections.load(Ordering::Relaxed);
        quiet = if open == 0 { quiet + 1 } else { 0 };
    }
}

fn add_server_stats(running: &Arc<Running>) {
    let stats = &running.stats;
    let of = |read: fn(&Running) -> Value| {
        let running = Arc::downgrade(running);
        move || running.upgrade().map_or(Value::Gauge(0), |running| read(&running))
    };
    let server = Scope::Server;
    stats.computed(&server, "live", of(|running| Value::Gauge(u64::from(running.state() == State::Live))));
    stats.computed(&server, "state", of(|running| Value::Gauge(running.state() as u64)));
    stats.computed(&server, "uptime", of(|running| Value::Gauge(running.started.elapsed().as_secs())));
    let workers = |running: &Running| Value::Gauge(u64::try_from(running.options.concurrency).unwrap_or(0));
    stats.computed(&server, "concurrency", of(workers));
    let connections = |running: &Running| Value::Gauge(running.shared.connections.load(Ordering::Relaxed));
    stats.computed(&server, "total_connections", of(connections));
    let bodies = |running: &Running| Value::Gauge(u64::try_from(running.shared.bodies.held()).unwrap_or(0));
    stats.computed(&server, "body_memory", of(bodies));
    let clusters = |running: &Running| u64::try_from(running.shared.clusters.len()).unwrap_or(0);
    let counters = &running.logs.counters;
    for name in ["write_completed", "write_failed", "lines_lost"] {
        let counters = Arc::clone(counters);
        let read = move || {
            match name {
                "write_completed" => &counters.completed,
                "write_failed" => &counters.failed,
                _ => &counters.lost,
            }
            .load(Ordering::Relaxed)
        };
        stats.computed(&Scope::Filesystem, name, move || Value::Counter(read()));
    }
    let scope = Scope::ClusterManager;
    for name in ["cluster_added", "cluster_modified", "cluster_removed"] {
        let is_added = name == "cluster_added";
        let running = Arc::downgrade(running);
        let count = move || running.upgrade().filter(|_| is_added).map_or(0, |running| clusters(&running));
        stats.computed(&scope, name, move || Value::Counter(count()));
    }
    stats.computed(
        &scope,
        "active_clusters",
        of(move |running| Value::Gauge(u64::try_from(running.shared.clusters.len()).unwrap_or(0))),
    );
}

/// The signals that the proxy handles.
struct Signals([(tokio::signal::unix::Signal, &'static str); 4]);

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self([
            (signal(SignalKind::terminate())?, "SIGTERM"),
            (signal(SignalKind::interrupt())?, "SIGINT"),
            (signal(SignalKind::hangup())?, "SIGHUP"),
            (signal(SignalKind::user_defined1())?, "SIGUSR1"),
        ]))
    }

    async fn next(&mut self) -> &'static str {
        std::future::poll_fn(|cx| {
            for (signal, name) in &mut self.0 {
                if signal.poll_recv(cx).is_ready() {
                    return std::task::Poll::Ready(*name);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}
