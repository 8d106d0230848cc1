//! The sockets of the API: handed over by systemd, and connections that grow old.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::mixer;
use crate::process::{
    PATIENCE, Server, ServerArguments, answers, free_port, http, programs, python, wait_for,
};
use crate::rpc::{Client, mixer as wire};

/// A process that is killed when it is dropped.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server on sockets that somebody else opens: `NAME=ADDRESS`.
fn activated(directory: &Path, sockets: &[String], more: &[&str]) -> Guarded {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/operations/socket_activation.py");
    let log = directory.join("log").display().to_string();
    let child = Command::new(python())
        .arg(script)
        .args(sockets)
        .arg("--")
        .arg(programs().path("mixer"))
        .args(["server", "--log-target", &log])
        .args(more)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(directory.join("err")).expect("it is writable"))
        .spawn();
    Guarded(child.expect("python starts"))
}

fn text(directory: &Path, name: &str) -> String {
    crate::text(&directory.join(name))
}

fn terminate(server: &mut Guarded) -> Option<i32> {
    let sent = Command::new("kill").arg(server.0.id().to_string()).status();
    assert!(sent.is_ok_and(|status| status.success()));
    wait_for(PATIENCE, || server.0.try_wait().ok().flatten()).expect("it ends").code()
}

#[test]
fn sockets_that_systemd_opened_are_used() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let [api, monitoring, ctrlz, metrics] = [(); 4].map(|()| free_port());
    let sockets = [format!("monitoring={monitoring}"), format!("grpc={api}"), format!("ctrlz={ctrlz}")];
    // The ports of the flags would be taken: nobody may ask for them.
    let metrics = metrics.to_string();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address");
    let more = ["--address", &taken.to_string(), "--metrics-port", &metrics];
    let more = [&more[..], &["--monitoring-port", "1", "--ctrlz-port", "1"]].concat();
    let mut server = activated(directory.path(), &sockets, &more);
    let target = format!("127.0.0.1:{api}");
    let granted = mixer(&["check", "--wait-for-ready", "--timeout", "20s", "-m", &target]);
    assert_eq!(granted.status, 0, "{granted:?}\n{}", text(directory.path(), "err"));
    let ready = format!("http://127.0.0.1:{monitoring}/readyz");
    assert!(wait_for(PATIENCE, || http("GET", &ready, "").ok().filter(|a| a.status == 200)).is_some());
    assert!(answers(ctrlz));
    let log = text(directory.path(), "log");
    let handed = format!("API socket inherited: tcp://127.0.0.1:{api}");
    assert!(log.contains(&handed), "{log}");
    assert_eq!(terminate(&mut server), Some(0), "{}", text(directory.path(), "log"));
    let log = text(directory.path(), "log");
    assert!(log.contains("\tinfo\treadiness turns unavailable: dispatcher: stopping"), "{log}");
    assert!(!log.contains("\terror\t"), "an ordinary stop is no error\n{log}");
}

#[test]
fn the_file_of_a_socket_that_systemd_opened_stays() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("api.sock");
    let ports = [(); 2].map(|()| free_port().to_string());
    let more = ["--monitoring-port", &ports[0], "--ctrlz-port", "0", "--metrics-port", &ports[1]];
    // A socket alone is for the API, whatever its name.
    let mut server = activated(directory.path(), &[format!("mixer.socket={}", path.display())], &more);
    let target = format!("unix://{}", path.display());
    let granted = mixer(&["check", "--wait-for-ready", "--timeout", "20s", "-m", &target]);
    assert_eq!(granted.status, 0, "{granted:?}\n{}", text(directory.path(), "err"));
    assert_eq!(terminate(&mut server), Some(0));
    assert!(path.exists());
}

#[test]
fn sockets_of_unknown_use_end_the_start() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let sockets = [format!("grpc={}", free_port()), format!("web={}", free_port())];
    let mut server = activated(directory.path(), &sockets, &[]);
    let status = wait_for(PATIENCE, || server.0.try_wait().ok().flatten()).expect("it ends");
    assert_eq!(status.code(), Some(3));
    let told = text(directory.path(), "err");
    assert!(
        told.contains("LISTEN_FDS: the socket `web` is none of grpc, monitoring, ctrlz and envoy"),
        "{told}"
    );
}

/// Whether the client gave a call to a connection that it was closing itself. gRPC libraries send such calls again by themselves; this
/// one leaves it to its user.
fn never_sent(error: &tonic::Status) -> bool {
    error.message() == "operation was canceled" && format!("{error:?}").contains("connection closed")
}

#[test]
fn old_connections_end_and_their_calls_do_not_fail() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let arguments = ServerArguments::on(directory.path()).with(&["--max-connection-age", "200ms"]);
    let server = Server::start(&arguments).expect("the server starts");
    let mut client = Client::new(&server.address()).expect("a client");
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        let mut answer = client.check(&wire::CheckRequest::default(), None);
        if answer.as_ref().is_err_and(never_sent) {
            answer = client.check(&wire::CheckRequest::default(), None);
        }
        assert!(answer.is_ok(), "{answer:?}\n{}", server.log());
    }

    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("it is taken");
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).expect("the connection ends in order");
    let mut frames = Vec::new();
    let mut rest = heard.as_slice();
    while let [a, b, c, kind, ..] = rest {
        frames.push(*kind);
        let length = 9 + u32::from_be_bytes([0, *a, *b, *c]) as usize;
        rest = rest.get(length..).unwrap_or_default();
    }
    assert!(frames.contains(&7), "no GOAWAY among {frames:?}");
}
