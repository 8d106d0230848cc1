//! Adapters that `mixer adapter new` writes: built by cargo, called by a server.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{DEADLINE, Finished, Process, Server, programs, run, run_mixer, wait_for};

/// Building all dependencies for the first time takes a minute or two of both cores, which others may share.
const BUILD: Duration = Duration::from_secs(3600);

/// A new adapter in a directory of its own.
struct Scaffold {
    _directory: tempfile::TempDir,
    root: PathBuf,
    name: &'static str,
}

impl Scaffold {
    fn new(name: &'static str, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join(name);
        let path = root.display().to_string();
        let made = run_mixer(&[&["adapter", "new", name, "--directory", &path], arguments].concat());
        assert_eq!((made.status, &*made.stderr), (0, ""));
        // The versions that this workspace is built with: no other one need be there.
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
        std::fs::copy(lock, root.join("Cargo.lock")).expect("the lock file");
        Self { _directory: directory, root, name }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("it exists")
    }

    /// Runs cargo without network, with warnings as errors.
    fn cargo(&self, command: &str) {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scaffold").display().to_string();
        let environment =
            [("CARGO_TARGET_DIR", &*target), ("RUSTFLAGS", "-Dwarnings"), ("CARGO_PROFILE_DEV_DEBUG", "0")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let arguments = [command, "--offline", "--quiet"].map(str::to_owned);
        let ran = run(Path::new(env!("CARGO")), &arguments, &environment, Some(&self.root), None, BUILD);
        let ran = ran.expect("it ends");
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    }

    fn program(&self) -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("scaffold/debug").join(self.name)
    }

    /// Starts the adapter; its handler calls it.
    fn start(&self) -> Process {
        let output = File::create(self.path("printed")).expect("it is writable");
        let mut command = Command::new(self.program());
        command.arg("127.0.0.1:0").stdin(Stdio::null()).stdout(output);
        let adapter = Process::spawn(&mut command).expect("it starts");
        let address = wait_for(DEADLINE, || {
            let printed = self.read("printed");
            Some(printed.strip_prefix("listening on ")?.strip_suffix('\n')?.to_owned())
        });
        let address = address.expect("it listens");
        // A check that finds no processor time for a second is denied otherwise.
        let policy = self.read("config/policy.yaml").replace("127.0.0.1:9070", &address);
        let policy = policy.replace("timeout: 1s", "timeout: 60s");
        std::fs::write(self.path("config/policy.yaml"), policy).expect("it is writable");
        adapter
    }

    /// Runs `mixer` in the directory of the adapter.
    fn mixer(&self, arguments: &[&str]) -> Finished {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        run(&programs().path("mixer"), &arguments, &[], Some(&self.root), None, DEADLINE).expect("it ends")
    }
}

/// All templates that are built in, and one of its own for each variety.
const ALL: &str = "apikey,authorization,checknothing,edge,kubernetes,listentry,logentry,metric,quota,reportnothing,tracespan,\
                   guard:check,team:check-with-output,amount:quota,seen:report,owner:attribute-generator";

#[test]
fn a_new_adapter_builds_and_serves() {
    let scaffold = Scaffold::new("gate-keeper", &["--template", ALL, "--namespace", "istio-system"]);
    let valid = scaffold.mixer(&["validate", "config", "--strict", "--lint", "--output", "plain"]);
    assert_eq!((valid.status, &*valid.stdout), (0, ""), "{}", valid.stderr);
    scaffold.cargo("build");
    let mut adapter = scaffold.start();
    let server = Server::builder().native().in_directory(&scaffold.root);
    let server = server.with(&["--config-store-url", "fs://config"]).start();
    let address = server.address();
    let mixer = |arguments: &[&str]| scaffold.mixer(&[arguments, &["-m", &address]].concat());

    let allowed = mixer(&["check", "-o", "json", "-s", "source.user=ann"]);
    assert_eq!(allowed.status, 0, "{}{}", allowed.stdout, allowed.stderr);
    assert!(allowed.stdout.contains("x-team") && allowed.stdout.contains("of ann"), "{}", allowed.stdout);
    let denied = mixer(&["check", "-o", "plain", "-s", "source.user=eve"]);
    assert_eq!(denied.status, 1, "{}", denied.stderr);
    let why = "gate-keeper.handler.istio-system:`eve` is refused";
    assert!(denied.stdout.contains(why), "{}", denied.stdout);

    for (quota, granted) in
        [("gate-keeper-quota=3", "3"), ("gate-keeper-quota=11", "10"), ("gate-keeper-amount=10", "10")]
    {
        let ran = mixer(&["check", "-o", "plain", "-s", "source.user=ann", "-q", quota]);
        let name = quota.split('=').next().unwrap_or_default();
        let row = ran.stdout.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, [name, granted, "1m0s"], "{quota}: {}{}", ran.stdout, ran.stderr);
    }

    let reported = mixer(&["report", "-s", "source.user=ann,request.path=/books", "-i", "response.code=200"]);
    assert_eq!(reported.status, 0, "{}", reported.stderr);
    let printed = ["logentry", "metric", "tracespan", "edge", "reportnothing", "seen"];
    let all = wait_for(DEADLINE, || {
        let text = scaffold.read("printed");
        printed.iter().all(|name| text.contains(&format!("gate-keeper-{name}.instance"))).then_some(())
    });
    assert!(all.is_some(), "{}", scaffold.read("printed"));
    assert!(scaffold.read("printed").contains("/books"), "{}", scaffold.read("printed"));

    adapter.signal("TERM");
    assert_eq!(adapter.wait(DEADLINE), Some(Some(0)));
}

/// What an adapter does not need is not in it: unused code would be a warning.
#[test]
fn an_adapter_of_one_template_builds() {
    for template in [
        "listentry,quota,logentry",
        "quota",
        "logentry",
        "kubernetes",
        "team:check-with-output",
        "owner:attribute-generator",
    ] {
        let scaffold = Scaffold::new("gate", &["--template", template]);
        let valid = scaffold.mixer(&["validate", "config", "--strict", "--lint", "--output", "plain"]);
        assert_eq!((valid.status, &*valid.stdout), (0, ""), "{template}: {}", valid.stderr);
        scaffold.cargo("check");
    }
}

#[test]
fn the_commands_of_the_readme_work() {
    let scaffold = Scaffold::new("gate", &["--template", "quota,logentry"]);
    let readme = scaffold.read("README.md");
    let again = readme.lines().find(|line| line.starts_with("mixer adapter resources")).expect("a command");
    let (command, file) = again.split_once(" > ").expect("it writes a file");
    let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
    assert_eq!(scaffold.mixer(&arguments).stdout, scaffold.read(file));
    for command in [
        "mixer validate config",
        "mixer server --config-store-url fs://config",
        "mixer check -s source.user=ann -q gate-quota=3",
        "cargo run",
    ] {
        assert!(readme.lines().any(|line| line == command), "{command} is not in\n{readme}");
    }
    assert!(!readme.contains("{{"), "{readme}");
}
