//! Stand-ins for cloud services, which verify and print what they are sent: the programs in `cloud/`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{DEADLINE, Process, free_port, is_listening, python, wait_for};

/// A stand-in.
pub(crate) struct Cloud {
    _process: Process,
    pub(crate) port: u16,
    directory: tempfile::TempDir,
}

impl Cloud {
    /// Starts `cloud/PROGRAM.py PORT DIRECTORY ARGUMENTS…`.
    pub(crate) fn start(program: &str, arguments: &[&str]) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let directory = tempfile::tempdir().map_err(text)?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/support/cloud/{program}.py"));
        let output = std::fs::File::create(directory.path().join("output")).map_err(text)?;
        let port = free_port();
        let mut command = Command::new(python());
        command.arg(script).arg(port.to_string()).arg(directory.path()).args(arguments);
        command.stdin(Stdio::null()).stdout(output.try_clone().map_err(text)?).stderr(output);
        let process = Process::spawn(&mut command).map_err(text)?;
        let cloud = Self { _process: process, port, directory };
        let ready = wait_for(DEADLINE, || is_listening(port).then_some(()));
        ready.map(|()| cloud).ok_or_else(|| format!("`{program}` does not listen"))
    }

    /// A file that it made, such as `ca.crt`.
    pub(crate) fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What it printed.
    pub(crate) fn printed(&self) -> String {
        std::fs::read_to_string(self.path("output")).unwrap_or_default()
    }

    /// The requests that it received so far. Errors: one that the service would not take.
    pub(crate) fn requests(&self) -> Result<Vec<Value>, String> {
        let text = self.printed();
        // The last line may be incomplete.
        let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        complete
            .lines()
            .map(|line| {
                let request: Value = serde_json::from_str(line).map_err(|_| text.clone())?;
                if request["error"].is_null() { Ok(request) } else { Err(request.to_string()) }
            })
            .collect()
    }

    /// The requests that it took, once there are so many.
    pub(crate) fn taken(&self, least: usize) -> Result<Vec<Value>, String> {
        let taken = || -> Result<Vec<Value>, String> {
            let is_taken = |request: &Value| request["outcome"] == "taken";
            Ok(self.requests()?.into_iter().filter(is_taken).collect())
        };
        let all = wait_for(DEADLINE, || match taken() {
            Ok(all) if all.len() < least => None,
            other => Some(other),
        });
        all.unwrap_or_else(|| Err(format!("fewer than {least} requests: {}", self.printed())))
    }
}
