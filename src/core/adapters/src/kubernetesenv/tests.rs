//! Tests of the handler, against an API server in memory.

#[path = "../../../../../tests/support/kube_api.rs"]
mod kube_api;

mod both;
mod services;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use mixer_attribute::{SignedDuration, Value};
use mixer_engine::adapter::{
    Adapter as _, Env, Generated, GeneratedValue, HandleGenerate as _, Handler as _, Instance, Reply,
};
use mixer_engine::template;
use serde_json::{Value as Json, json};

use super::cluster::Scope;
use super::handler::{KubernetesHandler, source};
use super::view::Source;
use super::{KubernetesEnv, Params};
use crate::AdapterOptions;
use crate::testing::{problems, test_env};
use kube_api::{Fault, KubeApi};
use mixer_engine::adapter::{BoundInstance, Leaf};

const DEADLINE: Duration = Duration::from_secs(120);

fn pod(namespace: &str, name: &str, ip: &str) -> Json {
    json!({
        "kind": "Pod", "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "status": {"podIP": ip, "phase": "Running"},
    })
}

fn owned(mut object: Json, kind: &str, name: &str) -> Json {
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": true}]);
    object
}

fn scope(most: usize) -> Scope {
    Scope { services: false, most }
}

/// A cluster, its kubeconfig, and the environment of a handler.
struct Scene {
    api: KubeApi,
    kubeconfig: tempfile::NamedTempFile,
    env: Env,
}

impl Scene {
    fn new() -> Self {
        let api = KubeApi::start();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(kubeconfig.path(), api.kubeconfig()).unwrap();
        Self { api, kubeconfig, env: test_env("h.istio-system") }
    }

    fn source(&self) -> Source {
        Source {
            kubeconfig: Some(self.kubeconfig.path().to_owned()),
            registries: None,
            scope: scope(1 << 20),
        }
    }

    async fn build_of(&self, source: &Source, wait: Duration) -> Result<KubernetesHandler, String> {
        let template = template::find("kubernetes").unwrap();
        let leaf = |field: &template::FieldInfo| {
            Leaf::new(&field.path, None, mixer_attribute::ValueType::Unspecified)
        };
        let all = BoundInstance {
            name: "attrs.instance.istio-system".into(),
            leaves: template.fields.iter().map(leaf).collect(),
            read_outputs: (0..template.output.len()).collect(),
            template,
            messages: Vec::new(),
            plan: None,
        };
        // Of pods alone.
        let of_pods = BoundInstance { read_outputs: Arc::default(), ..all.clone() };
        let wait = SignedDuration { nanos: i64::try_from(wait.as_nanos()).unwrap() };
        let built = KubernetesHandler::of(source, "cluster.local", wait, &[all, of_pods], &self.env).await;
        built.map_err(|error| error.to_string())
    }

    async fn build(&self) -> KubernetesHandler {
        self.build_of(&self.source(), DEADLINE).await.unwrap()
    }
}

/// What is generated for the source with this identifier, and the destination with this address and port.
fn generate(handler: &KubernetesHandler, uid: &str, ip: [u8; 4], port: i64) -> Result<Generated, String> {
    generate_of(0, handler, uid, ip, port)
}

/// The same of one of the instances.
fn generate_of(
    bound: usize,
    handler: &KubernetesHandler,
    uid: &str,
    ip: [u8; 4],
    port: i64,
) -> Result<Generated, String> {
    let values =
        [Some(Value::String(uid.as_bytes())), None, None, Some(Value::Bytes(&ip)), Some(Value::Int64(port))];
    match handler.generate(&Instance { bound, name: "attrs", values: &values }) {
        Reply::Ready(result) => result.map_err(|error| {
            assert!(!error.is_of_request);
            error.message
        }),
        Reply::Later(_) => panic!("it waits for nothing"),
    }
}

/// What was generated, by the name of the output.
fn named(generated: Generated) -> BTreeMap<String, GeneratedValue> {
    let template = template::find("kubernetes").unwrap();
    let values = generated.values.into_iter();
    values.map(|(at, value)| (template.output[at].name.to_string(), value)).collect()
}

/// A text of the source with this identifier.
fn text_of(handler: &KubernetesHandler, uid: &str, field: &str) -> Option<String> {
    let generated = generate(handler, uid, [0; 4], 0).unwrap();
    match named(generated).remove(field)? {
        GeneratedValue::String(text) => Some(text),
        other => Some(format!("{other:?}")),
    }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn attributes_are_those_of_the_pods_now() {
    let scene = Scene::new();
    scene.api.put(owned(pod("shop", "cart-1", "10.0.0.1"), "ReplicaSet", "cart-7f6"));
    scene.api.put(pod("shop", "db", "10.0.0.2"));
    let handler = scene.build().await;
    let workload = || text_of(&handler, "cart-1.shop", "source_workload_name").unwrap();
    assert_eq!(workload(), "cart-7f6", "the replica set is not known");
    let set = json!({"kind": "ReplicaSet", "metadata": {"namespace": "shop", "name": "cart-7f6"}});
    scene.api.put(owned(set, "Deployment", "cart"));
    until("the replica set is known", || workload() == "cart").await;
    let owner = text_of(&handler, "cart-1.shop", "source_owner").unwrap();
    assert_eq!(owner, "kubernetes://apis/apps/v1/namespaces/shop/deployments/cart");
    let both = generate(&handler, "kubernetes://cart-1.shop", [10, 0, 0, 2], 0).unwrap();
    let names = named(both);
    assert_eq!(names["destination_pod_name"], GeneratedValue::String("db".to_owned()));
    assert_eq!(names["source_pod_ip"], GeneratedValue::IpAddress("10.0.0.1".parse().unwrap()));
    let labels = GeneratedValue::StringMap(vec![("app".to_owned(), "db".to_owned())]);
    assert_eq!(names["destination_labels"], labels);
    scene.api.delete("pods", "shop", "cart-1");
    until("the pod is gone", || text_of(&handler, "cart-1.shop", "source_pod_name").is_none()).await;
    assert_eq!(generate(&handler, "", [0; 4], 0).unwrap(), Generated::default());
    // A cycle of controllers ends.
    let set = |name: &str, by: &str| {
        let set = json!({"kind": "ReplicaSet", "metadata": {"namespace": "shop", "name": name}});
        owned(set, "ReplicaSet", by)
    };
    scene.api.put(set("x", "y"));
    scene.api.put(set("y", "x"));
    scene.api.put(owned(pod("shop", "round", "10.0.0.3"), "ReplicaSet", "x"));
    until("it is known", || text_of(&handler, "round.shop", "source_pod_name").is_some()).await;
}

/// In a cluster with two families of addresses.
#[tokio::test]
async fn a_pod_is_found_by_each_of_its_addresses() {
    let scene = Scene::new();
    let of = |second: &str| {
        let mut both = pod("shop", "both", "10.0.0.1");
        both["status"]["podIPs"] = json!([{"ip": "10.0.0.1"}, {"ip": second}]);
        both
    };
    scene.api.put(of("fd00::1"));
    let handler = scene.build().await;
    let name = |ip: &str| text_of(&handler, ip, "source_pod_name");
    assert_eq!((name("10.0.0.1").as_deref(), name("fd00::1").as_deref()), (Some("both"), Some("both")));
    let first = named(generate(&handler, "fd00::1", [0; 4], 0).unwrap())["source_pod_ip"].clone();
    assert_eq!(first, GeneratedValue::IpAddress("10.0.0.1".parse().unwrap()));
    scene.api.put(of("fd00::2"));
    until("its address has changed", || name("fd00::2").is_some()).await;
    assert_eq!((name("10.0.0.1").as_deref(), name("fd00::1")), (Some("both"), None));
}

#[tokio::test]
async fn calls_fail_until_the_pods_are_known() {
    let mut scene = Scene::new();
    scene.api.put(pod("shop", "a", "10.0.0.1"));
    scene.api.fail(Some(Fault::Forbids("pods")));
    let handler = scene.build_of(&scene.source(), Duration::from_millis(200)).await.unwrap();
    let text = generate(&handler, "a.shop", [0; 4], 0).unwrap_err();
    assert!(
        text.starts_with("the pods of the cluster are not known yet: pods cannot be listed: 127.0.0.1:"),
        "{text}"
    );
    assert!(text.contains("HTTP status 403 (Forbidden): pods is forbidden"), "{text}");
    assert_eq!(generate(&handler, "", [0; 4], 0), Ok(Generated::default()), "nothing is looked for");
    assert!(handler.degradation().unwrap().starts_with("pods cannot be listed: "));
    assert_eq!(handler.status().trouble, handler.degradation());
    scene.api.fail(None);
    until("the pods are known", || generate(&handler, "a.shop", [0; 4], 0).is_ok()).await;
    assert_eq!(text_of(&handler, "a.shop", "source_pod_name").as_deref(), Some("a"));
    until("it works", || handler.degradation().is_none()).await;
    // As in Istio Mixer, there is no handler.
    scene.env = test_env("h.istio-system");
    scene.env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
    scene.api.fail(Some(Fault::Answers(500)));
    let refused = scene.build_of(&scene.source(), Duration::from_millis(50)).await.err().unwrap();
    assert!(refused.starts_with("could not create new cache controller: cache sync failure: "), "{refused}");
}

#[tokio::test]
async fn the_last_pods_serve_while_the_api_server_is_away() {
    let mut scene = Scene::new();
    scene.api.put(pod("shop", "a", "10.0.0.1"));
    let handler = scene.build().await;
    scene.api.stop();
    until("it is told", || handler.degradation().is_some()).await;
    let why = handler.degradation().unwrap();
    assert!(why.starts_with("changes of ") && why.contains(" are not followed: 127.0.0.1:"), "{why}");
    assert_eq!(text_of(&handler, "a.shop", "source_pod_name").as_deref(), Some("a"));
    scene.api.delete("pods", "shop", "a");
    scene.api.put(pod("shop", "b", "10.0.0.1"));
    scene.api.compact();
    scene.api.resume();
    until("the change arrives", || text_of(&handler, "10.0.0.1", "source_pod_name").as_deref() == Some("b"))
        .await;
    until("it works", || handler.degradation().is_none()).await;
    let shown = handler.status().notes;
    assert!(shown.len() == 1 && shown[0].1.contains(": 1 pods, 0 owners, "), "{shown:?}");
}

#[tokio::test]
async fn a_pod_that_has_no_room_makes_calls_fail() {
    let scene = Scene::new();
    for n in 0..50 {
        scene.api.put(pod("shop", &format!("p{n}"), &format!("10.0.0.{n}")));
    }
    let handler = scene.build_of(&Source { scope: scope(4096), ..scene.source() }, DEADLINE).await.unwrap();
    assert_eq!(text_of(&handler, "p0.shop", "source_pod_name").as_deref(), Some("p0"));
    let text = generate(&handler, "p9.shop", [0; 4], 0).unwrap_err();
    assert!(text.contains("there is no room for all its objects, see maxCacheMegabytes"), "{text}");
    assert!(handler.degradation().unwrap().contains("maxCacheMegabytes"));
}

fn secret(name: &str, clusters: &[(&str, &str)]) -> Json {
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let data: serde_json::Map<_, _> =
        clusters.iter().map(|(id, text)| ((*id).to_owned(), encode(text).into())).collect();
    json!({
        "kind": "Secret", "data": data,
        "metadata": {"namespace": "istio-system", "name": name, "labels": {"istio/multiCluster": "true"}},
    })
}

#[tokio::test]
async fn clusters_of_secrets_are_followed_as_long_as_they_are_there() {
    let scene = Scene::new();
    let [east, west, moved] = [(); 3].map(|()| KubeApi::start());
    scene.api.put(pod("shop", "local", "10.0.0.1"));
    east.put(pod("shop", "east", "10.0.0.1"));
    east.put(pod("shop", "both", "10.0.0.2"));
    west.put(pod("shop", "west", "10.0.0.3"));
    west.put(pod("data", "both", "10.0.0.2"));
    moved.put(pod("shop", "moved", "10.0.0.3"));
    scene.api.put(secret("one", &[("west", &west.kubeconfig()), ("east", &east.kubeconfig())]));
    let source = Source { registries: Some("istio-system".to_owned()), ..scene.source() };
    let handler = scene.build_of(&source, DEADLINE).await.unwrap();
    let at = |ip: &str| text_of(&handler, ip, "source_pod_uid");
    let is = |ip: &str, uid: Option<&str>| at(ip).as_deref() == uid;
    until("both are known", || is("10.0.0.2", Some("kubernetes://both.shop")) && at("10.0.0.3").is_some())
        .await;
    assert!(is("10.0.0.1", Some("kubernetes://local.shop")), "the configured cluster goes before others");
    assert_eq!(handler.status().notes.len(), 3);
    // Another kubeconfig: what the one before it led to serves until then.
    scene.api.put(secret("one", &[("west", &moved.kubeconfig()), ("east", &east.kubeconfig())]));
    until("it has moved", || {
        let uid = at("10.0.0.3");
        assert!(uid.is_some(), "there is always one");
        uid.as_deref() == Some("kubernetes://moved.shop")
    })
    .await;
    // A mistake changes nothing, and is told.
    scene.api.put(secret("one", &[("west", "token: hunter2"), ("east", &east.kubeconfig()), ("z", "")]));
    scene.api.put(secret("two", &[("east", &west.kubeconfig())]));
    until("the mistakes are told", || handler.degradation().is_some()).await;
    let why = handler.degradation().unwrap();
    assert!(why.contains("cluster `") && !why.contains("hunter2"), "{why}");
    assert!(
        is("10.0.0.3", Some("kubernetes://moved.shop")) && is("10.0.0.2", Some("kubernetes://both.shop"))
    );
    scene.api.delete("secrets", "istio-system", "two");
    scene.api.put(secret("one", &[("east", &east.kubeconfig())]));
    until("it is gone", || at("10.0.0.3").is_none()).await;
    until("all is well", || handler.degradation().is_none()).await;
    scene.api.delete("secrets", "istio-system", "one");
    until("all are gone", || at("10.0.0.2").is_none()).await;
}

#[tokio::test]
async fn secrets_that_may_not_be_read_are_told() {
    let scene = Scene::new();
    scene.api.put(pod("shop", "a", "10.0.0.1"));
    scene.api.fail(Some(Fault::Forbids("secrets")));
    let source = Source { registries: Some("istio-system".to_owned()), ..scene.source() };
    let handler = scene.build_of(&source, DEADLINE).await.unwrap();
    assert_eq!(text_of(&handler, "a.shop", "source_pod_name").as_deref(), Some("a"));
    until("it is told", || handler.degradation().is_some_and(|why| why.contains("secrets is forbidden")))
        .await;
    assert!(
        handler
            .degradation()
            .unwrap()
            .starts_with("other clusters may be missing: secrets cannot be listed: ")
    );
}

#[tokio::test]
async fn handlers_with_the_same_parameters_share_a_view() {
    let scene = Scene::new();
    scene.api.put(pod("shop", "a", "10.0.0.1"));
    let lists =
        || scene.api.take_requests().iter().filter(|request| request.contains("/pods?limit=")).count();
    let first = scene.build().await;
    assert_eq!(lists(), 1);
    let second = scene.build().await;
    drop(first);
    scene.api.put(pod("shop", "b", "10.0.0.2"));
    until("it is followed", || text_of(&second, "b.shop", "source_pod_name").is_some()).await;
    assert_eq!(lists(), 0);
    drop(second);
    let third = scene.build().await;
    assert_eq!(lists(), 1, "nobody had it");
    let other = scene.build_of(&Source { scope: scope(2 << 20), ..scene.source() }, DEADLINE).await.unwrap();
    assert_eq!(lists(), 1);
    drop((third, other));
}

#[tokio::test]
async fn without_a_cluster_there_is_no_handler() {
    let scene = Scene::new();
    let absent = Source { kubeconfig: Some("/none/such".into()), ..scene.source() };
    let text = scene.build_of(&absent, DEADLINE).await.err().unwrap();
    let expected =
        "could not build kubernetes client: could not retrieve kubeconfig: cannot read `/none/such`: ";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn the_environment_names_the_cluster() {
    let of = |params: Params, variables: &[(&str, &str)]| {
        let value = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let Source { kubeconfig, registries, .. } = source(&params, value);
        (kubeconfig.map(|path| path.display().to_string()), registries)
    };
    let text = |text: &str| Some(text.to_owned());
    let file = || Params { kubeconfig_path: "/a".to_owned(), ..Params::default() };
    assert_eq!(of(Params::default(), &[]), (None, text("istio-system")));
    assert_eq!(of(file(), &[("POD_NAMESPACE", "mesh")]), (text("/a"), text("mesh")));
    assert_eq!(of(file(), &[("KUBECONFIG", "/b")]).0, text("/b"));
    assert_eq!(of(file(), &[("KUBECONFIG", "")]).0, None, "compat(1.3)");
    let named = Params { cluster_registries_namespace: "x".to_owned(), ..Params::default() };
    assert_eq!(of(named, &[("POD_NAMESPACE", "mesh")]).1, text("x"));
    assert_eq!(of(Params { remote_clusters: false, ..Params::default() }, &[]).1, None);
}

#[test]
fn parameters_are_checked() {
    assert_eq!(problems::<KubernetesEnv>(&Params::default()), Vec::<String>::new());
    let wait = |seconds| Params { sync_timeout: SignedDuration::from_secs(seconds), ..Params::default() };
    for seconds in [0, -1, 61] {
        let found = problems::<KubernetesEnv>(&wait(seconds));
        assert!(found[0].starts_with("syncTimeout: must be above 0 and at most 1m0s, it is "), "{found:?}");
    }
    let none = Params { max_cache_megabytes: 0, ..Params::default() };
    assert_eq!(problems::<KubernetesEnv>(&none), ["maxCacheMegabytes: must be above 0"]);
    for domain in ["", ".", "a..b", "cluster.local.", "Cluster.local", "-a", "a_b", &"a.".repeat(150)] {
        let of_domain = Params { cluster_domain: domain.to_owned(), ..Params::default() };
        let text = format!("clusterDomain: `{domain}` is no domain");
        assert_eq!(problems::<KubernetesEnv>(&of_domain), [text]);
    }
    for domain in ["k8s", "c-1.example.org"] {
        let of_domain = Params { cluster_domain: domain.to_owned(), ..Params::default() };
        assert_eq!(problems::<KubernetesEnv>(&of_domain), Vec::<String>::new());
    }
    let relative = Params { kubeconfig_path: "config".to_owned(), ..Params::default() };
    assert!(problems::<KubernetesEnv>(&relative)[0].contains("depends on the directory"));
    assert_eq!(KubernetesEnv::INFO.templates, ["kubernetes"]);
}
