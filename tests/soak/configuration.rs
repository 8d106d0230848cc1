//! The configuration of the soak and its requests.

use crate::support::bag::{self, Attribute, Attributes, Words};
use crate::support::rpc::mixer;

/// Beside [`POLICY`](crate::support::policy::POLICY): handlers that hang, panic, and log to a full disk.
pub(crate) const FAILING: &str = r#"
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: line, namespace: istio-system}
spec: {compiledTemplate: logentry, params: {timestamp: request.time, variables: {user: source.user}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: hang, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: HANG}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: panic, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: PANIC}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: log, namespace: istio-system}
spec: {compiledAdapter: stdio, params: {logStream: FILE, outputPath: /dev/full, outputAsJson: true}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: hang, namespace: istio-system}
spec: {match: source.user == "hang", actions: [{handler: hang, instances: [caller]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: panic, namespace: istio-system}
spec: {match: source.user == "panic", actions: [{handler: panic, instances: [caller, seen]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: logged, namespace: istio-system}
spec: {actions: [{handler: log, instances: [line]}]}
"#;

/// The resources that change every second.
pub(crate) fn changing(round: u64) -> String {
    format!(
        "
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: changing, namespace: istio-system}}
spec: {{compiledAdapter: denier, params: {{status: {{code: 7, message: round {round}}}}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {{name: changing, namespace: istio-system}}
spec: {{match: source.user == \"changed\", actions: [{{handler: changing, instances: [caller]}}]}}
"
    )
}

fn attributes(user: &str) -> mixer::CompressedAttributes {
    let time = prost_types::Timestamp { seconds: 1_500_000_000, nanos: 0 };
    let attributes = Attributes::from([
        ("source.user".to_owned(), Attribute::Text(user.to_owned())),
        ("request.time".to_owned(), Attribute::Timestamp(time)),
    ]);
    bag::encode_alone(&attributes, Words::of_message())
}

pub(crate) fn check(user: &str) -> mixer::CheckRequest {
    let quota = mixer::check_request::QuotaParams { amount: 1, best_effort: false };
    mixer::CheckRequest {
        attributes: Some(attributes(user)),
        quotas: if user == "ann" { [("calls".to_owned(), quota)].into() } else { Default::default() },
        ..Default::default()
    }
}

pub(crate) fn report(user: &str, bags: usize) -> mixer::ReportRequest {
    mixer::ReportRequest { attributes: vec![attributes(user); bags], ..Default::default() }
}
