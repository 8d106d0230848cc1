//! Health and discovery: the gRPC health service, reflection, /healthz and /readyz, and `probe`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{DEADLINE, Process, Server, http, programs, run_mixer as mixer, wait_for};

/// A configuration directory that can be removed.
fn configuration() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(directory.path().join("config")).expect("it is writable");
    directory
}

/// A server that drops its configuration with its directory, and is not ready then.
fn server(more: &[&str]) -> (tempfile::TempDir, Server) {
    let directory = configuration();
    let flags = ["--config-loss", "drop"];
    let server = Server::on(&directory.path().join("config")).with(&flags).with(more).start();
    (directory, server)
}

/// A server without configuration, until there is a directory.
fn native_server() -> (tempfile::TempDir, Server) {
    let directory = configuration();
    remove(&directory);
    let server =
        Server::on(&directory.path().join("config")).native().with(&["--allow-empty-config"]).start();
    (directory, server)
}

fn remove(directory: &tempfile::TempDir) {
    std::fs::remove_dir(directory.path().join("config")).expect("it is there");
}

#[test]
fn probe_calls_the_health_service() {
    let (directory, server) = server(&[]);
    let address = server.address();
    let ready = wait_for(DEADLINE, || (mixer(&["probe", "--grpc", &address]).status == 0).then_some(()));
    assert!(ready.is_some(), "{}", server.log());
    let alive = mixer(&["probe", "--grpc", &address, "--service", "liveness"]);
    assert_eq!((alive.status, alive.stdout.as_str()), (0, "OK\n"));
    let unknown = mixer(&["probe", "--grpc", &address, "--service", "nosuch"]);
    assert_eq!(unknown.status, 1);
    assert!(unknown.stderr.contains("unknown service `nosuch`"), "{}", unknown.stderr);

    remove(&directory);
    let lost = wait_for(DEADLINE, || Some(mixer(&["probe", "--grpc", &address])).filter(|f| f.status == 1));
    let lost = lost.expect("a server without its configuration directory is not ready");
    assert!(lost.stderr.contains("cause: the service returned NOT_SERVING"), "{}", lost.stderr);
    let both = ["probe", "--grpc", &address, "-o", "json", "--http", "http://127.0.0.1:1/"];
    let both = mixer(&both);
    assert_eq!(both.status, 1);
    let document: serde_json::Value = serde_json::from_str(&both.stdout).expect("JSON");
    assert_eq!(document["available"], false);
    assert_eq!(document["targets"][0]["kind"], "grpc");
    assert_eq!(document["targets"][1]["kind"], "http");
    assert_eq!(
        mixer(&["probe", "--grpc", &address, "--service", "liveness"]).status,
        0,
        "liveness does not depend on it"
    );
}

#[test]
fn probe_watch_prints_every_change() {
    let (directory, server) = server(&[]);
    let mut command = Command::new(programs().path("mixer"));
    command
        .args(["probe", "--watch", "--interval", "20ms", "--grpc", &server.address()])
        .stdout(Stdio::piped());
    let mut probe = Process::spawn(&mut command).expect("the probe starts");
    let mut lines = BufReader::new(probe.stdout().expect("a pipe")).lines();
    let mut until = |what: &str| {
        let found = lines.by_ref().take(5).map(|l| l.expect("a line")).find(|l| l.contains(what));
        found.unwrap_or_else(|| panic!("no line with {what}"))
    };
    until(" available");
    remove(&directory);
    until(" unavailable: the service returned NOT_SERVING");
    drop(server);
    until(" unavailable: ");
    probe.signal("INT");
    assert_eq!(probe.wait(DEADLINE), Some(Some(130)));
}

#[test]
fn health_is_served_over_http() {
    let (directory, server) = native_server();
    let get = |path: &str| http("GET", &server.monitoring_url(path), "");
    let url = server.monitoring_url("/readyz");
    let lost = wait_for(DEADLINE, || get("/readyz").ok().filter(|a| a.body.contains("cannot read ")));
    assert_eq!(lost.expect("the reason").status, 503);
    let refused = mixer(&["probe", "--http", &url]);
    assert_eq!(refused.status, 1);
    assert!(refused.stderr.contains("the server returned 503 Service Unavailable: "), "{}", refused.stderr);
    assert_eq!(get("/healthz").expect("an answer").status, 200);

    std::fs::create_dir(directory.path().join("config")).expect("it is writable");
    let ready = wait_for(DEADLINE, || get("/readyz").ok().filter(|a| a.status == 200));
    let ready: serde_json::Value = serde_json::from_str(&ready.expect("ready").body).expect("JSON");
    assert_eq!(ready["probe"], "readiness");
    assert_eq!(ready["emitters"]["configuration"], "available");
    assert_eq!(get("/healthz").expect("an answer").status, 200);
    assert_eq!(mixer(&["probe", "--http", &url]).status, 0);
}

#[test]
fn open_streams_of_clients_do_not_delay_shutdown() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::{ServerReflectionRequest, server_reflection_request::MessageRequest};

    let (_directory, mut server) = server(&[]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let address = format!("http://{}", server.address());
    let (mut watching, mut reflecting, sender) = runtime.block_on(async {
        let channel = tonic::transport::Endpoint::new(address).unwrap().connect().await.unwrap();
        let request = HealthCheckRequest { service: String::new() };
        let mut watching = HealthClient::new(channel.clone()).watch(request).await.unwrap().into_inner();
        assert!(watching.message().await.unwrap().is_some());
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        let list = MessageRequest::ListServices(String::new());
        sender
            .send(ServerReflectionRequest { host: String::new(), message_request: Some(list) })
            .await
            .unwrap();
        let requests = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let mut reflecting =
            ServerReflectionClient::new(channel).server_reflection_info(requests).await.unwrap().into_inner();
        let services = format!("{:?}", reflecting.message().await.unwrap());
        for name in ["istio.mixer.v1.Mixer", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"] {
            assert!(services.contains(name), "{services}");
        }
        (watching, reflecting, sender)
    });
    let started = std::time::Instant::now();
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    assert!(started.elapsed() < Duration::from_secs(5));
    runtime.block_on(async {
        // Further statuses, then a regular end of the stream.
        while watching.message().await.expect("a regular end").is_some() {}
        assert_eq!(reflecting.message().await.expect("a regular end"), None);
    });
    drop(sender);
}

#[test]
fn legacy_metrics_exports_the_old_names() {
    let (_directory, asked) = server(&["--legacy-metrics"]);
    let body = |server: &Server| http("GET", &server.monitoring_url("/metrics"), "").expect("metrics").body;
    let text = body(&asked);
    for name in [
        "mixer_config_rule_config_count{configID=\"1\"} 0",
        "mixer_handler_new_handler_count{configID=\"1\"}",
    ] {
        assert!(text.contains(name), "{name}\n{text}");
    }
    let (_directory, plain) = server(&[]);
    assert!(!body(&plain).contains("configID"));
}
