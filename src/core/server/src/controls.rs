//! Operator controls of a running server.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use super::health::Health;
use super::supervisor::Supervisor;
use mixer_base::log::Log;
use mixer_base::metrics::Metrics;
use mixer_config::store::ConfigStore;
use mixer_engine::runtime::Runtime;
use mixer_envoy::EnvoyShared;
use mixer_net::workers::WorkerGroup;

/// State and actions of a running server, for signals, ControlZ and the monitoring endpoint.
pub struct Controls {
    /// The published configuration.
    pub runtime: Arc<Runtime>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The log of the process.
    pub log: Log,
    /// Liveness and readiness.
    pub health: Health,
    /// The configuration store.
    pub store: Arc<dyn ConfigStore>,
    /// The worker threads.
    pub workers: Arc<WorkerGroup>,
    /// The services for Envoy, if they are served.
    pub(crate) envoy: Option<Arc<EnvoyShared>>,
    /// Reload actions by name.
    reloads: Vec<(&'static str, Reload)>,
    supervisor: OnceLock<Supervisor>,
    stop: watch::Sender<Option<String>>,
}

/// Reloads files. Errors: why the previous state is kept.
pub type Reload = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

impl std::fmt::Debug for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controls").field("health", &self.health).finish_non_exhaustive()
    }
}

/// The constructor arguments of [`Controls`].
pub(super) struct Parts {
    pub(super) runtime: Arc<Runtime>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) log: Log,
    pub(super) health: Health,
    pub(super) store: Arc<dyn ConfigStore>,
    pub(super) workers: Arc<WorkerGroup>,
    pub(super) envoy: Option<Arc<EnvoyShared>>,
    pub(super) reloads: Vec<(&'static str, Reload)>,
}

impl Controls {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { runtime, metrics, log, health, store, workers, envoy, reloads } = parts;
        Self {
            runtime,
            metrics,
            log,
            health,
            store,
            workers,
            envoy,
            reloads,
            supervisor: OnceLock::new(),
            stop: watch::Sender::new(None),
        }
    }

    /// Requests a stop, like SIGTERM. `why` is for the log; the first request wins.
    pub(crate) fn request_stop(&self, why: &str) {
        self.stop.send_if_modified(|asked| {
            let first = asked.is_none();
            asked.get_or_insert_with(|| why.to_owned());
            first
        });
    }

    /// Waits for a stop request, such as that of ControlZ, and returns its reason.
    pub async fn stop_requested(&self) -> String {
        let mut asked = self.stop.subscribe();
        match asked.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            // The sender is part of `self`, which is borrowed.
            Err(_) => std::future::pending().await,
        }
    }

    /// SIGUSR1: rotates the log and reopens the other log files.
    pub fn rotate_log(&self) {
        match self.log.rotate() {
            Ok(()) => tracing::info!("log rotated"),
            Err(error) => tracing::error!("log rotation failed: {error}"),
        }
    }

    /// SIGHUP: reopens log files, reloads certificates, rescans the store. What fails to load keeps its previous state.
    pub fn reload(&self) {
        self.reload_with(true);
    }

    /// [`reload`](Self::reload), and says whether the settings are reloaded, too.
    ///
    /// `settings_apply`: whether the settings of the command line and its file could be read again.
    pub fn reload_with(&self, settings_apply: bool) {
        if let Some(supervisor) = self.supervisor.get() {
            supervisor.reloading();
        }
        if let Err(error) = self.log.reopen() {
            tracing::error!("reopening log files failed: {error}");
        }
        for (what, reload) in &self.reloads {
            match reload() {
                Ok(()) => tracing::info!("{what} reloaded"),
                Err(error) => tracing::error!("reload of {what} failed, the previous state is kept: {error}"),
            }
        }
        self.store.rescan();
        match settings_apply {
            true => tracing::info!("reloaded"),
            false => tracing::warn!("reloaded, except for the settings, which have an error"),
        }
        if let Some(supervisor) = self.supervisor.get() {
            supervisor.ready(&self.status_line());
        }
    }

    /// SIGUSR2: logs snapshot, routes, workers and handlers.
    pub fn dump_to_log(&self) {
        let published = self.runtime.load_full();
        let snapshot = published.routes.snapshot();
        tracing::info!("dump: {}", self.status_line());
        let json = |value: Result<String, serde_json::Error>| value.unwrap_or_else(|e| e.to_string());
        let mut dump = mixer_engine::snapshot::dump(snapshot);
        dump.mask_secrets();
        tracing::info!("dump: snapshot {}", json(serde_json::to_string(&dump)));
        let handlers = published.routes.handlers();
        let outline = mixer_engine::routing::outline(snapshot, &|h| handlers.get(&h.key).is_some());
        tracing::info!("dump: routes {}", json(serde_json::to_string(&outline)));
        for (number, connections) in self.workers.connections().into_iter().enumerate() {
            tracing::info!(connections, "dump: worker {number}");
        }
        for handler in handlers.iter() {
            let (name, tasks) = (handler.name(), handler.live_tasks());
            tracing::info!(tasks, "dump: handler {name}");
        }
    }

    /// SIGQUIT: threads with their states, and live tasks.
    pub fn thread_report(&self) -> String {
        let mut text = String::from("threads:\n");
        for (id, name, state) in threads() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {id:>7}  {name:<16} {state}");
        }
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            let metrics = handle.metrics();
            let (tasks, queued) = (metrics.num_alive_tasks(), metrics.global_queue_depth());
            let _ = writeln!(text, "background: {tasks} tasks alive, {queued} queued");
        }
        for (number, connections) in self.workers.connections().into_iter().enumerate() {
            let turned = self.workers.heartbeats().get(number).map_or(Duration::ZERO, |t| t.elapsed());
            let _ = writeln!(
                text,
                "worker {number}: {connections} connections, last heartbeat {} ms ago",
                turned.as_millis()
            );
        }
        text
    }

    /// A one-line status.
    pub(crate) fn status_line(&self) -> String {
        let published = self.runtime.load_full();
        let counts = &published.routes.snapshot().counts;
        format!(
            "serving snapshot {}: {} rules, {} handlers, {} instances, {} connections",
            published.id(),
            counts.rule_configs,
            counts.handler_configs,
            counts.instance_configs,
            self.workers.connections().iter().sum::<usize>()
        )
    }

    /// Notifies the service manager of readiness and keeps it for later notifications.
    pub(super) fn supervise(&self, supervisor: Supervisor) {
        supervisor.ready(&self.status_line());
        // Set once.
        let _ = self.supervisor.set(supervisor);
    }

    /// The service manager, if any.
    pub(super) fn supervisor(&self) -> Option<&Supervisor> {
        self.supervisor.get()
    }
}

/// Id, name and state of every thread, by id.
fn threads() -> Vec<(u32, String, String)> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let mut found: Vec<(u32, String, String)> = tasks
        .filter_map(|task| {
            let read = |name: &str| std::fs::read_to_string(task.path().join(name)).ok();
            let status = read("status")?;
            let state = status.lines().find_map(|l| l.strip_prefix("State:")).unwrap_or_default();
            let id = task.file_name().to_string_lossy().parse().ok()?;
            Some((id, read("comm")?.trim().to_owned(), state.trim().to_owned()))
        })
        .collect();
    found.sort_unstable();
    found
}
