//! What the webhook configuration should be. Pure: no file, no cluster.

use base64::Engine as _;
use serde_json::{Map, Value, json};

use mixer_config::message::Field as _;
use mixer_config::yaml;

/// The object of the files.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Desired {
    /// The webhooks of the configuration file; `None`: those of the live object.
    webhooks: Option<Vec<Value>>,
    /// `caBundle`
    ca_bundle: String,
}

/// The deployment that owns the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    name: String,
    uid: String,
}

/// What becomes of a resource that the webhook cannot be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// It is accepted: it is not known that the webhook works.
    Ignore,
    /// As the file says; otherwise it is refused.
    AsDesired,
}

impl Owner {
    pub(super) fn of_deployment(deployment: &Value) -> Option<Self> {
        let part = |name: &str| Some(deployment.get("metadata")?.get(name)?.as_str()?.to_owned());
        Some(Self { name: part("name")?, uid: part("uid")? })
    }

    fn reference(&self) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "name": self.name, "uid": self.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }
}

impl Desired {
    /// Of the text of a configuration file, if there is one, and of a root.
    ///
    /// Errors: the file has no webhooks, which would remove those of the cluster, or the root is not PEM.
    pub(super) fn read(config: Option<&String>, ca: &str) -> Result<Self, String> {
        let is_pem = ca.contains("-----BEGIN CERTIFICATE-----") && ca.contains("-----END CERTIFICATE-----");
        if !is_pem {
            return Err("the CA file is not a certificate in PEM".to_owned());
        }
        let webhooks = config.map(|text| webhooks_of(text)).transpose()?;
        let ca_bundle = base64::engine::general_purpose::STANDARD.encode(ca);
        Ok(Self { webhooks, ca_bundle })
    }

    /// The object as it should be. Of the live one, only webhooks and owners are replaced. `None`: there is none to complete.
    pub(super) fn applied(
        &self,
        live: Option<&Value>,
        name: &str,
        version: &str,
        owner: Option<Owner>,
        policy: Policy,
    ) -> Option<Value> {
        let webhooks = match &self.webhooks {
            Some(webhooks) => webhooks.clone(),
            None => live?.get("webhooks")?.as_array()?.clone(),
        };
        let mut object = live.cloned().unwrap_or_else(|| {
            json!({
                "apiVersion": format!("admissionregistration.k8s.io/{version}"),
                "kind": "ValidatingWebhookConfiguration",
                "metadata": { "name": name },
            })
        });
        let live_webhooks = live.and_then(|live| live.get("webhooks")).and_then(Value::as_array);
        let completed = webhooks.into_iter().enumerate().map(|(at, webhook)| {
            let before = live_webhooks.and_then(|live| live.get(at));
            self.completed(webhook, before, version, policy)
        });
        let completed: Vec<Value> = completed.collect();
        let members = object.as_object_mut()?;
        members.insert("webhooks".to_owned(), Value::Array(completed));
        if let (Some(owner), Some(_)) = (owner, &self.webhooks)
            && let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("ownerReferences".to_owned(), json!([owner.reference()]));
        }
        Some(object)
    }

    /// A webhook with what every one has. What the API server has filled in of the live one stays, so that nothing is written for it.
    fn completed(&self, webhook: Value, live: Option<&Value>, version: &str, policy: Policy) -> Value {
        let Value::Object(mut webhook) = webhook else { return webhook };
        let live = live.and_then(Value::as_object).filter(|live| live.get("name") == webhook.get("name"));
        for name in ["timeoutSeconds", "matchPolicy", "objectSelector"] {
            if let Some(value) = live.and_then(|live| live.get(name)) {
                webhook.entry(name).or_insert_with(|| value.clone());
            }
        }
        keep_filled_in(&mut webhook, live);
        if let Some(client) = webhook.entry("clientConfig").or_insert_with(|| json!({})).as_object_mut() {
            client.insert("caBundle".to_owned(), json!(self.ca_bundle));
        }
        webhook.entry("namespaceSelector").or_insert_with(|| json!({}));
        webhook.entry("sideEffects").or_insert_with(|| json!("None"));
        if version == "v1" {
            webhook.entry("admissionReviewVersions").or_insert_with(|| json!(["v1", "v1beta1"]));
        }
        match policy {
            Policy::Ignore => drop(webhook.insert("failurePolicy".to_owned(), json!("Ignore"))),
            // Without a file, the live one says Ignore because it was set above.
            Policy::AsDesired if self.webhooks.is_none() => {
                webhook.insert("failurePolicy".to_owned(), json!("Fail"));
            }
            Policy::AsDesired => drop(webhook.entry("failurePolicy").or_insert_with(|| json!("Fail"))),
        }
        Value::Object(webhook)
    }
}

/// Keeps the port of the service and the scope of rules, which API servers fill in.
fn keep_filled_in(webhook: &mut Map<String, Value>, live: Option<&Map<String, Value>>) {
    let Some(live) = live else { return };
    let port = live.get("clientConfig").and_then(|client| client.pointer("/service/port"));
    if let (Some(port), Some(service)) = (
        port,
        webhook
            .get_mut("clientConfig")
            .and_then(|client| client.get_mut("service"))
            .and_then(Value::as_object_mut),
    ) {
        service.entry("port").or_insert_with(|| port.clone());
    }
    let live_rules = live.get("rules").and_then(Value::as_array);
    let rules = webhook.get_mut("rules").and_then(Value::as_array_mut);
    for (rule, live) in rules.into_iter().flatten().zip(live_rules.into_iter().flatten()) {
        if let (Some(rule), Some(scope)) = (rule.as_object_mut(), live.get("scope")) {
            rule.entry("scope").or_insert_with(|| scope.clone());
        }
    }
}

fn webhooks_of(text: &str) -> Result<Vec<Value>, String> {
    let parsed = yaml::parse(text).map_err(|error| format!("the webhook configuration file: {error}"))?;
    let document = parsed.root.to_json();
    let webhooks = document.get("webhooks").and_then(Value::as_array);
    let webhooks = webhooks.filter(|webhooks| !webhooks.is_empty());
    let webhooks = webhooks.ok_or("the webhook configuration file has no webhooks")?;
    match webhooks.iter().all(Value::is_object) {
        true => Ok(webhooks.clone()),
        false => Err("the webhook configuration file has a webhook that is not a mapping".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CA: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    const CONFIG: &str = "webhooks:\n- name: pilot.validation.istio.io\n  clientConfig: {service: {name: g, namespace: n, path: /admitpilot}}\n  \
                          rules: [{apiGroups: [x], operations: [CREATE]}]\n";

    fn desired() -> Desired {
        Desired::read(Some(&CONFIG.to_owned()), CA).unwrap()
    }

    #[test]
    fn what_would_empty_the_cluster_is_refused() {
        for (config, ca) in [("", CA), ("webhooks: []", CA), ("a: [", CA), (CONFIG, ""), (CONFIG, "x")] {
            assert!(Desired::read(Some(&config.to_owned()), ca).is_err(), "{config:?} {ca:?}");
        }
    }

    #[test]
    fn a_missing_object_is_created_with_defaults() {
        let owner = Owner::of_deployment(&json!({"metadata": {"name": "d", "uid": "7"}}));
        let made = desired().applied(None, "galley", "v1", owner, Policy::AsDesired).unwrap();
        assert_eq!(made["metadata"]["name"], "galley");
        assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "7");
        let webhook = &made["webhooks"][0];
        assert_eq!(webhook["failurePolicy"], "Fail");
        assert_eq!(webhook["namespaceSelector"], json!({}));
        assert_eq!(webhook["admissionReviewVersions"], json!(["v1", "v1beta1"]));
        assert!(webhook["clientConfig"]["caBundle"].as_str().is_some_and(|bundle| !bundle.is_empty()));
        let open = desired().applied(None, "galley", "v1", None, Policy::Ignore).unwrap();
        assert_eq!(open["webhooks"][0]["failurePolicy"], "Ignore", "until it is proved to refuse");
    }

    #[test]
    fn what_is_as_it_should_be_is_not_written() {
        let mut live = desired().applied(None, "galley", "v1", None, Policy::AsDesired).unwrap();
        live["metadata"]["labels"] = json!({"a": "b"});
        live["metadata"]["resourceVersion"] = json!("12");
        live["webhooks"][0]["timeoutSeconds"] = json!(10);
        live["webhooks"][0]["clientConfig"]["service"]["port"] = json!(443);
        live["webhooks"][0]["rules"][0]["scope"] = json!("*");
        let next = desired().applied(Some(&live), "galley", "v1", None, Policy::AsDesired).unwrap();
        assert_eq!(next, live, "labels and what the API server fills in stay");
        live["webhooks"][0]["clientConfig"]["caBundle"] = json!("old");
        let next = desired().applied(Some(&live), "galley", "v1", None, Policy::AsDesired).unwrap();
        assert_ne!(next, live);
        assert_eq!(next["metadata"], live["metadata"]);
    }

    #[test]
    fn without_a_file_the_live_object_is_completed_and_never_created() {
        let patching = Desired::read(None, CA).unwrap();
        assert_eq!(patching.applied(None, "galley", "v1", None, Policy::AsDesired), None);
        let live = json!({"metadata": {"name": "galley"}, "webhooks": [{"name": "a", "failurePolicy": "Ignore", "rules": []}]});
        let next = patching.applied(Some(&live), "galley", "v1", None, Policy::AsDesired).unwrap();
        assert_eq!(next["webhooks"][0]["failurePolicy"], "Fail");
        assert_eq!(next["webhooks"][0]["rules"], json!([]));
    }
}
