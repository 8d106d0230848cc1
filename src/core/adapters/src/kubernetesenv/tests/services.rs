//! The services of pods and of addresses, against an API server in memory.

use mixer_config::Diagnostics;

use super::*;

const RULE: &str = "`services: true` needs {apiGroups: [\"\"], resources: [services], verbs: [list, watch]} in the ClusterRole of the account";

/// Services are followed.
fn source_of(scene: &Scene) -> Source {
    Source { scope: Scope { services: true, most: 1 << 20 }, ..scene.source() }
}

fn service(namespace: &str, name: &str, app: &str, ip: &str) -> Json {
    json!({
        "kind": "Service", "metadata": {"namespace": namespace, "name": name},
        "spec": {"selector": {"app": app}, "clusterIP": ip, "clusterIPs": [ip]},
    })
}

/// Name, namespace and host of the service of the source with this identifier.
fn of(handler: &KubernetesHandler, uid: &str) -> Option<[String; 3]> {
    side(handler, "source", uid, [0; 4])
}

fn side(handler: &KubernetesHandler, side: &str, uid: &str, ip: [u8; 4]) -> Option<[String; 3]> {
    let mut named = named(generate(handler, uid, ip, 0).unwrap());
    let texts =
        ["name", "namespace", "host"].map(|field| match named.remove(&format!("{side}_service_{field}")) {
            Some(GeneratedValue::String(text)) => Some(text),
            other => other.map(|other| format!("{other:?}")),
        });
    let [Some(name), Some(namespace), Some(host)] = texts.clone() else {
        assert!(texts.iter().all(Option::is_none), "all or none: {texts:?}");
        return None;
    };
    Some([name, namespace, host])
}

fn is(handler: &KubernetesHandler, uid: &str, name: &str) -> bool {
    of(handler, uid).is_some_and(|[found, ..]| found == name)
}

#[tokio::test]
async fn the_service_of_a_pod_is_that_of_now() {
    let scene = Scene::new();
    scene.api.put(pod("shop", "cart", "10.0.0.1"));
    scene.api.put(pod("shop", "db", "10.0.0.2"));
    scene.api.put(service("shop", "cart", "cart", "10.96.0.1"));
    let handler = scene.build_of(&source_of(&scene), DEADLINE).await.unwrap();
    let cart = ["cart", "shop", "cart.shop.svc.cluster.local"].map(str::to_owned);
    assert_eq!(of(&handler, "cart.shop").as_ref(), Some(&cart));
    assert_eq!(side(&handler, "destination", "", [10, 0, 0, 1]).as_ref(), Some(&cart));
    assert_eq!(of(&handler, "db.shop"), None);
    // An older one.
    let mut all = service("shop", "all", "cart", "None");
    all["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z".into();
    scene.api.put(all);
    until("the older one counts", || is(&handler, "cart.shop", "all")).await;
    scene.api.delete("services", "shop", "all");
    until("it is gone", || is(&handler, "cart.shop", "cart")).await;
    // Other labels.
    let mut other = pod("shop", "cart", "10.0.0.1");
    other["metadata"]["labels"]["app"] = "web".into();
    scene.api.put(other);
    until("the pod belongs to no service", || of(&handler, "cart.shop").is_none()).await;
    assert_eq!(text_of(&handler, "cart.shop", "source_pod_name").as_deref(), Some("cart"));
    scene.api.put(service("shop", "cart", "web", "10.96.0.1"));
    until("it does again", || is(&handler, "cart.shop", "cart")).await;
    scene.api.delete("services", "shop", "cart");
    until("it does not", || of(&handler, "cart.shop").is_none()).await;
    let shown = handler.status().notes;
    assert!(shown[0].1.contains(": 2 pods, 0 owners, 0 services, "), "{shown:?}");
}

#[tokio::test]
async fn an_address_of_a_service_has_the_outputs_of_services_alone() {
    let scene = Scene::new();
    scene.api.put(pod("shop", "a", "10.0.0.1"));
    scene.api.put(service("shop", "cart", "cart", "10.96.0.1"));
    // A pod goes before a service.
    scene.api.put(service("shop", "odd", "odd", "10.0.0.1"));
    scene.api.put(service("shop", "nowhere", "cart", "0.0.0.0"));
    let handler = scene.build_of(&source_of(&scene), DEADLINE).await.unwrap();
    let names: Vec<String> = named(generate(&handler, "", [10, 96, 0, 1], 80).unwrap()).into_keys().collect();
    assert_eq!(
        names,
        ["destination_service_host", "destination_service_name", "destination_service_namespace"]
    );
    assert!(is(&handler, "10.96.0.1", "cart"), "an identifier may be an address");
    assert_eq!((of(&handler, "10.0.0.1"), of(&handler, "10.0.0.9")), (None, None));
    assert_eq!(generate(&handler, "", [0; 4], 0), Ok(Generated::default()));
    assert_eq!(generate(&handler, "0.0.0.0", [0; 4], 0), Ok(Generated::default()));
    // Bindings that do not read them.
    assert_eq!(generate_of(1, &handler, "", [10, 96, 0, 1], 80), Ok(Generated::default()));
}

#[tokio::test]
async fn services_are_followed_only_if_they_are_asked_for() {
    let scene = Scene::new();
    scene.api.put(pod("shop", "cart", "10.0.0.1"));
    scene.api.put(service("shop", "cart", "cart", "10.96.0.1"));
    let handler = scene.build().await;
    assert_eq!((of(&handler, "cart.shop"), of(&handler, "10.96.0.1")), (None, None));
    let asked = |request: &str| request.contains("/api/v1/services");
    until("pods are followed", || handler.degradation().is_none()).await;
    assert!(!scene.api.take_requests().iter().any(|request| asked(request)));
    let with = scene.build_of(&source_of(&scene), DEADLINE).await.unwrap();
    assert!(is(&with, "cart.shop", "cart") && of(&handler, "cart.shop").is_none());
    let requests = scene.api.take_requests();
    assert!(requests.iter().any(|request| request == "GET /api/v1/services?limit=500"), "{requests:?}");
    // As the others.
    scene.api.put(service("shop", "later", "later", "10.96.0.2"));
    until("changes are followed", || is(&with, "10.96.0.2", "later")).await;
    let watches = scene.api.take_requests();
    let is_watch = |request: &String| {
        asked(request) && request.contains("watch=1") && request.contains("allowWatchBookmarks")
    };
    assert!(requests.iter().chain(&watches).any(is_watch), "{watches:?}");
}

#[tokio::test]
async fn services_that_may_not_be_read_leave_the_pods() {
    let scene = Scene::new();
    scene.api.put(pod("shop", "cart", "10.0.0.1"));
    scene.api.put(service("shop", "cart", "cart", "10.96.0.1"));
    scene.api.fail(Some(Fault::Forbids("services")));
    let begun = Instant::now();
    let handler = scene.build_of(&source_of(&scene), DEADLINE).await.unwrap();
    assert!(begun.elapsed() < DEADLINE / 2, "waiting leads nowhere");
    let told = handler.degradation().unwrap();
    assert!(told.starts_with("services cannot be listed: 127.0.0.1:") && told.ends_with(RULE), "{told}");
    // Bindings without services.
    let pods = named(generate_of(1, &handler, "cart.shop", [0; 4], 0).unwrap());
    assert_eq!(pods["source_pod_name"], GeneratedValue::String("cart".to_owned()));
    scene.api.put(pod("shop", "late", "10.0.0.2"));
    until("pods are followed", || {
        !generate_of(1, &handler, "late.shop", [0; 4], 0).unwrap().values.is_empty()
    })
    .await;
    // Those with them: a rule could admit what it does not know.
    for (uid, ip) in [("cart.shop", [0; 4]), ("", [10, 0, 0, 1]), ("", [10, 96, 0, 1]), ("", [10, 9, 9, 9])] {
        let text = generate(&handler, uid, ip, 0).unwrap_err();
        assert!(
            text.starts_with("the services of the cluster are not known yet: services cannot be listed: "),
            "{text}"
        );
    }
    assert_eq!(generate(&handler, "nobody.shop", [0; 4], 0), Ok(Generated::default()));
    scene.api.fail(None);
    until("services are known", || generate(&handler, "cart.shop", [0; 4], 0).is_ok()).await;
    assert!(is(&handler, "cart.shop", "cart") && is(&handler, "10.96.0.1", "cart"));
    until("it works", || handler.degradation().is_none()).await;
    // Permissions that go: the last services serve.
    scene.api.fail(Some(Fault::Forbids("services")));
    until("it is told", || handler.degradation().is_some()).await;
    let told = handler.degradation().unwrap();
    assert!(told.starts_with("changes of services are not followed: ") && told.ends_with(RULE), "{told}");
    assert!(is(&handler, "cart.shop", "cart"));
}

#[tokio::test]
async fn services_without_room_make_calls_fail() {
    let scene = Scene::new();
    scene.api.put(pod("shop", "cart", "10.0.0.1"));
    scene.api.put(service("shop", "cart", "cart", "10.96.1.1"));
    let source = Source { scope: Scope { services: true, most: 8192 }, ..scene.source() };
    let handler = scene.build_of(&source, DEADLINE).await.unwrap();
    assert!(is(&handler, "cart.shop", "cart"));
    for n in 0..50 {
        scene.api.put(service("shop", &format!("s{n}"), "other", &format!("10.96.0.{n}")));
    }
    until("it is told", || handler.degradation().is_some()).await;
    assert!(handler.degradation().unwrap().contains("maxCacheMegabytes"));
    // An older one may be among those that had no room.
    for uid in ["cart.shop", "10.96.0.1", "10.9.9.9"] {
        let text = generate(&handler, uid, [0; 4], 0).unwrap_err();
        assert!(text.contains("there is no room for all its objects, see maxCacheMegabytes"), "{text}");
    }
    assert!(generate_of(1, &handler, "cart.shop", [0; 4], 0).is_ok_and(|found| !found.values.is_empty()));
}

#[tokio::test]
async fn services_of_other_clusters_are_those_of_their_pods() {
    let scene = Scene::new();
    let [east, west] = [(); 2].map(|()| KubeApi::start());
    scene.api.put(service("shop", "here", "a", "10.96.0.1"));
    east.put(pod("shop", "a", "10.0.1.1"));
    east.put(service("shop", "there", "a", "10.96.0.1"));
    east.put(service("shop", "far", "far", "10.96.0.2"));
    west.put(pod("shop", "b", "10.0.2.1"));
    west.fail(Some(Fault::Forbids("services")));
    scene.api.put(secret("one", &[("east", &east.kubeconfig()), ("west", &west.kubeconfig())]));
    let source = Source { registries: Some("istio-system".to_owned()), ..source_of(&scene) };
    let handler = scene.build_of(&source, DEADLINE).await.unwrap();
    // The pods of a cluster are not in use before its services are known, or forbidden.
    until("east is known", || {
        generate(&handler, "10.0.1.1", [0; 4], 0).is_ok_and(|found| !found.values.is_empty())
    })
    .await;
    until("its services are known", || generate(&handler, "10.0.1.1", [0; 4], 0).is_ok()).await;
    assert!(is(&handler, "10.0.1.1", "there"), "of its own cluster");
    assert!(is(&handler, "10.96.0.1", "here"), "the configured cluster goes before others");
    until("the addresses of other clusters are known", || is(&handler, "10.96.0.2", "far")).await;
    until("west is known", || generate(&handler, "10.0.2.1", [0; 4], 0).is_err()).await;
    let of_west = || {
        handler.degradation().filter(|told| told.starts_with("cluster `west`: services cannot be listed: "))
    };
    until("why is told", || of_west().is_some()).await;
    let told = of_west().unwrap();
    assert!(told.ends_with(RULE), "{told}");
    // It is left out for addresses of nobody, as a cluster that was never listed.
    assert_eq!(of(&handler, "10.9.9.9"), None);
}

#[test]
fn bindings_of_services_without_services_are_told() {
    let template = template::find("kubernetes").unwrap();
    let reading = |outputs: &[&str]| BoundInstance {
        name: "attrs.instance.istio-system".into(),
        leaves: Arc::default(),
        read_outputs: outputs.iter().map(|name| template.output_position(name).unwrap()).collect(),
        template: Arc::clone(&template),
        messages: Vec::new(),
        plan: None,
    };
    let problems = |services: bool, outputs: &[&str]| {
        let mut problems = Diagnostics::new();
        KubernetesEnv::validate(
            &Params { services, ..Params::default() },
            &[reading(outputs)],
            &mut problems,
        );
        problems.into_iter().map(|problem| problem.message.clone()).collect::<Vec<_>>()
    };
    let text =
        "services: `$out.destination_service_host` of attrs.instance.istio-system is never set without it";
    assert_eq!(problems(false, &["source_labels", "destination_service_host"]), [text]);
    assert_eq!(problems(true, &["destination_service_host"]), Vec::<String>::new());
    assert_eq!(problems(false, &["source_service_account_name", "source_labels"]), Vec::<String>::new());
}
