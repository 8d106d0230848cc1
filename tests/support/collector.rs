//! Programs that receive what is sent, and print it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{DEADLINE, Process, free_port, is_listening, python, wait_for};

/// The program of a collector of OpenTelemetry.
pub(crate) fn rotel() -> PathBuf {
    let found = Command::new(python())
        .args(["-c", "import os, rotel; print(os.path.dirname(rotel.__file__), end='')"])
        .output()
        .expect("python runs");
    PathBuf::from(String::from_utf8_lossy(&found.stdout).into_owned()).join("rotel-agent")
}

/// A collector that prints what it receives.
pub(crate) struct Collector {
    process: Process,
    /// Where it listens.
    pub(crate) port: u16,
    output: PathBuf,
    _directory: tempfile::TempDir,
}

impl Collector {
    /// Starts it on a free port, and waits until it listens.
    pub(crate) fn start(program: &Path, arguments: impl FnOnce(u16) -> Vec<String>) -> Self {
        Self::start_on(free_port(), program, arguments)
    }

    /// Starts it on a port, and waits until it listens.
    pub(crate) fn start_on(port: u16, program: &Path, arguments: impl FnOnce(u16) -> Vec<String>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let output = directory.path().join("output");
        let file = std::fs::File::create(&output).expect("a file");
        let mut command = Command::new(program);
        command
            .args(arguments(port))
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a file"))
            .stderr(file);
        let process = Process::spawn(&mut command).expect("the collector starts");
        let collector = Self { process, port, output, _directory: directory };
        let ready = wait_for(DEADLINE, || is_listening(port).then_some(()));
        assert!(ready.is_some(), "the collector does not listen: {}", collector.printed());
        collector
    }

    /// Sends a signal, for example `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// What it has printed so far.
    pub(crate) fn printed(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }
}
