//! Signals, the supervisor, the pid file and the rehearsal.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::bag::{Attribute, Attributes, Words, encode_alone};
use crate::process::{PATIENCE, Server, ServerArguments, free_port, wait_for};
use crate::rpc::{Client, mixer as wire};
use crate::{mixer, text};

/// A directory with one configuration file.
fn configuration(content: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(directory.path().join("config")).expect("it is writable");
    std::fs::write(directory.path().join("config/all.yaml"), content).expect("it is writable");
    directory
}

fn on(directory: &tempfile::TempDir) -> ServerArguments {
    ServerArguments::on(&directory.path().join("config"))
}

/// Writes every report into a file.
fn access_log(path: &std::path::Path) -> String {
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
fn sighup_opens_log_files_anew_and_reads_settings_and_configuration_again() {
    let directory = configuration("");
    let path = |name: &str| directory.path().join(name);
    let settings = path("settings.yaml");
    std::fs::write(&settings, "log-output-level: default:info\n").expect("it is writable");
    let (log, config_file) = (path("log").display().to_string(), settings.display().to_string());
    let arguments = on(&directory).with(&["--config-file", &config_file, "--log_target", &log]);
    let mut server = Server::start(&arguments).expect("the server starts");
    assert!(text(&path("log")).contains("Built new config.Snapshot: id='1'"), "{}", text(&path("log")));

    std::fs::rename(path("log"), path("log.1")).expect("it is writable");
    std::fs::write(&settings, "log-output-level: default:debug\nmax-message-size: 4096\n").expect("writable");
    server.signal("HUP");
    let reloaded = wait_for(PATIENCE, || text(&path("log")).contains("reloaded").then_some(()));
    assert!(reloaded.is_some(), "new: {}\nold: {}", text(&path("log")), text(&path("log.1")));
    assert_eq!(server.terminate(), Ok(Some(0)));
    let new = text(&path("log"));
    assert!(new.contains("a change of MaxMessageSize takes effect after a restart"), "{new}");
    assert!(new.contains("stopping on SIGTERM"), "{new}");
    assert!(new.contains("\tdebug\tended calls"), "the level of the settings took effect\n{new}");
}

#[test]
fn settings_that_cannot_be_read_again_leave_the_old_ones() {
    let directory = configuration("");
    let settings = directory.path().join("settings.yaml");
    std::fs::write(&settings, "").expect("it is writable");
    let config_file = settings.display().to_string();
    let server = Server::start(&on(&directory).with(&["--config-file", &config_file])).expect("it starts");
    std::fs::write(&settings, "nosuch: 1\n").expect("it is writable");
    server.signal("HUP");
    let reloaded = wait_for(PATIENCE, || server.log().contains("\treloaded").then_some(()));
    assert!(reloaded.is_some(), "{}", server.log());
    assert!(
        server.log().contains("reloading the settings failed; the previous settings stay in effect"),
        "{}",
        server.log()
    );
}

#[test]
fn user_signals_rotate_the_log_dump_the_state_and_show_threads() {
    let directory = configuration("");
    let log = directory.path().join("rotated.log");
    let name = log.display().to_string();
    let mut server =
        Server::start(&on(&directory).with(&["--log_rotate", &name])).expect("the server starts");
    let rotated = || {
        let files = std::fs::read_dir(directory.path()).expect("it is readable").flatten();
        files.filter(|f| f.file_name().to_string_lossy().starts_with("rotated-")).count()
    };
    assert_eq!(rotated(), 0);
    server.signal("USR1");
    assert!(wait_for(PATIENCE, || (rotated() == 1).then_some(())).is_some(), "{}", server.log());
    assert!(wait_for(PATIENCE, || text(&log).contains("log rotated").then_some(())).is_some());

    server.signal("USR2");
    let dumped = wait_for(PATIENCE, || server.log().contains("dump: worker 0").then_some(()));
    assert!(dumped.is_some(), "{}", server.log());
    assert!(server.log().contains("dump: snapshot {\"apiVersion\":\"mixer/v1\""), "{}", server.log());
    assert!(server.log().contains("dump: routes {"), "{}", server.log());

    server.signal("QUIT");
    let shown = wait_for(PATIENCE, || server.log().contains("worker 0: ").then_some(()));
    assert!(shown.is_some(), "{}", server.log());
    assert!(server.log().contains("worker-0 "), "{}", server.log());
    assert!(server.is_alive(), "SIGQUIT does not end it");
}

#[test]
fn the_supervisor_hears_of_every_state() {
    let directory = configuration("");
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let next = || {
        let mut bytes = [0; 1024];
        let length = socket.recv(&mut bytes).expect("word of the server");
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
    let mut arguments = on(&directory);
    arguments.environment = vec![
        ("NOTIFY_SOCKET".to_owned(), path.display().to_string()),
        ("WATCHDOG_USEC".to_owned(), "200000".to_owned()),
    ];
    let mut server = Server::start(&arguments).expect("the server starts");
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
fn a_start_that_waits_is_given_up_on_a_signal() {
    // It takes connections and never answers: the handler of the list waits for it.
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
    let mut child = std::process::Command::new(crate::process::programs().path("mixer"))
        .args([
            "server",
            "--config-store-url",
            &format!("fs://{}", directory.path().join("config").display()),
        ])
        .args(["--address", &format!("unix://{}", socket.display()), "--log-target", "stderr"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let (_fetching, _) = silent.accept().expect("the handler fetches its list");
    assert!(socket.exists());
    let sent = std::process::Command::new("kill").arg(child.id().to_string()).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let status = wait_for(PATIENCE, || child.try_wait().expect("a child")).expect("it ends");
    assert_eq!(status.code(), Some(143));
    assert!(!socket.exists(), "its socket is removed");
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let directory = configuration("");
    let mut server =
        Server::start(&on(&directory).with(&["--drain-delay", "1m"])).expect("the server starts");
    server.signal("TERM");
    assert!(wait_for(PATIENCE, || server.log().contains("stopping on SIGTERM").then_some(())).is_some());
    assert!(server.is_alive());
    assert_eq!(server.terminate(), Ok(Some(143)));
}

#[test]
fn what_was_reported_is_written_before_the_server_ends() {
    let directory = configuration("");
    let lines = directory.path().join("access.log");
    std::fs::write(directory.path().join("config/all.yaml"), access_log(&lines)).expect("it is writable");
    let mut server = Server::start(&on(&directory)).expect("the server starts");
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

#[test]
fn a_rehearsal_tells_what_would_be_served() {
    let directory = configuration(&access_log(std::path::Path::new("/dev/null")));
    let config = format!("fs://{}", directory.path().join("config").display());
    let (api, metrics) = (free_port(), free_port().to_string());
    let address = format!("tcp://127.0.0.1:{api}");
    let pid_file = directory.path().join("pid").display().to_string();
    let flags =
        ["server", "--dry-run", "--log-target=stderr", "--pid-file", &pid_file, "--address", &address]
            .into_iter()
            .chain(["--metrics-port", &metrics, "--config-store-url", &config])
            .collect::<Vec<_>>();
    let finished = mixer(&flags);
    assert_eq!(finished.status, 0, "{finished:?}");
    let expected = format!(
        "would serve:\n  api            {address}\n  monitoring     port 15014\n  ControlZ       localhost:9876\n"
    );
    assert!(finished.stdout.starts_with(&expected), "{}", finished.stdout);
    assert!(
        finished
            .stdout
            .ends_with(" 1 rules, 1 handlers, 1 instances\n                 0 errors, 0 warnings\n")
    );
    assert!(!directory.path().join("pid").exists());

    std::fs::write(directory.path().join("config/bad.yaml"), "apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {name: bad, namespace: istio-system}\nspec: {match: nosuch.attribute == 1, actions: [{handler: ghost, instances: [line]}]}\n").expect("it is writable");
    let finished = mixer(&flags);
    assert_eq!(finished.status, 3, "{finished:?}");
    assert!(finished.stderr.contains("error: the configuration has "), "{}", finished.stderr);

    let _taken = std::net::TcpListener::bind(("127.0.0.1", api)).expect("the port is free again");
    let finished = mixer(&flags);
    assert_eq!(finished.status, 3, "{finished:?}");
    assert!(finished.stderr.contains("bind: address already in use"), "{}", finished.stderr);
}

/// The journal of systemd sorts records by what stands before them.
#[test]
fn a_log_that_the_journal_reads_says_how_bad_things_are() {
    use std::os::unix::fs::MetadataExt as _;
    let directory = configuration("");
    let ports = [(); 2].map(|()| free_port().to_string());
    let journal = std::fs::File::create(directory.path().join("journal")).expect("it is writable");
    let found = journal.metadata().expect("it is there");
    let mut child = std::process::Command::new(crate::process::programs().path("mixer"))
        .args([
            "server",
            "--config-store-url",
            "fs:///nowhere",
            "--address",
            "127.0.0.1:0",
            "--ctrlz-port",
            "0",
        ])
        .args(["--monitoring-port", &ports[0], "--metrics-port", &ports[1]])
        .env("JOURNAL_STREAM", format!("{}:{}", found.dev(), found.ino()))
        .stdout(journal)
        .spawn()
        .expect("it starts");
    let path = directory.path().join("journal");
    let serves = wait_for(PATIENCE, || text(&path).contains("Starting gRPC server").then_some(()));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let text = text(&path);
    assert!(serves.is_some(), "{text}");
    let record = |word: &str| text.lines().find(|line| line.contains(word)).unwrap_or_default();
    assert!(record("\tinfo\tStarting monitor server...").starts_with("<6>2"), "{text}");
    assert!(record("\terror\tfailure during").starts_with("<3>2"), "{text}");
    assert!(record("Mixer started with").starts_with("Mixer"), "{text}");
}

/// A log in JSON has nothing else on standard output, and is rotated by size.
#[test]
fn a_log_in_json_is_json_from_the_first_line_to_the_last() {
    let directory = configuration("");
    let rotated = directory.path().join("rotated.json").display().to_string();
    let more = ["--log_as_json", "--log_rotate", &rotated, "--log_output_level", "default:debug"];
    let mut server = Server::start(&on(&directory).with(&more)).expect("the server starts");
    assert_eq!(server.terminate(), Ok(Some(0)));
    let lines: Vec<serde_json::Value> = server
        .log()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let said = |message: &str| lines.iter().find(|line| line["msg"] == message);
    assert_eq!(lines[0]["msg"], "Mixer started");
    assert_eq!(lines[0]["MaxMessageSize"], "1048576");
    let address = said("Starting gRPC server").expect("it is said where")["address"].clone();
    assert_eq!(address, format!("tcp://{}", server.address()));
    assert_eq!(said("stopping on SIGTERM").expect("the reason is said")["level"], "info");
    let mut levels = lines.iter().map(|line| line["level"].as_str().unwrap_or_default());
    assert!(!levels.any(|level| level == "error"), "{}", server.log());
    assert!(text(std::path::Path::new(&rotated)).lines().count() > 5);
}

/// Whoever set a value finds where it stands, and what to write instead.
#[test]
fn wrong_settings_are_named_with_their_place_and_a_cure() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let told = |name: &str, content: &str, environment: &[(&str, &str)], more: &[&str]| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).expect("it is writable");
        let path = path.display().to_string();
        let arguments = [&["server", "--config-file", &path][..], more].concat();
        let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        let environment: Vec<_> =
            environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let program = crate::process::programs().path("mixer");
        let finished = crate::process::run(&program, &arguments, &environment, None, None, PATIENCE);
        let finished = finished.expect("it ends");
        assert_eq!(finished.stdout.lines().filter(|l| l.contains("Starting gRPC")).count(), 0);
        finished.stderr.replace(&path, name)
    };
    for (name, content, environment, more, expected) in [
        (
            "a.yaml",
            "# settings\nlog-as-json: true\nport: abc\n",
            &[][..],
            &[][..],
            "error: invalid value `abc` for `--port` in `a.yaml`, line 3\n  cause: expected a port from 0 to 65535\n",
        ),
        (
            "b.toml",
            "log-as-json = true\nport = \n",
            &[],
            &[],
            "error: cannot read the settings in `b.toml`\n  cause: line 2: ",
        ),
        (
            "c.yaml",
            "log-as-json: true\nprt: 1\n",
            &[],
            &[],
            "  cause: line 2: unknown setting `prt`\n  hint: did you mean `port`?\n",
        ),
        ("d.yaml", "port: [1\n", &[], &[], "at line 2 column 1"),
        (
            "e.yaml",
            "",
            &[("MIXER_PORT", "many")],
            &[],
            "error: invalid value `many` for `--port` in the environment variable MIXER_PORT\n",
        ),
        ("f.yaml", "port: abc\n", &[], &["-p", "x"], "error: invalid value `x` for `--port`\n"),
        (
            "g.yaml",
            "address: localhost\n",
            &[],
            &["--log-target=stderr"],
            "missing port in address\n  hint: use host:port, for example 127.0.0.1:9091\n",
        ),
        (
            "h.yaml",
            "log-output-level: loud\n",
            &[],
            &[],
            "  cause: invalid output level 'loud'\n  hint: levels are none, fatal, error, warn, info and debug",
        ),
    ] {
        let found = told(name, content, environment, more);
        assert!(found.contains(expected), "{name}: {found}");
    }
}

#[test]
fn the_pid_file_lasts_as_long_as_the_server() {
    let directory = configuration("");
    let path = directory.path().join("mixer.pid");
    let name = path.display().to_string();
    let mut server = Server::start(&on(&directory).with(&["--pid-file", &name])).expect("the server starts");
    let written = wait_for(PATIENCE, || Some(text(&path)).filter(|t| !t.is_empty()));
    assert_eq!(written, Some(format!("{}\n", server.id())));
    let second = Server::start(&on(&directory).with(&["--pid-file", &name]));
    let refused = second.err().unwrap_or_default();
    let reason = format!("process {}, which it names, is running", server.id());
    assert!(refused.contains(&reason), "{refused}");
    assert_eq!(server.terminate(), Ok(Some(0)));
    assert!(wait_for(Duration::from_secs(1), || (!path.exists()).then_some(())).is_some());
}
