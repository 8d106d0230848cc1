//! Somebody who does what a page says: writes its files, runs its commands, and sees what it shows.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use regex::Regex;
use tempfile::TempDir;

use super::docs::{self, Item, commands};
use super::{DEADLINE, Process, envoy, free_port, is_listening, programs, run, wait_for};

/// A line of a page that stands for any number of lines.
const LEFT_OUT: &str = "…";

/// A reader in a directory of its own, with ports of its own.
pub(crate) struct Reader {
    directory: TempDir,
    /// A port of the page, or of a default, and that of this reader.
    ports: Vec<(&'static str, String)>,
    /// Servers, with the port that tells that they run.
    running: Vec<(u16, Process)>,
    /// Whether the commands have a terminal, with 120 columns and without colours.
    terminal: bool,
    started: usize,
}

impl Reader {
    /// A reader whose commands write to pipes.
    pub(crate) fn new(ports: &[&'static str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let ports = ports.iter().map(|port| (*port, free_port().to_string())).collect();
        Self { directory, ports, running: Vec::new(), terminal: false, started: 0 }
    }

    /// A reader at a terminal, in a clone of the repository: what the pages name is there.
    pub(crate) fn at_a_terminal(ports: &[&'static str]) -> Self {
        let reader = Self { terminal: true, ..Self::new(ports) };
        for name in ["deploy", "docs", "examples", "testdata"] {
            let there = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
            std::os::unix::fs::symlink(there, reader.path(name)).expect("a link");
        }
        std::fs::create_dir(reader.path("tmp")).expect("a directory");
        reader
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn port(&self, of: &str) -> &str {
        self.ports.iter().find(|(port, _)| *port == of).map_or("", |(_, port)| port)
    }

    /// The text with the ports and directories of this reader.
    fn own(&self, text: &str) -> String {
        let text = self.ports.iter().fold(text.to_owned(), |text, (from, to)| {
            let whole = Regex::new(&format!(r"\b{from}\b")).expect("an expression");
            whole.replace_all(&text, to.as_str()).into_owned()
        });
        text.replace("/tmp/", &format!("{}/tmp/", self.directory.path().display()))
    }

    /// The text with the ports and directories of the page.
    fn of_the_page(&self, text: &str) -> String {
        let text = text.replace(&format!("{}/tmp/", self.directory.path().display()), "/tmp/");
        self.ports.iter().fold(text, |text, (from, to)| text.replace(to, from))
    }

    /// Does what a section says. Servers go on until the next one on their port.
    pub(crate) fn follow(&mut self, page: &str, section: &str) {
        for item in docs::items(page, section) {
            match item {
                Item::Fence { comment, content, .. } if comment.starts_with("file: ") => {
                    let path = self.path(comment.trim_start_matches("file: ").trim_start_matches('/'));
                    std::fs::create_dir_all(path.parent().expect("a parent")).expect("it is writable");
                    // A window of a limit must not end meanwhile.
                    let content = if self.terminal {
                        self.own(content).replace("unit: hour", "unit: year")
                    } else {
                        content.to_owned()
                    };
                    std::fs::write(path, content).expect("it is writable");
                }
                Item::Fence { language: "console", content, .. } => {
                    commands(content).iter().for_each(|(command, printed)| self.enter(command, printed));
                }
                _ => {}
            }
        }
    }

    /// Runs a command as it is on the page, with the ports that it leaves to defaults.
    fn enter(&mut self, command: &str, printed: &str) {
        let own = self.own(command);
        let with = |defaults: &[(&str, String)]| {
            let missing = defaults.iter().filter(|(flag, _)| !command.contains(flag));
            missing.map(|(flag, value)| format!(" {flag}={value}")).collect::<String>()
        };
        let port = |of: &str| self.port(of).to_owned();
        let tcp = |of: &str| format!("tcp://127.0.0.1:{}", self.port(of));
        let (more, listens) = if command.starts_with("mixer galley server ") {
            let [ctrlz, monitoring] = ["9876", "15014"].map(port);
            let flags = [
                ("--server-address", tcp("9901")),
                ("--ctrlz-port", ctrlz),
                ("--monitoring-port", monitoring),
            ];
            (with(&flags), Some("9876"))
        } else if command == "mixer server" || command.starts_with("mixer server ") {
            let [metrics, monitoring, ctrlz] = ["42422", "15014", "9876"].map(port);
            let flags = [
                ("--address", tcp("9091")),
                ("--metrics-port", metrics),
                ("--monitoring-port", monitoring),
                ("--ctrlz-port", ctrlz),
            ];
            (with(&flags), Some("9091"))
        } else if command.starts_with("envoy ") {
            (format!(" --base-id {} --concurrency 1 --log-level error", envoy::base_id()), Some("8000"))
        } else if command.starts_with("mixer proxy ") && !command.contains("--mode validate") {
            (String::new(), Some("8000"))
        } else if command.starts_with("python3 -m http.server ") {
            (String::new(), Some("8081"))
        } else if command.starts_with("mixer galley ") {
            (with(&[("--server", format!("127.0.0.1:{}", self.port("9876")))]), None)
        } else if ["mixer check ", "mixer report "].iter().any(|client| command.starts_with(client))
            && !command.contains("--config")
        {
            (with(&[("-m", format!("127.0.0.1:{}", self.port("9091")))]).replace("-m=", "-m "), None)
        } else {
            (String::new(), None)
        };
        let line = format!("{own}{more}");
        if let Some(port) = listens {
            self.start(&line, self.port(port).parse().expect("a port"));
            return;
        }
        // What a server does in the background is seen a little later.
        let is_repeatable = command.starts_with("mixer check ") || command.contains("/metrics");
        let limit = if is_repeatable { DEADLINE } else { Duration::ZERO };
        let mut shown = String::new();
        let is_shown = wait_for(limit, || {
            shown = self.shown_by(&line);
            is_as_shown(&shown, printed).then_some(())
        });
        assert!(is_shown.is_some(), "`{line}` shows\n{shown}\nand not\n{printed}");
    }

    /// Starts a server in place of one on that port, and waits until it listens.
    fn start(&mut self, line: &str, port: u16) {
        self.running.retain(|(other, _)| *other != port);
        let log = self.path(&format!("log.{}", self.started));
        self.started += 1;
        let file = std::fs::File::create(&log).expect("it is writable");
        let mut words = line.split_whitespace();
        let program = match words.next() {
            Some("envoy") => envoy::program(),
            Some("mixer") => programs().path("mixer"),
            other => PathBuf::from(other.expect("a command")),
        };
        let mut command = Command::new(program);
        command.args(words).current_dir(self.directory.path());
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a file")).stderr(file);
        let mut process = Process::spawn(&mut command).expect("it starts");
        let started = wait_for(DEADLINE, || match process.ended() {
            Some(_) => Some(false),
            None => is_listening(port).then_some(true),
        });
        assert_eq!(started, Some(true), "`{line}`: {}", std::fs::read_to_string(log).unwrap_or_default());
        self.running.push((port, process));
    }

    /// What a command prints, with the ports of the page.
    fn shown_by(&self, line: &str) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        let own = programs().path("mixer");
        let own = own.parent().expect("a directory").display();
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let environment = [variable("PATH", &format!("{own}:{path}")), variable("NO_COLOR", "1")];
        let arguments = if self.terminal {
            // The terminal of a process without one.
            ["script", "-qec", &format!("stty cols 120; {line}"), "/dev/null"].map(str::to_owned).to_vec()
        } else {
            ["/bin/sh", "-c", line].map(str::to_owned).to_vec()
        };
        let (program, arguments) = arguments.split_first().expect("a program");
        let directory = Some(self.directory.path());
        let finished = run(program.as_ref(), arguments, &environment, directory, None, DEADLINE);
        let finished = finished.unwrap_or_else(|error| panic!("`{line}`: {error}"));
        // A refusal and an error are results, and shown; metrics may not be there yet.
        let is_expected = finished.status == 0 || !finished.stdout.is_empty() || line.contains("/metrics");
        assert!(is_expected, "`{line}`: {}{}", finished.stdout, finished.stderr);
        if self.terminal { self.of_the_page(&finished.stdout.replace("\r\n", "\n")) } else { finished.stdout }
    }
}

/// Whether a command shows what the page says; ports of clients and times differ.
fn is_as_shown(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (comparable(shown), comparable(printed));
    let mut parts = printed.split(LEFT_OUT);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = shown.strip_prefix(first) else { return false };
    let mut is_cut = false;
    for part in parts {
        is_cut = true;
        match rest.find(part.trim_start_matches('\n')) {
            Some(at) => rest = &rest[at + part.trim_start_matches('\n').len()..],
            None => return false,
        }
    }
    rest.is_empty() || (is_cut && printed.ends_with(LEFT_OUT))
}

/// The text without ports of clients, times and empty lines at its end.
fn comparable(text: &str) -> String {
    let peers = Regex::new(r"127\.0\.0\.1:\d+").expect("an expression");
    let times = Regex::new(
        r"\bin \d+(\.\d+)?(us|ms|s)\b|\b\d+\.\d+(us|ms|s)\b|\b\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT\b",
    )
    .expect("an expression");
    times.replace_all(&peers.replace_all(text.trim_end(), "PEER"), "TIME").into_owned()
}

#[test]
fn what_is_left_out_matches_any_lines() {
    assert!(is_as_shown("a\nb\nc\nd\n", "a\n…\nd\n"));
    assert!(is_as_shown("a in 3ms\n", "a in 4.5s\n"));
    assert!(is_as_shown("a\nb\n", "a\n…\n"));
    assert!(!is_as_shown("a\nb\nc\n", "a\nc\n"));
    assert!(!is_as_shown("a\nb\nc\n", "a\n…\nd\n"));
    assert!(!is_as_shown("a\nb\n", "a\n"));
}
