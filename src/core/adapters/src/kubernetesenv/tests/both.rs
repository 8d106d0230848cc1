//! The handler against the API server in memory, and against a real one: what it knows of the one, it knows of the other.

use bytes::Bytes;
use http::Method;
use mixer_kube::{Access, Client};

use super::kube_api::server::Server;
use super::*;

/// Writes to an API server.
struct Writer(Client);

const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

impl Writer {
    async fn send(&self, method: Method, path: &str, body: Json) {
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = Some((media, Bytes::from(body.to_string())));
        let _: Json = self.0.send(method, path, body).await.unwrap();
    }

    async fn delete(&self, path: &str, name: &str) -> bool {
        let path = format!("{path}/{name}?gracePeriodSeconds=0");
        self.0.send::<Json>(Method::DELETE, &path, None).await.is_ok()
    }

    /// A pod that runs.
    async fn pod(&self, name: &str, ip: &str, owners: Json) {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": name}, "ownerReferences": owners},
            "spec": {"serviceAccountName": "cart", "containers": containers()},
        });
        self.send(Method::POST, PODS, pod).await;
        let status = json!({"status": {"phase": "Running", "podIP": ip, "hostIP": "10.1.0.1"}});
        self.send(Method::PATCH, &format!("{PODS}/{name}/status"), status).await;
    }
}

fn containers() -> Json {
    json!([{"name": "main", "image": "i", "ports": [{"containerPort": 8080}]}])
}

fn owner(version: &str, kind: &str, name: &str) -> Json {
    json!([{"apiVersion": version, "kind": kind, "name": name, "uid": "0a", "controller": true}])
}

/// What makes pods of a workload. `selector`: with what its kind has around the labels.
fn template(name: &str, owners: Json, selector: Json) -> Json {
    json!({
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": {"replicas": 0, "selector": selector, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": containers()},
        }},
    })
}

async fn ask(mut server: Server) {
    let writer = Writer(Client::new(Access::of_text(server.kubeconfig())).unwrap());
    for (path, name) in [
        (PODS, "cart-1"),
        (PODS, "old-1"),
        (PODS, "db-0"),
        (PODS, "bare"),
        (PODS, "new"),
        (SETS, "cart"),
        (CONTROLLERS, "old"),
        (SECRETS, "far"),
        (SERVICES, "carts"),
        (SERVICES, "all"),
    ] {
        writer.delete(path, name).await;
    }
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(kubeconfig.path(), server.kubeconfig()).unwrap();
    let source = Source {
        kubeconfig: Some(kubeconfig.path().to_owned()),
        registries: Some("default".to_owned()),
        scope: Scope { services: true, most: 1 << 20 },
    };
    // It is not there when the handler is built.
    let scene = Scene::new();
    let wait = Duration::from_millis(200);
    let handler = server
        .without(async {
            let handler = scene.build_of(&source, wait).await.unwrap();
            let text = generate(&handler, "bare.default", [0; 4], 0).unwrap_err();
            assert!(text.starts_with("the pods of the cluster are not known yet: "), "{text}");
            assert!(handler.degradation().is_some());
            handler
        })
        .await;
    until("the pods are known", || generate(&handler, "bare.default", [0; 4], 0).is_ok()).await;
    until("it works", || handler.degradation().is_none()).await;
    // Workloads.
    writer.pod("cart-1", "10.1.2.1", owner("apps/v1", "ReplicaSet", "cart")).await;
    writer.pod("old-1", "10.1.2.2", owner("v1", "ReplicationController", "old")).await;
    writer.pod("db-0", "10.1.2.3", owner("apps/v1", "StatefulSet", "db")).await;
    writer.pod("bare", "10.1.2.4", Json::Null).await;
    let of = |ip: &str, field: &str| text_of(&handler, ip, field);
    let workload = |ip: &str| of(ip, "source_workload_name");
    let is = |ip: &str, name: &str| workload(ip).as_deref() == Some(name);
    until("the replica set is the workload", || is("10.1.2.1", "cart")).await;
    let selector = json!({"matchLabels": {"app": "cart"}});
    writer
        .send(Method::POST, SETS, template("cart", owner("apps/v1", "Deployment", "the-cart"), selector))
        .await;
    let by = owner("apps.openshift.io/v1", "DeploymentConfig", "the-old");
    writer.send(Method::POST, CONTROLLERS, template("old", by, json!({"app": "old"}))).await;
    until("the deployment is the workload", || is("10.1.2.1", "the-cart")).await;
    until("the deployment config is the workload", || is("10.1.2.2", "the-old")).await;
    until("the others are known", || is("10.1.2.3", "db") && is("10.1.2.4", "bare")).await;
    assert_eq!(
        of("10.1.2.2", "source_owner").as_deref(),
        Some("kubernetes://apis/apps.openshift.io/v1/namespaces/default/deploymentconfigs/the-old")
    );
    assert_eq!(of("10.1.2.1", "source_pod_uid").as_deref(), Some("kubernetes://cart-1.default"));
    assert_eq!(of("10.1.2.1", "source_service_account_name").as_deref(), Some("cart"));
    let mut named = named(generate(&handler, "", [10, 1, 2, 1], 8080).unwrap());
    assert_eq!(named.remove("destination_container_name"), Some(GeneratedValue::String("main".to_owned())));
    let labels = GeneratedValue::StringMap(vec![("app".to_owned(), "cart-1".to_owned())]);
    assert_eq!(named.remove("destination_labels"), Some(labels));
    assert_eq!(
        named.remove("destination_host_ip"),
        Some(GeneratedValue::IpAddress("10.1.0.1".parse().unwrap()))
    );
    // Services, one of which has an address.
    let of_service = |name: &str, selector: Json, ip: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"selector": selector, "clusterIP": ip, "ports": [{"port": 80}]},
        })
    };
    let service = |ip: &str| of(ip, "source_service_host");
    assert_eq!((service("10.1.2.1"), service("10.0.0.77")), (None, None));
    writer.send(Method::POST, SERVICES, of_service("carts", json!({"app": "cart-1"}), "10.0.0.77")).await;
    let carts = Some("carts.default.svc.cluster.local");
    until("the pod has a service", || service("10.1.2.1").as_deref() == carts).await;
    assert_eq!((service("10.0.0.77").as_deref(), service("10.1.2.3")), (carts, None));
    assert_eq!(of("10.0.0.77", "source_pod_name"), None);
    writer.send(Method::POST, SERVICES, of_service("all", json!({"app": "db-0"}), "None")).await;
    until("so has another one", || service("10.1.2.3").is_some()).await;
    let selector = json!({"spec": {"selector": {"app": "old-1"}}});
    writer.send(Method::PATCH, &format!("{SERVICES}/all"), selector).await;
    until("it has changed", || service("10.1.2.2").is_some() && service("10.1.2.3").is_none()).await;
    assert!(writer.delete(SERVICES, "all").await);
    until("it is gone", || service("10.1.2.2").is_none()).await;
    // A pod that ends gives its address back.
    let over = json!({"status": {"phase": "Succeeded"}});
    writer.send(Method::PATCH, &format!("{PODS}/bare/status"), over).await;
    writer.pod("new", "10.1.2.4", Json::Null).await;
    until("the new pod has the address", || is("10.1.2.4", "new")).await;
    // The last pods serve while it is away.
    server
        .without(async {
            // While it goes away, a list may take long, which is told first.
            let is_away = |why: String| why.contains(" are not followed: 127.0.0.1:");
            until("it is told", || handler.degradation().is_some_and(is_away)).await;
            assert!(is("10.1.2.1", "the-cart") && service("10.1.2.1").as_deref() == carts);
        })
        .await;
    let end = Instant::now() + 3 * DEADLINE;
    while !writer.delete(PODS, "cart-1").await {
        assert!(Instant::now() < end, "the pod is deleted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let end = Instant::now() + 3 * DEADLINE;
    while workload("10.1.2.1").is_some() || handler.degradation().is_some() {
        assert!(Instant::now() < end, "the change arrives: {:?}", handler.degradation());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Another cluster.
    let far = KubeApi::start();
    far.put(super::pod("shop", "far", "10.9.9.9"));
    let mut of_far = secret("far", &[("far", &far.kubeconfig())]);
    of_far["metadata"]["namespace"] = "default".into();
    writer.send(Method::POST, SECRETS, of_far).await;
    until("its pods are known", || workload("10.9.9.9").is_some()).await;
    writer.delete(SECRETS, "far").await;
    until("they are unknown again", || workload("10.9.9.9").is_none()).await;
}

#[tokio::test]
async fn pods_of_an_api_server_in_memory_or_a_real_one_are_followed() {
    ask(Server::of_environment()).await;
}
