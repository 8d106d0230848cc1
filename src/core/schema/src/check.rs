//! What is wrong with a resource, in the words of Istio.
//!
//! [`check`] decodes the body of a resource and looks at it the way Istio's admission webhook does. The same problems are what a
//! user of `mixer validate` sees, with their positions and cures, and what the webhook answers, as [`Findings::message`].

mod authentication;
mod checker;
mod client;
mod code;
mod destination_rule;
mod envoy_filter;
mod gateway;
mod mesh;
mod rbac;
mod security;
mod service_entry;
mod sidecar;
mod text;
mod virtual_service;

pub use text::is_workload_label;

use mixer_config::{Diagnostic, FieldPath, Node};
use prost::Message;

use crate::encode::{self, Decoded};
use crate::kinds::{Body, Kind};
use crate::messages::istio::authentication::v1alpha1::Policy;
use crate::messages::istio::mesh::v1alpha1::MeshConfig;
use crate::messages::istio::mixer::v1::config::client::{
    HttpapiSpec, HttpapiSpecBinding, QuotaSpec, QuotaSpecBinding,
};
use crate::messages::istio::networking::v1alpha3::{
    DestinationRule, EnvoyFilter, Gateway, ServiceEntry, Sidecar, VirtualService,
};
use crate::messages::istio::rbac::v1alpha1::{RbacConfig, ServiceRole, ServiceRoleBinding};
use crate::messages::istio::security::v1beta1::{
    AuthorizationPolicy, PeerAuthentication, RequestAuthentication,
};
use crate::place::Place;
use checker::Checker;

/// A resource to be checked.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'s> {
    /// Its kind.
    pub kind: &'static Kind,
    /// `metadata.name`; empty if it has none.
    pub name: &'s str,
    /// `metadata.namespace`; empty if it has none.
    pub namespace: &'s str,
    /// What [`Body`] of the kind says: `spec`, or the whole document. Null if the document does not have it.
    pub body: &'s Node,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// Fields that do not decode; if there are any, nothing else was checked.
    pub undecodable: Vec<Diagnostic>,
    /// What is wrong with the fields, in the order in which Istio reports it.
    pub invalid: Vec<Diagnostic>,
    /// Fields that the message does not have; Istio ignores them.
    pub unknown: Vec<Diagnostic>,
    /// compat(1.3): whether the text is a list even if it is one problem.
    is_list: bool,
}

impl Findings {
    /// Whether Istio takes the resource.
    pub fn is_valid(&self) -> bool {
        self.undecodable.is_empty() && self.invalid.is_empty()
    }

    /// All problems, with spans in the document of the resource.
    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.undecodable.into_iter().chain(self.invalid).chain(self.unknown).collect()
    }

    /// The answer of Istio's admission webhook; `None` for a valid resource.
    pub fn message(&self) -> Option<String> {
        if let Some(first) = self.undecodable.first() {
            return Some(format!("error decoding configuration: {}", first.message));
        }
        let text = match self.invalid.as_slice() {
            [] => return None,
            [one] if !self.is_list => one.message.clone(),
            several => {
                let count = several.len();
                let noun = if count == 1 { "error" } else { "errors" };
                let lines = several.iter().map(|problem| format!("\t* {}\n", problem.message));
                format!("{count} {noun} occurred:\n{}\n", lines.collect::<String>())
            }
        };
        Some(format!("configuration is invalid: {text}"))
    }
}

/// Checks a resource. Kinds of which only the message is known are decoded.
///
/// Cost: linear in the size of the body, but for the hosts of a virtual service, which are compared with each other.
pub fn check(subject: &Subject<'_>) -> Findings {
    let decoded = encode::decode(subject.kind, subject.body);
    let mut findings = Findings { unknown: decoded.warnings(), ..Findings::default() };
    if !decoded.errors.is_empty() {
        findings.undecodable = decoded.errors.into_iter().map(encode::error).collect();
        return findings;
    }
    let mut checker = Checker::new(subject.body, &decoded.null_entries);
    check_message(subject, &decoded, &mut checker);
    (findings.invalid, findings.is_list) = (checker.problems, checker.is_list);
    findings
}

fn check_message(subject: &Subject<'_>, decoded: &Decoded, checker: &mut Checker<'_>) {
    let base = match subject.kind.body {
        Body::Spec => FieldPath::root().field("spec"),
        Body::Object => FieldPath::root(),
    };
    let body = &Place::base(&base);
    let bytes = decoded.body.as_slice();
    match subject.kind.message.rsplit('.').next().unwrap_or_default() {
        "VirtualService" => {
            with(bytes, |message: &VirtualService| virtual_service::check(message, body, checker));
        }
        "Gateway" => with(bytes, |message: &Gateway| gateway::check(message, subject, body, checker)),
        "ServiceEntry" => with(bytes, |message: &ServiceEntry| service_entry::check(message, body, checker)),
        "DestinationRule" => {
            with(bytes, |message: &DestinationRule| destination_rule::check(message, body, checker));
        }
        "EnvoyFilter" => with(bytes, |message: &EnvoyFilter| envoy_filter::check(message, body, checker)),
        "Sidecar" => with(bytes, |message: &Sidecar| sidecar::check(message, body, checker)),
        "HTTPAPISpec" => with(bytes, |message: &HttpapiSpec| client::check_api_spec(message, body, checker)),
        "HTTPAPISpecBinding" => {
            with(bytes, |message: &HttpapiSpecBinding| client::check_api_binding(message, body, checker));
        }
        "QuotaSpec" => with(bytes, |message: &QuotaSpec| client::check_quota_spec(message, body, checker)),
        "QuotaSpecBinding" => {
            with(bytes, |message: &QuotaSpecBinding| client::check_quota_binding(message, body, checker));
        }
        "Policy" => {
            with(bytes, |message: &Policy| authentication::check(message, subject, body, checker));
        }
        "ServiceRole" => with(bytes, |message: &ServiceRole| rbac::check_role(message, body, checker)),
        "ServiceRoleBinding" => {
            with(bytes, |message: &ServiceRoleBinding| rbac::check_binding(message, body, checker));
        }
        "RbacConfig" => {
            with(bytes, |message: &RbacConfig| rbac::check_config(message, subject, body, checker));
        }
        "MeshConfig" => with(bytes, |message: &MeshConfig| mesh::check(message, body, checker)),
        "AuthorizationPolicy" => with(bytes, |message: &AuthorizationPolicy| {
            security::check_authorization(message, subject, body, checker);
        }),
        "RequestAuthentication" => with(bytes, |message: &RequestAuthentication| {
            security::check_request_authentication(message, body, checker);
        }),
        "PeerAuthentication" => with(bytes, |message: &PeerAuthentication| {
            security::check_peer_authentication(message, body, checker);
        }),
        _ => {}
    }
}

/// Decodes what this crate has encoded.
fn with<M: Message + Default>(bytes: &[u8], check: impl FnOnce(&M)) {
    let decoded = M::decode(bytes);
    debug_assert!(decoded.is_ok(), "the encoder and the types have the same descriptors");
    if let Ok(message) = decoded {
        check(&message);
    }
}

#[cfg(test)]
mod tests;
