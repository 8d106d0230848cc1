//! Every long-lived task is made to panic: what the operator sees and what goes on serving is the table in docs/operations.md.

#![cfg(debug_assertions)]

use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::certificates::Authority;
use crate::signals::{access_log, configuration, on};
use crate::support::bag::{Attribute, Attributes, Words, encode_alone};
use crate::support::kube_api::kubeconfig;
use crate::support::rpc::{Client, mixer as wire};
use crate::support::tasks::{self, Tasks};
use crate::support::{DEADLINE, Server, free_port, http, is_listening, wait_for};

/// Handlers with tasks of their own, beside the access log.
const HANDLERS: &str = "
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: list, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {providerFile: 'FILE', blacklist: true}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: entry, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: source.user | \"\"}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: look, namespace: istio-system}
spec: {actions: [{handler: list, instances: [entry]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: policy, namespace: istio-system}
spec:
  compiledAdapter: opa
  params:
    policy:
    - |
      package p
      default ok = true
    checkMethod: data.p.ok
    dataFiles: ['DATA']
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: who, namespace: istio-system}
spec: {compiledTemplate: authorization, params: {subject: {user: source.user | \"\"}, action: {path: '\"/\"'}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: decide, namespace: istio-system}
spec: {actions: [{handler: policy, instances: [who]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: shared, namespace: istio-system}
spec:
  compiledAdapter: redisquota
  params:
    # Nobody listens there.
    redisServerUrl: 127.0.0.1:1
    quotas: [{name: shared.instance.istio-system, maxAmount: 1, validDuration: 60s, leaseDuration: 1s}]
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: shared, namespace: istio-system}
spec: {compiledTemplate: quota}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: shared, namespace: istio-system}
spec: {actions: [{handler: shared, instances: [shared]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: metrics, namespace: istio-system}
spec:
  compiledAdapter: prometheus
  params:
    metricsExpirationPolicy: {metricsExpiryDuration: 60s, expiryCheckIntervalDuration: 1s}
    metrics: [{name: calls, instance_name: calls.instance.istio-system, kind: COUNTER}]
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: '1'}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: count, namespace: istio-system}
spec: {actions: [{handler: metrics, instances: [calls]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: statsd, namespace: istio-system}
spec: {compiledAdapter: statsd, params: {address: 'localhost:1', metrics: {calls.instance.istio-system: {type: COUNTER}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: dogstatsd, namespace: istio-system}
spec: {compiledAdapter: dogstatsd, params: {address: 'localhost:1', metrics: {calls.instance.istio-system: {type: COUNTER}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: fluentd, namespace: istio-system}
spec: {compiledAdapter: fluentd, params: {address: 'localhost:1', spillDirectory: 'FILE.spill'}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: zipkin, namespace: istio-system}
spec: {compiledAdapter: zipkin, params: {url: 'http://localhost:1/', sampleProbability: 1}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: otlp, namespace: istio-system}
spec: {compiledAdapter: otlp, params: {endpoint: 'http://localhost:1', exportInterval: 50ms, metrics: {calls.instance.istio-system: {kind: COUNTER}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: circonus, namespace: istio-system}
spec: {compiledAdapter: circonus, params: {submissionUrl: 'http://localhost:1/', submissionInterval: 1s, metrics: [{name: calls.instance.istio-system, type: COUNTER}]}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: signalfx, namespace: istio-system}
spec: {compiledAdapter: signalfx, params: {ingestUrl: 'http://localhost:1', accessToken: t, datapointInterval: 1s, tracingBufferSize: 100000, metrics: [{name: calls.instance.istio-system, type: COUNTER}]}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: solarwinds, namespace: istio-system}
spec: {compiledAdapter: solarwinds, params: {papertrailAddress: 'localhost:1', logs: {sent.instance.istio-system: {}}, appopticsAccessToken: t, appopticsUrl: 'http://localhost:1/', metrics: {calls.instance.istio-system: {}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: span, namespace: istio-system}
spec: {compiledTemplate: tracespan, params: {traceId: '\"463ac35c9f6413ad\"', spanId: '\"a2fb4a1d1a96d312\"', startTime: 'timestamp(\"2019-03-01T10:00:00Z\")', endTime: 'timestamp(\"2019-03-01T10:00:01Z\")'}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: sent, namespace: istio-system}
spec: {compiledTemplate: logentry, params: {severity: '\"info\"', variables: {a: '1'}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: cloudwatch, namespace: istio-system}
spec:
  compiledAdapter: cloudwatch
  params:
    namespace: mesh
    region: us-east-1
    metricsEndpoint: http://localhost:1
    logsEndpoint: http://localhost:1
    instanceEndpoint: http://localhost:1
    metricInfo: {calls.instance.istio-system: {unit: Count}}
    logGroupName: mesh
    logStreamName: mesh
    logs: {sent.instance.istio-system: {}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: servicecontrol, namespace: istio-system}
spec:
  compiledAdapter: servicecontrol
  params:
    runtimeConfig: {checkResultExpiration: 1s}
    serviceConfigs: [{meshServiceName: mesh, googleServiceName: mesh}]
    endpoint: http://localhost:1
    metadataEndpoint: http://localhost:1
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: stackdriver, namespace: istio-system}
spec:
  compiledAdapter: stackdriver
  params:
    projectId: mesh
    endpoint: http://localhost:1
    metadataEndpoint: http://localhost:1
    pushInterval: 50ms
    graphInterval: 50ms
    metricInfo: {calls.instance.istio-system: {kind: DELTA, value: INT64}}
    logInfo: {sent.instance.istio-system: {sinkInfo: {id: archive, destination: storage.googleapis.com/b}}}
    trace: {sampleProbability: 1}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: called, namespace: istio-system}
spec: {compiledTemplate: servicecontrolreport, params: {apiService: '\"mesh\"'}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: edge, namespace: istio-system}
spec: {compiledTemplate: edge, params: {sourceUid: '\"Unknown\"', contextProtocol: '\"tcp\"'}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: send, namespace: istio-system}
spec:
  actions:
  - {handler: statsd, instances: [calls]}
  - {handler: dogstatsd, instances: [calls]}
  - {handler: fluentd, instances: [sent]}
  - {handler: zipkin, instances: [span]}
  - {handler: otlp, instances: [calls, sent, span]}
  - {handler: circonus, instances: [calls]}
  - {handler: signalfx, instances: [calls, span]}
  - {handler: solarwinds, instances: [calls, sent]}
  - {handler: cloudwatch, instances: [calls, sent]}
  - {handler: servicecontrol, instances: [called]}
  - {handler: stackdriver, instances: [calls, sent, span, edge]}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: cluster, namespace: istio-system}
spec: {compiledAdapter: kubernetesenv, params: {kubeconfigPath: 'FILE.kubeconfig', syncTimeout: 10ms}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: pods, namespace: istio-system}
spec: {compiledTemplate: kubernetes, params: {sourceUid: source.user}, attributeBindings: {source.user: $out.source_pod_name | \"\"}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: pods, namespace: istio-system}
spec: {match: source.user == \"nobody\", actions: [{handler: cluster, instances: [pods]}]}
";

/// The rows of the table of tasks: name and what follows a failure.
fn documented() -> BTreeMap<String, String> {
    tasks::documented(include_str!("../../docs/operations.md"))
}

struct Stage {
    server: Server,
    client: Client,
    /// A file in the directory of the configuration that is none.
    beside: Option<PathBuf>,
}

impl Stage {
    fn new(server: Server) -> Self {
        let client = Client::new(&server.address()).expect("a client");
        Self { server, client, beside: None }
    }

    fn tasks(&self) -> Tasks {
        Tasks { ctrlz: self.server.ports.ctrlz, monitoring: self.server.ports.monitoring }
    }

    /// What goes on serving, whatever fails.
    fn assert_serves(&mut self, after: &str) {
        let request = wire::CheckRequest::default();
        // A worker closes its connections when it fails; the client connects again.
        let kept = wait_for(DEADLINE, || self.client.check(&request, None).ok());
        assert!(kept.is_some(), "the old client is served after a panic of {after}\n{}", self.server.log());
        let mut new = Client::new(&self.server.address()).expect("a client");
        let answer = new.check(&request, None);
        assert!(answer.is_ok(), "a new client after a panic of {after}: {answer:?}\n{}", self.server.log());
        let scraped = wait_for(DEADLINE, || http("GET", &self.server.monitoring_url("/metrics"), "").ok());
        assert!(scraped.is_some_and(|answer| answer.status == 200), "monitoring after a panic of {after}");
    }

    /// A report wakes the writers.
    fn report(&mut self) {
        let user = Attributes::from([("source.user".to_owned(), Attribute::Text("ann".to_owned()))]);
        let attributes = vec![encode_alone(&user, Words::of_message())];
        // It fails while its worker restarts.
        let _ = self.client.report(&wire::ReportRequest { attributes, ..Default::default() }, None);
    }

    /// Makes a task panic and waits until it is counted.
    fn fail(&mut self, task: &str) {
        let counted = self.tasks().fail(task, || {
            self.report();
            if task == "store" {
                // Its thread looks before its next scan.
                self.server.signal("HUP");
            }
            if let (true, Some(beside)) = (task == "file events", &self.beside) {
                // The thread of the library looks with the next event.
                std::fs::write(beside, "").expect("it is writable");
            }
            if task == "log" {
                // Its writer looks with the next record.
                self.server.signal("USR2");
            }
        });
        assert!(counted, "no panic of {task} is counted\n{}", self.server.log());
    }

    /// Waits until every task with this name runs.
    fn wait_until_running(&mut self, task: &str) {
        assert!(self.tasks().run_again(task), "{task} is not restarted\n{}", self.server.log());
    }

    /// Makes a task panic; checks the log, the metrics, ControlZ, readiness, and that calls are served.
    fn drill(&mut self, task: &str, policy: &str) {
        self.fail(task);
        self.assert_serves(task);
        self.wait_until_running(task);
        let failed = |line: &str| {
            line.contains("task failed: panic: injected fault")
                && line.contains(&format!("\"task\": \"{task}\""))
        };
        let logged = wait_for(DEADLINE, || self.server.log().lines().any(failed).then_some(()));
        assert!(logged.is_some(), "the failure of {task} is not logged\n{}", self.server.log());
        if policy != "restarted" {
            // The pause is short: readiness may look again only after the restart.
            let told = (0..10).any(|_| {
                let text = format!("turns unavailable: tasks: {task}");
                let found = || self.server.log().contains(&text).then_some(());
                if wait_for(Duration::from_millis(500), found).is_some() {
                    return true;
                }
                // An essential task must not fail five times in a row.
                if policy == "serving" {
                    self.fail(task);
                    self.wait_until_running(task);
                }
                false
            });
            assert!(told, "readiness does not tell that {task} is down\n{}", self.server.log());
        } else {
            let told = self.server.log().contains(&format!("turns unavailable: tasks: {task}"));
            assert!(!told, "the server is ready without {task}\n{}", self.server.log());
        }
        let ready = wait_for(DEADLINE, || {
            http("GET", &self.server.monitoring_url("/readyz"), "").ok().filter(|answer| answer.status == 200)
        });
        assert!(ready.is_some(), "ready again after {task}\n{}", self.server.log());
    }
}

/// A server with every task but that of certificates.
fn stage(directory: &tempfile::TempDir) -> Stage {
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("list"), "eve\n").expect("it is writable");
    // Nobody listens there.
    let cluster = kubeconfig("http://127.0.0.1:1", "");
    std::fs::write(path("list.kubeconfig"), cluster).expect("it is writable");
    std::fs::write(path("data.json"), "{}").expect("it is writable");
    let handlers = HANDLERS.replace("FILE", &path("list")).replace("DATA", &path("data.json"));
    let all = access_log(Path::new(&path("access.log"))) + &handlers;
    std::fs::write(directory.path().join("config/all.yaml"), all).expect("it is writable");
    let server = on(directory)
        .native()
        .env("MIXER_FAULTS", "1")
        .env("NOTIFY_SOCKET", &path("notify"))
        .env("WATCHDOG_USEC", "200000")
        .with(&[
            "--envoy-http-address",
            &format!("127.0.0.1:{}", free_port()),
            "--decision-log",
            &path("decisions"),
            "--trace-zipkin-url",
            "http://127.0.0.1:1/",
            "--liveness-probe-path",
            &path("alive"),
            "--liveness-probe-interval",
            "1s",
            "--readiness-probe-path",
            &path("ready"),
            "--readiness-probe-interval",
            "1s",
        ])
        .start();
    let mut stage = Stage::new(server);
    stage.beside = Some(directory.path().join("config/beside"));
    stage.report();
    stage
}

#[test]
fn every_task_that_panics_is_restarted_and_the_rest_serves() {
    let directory = configuration("");
    let _manager = UnixDatagram::bind(directory.path().join("notify")).expect("a socket");
    let mut stage = stage(&directory);
    let mut table = documented();
    let writers = wait_for(DEADLINE, || {
        stage.report();
        stage.tasks().list().iter().any(|task| task.name == "stdio writer").then_some(())
    });
    assert!(writers.is_some(), "{:?}", stage.tasks().list());
    // They have tests of their own.
    table.remove("certificates");
    table.remove("rbac roles");
    let shown = stage.tasks().policies(&table);
    assert_eq!(shown, table, "docs/operations.md lists every task with what follows its failure");
    for (task, policy) in &table {
        stage.drill(task, policy);
    }
    // Configuration is still followed, signals are still handled, and lists, metrics and files still work.
    let instances = stage.server.metric("mixer_config_instance_configs_total");
    let more = "kind: instance\nmetadata: {name: more, namespace: istio-system}\nspec: {compiledTemplate: checknothing}\n";
    std::fs::write(directory.path().join("config/more.yaml"), more).expect("it is writable");
    let followed = wait_for(DEADLINE, || {
        (stage.server.metric("mixer_config_instance_configs_total") > instances).then_some(())
    });
    assert!(followed.is_some(), "{}", stage.server.log());
    let server = &mut stage.server;
    assert!(is_listening(server.ports.metrics));
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
}

/// Makes the task of a store that a server feeds panic, whatever the store; `meanwhile` runs as soon as it is counted. Calls and operators are
/// served, the server stays ready, and the task runs again.
pub(crate) fn drill_of_a_store(server: &Server, meanwhile: impl FnOnce(&Server)) {
    assert_eq!(documented().get("store").map(String::as_str), Some("restarted"));
    let tasks = Tasks { ctrlz: server.ports.ctrlz, monitoring: server.ports.monitoring };
    assert!(tasks.fail("store", || {}), "no panic is counted\n{}", server.log());
    let ready = http("GET", &server.monitoring_url("/readyz"), "").map(|answer| answer.status);
    assert_eq!(ready, Ok(200), "{}", server.log());
    meanwhile(server);
    let kept = wait_for(DEADLINE, || {
        let mut client = Client::new(&server.address()).ok()?;
        client.check(&wire::CheckRequest::default(), None).ok()
    });
    assert!(kept.is_some(), "{}", server.log());
    assert!(tasks.run_again("store"), "it is not restarted\n{}", server.log());
    let told = |line: &str| {
        line.contains("task failed: panic: injected fault") && line.contains("\"task\": \"store\"")
    };
    server.wait_for_log("task restarted");
    assert!(server.log().lines().any(told), "{}", server.log());
    assert!(!server.log().contains("turns unavailable: tasks"), "{}", server.log());
}

#[test]
fn certificates_are_followed_after_a_panic() {
    let directory = configuration("");
    let files = Authority::new().issue(&["localhost"]).put(directory.path(), "server");
    let tls = ["--tls-cert-file", &files.certificate, "--tls-key-file", &files.key];
    let server = on(&directory).native().env("MIXER_FAULTS", "1").with(&tls).start();
    let mut stage = Stage::new(server);
    assert_eq!(documented().get("certificates").map(String::as_str), Some("restarted"));
    stage.fail("certificates");
    stage.wait_until_running("certificates");
    // Replaced files are noticed without a signal.
    Authority::new().issue(&["localhost"]).put(directory.path(), "server");
    stage.server.wait_for_log("certificates reloaded");
}

#[test]
fn roles_in_a_directory_are_followed_after_a_panic() {
    let directory = configuration("");
    let roles = directory.path().join("roles");
    std::fs::create_dir(&roles).expect("it is writable");
    let config = format!(
        "kind: handler
metadata: {{name: roles, namespace: istio-system}}
spec: {{compiledAdapter: rbac, params: {{configStoreUrl: 'fs://{}'}}}}
---
kind: instance
metadata: {{name: who, namespace: istio-system}}
spec:
  compiledTemplate: authorization
  params:
    subject: {{user: '\"ann\"'}}
    action: {{namespace: '\"shop\"', service: '\"cart\"', method: '\"GET\"', path: '\"/\"'}}
---
kind: rule
metadata: {{name: permit, namespace: istio-system}}
spec: {{actions: [{{handler: roles, instances: [who]}}]}}
",
        roles.display()
    );
    std::fs::write(directory.path().join("config/roles.yaml"), config).expect("it is writable");
    let server = on(&directory).native().env("MIXER_FAULTS", "1").start();
    let mut stage = Stage::new(server);
    assert_eq!(documented().get("rbac roles").map(String::as_str), Some("restarted"));
    let code = |stage: &mut Stage| {
        let answer = stage.client.check(&wire::CheckRequest::default(), None).ok()?;
        Some(answer.precondition?.status?.code)
    };
    assert_eq!(code(&mut stage), Some(7), "nobody has a role yet");
    stage.fail("rbac roles");
    stage.wait_until_running("rbac roles");
    let text = "kind: ServiceRole
metadata: {name: shopper, namespace: shop}
spec: {rules: [{services: [cart], methods: [GET]}]}
---
kind: ServiceRoleBinding
metadata: {name: shoppers, namespace: shop}
spec: {subjects: [{user: ann}], roleRef: {kind: ServiceRole, name: shopper}}
";
    std::fs::write(roles.join("roles.yaml"), text).expect("it is writable");
    let allowed = wait_for(DEADLINE, || (code(&mut stage) == Some(0)).then_some(()));
    assert!(allowed.is_some(), "{}", stage.server.log());
}

#[test]
fn an_essential_task_that_keeps_failing_ends_the_process_in_order() {
    let directory = configuration("");
    let mut stage = stage(&directory);
    for _ in 0..4 {
        stage.fail("acceptor");
        stage.wait_until_running("acceptor");
    }
    let url = format!("http://127.0.0.1:{}/taskz/panic", stage.server.ports.ctrlz);
    assert!(http("POST", &url, "task=acceptor").is_ok());
    let status = stage.server.exit_code();
    let log = stage.server.log();
    assert!(matches!(status, Ok(Some(status)) if status != 0), "{status:?}\n{log}");
    assert!(log.contains("stopping on failure of task acceptor: panic: injected fault"), "{log}");
    assert!(!directory.path().join("ready").exists(), "the stop is orderly: probe files are removed\n{log}");
}

#[test]
fn faults_are_injected_only_where_they_are_enabled() {
    let directory = configuration("");
    let stage = Stage::new(on(&directory).native().start());
    let url = format!("http://127.0.0.1:{}/taskz/panic", stage.server.ports.ctrlz);
    let refused = http("POST", &url, "task=acceptor").expect("an answer");
    assert_eq!(refused.status, 404);
}
