//! The decision log on a disk without room.

use serde_json::Value;

use crate::support::{DEADLINE, Server, http, run_mixer as mixer, sample_configuration, wait_for};

/// Why the decision log is degraded; empty if it is not.
fn why(server: &Server) -> String {
    let answer = http("GET", &server.monitoring_url("/readyz?verbose"), "").expect("an answer");
    assert_eq!(answer.status, 200, "the server answers calls all the same");
    let state: Value = serde_json::from_str(&answer.body).expect("JSON");
    state["degraded"]["decision-log"]["why"].as_str().unwrap_or_default().to_owned()
}

fn check(server: &Server) {
    let finished = mixer(&["check", "-m", &server.address(), "-s", "destination.service=shop"]);
    assert_eq!(finished.status, 0, "{}", finished.stderr);
}

#[test]
fn a_full_disk_is_a_degradation_until_lines_are_written_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("decisions");
    std::os::unix::fs::symlink("/dev/full", &log).expect("it is writable");
    let flags = ["--decision-log", log.to_str().expect("UTF-8")];
    let server = Server::on(&sample_configuration()).native().with(&flags).start();
    assert_eq!(why(&server), "", "nothing was lost yet");
    check(&server);
    let told = wait_for(DEADLINE, || Some(why(&server)).filter(|why| !why.is_empty()));
    let expected = format!("decisions are lost: cannot write `{}`: no space left on device", log.display());
    assert_eq!(told, Some(expected), "{}", server.log());
    let metrics = http("GET", &server.monitoring_url("/metrics"), "").expect("metrics").body;
    assert!(metrics.contains("mixer_component_degraded{component=\"decision-log\"} 1"), "{metrics}");
    // Room is made.
    std::fs::remove_file(&log).expect("it is there");
    check(&server);
    let written = wait_for(DEADLINE, || why(&server).is_empty().then_some(()));
    assert!(written.is_some(), "{}\n{}", why(&server), server.log());
    assert!(std::fs::read_to_string(&log).is_ok_and(|text| text.contains("destination.service")));
}
