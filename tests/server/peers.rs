//! Backends as they are: the StatsD daemon, and a server of the forward protocol that others wrote.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::senders::{count, handler, report, start, until};
use crate::support::sending::WORDS;
use crate::support::{DEADLINE, Process, Server, free_port, is_listening, node_modules, wait_for};

fn node(arguments: &[&str]) -> Process {
    let mut command = Command::new("node");
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    Process::spawn(&mut command).unwrap_or_else(|error| panic!("this test needs the program `node`: {error}"))
}

/// What the daemon says to a command.
fn asked(port: u16, command: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(format!("{command}\n").as_bytes()).ok()?;
    let mut answer = String::new();
    let mut buffer = [0; 4096];
    while !answer.contains("END") {
        match stream.read(&mut buffer).ok()? {
            0 => break,
            length => answer.push_str(&String::from_utf8_lossy(&buffer[..length])),
        }
    }
    Some(answer)
}

#[test]
fn statsd_understands_every_line() {
    let directory = tempfile::tempdir().unwrap();
    let management = free_port();
    let port = free_port();
    // Nothing is flushed, so that counters keep their values.
    let settings = json!({ "port": port, "address": "127.0.0.1", "mgmt_address": "127.0.0.1", "mgmt_port": management,
        "backends": [], "flushInterval": 3_600_000 });
    let file = directory.path().join("statsd.js");
    std::fs::write(&file, settings.to_string()).unwrap();
    let daemon = node_modules().join("statsd/stats.js");
    let _daemon = node(&[daemon.to_str().unwrap(), file.to_str().unwrap()]);
    assert!(wait_for(DEADLINE, || is_listening(management).then_some(())).is_some());
    let probe = UdpSocket::bind("127.0.0.1:0").unwrap();
    let reads = wait_for(DEADLINE, || {
        let _ = probe.send_to(b"probe:1|g", ("127.0.0.1", port));
        asked(management, "gauges").filter(|gauges| gauges.contains("probe"))
    });
    assert!(reads.is_some(), "the daemon reads datagrams");
    let config = tempfile::tempdir().unwrap();
    let params = format!(
        "address: '127.0.0.1:{port}', prefix: mesh, flushDuration: 10ms, metrics: {{hits.instance.istio-system: \
         {{type: COUNTER, nameTemplate: 'hits.{{{{.path}}}}'}}}}"
    );
    let server = start(config.path(), &handler("statsd", "hits", "statsd", &params));
    report(&server, 0..200, "all");
    until(&server, "statsd sender", "lines are sent", |of| count(of, "delivered") == 200);
    let mut counters = String::new();
    let counted = wait_for(DEADLINE, || {
        counters = asked(management, "counters")?;
        counters.contains("'mesh.hits.all': 200").then_some(())
    });
    assert!(counted.is_some() && counters.contains("'statsd.bad_lines_seen': 0"), "{counters}");
}

#[test]
fn a_fluent_server_takes_entries_with_and_without_acknowledgement() {
    let modules = node_modules();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/fluent_server.js");
    for acknowledge in [false, true] {
        let mut fluent = node(&[script.to_str().unwrap(), modules.to_str().unwrap()]);
        let mut lines = BufReader::new(fluent.stdout().expect("its output")).lines();
        let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        let port = next().as_u64().expect("the port");
        let config = tempfile::tempdir().unwrap();
        let params =
            format!("address: '127.0.0.1:{port}', pushIntervalDuration: 10ms, acknowledge: {acknowledge}");
        let server = start(config.path(), &handler("fluent", "entry", "fluentd", &params));
        report(&server, 0..200, "/");
        for number in 0..200 {
            let record = json!({ "number": number, "severity": "info" });
            assert_eq!(next(), json!({ "tag": "entry.instance.istio-system", "record": record }));
        }
        let settled =
            until(&server, "fluentd sender", "all is delivered", |of| count(of, "delivered") == 200);
        assert_eq!(
            (count(&settled, "accepted"), settled["state"].as_str()),
            (200, Some("delivering")),
            "{settled}"
        );
    }
}

#[test]
fn a_fluent_server_takes_entries_of_those_who_know_its_key() {
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, secret: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, format!("{secret}\n")).unwrap();
        path.display().to_string()
    };
    let (key, wrong, password) =
        (file("key", "key of the lab"), file("wrong", "another key"), file("password", "hunter2"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/fluent_server.js");
    let user = format!("username: ann, passwordFile: '{password}'");
    for (has_users, shared, refusal) in [
        (false, format!("keyFile: '{key}'"), None),
        (true, format!("keyEnvironment: FLUENT_KEY, {user}"), None),
        (false, format!("keyFile: '{wrong}'"), Some("the server refuses the shared key or the user: ")),
        (true, format!("keyFile: '{key}'"), Some("the server asks for a user: ")),
        (
            true,
            format!("keyFile: '{key}', username: bob, passwordFile: '{password}'"),
            Some("the server refuses"),
        ),
        (false, format!("keyFile: '{key}', hostname: fluent.lab"), Some("the server refuses")),
    ] {
        let security = json!({ "serverHostname": "fluent.lab", "sharedKey": "key of the lab", "authorize": has_users,
            "userDict": { "ann": "hunter2" } });
        let settings = json!({ "security": security }).to_string();
        let mut fluent = node(&[script.to_str().unwrap(), node_modules().to_str().unwrap(), &settings]);
        let mut lines = BufReader::new(fluent.stdout().expect("its output")).lines();
        let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        let port = next().as_u64().expect("the port");
        let config = tempfile::tempdir().unwrap();
        let params = format!(
            "address: '127.0.0.1:{port}', pushIntervalDuration: 10ms, acknowledge: true, sharedKey: {{{shared}}}"
        );
        let text = format!("{WORDS}{}", handler("fluent", "entry", "fluentd", &params));
        std::fs::write(config.path().join("config.yaml"), text).unwrap();
        let server = Server::on(config.path()).native().env("FLUENT_KEY", "key of the lab").start();
        report(&server, 0..20, "/");
        match refusal {
            None => {
                (0..20).for_each(|number| assert_eq!(next()["record"]["number"], number));
                until(&server, "fluentd sender", "all is delivered", |of| count(of, "delivered") == 20);
            }
            Some(why) => {
                let told = |of: &Value| of["trouble"].as_str().is_some_and(|text| text.contains(why));
                let of = until(&server, "fluentd sender", why, told);
                assert_eq!(count(&of, "delivered"), 0, "{of}");
            }
        }
        for secret in ["key of the lab", "another key", "hunter2"] {
            assert!(!server.log().contains(secret), "{}", server.log());
        }
    }
}
