//! The same questions to the API server in memory, and to a real one: what one answers, the other does.
//!
//! `.ci/run kubernetes` starts a real one.

use bytes::Bytes;
use http::Method;

use super::kube_api::server::Server;
use super::*;
use crate::error::Error;
use crate::selection::Form;

const NAMESPACE: &str = "default";

fn body(value: &Value) -> Option<(&'static str, Bytes)> {
    Some(("application/json", value.to_string().into()))
}

fn set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"contract": "yes", "app": name}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u-1", "controller": true},
        ]},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    })
}

async fn ask(mut server: Server) {
    let access = Access::of_text(server.kubeconfig());
    let client = Client::new(access.clone()).unwrap();
    let all = SETS.path(Some(NAMESPACE));
    let one = |name: &str| format!("{all}/{name}");
    for name in ["a", "b", "c", "d", "e"] {
        let _: Result<Value, _> = client.send(Method::DELETE, &one(name), None).await;
    }
    for name in ["a", "b", "c"] {
        let _: Value = client.send(Method::POST, &all, body(&set(name))).await.unwrap();
    }
    // What is not there, and what is there already.
    let missing = client.get::<Value>(&one("zz"), "application/json").await.unwrap_err();
    assert!(missing.to_string().contains("HTTP status 404 (NotFound): "), "{missing}");
    let twice = client.send::<Value>(Method::POST, &all, body(&set("a"))).await.unwrap_err();
    assert!(twice.to_string().contains("HTTP status 409 (AlreadyExists): "), "{twice}");
    // Pages of one version, in the order of names.
    let selection =
        Selection::of("ReplicaSet", SETS).in_namespace(NAMESPACE).with_labels("contract=yes").metadata_only();
    let first = crate::watch::list::<PartialObject>(&client, &selection, 2, "").await.unwrap();
    let names = |page: &crate::watch::Page<PartialObject>| -> Vec<String> {
        page.items().iter().map(|object| object.metadata.name.clone()).collect()
    };
    assert_eq!(names(&first), ["a", "b"]);
    let owner = first.items()[0].metadata.owner_references.as_ref().unwrap();
    assert_eq!((&*owner[0].kind, owner[0].controller), ("Deployment", Some(true)));
    let _: Value = client.send(Method::DELETE, &one("c"), None).await.unwrap();
    let next = &first.metadata.next;
    let second = crate::watch::list::<PartialObject>(&client, &selection, 2, next).await.unwrap();
    assert_eq!(names(&second), ["c"], "the pages are of one version");
    assert_eq!(
        (&*second.metadata.next, &second.metadata.resource_version),
        ("", &first.metadata.resource_version)
    );
    let whole: Value = client.get(&selection.url(&[]), Form::Metadata.of_list()).await.unwrap();
    assert_eq!(
        (&whole["kind"], &whole["items"][0]["spec"]),
        (&json!("PartialObjectMetadataList"), &Value::Null)
    );
    // Changes since then, of what is selected.
    let lasts = Duration::from_secs(30);
    let mut watch = Watch::open(&client, &selection, &first.metadata.resource_version, lasts).await.unwrap();
    let deleted = watch.next::<PartialObject>().await.unwrap().unwrap();
    assert!(matches!(&deleted, Event::Deleted(object) if object.metadata.name == "c"), "{deleted:?}");
    let patch = async |name: &str, label: Value| {
        let body = json!({"metadata": {"labels": {"contract": label}}}).to_string();
        let body = Some(("application/merge-patch+json", body.into()));
        client.send::<Value>(Method::PATCH, &one(name), body).await.unwrap()
    };
    patch("a", Value::Null).await;
    let left = watch.next::<PartialObject>().await.unwrap().unwrap();
    assert!(matches!(&left, Event::Deleted(object) if object.metadata.name == "a"), "{left:?}");
    patch("a", "yes".into()).await;
    let back = watch.next::<PartialObject>().await.unwrap().unwrap();
    assert!(matches!(&back, Event::Applied(object) if object.metadata.name == "a"), "{back:?}");
    drop(watch);
    // What the server has forgotten.
    let all_pages = crate::watch::list::<PartialObject>(&client, &selection, 1, "").await.unwrap();
    let old = first.metadata.resource_version;
    let seen = run_for(&access, selection.clone());
    seen.has(&["default/a", "default/b"]).await;
    server.without(async { until("the outage is seen", || seen.progress.failures() > 0).await }).await;
    let end = Instant::now() + 3 * DEADLINE;
    let gone = loop {
        assert!(Instant::now() < end, "a watch of what is forgotten");
        let opened = Watch::open(&client, &selection, &old, lasts).await;
        let event = match opened {
            Ok(mut watch) => timeout_at(end, watch.next::<PartialObject>()).await.unwrap(),
            Err(error) => Err(error),
        };
        match event {
            Err(error @ Error::Refused { .. }) if error.is_gone() => break error,
            // It is being restarted.
            Err(_) => sleep(Duration::from_millis(100)).await,
            Ok(event) => panic!("{event:?}"),
        }
    };
    assert!(gone.to_string().contains("HTTP status 410 (Expired): too old resource version: "), "{gone}");
    // A reflector goes on with what happens afterwards.
    let _: Value = client.send(Method::POST, &all, body(&set("d"))).await.unwrap();
    let end = Instant::now() + 3 * DEADLINE;
    while seen.keys() != ["default/a", "default/b", "default/d"] {
        assert!(Instant::now() < end, "{:?}", seen.keys());
        sleep(Duration::from_millis(20)).await;
    }
    until("its trouble is over", || seen.progress.reached().trouble.is_none()).await;
    if let Server::InMemory(_) = server {
        let next = &all_pages.metadata.next;
        let error = crate::watch::list::<PartialObject>(&client, &selection, 1, next).await.err().unwrap();
        assert!(
            error.is_gone() && error.to_string().contains("(Expired): The provided continue parameter"),
            "{error}"
        );
    }
    // A bookmark tells of changes that are not selected, before the end of a watch that has its time.
    let list = crate::watch::list::<PartialObject>(&client, &selection, 10, "").await.unwrap();
    let version = list.metadata.resource_version;
    let mut watch = Watch::open(&client, &selection, &version, Duration::from_secs(5)).await.unwrap();
    let mut other = set("e");
    other["metadata"]["labels"]["contract"] = "no".into();
    let _: Value = client.send(Method::POST, &all, body(&other)).await.unwrap();
    let mut last = version.clone();
    while let Some(event) = watch.next::<PartialObject>().await.unwrap() {
        let Event::Bookmark(at) = event else { panic!("{event:?}") };
        last = at;
    }
    let number = |version: &str| version.parse::<u64>().unwrap();
    assert!(number(&last) > number(&version), "a bookmark before the end: {last} after {version}");
    // Who does not authenticate.
    let known = access.load().unwrap();
    let roots = known.tls.roots.as_deref().map(|roots| {
        use base64::Engine as _;
        format!(", certificate-authority-data: {}", base64::engine::general_purpose::STANDARD.encode(roots))
    });
    for (user, expected) in
        [("", "HTTP status 403 (Forbidden): "), ("token: wrong", "HTTP status 401 (Unauthorized): ")]
    {
        let text = kube_api::kubeconfig(known.server.as_str(), user);
        let text =
            text.replace("'}}]\nusers", &format!("'{}}}}}]\nusers", roots.as_deref().unwrap_or_default()));
        let stranger = Client::new(Access::of_text(text)).unwrap();
        let error = stranger.get::<Value>(&all, "application/json").await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn an_api_server_in_memory_or_a_real_one_answers() {
    ask(Server::of_environment()).await;
}
