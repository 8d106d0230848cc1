//! Everything that the start of a server does to the world outside, in one table.
//!
//! [`SystemEffects`] does it; tests replace single entries to make them fail, and [`Rehearsal`] leaves out what would disturb a
//! server that is running already. Spec: cli-operations.md 3.1 and 3.2.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::ProbeOptions;
use super::activation::InheritedSockets;
use super::pid_file::PidFile;
use super::supervisor::Supervisor;
use mixer_base::log::{Log, LogOptions, OptionsError};
use mixer_base::metrics::Metrics;
use mixer_base::probe::{Availability, FileProbe};
use mixer_config::store::{self, ConfigStore, StoreError, WhenLost};
use mixer_engine::check_cache::CheckCacheLimits;
use mixer_engine::decision::{DecisionLog, DecisionOptions, LogError};
use mixer_engine::runtime::{Configurator, Runtime};
use mixer_engine::snapshot::Snapshot;
use mixer_net::address::ListenAddress;
use mixer_net::connection::{ConnectionLimits, WorkerService};
use mixer_net::listener::{ListenError, Listener, bind_tcp, check_stale_socket, remove_stale_socket};
use mixer_net::tls::{ServerTls, ServerTlsOptions, TlsError};
use mixer_net::workers::WorkerGroup;
use mixer_spans::{Tracer, TracerTask, TracingError, TracingOptions};

/// Threads for everything but requests.
const BACKGROUND_THREADS: usize = 2;

/// A tracer, and the task that sends its spans.
pub(super) type Tracing = (Arc<Tracer>, TracerTask);

/// An HTTP endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// Metrics, version, health, profiles.
    Monitoring,
    /// ControlZ.
    Introspection,
    /// The HTTP flavour of authorization.
    Envoy,
}

/// The external effects of a start, in the order in which they happen.
pub trait Effects: Send + Sync + 'static {
    /// What threads of a role are called; at most 15 bytes are seen outside.
    fn thread_name(&self, role: &str) -> String {
        role.to_owned()
    }

    /// Opens the log of the process.
    fn configure_log(&self, options: &LogOptions) -> Result<Log, OptionsError> {
        Log::install(options)
    }

    /// Starts the threads for everything but requests.
    fn background(&self) -> io::Result<tokio::runtime::Runtime> {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(BACKGROUND_THREADS)
            .thread_name(self.thread_name("background"))
            .enable_all()
            .build()
    }

    /// Ends, with the reason, when the start shall be given up.
    fn interrupted(&self) -> Pin<Box<dyn Future<Output = String> + '_>> {
        Box::pin(std::future::pending())
    }

    /// Begins to keep a probe file, if there is to be one.
    fn keep_probe_file(&self, options: &ProbeOptions, availability: &Availability) -> Option<FileProbe> {
        let interval = options.interval.to_std_or_zero();
        let handle = tokio::runtime::Handle::current();
        options
            .is_enabled()
            .then(|| FileProbe::start(options.path.clone(), interval, availability.clone(), &handle))
    }

    /// Begins to trace, if anything is to be traced.
    fn configure_tracing(&self, options: &TracingOptions) -> Result<Option<Tracing>, TracingError> {
        Tracer::start(options, "istio-mixer")
    }

    /// Reads the certificates of the API port, if there are to be any.
    fn load_tls(&self, options: &ServerTlsOptions) -> Result<Option<Arc<ServerTls>>, TlsError> {
        options.check()?;
        if !options.is_enabled() {
            return Ok(None);
        }
        ServerTls::load(options.clone()).map(|tls| Some(Arc::new(tls)))
    }

    /// Takes the sockets that a supervisor opened for this process.
    fn inherited_sockets(&self) -> Result<InheritedSockets, ListenError> {
        InheritedSockets::from_environment()
    }

    /// Removes the socket that an earlier process left behind.
    fn remove_socket(&self, path: &Path) -> Result<(), ListenError> {
        remove_stale_socket(path)
    }

    /// Opens the socket of the API.
    fn listen(&self, address: &ListenAddress, socket_mode: Option<u32>) -> Result<Listener, ListenError> {
        Listener::bind(address, socket_mode)
    }

    /// Registers the metrics of the server.
    fn metrics(&self) -> Result<Arc<Metrics>, String> {
        Ok(Arc::new(Metrics::new()))
    }

    /// Opens the store of the configuration.
    fn open_store(&self, url: &str, when_lost: WhenLost) -> Result<Arc<dyn ConfigStore>, StoreError> {
        store::open_with(url, when_lost).map(Arc::from)
    }

    /// Opens the files that decisions are written to.
    fn open_decisions(
        &self,
        options: &DecisionOptions,
        metrics: &Metrics,
    ) -> Result<Option<Arc<DecisionLog>>, LogError> {
        Ok(DecisionLog::start(options, metrics)?.map(Arc::new))
    }

    /// Makes what requests run on.
    fn new_runtime(&self, empty: Arc<Snapshot>, cache: Option<CheckCacheLimits>) -> Arc<Runtime> {
        Arc::new(Runtime::new(empty, cache))
    }

    /// Begins to follow the store. Errors: the configurator comes back, with the reason.
    fn follow_configuration(
        &self,
        configurator: Configurator,
        stop: CancellationToken,
    ) -> Result<tokio::task::JoinHandle<Configurator>, (Box<Configurator>, String)> {
        Ok(tokio::spawn(configurator.run(stop)))
    }

    /// Opens the socket of an HTTP endpoint on `host:port`.
    fn listen_http(&self, endpoint: Endpoint, address: &str) -> Result<TcpListener, ListenError> {
        let _ = endpoint;
        bind_tcp("tcp", address)
    }

    /// Writes the number of the process into a file.
    fn write_pid_file(&self, path: &Path) -> io::Result<PidFile> {
        PidFile::write(path)
    }

    /// Who supervises the process and wants to be told of its state.
    fn supervisor(&self) -> Option<Supervisor> {
        Supervisor::from_environment()
    }
}

/// The effects of the world as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEffects;

impl Effects for SystemEffects {}

/// Starts the worker threads. Not in the table itself, because a service is of any type: the table decides the names alone.
pub(super) fn start_workers<S: WorkerService>(
    effects: &dyn Effects,
    count: usize,
    limits: ConnectionLimits,
    stopping: CancellationToken,
    service: impl Fn(usize) -> S + Send + Sync + Clone + 'static,
) -> io::Result<WorkerGroup> {
    WorkerGroup::start(count, &effects.thread_name("worker"), limits, stopping, service)
}

/// A start that leaves no trace: no probe files, no pid file, no socket removed, nobody told.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rehearsal;

impl Effects for Rehearsal {
    fn keep_probe_file(&self, _: &ProbeOptions, _: &Availability) -> Option<FileProbe> {
        None
    }

    fn configure_tracing(&self, options: &TracingOptions) -> Result<Option<Tracing>, TracingError> {
        options.check().map(|()| None)
    }

    fn remove_socket(&self, path: &Path) -> Result<(), ListenError> {
        check_stale_socket(path).map(drop)
    }

    fn listen(&self, address: &ListenAddress, socket_mode: Option<u32>) -> Result<Listener, ListenError> {
        match address {
            ListenAddress::Tcp { .. } => Listener::bind(address, socket_mode),
            // A server that is running keeps its socket: a name beside it shows that one can be made there.
            ListenAddress::Unix(path) => {
                let mut beside = path.clone().into_os_string();
                beside.push(format!(".{}", std::process::id()));
                Listener::bind(&ListenAddress::Unix(beside.into()), socket_mode)
            }
        }
    }

    fn open_decisions(
        &self,
        options: &DecisionOptions,
        _: &Metrics,
    ) -> Result<Option<Arc<DecisionLog>>, LogError> {
        options.check().map(|()| None).map_err(|error| LogError(error.0))
    }

    fn write_pid_file(&self, path: &Path) -> io::Result<PidFile> {
        PidFile::rehearse(path)
    }

    fn supervisor(&self) -> Option<Supervisor> {
        None
    }
}
