//! Black-box tests of the configuration plane as a process: start and stop, the webhook, what operators see and ask.

#![cfg(test)]

#[path = "galley/admission.rs"]
mod admission;
#[path = "galley/bounds.rs"]
mod bounds;
#[path = "galley/cluster.rs"]
mod cluster;
#[path = "galley/example.rs"]
mod example;
#[path = "galley/guide.rs"]
mod guide;
#[path = "galley/legacy.rs"]
mod legacy;
#[path = "galley/operators.rs"]
mod operators;
#[path = "galley/pages.rs"]
mod pages;
#[path = "galley/policy.rs"]
mod policy;
#[path = "galley/process.rs"]
mod process;
#[path = "galley/reconciled.rs"]
mod reconciled;
#[path = "galley/registries.rs"]
mod registries;
#[path = "galley/sinks.rs"]
mod sinks;
#[path = "galley/supervision.rs"]
mod supervision;
#[path = "support/support.rs"]
mod support;
#[path = "galley/validator.rs"]
mod validator;

/// A rule of the policy engine.
const RULE: &str = "apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: close, namespace: istio-system}
spec: {match: 'true'}
";

/// A gateway.
const GATEWAY: &str = "apiVersion: networking.istio.io/v1alpha3
kind: Gateway
metadata: {name: front, namespace: shop}
spec:
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [shop.example.com]}]
";
