//! Signals, the protocol of systemd, the journal, the pid file, and what a stop still writes.

use std::os::unix::net::UnixDatagram;

use crate::support::bag::{Attribute, Attributes, Words, encode_alone};
use crate::support::rpc::{Client, mixer as wire};
use crate::support::{DEADLINE, Server, ServerBuilder, http, wait_for};
use crate::text;

/// A directory with one configuration file; without content the file has a comment.
pub(crate) fn configuration(content: &str) -> tempfile::TempDir {
    let content = if content.is_empty() { "# Nothing.\n" } else { content };
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(directory.path().join("config")).expect("it is writable");
    std::fs::write(directory.path().join("config/all.yaml"), content).expect("it is writable");
    directory
}

pub(crate) fn on(directory: &tempfile::TempDir) -> ServerBuilder {
    Server::on(&directory.path().join("config"))
}

/// A configuration that appends a line per report to a file.
pub(crate) fn access_log(path: &std::path::Path) -> String {
    format!(
        "
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {{name: m, namespace: istio-system}}
spec: {{attributes: {{source.user: {{valueType: STRING}}}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: log, namespace: istio-system}}
spec:
  compiledAdapter: stdio
  params: {{outputPath: '{}', logStream: FILE}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {{name: line, namespace: istio-system}}
spec: {{compiledTemplate: logentry, params: {{severity: '\"info\"', variables: {{user: source.user}}}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {{name: write, namespace: istio-system}}
spec: {{actions: [{{handler: log, instances: [line]}}]}}
",
        path.display()
    )
}

#[test]
fn sighup_reopens_log_files_and_reloads_settings_and_configuration() {
    let directory = configuration("");
    let path = |name: &str| directory.path().join(name);
    let settings = path("settings.yaml");
    std::fs::write(&settings, "log-output-level: default:info\n").expect("it is writable");
    let (log, config_file) = (path("log").display().to_string(), settings.display().to_string());
    let arguments = on(&directory).with(&["--config-file", &config_file, "--log_target", &log]);
    let mut server = arguments.start();
    assert!(text(&path("log")).contains("Built new config.Snapshot: id='1'"), "{}", text(&path("log")));

    std::fs::rename(path("log"), path("log.1")).expect("it is writable");
    std::fs::write(&settings, "log-output-level: default:debug\nmax-message-size: 4096\n").expect("writable");
    server.signal("HUP");
    let reloaded = wait_for(DEADLINE, || text(&path("log")).contains("reloaded").then_some(()));
    assert!(reloaded.is_some(), "new: {}\nold: {}", text(&path("log")), text(&path("log.1")));
    assert_eq!(server.terminate(), Ok(Some(0)));
    let new = text(&path("log"));
    assert!(new.contains("a change of MaxMessageSize takes effect after a restart"), "{new}");
    assert!(new.contains("stopping on SIGTERM"), "{new}");
    assert!(new.contains("\tdebug\tended calls"), "the level of the settings took effect\n{new}");
}

#[test]
fn sigusr1_rotates_the_log_sigusr2_dumps_the_state_and_sigquit_the_threads() {
    let directory = configuration(
        "
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: stored, namespace: istio-system}
spec: {compiledAdapter: redisquota, params: {redisServerUrl: 'redis://user:hunter2@127.0.0.1:1/0'}}
",
    );
    let log = directory.path().join("rotated.log");
    let name = log.display().to_string();
    let mut server = on(&directory).with(&["--log_rotate", &name]).start();
    let rotated = || {
        let files = std::fs::read_dir(directory.path()).expect("it is readable").flatten();
        files.filter(|f| f.file_name().to_string_lossy().starts_with("rotated-")).count()
    };
    assert_eq!(rotated(), 0);
    server.signal("USR1");
    assert!(wait_for(DEADLINE, || (rotated() == 1).then_some(())).is_some(), "{}", server.log());
    assert!(wait_for(DEADLINE, || text(&log).contains("log rotated").then_some(())).is_some());

    server.signal("USR2");
    server.wait_for_log("dump: worker 0");
    assert!(server.log().contains("dump: snapshot {\"apiVersion\":\"mixer/v1\""), "{}", server.log());
    assert!(server.log().contains("dump: routes {"), "{}", server.log());
    assert!(server.log().contains("stored") && !server.log().contains("hunter2"), "{}", server.log());

    server.signal("QUIT");
    server.wait_for_log("worker 0: ");
    assert!(server.log().contains("worker-0 "), "{}", server.log());
    assert!(server.is_alive(), "SIGQUIT does not end the process");
}

#[test]
fn systemd_is_notified_of_every_state() {
    let directory = configuration("");
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(DEADLINE)).expect("a time limit");
    let next = || {
        let mut bytes = [0; 1024];
        let length = socket.recv(&mut bytes).expect("a notification");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let until = |wanted: &str| {
        for _ in 0..50 {
            let message = next();
            if message.starts_with(wanted) {
                return message;
            }
        }
        panic!("no {wanted} among 50 messages")
    };
    let socket_path = path.display().to_string();
    let mut server = on(&directory).env("NOTIFY_SOCKET", &socket_path).env("WATCHDOG_USEC", "200000").start();
    assert!(next().starts_with("READY=1\nSTATUS=serving snapshot 1: "));
    assert_eq!(next(), "WATCHDOG=1");
    assert_eq!(until("WATCHDOG=1"), "WATCHDOG=1");
    server.signal("HUP");
    assert!(until("RELOADING=1").contains("\nMONOTONIC_USEC="));
    until("READY=1");
    assert_eq!(server.terminate(), Ok(Some(0)));
    until("STOPPING=1");
}

#[test]
fn sigterm_aborts_a_start_that_waits() {
    // It accepts connections and never answers: the list handler waits for it.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let provider = silent.local_addr().expect("a bound socket has an address");
    let directory = configuration(&format!(
        "
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: slow, namespace: istio-system}}
spec: {{compiledAdapter: listchecker, params: {{providerUrl: 'http://{provider}/'}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {{name: entry, namespace: istio-system}}
spec: {{compiledTemplate: listentry, params: {{value: '\"a\"'}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {{name: look, namespace: istio-system}}
spec: {{actions: [{{handler: slow, instances: [entry]}}]}}
"
    ));
    let socket = directory.path().join("api.sock");
    let address = format!("unix://{}", socket.display());
    let flags = ["--address", &address, "--log-target", "stderr"];
    let mut server = on(&directory).native().with(&flags).spawn().expect("it starts");
    let (_fetching, _) = silent.accept().expect("the handler fetches its list");
    assert!(socket.exists());
    assert_eq!(server.terminate(), Ok(Some(143)), "{}", server.log());
    assert!(!socket.exists(), "its socket is removed");
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let directory = configuration("");
    let mut server = on(&directory).with(&["--drain-delay", "1m"]).start();
    server.signal("TERM");
    server.wait_for_log("stopping on SIGTERM");
    assert!(server.is_alive());
    assert_eq!(server.terminate(), Ok(Some(143)));
}

#[test]
fn reports_are_written_before_the_server_exits() {
    let directory = configuration("");
    let lines = directory.path().join("access.log");
    std::fs::write(directory.path().join("config/all.yaml"), access_log(&lines)).expect("it is writable");
    let mut server = on(&directory).start();
    let mut client = Client::new(&server.address()).expect("a client");
    let user = |n: usize| Attributes::from([("source.user".to_owned(), Attribute::Text(format!("user{n}")))]);
    let reports = 50;
    for n in 0..reports {
        let attributes = vec![encode_alone(&user(n), Words::of_message())];
        let request = wire::ReportRequest { attributes, ..Default::default() };
        client.report(&request, None).expect("the report is taken");
    }
    drop(client);
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let written = text(&lines);
    for n in 0..reports {
        assert!(written.contains(&format!("\"user{n}\"")), "user{n} is missing\n{written}\n{}", server.log());
    }
}

/// The journal of systemd reads a priority at the start of each record.
#[test]
fn records_for_the_journal_start_with_their_priority() {
    let server = Server::on_store("fs:///nowhere").native().with_journal().start();
    let log = server.log();
    let record = |part: &str| log.lines().find(|line| line.contains(part)).unwrap_or_default();
    assert!(record("\tinfo\tStarting monitor server...").starts_with("<6>2"), "{log}");
    assert!(record("\terror\tcannot read /nowhere").starts_with("<3>2"), "{log}");
    assert!(record("Mixer started with").starts_with("Mixer"), "{log}");
}

/// With `--log_as_json` standard output has records in JSON only.
#[test]
fn every_line_of_a_json_log_is_json() {
    let directory = configuration("");
    let rotated = directory.path().join("rotated.json").display().to_string();
    let more = ["--log_as_json", "--log_rotate", &rotated, "--log_output_level", "default:debug"];
    let mut server = on(&directory).with(&more).start();
    server.wait_for_log("readiness turns available");
    assert_eq!(server.terminate(), Ok(Some(0)));
    let lines: Vec<serde_json::Value> = server
        .log()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let record = |message: &str| lines.iter().find(|line| line["msg"] == message);
    assert_eq!(lines[0]["msg"], "Mixer started");
    assert_eq!(lines[0]["MaxMessageSize"], "1048576");
    let address = record("Starting gRPC server").expect("the address is logged")["address"].clone();
    assert_eq!(address, format!("tcp://{}", server.address()));
    assert_eq!(record("stopping on SIGTERM").expect("the reason is logged")["level"], "info");
    let mut levels = lines.iter().map(|line| line["level"].as_str().unwrap_or_default());
    assert!(!levels.any(|level| level == "error"), "{}", server.log());
    assert!(text(std::path::Path::new(&rotated)).lines().count() > 5);
}

/// The line of Istio Mixer names who built it, which is seldom known.
#[test]
fn the_start_tells_the_version() {
    let directory = configuration("");
    let native = on(&directory).native().start();
    let lines: Vec<String> = native.log().lines().map(str::to_owned).collect();
    let line = lines.iter().find_map(|line| line.strip_prefix("Mixer: "));
    let version = line.unwrap_or_else(|| panic!("{lines:#?}"));
    assert!(version.starts_with(env!("CARGO_PKG_VERSION")) && !version.contains("unknown"), "{version}");
    assert_eq!(http("GET", &native.monitoring_url("/version"), "").expect("an answer").body, version);
    let istio = on(&directory).start();
    assert!(istio.log().lines().any(|line| line.starts_with("Istio Mixer: ")), "{}", istio.log());
}

#[test]
fn the_pid_file_lasts_as_long_as_the_server() {
    let directory = configuration("");
    let path = directory.path().join("mixer.pid");
    let name = path.display().to_string();
    let mut server = on(&directory).with(&["--pid-file", &name]).start();
    let written = wait_for(DEADLINE, || Some(text(&path)).filter(|t| !t.is_empty()));
    assert_eq!(written, Some(format!("{}\n", server.id())));
    let second = on(&directory).with(&["--pid-file", &name]).try_start();
    let refused = second.err().unwrap_or_default();
    let reason = format!("it belongs to the running process {}", server.id());
    assert!(refused.contains(&reason), "{refused}");
    assert_eq!(server.terminate(), Ok(Some(0)));
    assert!(!path.exists());
}
