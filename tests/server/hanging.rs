//! A configuration directory on a file system that hangs: nothing but reading it waits.

#![cfg(debug_assertions)]

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tonic::Code;

use crate::support::policy::{DENIED, POLICY, check};
use crate::support::rpc::Client;
use crate::support::{DEADLINE, Server, ServerBuilder, http, is_listening, wait_for};

const HANGS: &str = "reading takes longer than 10 s: the file system may hang";

/// A directory whose reads hang while a file exists.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("config")).expect("it is writable");
        std::fs::write(directory.path().join("config/policy.yaml"), POLICY).expect("it is writable");
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn hang(&self) {
        std::fs::write(self.path("hangs"), "").expect("it is writable");
    }

    fn answer(&self) {
        std::fs::remove_file(self.path("hangs")).expect("it is there");
    }

    fn server(&self) -> ServerBuilder {
        let hangs = self.path("hangs").display().to_string();
        Server::on(&self.path("config")).env("MIXER_FAULTS", "1").env("MIXER_FAULT_HANG", &hangs)
    }
}

/// The status and the document of `/readyz?verbose`.
fn state(server: &Server) -> Option<(u16, Value)> {
    let answer = http("GET", &server.monitoring_url("/readyz?verbose"), "").ok()?;
    Some((answer.status, serde_json::from_str(&answer.body).ok()?))
}

/// The code that a check of this user is answered with, over a connection of its own.
fn code(server: &Server, user: &str) -> Result<i32, (Code, String)> {
    let mut client = Client::new(&server.address()).expect("a client");
    let answer =
        client.check(&check(user), None).map_err(|status| (status.code(), status.message().to_owned()))?;
    Ok(answer.precondition.and_then(|answer| answer.status).map_or(0, |status| status.code))
}

#[track_caller]
fn assert_operators_are_answered(server: &Server) {
    for url in [
        server.monitoring_url("/healthz"),
        server.monitoring_url("/metrics"),
        server.monitoring_url("/version"),
        format!("http://127.0.0.1:{}/", server.ports.ctrlz),
        format!("http://127.0.0.1:{}/configz/", server.ports.ctrlz),
    ] {
        let answer = http("GET", &url, "");
        assert_eq!(answer.map(|answer| answer.status), Ok(200), "{url}\n{}", server.log());
    }
}

#[test]
fn a_start_without_cache_is_not_ready_until_the_file_system_answers() {
    let place = Place::new();
    place.hang();
    let mut server = place.server().native().start();
    assert_operators_are_answered(&server);
    let told = wait_for(DEADLINE, || {
        let (status, told) = state(&server)?;
        let tells = |reason: &Value| reason.as_str().is_some_and(|why| why.contains(HANGS));
        let is_told = tells(&told["emitters"]["configuration"]) && tells(&told["degraded"]["store"]["why"]);
        is_told.then_some((status, told["available"].clone()))
    });
    assert_eq!(told, Some((503, Value::Bool(false))), "{:?}\n{}", state(&server), server.log());
    for user in [DENIED, "ann"] {
        let (code, text) = code(&server, user).expect_err("nothing serves");
        assert!(code == Code::Unavailable && text.contains(HANGS), "{code:?}: {text}");
    }
    place.answer();
    let ready = wait_for(DEADLINE, || state(&server).filter(|(status, _)| *status == 200));
    let (_, told) = ready.unwrap_or_else(|| panic!("{:?}\n{}", state(&server), server.log()));
    assert_eq!(told["degraded"], serde_json::json!({}), "{told}");
    assert_eq!((code(&server, DENIED), code(&server, "ann")), (Ok(7), Ok(0)), "{}", server.log());
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
}

#[test]
fn a_start_that_hangs_ends_with_its_signal() {
    let place = Place::new();
    place.hang();
    let mut server = place.server().native().start();
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
}

#[test]
fn a_file_system_that_hangs_later_holds_nobody_up() {
    let place = Place::new();
    let mut server = place.server().native().start();
    assert_eq!((code(&server, DENIED), code(&server, "ann")), (Ok(7), Ok(0)), "{}", server.log());
    place.hang();
    let other = POLICY.replace(DENIED, "bob");
    std::fs::write(place.path("config/policy.yaml"), &other).expect("it is writable");
    let degraded = wait_for(DEADLINE, || {
        // All the time, on new connections.
        assert_eq!((code(&server, DENIED), code(&server, "ann")), (Ok(7), Ok(0)), "{}", server.log());
        assert_operators_are_answered(&server);
        let (status, told) = state(&server)?;
        assert_eq!(status, 200, "{told}");
        let why = told["degraded"]["store"]["why"].as_str()?.to_owned();
        why.contains(HANGS).then_some(())
    });
    assert!(degraded.is_some(), "{:?}\n{}", state(&server), server.log());
    place.answer();
    let followed = wait_for(DEADLINE, || (code(&server, "bob") == Ok(7)).then_some(()));
    assert!(followed.is_some(), "{:?}\n{}", state(&server), server.log());
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
}

/// Probe files and the file of a unix socket that are on such a file system, too: a probe is stale then, and nothing else.
#[test]
fn probe_files_and_sockets_that_hang_hold_nobody_up() {
    let place = Place::new();
    let [alive, ready] = ["alive", "ready"].map(|name| place.path(name));
    let probes = [
        format!("--liveness-probe-path={}", alive.display()),
        format!("--readiness-probe-path={}", ready.display()),
        "--liveness-probe-interval=20ms".to_owned(),
        "--readiness-probe-interval=20ms".to_owned(),
    ];
    let probes: Vec<&str> = probes.iter().map(String::as_str).collect();
    let mut server = place.server().native().with(&probes).start();
    let modified = |path: &PathBuf| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    assert!(wait_for(DEADLINE, || modified(&alive).and(modified(&ready))).is_some(), "{}", server.log());
    place.hang();
    let mut last = None;
    let is_stale = || {
        // All the time, on new connections.
        assert_eq!((code(&server, DENIED), code(&server, "ann")), (Ok(7), Ok(0)), "{}", server.log());
        assert_operators_are_answered(&server);
        let now = (modified(&alive)?, modified(&ready)?);
        (last.replace(now) == Some(now)).then_some(())
    };
    assert!(wait_for(DEADLINE, is_stale).is_some(), "{}", server.log());
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    assert!(server.log().contains("Failed to remove the path"), "{}", server.log());

    place.answer();
    let socket = format!("unix://{}", place.path("api.sock").display());
    let mut server = place.server().native().with(&["--address", &socket]).start();
    let is_ready = || state(&server).filter(|(status, _)| *status == 200);
    assert!(wait_for(DEADLINE, is_ready).is_some(), "{}", server.log());
    place.hang();
    let told = wait_for(DEADLINE, || {
        assert_operators_are_answered(&server);
        let told = state(&server)?.1["emitters"]["socket"].as_str()?.to_owned();
        told.contains("its file system may hang").then_some(())
    });
    assert!(told.is_some(), "{:?}\n{}", state(&server), server.log());
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
}

/// Called as `mixs`, it would answer without what it could not read: it waits as Istio Mixer does.
#[test]
fn called_as_mixs_a_start_waits_and_gives_up() {
    let place = Place::new();
    place.hang();
    let mut server = place.server().with(&["--configWaitTimeout", "13s"]).spawn().expect("a process");
    // Longer than a read may take.
    let opened = wait_for(Duration::from_secs(12), || is_listening(server.ports.monitoring).then_some(()));
    assert!(opened.is_none(), "{}", server.log());
    assert!(matches!(server.exit_code(), Ok(Some(status)) if status != 0), "{}", server.log());
    assert!(server.log().contains("exceeded timeout 13s"), "{}", server.log());
}
