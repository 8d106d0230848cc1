//! Starts the binary under test, under the names it answers to, and ends it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long anything on this machine may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How often a condition is looked at again.
pub(crate) const PACE: Duration = Duration::from_millis(10);

/// The names of the binary, as symlinks, or what `MIXER_CONFORMANCE_SERVER` and `MIXER_CONFORMANCE_CLIENT` put in their place.
#[derive(Debug)]
pub(crate) struct Programs {
    links: TempDir,
    /// Whether the server is not the binary under test.
    pub(crate) foreign_server: bool,
    /// Whether the client is not the binary under test.
    pub(crate) foreign_client: bool,
}

/// The programs of this run.
pub(crate) fn programs() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        Programs::link().unwrap_or_else(|error| fatal(&format!("cannot link programs: {error}")))
    })
}

impl Programs {
    fn link() -> std::io::Result<Self> {
        let links = tempfile::Builder::new().prefix("mixer-programs").tempdir()?;
        let own = PathBuf::from(env!("CARGO_BIN_EXE_mixer"));
        let server = std::env::var_os("MIXER_CONFORMANCE_SERVER").map(PathBuf::from);
        let client = std::env::var_os("MIXER_CONFORMANCE_CLIENT").map(PathBuf::from);
        for (name, target) in
            [("mixer", None), ("galley", None), ("mixs", server.as_ref()), ("mixc", client.as_ref())]
        {
            symlink(target.unwrap_or(&own), links.path().join(name))?;
        }
        Ok(Self { links, foreign_server: server.is_some(), foreign_client: client.is_some() })
    }

    /// The program of that name. Anything but `mixer`, `mixs`, `mixc` and `galley` is looked up by the system.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let link = self.links.path().join(name);
        if link.exists() { link } else { PathBuf::from(name) }
    }
}

/// Ends the test program: nothing can be tested at all.
pub(crate) fn fatal(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(2)
}

/// The Python that has the packages of tests/requirements.txt. Without it nothing can be tested: `.ci/run needs` makes it.
pub(crate) fn python() -> PathBuf {
    // Beside the directory that cargo gives to tests for their files.
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("python").join("bin/python");
    assert!(
        python.exists(),
        "{} is missing: run `.ci/run needs`, which installs tests/requirements.txt",
        python.display()
    );
    python
}

/// A loopback port nobody listens on, never the same twice in one run.
pub(crate) fn free_port() -> u16 {
    use std::collections::HashSet;
    use std::sync::Mutex;
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    for _ in 0..1000 {
        let port =
            TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).map(|a| a.port());
        let mut given = GIVEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Ok(port) = port
            && given.get_or_insert_with(HashSet::new).insert(port)
        {
            return port;
        }
    }
    fatal("no free loopback port")
}

/// Waits until the condition gives something, at most that long.
pub(crate) fn wait_for<T>(limit: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = condition() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(PACE);
    }
}

/// Whether somebody accepts connections there.
pub(crate) fn answers(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), Duration::from_secs(1)).is_ok()
}

/// A running server that is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Port of the gRPC API.
    pub(crate) api: u16,
    /// Port of the server's own metrics.
    pub(crate) monitoring: u16,
    /// Port of ControlZ.
    pub(crate) ctrlz: u16,
    /// Port of the metrics endpoint of the prometheus adapter.
    pub(crate) metrics: u16,
    log: PathBuf,
    _directory: TempDir,
}

/// How to start one.
#[derive(Debug, Default, Clone)]
pub(crate) struct ServerArguments {
    /// `--configStoreURL`; none means the default of the program.
    pub(crate) config: Option<String>,
    /// Arguments that replace or follow those of the runner.
    pub(crate) more: Vec<String>,
    /// Environment.
    pub(crate) environment: Vec<(String, String)>,
    /// Working directory.
    pub(crate) directory: Option<PathBuf>,
}

impl ServerArguments {
    /// A server on one configuration directory.
    pub(crate) fn on(directory: &Path) -> Self {
        Self { config: Some(format!("fs://{}", directory.display())), ..Self::default() }
    }

    /// With more arguments.
    #[must_use]
    pub(crate) fn with(mut self, more: &[&str]) -> Self {
        self.more.extend(more.iter().map(|argument| (*argument).to_owned()));
        self
    }
}

impl Server {
    /// Starts `mixs server` on free loopback ports and waits until its ports answer.
    pub(crate) fn start(arguments: &ServerArguments) -> Result<Self, String> {
        let programs = programs();
        let directory =
            tempfile::Builder::new().prefix("mixer-server").tempdir().map_err(|e| e.to_string())?;
        let log = directory.path().join("log");
        let out = File::create(&log).map_err(|e| e.to_string())?;
        let err = out.try_clone().map_err(|e| e.to_string())?;
        let (api, monitoring, ctrlz) = (free_port(), free_port(), free_port());
        let metrics = if programs.foreign_server { 42422 } else { free_port() };
        let mut own = vec![
            format!("--address=tcp://127.0.0.1:{api}"),
            format!("--monitoringPort={monitoring}"),
            format!("--ctrlz_port={ctrlz}"),
        ];
        if !programs.foreign_server {
            own.push(format!("--metrics-port={metrics}"));
        }
        own.extend(arguments.config.iter().map(|url| format!("--configStoreURL={url}")));
        own.retain(|argument| {
            let name = argument.split('=').next().unwrap_or(argument);
            !arguments.more.iter().any(|more| more == name || more.starts_with(&format!("{name}=")))
        });
        let mut command = Command::new(programs.path("mixs"));
        command.arg("server").args(&own).args(&arguments.more).stdin(Stdio::null()).stdout(out).stderr(err);
        command.envs(arguments.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(arguments.directory.as_deref().unwrap_or(directory.path()));
        let child = command.spawn().map_err(|error| format!("cannot start the server: {error}"))?;
        let mut server = Self { child, api, monitoring, ctrlz, metrics, log, _directory: directory };
        let shown = own.iter().any(|argument| argument.starts_with("--ctrlz_port="));
        let ready = wait_for(PATIENCE, || {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Some(Err(format!(
                    "the server ended at start ({status}): {}",
                    server.last_log_line()
                )));
            }
            (answers(api) && answers(monitoring) && (!shown || answers(ctrlz))).then_some(Ok(()))
        });
        match ready {
            Some(Ok(())) => Ok(server),
            Some(Err(error)) => Err(error),
            None => Err(format!("the server does not answer: {}", server.last_log_line())),
        }
    }

    /// `host:port` of the API.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.api)
    }

    /// All that the server has printed so far.
    pub(crate) fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn last_log_line(&self) -> String {
        self.log()
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("it printed nothing")
            .to_owned()
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it holds once old handlers have closed, which they do in the background: when descriptors and threads stand still.
    pub(crate) fn settled(&self) -> Holdings {
        let mut last = holdings(self.id());
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(250));
            let now = holdings(self.id());
            if now.descriptors == last.descriptors && now.threads == last.threads {
                break;
            }
            last = now;
        }
        holdings(self.id())
    }

    /// Sends it a signal, for example `HUP`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -{name}");
    }

    /// The sum of the samples of a metric of its own; 0 if there is none.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let url = format!("http://127.0.0.1:{}/metrics", self.monitoring);
        let body = http("GET", &url, "").map(|answer| answer.body).unwrap_or_default();
        let samples = body.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ') || rest.starts_with('{'))
        });
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it has ended by itself; `None` inside means by a signal.
    pub(crate) fn exit_code(&mut self) -> Result<Option<i32>, String> {
        wait_for(PATIENCE, || self.child.try_wait().ok().flatten())
            .map(|status| status.code())
            .ok_or_else(|| "the server does not end".to_owned())
    }

    /// Asks it to end as a supervisor does and waits for its exit status.
    pub(crate) fn terminate(&mut self) -> Result<Option<i32>, String> {
        self.signal("TERM");
        self.exit_code().map_err(|error| format!("{error} on SIGTERM"))
    }
}

/// What a process holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holdings {
    pub(crate) threads: usize,
    pub(crate) descriptors: usize,
    pub(crate) resident_kib: u64,
}

/// What a process holds now.
fn holdings(process: u32) -> Holdings {
    let count =
        |what: &str| std::fs::read_dir(format!("/proc/{process}/{what}")).map(Iterator::count).unwrap_or(0);
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident_kib = resident.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    Holdings { threads: count("task"), descriptors: count("fd"), resident_kib }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a file beside its place, then renames it, so that nobody reads half of it.
pub(crate) fn put(path: &Path, content: &str) {
    let beside = path.with_extension("prepared");
    let written = std::fs::write(&beside, content).and_then(|()| std::fs::rename(&beside, path));
    assert!(written.is_ok(), "{}: {written:?}", path.display());
}

/// What a command did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Finished {
    /// Exit status; 128 plus the signal if one ended it.
    pub(crate) status: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

/// Runs a command to its end, at most `limit` long.
pub(crate) fn run(
    program: &Path,
    arguments: &[String],
    environment: &[(String, String)],
    directory: Option<&Path>,
    stdin: Option<&str>,
    limit: Duration,
) -> Result<Finished, String> {
    let mut command = Command::new(program);
    command.args(arguments.iter().map(OsString::from));
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(directory) = directory {
        command.current_dir(directory);
    }
    let mut child =
        command.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
        let _ = pipe.write_all(text.as_bytes());
    }
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    let status = wait_for(limit, || child.try_wait().ok().flatten());
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let read = |thread: Option<std::thread::JoinHandle<String>>| {
        thread.and_then(|t| t.join().ok()).unwrap_or_default()
    };
    let (stdout, stderr) = (read(stdout), read(stderr));
    let status = status.ok_or_else(|| format!("{} does not end", program.display()))?;
    let status = status.code().unwrap_or_else(|| {
        use std::os::unix::process::ExitStatusExt;
        128 + status.signal().unwrap_or(0)
    });
    Ok(Finished { status, stdout, stderr })
}

fn drain(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// An answer over plain HTTP.
#[derive(Debug, Clone, Default)]
pub(crate) struct HttpAnswer {
    /// Status code.
    pub(crate) status: u16,
    /// Header names in lower case, in order.
    pub(crate) headers: Vec<(String, String)>,
    /// Body.
    pub(crate) body: String,
}

/// One HTTP request to loopback; redirects are not followed.
pub(crate) fn http(method: &str, url: &str, body: &str) -> Result<HttpAnswer, String> {
    let rest = url.strip_prefix("http://").ok_or_else(|| format!("not a plain HTTP URL: {url}"))?;
    let (host, path) =
        rest.split_once('/').map_or((rest, "/".to_owned()), |(host, path)| (host, format!("/{path}")));
    let text = |error: std::io::Error| format!("{url}: {error}");
    let mut stream = TcpStream::connect(host).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).map_err(text)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(text)?;
    parse_http(&bytes).ok_or_else(|| format!("{url}: not an HTTP answer"))
}

fn parse_http(bytes: &[u8]) -> Option<HttpAnswer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let rest = bytes.get(end + 4..)?;
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if chunked { dechunk(rest)? } else { rest.to_vec() };
    Some(HttpAnswer { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
}

fn dechunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(bytes.get(..end)?).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(end + 2..end + 2 + size)?);
        bytes = bytes.get(end + 2 + size + 2..)?;
    }
}
