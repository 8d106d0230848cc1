//! Quota calls: a check with one quota, counted in Redis.

use std::path::Path;

use anyhow::Result;
use mixer_attribute::request::{CheckCall, encode_check_request};
use mixer_attribute::{GLOBAL_WORDS, OwnedAttributes};

use super::client::Call;

/// Users, each with a window of its own.
const USERS: usize = 16;
/// A deduplication id, of which each call has another one.
pub(crate) const ID: &str = "0000000000000000";

/// Writes a configuration that grants each user more than any run asks for. `leases`: from leases of a second.
pub(crate) fn configuration(into: &Path, port: u16, leases: bool) -> Result<()> {
    let attributes = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/config/attributes.yaml");
    std::fs::copy(attributes, into.join("attributes.yaml"))?;
    let lease = if leases { ", leaseDuration: 1s" } else { "" };
    let text = format!(
        "apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: limits, namespace: istio-system}}
spec:
  compiledAdapter: redisquota
  params:
    redisServerUrl: 127.0.0.1:{port}
    quotas:
    - {{name: requests.instance.istio-system, maxAmount: 1000000000, validDuration: 600s{lease}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {{name: requests, namespace: istio-system}}
spec: {{compiledTemplate: quota, params: {{dimensions: {{user: source.user | \"nobody\"}}}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {{name: limits, namespace: istio-system}}
spec: {{actions: [{{handler: limits, instances: [requests]}}]}}
"
    );
    std::fs::write(into.join("limits.yaml"), text)?;
    Ok(())
}

/// Checks with a quota of one, of each user.
pub(crate) fn calls() -> Vec<Call> {
    let call = |user: usize| {
        let mut attributes = OwnedAttributes::new();
        attributes.insert("source.user", format!("user-{user}").as_str());
        attributes.insert("destination.service", "productpage.default.svc.cluster.local");
        attributes.insert("request.path", "/api/v1/products");
        let words = u32::try_from(GLOBAL_WORDS.len()).unwrap_or(0);
        let quotas = [("requests".to_owned(), (1, false))].into();
        let check = CheckCall { deduplication_id: ID, quotas };
        Call::quota(&encode_check_request(&attributes, words, &check))
    };
    (0..USERS).map(call).collect()
}
