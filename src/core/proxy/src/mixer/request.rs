//! Attributes of HTTP requests and their responses.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use mixer_attribute::{OwnedAttributes, OwnedValue, SignedDuration, Timestamp};

use super::bounds::{Excess, MAX_BYTES, MAX_PARAMETERS};
use super::peer::Peer;
use super::{api, forwarded};
use crate::flags::Flags;
use crate::head::{self, Head};

/// Headers that are reported with their last values, because the proxy may set them after the check.
const TRACING: [&str; 4] = ["x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled"];
/// Content types of gRPC.
const GRPC: [&[u8]; 3] = [b"application/grpc", b"application/grpc+proto", b"application/grpc+json"];

/// What is known of a request at its end.
#[derive(Debug)]
pub(crate) struct Summary<'s> {
    pub(crate) request: &'s Head,
    pub(crate) response: &'s Head,
    /// 0 without a response.
    pub(crate) status: u16,
    pub(crate) flags: Flags,
    /// Bytes of the bodies.
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) upstream: Option<SocketAddr>,
    pub(crate) duration: Duration,
}

/// The current time.
pub(super) fn now() -> OwnedValue {
    OwnedValue::Timestamp(Timestamp::from_system_time(SystemTime::now()))
}

/// 4 or 16 bytes.
pub(super) fn address(address: IpAddr) -> OwnedValue {
    OwnedValue::from(address.to_canonical())
}

fn text(bytes: &[u8]) -> OwnedValue {
    OwnedValue::String(bytes.to_vec())
}

fn size(bytes: u64) -> OwnedValue {
    OwnedValue::Int64(i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// Pseudo headers and headers. Those that are repeated arrive as one, as `mixer server` has them of Envoy: a client could put the value that
/// a policy wants behind the one that a host reads.
fn headers(head: &Head) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pseudo = [":method", ":path", ":authority", ":scheme"];
    let pseudo = pseudo.into_iter().filter_map(|name| Some((name.as_bytes(), head.pseudo_or_field(name)?)));
    let all = pseudo.chain(head.fields()).filter(|(name, _)| *name != forwarded::HEADER.as_bytes());
    let mut map = BTreeMap::<Vec<u8>, Vec<u8>>::new();
    for (name, value) in all {
        match map.get_mut(name) {
            Some(joined) => {
                joined.extend_from_slice(head::separator(name));
                joined.extend_from_slice(value);
            }
            None => {
                map.insert(name.to_vec(), value.to_vec());
            }
        }
    }
    map
}

/// The bytes of names and values.
pub(super) fn head_bytes(head: &Head) -> u64 {
    let pseudo = [":method", ":path", ":authority", ":scheme"];
    let pseudo = pseudo.into_iter().filter_map(|name| Some(name.len() + head.pseudo_or_field(name)?.len()));
    let fields = head.fields().map(|(name, value)| name.len() + value.len());
    u64::try_from(pseudo.chain(fields).sum::<usize>()).unwrap_or(u64::MAX)
}

/// Adds what a check is told of a request, and returns what is too much of it, which is left out. Spec: proxy.md, "Attributes sent".
pub(super) fn extract(head: &Head, peer: &Peer, into: &mut OwnedAttributes) -> Option<Excess> {
    let mut excess = None;
    if head_bytes(head) > u64::try_from(MAX_BYTES).unwrap_or(u64::MAX) {
        excess = Some(Excess::Bytes);
    } else {
        into.insert("request.headers", OwnedValue::StringMap(headers(head)));
    }
    into.insert("request.host", text(head.authority()));
    into.insert("request.method", text(head.method()));
    into.insert("request.path", text(head.path()));
    into.insert("request.url_path", text(head.path_without_query()));
    let mut parameters = BTreeMap::new();
    if api::query(head.path()).nth(MAX_PARAMETERS).is_some() {
        excess = Some(Excess::Parameters);
    } else {
        for (name, value) in api::query(head.path()) {
            parameters.entry(name.to_vec()).or_insert_with(|| value.to_vec());
        }
    }
    if !parameters.is_empty() {
        into.insert("request.query_params", OwnedValue::StringMap(parameters));
    }
    into.insert("request.scheme", text(head.pseudo_or_field(":scheme").unwrap_or(b"http")));
    for (name, header) in [("request.referer", "referer"), ("request.useragent", "user-agent")] {
        if let Some(value) = head.joined(header) {
            into.insert(name, OwnedValue::String(value));
        }
    }
    into.insert("request.time", now());
    peer.extract(into);
    let kind = head.get("content-type").unwrap_or_default();
    into.insert("context.protocol", if GRPC.contains(&kind) { "grpc" } else { "http" });
    excess
}

/// Adds what a report is told besides.
pub(super) fn complete(summary: &Summary<'_>, request_head: u64, into: &mut OwnedAttributes) {
    if let Some(OwnedValue::StringMap(map)) = into.get("request.headers") {
        let last = |name: &str| Some((name.as_bytes().to_vec(), summary.request.get(name)?.to_vec()));
        let last: Vec<_> = TRACING.into_iter().filter_map(last).collect();
        if !last.is_empty() {
            let mut map = map.clone();
            map.extend(last);
            into.insert("request.headers", OwnedValue::StringMap(map));
        }
    }
    if let Some(upstream) = summary.upstream {
        if into.get("destination.ip").is_none() {
            into.insert("destination.ip", address(upstream.ip()));
        }
        if into.get("destination.port").is_none() {
            into.insert("destination.port", i64::from(upstream.port()));
        }
    }
    if summary.status > 0 {
        let mut all = headers(summary.response);
        all.insert(b":status".to_vec(), summary.status.to_string().into_bytes());
        into.insert("response.headers", OwnedValue::StringMap(all));
    }
    into.insert("response.time", now());
    into.insert("request.size", size(summary.received));
    into.insert("response.size", size(summary.sent));
    into.insert("request.total_size", size(summary.received.saturating_add(request_head)));
    let response_head = if summary.status > 0 { summary.response.size() + 10 } else { 0 };
    into.insert("response.total_size", size(summary.sent.saturating_add(response_head)));
    let nanos = i64::try_from(summary.duration.as_nanos()).unwrap_or(i64::MAX);
    into.insert("response.duration", SignedDuration { nanos });
    into.insert("response.code", i64::from(if summary.status == 0 { 500 } else { summary.status }));
    for (name, header) in [("response.grpc_status", "grpc-status"), ("response.grpc_message", "grpc-message")]
    {
        if summary.status > 0
            && let Some(value) = summary.response.get(header)
        {
            into.insert(name, text(value));
        }
    }
    let mut flags = Vec::new();
    summary.flags.write(&mut flags);
    into.insert("context.proxy_error_code", OwnedValue::String(flags));
}
