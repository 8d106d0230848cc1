//! Every long-lived task of galley is made to panic: what the operator sees and what goes on serving is the table in docs/galley.md.

#![cfg(debug_assertions)]

use std::collections::BTreeMap;
use std::time::Duration;

use mixer_mcp::{ClientAuth, ClientOptions};
use mixer_net::tls::ClientTlsOptions;
use serde_json::Value;

use crate::admission::{create, object, review};
use crate::sinks::RunningSink;
use crate::support::galley::Galley;
use crate::support::kube_api::kubeconfig;
use crate::support::tasks::{self, Tasks};
use crate::support::{DEADLINE, free_port, http, wait_for};
use crate::{GATEWAY, RULE};

/// The tasks of a port with TLS, which have a test of their own.
const OF_TLS: [&str; 2] = ["mcp access list", "mcp certificates"];

/// The rows of the table of tasks: name and what follows a failure.
fn documented() -> BTreeMap<String, String> {
    tasks::documented(include_str!("../../docs/galley.md"))
}

/// A galley whose tasks panic, and a sink that was connected before.
struct Stage {
    galley: Galley,
    tasks: Tasks,
    /// Of the webhook.
    certificate: String,
    _sink: RunningSink,
    /// The stream of the sink.
    stream: Value,
    /// Edits so far.
    edits: usize,
    /// It has the kubeconfig.
    _directory: Option<tempfile::TempDir>,
}

impl Stage {
    /// With every task but those of TLS.
    fn full() -> Self {
        let profiles = format!("--pprof-port={}", free_port());
        let directory = tempfile::tempdir().expect("a directory");
        let cluster = directory.path().join("kubeconfig");
        // Nobody listens there.
        std::fs::write(&cluster, kubeconfig("http://127.0.0.1:1", "")).expect("it is writable");
        let kubeconfig = format!("--kubeconfig={}", cluster.display());
        let mut stage = Self::with(&[
            "--enable-validation",
            "--enable-reconcile-webhook-configuration",
            &kubeconfig,
            "--enable-profiling",
            &profiles,
            "--sink-address=127.0.0.1:1",
            "--sink-auth-mode=NONE",
            "--readiness-probe-path=ready",
            "--readiness-probe-interval=1s",
            "--liveness-probe-path=live",
            "--liveness-probe-interval=1s",
        ]);
        stage._directory = Some(directory);
        stage
    }

    fn with(arguments: &[&str]) -> Self {
        let galley = Galley::in_environment(&[("rule.yaml", RULE)], arguments, &[("MIXER_FAULTS", "1")]);
        galley.synced();
        let sink = RunningSink::named(&galley, "before");
        let certificate = std::fs::read_to_string(galley.path("cert.pem")).expect("a file");
        let tasks = Tasks { ctrlz: galley.ctrlz, monitoring: galley.monitoring };
        let mut stage =
            Self { galley, tasks, certificate, _sink: sink, stream: Value::Null, edits: 0, _directory: None };
        stage.stream = wait_for(DEADLINE, || stage.stream_of("before")).expect("the sink is connected");
        stage
    }

    /// The stream of a sink that is connected.
    fn stream_of(&self, node: &str) -> Option<Value> {
        let url = format!("http://{}/sinkj/", self.galley.address());
        let sinks: Value = serde_json::from_str(&http("GET", &url, "").ok()?.body).ok()?;
        let is_open = |sink: &&Value| sink["node"] == node && sink["ended"].is_null();
        sinks.as_array()?.iter().find(is_open).map(|sink| sink["id"].clone())
    }

    fn monitoring(&self, path: &str) -> Option<(u16, String)> {
        let answer = http("GET", &format!("http://127.0.0.1:{}{path}", self.galley.monitoring), "").ok()?;
        Some((answer.status, answer.body))
    }

    /// What goes on serving, whatever fails: health, metrics, the webhook, the stream that was open, and an edit.
    fn assert_serves(&mut self, after: &str) {
        for path in ["/healthz", "/metrics"] {
            let answered = wait_for(DEADLINE, || self.monitoring(path).filter(|(status, _)| *status == 200));
            assert!(answered.is_some(), "{path} after a panic of {after}\n{}", self.galley.log());
        }
        let answer = wait_for(DEADLINE, || {
            review(&self.galley, &self.certificate, "/admitpilot", &create(&object(GATEWAY))).ok()
        });
        let allowed = answer.map(|answer| answer["response"]["allowed"].clone());
        assert_eq!(allowed, Some(true.into()), "a review after a panic of {after}\n{}", self.galley.log());
        self.edits += 1;
        let condition = format!("{} > 0", self.edits);
        self.galley.write("rule.yaml", &RULE.replace("true", &condition));
        let path =
            "/configj/resource?group=default&collection=istio/policy/v1beta1/rules&name=istio-system/close";
        let url = format!("http://{}{path}", self.galley.address());
        let published = wait_for(DEADLINE, || {
            let answer = http("GET", &url, "").ok()?;
            let resource: Value = serde_json::from_str(&answer.body).ok()?;
            (resource["Body"]["match"] == condition.as_str()).then_some(())
        });
        assert!(published.is_some(), "an edit after a panic of {after}\n{}", self.galley.log());
        let acknowledged = wait_for(DEADLINE, || {
            (self.galley.ask(&["wait", "rule/istio-system/close", "--sinks", "1"]).status == 0).then_some(())
        });
        assert!(acknowledged.is_some(), "a sink after a panic of {after}\n{}", self.galley.log());
        assert_eq!(
            self.stream_of("before").as_ref(),
            Some(&self.stream),
            "the stream after a panic of {after}"
        );
    }

    /// Makes a task panic and waits until it is counted.
    fn fail(&self, task: &str) {
        let beside = self.galley.path("config").join("beside");
        let counted = self.tasks.fail(task, || match task {
            // Its thread looks before its next scan.
            "store" => self.galley.signal("USR1"),
            // The thread of the library looks with the next event.
            "file events" => std::fs::write(&beside, "").expect("it is writable"),
            // The writer of the log looks with the next record: of the sink that is called and does not answer.
            _ => {}
        });
        assert!(counted, "no panic of {task} is counted\n{}", self.galley.log());
    }

    fn wait_until_running(&self, task: &str) {
        assert!(self.tasks.run_again(task), "{task} is not restarted\n{}", self.galley.log());
    }

    /// Whether the log has this text, now or within half a second.
    fn tells(&self, text: &str) -> bool {
        let found = || self.galley.log().contains(text).then_some(());
        wait_for(Duration::from_millis(500), found).is_some()
    }

    /// Makes a task panic; checks the log, the metrics, ControlZ, readiness, degradations, and what is served.
    fn drill(&mut self, task: &str, policy: &str) {
        self.fail(task);
        self.assert_serves(task);
        self.wait_until_running(task);
        let failed = |line: &str| {
            line.contains("task failed: panic: injected fault")
                && line.contains(&format!("\"task\": \"{task}\""))
        };
        let logged = wait_for(DEADLINE, || self.galley.log().lines().any(failed).then_some(()));
        assert!(logged.is_some(), "the failure of {task} is not logged\n{}", self.galley.log());
        let not_ready = format!("turns unavailable: tasks: {task}");
        let told = match policy {
            "restarted" => format!("tasks is degraded: {task}"),
            _ => not_ready.clone(),
        };
        // What tells is the one that fails.
        if task != "conditions" {
            let is_told = (0..10).any(|_| {
                if self.tells(&told) {
                    return true;
                }
                // The pause was too short to be seen; the next one is longer. An essential task must not fail five times in a row.
                if policy != "essential" {
                    self.fail(task);
                    self.wait_until_running(task);
                }
                false
            });
            assert!(is_told, "nothing tells that {task} is down\n{}", self.galley.log());
        }
        if policy == "restarted" {
            assert!(
                !self.galley.log().contains(&not_ready),
                "it is ready without {task}\n{}",
                self.galley.log()
            );
        }
        let ready = wait_for(DEADLINE, || self.monitoring("/readyz").filter(|(status, _)| *status == 200));
        assert!(ready.is_some(), "ready again after {task}\n{}", self.galley.log());
    }
}

#[test]
fn every_task_that_panics_is_restarted_and_the_rest_serves() {
    let mut stage = Stage::full();
    let mut table = documented();
    for task in OF_TLS {
        assert_eq!(table.remove(task).as_deref(), Some("restarted"), "{task}");
    }
    let shown = stage.tasks.policies(&table);
    assert_eq!(shown, table, "docs/galley.md lists every task with what follows its failure");
    for (task, policy) in &table {
        stage.drill(task, policy);
    }
    // A new sink is served as the first one.
    let _sink = RunningSink::named(&stage.galley, "after");
    assert_eq!(stage.galley.ask(&["wait", "rule/istio-system/close", "--sinks", "2"]).status, 0);
    stage.galley.signal("TERM");
    assert_eq!(stage.galley.end(), Some(0), "{}", stage.galley.log());
    assert!(!stage.galley.path("ready").exists(), "probe files are removed");
}

/// Files of a port with TLS are followed after a panic of what follows them.
#[test]
fn certificates_and_the_access_list_are_followed_after_a_panic() {
    let list = |names: &str| format!("isblacklist: false\nallowed: [{names}]\n");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("access.yaml");
    std::fs::write(&file, list("localhost")).expect("it is writable");
    let access = format!("--access-list-file={}", file.display());
    let galley = Galley::in_environment(
        &[("rule.yaml", RULE)],
        &["--insecure=false", &access],
        &[("MIXER_FAULTS", "1")],
    );
    galley.synced();
    mixer_net::tls::install_crypto_provider();
    let tasks = Tasks { ctrlz: galley.ctrlz, monitoring: galley.monitoring };
    let sink = |node: &str| {
        let files = ClientTlsOptions {
            ca_file: galley.path("cert.pem"),
            cert_file: galley.path("cert.pem"),
            key_file: galley.path("key.pem"),
            ..ClientTlsOptions::default()
        };
        let source = ClientOptions::new(format!("localhost:{}", galley.sinks));
        RunningSink::over(ClientOptions { auth: ClientAuth::Tls(files), ..source }, node)
    };
    let serves = |count: &str| {
        let ask = || galley.ask(&["wait", "rule/istio-system/close", "--sinks", count]).status == 0;
        assert!(wait_for(DEADLINE, || ask().then_some(())).is_some(), "{}", galley.log());
    };
    let _first = sink("first");
    serves("1");
    for task in OF_TLS {
        assert!(tasks.fail(task, || {}), "no panic of {task} is counted\n{}", galley.log());
        assert!(tasks.run_again(task), "{task} is not restarted\n{}", galley.log());
        let told = format!("\"task\": \"{task}\"");
        assert!(galley.log().lines().any(|line| line.contains("task failed") && line.contains(&told)));
        serves("1");
    }
    galley.renew_certificate();
    let renewed = wait_for(DEADLINE, || galley.log().contains("certificates reloaded").then_some(()));
    assert!(renewed.is_some(), "{}", galley.log());
    let _second = sink("second");
    serves("2");
    std::fs::write(&file, list("nobody.example")).expect("it is writable");
    let refused = wait_for(DEADLINE, || {
        let sinks = galley.document("/sinkj/");
        sinks.as_array()?.iter().all(|sink| !sink["ended"].is_null()).then_some(())
    });
    assert!(refused.is_some(), "{}\n{}", galley.document("/sinkj/"), galley.log());
}

/// While a task is down that sinks do not need, galley is ready and degraded.
#[test]
fn a_task_that_is_down_is_told_while_the_rest_serves() {
    let mut stage = Stage::with(&["--enable-validation"]);
    let task = "samples for ControlZ";
    let verbose = |stage: &Stage| {
        let (status, body) = stage.monitoring("/readyz?verbose")?;
        Some((status, serde_json::from_str::<Value>(&body).ok()?))
    };
    let ready =
        wait_for(DEADLINE, || verbose(&stage).filter(|(status, _)| *status == 200)).expect("it is ready");
    assert_eq!(
        (&ready.1["probe"], &ready.1["available"]),
        (&"readiness".into(), &true.into()),
        "{}",
        ready.1
    );
    assert_eq!(ready.1["emitters"]["tasks"], "available", "{}", ready.1);
    assert_eq!(ready.1["degraded"], serde_json::json!({}));
    // The pause doubles: after some failures it is long enough to be seen.
    let mut seen = None;
    for _ in 0..8 {
        stage.fail(task);
        seen = wait_for(Duration::from_millis(200), || {
            let (status, document) = verbose(&stage)?;
            let metrics = stage.monitoring("/metrics")?.1;
            let is_counted = metrics.contains("mixer_component_degraded{component=\"tasks\"} 1");
            let why = document["degraded"]["tasks"]["why"].as_str()?.to_owned();
            is_counted.then_some((status, document["available"].clone(), why))
        });
        if seen.is_some() {
            break;
        }
        stage.wait_until_running(task);
    }
    let why = format!("{task} is down: panic: injected fault");
    assert_eq!(seen, Some((200, true.into(), why)), "{}", stage.galley.log());
    stage.assert_serves(task);
    stage.wait_until_running(task);
    let over = wait_for(DEADLINE, || {
        let (status, document) = verbose(&stage)?;
        (status == 200 && document["degraded"] == serde_json::json!({})).then_some(())
    });
    assert!(over.is_some(), "{}", stage.galley.log());
}

#[test]
fn an_essential_task_that_keeps_failing_ends_the_process_in_order() {
    let mut stage = Stage::with(&[
        "--enable-validation",
        "--readiness-probe-path=ready",
        "--readiness-probe-interval=1s",
    ]);
    for _ in 0..4 {
        stage.fail("signals");
        stage.wait_until_running("signals");
    }
    stage.tasks.inject("signals");
    assert_eq!(stage.galley.end(), Some(70), "{}", stage.galley.log());
    let log = stage.galley.log();
    assert!(log.contains("stopping on failure of task signals: panic: injected fault"), "{log}");
    assert!(!stage.galley.path("ready").exists(), "the stop is orderly: probe files are removed\n{log}");
}

/// With `?verbose`, every condition has its reason.
#[test]
fn readiness_tells_why_it_is_not() {
    let galley = Galley::of_files(&[], &[]);
    let url = format!("http://127.0.0.1:{}/readyz", galley.monitoring);
    let told = wait_for(DEADLINE, || {
        let answer = http("GET", &format!("{url}?verbose"), "").ok()?;
        let document: Value = serde_json::from_str(&answer.body).ok()?;
        let why = document["emitters"]["sync"].as_str()?.to_owned();
        // The mesh configuration is published first.
        let is_told = why.starts_with("not everything was published yet: files ")
            && why.contains("the store has no configuration");
        (answer.status == 503 && is_told).then_some((why, document))
    });
    let (why, document) = told.unwrap_or_else(|| panic!("{}", galley.log()));
    assert_eq!(document["available"], false);
    let brief = http("GET", &url, "").expect("an answer");
    assert!(brief.status == 503 && brief.body.contains(&why), "{}", brief.body);
}
