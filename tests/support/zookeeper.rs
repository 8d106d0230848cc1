//! A real ZooKeeper, which a test starts on a free port with a directory of its own: Debian's package `libzookeeper-java`; and a client
//! that writes, which speaks the protocol by itself.

#![allow(
    clippy::allow_attributes,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "support of tests, of which each uses its part"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a start may take, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often a start is repeated when another process took the port.
const ATTEMPTS: usize = 5;
/// The libraries of the server, in the directory of Debian.
const LIBRARIES: [&str; 13] = [
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-simple",
    "metrics-core",
    "snappy-java",
    "netty-buffer",
    "netty-codec",
    "netty-common",
    "netty-handler",
    "netty-resolver",
    "netty-transport",
    "netty-transport-native-unix-common",
];

/// A running ZooKeeper.
pub(crate) struct Zookeeper {
    process: Option<Child>,
    directory: TempDir,
    port: u16,
    tls: Option<Tls>,
}

/// TLS of a server, PEM.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) port: u16,
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// The roots of clients, which all need a certificate.
    pub(crate) roots: String,
}

impl Zookeeper {
    /// Starts one that is empty. `port` gives free ports.
    pub(crate) fn start(port: impl Fn() -> u16) -> Self {
        Self::start_with(port, None)
    }

    /// The same, with another port for TLS.
    pub(crate) fn start_with(port: impl Fn() -> u16, tls: Option<Tls>) -> Self {
        for _ in 0..ATTEMPTS {
            let directory =
                tempfile::Builder::new().prefix("mixer-zookeeper").tempdir().expect("a directory");
            let mut server = Self { process: None, directory, port: port(), tls: tls.clone() };
            if server.run() {
                return server;
            }
            assert!(server.log().contains("Address already in use"), "no start: {}", server.log());
        }
        panic!("no port is free");
    }

    /// Whether it starts.
    fn run(&mut self) -> bool {
        let path = self.directory.path();
        let mut settings = format!(
            "tickTime=1000\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n\
             4lw.commands.whitelist=*\nmaxClientCnxns=0\nminSessionTimeout=1000\n",
            path.join("data").display(),
            self.port
        );
        if let Some(tls) = &self.tls {
            let [own, roots] = ["own.pem", "roots.pem"].map(|name| path.join(name));
            std::fs::write(&own, format!("{}{}", tls.key, tls.certificate)).expect("a file");
            std::fs::write(&roots, &tls.roots).expect("a file");
            settings += &format!(
                "secureClientPort={}\nsecureClientPortAddress=127.0.0.1\n\
                 serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
                 ssl.keyStore.location={}\nssl.keyStore.type=PEM\nssl.trustStore.location={}\nssl.trustStore.type=PEM\n",
                tls.port,
                own.display(),
                roots.display()
            );
        }
        std::fs::write(path.join("zoo.cfg"), settings).expect("a file");
        let log = std::fs::File::options().create(true).append(true).open(path.join("log")).expect("a file");
        let libraries: Vec<String> =
            LIBRARIES.iter().map(|library| format!("/usr/share/java/{library}.jar")).collect();
        assert!(
            libraries.iter().all(|library| Path::new(library).exists()),
            "ZooKeeper is installed: `.ci/run needs` does it"
        );
        let process = Command::new("java")
            .args([
                "-Xmx96m",
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-Dzookeeper.forceSync=no",
                "-cp",
            ])
            .arg(libraries.join(":"))
            .args(["org.apache.zookeeper.server.ZooKeeperServerMain", "zoo.cfg"])
            .current_dir(path)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("Java is installed: `.ci/run needs` does it");
        self.process = Some(process);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if self.command("ruok") == "imok" && self.is_serving() {
                return true;
            }
            let ended = self.process.as_mut().is_none_or(|process| !matches!(process.try_wait(), Ok(None)));
            if ended {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    fn is_serving(&self) -> bool {
        self.command("srvr").contains("Mode: standalone")
    }

    /// `HOST:PORT`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends it as a machine does that fails (SIGKILL).
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it again, with what it had.
    pub(crate) fn restart(&mut self) {
        self.kill();
        assert!(self.run(), "no second start: {}", self.log());
    }

    /// Forgets everything, sessions included. It does not run.
    pub(crate) fn wipe(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.directory.path().join("data")).expect("the directory");
    }

    /// Stops it for a while, or lets it go on: `STOP` or `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.as_ref().map(|process| process.id().to_string()).expect("it runs");
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status().expect("kill runs");
        assert!(sent.success(), "{name}");
    }

    /// The answer to a command of four letters; empty if there is none.
    pub(crate) fn command(&self, letters: &str) -> String {
        let mut answer = String::new();
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return answer };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let _ = stream.write_all(letters.as_bytes());
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    /// The number of sessions.
    pub(crate) fn sessions(&self) -> usize {
        self.command("dump").lines().filter(|line| line.trim().starts_with("0x")).count()
    }

    /// What it printed.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// A client that writes.
    pub(crate) fn writer(&self) -> Writer {
        Writer::connect(self.port)
    }
}

impl Drop for Zookeeper {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes nodes.
pub(crate) struct Writer {
    port: u16,
    stream: TcpStream,
    number: i32,
    used: Instant,
}

impl Drop for Writer {
    /// Ends its session.
    fn drop(&mut self) {
        let close = [8_i32.to_be_bytes(), 0_i32.to_be_bytes(), (-11_i32).to_be_bytes()].concat();
        let _ = self.stream.write_all(&close);
        // Until the server has done so.
        let _ = self.stream.set_read_timeout(Some(Duration::from_secs(5)));
        let _ = self.stream.read_to_end(&mut Vec::new());
    }
}

/// Who may do what with a node.
#[derive(Clone, Copy)]
pub(crate) enum Acl<'a> {
    /// Everybody, everything.
    Open,
    /// Nobody but a user, `user:BASE64(SHA-1(user:password))`; everybody may change that again.
    User(&'a str),
}

impl Writer {
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("ZooKeeper listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut writer = Self { port, stream, number: 0, used: Instant::now() };
        let mut first = Vec::new();
        first.extend(0_i32.to_be_bytes());
        first.extend(0_i64.to_be_bytes());
        first.extend(20_000_i32.to_be_bytes());
        first.extend(0_i64.to_be_bytes());
        put(&mut first, &[0; 16]);
        first.push(0);
        writer.send(&first);
        assert!(writer.receive().len() >= 36, "an answer");
        writer
    }

    fn send(&mut self, body: &[u8]) {
        let mut message = i32::try_from(body.len()).expect("a length").to_be_bytes().to_vec();
        message.extend(body);
        self.stream.write_all(&message).expect("ZooKeeper reads");
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("ZooKeeper answers");
        let mut body = vec![0; usize::try_from(i32::from_be_bytes(length)).expect("a length")];
        self.stream.read_exact(&mut body).expect("ZooKeeper answers");
        body
    }

    /// Sends a request; the error of its reply, or 0.
    fn ask(&mut self, operation: i32, body: &[u8]) -> i32 {
        // A session that is idle ends.
        if self.used.elapsed() > Duration::from_secs(5) {
            *self = Self::connect(self.port);
        }
        self.used = Instant::now();
        self.number += 1;
        let mut request = self.number.to_be_bytes().to_vec();
        request.extend(operation.to_be_bytes());
        request.extend(body);
        self.send(&request);
        let reply = self.receive();
        let code: [u8; 4] = reply.get(12..16).and_then(|code| code.try_into().ok()).expect("a reply");
        i32::from_be_bytes(code)
    }

    /// Creates a node, and those above it that are missing.
    pub(crate) fn create(&mut self, path: &str) {
        self.create_for(path, Acl::Open);
    }

    /// As [`create`](Self::create), for somebody.
    pub(crate) fn create_for(&mut self, path: &str, acl: Acl<'_>) {
        if let Some((above, _)) = path.rsplit_once('/').filter(|(above, _)| !above.is_empty()) {
            let mut body = Vec::new();
            put(&mut body, above.as_bytes());
            body.push(0);
            if self.ask(3, &body) != 0 {
                self.create(above);
            }
        }
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        put(&mut body, &[]);
        put_acl(&mut body, acl);
        body.extend(0_i32.to_be_bytes());
        let code = self.ask(1, &body);
        assert!(matches!(code, 0 | -110), "{path} cannot be created: {code}");
    }

    /// Says who may do what with a node.
    pub(crate) fn allow(&mut self, path: &str, acl: Acl<'_>) {
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        put_acl(&mut body, acl);
        body.extend((-1_i32).to_be_bytes());
        assert_eq!(self.ask(7, &body), 0, "{path}");
    }

    /// Deletes a node without children.
    pub(crate) fn delete(&mut self, path: &str) {
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        body.extend((-1_i32).to_be_bytes());
        assert_eq!(self.ask(2, &body), 0, "{path}");
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(i32::try_from(bytes.len()).expect("a length").to_be_bytes());
    out.extend(bytes);
}

fn put_acl(out: &mut Vec<u8>, acl: Acl<'_>) {
    const ALL: i32 = 31;
    const ADMIN: i32 = 16;
    let anyone = |permissions| (permissions, "world", "anyone");
    let entries = match acl {
        Acl::Open => vec![anyone(ALL)],
        Acl::User(id) => vec![(ALL, "digest", id), anyone(ADMIN)],
    };
    out.extend(i32::try_from(entries.len()).expect("a length").to_be_bytes());
    for (permissions, scheme, id) in entries {
        out.extend(permissions.to_be_bytes());
        put(out, scheme.as_bytes());
        put(out, id.as_bytes());
    }
}
