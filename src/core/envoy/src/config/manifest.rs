//! Attributes that only Envoy's services set. Expressions can use them without a manifest.

use mixer_attribute::ValueType::{self, Bool, Int64, IpAddress, String, StringMap};

/// Names and types, in name order.
pub(crate) const BUILT_IN: &[(&str, ValueType)] = &[
    ("envoy.access_log.name", String),
    ("envoy.connection.termination_details", String),
    ("envoy.context_extensions", StringMap),
    ("envoy.custom_tags", StringMap),
    ("envoy.downstream.failure_reason", String),
    ("envoy.downstream_peer", StringMap),
    ("envoy.http.protocol", String),
    ("envoy.node.id", String),
    ("envoy.request.rewritten_path", String),
    ("envoy.response.code_details", String),
    ("envoy.route.name", String),
    ("envoy.source_cluster", String),
    ("envoy.tls.cipher_suite", Int64),
    ("envoy.tls.peer_issuer", String),
    ("envoy.tls.peer_subject", String),
    ("envoy.tls.version", String),
    ("envoy.upstream.attempts", Int64),
    ("envoy.upstream.cluster", String),
    ("envoy.upstream.failure_reason", String),
    ("envoy.upstream.ip", IpAddress),
    ("envoy.upstream.port", Int64),
    ("envoy.upstream_peer", StringMap),
    ("ratelimit.descriptor", StringMap),
    ("ratelimit.domain", String),
    ("ratelimit.key", String),
    ("request.body.partial", Bool),
    ("request.body.raw", IpAddress),
    ("request.body.text", String),
];
