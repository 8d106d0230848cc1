//! The decision log: refusals from the check cache, and a disk without room.

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
    // It answers calls before its conditions were examined for the first time.
    let ready = server.monitoring_url("/readyz");
    let is_ready = || http("GET", &ready, "").is_ok_and(|answer| answer.status == 200).then_some(());
    assert!(wait_for(DEADLINE, is_ready).is_some(), "{}", server.log());
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

/// What a cache answers was decided by a rule all the same.
#[test]
fn refusals_from_the_check_cache_name_the_rule_that_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("decisions");
    let flags = ["--num-check-cache-entries", "100", "--decision-log", log.to_str().expect("UTF-8")];
    let mut server = Server::on(&sample_configuration()).native().with(&flags).start();
    let address = server.address();
    let call = ["check", "-m", &address, "-s", "destination.service=shop"];
    for more in [&["--stringmap-attributes", "request.headers=clnt:abc"][..], &[]] {
        let status = i32::from(!more.is_empty());
        for _ in 0..2 {
            let finished = mixer(&[&call[..], more].concat());
            assert_eq!(finished.status, status, "{finished:?}");
        }
    }
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let text = std::fs::read_to_string(&log).expect("it was written");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let cached: Vec<bool> = lines.iter().map(|line| line["cached"] == true).collect();
    assert_eq!(cached, [false, true, false, true], "{text}");
    let by = |line: usize| lines[line]["rules"].as_array().cloned().unwrap_or_default();
    assert!(by(0).contains(&"unwelcome-client.rule.istio-system".into()), "{text}");
    assert_eq!(by(1), ["unwelcome-client.rule.istio-system"], "{text}");
    assert!(by(3).is_empty(), "nothing refused: {text}");
}
