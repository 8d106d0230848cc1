//! Clients that people use: curl, and the gRPC library of Google with calls to a server of its own, over plain text and TLS.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Collector, DEADLINE, Process, free_port, http, programs, python, run, wait_for};

/// Rounds of calls of each of four threads. `MIXER_GRPC_ROUNDS` sets it.
const ROUNDS: u32 = 5;

/// A running proxy, and a gRPC server behind it.
struct Scene {
    plain: u16,
    secure: u16,
    directory: TempDir,
    _host: Collector,
    _process: Process,
}

impl Scene {
    fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("mixer-proxy").tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(directory.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(directory.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let host = Collector::start(&python(), |port| vec![peers(), "serve".to_owned(), port.to_string()]);
        let (admin, plain, secure) = (free_port(), free_port(), free_port());
        let mut text =
            include_str!("clients.yaml").replace("$DIRECTORY", &directory.path().display().to_string());
        for (name, port) in [("$ADMIN", admin), ("$PLAIN", plain), ("$SECURE", secure), ("$HOST", host.port)]
        {
            text = text.replace(name, &port.to_string());
        }
        let mut command = Command::new(programs().path("mixer"));
        command.args(["proxy", "--concurrency", "1", "--config-yaml", &text]);
        command.arg("--log-path").arg(directory.path().join("log")).stdin(Stdio::null());
        let process = Process::spawn(&mut command).unwrap();
        let ready = wait_for(DEADLINE, || {
            let ready = http("GET", &format!("http://127.0.0.1:{admin}/ready"), "");
            ready.is_ok_and(|ready| ready.status == 200).then_some(())
        });
        let log = || std::fs::read_to_string(directory.path().join("log")).unwrap_or_default();
        assert!(ready.is_some(), "{}", log());
        Self { plain, secure, directory, _host: host, _process: process }
    }

    fn certificate(&self) -> String {
        self.directory.path().join("cert.pem").display().to_string()
    }
}

fn peers() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxy/grpc_peers.py").display().to_string()
}

#[test]
fn curl_speaks_http_1_and_2_with_and_without_tls() {
    let scene = Scene::start();
    let plain = format!("http://127.0.0.1:{}/direct", scene.plain);
    let secure = format!("https://localhost:{}/direct", scene.secure);
    for (flag, url, version) in [
        ("--http1.1", &plain, "1.1"),
        // Asks for h2c by an upgrade, which is not taken.
        ("--http2", &plain, "1.1"),
        ("--http2-prior-knowledge", &plain, "2"),
        ("--http1.1", &secure, "1.1"),
        ("--http2", &secure, "2"),
    ] {
        let certificate = scene.certificate();
        let arguments = [
            flag,
            "--silent",
            "--show-error",
            "--cacert",
            &certificate,
            "--write-out",
            "%{http_version} %{http_code}",
            url,
        ]
        .map(str::to_owned);
        let finished = run(Path::new("curl"), &arguments, &[], None, None, DEADLINE).unwrap();
        let printed = (finished.status, finished.stdout.as_str(), finished.stderr.as_str());
        assert_eq!(printed, (0, format!("hello\n{version} 200").as_str(), ""), "{flag} {url}");
    }
}

#[test]
fn calls_of_grpc_have_their_messages_statuses_and_trailers() {
    let scene = Scene::start();
    let rounds = std::env::var("MIXER_GRPC_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    for (port, certificate) in [(scene.plain, None), (scene.secure, Some(scene.certificate()))] {
        let arguments: Vec<String> = [peers(), "call".to_owned(), port.to_string(), rounds.to_string()]
            .into_iter()
            .chain(certificate)
            .collect();
        let finished = run(&python(), &arguments, &[], None, None, 3 * DEADLINE).unwrap();
        assert_eq!(finished.status, 0, "{}", finished.stderr);
        let counted: Value = serde_json::from_str(&finished.stdout).unwrap();
        let each = 4 * rounds;
        let right = json!({"unary": each, "failed": each, "stream": each, "cancelled": each});
        assert_eq!(counted, json!({"right": right, "wrong": []}), "{}", finished.stderr);
    }
}
