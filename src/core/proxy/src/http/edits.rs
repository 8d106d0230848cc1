//! What a connection manager changes in heads: hop-by-hop headers, headers that Envoy adds, and edits of the configuration.

use std::net::IpAddr;

use super::HttpManager;
use crate::bootstrap::{Addition, AdditionMode, Edits};
use crate::connection_info::ConnectionInfo;
use crate::head::Head;
use crate::uuid;

/// Headers of Envoy's that only requests from inside may carry.
const INTERNAL: [&str; 17] = [
    "x-envoy-internal",
    "x-envoy-retriable-status-codes",
    "x-envoy-retriable-header-names",
    "x-envoy-retry-on",
    "x-envoy-retry-grpc-on",
    "x-envoy-max-retries",
    "x-envoy-upstream-alt-stat-name",
    "x-envoy-upstream-rq-timeout-ms",
    "x-envoy-upstream-rq-per-try-timeout-ms",
    "x-envoy-upstream-rq-timeout-alt-response",
    "x-envoy-expected-rq-timeout-ms",
    "x-envoy-force-trace",
    "x-envoy-ip-tags",
    "x-envoy-original-url",
    "x-envoy-hedge-on-per-try-timeout",
    "x-envoy-decorator-operation",
    "x-envoy-is-timeout-retry",
];

/// Removes the headers that concern one connection. Those that `connection` names are among them.
pub(super) fn remove_hop_by_hop(head: &mut Head) {
    let named = head.get("connection").is_some_and(|value| {
        let mut tokens = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        tokens
            .any(|token| !token.eq_ignore_ascii_case(b"close") && !token.eq_ignore_ascii_case(b"keep-alive"))
    });
    if named {
        let value = head.get("connection").unwrap_or_default().to_ascii_lowercase();
        for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            // Framing and the host are not a matter of a connection, whatever it says.
            if !matches!(token, b"" | b"content-length" | b"host") {
                head.remove(token);
            }
        }
    }
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        head.remove(name.as_bytes());
    }
}

/// Prepares a request before a route is chosen.
pub(super) fn prepare_request(head: &mut Head, manager: &HttpManager, info: &ConnectionInfo) {
    let remote = info.remote.ip();
    let scheme: &[u8] = if info.tls.is_some() { b"https" } else { b"http" };
    head.set_scheme_if_none(scheme);
    remove_hop_by_hop(head);
    head.remove(b"host");
    head.remove(b"expect");
    if head.get("te").is_some_and(|te| !te.eq_ignore_ascii_case(b"trailers")) {
        head.remove(b"te");
    }
    for name in INTERNAL {
        head.remove(name.as_bytes());
    }
    // What it says of clients of another proxy is not known to be true.
    head.remove(b"x-forwarded-client-cert");
    if manager.use_remote_address {
        head.append("x-forwarded-for", remote.to_string().as_bytes());
        head.set("x-forwarded-proto", scheme);
        head.remove(b"x-envoy-external-address");
        if !is_internal(remote) {
            head.set("x-envoy-external-address", remote.to_string().as_bytes());
        }
    } else if head.get("x-forwarded-proto").is_none_or(|said| !matches!(said, b"http" | b"https")) {
        head.set("x-forwarded-proto", scheme);
    }
    let is_edge = manager.use_remote_address && !is_internal(remote);
    if manager.generate_request_id
        && ((is_edge && !manager.preserve_external_request_id) || head.get("x-request-id").is_none())
    {
        head.set("x-request-id", &uuid::random());
    }
}

/// Addresses inside: loopback and private ones.
fn is_internal(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local(),
    }
}

/// Applies edits of requests: those of the route first, of the table last.
pub(super) fn edit_request(head: &mut Head, levels: [&Edits; 3]) {
    for edits in levels {
        for name in &edits.remove_request {
            head.remove(name.as_bytes());
        }
        edits.add_request.iter().for_each(|addition| add(head, addition));
    }
}

/// Applies edits of responses.
pub(super) fn edit_response(head: &mut Head, levels: [&Edits; 3]) {
    for edits in levels {
        for name in &edits.remove_response {
            head.remove(name.as_bytes());
        }
        edits.add_response.iter().for_each(|addition| add(head, addition));
    }
}

fn add(head: &mut Head, addition: &Addition) {
    let is_there = head.get(&addition.name).is_some();
    match addition.mode {
        AdditionMode::AddIfAbsent if is_there => {}
        AdditionMode::OverwriteIfExists if !is_there => {}
        AdditionMode::Append | AdditionMode::AddIfAbsent => {
            head.add(&addition.name, addition.value.as_bytes())
        }
        AdditionMode::Overwrite | AdditionMode::OverwriteIfExists => {
            head.set(&addition.name, addition.value.as_bytes())
        }
    }
}
