//! The binary under test under the names it answers to, and child processes that are killed on drop.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

use super::{DEADLINE, wait_for};

/// The binary under its names, as symlinks; `MIXER_CONFORMANCE_SERVER` and `MIXER_CONFORMANCE_CLIENT` replace `mixs` and `mixc`.
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

/// Ends the test binary: no test can run.
pub(crate) fn fatal(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(2)
}

/// The Python interpreter with the packages of tests/requirements.txt, which `.ci/run needs` installs.
pub(crate) fn python() -> PathBuf {
    // target/tmp -> target/python.
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("python").join("bin/python");
    assert!(
        python.exists(),
        "{} is missing: run `.ci/run needs`, which installs tests/requirements.txt",
        python.display()
    );
    python
}

/// The packages of tests/package.json, which `.ci/run needs` installs.
pub(crate) fn node_modules() -> PathBuf {
    // target/tmp -> target/node.
    let modules = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("node").join("node_modules");
    assert!(
        modules.join("statsd").exists(),
        "{} is missing: run `.ci/run needs`, which installs tests/package.json",
        modules.display()
    );
    modules
}

/// Replaces a file atomically, by a rename.
pub(crate) fn put(path: &Path, content: &str) {
    let beside = path.with_extension("prepared");
    let written = std::fs::write(&beside, content).and_then(|()| std::fs::rename(&beside, path));
    assert!(written.is_ok(), "{}: {written:?}", path.display());
}

/// A child process; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts a command.
    pub(crate) fn spawn(command: &mut Command) -> std::io::Result<Self> {
        command.spawn().map(Self)
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// The maximum of its resident memory, in KiB; 0 if it has ended.
    pub(crate) fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    /// Takes the pipe of its standard output.
    pub(crate) fn stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.0.stdout.take()
    }

    /// Sends a signal, for example `HUP`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -{name}");
    }

    /// The exit status, when it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }

    /// Waits for its exit code; `None` inside means a signal ended it, `None` outside that it still runs.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<Option<i32>> {
        wait_for(limit, || self.ended()).map(|status| status.code())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The result of a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Finished {
    /// Exit status; 128 plus the signal if one ended it.
    pub(crate) status: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

/// Runs `mixer` with these arguments.
pub(crate) fn run_mixer(arguments: &[&str]) -> Finished {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    run(&programs().path("mixer"), &arguments, &[], None, None, DEADLINE).expect("the command ends")
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
    let stdout = child.stdout.take().map(read_all);
    let stderr = child.stderr.take().map(read_all);
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

fn read_all(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
