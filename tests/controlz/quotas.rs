//! The page of quotas tells of Redis: what is used of them, what this server holds, and that Redis is away.

use crate::stage::get_json;
use crate::support::{DEADLINE, Process, Server, free_port, http, is_listening, programs, run, wait_for};

const CONFIGURATION: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {user: source.user | "nobody", client: 'request.headers["x-api-key"] | "none"'}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: leased, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {user: source.user | "nobody"}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: limits, namespace: istio-system}
spec:
  compiledAdapter: redisquota
  params:
    redisServerUrl: 127.0.0.1:PORT
    outageMode: FAIL_CLOSED
    quotas:
    - {name: calls.instance.istio-system, maxAmount: 500, validDuration: 3600s, overrides: [{dimensions: {user: ann}, maxAmount: 5}]}
    - {name: leased.instance.istio-system, maxAmount: 500, validDuration: 3600s, leaseDuration: 60s}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: limits, namespace: istio-system}
spec: {actions: [{handler: limits, instances: [calls, leased]}]}
"#;

fn redis(port: u16) -> Process {
    let mut command = std::process::Command::new("redis-server");
    let port_text = port.to_string();
    command.args(["--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.stdout(std::process::Stdio::null());
    let process = Process::spawn(&mut command).expect("redis-server is installed: `.ci/run needs` does it");
    assert!(wait_for(DEADLINE, || is_listening(port).then_some(())).is_some(), "redis-server does not start");
    process
}

#[test]
fn the_page_tells_what_is_known_of_redis() {
    let port = free_port();
    let backend = redis(port);
    let directory = tempfile::tempdir().unwrap();
    let text = CONFIGURATION.replace("PORT", &port.to_string());
    std::fs::write(directory.path().join("policy.yaml"), text).unwrap();
    let server = Server::on(directory.path()).native().start();
    // Status 1: nothing is granted to one of the calls.
    let check = |quota: &str, calls: &str, status: i32| {
        let who = ["-s", "source.user=ann", "--stringmap_attributes", "request.headers=x-api-key:s3cret"];
        let address = server.address();
        let target = ["check", "-m", &address, "-q", quota, "-r", calls];
        let arguments: Vec<String> = target.iter().chain(&who).map(|part| (*part).to_owned()).collect();
        let done = run(&programs().path("mixer"), &arguments, &[], None, None, DEADLINE).unwrap();
        assert_eq!(done.status, status, "{}", done.stderr);
    };
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.ports.ctrlz);
    let quota = |name: &str| {
        let all = get_json(&url("/quotaj/"));
        let named = |quota: &&serde_json::Value| quota["name"].as_str().unwrap().starts_with(name);
        all.as_array().unwrap().iter().find(named).cloned().unwrap_or_else(|| panic!("{all}"))
    };
    check("calls=5", "2", 1);
    check("leased=3", "20", 0);

    let exact = quota("calls.");
    let used = &exact["uses"][0];
    assert_eq!((&used["used"], &used["limit"], &used["source"]), (&5.into(), &5.into(), &"backend".into()));
    assert_eq!((&used["override"], &used["exhausted"]), (&true.into(), &true.into()), "{exact}");
    // By what it reads: its name does not say that it is a secret.
    assert_eq!(used["key"], "client=***, user=ann");
    assert_eq!(exact["top"], serde_json::json!([["client=***, user=ann", 5]]));
    assert_eq!(exact["configuredOverrides"], serde_json::json!([["user=ann", 5]]));
    assert_eq!((&exact["shared"]["mode"], &exact["shared"]["answers"]), (&"exact".into(), &true.into()));
    let leased = quota("leased.");
    assert_eq!(leased["shared"]["mode"], "leases");
    assert_eq!(leased["shared"]["leaseDuration"], 60.0, "{leased}");
    let used = &leased["uses"][0];
    assert_eq!(
        (&used["key"], &used["used"], &used["source"]),
        (&"user=ann".into(), &60.into(), &"lease".into())
    );
    assert!(used["lease"]["share"].as_i64() >= used["lease"]["used"].as_i64(), "{leased}");

    let page = || http("GET", &url("/quotaz/"), "").unwrap().body;
    let shown = page();
    for text in
        ["5 of 5", "client=***, user=ann", "Exact: a round trip a call", "Leases of up to 60.0 s", "answers"]
    {
        assert!(shown.contains(text), "{text} in {shown}");
    }
    assert!(!shown.contains("does not answer") && !shown.contains("s3cret"), "{shown}");

    drop(backend);
    let answers = || quota("calls.")["shared"]["answers"] == true;
    wait_for(DEADLINE, || {
        check("calls=1", "1", 1);
        (!answers()).then_some(())
    })
    .expect("the outage is told");
    let away = quota("calls.");
    assert_eq!(away["shared"]["withoutBackend"], "grants nothing");
    assert!(away["shared"]["awaySince"].as_str().is_some_and(|since| since.starts_with("20")), "{away}");
    let trouble = wait_for(DEADLINE, || {
        let trouble = quota("calls.")["shared"]["trouble"].as_str()?.to_owned();
        trouble.contains("refused").then_some(trouble)
    });
    assert!(trouble.is_some_and(|why| why.contains(&format!("127.0.0.1:{port}"))));
    assert_eq!(away["uses"][0]["used"], 5, "what was known stays");
    let shown = page();
    assert!(shown.contains("does not answer") && shown.contains("5 of 5"), "{shown}");

    let _backend = redis(port);
    wait_for(DEADLINE, || answers().then_some(())).expect("it is told that Redis is back");
    assert!(!page().contains("does not answer"));
}
