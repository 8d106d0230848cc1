//! Services of gRPC that filters and access logs call.

use std::time::Duration;

use super::reader::{Fields, Message, Value};

static SERVICE: Message =
    Message { name: "GrpcService", unsupported: &["google_grpc", "initial_metadata", "retry_policy"] };
static ENVOY_GRPC: Message = Message {
    name: "EnvoyGrpc",
    unsupported: &["retry_policy", "max_receive_message_length", "skip_envoy_headers"],
};

/// A service in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcServiceConfig {
    /// The cluster.
    pub cluster: String,
    /// The host that calls name.
    pub authority: String,
    /// The time limit of a call, if there is one of its own; zero is no limit.
    pub timeout: Option<Duration>,
}

/// Reads the field `grpc_service`, which is required.
pub(super) fn read(holder: &Fields<'_>, message: &str) -> Option<GrpcServiceConfig> {
    let Some(value) = holder.get("grpc_service") else {
        holder.required(format!("{message}ValidationError.GrpcService: value is required"));
        return None;
    };
    let service = value.message(&SERVICE)?;
    let cluster = match service.get("envoy_grpc") {
        Some(value) => read_cluster(&value),
        None => {
            if value.node.get("google_grpc").is_none() {
                service
                    .required("GrpcServiceValidationError: field: \"target_specifier\", reason: is required");
            }
            None
        }
    };
    let timeout = service.duration("timeout");
    service.finish();
    let (cluster, authority) = cluster?;
    Some(GrpcServiceConfig { cluster, authority, timeout })
}

fn read_cluster(value: &Value<'_>) -> Option<(String, String)> {
    let envoy = value.message(&ENVOY_GRPC)?;
    let cluster = match envoy.get("cluster_name") {
        Some(name) => name.nonempty("EnvoyGrpc", "ClusterName"),
        None => {
            envoy
                .required("EnvoyGrpcValidationError.ClusterName: value length must be at least 1 characters");
            None
        }
    };
    let authority = match envoy.get("authority") {
        Some(value) => value.text().filter(|text| !text.is_empty()).and_then(|text| {
            let is_valid = text.parse::<http::uri::Authority>().is_ok();
            if !is_valid {
                value.invalid(format!("`{text}` is not a host with an optional port"));
            }
            is_valid.then(|| text.to_owned())
        }),
        None => None,
    };
    envoy.finish();
    let cluster = cluster?.to_owned();
    // Names of clusters may have characters that no authority has.
    let of_name = |byte: char| if byte.is_ascii_alphanumeric() || "-._".contains(byte) { byte } else { '-' };
    let authority = authority.unwrap_or_else(|| cluster.chars().map(of_name).collect());
    Some((cluster, authority))
}

/// Reads the field `transport_api_version`, of which Envoy takes one value only.
pub(super) fn read_version(holder: &Fields<'_>) {
    let versions = [("AUTO", 0), ("V2", 1), ("V3", 2)];
    let version = holder.get("transport_api_version");
    let number = version.as_ref().map_or(Some(0), |version| version.choice(&versions));
    if let Some(0 | 1) = number {
        let text =
            "V2 (and AUTO) xDS transport protocol versions are deprecated: transport_api_version must be V3";
        match version {
            Some(version) => version.invalid(text),
            None => holder.required(text),
        }
    }
}
