//! A proxy that serves in a thread of the test process, and ends with the test however that ends.

#[path = "../../../../../tests/support/ports.rs"]
mod ports;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use mixer_base::log::{Log, LogOptions};
use mixer_proxy::bootstrap;
use mixer_proxy::server::{self, DrainOptions, Options};

/// How long a test waits for a condition: long, because what it waits for may get a tenth of a core only.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// A running proxy.
pub(crate) struct Proxy {
    /// The port of the admin interface.
    pub(crate) admin: u16,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy with a bootstrap whose admin port is `admin`, and waits until it serves.
    pub(crate) fn start(text: &str, admin: u16, concurrency: usize, drain: DrainOptions) -> Self {
        let (_, warnings) = bootstrap::read(text, "bootstrap.yaml").unwrap();
        assert_eq!(warnings, []);
        Self::start_within(text, admin, concurrency, drain, server::DEFAULT_BODY_MEMORY)
    }

    /// As [`start`](Self::start), with so much memory for bodies, and whatever validation warns of.
    pub(crate) fn start_within(
        text: &str,
        admin: u16,
        concurrency: usize,
        drain: DrainOptions,
        body_memory: usize,
    ) -> Self {
        let (bootstrap, _) = bootstrap::read(text, "bootstrap.yaml").unwrap();
        let options = Options {
            concurrency,
            config_path: "bootstrap.yaml".to_owned(),
            admin_address_path: None,
            terminate_drain: Duration::ZERO,
            drain,
            exact_tcp_deltas: false,
            body_memory,
        };
        let thread = std::thread::spawn(move || {
            let log = Log::new(&LogOptions::default()).unwrap();
            server::serve(bootstrap, options, log).unwrap();
        });
        let proxy = Self { admin, thread: Some(thread) };
        wait_for("the proxy is ready", || {
            assert!(proxy.is_running(), "the proxy has ended");
            let (status, body) = ask_admin(admin, "GET", "/ready")?;
            (status == 200 && body == "LIVE\n").then_some(())
        });
        proxy
    }

    fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// A statistic; 0 if there is none of this name.
    pub(crate) fn stat(&self, name: &str) -> u64 {
        stat(self.admin, name)
    }
}

impl Drop for Proxy {
    /// Tells it to end until it has. A thread that does not end within the deadline is left behind, so that no test hangs.
    fn drop(&mut self) {
        let begun = Instant::now();
        let mut answered = None;
        while self.is_running() && begun.elapsed() < DEADLINE {
            answered = answered.or_else(|| ask_admin(self.admin, "POST", "/quitquitquit"));
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = match self.is_running() {
            true => None,
            false => self.thread.take().map(std::thread::JoinHandle::join),
        };
        if !std::thread::panicking() {
            assert_eq!(answered, Some((200, "OK\n".to_owned())));
            assert!(matches!(ended, Some(Ok(()))), "it ends in order");
        }
    }
}

/// Free ports, all different.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    [(); N].map(|()| ports::next_free_port().unwrap())
}

/// Waits for a condition.
pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(begun.elapsed() < DEADLINE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A statistic of the admin interface at a port; 0 if there is none of this name.
pub(crate) fn stat(admin: u16, name: &str) -> u64 {
    stat_if_answered(admin, name).unwrap()
}

/// As [`stat`]; `None` if it does not answer, as one without descriptors.
pub(crate) fn stat_if_answered(admin: u16, name: &str) -> Option<u64> {
    let (_, body) = ask_admin(admin, "GET", "/stats")?;
    let line = |line: &str| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok();
    Some(body.lines().find_map(line).unwrap_or(0))
}

/// Asks an admin interface: the status and the body; `None` if it does not answer.
pub(crate) fn ask_admin(port: u16, method: &str, path: &str) -> Option<(u16, String)> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, DEADLINE).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )
    .ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    if !head.contains("chunked") {
        return Some((status, body.to_owned()));
    }
    let (mut rest, mut whole) = (body, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).ok().filter(|size| *size > 0);
        let Some(size) = size else { break };
        whole.push_str(after.get(..size)?);
        rest = after.get(size + 2..)?;
    }
    Some((status, whole))
}
