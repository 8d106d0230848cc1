//! A Galley that serves a copy of the directory of a case.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Process, free_port, is_listening, programs, wait_for};

/// How long a start may take.
const START: Duration = Duration::from_secs(30);
/// How often a start is repeated when another process took a port.
const ATTEMPTS: usize = 3;

/// A process that serves.
pub(super) struct Serving {
    process: Process,
    port: u16,
    directory: TempDir,
}

impl Serving {
    pub(super) fn start(case: &Path, about: &Value, processor: &str) -> Result<Self, String> {
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            match Self::attempt(case, about, processor) {
                Ok(serving) => return Ok(serving),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn attempt(case: &Path, about: &Value, processor: &str) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = |name: &str| directory.path().join(name);
        let shown = |error: std::io::Error| error.to_string();
        std::fs::create_dir(path("config")).map_err(shown)?;
        copy(&case.join("input"), &path("config")).map_err(shown)?;
        let mesh = about["meshConfig"].as_str().map(|name| std::fs::read(case.join(name))).transpose();
        std::fs::write(path("mesh.yaml"), mesh.map_err(shown)?.unwrap_or_default()).map_err(shown)?;
        let [port, monitoring, ctrlz] = [(); 3].map(|()| free_port());
        let mut command = Command::new(programs().path("mixer"));
        command
            .args(["galley", "server", "--insecure", "--enable-validation=false"])
            .args(["--enable-reconcileWebhookConfiguration=false", "--watchConfigFiles=false"])
            // The defaults of a program called galley.
            .args(["--incremental=false", "--config-on-error=serve-valid"])
            .arg(format!("--configPath={}", path("config").display()))
            .arg(format!("--meshConfigFile={}", path("mesh.yaml").display()))
            .arg(format!("--server-address=tcp://127.0.0.1:{port}"))
            .arg(format!("--monitoringPort={monitoring}"))
            .arg(format!("--ctrlz_port={ctrlz}"))
            .arg(format!("--livenessProbePath={}", path("live").display()))
            .arg(format!("--readinessProbePath={}", path("ready").display()))
            .arg(format!("--useOldProcessor={}", processor == "1"));
        let arguments = &about["args"];
        if let Some(on) = arguments["enableServiceDiscovery"].as_bool() {
            command.arg(format!("--enableServiceDiscovery={on}"));
        }
        if let Some(domain) = arguments["domain"].as_str() {
            command.arg(format!("--domain={domain}"));
        }
        let list = |name: &str| super::strings(&arguments[name]).join(",");
        if arguments["excludedResourceKinds"].is_array() {
            command.arg(format!("--excludedResourceKinds={}", list("excludedResourceKinds")));
        }
        if arguments["sinkMeta"].is_array() {
            command.arg(format!("--sinkMeta={}", list("sinkMeta")));
        }
        let log = std::fs::File::create(path("log")).map_err(shown)?;
        let errors = log.try_clone().map_err(shown)?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let process = Process::spawn(&mut command).map_err(|error| format!("cannot start: {error}"))?;
        let mut serving = Self { process, port, directory };
        let started = wait_for(START, || match serving.process.ended() {
            Some(status) => Some(Err(format!("it ended: {status}"))),
            None => is_listening(port).then_some(Ok(())),
        });
        match started.unwrap_or_else(|| Err("it does not listen".to_owned())) {
            Ok(()) => Ok(serving),
            Err(why) => Err(format!("{why}{}", serving.log())),
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Replaces the directory by another one, and asks for a reload.
    pub(super) fn replace(&self, by: &Path) -> Result<(), String> {
        let config = self.directory.path().join("config");
        let shown = |error: std::io::Error| error.to_string();
        for path in files(&config).map_err(shown)? {
            let kept = path.strip_prefix(&config).is_ok_and(|name| by.join(name).is_file());
            if !kept {
                std::fs::remove_file(&path).map_err(shown)?;
            }
        }
        copy(by, &config).map_err(shown)?;
        self.process.signal("USR1");
        Ok(())
    }

    /// The end of its output.
    pub(super) fn log(&mut self) -> String {
        let text = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        let lines: Vec<&str> = lines.into_iter().rev().collect();
        if lines.is_empty() { String::new() } else { format!("; its log ends: {}", lines.join(" | ")) }
    }
}

/// All files below a directory.
fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(files(&path)?),
            false => found.push(path),
        }
    }
    Ok(found)
}

/// Copies what is below a directory; a file that is the same already stays as it is.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    for path in files(from)? {
        let Ok(name) = path.strip_prefix(from) else { continue };
        let (target, content) = (to.join(name), std::fs::read(&path)?);
        if std::fs::read(&target).is_ok_and(|old| old == content) {
            continue;
        }
        target.parent().map(std::fs::create_dir_all).transpose()?;
        std::fs::write(target, content)?;
    }
    Ok(())
}
