//! Quotas, caches, latencies, connections and pools show the calls that were made.

use crate::stage::{Stage, get_json};
use crate::support::{DEADLINE, Process, Server, http, programs, run, sample_configuration, wait_for};

/// A handler that hangs.
const HANGING: &str = r#"apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: hanging, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: HANG}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: hanging, namespace: istio-system}
spec:
  match: source.name == "slow"
  actions: [{handler: hanging, instances: [caller]}]
"#;

#[test]
fn numbers_match_the_calls() {
    let stage = Stage::new(&[]);
    std::fs::write(stage.configuration.path().join("hanging.yaml"), HANGING).unwrap();
    let handler = |name: &str| {
        let all = get_json(&stage.url("/handlerj/"));
        all.as_array().unwrap().iter().find(|h| h["resource"].as_str().unwrap().starts_with(name)).cloned()
    };
    wait_for(DEADLINE, || handler("hanging.")).expect("the new handler is shown");

    stage.call(&["check", "-r", "100", "-s", "source.name=web"]);
    let third = ["--stringmap_attributes", "source.labels=version:v3", "-s", "source.name=web"];
    stage.call(&[["check", "-r", "3", "-q", "request-count=1"].as_slice(), &third].concat());
    stage.call(&[
        "check",
        "-r",
        "4",
        "-s",
        "source.name=web",
        "--stringmap_attributes",
        "request.headers=clnt:abc",
    ]);
    let report = "context.protocol=http,source.workload.name=web,destination.service.host=reviews";
    stage.call(&["report", "-r", "20", "-s", report, "-t", "request.time=2019-01-02T03:04:05Z"]);

    let quotas = get_json(&stage.url("/quotaj/"));
    let used = |quota: &serde_json::Value| {
        let top = quota["top"].as_array().unwrap().clone();
        top.iter().find(|of| of[0].as_str().unwrap().contains("v3")).map(|of| of[1].as_i64().unwrap())
    };
    assert_eq!(quotas.as_array().unwrap().iter().find_map(used), Some(3), "{quotas}");
    assert_eq!(handler("limits.").unwrap()["calls"], 3);
    assert_eq!(handler("turn-away.").unwrap()["errors"], 0);
    let cache = get_json(&stage.url("/cachej/"));
    let number =
        |of: &serde_json::Value, name: &str| of[name].as_u64().unwrap_or_else(|| panic!("{name} in {of}"));
    assert!(number(&cache, "hits") >= 99 + 3 && number(&cache, "misses") >= 2, "{cache}");
    assert_eq!(get_json(&stage.url("/denialj/")).as_array().unwrap().len(), 4);
    let latency = get_json(&stage.url("/latencyj/"));
    let calls = latency["calls"].as_array().unwrap();
    assert_eq!(calls.iter().map(|of| number(of, "count")).collect::<Vec<_>>(), [107, 20], "{latency}");
    let series = handler("prometheus-http.").unwrap()["queues"].clone();
    assert!(series.as_array().unwrap().iter().any(|of| number(of, "length") == 1), "{series}");

    let connections = || get_json(&stage.url("/callerj/")).as_array().unwrap().len();
    assert!(
        wait_for(DEADLINE, || (connections() == 0).then_some(())).is_some(),
        "all clients have disconnected"
    );
    let address = ("127.0.0.1", stage.server.ports.api);
    let held =
        [std::net::TcpStream::connect(address).unwrap(), std::net::TcpStream::connect(address).unwrap()];
    assert!(wait_for(DEADLINE, || (connections() == 2).then_some(())).is_some());
    drop(held);

    let hang = |_| {
        let mut client = std::process::Command::new(programs().path("mixc"));
        client.args(["check", "--mixer", &stage.server.address(), "-s", "source.name=slow"]);
        Process::spawn(client.stdin(std::process::Stdio::null())).unwrap()
    };
    let clients: Vec<Process> = (0..3).map(hang).collect();
    let pools = || get_json(&stage.url("/poolj/"));
    let in_flight = || (number(&pools()["api"], "inFlight"), number(&pools()["adapter"], "inFlight"));
    assert!(wait_for(DEADLINE, || (in_flight() == (3, 3)).then_some(())).is_some(), "{}", pools());
    let queue = handler("hanging.").unwrap()["queues"][0].clone();
    assert_eq!((queue["name"].as_str(), queue["length"].as_u64()), (Some("calls in flight"), Some(3)));
    let metrics = http("GET", &stage.server.monitoring_url("/metrics"), "").unwrap().body;
    assert!(metrics.contains("mixer_pool_in_flight{pool=\"api\"} 3"), "{metrics}");
    drop(clients);
    assert!(wait_for(DEADLINE, || (in_flight() == (0, 0)).then_some(())).is_some(), "{}", pools());
}

/// Probes are green meanwhile.
#[test]
fn a_server_that_sheds_its_calls_says_so() {
    let shedding =
        ["--load-shedding-mode", "enforce", "--max-requests-per-second", "0.001", "--burst-size", "1"];
    let server = Server::on(&sample_configuration()).native().with(&shedding).start();
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.ports.ctrlz);
    let state = || -> serde_json::Value {
        let answer = http("GET", &server.monitoring_url("/readyz?verbose"), "").unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    };
    let check = ["check", "-m", &server.address(), "-r", "9", "-s", "source.name=web"].map(str::to_owned);
    let done = run(&programs().path("mixer"), &check, &[], None, None, DEADLINE).unwrap();
    assert_eq!(done.status, 4, "{}", done.stderr);
    let why = "8 of the last 9 checks failed: 8 UNAVAILABLE; load shedding refused 8";
    let is_told = || (state()["degraded"]["calls"]["why"] == why).then_some(());
    assert!(wait_for(DEADLINE, is_told).is_some(), "{}", state());
    server.wait_for_log("calls is degraded: ");
    let calls = get_json(&url("/callj/"));
    let numbers = ["calls", "failed", "unanswered", "shed"].map(|name| calls[name].as_u64().unwrap());
    assert_eq!(numbers, [9, 8, 0, 8], "{calls}");
    for path in ["/", "/callz/"] {
        let page = http("GET", &url(path), "").unwrap().body;
        let told = ["<small>8 total, 8 UNAVAILABLE</small>", "<small>8 total, among the failed ones</small>"];
        assert!(told.iter().all(|told| page.contains(told)) && page.contains(">degraded<"), "{path}: {page}");
    }
}

/// Two calls for each of two callers.
const QUOTA: &str = r#"apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {user: source.user | "nobody"}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: limits, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 2, validDuration: 3600s}]}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: limits, namespace: istio-system}
spec: {actions: [{handler: limits, instances: [calls]}]}
"#;

/// The client refuses the request then, as Envoy does with 429.
#[test]
fn a_check_that_gets_nothing_of_a_quota_is_a_denial() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("policy.yaml"), QUOTA).unwrap();
    let server = Server::on(directory.path()).native().start();
    let check = |user: &str, quota: &str, calls: &str, status: i32| {
        let user = format!("source.user={user}");
        let arguments = ["check", "-m", &server.address(), "-q", quota, "-r", calls, "-s", &user];
        let arguments: Vec<String> = arguments.map(str::to_owned).to_vec();
        let done = run(&programs().path("mixer"), &arguments, &[], None, None, DEADLINE).unwrap();
        assert_eq!(done.status, status, "{}", done.stderr);
    };
    check("ann", "calls=1", "5", 1);
    // Something is granted.
    check("bob", "calls=3", "1", 0);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.ports.ctrlz);
    let groups = get_json(&url("/denialgroupj/"));
    let shown = |group: &serde_json::Value| {
        let text = |name: &str| group[name].as_str().unwrap().to_owned();
        (text("kind"), text("by"), text("caller"), group["count"].as_u64().unwrap())
    };
    let groups: Vec<_> = groups["groups"].as_array().unwrap().iter().map(shown).collect();
    assert_eq!(groups, [("quota".to_owned(), "calls".to_owned(), "ann".to_owned(), 3)]);
    let samples = get_json(&url("/denialj/"));
    assert_eq!(samples[0]["message"], "Quota is exhausted for: calls", "{samples}");
    assert_eq!(samples[0]["status"], "RESOURCE_EXHAUSTED", "{samples}");
    let metrics = http("GET", &server.monitoring_url("/metrics"), "").unwrap().body;
    assert!(metrics.contains("mixer_check_denials_total{code=\"RESOURCE_EXHAUSTED\"} 3"), "{metrics}");
}

/// Nothing is granted then, and the client refuses the request.
#[test]
fn a_check_whose_quota_fails_is_a_denial() {
    let directory = tempfile::tempdir().unwrap();
    // Nothing listens on port 1.
    let failing = QUOTA.replace("memquota", "redisquota").replace(
        "{quotas: [{",
        "{redisServerUrl: \"127.0.0.1:1\", connectionPoolSize: 1, quotas: [{rateLimitAlgorithm: FIXED_WINDOW, ",
    );
    std::fs::write(directory.path().join("policy.yaml"), failing).unwrap();
    let server = Server::on(directory.path()).native().start();
    let arguments = ["check", "-m", &server.address(), "-q", "calls=1", "-r", "5", "-s", "source.user=ann"];
    let arguments: Vec<String> = arguments.map(str::to_owned).to_vec();
    let done = run(&programs().path("mixer"), &arguments, &[], None, None, DEADLINE).unwrap();
    assert_eq!(done.status, 1, "{}", done.stderr);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.ports.ctrlz);
    let groups = get_json(&url("/denialgroupj/"));
    let group = &groups["groups"][0];
    let shown = (group["by"].as_str(), group["caller"].as_str(), group["count"].as_u64());
    assert_eq!(shown, (Some("calls"), Some("ann"), Some(5)), "{groups}");
    assert_eq!(get_json(&url("/denialj/"))[0]["message"], "Quota failed: calls");
}

#[test]
fn deliveries_account_for_every_item() {
    let configuration = tempfile::tempdir().unwrap();
    let log = configuration.path().join("decisions");
    let server = Server::on(&sample_configuration()).native();
    // Nothing listens on port 1.
    let tracing = ["--trace-zipkin-url", "http://127.0.0.1:1/", "--trace-sampling-rate", "1"];
    let server = server.with(&["--decision-log", log.to_str().unwrap()]).with(&tracing).start();
    let stage = Stage { server, configuration };
    stage.call(&["check", "-r", "30", "-s", "source.name=web"]);
    let deliveries = || get_json(&stage.url("/deliveryj/"));
    let of = |name: &str| {
        let all = deliveries();
        all.as_array().unwrap().iter().find(|of| of["name"] == name).cloned().expect("it is listed")
    };
    let settled = |name: &'static str| {
        let all = |of: &serde_json::Value| {
            of["accepted"].as_u64() >= Some(30) && of["queued"] == 0 && of["inFlight"] == 0
        };
        wait_for(DEADLINE, || Some(of(name)).filter(all)).unwrap_or_else(|| panic!("{}", deliveries()))
    };
    let decisions = settled("decision log");
    assert_eq!((&decisions["accepted"], &decisions["delivered"]), (&30.into(), &30.into()), "{decisions}");
    assert_eq!(decisions["state"], "delivering");
    let spans = settled("span export");
    assert_eq!(spans["accepted"], spans["dropped"]["failed"], "{spans}");
    assert_eq!(spans["state"], "failing");
    let trouble = spans["trouble"].as_str().unwrap();
    assert!(trouble.contains("Connection refused"), "{spans}");
    let page = http("GET", &stage.url("/deliveryz/"), "").unwrap().body;
    assert!(page.contains("decision log") && page.contains("Connection refused"), "{page}");
    let metrics = http("GET", &stage.server.monitoring_url("/metrics"), "").unwrap().body;
    for sample in [
        "mixer_delivery_items_total{delivery=\"decision log\",handler=\"\",outcome=\"accepted\"} 30",
        "mixer_delivery_items_total{delivery=\"decision log\",handler=\"\",outcome=\"delivered\"} 30",
        "mixer_delivery_waiting_items{delivery=\"decision log\",handler=\"\"} 0",
    ] {
        assert!(metrics.lines().any(|line| line == sample), "{sample} in {metrics}");
    }
}
