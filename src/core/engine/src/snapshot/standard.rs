//! The attributes of Istio's proxies, and of its adapter for Kubernetes, that no extension sends.

use mixer_attribute::ValueType::{self, Bool, String, StringMap, Timestamp};

/// Names and types, in name order, as the manifests of Istio 1.3 declare them. The name of a verified caller, `context.reporter.principal`,
/// is none of them: where it is declared, checks depend on the caller and are not cached.
pub(super) const ISTIO: &[(&str, ValueType)] = &[
    ("api.operation", String),
    ("api.protocol", String),
    ("api.service", String),
    ("api.version", String),
    ("context.reporter.local", Bool),
    ("context.timestamp", Timestamp),
    ("destination.container.image", String),
    ("destination.container.name", String),
    ("destination.metadata", StringMap),
    ("destination.owner", String),
    ("destination.service", String),
    ("destination.serviceAccount", String),
    ("destination.user", String),
    ("origin.uid", String),
    ("origin.user", String),
    ("quota.cache_hit", Bool),
    ("request.api_key", String),
    ("request.reason", String),
    ("source.metadata", StringMap),
    ("source.owner", String),
    ("source.serviceAccount", String),
    ("source.services", String),
];
