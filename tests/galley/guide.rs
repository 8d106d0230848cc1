//! docs/mcp.md: its files are written, its commands are run, and they must print what the page says.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use regex::Regex;

use crate::support::docs::{self, Item, commands};
use crate::support::{DEADLINE, Process, free_port, is_listening, programs, run, wait_for};

const PAGE: &str = include_str!("../../docs/mcp.md");

/// Somebody who does what the page says, with ports of this test.
struct Reader {
    directory: tempfile::TempDir,
    /// A port of the page, or of a default, and that of this test.
    ports: Vec<(&'static str, String)>,
    running: Vec<Process>,
}

impl Reader {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let ports = ["9901", "9876", "15014", "9091", "9877", "15015", "42422"];
        Self {
            directory,
            ports: ports.map(|port| (port, free_port().to_string())).into(),
            running: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn port(&self, of: &str) -> &str {
        self.ports.iter().find(|(port, _)| *port == of).map_or("", |(_, port)| port)
    }

    /// The text with the ports of this test.
    fn ported(&self, text: &str) -> String {
        let replace = |text: String, (from, to): &(&str, String)| text.replace(from, to);
        self.ports.iter().fold(text.to_owned(), replace)
    }

    fn follow(&mut self, section: &str) {
        self.running.clear();
        for item in docs::items(PAGE, section) {
            match item {
                Item::Fence { comment, content, .. } if comment.starts_with("file: ") => {
                    let path = self.path(comment.trim_start_matches("file: "));
                    std::fs::create_dir_all(path.parent().expect("a parent")).expect("it is writable");
                    std::fs::write(path, content).expect("it is writable");
                }
                Item::Fence { language: "console", content, .. } => {
                    commands(content).iter().for_each(|(command, printed)| self.enter(command, printed));
                }
                _ => {}
            }
        }
    }

    fn enter(&mut self, command: &str, printed: &str) {
        let ported = self.ported(command);
        // What the page leaves to defaults.
        let (more, listens) = match command {
            _ if command.starts_with("mixer galley server ") => {
                let [sinks, ctrlz, monitoring] = ["9901", "9876", "15014"].map(|port| self.port(port));
                let address = format!(" --server-address=tcp://127.0.0.1:{sinks}");
                (format!("{address} --ctrlz-port={ctrlz} --monitoring-port={monitoring}"), Some(ctrlz))
            }
            _ if command.starts_with("mixer server ") => {
                let [api, metrics] = ["9091", "42422"].map(|port| self.port(port));
                (format!(" --address=tcp://127.0.0.1:{api} --metrics-port={metrics}"), Some(api))
            }
            _ if command.starts_with("mixer galley ") => {
                (format!(" --server=127.0.0.1:{}", self.port("9876")), None)
            }
            _ if command.starts_with("mixer check ") => {
                (format!(" -m 127.0.0.1:{}", self.port("9091")), None)
            }
            _ => (String::new(), None),
        };
        let line = format!("{ported}{more}");
        match listens.map(|port| port.parse::<u16>().expect("a port")) {
            Some(port) => self.start(&line, port),
            None => assert_eq!(comparable(&self.run(&line)), comparable(printed), "`{command}`"),
        }
    }

    /// Starts a server, and waits until it listens.
    fn start(&mut self, line: &str, port: u16) {
        let log = self.path(&format!("log.{}", self.running.len()));
        let file = std::fs::File::create(&log).expect("it is writable");
        let mut command = Command::new(programs().path("mixer"));
        command.args(line.split_whitespace().skip(1)).current_dir(self.directory.path());
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a file")).stderr(file);
        let mut process = Process::spawn(&mut command).expect("it starts");
        let started = wait_for(DEADLINE, || match process.ended() {
            Some(_) => Some(false),
            None => is_listening(port).then_some(true),
        });
        assert_eq!(started, Some(true), "`{line}`: {}", std::fs::read_to_string(log).unwrap_or_default());
        self.running.push(process);
    }

    /// What a command prints.
    fn run(&self, line: &str) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        let own = programs().path("mixer");
        let own = own.parent().expect("a directory").display();
        let environment = [("PATH".to_owned(), format!("{own}:{path}"))];
        let arguments = ["-c".to_owned(), line.to_owned()];
        let shell = std::path::Path::new("/bin/sh");
        let directory = Some(self.directory.path());
        let finished = run(shell, &arguments, &environment, directory, None, DEADLINE).expect("it ends");
        // The status of a denied check tells so.
        let is_expected = finished.status == 0 || line.starts_with("mixer check ");
        assert!(is_expected, "`{line}`: {}{}", finished.stdout, finished.stderr);
        finished.stdout
    }
}

/// The text without the ports of clients, and without empty lines at its end.
fn comparable(text: &str) -> String {
    let peers = Regex::new(r"127\.0\.0\.1:\d+").expect("an expression");
    peers.replace_all(text.trim_end(), "PEER").into_owned()
}

#[test]
fn what_the_page_about_mcp_says_is_so() {
    let mut reader = Reader::new();
    reader.follow("Connect a server");
    reader.follow("TLS and the list of sinks");
}
