//! Health and discovery: the gRPC health service, reflection, /healthz and /readyz, and `probe`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::mixer;
use crate::process::{PATIENCE, Server, ServerArguments, http, programs, wait_for};

/// A server on a directory that can be taken away.
fn server(more: &[&str]) -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(directory.path().join("config")).expect("it is writable");
    let arguments = ServerArguments::on(&directory.path().join("config")).with(more);
    let server = Server::start(&arguments).expect("the server starts");
    (directory, server)
}

fn lose(directory: &tempfile::TempDir) {
    std::fs::remove_dir(directory.path().join("config")).expect("it is there");
}

#[test]
fn probe_asks_the_health_service() {
    let (directory, server) = server(&[]);
    let address = server.address();
    let ready = wait_for(PATIENCE, || (mixer(&["probe", "--grpc", &address]).status == 0).then_some(()));
    assert!(ready.is_some(), "{}", server.log());
    let alive = mixer(&["probe", "--grpc", &address, "--service", "liveness"]);
    assert_eq!((alive.status, alive.stdout.as_str()), (0, "OK\n"));
    let unknown = mixer(&["probe", "--grpc", &address, "--service", "nosuch"]);
    assert_eq!(unknown.status, 1);
    assert!(unknown.stderr.contains("unknown service `nosuch`"), "{}", unknown.stderr);

    lose(&directory);
    let lost = wait_for(PATIENCE, || Some(mixer(&["probe", "--grpc", &address])).filter(|f| f.status == 1));
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
        "alive all the same"
    );
}

#[test]
fn probe_watches() {
    let (directory, server) = server(&[]);
    let mut child = Command::new(programs().path("mixer"))
        .args(["probe", "--watch", "--interval", "20ms", "--grpc", &server.address()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut until = |what: &str| {
        let found = lines.by_ref().take(5).map(|l| l.expect("a line")).find(|l| l.contains(what));
        found.unwrap_or_else(|| panic!("no line with {what}"))
    };
    until(" available");
    lose(&directory);
    until(" unavailable: the service returned NOT_SERVING");
    drop(server);
    until(" unavailable: ");
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.is_ok_and(|s| s.success()));
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn health_is_told_over_http() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(directory.path().join("config")).expect("it is writable");
    let ports = [(); 4].map(|()| crate::process::free_port());
    let config = format!("fs://{}", directory.path().join("config").display());
    let mut child = Command::new(programs().path("mixer"))
        .args(["server", "--config-store-url", &config, "--address", &format!("127.0.0.1:{}", ports[0])])
        .args(["--monitoring-port", &ports[1].to_string(), "--ctrlz-port", &ports[2].to_string()])
        .args(["--metrics-port", &ports[3].to_string()])
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let get = |path: &str| http("GET", &format!("http://127.0.0.1:{}{path}", ports[1]), "");
    let ready = wait_for(PATIENCE, || get("/readyz").ok().filter(|a| a.status == 200));
    let ready: serde_json::Value = serde_json::from_str(&ready.expect("ready").body).expect("JSON");
    assert_eq!(ready["probe"], "readiness");
    assert_eq!(ready["emitters"]["store"], "available");
    assert_eq!(get("/healthz").expect("an answer").status, 200);
    let url = format!("http://127.0.0.1:{}/readyz", ports[1]);
    assert_eq!(mixer(&["probe", "--http", &url]).status, 0);

    lose(&directory);
    let lost = wait_for(PATIENCE, || get("/readyz").ok().filter(|a| a.status == 503)).expect("not ready");
    assert!(lost.body.contains("lstat "), "{}", lost.body);
    let refused = mixer(&["probe", "--http", &url]);
    assert_eq!(refused.status, 1);
    assert!(refused.stderr.contains("the server returned 503 Service Unavailable: "), "{}", refused.stderr);
    assert_eq!(get("/healthz").expect("an answer").status, 200);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[test]
fn a_log_that_cannot_be_written_makes_a_server_unready() {
    // A disk that is always full.
    let (_directory, server) = server(&["--log_target=/dev/full", "--log_output_level=default:debug"]);
    let refused = wait_for(PATIENCE, || {
        Some(mixer(&["probe", "--grpc", &server.address()])).filter(|finished| finished.status == 1)
    });
    assert!(refused.is_some(), "{}", server.log());
    assert_eq!(mixer(&["probe", "--grpc", &server.address(), "--service", "liveness"]).status, 0);
}

#[test]
fn streams_that_callers_keep_open_do_not_hold_up_a_stop() {
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
        // Whatever is said last, then a regular end.
        while watching.message().await.expect("a regular end").is_some() {}
        assert_eq!(reflecting.message().await.expect("a regular end"), None);
    });
    drop(sender);
}

#[test]
fn metrics_stand_under_their_old_names_where_that_is_asked_for() {
    let (_directory, asked) = server(&["--legacy-metrics"]);
    let body = |server: &Server| {
        http("GET", &format!("http://127.0.0.1:{}/metrics", server.monitoring), "").expect("metrics").body
    };
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
