//! The handler against a real API server, whose kubeconfig `MIXER_TEST_KUBECONFIG` names.

use bytes::Bytes;
use http::Method;
use mixer_kube::{Access, Client};

use super::*;

async fn send(client: &Client, method: Method, path: &str, body: Json) {
    let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = Some((media, Bytes::from(body.to_string())));
    let _: Json = client.send(method, path, body).await.unwrap();
}

#[tokio::test]
async fn pods_of_a_real_api_server_are_followed() {
    let Ok(kubeconfig) = std::env::var("MIXER_TEST_KUBECONFIG") else { return };
    let client = Client::new(Access::of_file(&kubeconfig)).unwrap();
    let (pods, sets) = ("/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/replicasets");
    let secrets = "/api/v1/namespaces/default/secrets";
    for path in
        [format!("{pods}/cart-1?gracePeriodSeconds=0"), format!("{sets}/cart"), format!("{secrets}/far")]
    {
        let _: Result<Json, _> = client.send(Method::DELETE, &path, None).await;
    }
    let source =
        Source { kubeconfig: Some(kubeconfig.into()), registries: Some("default".to_owned()), most: 1 << 20 };
    let scene = Scene::new();
    let handler = scene.build_of(&source, DEADLINE).await.unwrap();
    let owner = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "0a", "controller": true}]);
    let containers = json!([{"name": "main", "image": "i", "ports": [{"containerPort": 8080}]}]);
    let pod = json!({
        "metadata": {"name": "cart-1", "labels": {"app": "cart"}, "ownerReferences": owner("ReplicaSet", "cart")},
        "spec": {"containers": containers},
    });
    send(&client, Method::POST, pods, pod).await;
    let status = json!({"status": {"phase": "Running", "podIP": "10.1.2.3", "hostIP": "10.1.0.1"}});
    send(&client, Method::PATCH, &format!("{pods}/cart-1/status"), status).await;
    let set = json!({
        "metadata": {"name": "cart", "ownerReferences": owner("Deployment", "the-cart")},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "cart"}}, "template": {
            "metadata": {"labels": {"app": "cart"}}, "spec": {"containers": containers},
        }},
    });
    send(&client, Method::POST, sets, set).await;
    let text = |field: &str| text_of(&handler, "10.1.2.3", field);
    until("the workload is known", || text("source_workload_name").as_deref() == Some("the-cart")).await;
    assert_eq!(text("source_pod_uid").as_deref(), Some("kubernetes://cart-1.default"));
    let by_ip = generate(&handler, "", [10, 1, 2, 3], 8080).unwrap();
    let container = named(by_ip).remove("destination_container_name");
    assert_eq!(container, Some(GeneratedValue::String("main".to_owned())));
    assert_eq!(handler.degradation(), None);
    // Another cluster.
    let far = KubeApi::start();
    far.put(super::pod("shop", "far", "10.9.9.9"));
    let mut of_far = secret("far", &[("far", &far.kubeconfig())]);
    of_far["metadata"]["namespace"] = "default".into();
    send(&client, Method::POST, secrets, of_far).await;
    until("its pods are known", || text_of(&handler, "10.9.9.9", "source_pod_name").is_some()).await;
    let gone: Json =
        client.send(Method::DELETE, &format!("{pods}/cart-1?gracePeriodSeconds=0"), None).await.unwrap();
    assert_eq!(gone["kind"], "Pod");
    until("the pod is gone", || text("source_pod_name").is_none()).await;
}
