//! The objects of a Kubernetes cluster as the source: in memory, or in a real API server, which `.ci/run kubernetes` starts.

use std::time::{Duration, Instant};

use base64::Engine as _;
use http::Method;
use mixer_kube::{Access, Client, Error, Resource};
use serde_json::{Value, json};

use crate::admission;
use crate::support::galley::Galley;
use crate::support::kube_api::KubeApi;
use crate::support::kube_api::admission::Call;
use crate::support::kube_api::server::Server;
use crate::support::{DEADLINE, wait_for};

/// A real API server takes its time when the machine is busy.
pub(crate) const LIMIT: Duration = DEADLINE.saturating_mul(6);
/// The namespace of the objects.
pub(crate) const NAMESPACE: &str = "default";
const JSON: &str = "application/json";
/// Of the webhook configurations of these tests.
pub(crate) const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// A kind of these tests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    kind: &'static str,
    plural: &'static str,
    group: &'static str,
    version: &'static str,
}

pub(crate) const GATEWAY: Kind =
    Kind { kind: "Gateway", plural: "gateways", group: "networking.istio.io", version: "v1alpha3" };
pub(crate) const RULE: Kind =
    Kind { kind: "rule", plural: "rules", group: "config.istio.io", version: "v1alpha2" };

impl Kind {
    fn all(self) -> String {
        let resource =
            Resource { group: self.group.into(), version: self.version.into(), plural: self.plural.into() };
        resource.path(Some(NAMESPACE))
    }

    pub(crate) fn of(self, name: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": format!("{}/{}", self.group, self.version), "kind": self.kind,
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
        })
    }

    fn definition(self) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            "spec": {
                "group": self.group, "scope": "Namespaced",
                "names": {"kind": self.kind, "plural": self.plural, "singular": self.kind.to_lowercase()},
                "versions": [{
                    "name": self.version, "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        })
    }
}

/// A gateway with this host.
pub(crate) fn gateway(name: &str, host: &str) -> Value {
    let server = json!({"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": [host]});
    GATEWAY.of(name, &json!({"servers": [server]}))
}

/// A cluster with two kinds of custom resources, and no objects of them.
pub(crate) struct Scene {
    pub(crate) cluster: Server,
    pub(crate) kube: Client,
    pub(crate) runtime: tokio::runtime::Runtime,
    directory: tempfile::TempDir,
}

impl Scene {
    /// In memory, or of a real API server.
    pub(crate) fn new() -> Self {
        Self::of(Server::of_environment())
    }

    fn of(cluster: Server) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let kube = Client::new(Access::of_text(cluster.kubeconfig())).unwrap();
        let scene = Self { cluster, kube, runtime, directory: tempfile::tempdir().unwrap() };
        std::fs::write(scene.directory.path().join("kubeconfig"), scene.cluster.kubeconfig()).unwrap();
        scene.clear_webhooks();
        if let Server::InMemory(api) = &scene.cluster {
            api.define([GATEWAY.plural, RULE.plural]);
            api.call_webhooks(|call: Call| async move {
                let root = base64::engine::general_purpose::STANDARD.decode(&call.ca_bundle);
                let root = root.map_err(|error| error.to_string())?;
                admission::post(&call.url, &root, &call.review).await
            });
            return scene;
        }
        for kind in [GATEWAY, RULE] {
            let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let _ = scene.send(Method::POST, all, Some(&kind.definition()));
            until("a kind is served", || scene.send(Method::GET, &kind.all(), None).is_ok());
            scene.send(Method::DELETE, &kind.all(), None).unwrap();
        }
        scene
    }

    /// Fails closed, so that one that is left would keep others out.
    fn clear_webhooks(&self) {
        let _ = self.send(Method::DELETE, &format!("{WEBHOOKS}/mixer-test"), None);
    }

    pub(crate) fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { JSON };
        let body = body.map(|body| (kind, body.to_string().into()));
        self.runtime.block_on(self.kube.send(method, path, body))
    }

    /// Creates an object of a kind. Errors: what the API server says.
    pub(crate) fn create(&self, kind: Kind, object: &Value) -> Result<(), String> {
        match self.send(Method::POST, &kind.all(), Some(object)) {
            Ok(_) => Ok(()),
            Err(Error::Refused { status, .. }) => Err(status.message),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) fn change(&self, kind: Kind, name: &str, patch: &Value) {
        self.send(Method::PATCH, &format!("{}/{name}", kind.all()), Some(patch)).unwrap();
    }

    pub(crate) fn delete(&self, kind: Kind, name: &str) {
        self.send(Method::DELETE, &format!("{}/{name}", kind.all()), None).unwrap();
    }

    /// The arguments with which galley reads both kinds of this cluster, and no other one.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let others = mixer_schema::kinds().iter().map(|kind| kind.kind);
        let others: Vec<&str> = others.filter(|kind| ![GATEWAY.kind, RULE.kind].contains(kind)).collect();
        let kubeconfig = self.directory.path().join("kubeconfig");
        vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--excluded-resource-kinds={}", others.join(",")),
        ]
    }

    pub(crate) fn galley(&self, more: &[&str]) -> Galley {
        let arguments = self.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let galley = Galley::of_arguments(&arguments).unwrap_or_else(|log| panic!("{log}"));
        until("it is synced", || galley.document("/statusj/")["isSynced"] == true);
        galley
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.clear_webhooks();
    }
}

#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What is published of gateways: name, and the first host.
fn published(galley: &Galley) -> Vec<(String, String)> {
    let collection = "istio/networking/v1alpha3/gateways";
    let dump = galley.document(&format!("/snapshotj/?collection={collection}"));
    let resources = dump["collections"][collection]["resources"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    resources
        .iter()
        .map(|resource| (text(&resource["name"]), text(&resource["body"]["servers"][0]["hosts"][0])))
        .collect()
}

fn has(galley: &Galley, expected: &[(&str, &str)]) -> bool {
    let name = |name: &str| format!("{NAMESPACE}/{name}");
    let expected: Vec<(String, String)> =
        expected.iter().map(|(of, host)| (name(of), (*host).to_owned())).collect();
    published(galley) == expected
}

/// The source of the cluster.
fn source(galley: &Galley) -> Value {
    let sources = galley.document("/sourcej/");
    let is_cluster =
        |source: &&Value| source["name"].as_str().is_some_and(|name| name.starts_with("kubernetes "));
    sources.as_array().into_iter().flatten().find(is_cluster).cloned().unwrap_or_default()
}

#[test]
fn the_objects_of_an_api_server_in_memory_or_a_real_one_are_followed_through_its_restart() {
    let mut scene = Scene::new();
    for name in ["a", "b", "c"] {
        scene.create(GATEWAY, &gateway(name, "one.example.com")).unwrap();
    }
    for name in ["close", "stays"] {
        scene.create(RULE, &RULE.of(name, &json!({"match": "true"}))).unwrap();
    }
    let galley = scene.galley(&[]);
    let as_istio = scene.galley(&["--config-on-error=serve-valid"]);
    let one = |name| (name, "one.example.com");
    assert!(has(&galley, &[one("a"), one("b"), one("c")]), "{:?}", published(&galley));
    let other = json!({"spec": gateway("a", "two.example.com")["spec"]});
    scene.change(GATEWAY, "a", &other);
    scene.delete(GATEWAY, "b");
    until("a change and a deletion", || has(&galley, &[("a", "two.example.com"), one("c")]));
    until("its health is shown", || source(&galley)["isConnected"] == true);
    // It is killed while it is watched, and comes back without the changes of before.
    let Scene { cluster, runtime, .. } = &mut scene;
    runtime.block_on(cluster.without(async {
        until("the outage is shown", || source(&galley)["isConnected"] == false);
        for galley in [&galley, &as_istio] {
            assert!(has(galley, &[("a", "two.example.com"), one("c")]), "what is known is kept");
        }
        assert_eq!(galley.document("/statusj/")["isSynced"], true);
    }));
    scene.create(GATEWAY, &gateway("d", "one.example.com")).unwrap();
    scene.delete(GATEWAY, "c");
    scene.delete(RULE, "close");
    until("what happened meanwhile", || has(&galley, &[("a", "two.example.com"), one("d")]));
    until("the outage is over", || source(&galley)["isConnected"] == true);
    until("the other one has it", || has(&as_istio, &[("a", "two.example.com"), one("d")]));
    for galley in [&galley, &as_istio] {
        let deleted = || {
            let events = galley.document("/eventj/");
            let deleted = events.as_array().into_iter().flatten().filter(|event| event["kind"] == "deleted");
            let mut deleted: Vec<String> =
                deleted.filter_map(|event| event["name"].as_str().map(str::to_owned)).collect();
            deleted.sort_unstable();
            deleted
        };
        // What decides is deleted a little later.
        until("the rule is deleted", || deleted().iter().any(|name| name == "default/close"));
        assert_eq!(source(galley)["starts"], 1, "the source was not restarted");
        // The server serves kinds one after the other once it is back, which deletes nothing.
        assert_eq!(deleted(), ["default/b", "default/c", "default/close"], "{}", galley.document("/eventj/"));
    }
    // The state is that of a fresh start.
    let fresh = scene.galley(&[]);
    until("the same", || galley.ask(&["snapshot", "diff", &fresh.address()]).status == 0);
    assert!(has(&fresh, &[("a", "two.example.com"), one("d")]), "{:?}", published(&fresh));
}

#[test]
fn a_cluster_that_lacks_kinds_is_an_error_unless_the_check_is_off() {
    let api = KubeApi::start();
    api.define(["gateways"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    std::fs::write(&file, api.kubeconfig()).unwrap();
    let kubeconfig = format!("--kubeconfig={}", file.display());
    let Err(log) = Galley::of_arguments(&[&kubeconfig]) else { panic!("it starts") };
    assert!(log.contains("Expected resources (CRDs) not found: ["), "{log}");
    for named in
        ["rules.config.istio.io/v1alpha2", "--excludedResourceKinds", "--disable-resource-ready-check"]
    {
        assert!(log.contains(named), "{named}: {log}");
    }
    assert!(!log.contains("gateways.networking.istio.io"), "it is there: {log}");
    let galley = Galley::of_arguments(&[&kubeconfig, "--disable-resource-ready-check"]).unwrap();
    galley.synced();
    api.put(gateway("a", "one.example.com"));
    assert!(wait_for(DEADLINE, || has(&galley, &[("a", "one.example.com")]).then_some(())).is_some());
}

#[test]
fn an_api_server_that_is_not_there_is_an_error_unless_the_check_is_off() {
    let mut api = KubeApi::start();
    api.define(["gateways"]);
    api.stop();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    std::fs::write(&file, api.kubeconfig()).unwrap();
    let kubeconfig = format!("--kubeconfig={}", file.display());
    let Err(log) = Galley::of_arguments(&[&kubeconfig]) else { panic!("it starts") };
    assert!(log.contains("cannot ask for the resources that the API server serves: "), "{log}");
    let galley = Galley::of_arguments(&[&kubeconfig, "--disable-resource-ready-check"]).unwrap();
    assert_eq!(galley.document("/statusj/")["isSynced"], false);
    api.put(gateway("a", "one.example.com"));
    api.resume();
    galley.synced();
    assert!(has(&galley, &[("a", "one.example.com")]));
}

#[test]
fn objects_are_listed_again_after_every_resync_period() {
    let scene = Scene::of(Server::InMemory(KubeApi::start()));
    let Server::InMemory(api) = &scene.cluster else { unreachable!("it is in memory") };
    api.put(gateway("a", "one.example.com"));
    let galley = scene.galley(&["--resync-period=200ms"]);
    assert!(has(&galley, &[("a", "one.example.com")]));
    // No watch tells of it.
    api.lose(gateway("a", "two.example.com"));
    assert!(wait_for(DEADLINE, || has(&galley, &[("a", "two.example.com")]).then_some(())).is_some());
}

/// A deletion may be a part of a change that follows: until it is published, nobody has it.
#[test]
fn deletions_that_wait_or_are_withheld_are_told() {
    let scene = Scene::of(Server::InMemory(KubeApi::start()));
    let rule = |name: &str, field: &str| RULE.of(name, &json!({field: "true"}));
    ["a", "b", "z"].iter().for_each(|name| scene.create(RULE, &rule(name, "match")).unwrap());
    let galley = scene.galley(&[]);
    let rules = || {
        let collection = "istio/policy/v1beta1/rules";
        let dump = galley.document(&format!("/snapshotj/?collection={collection}"));
        dump["collections"][collection]["resources"].as_array().map_or(0, Vec::len)
    };
    let pending = || galley.document("/statusj/")["groups"][0]["pendingEvents"].as_u64();
    until("everything is published", || rules() == 3 && pending() == Some(0));
    scene.delete(RULE, "a");
    until("the deletion is pending", || pending() == Some(1));
    assert_eq!(rules(), 3);
    let waited = galley.ask(&["wait", "latest", "--sinks", "0"]);
    assert_eq!((waited.status, rules()), (0, 2), "{waited:?}");
    scene.create(RULE, &rule("c", "macth")).unwrap();
    until("the error is told", || source(&galley)["held"].as_str().is_some_and(|why| why.contains("macth")));
    scene.delete(RULE, "b");
    until("the deletion is pending", || pending() == Some(1));
    let status = galley.ask(&["status"]);
    assert!(status.stdout.contains("changes are withheld"), "{}", status.stdout);
    assert!(
        status.stdout.contains("deletions are not published") && status.stdout.contains("macth"),
        "{}",
        status.stdout
    );
    assert_eq!(galley.ask(&["wait", "latest", "--sinks", "0"]).status, 1);
    scene.delete(RULE, "c");
    until("it is published", || rules() == 1 && pending() == Some(0));
}
