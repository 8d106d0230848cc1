//! The server under test: one builder for every integration test.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{DEADLINE, Process, free_port, http, is_listening, programs, wait_for};

/// How often a start is repeated with other ports when another process took one of them.
const ATTEMPTS: usize = 5;

/// How long the resources of a stable server do not change.
const UNCHANGED: Duration = Duration::from_millis(500);

/// The port of the prometheus adapter of Mixer 1.3, which has no flag.
const FOREIGN_METRICS_PORT: u16 = 42422;

/// Loopback ports of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    /// The gRPC API.
    pub(crate) api: u16,
    /// The server's own metrics and health.
    pub(crate) monitoring: u16,
    /// ControlZ.
    pub(crate) ctrlz: u16,
    /// The metrics endpoint of the prometheus adapter.
    pub(crate) metrics: u16,
}

impl Ports {
    /// Ports that nobody listens on.
    pub(crate) fn free() -> Self {
        let [api, monitoring, ctrlz, metrics] = [(); 4].map(|()| free_port());
        let metrics = if programs().foreign_server { FOREIGN_METRICS_PORT } else { metrics };
        Self { api, monitoring, ctrlz, metrics }
    }
}

/// A server to be started: on free loopback ports, in a temporary directory, with its output captured.
#[derive(Debug, Clone)]
pub(crate) struct ServerBuilder {
    program: &'static str,
    store: Option<String>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    directory: Option<PathBuf>,
    ports: Option<Ports>,
    launcher: Option<(PathBuf, Vec<String>)>,
    journal: bool,
}

impl ServerBuilder {
    /// Adds arguments. An argument that names a flag of the builder (ports, `--configStoreURL`) replaces it.
    #[must_use]
    pub(crate) fn with<S: AsRef<str>>(mut self, arguments: &[S]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the working directory; a temporary one unless given.
    #[must_use]
    pub(crate) fn in_directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_owned());
        self
    }

    /// Uses these ports, for a server that is started again at the same place.
    #[must_use]
    pub(crate) fn on_ports(mut self, ports: Ports) -> Self {
        self.ports = Some(ports);
        self
    }

    /// Starts it as `mixer server` instead of `mixs server`.
    #[must_use]
    pub(crate) fn native(mut self) -> Self {
        self.program = "mixer";
        self
    }

    /// Lets `program ARGUMENTS… SERVER server …` start it; the program must replace itself by the server.
    #[must_use]
    pub(crate) fn through(mut self, program: &Path, arguments: &[String]) -> Self {
        self.launcher = Some((program.to_owned(), arguments.to_vec()));
        self
    }

    /// Tells it that its output goes to the journal of systemd.
    #[must_use]
    pub(crate) fn with_journal(mut self) -> Self {
        self.journal = true;
        self
    }

    /// Starts it and waits until it serves.
    ///
    /// Panics with the server's output when it does not.
    pub(crate) fn start(&self) -> Server {
        self.try_start().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts it and waits until it serves; the error is the reason that it printed.
    pub(crate) fn try_start(&self) -> Result<Server, String> {
        let mut attempt = 1;
        loop {
            let mut server = self.spawn()?;
            let ready = server.wait_until_serving();
            let collided = server.log().contains("address already in use");
            if !collided || self.ports.is_some() || attempt == ATTEMPTS {
                return ready.map(|()| server);
            }
            attempt += 1;
        }
    }

    /// Starts it without waiting.
    pub(crate) fn spawn(&self) -> Result<Server, String> {
        let programs = programs();
        let temporary =
            tempfile::Builder::new().prefix("mixer-server").tempdir().map_err(|e| e.to_string())?;
        let log = temporary.path().join("log");
        let out = File::create(&log).map_err(|e| e.to_string())?;
        let mut environment = self.environment.clone();
        if self.journal {
            let found = out.metadata().map_err(|e| e.to_string())?;
            environment.push(("JOURNAL_STREAM".to_owned(), format!("{}:{}", found.dev(), found.ino())));
        }
        let err = out.try_clone().map_err(|e| e.to_string())?;
        let ports = self.ports.unwrap_or_else(Ports::free);
        let given = |flag: &str| self.arguments.iter().any(|argument| names(argument, flag));
        let mut own = vec![
            ("address", format!("--address=tcp://127.0.0.1:{}", ports.api)),
            ("monitoringport", format!("--monitoringPort={}", ports.monitoring)),
            ("ctrlzport", format!("--ctrlz_port={}", ports.ctrlz)),
        ];
        if !programs.foreign_server {
            own.push(("metricsport", format!("--metrics-port={}", ports.metrics)));
        }
        own.extend(self.store.iter().map(|url| ("configstoreurl", format!("--configStoreURL={url}"))));
        own.retain(|(flag, _)| !given(flag));
        let of_builder = |flag: &str| own.iter().any(|(own, _)| *own == flag);
        let awaited =
            [("address", ports.api), ("monitoringport", ports.monitoring), ("ctrlzport", ports.ctrlz)];
        let awaited: Vec<u16> =
            awaited.iter().filter(|(flag, _)| of_builder(flag)).map(|(_, port)| *port).collect();

        let program = programs.path(self.program);
        let mut command = match &self.launcher {
            None => Command::new(program),
            Some((launcher, arguments)) => {
                let mut command = Command::new(launcher);
                command.args(arguments).arg(program);
                command
            }
        };
        command.arg("server").args(own.iter().map(|(_, argument)| argument)).args(&self.arguments);
        command.envs(environment).current_dir(self.directory.as_deref().unwrap_or(temporary.path()));
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let process = Process::spawn(&mut command).map_err(|e| format!("cannot start the server: {e}"))?;
        Ok(Server { process, ports, awaited, log, _temporary: temporary })
    }
}

/// Whether an argument names a flag, in any of its spellings.
fn names(argument: &str, flag: &str) -> bool {
    let Some(name) = argument.strip_prefix("--") else { return false };
    let name = name.split('=').next().unwrap_or(name);
    name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).eq(flag.chars())
}

/// The configuration that the examples and the documentation use.
pub(crate) fn sample_configuration() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/config")
}

/// A running server; killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    /// Where it listens.
    pub(crate) ports: Ports,
    /// The ports that are open when it serves.
    awaited: Vec<u16>,
    log: PathBuf,
    _temporary: TempDir,
}

impl Server {
    /// A server on the default configuration of the program.
    pub(crate) fn builder() -> ServerBuilder {
        ServerBuilder {
            program: "mixs",
            store: None,
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
            ports: None,
            launcher: None,
            journal: false,
        }
    }

    /// A server on a configuration directory.
    pub(crate) fn on(directory: &Path) -> ServerBuilder {
        Self::on_store(&format!("fs://{}", directory.display()))
    }

    /// A server on a configuration store, for example `embedded://sample`.
    pub(crate) fn on_store(url: &str) -> ServerBuilder {
        ServerBuilder { store: Some(url.to_owned()), ..Self::builder() }
    }

    /// Waits until it has announced its API and its ports are open.
    fn wait_until_serving(&mut self) -> Result<(), String> {
        let announces = !programs().foreign_server;
        let serving = wait_for(DEADLINE, || {
            if let Some(status) = self.process.ended() {
                return Some(Err(format!("the server exited ({status}): {}", self.last_log_line())));
            }
            let announced = !announces || self.log().contains("Starting gRPC server");
            (announced && self.awaited.iter().all(|port| is_listening(*port))).then_some(Ok(()))
        });
        serving.unwrap_or_else(|| Err(format!("the server does not serve: {}", self.last_log_line())))
    }

    /// `host:port` of the API.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.api)
    }

    /// URL of a path on the monitoring port.
    pub(crate) fn monitoring_url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.ports.monitoring)
    }

    /// URL of a page of ControlZ.
    pub(crate) fn ctrlz_url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.ports.ctrlz)
    }

    /// What the server has printed so far.
    pub(crate) fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the log contains a text.
    ///
    /// Panics with the log when it does not.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, text: &str) {
        let found = wait_for(DEADLINE, || self.log().contains(text).then_some(()));
        assert!(found.is_some(), "no `{text}` in\n{}", self.log());
    }

    fn last_log_line(&self) -> String {
        let log = self.log();
        log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing").to_owned()
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it holds when its threads and descriptors have not changed for a while, or at the deadline.
    ///
    /// Old handlers and closed connections are released in the background.
    pub(crate) fn stable_holdings(&self) -> Holdings {
        let mut last = self.holdings();
        let mut since = Instant::now();
        let stable = || {
            let now = self.holdings();
            if (now.threads, now.descriptors) != (last.threads, last.descriptors) {
                (last, since) = (now, Instant::now());
            }
            (since.elapsed() >= UNCHANGED).then_some(now)
        };
        wait_for(DEADLINE, stable).unwrap_or_else(|| self.holdings())
    }

    /// What it holds once it holds no more than these threads and descriptors, or at the deadline.
    pub(crate) fn holdings_within(&self, threads: usize, descriptors: usize) -> Holdings {
        let released = || {
            let now = self.holdings();
            (now.threads <= threads && now.descriptors <= descriptors).then_some(now)
        };
        wait_for(DEADLINE, released).unwrap_or_else(|| self.holdings())
    }

    /// What the process holds now.
    pub(crate) fn holdings(&self) -> Holdings {
        let process = PathBuf::from(format!("/proc/{}", self.id()));
        let count = |what: &str| std::fs::read_dir(process.join(what)).map(Iterator::count).unwrap_or(0);
        let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
        let kib = |what: &str| {
            let text = status.lines().find_map(|line| line.strip_prefix(what));
            text.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        let (resident_kib, private_kib) = (kib("VmRSS:"), kib("RssAnon:") + kib("RssShmem:"));
        Holdings { threads: count("task"), descriptors: count("fd"), resident_kib, private_kib }
    }

    /// Lets the server return its free memory to the system: what is resident then is in use.
    pub(crate) fn return_memory(&self) {
        let url = format!("http://127.0.0.1:{}/memj/forcecollection", self.ports.ctrlz);
        assert_eq!(super::http("PUT", &url, "").expect("ControlZ answers").status, 202);
    }

    /// Lets the kernel begin a new maximum of resident memory.
    pub(crate) fn forget_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.id()), "5").expect("the process is ours");
    }

    /// The maximum of its resident memory, in KiB; 0 if it has ended.
    pub(crate) fn peak_kib(&self) -> u64 {
        self.process.peak_kib()
    }

    /// Sends a signal, for example `HUP`.
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// The sum of the samples of one of its own metrics; 0 without samples.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let body = http("GET", &self.monitoring_url("/metrics"), "").map(|answer| answer.body);
        sum_of_samples(&body.unwrap_or_default(), name)
    }

    /// Whether the process runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.process.ended().is_none()
    }

    /// Waits for the exit status; `None` inside means a signal ended it.
    pub(crate) fn exit_code(&mut self) -> Result<Option<i32>, String> {
        self.process.wait(DEADLINE).ok_or_else(|| "the server does not exit".to_owned())
    }

    /// Sends SIGTERM, as a supervisor does, and waits for the exit status.
    pub(crate) fn terminate(&mut self) -> Result<Option<i32>, String> {
        self.signal("TERM");
        self.exit_code().map_err(|error| format!("{error} on SIGTERM"))
    }
}

/// Resources of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holdings {
    pub(crate) threads: usize,
    pub(crate) descriptors: usize,
    pub(crate) resident_kib: u64,
    /// Without what files back: code, above all.
    pub(crate) private_kib: u64,
}

/// The sum of the samples of a metric in a text exposition; 0 without samples.
pub(crate) fn sum_of_samples(exposition: &str, name: &str) -> f64 {
    let samples = exposition.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ') || rest.starts_with('{'))
    });
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}
