//! The objects of a Kubernetes cluster as the configuration: in memory, or in a real API server, which `.ci/run kubernetes` starts.

use std::path::Path;
use std::time::{Duration, Instant};

use http::Method;
use mixer_kube::{Access, Client as Kube, Resource};
use serde_json::{Value, json};

use crate::support::bag::{Attribute, Attributes, Words, encode_alone};
use crate::support::kube_api::server::Server as Cluster;
use crate::support::kube_api::{CRITICAL, TOKEN};
use crate::support::rpc::{Client, mixer as wire};
use crate::support::{DEADLINE, Server, ServerBuilder, http, run_mixer};

/// A real API server takes its time when the machine is busy.
const LIMIT: Duration = DEADLINE.saturating_mul(6);
const NAMESPACE: &str = "default";
const GROUP: &str = "config.istio.io";

/// A cluster with Mixer's definitions and a configuration that denies one user.
struct Scene {
    cluster: Cluster,
    kube: Kube,
    runtime: tokio::runtime::Runtime,
    directory: tempfile::TempDir,
}

/// A kind of Mixer by its name: `rules` of `rule`.
fn resource(kind: &str) -> Resource {
    Resource { group: GROUP.into(), version: "v1alpha2".into(), plural: format!("{kind}s").into() }
}

fn definition(kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{kind}s.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"kind": kind, "plural": format!("{kind}s"), "singular": kind},
            "versions": [{
                "name": "v1alpha2", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

fn body(value: &Value, kind: &'static str) -> Option<(&'static str, bytes::Bytes)> {
    Some((kind, value.to_string().into()))
}

impl Scene {
    fn new() -> Self {
        let cluster = Cluster::of_environment();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let kube = Kube::new(Access::of_text(cluster.kubeconfig())).unwrap();
        let scene = Self { cluster, kube, runtime, directory: tempfile::tempdir().unwrap() };
        scene.define();
        std::fs::write(scene.directory.path().join("kubeconfig"), scene.cluster.kubeconfig()).unwrap();
        let attributes = json!({"attributes": {"source.user": {"valueType": "STRING"}}});
        scene.put("attributemanifest", "words", &attributes);
        scene.put("handler", "no", &json!({"compiledAdapter": "denier", "params": {"status": {"code": 7}}}));
        scene.put("instance", "nothing", &json!({"compiledTemplate": "checknothing"}));
        scene.put("rule", "deny", &deny("source.user == \"eve\""));
        scene
    }

    /// The definitions, without objects.
    fn define(&self) {
        match &self.cluster {
            Cluster::InMemory(api) => api.define(CRITICAL),
            Cluster::Real { .. } => {
                let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
                for kind in CRITICAL.map(|plural| plural.strip_suffix('s').unwrap()) {
                    let _ = self.send(Method::POST, all, body(&definition(kind), "application/json"));
                    let end = Instant::now() + LIMIT;
                    while self.send(Method::GET, &resource(kind).path(Some(NAMESPACE)), None).is_err() {
                        assert!(Instant::now() < end, "{kind} is served");
                        std::thread::sleep(Duration::from_millis(100));
                    }
                    self.send(Method::DELETE, &resource(kind).path(Some(NAMESPACE)), None).unwrap();
                }
            }
        }
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, bytes::Bytes)>,
    ) -> Result<Value, mixer_kube::Error> {
        self.runtime.block_on(self.kube.send(method, path, body))
    }

    fn put(&self, kind: &str, name: &str, spec: &Value) {
        self.runtime.block_on(put(&self.kube, kind, name, spec));
    }

    fn delete(&self, kind: &str, name: &str) {
        self.send(Method::DELETE, &path(kind, name), None).unwrap();
    }

    fn get(&self, kind: &str, name: &str) -> Value {
        self.send(Method::GET, &path(kind, name), None).unwrap()
    }

    fn server(&self) -> ServerBuilder {
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        Server::on_store(&format!("k8s://{}", path("kubeconfig"))).native().with(&[
            format!("--config-default-namespace={NAMESPACE}"),
            format!("--config-cache={}", path("cache")),
            "--config-write-status".to_owned(),
        ])
    }
}

fn path(kind: &str, name: &str) -> String {
    format!("{}/{name}", resource(kind).path(Some(NAMESPACE)))
}

/// Creates an object, or replaces its specification.
async fn put(kube: &Kube, kind: &str, name: &str, spec: &Value) {
    let object = json!({
        "apiVersion": format!("{GROUP}/v1alpha2"), "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
    });
    let all = resource(kind).path(Some(NAMESPACE));
    let made: Result<Value, _> = kube.send(Method::POST, &all, body(&object, "application/json")).await;
    if made.is_err() {
        let patch = body(&json!({"spec": spec}), "application/merge-patch+json");
        let _: Value = kube.send(Method::PATCH, &path(kind, name), patch).await.unwrap();
    }
}

fn deny(condition: &str) -> Value {
    json!({"match": condition, "actions": [{"handler": "no", "instances": ["nothing"]}]})
}

/// The code of a check of this user.
fn check(server: &Server, user: &str) -> i32 {
    let bag = Attributes::from([("source.user".to_owned(), Attribute::Text(user.to_owned()))]);
    let attributes = Some(encode_alone(&bag, Words::of_message()));
    let request = wire::CheckRequest { attributes, ..Default::default() };
    // On a thread of its own: the caller may be within an event loop.
    let ask = || Client::new(&server.address()).unwrap().check(&request, None);
    let answer = std::thread::scope(|scope| scope.spawn(ask).join().unwrap());
    answer.map_or(-1, |answer| answer.precondition.unwrap().status.map_or(0, |status| status.code))
}

#[track_caller]
fn until(server: &Server, what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: {}\n{}", state(server), server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `/readyz?verbose`
fn state(server: &Server) -> Value {
    let answer = http("GET", &server.monitoring_url("/readyz?verbose"), "");
    answer.ok().and_then(|answer| serde_json::from_str(&answer.body).ok()).unwrap_or_default()
}

fn why(server: &Server, component: &str) -> String {
    state(server)["degraded"][component]["why"].as_str().unwrap_or_default().to_owned()
}

/// The condition that the server wrote: its status, and its message.
fn condition(scene: &Scene, kind: &str, name: &str) -> (String, String) {
    let object = scene.get(kind, name);
    let condition = &object["status"]["conditions"][0];
    assert!(condition.is_null() || condition["type"] == "Accepted", "{object}");
    let text = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

#[test]
fn the_objects_of_a_cluster_in_memory_or_a_real_one_decide() {
    let mut scene = Scene::new();
    let server = scene.server().start();
    assert_eq!((check(&server, "eve"), check(&server, "bob")), (7, 0), "{}", server.log());
    assert_eq!(state(&server)["available"], true);
    let store = format!("--config-store-url=k8s://{}", scene.directory.path().join("kubeconfig").display());
    let doctor = run_mixer(&["doctor", &store, "--config-default-namespace=default"]);
    assert!(doctor.stdout.contains(": 1 rule, 0 errors, "), "{}{}", doctor.stdout, doctor.stderr);
    scene.put("rule", "deny", &deny("source.user == \"bob\""));
    until(&server, "an object is changed", || (check(&server, "eve"), check(&server, "bob")) == (0, 7));
    // What has an error serves in its last good version; its name says where it is, and the object what is wrong.
    scene.put("rule", "deny", &deny("source.usr == \"ann\""));
    until(&server, "the error is told", || why(&server, "configuration").contains("deny.rule.default"));
    assert_eq!((check(&server, "bob"), check(&server, "ann")), (7, 0));
    let first = state(&server)["configuration"]["firstError"].clone();
    let file = first["file"].as_str().unwrap_or_default();
    assert!(file.starts_with("k8s://") && file.ends_with("/rules.config.istio.io/default/deny"), "{first}");
    assert!(first["line"].is_null(), "{first}");
    until(&server, "the object says so", || {
        let (status, message) = condition(&scene, "rule", "deny");
        status == "False" && message.contains("spec.match: ") && message.contains("source.usr")
    });
    assert_eq!(condition(&scene, "handler", "no").0, "", "nothing is written onto others");
    let page = http("GET", &format!("http://127.0.0.1:{}/configz/", server.ports.ctrlz), "").unwrap().body;
    for shown in ["rules.config.istio.io", "Followed for", "/rules.config.istio.io/default/deny"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    // An outage changes nothing, and what changes meanwhile takes effect after it.
    let mended = deny("source.user == \"ann\"");
    let Scene { cluster, runtime, kube, .. } = &mut scene;
    runtime.block_on(cluster.without(async {
        until(&server, "the outage is told", || !why(&server, "store").is_empty());
        assert_eq!((check(&server, "bob"), check(&server, "ann")), (7, 0));
    }));
    runtime.block_on(put(kube, "rule", "deny", &mended));
    until(&server, "it is mended", || (check(&server, "bob"), check(&server, "ann")) == (0, 7));
    until(&server, "nothing is degraded", || state(&server)["degraded"] == json!({}));
    until(&server, "the object says so", || condition(&scene, "rule", "deny").0 == "True");
    scene.delete("rule", "deny");
    until(&server, "the last rule is deleted", || check(&server, "ann") == 0);
    assert!(!server.log().contains(TOKEN));
}

#[test]
fn a_restart_without_the_api_server_in_memory_or_a_real_one_serves_the_last_good_configuration() {
    let mut scene = Scene::new();
    let mut server = scene.server().start();
    assert_eq!(check(&server, "eve"), 7);
    server.terminate().unwrap();
    assert!(Path::new(&scene.directory.path().join("cache")).is_dir());
    let builder = scene.server();
    let Scene { cluster, runtime, .. } = &mut scene;
    let server = runtime.block_on(cluster.without(async {
        let server = builder.start();
        assert_eq!((check(&server, "eve"), check(&server, "bob")), (7, 0), "{}", server.log());
        server
    }));
    scene.put("rule", "deny", &deny("source.user == \"bob\""));
    until(&server, "the API server is back", || (check(&server, "eve"), check(&server, "bob")) == (0, 7));
    until(&server, "nothing is degraded", || state(&server)["degraded"] == json!({}));
}

/// The task that follows the cluster panics: what was listed decides, and changes of that time count afterwards.
#[cfg(debug_assertions)]
#[test]
fn a_panic_of_what_follows_the_cluster_in_memory_or_a_real_one_changes_nothing() {
    let scene = Scene::new();
    let mut server = scene.server().env("MIXER_FAULTS", "1").start();
    assert_eq!((check(&server, "eve"), check(&server, "bob")), (7, 0), "{}", server.log());
    for (denied, next) in [("eve", "bob"), ("bob", "eve")] {
        crate::supervision::drill_of_a_store(&server, |server| {
            assert_eq!((check(server, denied), check(server, next)), (7, 0), "{}", server.log());
            scene.put("rule", "deny", &deny(&format!("source.user == \"{next}\"")));
        });
        until(&server, "a later change counts", || (check(&server, denied), check(&server, next)) == (0, 7));
    }
    until(&server, "nothing is degraded", || state(&server)["degraded"] == json!({}));
    server.terminate().unwrap();
}

#[test]
fn a_cluster_without_definitions_is_no_configuration() {
    let api = crate::support::kube_api::KubeApi::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    std::fs::write(&file, api.kubeconfig()).unwrap();
    let url = format!("k8s://{}", file.display());
    let builder = Server::on_store(&url).native().with(&["--config-wait-timeout=2s"]);
    let mut server = builder.spawn().unwrap();
    assert_eq!(server.exit_code().unwrap(), Some(3));
    let text = "exceeded timeout 2s: failed to discover critical kinds: [adapter attributemanifest handler instance rule template]";
    assert!(server.log().contains(text), "{}", server.log());
}
