//! The policy of the servers that tests attack and keep under load.

use super::bag::{self, Attribute, Attributes, Words};
use super::rpc::mixer;

/// A caller whom [`POLICY`] denies.
pub(crate) const DENIED: &str = "mallory";

/// `mallory` is denied, the quota `calls` of every caller is counted, and reports are counted by `source.user`. Tests append their own
/// resources.
pub(crate) const POLICY: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    context.protocol: {valueType: STRING}
    request.time: {valueType: TIMESTAMP}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: caller, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {user: source.user | "nobody"}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: seen, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: "1", dimensions: {user: source.user | "nobody"}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: refuse, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7, message: not you}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: limit, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 1000000000, validDuration: 1s}]}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: count, namespace: istio-system}
spec:
  compiledAdapter: prometheus
  params: {metrics: [{name: seen_total, instanceName: seen.instance.istio-system, kind: COUNTER, labelNames: [user]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: denied, namespace: istio-system}
spec: {match: source.user == "mallory", actions: [{handler: refuse, instances: [caller]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: everybody, namespace: istio-system}
spec: {actions: [{handler: limit, instances: [calls]}, {handler: count, instances: [seen]}]}
"#;

/// The attributes of a call.
pub(crate) fn attributes(user: &str) -> mixer::CompressedAttributes {
    let attributes = Attributes::from([("source.user".to_owned(), Attribute::Text(user.to_owned()))]);
    bag::encode_alone(&attributes, Words::of_message())
}

/// A check without quotas.
pub(crate) fn check(user: &str) -> mixer::CheckRequest {
    mixer::CheckRequest { attributes: Some(attributes(user)), ..Default::default() }
}
