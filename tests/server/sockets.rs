//! The sockets of the API: handed over by systemd, and connections that reach their maximum age.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::http2::{self, GOAWAY};
use crate::support::rpc::{Client, mixer as wire};
use crate::support::{
    DEADLINE, Ports, Server, ServerBuilder, free_port, http, is_listening, python, run_mixer as mixer,
    wait_for,
};

/// A server on sockets that another program opens, `NAME=ADDRESS` each.
fn activated(sockets: &[String]) -> ServerBuilder {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/socket_activation.py").to_owned();
    let arguments = [&[script][..], sockets, &["--".to_owned()]].concat();
    Server::builder().native().through(&python(), &arguments)
}

#[test]
fn sockets_of_systemd_are_used() {
    let ports = Ports::free();
    let sockets = [
        format!("monitoring={}", ports.monitoring),
        format!("grpc={}", ports.api),
        format!("ctrlz={}", ports.ctrlz),
    ];
    // Ports of flags that must not be bound: one is taken, the others need privileges.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    let flags = ["--address", &taken, "--monitoring-port", "1", "--ctrlz-port", "1"];
    let mut server = activated(&sockets).on_ports(ports).with(&flags).start();
    let granted = mixer(&["check", "--wait-for-ready", "--timeout", "120s", "-m", &server.address()]);
    assert_eq!(granted.status, 0, "{granted:?}\n{}", server.log());
    let ready = server.monitoring_url("/readyz");
    assert!(wait_for(DEADLINE, || http("GET", &ready, "").ok().filter(|a| a.status == 200)).is_some());
    assert!(is_listening(ports.ctrlz));
    let handed = format!("API socket inherited: tcp://127.0.0.1:{}", ports.api);
    assert!(server.log().contains(&handed), "{}", server.log());
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let log = server.log();
    assert!(log.contains("\tinfo\treadiness turns unavailable: dispatcher: stopping"), "{log}");
    assert!(!log.contains("\terror\t"), "a regular shutdown logs no error\n{log}");
}

#[test]
fn the_file_of_a_socket_of_systemd_stays() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("api.sock");
    // A single socket is that of the API, whatever its name.
    let sockets = [format!("mixer.socket={}", path.display())];
    let unused = format!("127.0.0.1:{}", free_port());
    let mut server = activated(&sockets).with(&["--address", &unused]).start();
    let target = format!("unix://{}", path.display());
    let granted = mixer(&["check", "--wait-for-ready", "--timeout", "120s", "-m", &target]);
    assert_eq!(granted.status, 0, "{granted:?}\n{}", server.log());
    assert_eq!(server.terminate(), Ok(Some(0)));
    assert!(path.exists());
}

/// Clients of gRPC's C core send the path of the socket, escaped, as the authority.
#[test]
fn clients_of_other_languages_call_a_unix_socket() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let place = format!("unix://{}", directory.path().join("api.sock").display());
    let server = Server::builder().native().with(&["--address", &place]).start();
    let granted = mixer(&["check", "--wait-for-ready", "--timeout", "120s", "-m", &place]);
    assert_eq!(granted.status, 0, "{granted:?}\n{}", server.log());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/generic_client.py");
    let finished = std::process::Command::new(python())
        .args([script, &place, "istio.mixer.v1.Mixer", "Check", "{}"])
        .output()
        .expect("python runs");
    let told = String::from_utf8_lossy(&finished.stdout);
    assert!(told.contains("\"precondition\""), "{finished:?}\n{}", server.log());
}

#[test]
fn the_unix_socket_of_a_running_server_is_in_use() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("api.sock");
    let place = format!("unix://{}", path.display());
    let flags = ["--address", &place];
    let mut first = Server::builder().native().with(&flags).start();
    let asked = || mixer(&["check", "--wait-for-ready", "--timeout", "120s", "-m", &place]).status;
    assert_eq!(asked(), 0, "{}", first.log());
    let mut second = Server::builder().native().with(&flags).spawn().expect("it starts");
    assert_eq!(second.exit_code(), Ok(Some(3)));
    let log = second.log();
    assert!(log.contains("address already in use") && log.contains("ss -lxp"), "{log}");
    assert_eq!(asked(), 0, "it is still that of the first");
    for command in [&["server", "--dry-run"][..], &["doctor"]] {
        let more = ["--port=0", "--monitoring-port=0", "--ctrlz-port=0", "--address", &place];
        let more = if command[0] == "doctor" { &more[1..] } else { &more[..] };
        let told = mixer(&[command, more].concat());
        assert_ne!(told.status, 0, "{told:?}");
        assert!(format!("{told:?}").contains("address already in use"), "{told:?}");
    }
    let (monitoring, metrics) = (first.ports.monitoring.to_string(), first.ports.metrics.to_string());
    let beside =
        ["doctor", "--address", &place, "--monitoring-port", &monitoring, "--metrics-port", &metrics];
    let told = mixer(&[&beside[..], &["--ctrlz-port=0"]].concat());
    assert!(told.stdout.contains("api.sock is in use by the running server"), "{told:?}");

    // Called as mixs the second takes it; who ends first leaves the file of the other.
    let mut second = Server::on_store("embedded://sample").with(&flags).start();
    let ready = first.monitoring_url("/readyz");
    let told = wait_for(DEADLINE, || http("GET", &ready, "").ok().filter(|answer| answer.status == 503));
    assert!(format!("{told:?}").contains("is not the file of this server any more"), "{told:?}");
    assert_eq!(first.terminate(), Ok(Some(0)), "{}", first.log());
    assert_eq!(asked(), 0, "{}", second.log());
    assert_eq!(second.terminate(), Ok(Some(0)), "{}", second.log());
    assert!(!path.exists());
}

#[test]
fn a_socket_with_an_unknown_name_is_a_startup_error() {
    let sockets = [format!("grpc={}", free_port()), format!("web={}", free_port())];
    let mut server = activated(&sockets).spawn().expect("python starts");
    assert_eq!(server.exit_code(), Ok(Some(3)));
    let log = server.log();
    let reason = "LISTEN_FDS: the socket `web` is none of grpc, monitoring, ctrlz, envoy and envoy-ratelimit";
    assert!(log.contains(reason), "{log}");
}

#[test]
fn a_socket_that_nothing_serves_is_a_startup_error() {
    for name in ["envoy", "envoy-ratelimit"] {
        let sockets = [format!("grpc={}", free_port()), format!("{name}={}", free_port())];
        let mut server = activated(&sockets).with(&["--envoy-bridge=false"]).spawn().expect("python starts");
        assert_eq!(server.exit_code(), Ok(Some(3)));
        let reason = format!("the inherited socket `{name}` is not served: it needs --envoy-bridge=true");
        assert!(server.log().contains(&reason), "{}", server.log());
    }
}

/// Whether the client chose a connection that it was closing itself. gRPC libraries retry such calls transparently; tonic leaves
/// that to its user.
fn never_sent(error: &tonic::Status) -> bool {
    error.message() == "operation was canceled" && format!("{error:?}").contains("connection closed")
}

#[test]
fn connections_past_their_maximum_age_are_closed_without_failed_calls() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = Server::on(directory.path()).with(&["--max-connection-age", "200ms"]).start();
    let mut client = Client::new(&server.address()).expect("a client");
    // Ten times the maximum age.
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        let mut answer = client.check(&wire::CheckRequest::default(), None);
        // A client that gets no processor time meets several such connections.
        while answer.as_ref().is_err_and(never_sent) && Instant::now() < end + DEADLINE {
            answer = client.check(&wire::CheckRequest::default(), None);
        }
        assert!(answer.is_ok(), "{answer:?}\n{}", server.log());
    }

    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("a time limit");
    stream.write_all(http2::PREFACE).expect("sent");
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).expect("a regular end of the connection");
    let frames = http2::frames(&heard);
    assert!(frames.iter().any(|frame| frame.kind == GOAWAY), "no GOAWAY among {frames:?}");
}
