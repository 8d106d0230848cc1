//! Admission through webhooks, in the texts of the real API server.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};

use super::asked::Asked;
use super::{Answered, Shared, WEBHOOKS, failure};

/// Posts a review to a URL whose certificate is known by a `caBundle`: the review that is answered, or why there is none.
pub(crate) type CallWebhook =
    Arc<dyn Fn(Call) -> Pin<Box<dyn Future<Output = Result<Value, String>> + Send>> + Send + Sync>;

/// A call of a webhook.
pub(crate) struct Call {
    pub(crate) url: String,
    /// Base64 of PEM.
    pub(crate) ca_bundle: String,
    pub(crate) review: Value,
}

/// Asks the webhooks that are configured for this object.
///
/// Errors: one denies it, or cannot be asked and fails closed.
pub(super) async fn review(method: &Method, asked: &Asked, body: &[u8], shared: &Shared) -> Answered<()> {
    let operation = match *method {
        Method::POST => "CREATE",
        Method::PUT | Method::PATCH => "UPDATE",
        _ => return Ok(()),
    };
    let (call, webhooks) = {
        let state = shared.state();
        let Some(call) = state.webhooks.clone() else { return Ok(()) };
        let configured = state.objects.iter().filter(|(key, _)| key.0 == WEBHOOKS);
        let webhooks: BTreeMap<String, Value> = configured
            .flat_map(|(_, object)| object["webhooks"].as_array().cloned().unwrap_or_default())
            .filter(|webhook| applies(webhook, operation, asked))
            .map(|webhook| (webhook["name"].as_str().unwrap_or_default().to_owned(), webhook))
            .collect();
        (call, webhooks)
    };
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    let (group, version) = asked.kind.2.split_once('/').unwrap_or(("", asked.kind.2));
    for (name, webhook) in webhooks {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "0d6c2a9e-6393-11e8-b7cc-42010a800002", "operation": operation, "dryRun": asked.query("dryRun") == "All",
                "kind": {"group": group, "version": version, "kind": asked.kind.0},
                "resource": {"group": group, "version": version, "resource": asked.kind.1},
                "namespace": asked.namespace, "name": object["metadata"]["name"], "object": object,
            },
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let client = &webhook["clientConfig"];
        let answered =
            call(Call { url: text(&client["url"]), ca_bundle: text(&client["caBundle"]), review }).await;
        let answer = match answered {
            Ok(answer) => answer,
            Err(_) if webhook["failurePolicy"] == "Ignore" => continue,
            Err(why) => {
                let message = format!("Internal error occurred: failed calling webhook \"{name}\": {why}");
                return Err(failure(500, "InternalError", &message).into());
            }
        };
        assert_eq!(
            (&answer["apiVersion"], &answer["kind"]),
            (&json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
        );
        let response = &answer["response"];
        assert_eq!(response["uid"], "0d6c2a9e-6393-11e8-b7cc-42010a800002", "{answer}");
        if response["allowed"] != true {
            let why = response["status"]["message"].as_str().unwrap_or_default();
            let message = format!("admission webhook \"{name}\" denied the request: {why}");
            return Err(failure(400, "", &message).into());
        }
    }
    Ok(())
}

fn applies(webhook: &Value, operation: &str, asked: &Asked) -> bool {
    let (group, version) = asked.kind.2.split_once('/').unwrap_or(("", asked.kind.2));
    let has = |rule: &Value, list: &str, name: &str| {
        rule[list].as_array().is_some_and(|all| all.iter().any(|known| known == name || known == "*"))
    };
    webhook["rules"].as_array().into_iter().flatten().any(|rule| {
        has(rule, "operations", operation)
            && has(rule, "apiGroups", group)
            && has(rule, "apiVersions", version)
            && has(rule, "resources", asked.kind.1)
    })
}
