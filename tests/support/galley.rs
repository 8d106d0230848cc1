//! A galley under test: free ports, a temporary directory, captured output, killed on drop.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{DEADLINE, Finished, Process, free_port, http, is_listening, programs, run, wait_for};

/// How often a start is repeated when another process took a port.
const ATTEMPTS: usize = 5;

/// A running galley.
pub(crate) struct Galley {
    process: Process,
    directory: TempDir,
    pub(crate) sinks: u16,
    pub(crate) monitoring: u16,
    pub(crate) ctrlz: u16,
    pub(crate) webhook: u16,
}

impl Galley {
    /// Serves a directory of its own, with these files and further arguments of `mixer galley server`.
    pub(crate) fn of_files(files: &[(&str, &str)], arguments: &[&str]) -> Self {
        Self::in_environment(files, arguments, &[])
    }

    /// As [`of_files`](Self::of_files), with variables of the environment.
    pub(crate) fn in_environment(
        files: &[(&str, &str)],
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        Self::start(Some(files), arguments, environment, None)
            .unwrap_or_else(|log| panic!("galley does not start: {log}"))
    }

    /// As [`of_files`](Self::of_files), with an address space of so many KiB.
    pub(crate) fn within(address_space: u64, files: &[(&str, &str)], arguments: &[&str]) -> Self {
        Self::start(Some(files), arguments, &[("RUST_BACKTRACE", "0")], Some(address_space))
            .unwrap_or_else(|log| panic!("galley does not start: {log}"))
    }

    /// Serves what the arguments of `mixer galley server` say, for example `--kubeconfig`. Errors: it does not start; what it printed.
    pub(crate) fn of_arguments(arguments: &[&str]) -> Result<Self, String> {
        Self::start(None, arguments, &[], None)
    }

    fn start(
        files: Option<&[(&str, &str)]>,
        arguments: &[&str],
        environment: &[(&str, &str)],
        address_space: Option<u64>,
    ) -> Result<Self, String> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            match Self::attempt(files, arguments, environment, address_space) {
                Err(log) if log.contains("address already in use") => last = log,
                other => return other,
            }
        }
        Err(last)
    }

    fn attempt(
        files: Option<&[(&str, &str)]>,
        arguments: &[&str],
        environment: &[(&str, &str)],
        address_space: Option<u64>,
    ) -> Result<Self, String> {
        let directory = tempfile::Builder::new().prefix("mixer-galley").tempdir().expect("a directory");
        let config = directory.path().join("config");
        std::fs::create_dir(&config).expect("a directory");
        for (name, text) in files.into_iter().flatten() {
            std::fs::write(config.join(name), text).expect("a file");
        }
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
        std::fs::write(&cert, made.cert.pem()).expect("a file");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
        let [sinks, monitoring, ctrlz, webhook] = [(); 4].map(|()| free_port());
        let log = std::fs::File::create(directory.path().join("log")).expect("a file");
        let mixer = programs().path("mixer");
        let mut command = match address_space {
            None => Command::new(mixer),
            Some(kib) => {
                let mut shell = Command::new("/bin/sh");
                shell.arg("-c").arg(format!("ulimit -v {kib} && exec \"$0\" \"$@\"")).arg(mixer);
                shell
            }
        };
        let file = |path: &Path| path.display().to_string();
        command
            .args(["galley", "server", "--insecure"])
            .args(files.map(|_| format!("--config-path={}", file(&config))))
            .arg(format!("--server-address=tcp://127.0.0.1:{sinks}"))
            .arg(format!("--monitoring-port={monitoring}"))
            .arg(format!("--ctrlz-port={ctrlz}"))
            .arg(format!("--validation-port={webhook}"))
            .args([format!("--tls-cert-file={}", file(&cert)), format!("--tls-key-file={}", file(&key))])
            .arg(format!("--ca-cert-file={}", file(&cert)))
            .args(arguments)
            .envs(environment.iter().copied())
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a file"))
            .stdout(log);
        let process = Process::spawn(&mut command).expect("a process");
        let mut galley = Self { process, directory, sinks, monitoring, ctrlz, webhook };
        let started = wait_for(DEADLINE, || match galley.process.ended() {
            Some(_) => Some(false),
            None => is_listening(ctrlz).then_some(true),
        });
        match started {
            Some(true) => Ok(galley),
            _ => Err(galley.log()),
        }
    }

    /// A path of its directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file of its configuration.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path("config").join(name);
        let beside = self.path("config").join(format!(".{name}.new"));
        std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &path)).expect("a file");
    }

    /// Its ControlZ endpoint.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ctrlz)
    }

    /// Renews the certificate of its webhook, which is its own root.
    pub(crate) fn renew_certificate(&self) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        std::fs::write(self.path("key.pem"), made.signing_key.serialize_pem()).expect("a file");
        std::fs::write(self.path("cert.pem"), made.cert.pem()).expect("a file");
    }

    /// A JSON document of ControlZ.
    pub(crate) fn document(&self, path: &str) -> Value {
        let answer = http("GET", &format!("http://{}{path}", self.address()), "").expect("an answer");
        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{path}: {error}: {}", answer.body))
    }

    /// Its metrics.
    pub(crate) fn metrics(&self) -> String {
        let url = format!("http://127.0.0.1:{}/metrics", self.monitoring);
        http("GET", &url, "").expect("an answer").body
    }

    /// Waits until everything was published.
    pub(crate) fn synced(&self) {
        let synced = wait_for(DEADLINE, || (self.document("/statusj/")["isSynced"] == true).then_some(()));
        assert!(synced.is_some(), "not synced: {}\n{}", self.document("/statusj/"), self.log());
    }

    /// Runs `mixer galley …` against it.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Finished {
        let mut all: Vec<String> = ["galley"].iter().chain(arguments).map(|a| (*a).to_owned()).collect();
        all.push(format!("--server={}", self.address()));
        run(&programs().path("mixer"), &all, &[], None, None, DEADLINE).expect("the command ends")
    }

    /// What it printed.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// The maximum of its resident memory, in KiB; 0 if it has ended.
    pub(crate) fn peak_kib(&self) -> u64 {
        self.process.peak_kib()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Waits for its end; its status.
    pub(crate) fn end(&mut self) -> Option<i32> {
        self.process.wait(DEADLINE).flatten()
    }
}
