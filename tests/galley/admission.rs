//! The webhook over HTTPS.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::galley::Galley;
use crate::support::{DEADLINE, wait_for};
use crate::{GATEWAY, RULE};

/// Asks the webhook; the certificate must be this one.
pub(crate) fn review(
    galley: &Galley,
    certificate: &str,
    path: &str,
    review: &Value,
) -> Result<Value, String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let url = format!("https://localhost:{}{path}", galley.webhook);
    runtime.block_on(post(&url, certificate.as_bytes(), review))
}

/// Posts a review to a webhook with this certificate.
pub(crate) async fn post(url: &str, certificate: &[u8], review: &Value) -> Result<Value, String> {
    mixer_net::tls::install_crypto_provider();
    let root = reqwest::Certificate::from_pem(certificate).map_err(|e| e.to_string())?;
    let client = reqwest::Client::builder().tls_certs_only([root]).timeout(DEADLINE).build();
    let client = client.map_err(|e| e.to_string())?;
    let request = client.post(url).header("content-type", "application/json").body(review.to_string());
    let response = request.send().await.map_err(|e| format!("{e:?}"))?;
    let text = response.text().await.map_err(|e| e.to_string())?;
    serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))
}

pub(crate) fn object(text: &str) -> Value {
    serde_yaml::from_str(text).expect("a document")
}

pub(crate) fn create(object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": "CREATE", "namespace": object["metadata"]["namespace"],
            "kind": { "kind": object["kind"] }, "object": object,
            "resource": { "group": "", "version": "", "resource": "" },
        },
    })
}

/// Many more at once than there are connections: none is cut without an answer.
#[test]
fn each_of_many_reviews_at_once_is_answered() {
    const REVIEWS: usize = 150;
    let galley = Galley::of_files(&[("rule.yaml", RULE)], &["--enable-validation"]);
    galley.synced();
    let overrides: Vec<String> = (0..2000).map(|number| format!("entry-{number:08}")).collect();
    let handler = json!({
        "apiVersion": "config.istio.io/v1alpha2", "kind": "handler",
        "metadata": {"name": "h", "namespace": "default"},
        "spec": {"compiledAdapter": "listchecker", "params": {"blacklist": true, "overrides": overrides}},
    });
    let body = create(&handler).to_string();
    let url = format!("https://localhost:{}/admitmixer", galley.webhook);
    let root = reqwest::Certificate::from_pem(&std::fs::read(galley.path("cert.pem")).unwrap()).unwrap();
    mixer_net::tls::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answers = runtime.block_on(async {
        let mut asked = tokio::task::JoinSet::new();
        for _ in 0..REVIEWS {
            // Each has a connection of its own.
            let client = reqwest::Client::builder().tls_certs_only([root.clone()]).timeout(DEADLINE);
            let request = client.build().unwrap().post(&url).header("content-type", "application/json");
            let request = request.body(body.clone()).send();
            asked.spawn(async { request.await.map(|response| response.status().as_u16()) });
        }
        asked.join_all().await
    });
    let strange: Vec<_> = answers.iter().filter(|answer| !matches!(answer, Ok(200 | 429 | 503))).collect();
    assert!(strange.is_empty(), "{} of {REVIEWS}: {:?}", strange.len(), strange.first());
    assert!(answers.iter().any(|answer| matches!(answer, Ok(200))));
}

#[test]
fn what_is_refused_is_counted_and_shown() {
    let galley =
        Galley::of_files(&[("rule.yaml", RULE)], &["--enable-validation", "--validation-depth=deep"]);
    galley.synced();
    let log = galley.log();
    assert!(
        !log.contains("readiness turns unavailable"),
        "it is not ready before everything is published: {log}"
    );
    let certificate = std::fs::read_to_string(galley.path("cert.pem")).expect("a file");
    let ask =
        |path: &str, object: &Value| review(&galley, &certificate, path, &create(object)).expect("an answer");
    assert_eq!(ask("/admitpilot", &object(GATEWAY))["response"]["allowed"], true);
    let without_servers = object(
        "{apiVersion: networking.istio.io/v1alpha3, kind: Gateway, metadata: {name: g, namespace: n}, spec: {}}",
    );
    let refused = ask("/admitpilot", &without_servers);
    assert_eq!(refused["response"]["allowed"], false, "{refused}");
    assert_eq!(
        refused["response"]["status"]["message"],
        "configuration is invalid: gateway must have at least one server"
    );
    let broken = object(&RULE.replace("'true'", "'source.user == ('"));
    let refused = ask("/admitmixer", &broken);
    let text = refused["response"]["status"]["message"].as_str().expect("a message");
    assert!(text.starts_with("error[") && text.contains("spec.match"), "{text}");
    let shown = galley.document("/admissionj/");
    assert_eq!((&shown["passed"], &shown["failed"]), (&json!(1), &json!(2)), "{shown}");
    assert_eq!(shown["refusals"][0]["resource"], "rule istio-system/close");
    assert!(galley.metrics().contains("galley_validation_failed{"));
}

#[test]
fn a_renewed_certificate_is_served_to_new_connections() {
    let galley = Galley::of_files(&[("rule.yaml", RULE)], &["--enable-validation"]);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let request = create(&object(GATEWAY));
    assert!(review(&galley, &made.cert.pem(), "/admitpilot", &request).is_err(), "the first certificate");
    // A key that does not match yet: the old certificate stays in use.
    std::fs::write(galley.path("cert.pem"), made.cert.pem()).expect("a file");
    std::thread::sleep(Duration::from_millis(10));
    std::fs::write(galley.path("key.pem"), made.signing_key.serialize_pem()).expect("a file");
    let renewed = wait_for(DEADLINE, || review(&galley, &made.cert.pem(), "/admitpilot", &request).ok());
    assert!(renewed.is_some(), "{}", galley.log());
    assert!(galley.metrics().contains("galley_validation_cert_key_updates"));
}
