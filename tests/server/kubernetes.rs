//! The kubernetesenv adapter: who is admitted by the labels of pods, while the API server works and while it does not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::adapter_examples::example;
use crate::signals::{configuration, on};
use crate::support::bag::{Attribute, Attributes, Words, encode_alone};
use crate::support::kube_api::{Fault, KubeApi, TOKEN};
use crate::support::rpc::{Client, mixer as wire};
use crate::support::{DEADLINE, Server, http, wait_for};

const MANIFEST: &str = "kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec:
  attributes:
    source.uid: {valueType: STRING}
    source.ip: {valueType: IP_ADDRESS}
    source.labels: {valueType: STRING_MAP}
    source.workload.name: {valueType: STRING}
    destination.uid: {valueType: STRING}
    destination.port: {valueType: INT64}
---
";

fn pod(name: &str, app: &str, ip: &str) -> Value {
    json!({
        "kind": "Pod", "metadata": {"namespace": "shop", "name": name, "labels": {"app": app}},
        "status": {"podIP": ip, "phase": "Running"},
    })
}

/// A cluster, and a server that admits pods with the label `app=web`.
struct Stage {
    api: KubeApi,
    server: Server,
    client: Client,
    _directory: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        Self::of("kubernetesenv", KubeApi::start())
    }

    /// With an example of the documentation.
    fn of(name: &str, api: KubeApi) -> Self {
        api.put(pod("web-1", "web", "10.0.0.1"));
        api.put(pod("db-1", "db", "10.0.0.2"));
        let directory = configuration("");
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, api.kubeconfig()).unwrap();
        let text = example(name).replace("/etc/mixer/kubeconfig", &kubeconfig.display().to_string());
        std::fs::write(directory.path().join("config/all.yaml"), MANIFEST.to_owned() + &text).unwrap();
        let server = on(&directory).native().start();
        let client = Client::new(&server.address()).unwrap();
        Self { api, server, client, _directory: directory }
    }

    /// The code of a check with this source, and how many times a proxy may use the answer.
    fn check(&mut self, name: &str, value: Attribute) -> (i32, i32) {
        let bag = Attributes::from([(name.to_owned(), value)]);
        let attributes = Some(encode_alone(&bag, Words::of_message()));
        let request = wire::CheckRequest { attributes, ..Default::default() };
        let answer = self.client.check(&request, None).unwrap().precondition.unwrap();
        (answer.status.map_or(0, |status| status.code), answer.valid_use_count)
    }

    fn by_uid(&mut self, uid: &str) -> i32 {
        self.check("source.uid", Attribute::Text(uid.to_owned())).0
    }

    fn by_ip(&mut self, last: u8) -> i32 {
        self.check("source.ip", Attribute::Bytes(vec![10, 0, 0, last])).0
    }

    fn becomes(&mut self, what: &str, last: u8, code: i32) {
        let end = std::time::Instant::now() + DEADLINE;
        while self.by_ip(last) != code {
            assert!(std::time::Instant::now() < end, "{what}\n{}", self.server.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The degradation of the handlers.
    fn degradation(&self) -> Option<String> {
        let answer = http("GET", &self.server.monitoring_url("/readyz?verbose"), "").ok()?;
        assert_eq!(answer.status, 200, "it is ready");
        let document: Value = serde_json::from_str(&answer.body).ok()?;
        document["degraded"]["handlers"]["why"].as_str().map(str::to_owned)
    }

    fn recovers(&self) {
        let well = wait_for(DEADLINE, || self.degradation().is_none().then_some(()));
        assert!(well.is_some(), "{:?}\n{}", self.degradation(), self.server.log());
    }

    fn metrics(&self) -> String {
        http("GET", &self.server.monitoring_url("/metrics"), "").unwrap().body
    }
}

#[test]
fn the_labels_of_pods_decide() {
    let mut stage = Stage::new();
    assert_eq!(stage.by_uid("kubernetes://web-1.shop"), 0);
    assert_eq!(stage.by_uid("kubernetes://db-1.shop"), 7);
    assert_eq!(stage.by_uid("kubernetes://nobody.shop"), 7, "strangers are refused");
    assert_eq!((stage.by_ip(1), stage.by_ip(2), stage.by_ip(3)), (0, 7, 7));
    // Proxies do not distinguish a generated map from one of the caller.
    assert_eq!(stage.check("source.uid", Attribute::Text("web-1.shop".to_owned())), (0, 0));
    // Answers that the server keeps end with the pods that they were made from.
    stage.api.put(pod("web-2", "web", "10.0.0.3"));
    stage.becomes("a new pod is admitted", 3, 0);
    stage.api.delete("pods", "shop", "web-1");
    stage.becomes("a pod that is gone is refused", 1, 7);
    stage.api.put(pod("web-1", "db", "10.0.0.3"));
    stage.api.put(pod("web-2", "web", ""));
    stage.becomes("its address belongs to another one", 3, 7);
    let metrics = stage.metrics();
    for sample in [
        "mixer_kubernetesenv_pods{handler=\"cluster.istio-system\"} 3",
        "mixer_kubernetesenv_watch_failures_total{handler=\"cluster.istio-system\"} 0",
        "mixer_kubernetesenv_lookups_total{handler=\"cluster.istio-system\",result=\"failed\"} 0",
    ] {
        assert!(metrics.lines().any(|line| line == sample), "{sample}: {metrics}");
    }
    assert!(!stage.server.log().contains(TOKEN));
}

#[test]
fn outages_of_the_api_server_change_no_answer_and_end_without_a_restart() {
    let mut stage = Stage::new();
    assert_eq!((stage.by_ip(1), stage.by_ip(2)), (0, 7));
    // The others are those of the crate `kube`.
    for fault in [Fault::Hangs, Fault::Answers(503)] {
        stage.api.fail(Some(fault.clone()));
        stage.api.put(pod("late", "web", "10.0.0.9"));
        if fault != Fault::Hangs {
            // A request that hangs fails after 30 s.
            let told = wait_for(DEADLINE, || stage.degradation());
            let why = told.unwrap_or_else(|| panic!("{fault:?} is told\n{}", stage.server.log()));
            assert!(why.contains("are not followed: 127.0.0.1:") && !why.contains(TOKEN), "{why}");
        }
        assert_eq!((stage.by_ip(1), stage.by_ip(2), stage.by_ip(9)), (0, 7, 7), "{fault:?}");
        stage.api.fail(None);
        stage.becomes("the change arrives", 9, 0);
        stage.recovers();
        stage.api.delete("pods", "shop", "late");
        stage.becomes("so does the next", 9, 7);
    }
    stage.api.stop();
    assert!(wait_for(DEADLINE, || stage.degradation()).is_some(), "a refused connection is told");
    stage.api.delete("pods", "shop", "web-1");
    stage.api.compact();
    assert_eq!((stage.by_ip(1), stage.by_ip(2)), (0, 7));
    stage.api.resume();
    stage.becomes("everything is listed again", 1, 7);
    stage.recovers();
    assert!(
        !stage
            .metrics()
            .contains("mixer_kubernetesenv_watch_failures_total{handler=\"cluster.istio-system\"} 0")
    );
}

#[test]
fn the_service_of_the_destination_decides() {
    let service = |name: &str, app: &str, ip: &str| {
        json!({
            "kind": "Service", "metadata": {"namespace": "shop", "name": name},
            "spec": {"selector": {"app": app}, "clusterIP": ip, "clusterIPs": [ip]},
        })
    };
    let api = KubeApi::start();
    api.put(service("cart", "web", "10.96.0.1"));
    let mut db = service("db", "db", "10.96.0.2");
    db["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z".into();
    api.put(db);
    api.fail(Some(Fault::Forbids("services")));
    let mut stage = Stage::of("kubernetesenv-services", api);
    let code =
        |stage: &mut Stage, ip: [u8; 4]| stage.check("destination.ip", Attribute::Bytes(ip.to_vec())).0;
    let to = |stage: &mut Stage, ip: [u8; 4], wanted: i32| {
        let end = std::time::Instant::now() + DEADLINE;
        while code(stage, ip) != wanted {
            assert!(std::time::Instant::now() < end, "{ip:?}\n{}", stage.server.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    // Nothing is admitted before services are known.
    let names_rule = |why: &String| why.contains("resources: [services], verbs: [list, watch]");
    let told = wait_for(DEADLINE, || stage.degradation().filter(names_rule));
    assert!(told.is_some(), "{:?}", stage.degradation());
    let request = |ip: [u8; 4]| {
        let attributes = Attributes::from([("destination.ip".to_owned(), Attribute::Bytes(ip.to_vec()))]);
        let attributes = Some(encode_alone(&attributes, Words::of_message()));
        wire::CheckRequest { attributes, ..Default::default() }
    };
    for ip in [[10, 0, 0, 1], [10, 0, 0, 2], [10, 96, 0, 1], [10, 9, 9, 9]] {
        let error = stage.client.check(&request(ip), None).unwrap_err();
        assert!(error.to_string().contains("the services of the cluster are not known yet"), "{error}");
    }
    stage.api.fail(None);
    let known = wait_for(DEADLINE, || stage.client.check(&request([10, 0, 0, 1]), None).ok());
    assert!(known.is_some(), "{}", stage.server.log());
    // The last call was no failure.
    stage.recovers();
    for (ip, wanted) in
        [([10, 0, 0, 1], 0), ([10, 96, 0, 1], 0), ([10, 0, 0, 2], 7), ([10, 96, 0, 2], 7), ([10, 9, 9, 9], 7)]
    {
        assert_eq!(code(&mut stage, ip), wanted, "{ip:?}");
    }
    // Answers that the server keeps end with the services that they were made from.
    stage.api.put(service("cart", "db", "10.96.0.3"));
    to(&mut stage, [10, 0, 0, 1], 7);
    assert_eq!(code(&mut stage, [10, 0, 0, 2]), 7, "the older service counts");
    stage.api.delete("services", "shop", "db");
    to(&mut stage, [10, 0, 0, 2], 0);
    for (ip, wanted) in [([10, 0, 0, 1], 7), ([10, 96, 0, 1], 7), ([10, 96, 0, 2], 7), ([10, 96, 0, 3], 0)] {
        assert_eq!(code(&mut stage, ip), wanted, "{ip:?}");
    }
    assert!(stage.metrics().contains("mixer_kubernetesenv_services{handler=\"cluster.istio-system\"} 1"));
}
