//! A server process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;

use super::ports::next_free_port;

/// Ticks per second in /proc/PID/stat: fixed on Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// Size of a memory page in bytes.
const PAGE: u64 = 4096;
/// The port of the peer's prometheus adapter, which has no flag, and the text that it comes from.
const PEER_METRICS: (u16, &[u8]) = (42422, b":42422");

/// A server program.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Name in tables.
    pub(crate) name: String,
    /// The executable.
    pub(crate) path: PathBuf,
    /// Its role in the comparison.
    pub(crate) role: Role,
    moved: Arc<Mutex<Option<Moved>>>,
}

/// A copy of a peer whose prometheus adapter has another port.
#[derive(Debug)]
struct Moved {
    path: PathBuf,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Moved {
    /// Errors: the copy cannot be written. `None` if the text of the port is not in the program exactly once.
    fn copy(path: &Path) -> Result<Option<Self>> {
        let mut bytes = std::fs::read(path)?;
        let mut places = memchr::memmem::find_iter(&bytes, PEER_METRICS.1);
        let (Some(place), None) = (places.next(), places.next()) else { return Ok(None) };
        // As long as the other one: those that are free have five digits.
        let (port, digits) = (next_free_port()?, place + 1..place + PEER_METRICS.1.len());
        let text = port.to_string();
        if text.len() != digits.len() {
            return Ok(None);
        }
        bytes.get_mut(digits).context("the port is in the program")?.copy_from_slice(text.as_bytes());
        let directory = tempfile::tempdir()?;
        let name = path.file_name().context("the program has a name")?;
        let copy = directory.path().join(name);
        std::fs::write(&copy, bytes)?;
        std::fs::set_permissions(&copy, std::fs::metadata(path)?.permissions())?;
        Ok(Some(Self { path: copy, port, _directory: directory }))
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// The role of a program in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// This build's server.
    Own,
    /// Another Mixer with the same flags.
    Peer,
    /// Limitador.
    Limitador,
}

impl Program {
    pub(crate) fn new(name: String, path: PathBuf, role: Role) -> Self {
        Self { name, path, role, moved: Arc::default() }
    }

    /// The executable of a peer, and the port of its prometheus adapter: a copy with a free port, if it can be made.
    fn with_free_metrics_port(&self) -> Result<(PathBuf, u16)> {
        let mut moved = self.moved.lock();
        if moved.as_ref().is_none_or(|moved| !is_free(moved.port)) {
            *moved = Moved::copy(&self.path)?;
        }
        if let Some(moved) = &*moved {
            return Ok((moved.path.clone(), moved.port));
        }
        let (port, _) = PEER_METRICS;
        if !is_free(port) {
            bail!("port {port} of the peer's prometheus adapter is taken by another process");
        }
        Ok((self.path.clone(), port))
    }

    /// Whether it is this build's.
    pub(crate) fn is_own(&self) -> bool {
        self.role == Role::Own
    }
}

/// CPU time of threads, by id, in nanoseconds. What a thread that has ended used since the last look is lost.
pub(crate) struct ThreadTimes(BTreeMap<OsString, u64>);

impl ThreadTimes {
    /// That of all threads together.
    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(self.0.values().sum())
    }

    /// What was used since an earlier look.
    pub(crate) fn since(&self, before: &Self) -> Duration {
        let used =
            |(thread, now): (&OsString, &u64)| now.saturating_sub(before.0.get(thread).copied().unwrap_or(0));
        Duration::from_nanos(self.0.iter().map(used).sum())
    }
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// Address of its API.
    pub(crate) address: SocketAddr,
    /// Port of its prometheus adapter.
    pub(crate) metrics_port: u16,
    /// Time of its start.
    pub(crate) started: Instant,
}

impl Server {
    /// Starts a server on free loopback ports; it may not serve yet. Its log goes to `server.log` in `directory`.
    pub(crate) fn start(
        program: &Program,
        configuration: &Path,
        directory: &Path,
        cache_entries: usize,
        workers: usize,
    ) -> Result<Self> {
        let [api, monitoring, introspection] = [next_free_port()?, next_free_port()?, next_free_port()?];
        let (path, metrics_port) = match program.is_own() {
            true => (program.path.clone(), next_free_port()?),
            false => program.with_free_metrics_port()?,
        };
        let address = SocketAddr::from(([127, 0, 0, 1], api));
        let mut command = Command::new(path);
        command
            .arg("server")
            .args(["--address", &format!("tcp://{address}")])
            .args(["--monitoringPort", &monitoring.to_string()])
            .args(["--ctrlz_port", &introspection.to_string()])
            .args(["--configStoreURL", &format!("fs://{}", configuration.display())])
            .args(["--numCheckCacheEntries", &cache_entries.to_string()])
            .args(["--log_output_level", "default:warn"]);
        if program.is_own() {
            command.args(["--metrics-port", &metrics_port.to_string()]);
            command.args(["--concurrency", &workers.to_string()]);
        }
        let mut server = Self::spawn(command, api, directory)?;
        server.metrics_port = metrics_port;
        Ok(server)
    }

    /// Starts any server that listens on that port of loopback. Its log goes to `server.log` in `directory`.
    pub(crate) fn spawn(mut command: Command, port: u16, directory: &Path) -> Result<Self> {
        let log = std::fs::File::create(directory.join("server.log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Ok(Self { child, address, metrics_port: 0, started })
    }

    /// CPU time used so far by all of its threads.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The program name, in parentheses, may contain spaces.
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok());
        let (Some(user), Some(system)) = (ticks(11), ticks(12)) else { bail!("no CPU time in {text}") };
        Ok(Duration::from_secs_f64((user + system) / TICKS_PER_SECOND))
    }

    /// CPU time used so far by each thread, to the nanosecond.
    pub(crate) fn cpu_of_threads(&self) -> Result<ThreadTimes> {
        let mut times = BTreeMap::new();
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let thread = thread?;
            // It may have ended since.
            let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0);
            times.insert(thread.file_name(), nanoseconds);
        }
        Ok(ThreadTimes(times))
    }

    /// Resident bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        self.memory().map(|(private, mapped)| private + mapped)
    }

    /// Resident bytes: those that belong to the process alone, and mapped pages of files, which the kernel can drop.
    pub(crate) fn memory(&self) -> Result<(u64, u64)> {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id()))?;
        let mut pages = text.split_whitespace().skip(1).map_while(|field| field.parse::<u64>().ok());
        let (resident, mapped) = pages.next().zip(pages.next()).context("no resident memory")?;
        Ok((resident.saturating_sub(mapped) * PAGE, mapped * PAGE))
    }

    /// Asks it to look for changed files.
    pub(crate) fn reload(&self) -> Result<()> {
        let told = Command::new("kill").args(["-USR1", &self.child.id().to_string()]).status()?;
        anyhow::ensure!(told.success(), "cannot send a signal");
        Ok(())
    }

    /// Errors: the process has exited.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the server ended: {status}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
