//! The external effects of a start as one injectable table.
//!
//! [`SystemEffects`] performs them. Tests make single ones fail, and [`Rehearsal`] omits those that would disturb a running server.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::ProbeOptions;
use super::activation::{Endpoint, InheritedSockets};
use super::pid_file::PidFile;
use super::supervisor::Supervisor;
use mixer_base::budget::Share;
use mixer_base::log::{Log, LogOptions, OptionsError};
use mixer_base::metrics::Metrics;
use mixer_base::probe::{Availability, FileProbe};
use mixer_base::task::Task;
use mixer_config::store::{ConfigStore, StoreError};
use mixer_engine::check_cache::CheckCacheLimits;
use mixer_engine::decision::{DecisionLog, DecisionOptions, LogError};
use mixer_engine::runtime::{CacheDirectory, CacheMedium, Configurator, Runtime};
use mixer_engine::snapshot::Snapshot;
use mixer_net::address::ListenAddress;
use mixer_net::connection::ConnectionLimits;
use mixer_net::listener::{
    ListenError, Listener, bind_tcp, check_stale_socket, refuse_served_socket, remove_stale_socket,
};
use mixer_net::service::WorkerService;
use mixer_net::tls::{ServerTls, ServerTlsOptions, TlsError};
use mixer_net::workers::WorkerGroup;
use mixer_spans::{Tracer, TracerTask, TracingError, TracingOptions};
use mixer_stores::StoreOptions;

/// Creates the runtime of background tasks.
const BACKGROUND_THREADS: usize = 2;

/// The name by which a source of configuration knows a rehearsal.
const READER: &str = "mixer server --dry-run";

/// How long it takes to drop a build that waits.
const ABORT_TIME: Duration = Duration::from_millis(200);

/// A tracer and the task that exports its spans.
pub(super) type Tracing = (Arc<Tracer>, TracerTask);

/// The external effects of a start, in the order in which they happen.
pub trait Effects: Send + Sync + 'static {
    /// The thread name of a role; Linux shows at most 15 bytes.
    fn thread_name(&self, role: &str) -> String {
        role.to_owned()
    }

    /// Whether the start only tries the configuration: its handlers leave files and directories alone.
    fn is_rehearsal(&self) -> bool {
        false
    }

    /// Configures the log.
    fn configure_log(&self, options: &LogOptions) -> Result<Log, OptionsError> {
        Log::install(options)
    }

    /// Starts the threads of background tasks.
    fn background(&self) -> io::Result<tokio::runtime::Runtime> {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(BACKGROUND_THREADS)
            .thread_name(self.thread_name("background"))
            .enable_all()
            .build()
    }

    /// Completes with a reason when the start must be aborted.
    fn interrupted(&self) -> Pin<Box<dyn Future<Output = String> + '_>> {
        Box::pin(std::future::pending())
    }

    /// Maintains a probe file if configured.
    fn keep_probe_file(&self, options: &ProbeOptions, availability: &Availability) -> Option<FileProbe> {
        let interval = options.interval.to_std_or_zero();
        let handle = tokio::runtime::Handle::current();
        options
            .is_enabled()
            .then(|| FileProbe::start(options.path.clone(), interval, availability.clone(), &handle))
    }

    /// Sets up tracing if configured.
    fn configure_tracing(
        &self,
        options: &TracingOptions,
        memory: &Arc<Share>,
    ) -> Result<Option<Tracing>, TracingError> {
        Tracer::start(options, "istio-mixer", memory)
    }

    /// Loads the certificates of the API if configured.
    fn load_tls(&self, options: &ServerTlsOptions) -> Result<Option<Arc<ServerTls>>, TlsError> {
        options.check()?;
        if !options.is_enabled() {
            return Ok(None);
        }
        ServerTls::load(options.clone()).map(|tls| Some(Arc::new(tls)))
    }

    /// Takes the sockets from socket activation.
    fn inherited_sockets(&self) -> Result<InheritedSockets, ListenError> {
        InheritedSockets::from_environment()
    }

    /// Refuses the socket of another server.
    fn refuse_served_socket(&self, path: &Path) -> Result<(), ListenError> {
        refuse_served_socket(path)
    }

    /// Removes a stale socket.
    fn remove_socket(&self, path: &Path) -> Result<(), ListenError> {
        remove_stale_socket(path)
    }

    /// Binds the API socket.
    fn listen(&self, address: &ListenAddress, socket_mode: Option<u32>) -> Result<Listener, ListenError> {
        Listener::bind(address, socket_mode)
    }

    /// Registers the metrics of the server.
    fn metrics(&self) -> Result<Arc<Metrics>, String> {
        Ok(Arc::new(Metrics::new()))
    }

    /// Opens the configuration store.
    fn open_store(
        &self,
        options: &StoreOptions,
        metrics: &Arc<Metrics>,
    ) -> Result<Arc<dyn ConfigStore>, StoreError> {
        mixer_stores::open(options, metrics)
    }

    /// The cache of the last good configuration, if configured.
    fn config_cache(&self, directory: &Path) -> Option<Arc<dyn CacheMedium>> {
        let is_set = !directory.as_os_str().is_empty();
        is_set.then(|| Arc::new(CacheDirectory(directory.to_owned())) as Arc<dyn CacheMedium>)
    }

    /// Opens the decision log.
    fn open_decisions(
        &self,
        options: &DecisionOptions,
        memory: &Arc<Share>,
        metrics: &Metrics,
    ) -> Result<Option<Arc<DecisionLog>>, LogError> {
        Ok(DecisionLog::start(options, memory, metrics)?.map(Arc::new))
    }

    /// Creates the runtime that requests use.
    fn new_runtime(&self, empty: Arc<Snapshot>, cache: Option<CheckCacheLimits>) -> Arc<Runtime> {
        Arc::new(Runtime::new(empty, cache))
    }

    /// Starts following the store. Errors: returns the configurator with the reason.
    fn follow_configuration(
        &self,
        configurator: Configurator,
        stop: CancellationToken,
    ) -> Result<Following, (Box<Configurator>, String)> {
        Ok(Following::start(configurator, stop))
    }

    /// Binds an HTTP endpoint to `host:port`.
    fn listen_http(&self, endpoint: Endpoint, address: &str) -> Result<TcpListener, ListenError> {
        let _ = endpoint;
        bind_tcp("tcp", address)
    }

    /// Writes the pid file.
    fn write_pid_file(&self, path: &Path) -> io::Result<PidFile> {
        PidFile::write(path)
    }

    /// The service manager to notify, if any.
    fn supervisor(&self) -> Option<Supervisor> {
        Supervisor::from_environment()
    }
}

/// A configurator that follows its store.
pub struct Following {
    task: tokio::task::JoinHandle<()>,
    configurator: Arc<tokio::sync::Mutex<Configurator>>,
}

impl Following {
    /// Starts following until `stop`.
    pub(super) fn start(configurator: Configurator, stop: CancellationToken) -> Self {
        let configurator = Arc::new(tokio::sync::Mutex::new(configurator));
        let (followed, until) = (Arc::clone(&configurator), stop.clone());
        let task = Task::restarted("configuration").spawn(stop, move || {
            let (configurator, stop) = (Arc::clone(&followed), until.clone());
            async move { configurator.lock().await.run(stop).await }
        });
        Self { task, configurator }
    }

    /// Waits for the end, and returns the configurator and whether it ended by itself within `limit`: a build that hangs is dropped then.
    /// `None`: it cannot be dropped.
    pub(super) async fn end(mut self, limit: Duration) -> Option<(Configurator, bool)> {
        let ended = tokio::time::timeout(limit, &mut self.task).await;
        if ended.is_err() {
            self.task.abort();
            let _ = tokio::time::timeout(ABORT_TIME, &mut self.task).await;
        }
        let configurator = Arc::into_inner(self.configurator).map(tokio::sync::Mutex::into_inner)?;
        Some((configurator, matches!(ended, Ok(Ok(())))))
    }
}

/// The effects on the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEffects;

impl Effects for SystemEffects {}

/// Starts the worker threads. Generic over the service, so not part of the table.
pub(super) fn start_workers<S: WorkerService>(
    effects: &dyn Effects,
    count: usize,
    limits: ConnectionLimits,
    stopping: CancellationToken,
    service: impl Fn(usize) -> S + Send + Sync + Clone + 'static,
) -> io::Result<WorkerGroup> {
    WorkerGroup::start(count, &effects.thread_name("worker"), limits, stopping, service)
}

/// The cache of another server, which a rehearsal reads and leaves alone.
struct ReadOnlyCache(CacheDirectory);

impl CacheMedium for ReadOnlyCache {
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        self.0.read()
    }

    fn write(&self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self) -> io::Result<()> {
        Ok(())
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

/// A start without side effects: no log, probe or pid files, nothing of a `spillDirectory`, no socket removed, no notification.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rehearsal;

impl Effects for Rehearsal {
    fn is_rehearsal(&self) -> bool {
        true
    }

    fn configure_log(&self, options: &LogOptions) -> Result<Log, OptionsError> {
        Log::rehearse(options)
    }

    fn keep_probe_file(&self, _: &ProbeOptions, _: &Availability) -> Option<FileProbe> {
        None
    }

    fn configure_tracing(
        &self,
        options: &TracingOptions,
        _: &Arc<Share>,
    ) -> Result<Option<Tracing>, TracingError> {
        options.check().map(|()| None)
    }

    fn remove_socket(&self, path: &Path) -> Result<(), ListenError> {
        check_stale_socket(path).map(drop)
    }

    fn listen(&self, address: &ListenAddress, socket_mode: Option<u32>) -> Result<Listener, ListenError> {
        match address {
            ListenAddress::Tcp { .. } => Listener::bind(address, socket_mode),
            // A running server keeps its socket; binding a sibling path shows that the directory is usable.
            ListenAddress::Unix(path) => {
                let mut beside = path.clone().into_os_string();
                beside.push(format!(".{}", std::process::id()));
                Listener::bind(&ListenAddress::Unix(beside.into()), socket_mode)
            }
        }
    }

    fn open_store(
        &self,
        options: &StoreOptions,
        metrics: &Arc<Metrics>,
    ) -> Result<Arc<dyn ConfigStore>, StoreError> {
        let options = StoreOptions { reader: Some(READER), ..options.clone() };
        mixer_stores::open(&options, metrics)
    }

    fn open_decisions(
        &self,
        options: &DecisionOptions,
        _: &Arc<Share>,
        _: &Metrics,
    ) -> Result<Option<Arc<DecisionLog>>, LogError> {
        DecisionLog::rehearse(options).map(|()| None)
    }

    fn config_cache(&self, directory: &Path) -> Option<Arc<dyn CacheMedium>> {
        let is_set = !directory.as_os_str().is_empty();
        is_set.then(|| Arc::new(ReadOnlyCache(CacheDirectory(directory.to_owned()))) as Arc<dyn CacheMedium>)
    }

    fn write_pid_file(&self, path: &Path) -> io::Result<PidFile> {
        PidFile::rehearse(path)
    }

    fn supervisor(&self) -> Option<Supervisor> {
        None
    }
}
