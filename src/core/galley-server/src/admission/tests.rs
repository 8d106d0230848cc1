use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::room::MAX_BODY;
use super::*;
use mixer_engine::snapshot::Registry;

fn webhook(depth: Depth) -> Arc<Admission> {
    let registry = Registry { adapters: mixer_adapters::INVENTORY, extensions: &[] };
    Admission::new(SnapshotOptions::new(registry), depth, Arc::new(|| None), Arc::new(Metrics::new()))
}

fn rule(spec: Value) -> Value {
    json!({
        "uid": "7", "operation": "CREATE", "namespace": "ns", "kind": {"kind": "rule"},
        "resource": {"group": "config.istio.io", "version": "v1alpha2", "resource": "rules"},
        "object": {
            "apiVersion": "config.istio.io/v1alpha2", "kind": "rule",
            "metadata": {"name": "r", "namespace": "ns"}, "spec": spec,
        },
    })
}

async fn review(admission: &Arc<Admission>, path: &str, review: &Value) -> Value {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(Body::from(review.to_string()))
        .unwrap();
    let response = Arc::clone(admission).routes().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[tokio::test]
async fn both_versions_of_the_review_are_answered() {
    let admission = webhook(Depth::Structural);
    let request = rule(json!({"mtch": "true"}));
    let beta =
        json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": request});
    let answer = review(&admission, "/admitmixer", &beta).await;
    assert_eq!(answer.get("apiVersion"), None);
    assert_eq!(answer["response"]["uid"], "7");
    assert_eq!(answer["response"]["allowed"], false);
    let text = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(text.starts_with("unknown field \"mtch\" in v1beta1.Rule"), "{text}");
    let v1 =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": rule(json!({}))});
    let answer = review(&admission, "/validate", &v1).await;
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["allowed"], true);
    let without = review(&admission, "/admitpilot", &json!({"kind": "AdmissionReview"})).await;
    assert_eq!(without["response"]["status"]["message"], "could not decode body: no request");
    assert_eq!((admission.tally().passed(), admission.tally().failed()), (1, 1));
    assert_eq!(
        admission.tally().refusals().first().map(|last| last.resource.clone()),
        Some("rule ns/r".to_owned())
    );
}

#[tokio::test]
async fn deep_checks_are_those_of_the_engine() {
    let broken = json!({"match": "source.user == (", "actions": [{"handler": "h", "instances": ["i"]}]});
    let request = json!({"request": rule(broken)});
    let shallow = review(&webhook(Depth::Structural), "/admitmixer", &request).await;
    assert_eq!(shallow["response"]["allowed"], true, "Galley does not look at expressions");
    let deep = review(&webhook(Depth::Deep), "/admitmixer", &request).await;
    assert_eq!(deep["response"]["allowed"], false);
    let text = deep["response"]["status"]["message"].as_str().unwrap();
    assert!(text.contains("spec.match"), "{text}");
    let reference = json!({"request": rule(json!({"actions": [{"handler": "h", "instances": ["i"]}]}))});
    let deep = review(&webhook(Depth::Deep), "/admitmixer", &reference).await;
    assert_eq!(deep["response"]["allowed"], true, "what is missing may arrive later: {deep}");
    assert!(deep["response"]["warnings"].to_string().contains("handler-unknown"), "{deep}");
    // No later arrival can mend these.
    for action in [
        json!({}),
        Value::Null,
        json!({"handler": "", "instances": ["i"]}),
        json!({"handler": " ", "instances": ["i"]}),
    ] {
        let nameless = json!({"request": rule(json!({"actions": [action]}))});
        let deep = review(&webhook(Depth::Deep), "/admitmixer", &nameless).await;
        assert_eq!(deep["response"]["allowed"], false, "{action}: {deep}");
        let text = deep["response"]["status"]["message"].as_str().unwrap();
        assert!(text.contains("error[handler-unknown]"), "{text}");
    }
}

#[tokio::test]
async fn what_is_no_review_is_refused_with_a_status() {
    let admission = webhook(Depth::Structural);
    let ask = async |kind: &str, body: Vec<u8>| {
        let request =
            Request::post("/admitpilot").header("content-type", kind).body(Body::from(body)).unwrap();
        Arc::clone(&admission).routes().oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!(ask("application/json", Vec::new()).await, 400);
    assert_eq!(ask("text/plain", b"{}".to_vec()).await, 415);
    assert_eq!(ask("application/json", vec![b' '; MAX_BODY + 1]).await, 413);
    assert_eq!(ask("application/json", b"{nope".to_vec()).await, 200);
    // 2.6 million values in 8 MB.
    let values = [
        &br#"{"request":{"operation":"CREATE","object":{"kind":"rule","spec":["#[..],
        &b"[],".repeat(2_600_000),
        b"1]}}}",
    ];
    assert_eq!(ask("application/json", values.concat()).await, 413);
}
