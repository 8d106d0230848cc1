//! Adapters out of process with sessions: each connection begins with one, whatever becomes of the adapter and of the connections before.

use serde_json::Value;

use crate::adapter_failures::{AMPLE, Adapter, Mode, check, common, handler, plain, said, shown, start};
use crate::support::{DEADLINE, Server, http, wait_for};

/// What `/readyz` says about handlers.
fn degraded(server: &Server) -> String {
    let url = format!("http://127.0.0.1:{}/readyz?verbose", server.ports.monitoring);
    let state: Value = serde_json::from_str(&http("GET", &url, "").unwrap().body).unwrap();
    state["degraded"]["handlers"].to_string()
}

/// The next process at an address has no parameters: nothing is asked of it before it has.
#[test]
fn every_connection_begins_with_a_session() {
    let directory = tempfile::tempdir().unwrap();
    let adapter = Adapter::listening(Mode::NeedsSession);
    let text = common(true) + &handler("live", &plain(adapter.port, AMPLE), "");
    let mut server = start(directory.path(), &text, &["--concurrency", "1"]);
    for restarts in 0..3 {
        for _ in 0..2 {
            let ran = check(&server, "live", &["-q", "quota=3"]);
            assert_eq!(ran.status, 0, "after {restarts} restarts: {}", said(&ran));
        }
        // That of the start and that of the worker.
        let both = wait_for(DEADLINE, || (adapter.sessions() == 2).then_some(()));
        assert!(both.is_some(), "{} sessions are open after {restarts} restarts", adapter.sessions());
        adapter.becomes(Mode::Breaks);
        assert_eq!(check(&server, "live", &[]).status, 4);
        adapter.becomes(Mode::NeedsSession);
    }
    assert_eq!(check(&server, "live", &[]).status, 0);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Ok(Some(0)));
    let ended = wait_for(DEADLINE, || (adapter.sessions() == 0).then_some(()));
    assert!(ended.is_some(), "{} sessions are open", adapter.sessions());
}

/// A handler whose adapter takes its parameters no more has no session: its calls fail, and the server is degraded until it has one.
#[test]
fn without_a_session_calls_fail_and_the_server_is_degraded() {
    let directory = tempfile::tempdir().unwrap();
    let adapter = Adapter::listening(Mode::NeedsSession);
    let handler =
        handler("live", &plain(adapter.port, AMPLE), "").replace("listentry, quota, logentry", "bad");
    let text = common(true)
        + &handler
        + "---\napiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {name: bad, namespace: istio-system}\n\
           spec: {template: listentry, params: {value: source.user | \"\"}}\n";
    let server = start(directory.path(), &text, &["--concurrency", "1"]);
    assert_eq!(check(&server, "live", &[]).status, 0);
    assert_eq!(degraded(&server), "null");
    adapter.becomes(Mode::Breaks);
    assert_eq!(check(&server, "live", &[]).status, 4);
    adapter.becomes(Mode::Validates);
    let why = "no session: params: validation error: 3/bad.instance.istio-system is unknown";
    for _ in 0..2 {
        let failed = check(&server, "live", &[]);
        assert_eq!(failed.status, 4, "{}", said(&failed));
        assert!(said(&failed).contains(&format!("code = Unavailable desc = {why}")), "{}", said(&failed));
    }
    assert!(shown(&server, "live")["trouble"].as_str().is_some_and(|trouble| trouble.ends_with(why)));
    let told = wait_for(DEADLINE, || degraded(&server).contains(why).then_some(()));
    assert!(told.is_some(), "{}", degraded(&server));
    adapter.becomes(Mode::NeedsSession);
    assert_eq!(check(&server, "live", &[]).status, 0);
    let well = wait_for(DEADLINE, || (degraded(&server) == "null").then_some(()));
    assert!(well.is_some(), "{}", degraded(&server));
}

#[test]
fn an_adapter_with_sessions_that_is_down_at_the_start_gets_its_session_later() {
    let directory = tempfile::tempdir().unwrap();
    let adapter = Adapter::new(Mode::Well);
    let text = common(true) + &handler("late", &plain(adapter.port, AMPLE), "");
    std::fs::write(directory.path().join("config.yaml"), text).unwrap();
    let server = Server::on(directory.path()).native().spawn().unwrap();
    server.wait_for_log("error during validation: rpc error: code = Unavailable");
    adapter.listen();
    let serves = wait_for(DEADLINE, || (check(&server, "late", &[]).status == 0).then_some(()));
    assert!(serves.is_some(), "{}", server.log());
    assert_eq!(shown(&server, "late")["notes"][1][1], "session-1");
}

/// A rule in dry run that gives a handler an instance of its own.
fn trial(name: &str, handler: &str) -> String {
    format!(
        "---\napiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{template: listentry, params: {{value: source.user | \"\"}}}}\n\
         ---\napiVersion: config.istio.io/v1alpha2\nkind: rule\n\
         metadata: {{name: {name}, namespace: istio-system, annotations: {{mixer.dev/dry-run: \"true\"}}}}\n\
         spec: {{actions: [{{handler: {handler}, instances: [{name}]}}]}}\n"
    )
}

/// An adapter whose `Validate` refuses what only rules in dry run give it serves without these rules, at a start as while it runs, and gets
/// them once it takes them.
#[test]
fn a_trial_that_an_adapter_does_not_validate_takes_no_handler_from_enforced_rules() {
    for policy in ["keep-last", "refuse"] {
        let adapter = Adapter::listening(Mode::Validates);
        let directory = tempfile::tempdir().unwrap();
        let text = common(true) + &handler("live", &plain(adapter.port, AMPLE), "");
        let trials = trial("bad-one", "live") + &trial("good", "live") + &trial("worse", "live");
        let write = |trials: &str| std::fs::write(directory.path().join("trials.yaml"), trials).unwrap();
        write(&trials);
        let mut server = start(directory.path(), &text, &["--config-on-error", policy]);
        let outcomes = |server: &Server, rule: &str| {
            let ran = check(server, "live", &[]);
            assert_eq!(ran.status, 0, "{policy}: {}", said(&ran));
            let url = format!("http://127.0.0.1:{}/metrics", server.ports.monitoring);
            let text = http("GET", &url, "").unwrap().body;
            let label = format!("rule=\"{rule}.rule.istio-system\"");
            let lines = text.lines().filter(|line| line.starts_with("mixer_dry_run_outcomes_total{"));
            let of_rule = lines.filter(|line| line.contains(&label));
            of_rule.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
        };
        for state in ["started", "changed"] {
            server.wait_for_log("does not take what this rule in dry run gives it");
            let tried = wait_for(DEADLINE, || (outcomes(&server, "worse") > 0).then_some(()));
            assert!(tried.is_some(), "{policy}, {state}: {}", server.log());
            assert!(outcomes(&server, "good") > 0, "{policy}, {state}");
            assert_eq!(outcomes(&server, "bad-one"), 0, "{policy}, {state}");
            assert_eq!(shown(&server, "live")["notes"][1][1], "session-1", "{policy}, {state}");
            if state == "started" {
                drop(server);
                write("# None.\n");
                server = start(directory.path(), &text, &["--config-on-error", policy]);
                assert_eq!(outcomes(&server, "good"), 0, "{policy}");
                write(&trials);
            }
        }
        adapter.becomes(Mode::Well);
        let taken = wait_for(DEADLINE, || (outcomes(&server, "bad-one") > 0).then_some(()));
        assert!(taken.is_some(), "{policy}: {}", server.log());
    }
}
