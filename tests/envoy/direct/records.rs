//! Logs, records, metrics and traces of calls.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::{
    AUTHORIZATION, BROKEN, LIMITS, LOGS, Setting, check, check_request, limit, lines_with, log, with_quota,
};
use crate::support::rpc::Client;
use crate::support::{DEADLINE, Server, http, programs, run, wait_for};

#[test]
fn attributes_that_a_manifest_declares_otherwise_are_named() {
    // Nothing is configured for Envoy, so that the manifest is a warning only.
    let text = "kind: attributemanifest
metadata: {name: typed, namespace: istio-system}
spec: {attributes: {source.ip: {valueType: STRING}, request.path: {valueType: STRING}}}
";
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("policy.yaml"), text).expect("it is writable");
    let server = Server::on(directory.path()).native().start();
    server.wait_for_log("attribute source.ip is STRING here, but Envoy sends IP_ADDRESS");
    let lacking = "requests of Envoy lack attributes: source.ip is declared as STRING and sent as IP_ADDRESS";
    assert!(!server.log().contains(lacking), "Envoy did not call: {}", server.log());
    let mut client = Client::new(&server.address()).expect("a client");
    client.call(AUTHORIZATION, check_request("/", "ann"), None).expect("an answer");
    server.wait_for_log(lacking);
}

#[test]
fn decisions_are_logged_and_recorded() {
    let mut setting =
        Setting::start(&["--decision-log=$DIRECTORY/log", "--record-requests=$DIRECTORY/calls"]);
    let mut client = setting.client();
    assert_eq!(check(&mut client, "/", "ann").expect("an answer"), 0);
    // Again, from the cache.
    assert_eq!(check(&mut client, "/", "ann").expect("an answer"), 0);
    assert_eq!(check(&mut client, "/", "mallory").expect("an answer"), 7);
    let within: Vec<bool> = (0..3).map(|_| limit(&mut client, "a").expect("an answer")).collect();
    assert_eq!(within, [true, true, false]);
    log(&mut client, &["ann", "eve"]).expect("it is taken");
    assert_eq!(setting.server.terminate(), Ok(Some(0)));

    let logged = setting.lines("log");
    let methods: Vec<&str> = logged.iter().filter_map(|line| line["method"].as_str()).collect();
    assert_eq!(methods, ["check", "check", "check", "limit", "limit", "limit"], "{logged:#?}");
    let ids: std::collections::BTreeSet<&str> = logged
        .iter()
        .filter_map(|line| line["deduplicationId"].as_str())
        .filter(|id| id.len() == 36)
        .collect();
    assert_eq!(ids.len(), 6, "every decision has an id of its own: {logged:#?}");
    let denied = &logged[2];
    assert_eq!(denied["answer"]["status"]["code"], 7, "{denied}");
    assert_eq!(denied["rules"], serde_json::json!(["deny.rule.istio-system"]), "{denied}");
    assert_eq!(denied["attributes"]["request.headers"]["x-user"], "mallory", "{denied}");
    assert_eq!(denied["attributes"]["request.headers"]["authorization"], "***", "masked: {denied}");
    // Undeclared attributes are logged: a later configuration may declare them.
    assert_eq!(denied["attributes"]["request.method"], "GET", "{denied}");
    assert_eq!((&logged[0]["cached"], &logged[1]["cached"]), (&Value::Null, &Value::Bool(true)));
    let tried = denied["dryRun"].as_array().expect("rules in dry run");
    assert!(
        tried.iter().any(|t| t["rule"] == "tried.rule.istio-system" && t["outcome"] == "denied"),
        "{denied}"
    );
    let over = &logged[5];
    assert_eq!(over["attributes"]["ratelimit.descriptor"]["tenant"], "a", "{over}");
    assert_eq!(
        (&over["quotas"]["calls"]["amount"], &over["answer"]["quotas"]["calls"]["granted"]),
        (&1.into(), &0.into())
    );

    let recorded = setting.lines("calls");
    let methods: Vec<&str> = recorded.iter().filter_map(|line| line["method"].as_str()).collect();
    assert_eq!(methods, ["check", "check", "check", "report"], "{recorded:#?}");
    assert_eq!(recorded[3]["records"].as_array().map(Vec::len), Some(2), "{recorded:#?}");
    // Recorded requests are replayed on a configuration without the denial.
    let place = |name: &str| setting.directory.path().join(name).display().to_string();
    std::fs::create_dir(place("new")).expect("it is writable");
    let new = include_str!("../direct.yaml").replace("mallory", "nobody");
    std::fs::write(Path::new(&place("new")).join("policy.yaml"), new).expect("it is writable");
    let arguments = [
        "diff",
        "--from",
        &place("policy"),
        "--to",
        &place("new"),
        "--requests",
        &place("calls"),
        "-o",
        "json",
    ];
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    let finished = run(&programs().path("mixer"), &arguments, &[], None, None, DEADLINE).expect("it ends");
    assert_eq!(finished.status, 1, "{} {}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("- deny.rule.istio-system"), "{}", finished.stdout);
}

#[test]
fn calls_that_fail_on_their_quota_are_logged_as_failures() {
    let policy = with_quota("broken") + &BROKEN.replace("INSTANCE", "broken");
    let mut setting = Setting::on(&policy, &["--decision-log=$DIRECTORY/log"]);
    let mut client = setting.client();
    assert_eq!(check(&mut client, "/", "ann").expect("an answer"), 13);
    assert!(!limit(&mut client, "fails").expect("an answer"), "the quota fails");
    assert!(limit(&mut client, "a").expect("an answer"));
    assert_eq!(setting.server.terminate(), Ok(Some(0)));
    let logged = setting.lines("log");
    let seen: Vec<_> = logged.iter().map(|line| (&line["method"], &line["error"]["name"])).collect();
    let [check, limit] = ["check", "limit"].map(Value::from);
    let [internal, unavailable] = ["INTERNAL", "UNAVAILABLE"].map(Value::from);
    assert_eq!(seen, [(&check, &internal), (&limit, &unavailable), (&limit, &Value::Null)], "{logged:#?}");
}

#[test]
fn rules_in_dry_run_are_counted_for_envoy() {
    let setting = Setting::start(&[]);
    let mut client = setting.client();
    // Twice: a request that a rule in dry run matches is not answered from the cache.
    assert_eq!(check(&mut client, "/", "mallory").expect("an answer"), 7);
    assert_eq!(check(&mut client, "/", "mallory").expect("an answer"), 7);
    assert!(limit(&mut client, "a").expect("an answer"));
    log(&mut client, &["ann", "eve"]).expect("it is taken");
    let metrics = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
    for line in [
        r#"mixer_dry_run_outcomes_total{outcome="denied",rule="tried.rule.istio-system",variety="check"} 2"#,
        r#"mixer_dry_run_outcomes_total{outcome="matched",rule="tried-limit.rule.istio-system",variety="quota"} 1"#,
        r#"mixer_dry_run_outcomes_total{outcome="matched",rule="tried-log.rule.istio-system",variety="report"} 2"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{}", lines_with(&metrics, "dry_run"));
    }
    for method in [AUTHORIZATION, LIMITS, LOGS] {
        let line = format!(r#"grpc_server_method="{}""#, &method[1..]);
        assert!(metrics.contains(&line), "{line}\n{}", lines_with(&metrics, "grpc_io_server"));
    }
}

#[test]
fn calls_are_traced() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let url = format!("http://{}/api/v1/spans", listener.local_addr().expect("it is bound"));
    let received = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&received);
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let taken = Arc::clone(&taken);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = socket.read(&mut buffer) {
                    taken.lock().expect("not poisoned").extend_from_slice(&buffer[..length]);
                    // Accepted undecoded: the test searches the bytes for names.
                    let _ = socket.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
                }
            });
        }
    });
    let setting = Setting::start(&["--trace_zipkin_url", &url, "--trace_sampling_rate=1"]);
    let mut client = setting.client();
    assert_eq!(check(&mut client, "/", "mallory").expect("an answer"), 7);
    assert!(limit(&mut client, "a").expect("an answer"));
    log(&mut client, &["ann"]).expect("it is taken");
    let wanted = [
        AUTHORIZATION,
        LIMITS,
        LOGS,
        "checknothing:deny.istio-system(denier)",
        "Quota calls",
        "attribute bag 0",
    ];
    let seen = wait_for(DEADLINE, || {
        let bytes = received.lock().expect("not poisoned");
        let has = |name: &&str| bytes.windows(name.len()).any(|window| window == name.as_bytes());
        wanted.iter().all(has).then_some(())
    });
    let bytes = received.lock().expect("not poisoned");
    assert!(seen.is_some(), "{}", String::from_utf8_lossy(&bytes));
}
