//! Fails every step of the start in turn and checks that everything is rolled back.

#[path = "../../../../../tests/support/ports.rs"]
mod ports;

use std::io;
use std::net::TcpListener as StdListener;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::super::IntrospectionOptions;
use super::super::activation::Endpoint;
use super::super::effects::{Following, SystemEffects, Tracing};
use super::super::pid_file::PidFile;
use super::super::server::Server;
use super::super::supervisor::Supervisor;
use super::*;
use mixer_attribute::SignedDuration;
use mixer_base::budget::Share;
use mixer_base::log::{LogOptions, OptionsError};
use mixer_base::probe::Availability;
use mixer_config::store::{StoreContents, StoreError};
use mixer_engine::check_cache::CheckCacheLimits;
use mixer_engine::decision::{DecisionLog, DecisionOptions, LogError};
use mixer_engine::runtime::Configurator;
use mixer_engine::snapshot::Snapshot;
use mixer_net::listener::ListenError;
use mixer_net::tls::{ServerTlsOptions, TlsError};
use mixer_spans::{TracingError, TracingOptions};
use mixer_stores::StoreOptions;

/// A step that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Log,
    Background,
    Tracing,
    Tls,
    Inherited,
    RemoveSocket,
    Listen,
    OpenStore,
    ReadStore,
    Build,
    Metrics,
    FirstConfiguration,
    Decisions,
    NewRuntime,
    Monitoring,
    Follow,
    PidFile,
    Envoy,
    Nothing,
}

/// The system effects with one failing step; records what the others created.
struct Faulty {
    fails: Step,
    name: String,
    made: Mutex<Made>,
    busy: Arc<BusyStore>,
}

/// What must be released in the end.
#[derive(Default)]
struct Made {
    stores: Vec<Weak<dyn ConfigStore>>,
    metrics: Vec<Weak<Metrics>>,
    runtimes: Vec<Weak<Runtime>>,
}

impl Faulty {
    fn new(fails: Step) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Short: a thread has a name of 15 bytes.
        Self { fails, name: format!("f{number}"), made: Mutex::default(), busy: Arc::default() }
    }

    fn fails(&self, step: Step) -> bool {
        self.fails == step
    }

    /// Threads of this start that are alive.
    fn threads(&self) -> Vec<String> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("comm")).ok());
        let prefix = format!("{}-", self.name);
        names.map(|n| n.trim().to_owned()).filter(|n| n.starts_with(&prefix)).collect()
    }

    /// Threads end a moment after they are joined as far as the system's list is concerned.
    fn threads_left(&self) -> Vec<String> {
        for _ in 0..100 {
            if self.threads().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.threads()
    }
}

/// A store on a file system that hangs.
struct HangingStore;

impl ConfigStore for HangingStore {
    fn url(&self) -> &str {
        "hanging://"
    }

    fn contents(&self) -> Arc<StoreContents> {
        Arc::default()
    }

    fn loaded(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

/// A store of which building a configuration takes until it is released: it occupies the thread.
#[derive(Default)]
struct BusyStore {
    entered: tokio::sync::Notify,
    released: Mutex<bool>,
    release: parking_lot::Condvar,
}

impl BusyStore {
    fn release(&self) {
        *self.released.lock() = true;
        self.release.notify_all();
    }
}

impl ConfigStore for BusyStore {
    fn url(&self) -> &str {
        "busy://"
    }

    fn contents(&self) -> Arc<StoreContents> {
        self.entered.notify_one();
        let mut released = self.released.lock();
        while !*released {
            self.release.wait(&mut released);
        }
        Arc::default()
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

fn refused(text: &str) -> ListenError {
    ListenError(text.to_owned())
}

impl Effects for Faulty {
    fn thread_name(&self, role: &str) -> String {
        format!("{}-{role}", self.name)
    }

    fn configure_log(&self, options: &LogOptions) -> Result<Log, OptionsError> {
        match self.fails(Step::Log) {
            true => Err(OptionsError("invalid output level 'loud'".to_owned())),
            // Not the log of the process: tests run side by side.
            false => Log::new(options),
        }
    }

    fn background(&self) -> io::Result<tokio::runtime::Runtime> {
        if self.fails(Step::Background) {
            return Err(io::Error::other("no more threads"));
        }
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(self.thread_name("bg"))
            .enable_all()
            .build()
    }

    fn interrupted(&self) -> Pin<Box<dyn Future<Output = String> + '_>> {
        Box::pin(async {
            self.busy.entered.notified().await;
            "interrupted by SIGTERM".to_owned()
        })
    }

    fn configure_tracing(
        &self,
        options: &TracingOptions,
        memory: &Arc<Share>,
    ) -> Result<Option<Tracing>, TracingError> {
        match self.fails(Step::Tracing) {
            true => Err(TracingError("no collector".to_owned())),
            false => SystemEffects.configure_tracing(options, memory),
        }
    }

    fn remove_socket(&self, path: &Path) -> Result<(), ListenError> {
        match self.fails(Step::RemoveSocket) {
            true => Err(refused("unable to remove unix://x: not a socket")),
            false => SystemEffects.remove_socket(path),
        }
    }

    fn inherited_sockets(&self) -> Result<InheritedSockets, ListenError> {
        match self.fails(Step::Inherited) {
            true => Err(refused("LISTEN_FDS: the socket `grpc` is there twice")),
            false => Ok(InheritedSockets::default()),
        }
    }

    fn load_tls(&self, options: &ServerTlsOptions) -> Result<Option<Arc<ServerTls>>, TlsError> {
        match self.fails(Step::Tls) {
            true => Err(TlsError::Settings("no key".to_owned())),
            false => SystemEffects.load_tls(options),
        }
    }

    fn listen(&self, address: &ListenAddress, mode: Option<u32>) -> Result<Listener, ListenError> {
        match self.fails(Step::Listen) {
            true => Err(refused("listen unix x: bind: address already in use")),
            false => SystemEffects.listen(address, mode),
        }
    }

    fn open_store(
        &self,
        options: &StoreOptions,
        metrics: &Arc<Metrics>,
    ) -> Result<Arc<dyn ConfigStore>, StoreError> {
        if self.fails(Step::ReadStore) {
            let store: Arc<dyn ConfigStore> = Arc::new(HangingStore);
            self.made.lock().stores.push(Arc::downgrade(&store));
            return Ok(store);
        }
        if self.fails(Step::Build) {
            return Ok(Arc::clone(&self.busy) as Arc<dyn ConfigStore>);
        }
        let mut options = options.clone();
        if self.fails(Step::OpenStore) {
            "nosuch://store".clone_into(&mut options.url);
        }
        let store = SystemEffects.open_store(&options, metrics)?;
        self.made.lock().stores.push(Arc::downgrade(&store));
        Ok(store)
    }

    fn metrics(&self) -> Result<Arc<Metrics>, String> {
        if self.fails(Step::Metrics) {
            return Err("registered twice".to_owned());
        }
        let metrics = SystemEffects.metrics()?;
        self.made.lock().metrics.push(Arc::downgrade(&metrics));
        Ok(metrics)
    }

    fn new_runtime(&self, empty: Arc<Snapshot>, cache: Option<CheckCacheLimits>) -> Arc<Runtime> {
        assert!(!self.fails(Step::NewRuntime), "no runtime today");
        let runtime = SystemEffects.new_runtime(empty, cache);
        self.made.lock().runtimes.push(Arc::downgrade(&runtime));
        runtime
    }

    fn follow_configuration(
        &self,
        configurator: Configurator,
        stop: CancellationToken,
    ) -> Result<Following, (Box<Configurator>, String)> {
        match self.fails(Step::Follow) {
            true => Err((Box::new(configurator), "no watches left".to_owned())),
            false => SystemEffects.follow_configuration(configurator, stop),
        }
    }

    fn listen_http(&self, endpoint: Endpoint, address: &str) -> Result<TcpListener, ListenError> {
        match (self.fails(Step::Monitoring), endpoint) {
            (true, Endpoint::Monitoring) => Err(refused("listen tcp :1: bind: address already in use")),
            _ if endpoint == Endpoint::Envoy && self.fails(Step::Envoy) => {
                Err(refused("listen tcp :2: bind: permission denied"))
            }
            _ => SystemEffects.listen_http(endpoint, address),
        }
    }

    fn open_decisions(
        &self,
        options: &DecisionOptions,
        memory: &Arc<Share>,
        metrics: &Metrics,
    ) -> Result<Option<Arc<DecisionLog>>, LogError> {
        match self.fails(Step::Decisions) {
            true => Err(LogError("cannot open decision log `x`: disk full".to_owned())),
            false => SystemEffects.open_decisions(options, memory, metrics),
        }
    }

    fn write_pid_file(&self, path: &Path) -> io::Result<PidFile> {
        match self.fails(Step::PidFile) {
            true => Err(io::Error::other("disk full")),
            false => SystemEffects.write_pid_file(path),
        }
    }

    fn supervisor(&self) -> Option<Supervisor> {
        None
    }
}

/// Ports, files and settings of one start.
struct Place {
    directory: tempfile::TempDir,
    ports: [u16; 3],
}

const CONFIGURATION: &str = "
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: prom, namespace: istio-system}
spec:
  compiledAdapter: prometheus
  params: {metrics: [{name: calls, instance_name: calls.instance.istio-system, kind: COUNTER}]}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: '1'}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: count, namespace: istio-system}
spec:
  actions:
  - {handler: prom, instances: [calls]}
";

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("config")).unwrap();
        std::fs::write(directory.path().join("config/all.yaml"), CONFIGURATION).unwrap();
        let ports = [(); 3].map(|()| ports::next_free_port().unwrap());
        Self { directory, ports }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn options(&self) -> ServerOptions {
        let [monitoring_port, metrics_port, ctrlz] = self.ports;
        let probe =
            |name: &str| ProbeOptions { path: self.path(name), interval: SignedDuration::from_secs(1) };
        ServerOptions {
            address: format!("unix://{}", self.path("api.sock").display()),
            monitoring_port,
            metrics_port,
            introspection: IntrospectionOptions {
                port: ctrlz,
                address: "127.0.0.1".to_owned(),
                ..IntrospectionOptions::default()
            },
            config_store_url: format!("fs://{}", self.path("config").display()),
            envoy_http_address: "127.0.0.1:0".to_owned(),
            concurrency: 2,
            check_cache_requested: true,
            liveness_probe: probe("live"),
            readiness_probe: probe("ready"),
            pid_file: self.path("mixer.pid"),
            log: LogOptions {
                targets: vec![self.path("log").display().to_string()],
                ..LogOptions::default()
            },
            ..ServerOptions::default()
        }
    }

    /// Everything of a start that is still there.
    fn left_behind(&self, effects: &Faulty) -> Vec<String> {
        let mut left: Vec<String> = std::fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != "config" && name != "log")
            .map(|name| format!("file {}", name.to_string_lossy()))
            .collect();
        for (port, what) in self.ports.iter().zip(["monitoring", "metrics", "ControlZ"]) {
            if StdListener::bind(("0.0.0.0", *port)).is_err() {
                left.push(format!("port of {what}"));
            }
        }
        left.extend(effects.threads_left().into_iter().map(|name| format!("thread {name}")));
        let made = effects.made.lock();
        left.extend(made.stores.iter().filter(|s| s.strong_count() > 0).map(|_| "store".to_owned()));
        left.extend(made.metrics.iter().filter(|m| m.strong_count() > 0).map(|_| "metrics".to_owned()));
        left.extend(made.runtimes.iter().filter(|r| r.strong_count() > 0).map(|_| "runtime".to_owned()));
        left
    }
}

fn slow(provider: SocketAddr) -> String {
    format!(
        "
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: slow, namespace: istio-system}}
spec: {{compiledAdapter: listchecker, params: {{providerUrl: 'http://{provider}/'}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {{name: entry, namespace: istio-system}}
spec: {{compiledTemplate: listentry, params: {{value: '\"a\"'}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {{name: look, namespace: istio-system}}
spec:
  actions:
  - {{handler: slow, instances: [entry]}}
"
    )
}

#[test]
fn a_failure_of_any_step_rolls_back_the_start() {
    for (step, text) in [
        (Step::Log, "invalid output level 'loud'"),
        (Step::Background, "unable to start background threads: no more threads"),
        (Step::Tracing, "unable to setup tracing"),
        (Step::Tls, "unable to set up TLS: no key"),
        (Step::Inherited, "unable to listen: LISTEN_FDS: the socket `grpc` is there twice"),
        (Step::RemoveSocket, "unable to remove unix://x: not a socket"),
        (Step::Listen, "unable to listen: listen unix x: bind: address already in use"),
        (
            Step::OpenStore,
            "unable to connect to the configuration server: unknown config URL nosuch://store \
             nosuch://store",
        ),
        (Step::Metrics, "could not build opencensus exporter: registered twice"),
        (Step::NewRuntime, "panic: no runtime today"),
        (Step::ReadStore, "exceeded timeout 50ms"),
        (Step::FirstConfiguration, "exceeded timeout 50ms"),
        (Step::Decisions, "unable to log decisions: cannot open decision log `x`: disk full"),
        (
            Step::Monitoring,
            "unable to setup monitoring: unable to listen on socket: listen tcp :1: bind: address already in use",
        ),
        (Step::Follow, "unable to listen: no watches left"),
        (
            Step::Envoy,
            "unable to setup the HTTP endpoint for Envoy: unable to listen on socket: listen tcp :2: bind: permission denied",
        ),
    ] {
        let place = Place::new();
        let effects = Faulty::new(step);
        let mut options = place.options();
        if step == Step::ReadStore {
            options.config_wait_timeout = SignedDuration::from_millis(50);
        }
        // Nobody answers there, so that a handler takes long to build.
        let silent = StdListener::bind("127.0.0.1:0").unwrap();
        if step == Step::FirstConfiguration {
            let config = slow(silent.local_addr().unwrap());
            std::fs::write(place.path("config/slow.yaml"), config).unwrap();
            options.config_wait_timeout = SignedDuration::from_millis(50);
        }
        let error = Server::start_with(&options, &effects).err().map(|e| e.text);
        assert_eq!(error.as_deref(), Some(text), "{step:?}");
        assert_eq!(place.left_behind(&effects), Vec::<String>::new(), "{step:?}");
    }
}

#[test]
fn a_signal_ends_a_start_whose_first_configuration_takes_long() {
    let place = Place::new();
    let effects = Faulty::new(Step::Build);
    let error = Server::start_with(&place.options(), &effects).err().map(|e| e.text);
    assert_eq!(error.as_deref(), Some("interrupted by SIGTERM"));
    effects.busy.release();
    assert_eq!(place.left_behind(&effects), Vec::<String>::new());
}

#[test]
fn an_unwritable_pid_file_is_a_startup_error() {
    let place = Place::new();
    let effects = Faulty::new(Step::PidFile);
    let error = Server::start_with(&place.options(), &effects).err().unwrap().text;
    assert_eq!(
        error,
        format!("unable to write the pid file {}: disk full", place.path("mixer.pid").display())
    );
    assert_eq!(place.left_behind(&effects), Vec::<String>::new());
}

#[test]
fn invalid_settings_start_nothing() {
    let place = Place::new();
    let effects = Faulty::new(Step::Nothing);
    let options = ServerOptions { max_message_size: 0, ..place.options() };
    let error = Server::start_with(&options, &effects).err().unwrap().text;
    assert_eq!(error, "max message size must be > 0, got 0");
    assert_eq!(place.left_behind(&effects), Vec::<String>::new());
    assert!(!place.path("log").exists());
}

#[test]
fn a_server_stops_in_the_specified_order() {
    let place = Place::new();
    let effects = Faulty::new(Step::Nothing);
    let server = Server::start_with(&place.options(), &effects).map_err(|e| e.text).unwrap();
    let ready = Availability::clone(&server.controls().health.readiness);
    let files = ["api.sock", "mixer.pid", "live", "ready"];
    for _ in 0..200 {
        if files.iter().all(|file| place.path(file).exists()) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    for file in files {
        assert!(place.path(file).exists(), "{file}");
    }
    assert_eq!(ready.status(), Ok(()));
    assert!(!effects.threads().is_empty());
    let report = server.stop();
    assert_eq!(ready.status(), Err("configuration: the server is stopping, dispatcher: stopping".to_owned()));
    let names: Vec<_> = report.ended.iter().map(|(_, name)| *name).collect();
    assert_eq!(
        names,
        [
            "readiness",
            "readiness probe",
            "reports that wait for room",
            "calls",
            "HTTP endpoint for Envoy",
            "ControlZ",
            "configuration",
            "check cache",
            "listener",
            "monitoring endpoint",
            "pools",
            "workers",
            "handlers",
            "spill survey",
            "memory trimmer",
            "conditions",
            "degradations",
            "losses of deliveries",
            "counts of deliveries",
            "counts of tasks",
            "pid file",
            "liveness probe",
            "log",
        ]
    );
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(place.left_behind(&effects), Vec::<String>::new());
}

#[test]
fn a_failure_of_controlz_does_not_fail_the_start() {
    let place = Place::new();
    let taken = StdListener::bind(("127.0.0.1", place.ports[2])).unwrap();
    let effects = Faulty::new(Step::Nothing);
    let server = Server::start_with(&place.options(), &effects).map_err(|e| e.text).unwrap();
    assert!(server.stop().is_complete());
    drop(taken);
    assert_eq!(place.left_behind(&effects), Vec::<String>::new());
}

#[test]
fn a_dry_run_has_no_side_effects() {
    let place = Place::new();
    let running = StdUnixListener::bind(place.path("api.sock")).unwrap();
    std::fs::write(place.path("live"), "of another process").unwrap();
    let error = Server::rehearse(&place.options()).err().unwrap().text;
    assert!(error.ends_with("api.sock: bind: address already in use"), "as with a port: {error}");
    assert!(std::os::unix::net::UnixStream::connect(place.path("api.sock")).is_ok());
    drop(running);
    let report = Server::rehearse(&place.options()).map_err(|e| e.text).unwrap();
    assert_eq!(report.configured, [1, 1, 1]);
    assert_eq!(report.problems, [0, 0]);
    assert_eq!(report.workers, 2);
    assert_eq!(report.lacking, []);
    assert!(place.path("api.sock").exists(), "what an earlier process left is not removed");
    assert_eq!(std::fs::read_to_string(place.path("live")).unwrap(), "of another process");
    assert!(!place.path("mixer.pid").exists());
    let wrong = ServerOptions { address: "foo://x".to_owned(), ..place.options() };
    let error = Server::rehearse(&wrong).err().unwrap().text;
    assert_eq!(error, "unable to listen: listen foo: unknown network foo");
}

#[test]
fn a_dry_run_tells_what_a_start_would_lack() {
    let place = Place::new();
    let mut options = place.options();
    options.pid_file = place.path("nowhere/mixer.pid");
    let error = Server::rehearse(&options).err().unwrap().text;
    let started = Server::start_with(&options, &Faulty::new(Step::Nothing)).err().unwrap().text;
    assert_eq!(error, started);
    assert!(error.starts_with("unable to write the pid file "), "{error}");

    let mut options = place.options();
    options.liveness_probe.path = place.path("nowhere/live");
    options.introspection.address = "192.0.2.1".to_owned();
    options.introspection.token_file = place.path("token");
    std::fs::write(place.path("token"), "a token of ControlZ").unwrap();
    let report = Server::rehearse(&options).map_err(|e| e.text).unwrap();
    let lacking: Vec<_> = report.lacking.iter().map(|(what, why)| (*what, why.as_str())).collect();
    let [("liveness probe", probe), ("ControlZ", controlz)] = lacking[..] else { panic!("{lacking:?}") };
    assert!(probe.ends_with("/nowhere/live`: no such file or directory"), "{probe}");
    assert!(controlz.ends_with("bind: cannot assign requested address"), "{controlz}");

    // Where a file is to be, there is a directory.
    let at_directory = |set: fn(&mut ServerOptions, PathBuf)| {
        let mut options = place.options();
        set(&mut options, place.path(""));
        let started =
            Server::start_with(&options, &Faulty::new(Step::Nothing)).map(|server| _ = server.stop());
        let rehearsed = Server::rehearse(&options).map_err(|e| e.text);
        (started.map_err(|e| e.text), rehearsed.map(|report| report.lacking))
    };
    let fails: [fn(&mut ServerOptions, PathBuf); 3] = [
        |options, path| options.pid_file = path,
        |options, path| options.decisions.log.path = path,
        |options, path| options.decisions.recording.path = path,
    ];
    for set in fails {
        let (started, rehearsed) = at_directory(set);
        let (started, rehearsed) = (started.unwrap_err(), rehearsed.unwrap_err());
        assert_eq!(started, rehearsed);
        assert!(started.contains("directory"), "{started}");
    }
    for set in [
        (|options, path| options.liveness_probe.path = path) as fn(&mut ServerOptions, PathBuf),
        |options, path| options.readiness_probe.path = path,
    ] {
        let (started, lacking) = at_directory(set);
        assert_eq!(started, Ok(()), "it serves without");
        let lacking = lacking.unwrap();
        assert!(lacking.len() == 1 && lacking[0].1.ends_with("is a directory"), "{lacking:?}");
    }

    // That may be the port of the server that runs.
    let options = place.options();
    let _taken = StdListener::bind(("127.0.0.1", place.ports[2])).unwrap();
    assert_eq!(Server::rehearse(&options).map_err(|e| e.text).unwrap().lacking, []);
}

#[test]
fn the_socket_of_another_server_is_refused_but_not_as_istio_mixer() {
    let place = Place::new();
    let path = place.path("api.sock");
    let running = StdUnixListener::bind(&path).unwrap();
    let start = |problems_as_istio_mixer| {
        let options = ServerOptions { problems_as_istio_mixer, ..place.options() };
        Server::start_with(&options, &Faulty::new(Step::Nothing)).map_err(|e| e.text)
    };
    let refused = format!("unable to listen: listen unix {}: bind: address already in use", path.display());
    assert_eq!(start(false).err(), Some(refused));
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok(), "it is still that of the first");
    let second = start(true).unwrap();
    drop(running);
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok(), "it is that of the second");
    assert!(second.stop().is_complete());
    assert!(!path.exists());
    // What an earlier process left is replaced.
    drop(StdUnixListener::bind(&path).unwrap());
    assert!(start(false).unwrap().stop().is_complete());
}

#[test]
fn a_server_whose_socket_has_another_file_is_not_ready() {
    let place = Place::new();
    let effects = Faulty::new(Step::Nothing);
    let server = Server::start_with(&place.options(), &effects).map_err(|e| e.text).unwrap();
    let ready = Availability::clone(&server.controls().health.readiness);
    let wait_for = |holds: &dyn Fn(&Result<(), String>) -> bool| {
        for _ in 0..500 {
            if holds(&ready.status()) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    };
    assert!(wait_for(&|status| status.is_ok()), "{:?}", ready.status());
    let path = place.path("api.sock");
    std::fs::rename(&path, place.path("away")).unwrap();
    let told = |text: &'static str| {
        move |status: &Result<(), String>| status.as_ref().is_err_and(|why| why.contains(text))
    };
    assert!(wait_for(&told("api.sock` was removed")), "{:?}", ready.status());
    let other = StdUnixListener::bind(&path).unwrap();
    assert!(wait_for(&told("is not the file of this server any more")), "{:?}", ready.status());
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(place.path("away"), &path).unwrap();
    assert!(wait_for(&|status| status.is_ok()), "{:?}", ready.status());
    std::fs::remove_file(&path).unwrap();
    drop(other);
    let other = StdUnixListener::bind(&path).unwrap();
    assert!(server.stop().is_complete());
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok(), "the file of the other one stays");
    drop(other);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(place.left_behind(&effects), Vec::<String>::new());
}
