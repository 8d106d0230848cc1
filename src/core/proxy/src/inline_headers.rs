//! Headers of which Envoy 1.40 keeps one: several are made one, with commas, whoever adds them. Routes, policies, logs, hosts and clients see that.

use crate::head::Head;

/// Of requests.
const OF_REQUESTS: [&str; 46] = [
    "accept",
    "accept-encoding",
    "access-control-request-headers",
    "access-control-request-method",
    "access-control-request-private-network",
    "authorization",
    "cache-control",
    "cdn-loop",
    "content-encoding",
    "content-type",
    "expect",
    "grpc-accept-encoding",
    "grpc-timeout",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "origin",
    "pragma",
    "proxy-status",
    "referer",
    "user-agent",
    "via",
    "x-client-trace-id",
    "x-envoy-attempt-count",
    "x-envoy-decorator-operation",
    "x-envoy-downstream-service-cluster",
    "x-envoy-downstream-service-node",
    "x-envoy-expected-rq-timeout-ms",
    "x-envoy-external-address",
    "x-envoy-force-trace",
    "x-envoy-internal",
    "x-envoy-ip-tags",
    "x-envoy-is-timeout-retry",
    "x-envoy-original-host",
    "x-envoy-original-path",
    "x-envoy-original-url",
    "x-envoy-upstream-alt-stat-name",
    "x-envoy-upstream-rq-timeout-ms",
    "x-forwarded-client-cert",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-request-id",
];

/// Of responses.
const OF_RESPONSES: [&str; 30] = [
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-allow-private-network",
    "access-control-expose-headers",
    "access-control-max-age",
    "age",
    "cache-control",
    "content-encoding",
    "content-type",
    "date",
    "etag",
    "expires",
    "grpc-message",
    "grpc-status",
    "last-modified",
    "location",
    "proxy-status",
    "vary",
    "via",
    "x-envoy-attempt-count",
    "x-envoy-decorator-operation",
    "x-envoy-degraded",
    "x-envoy-immediate-health-check-fail",
    "x-envoy-ratelimited",
    "x-envoy-upstream-canary",
    "x-envoy-upstream-healthchecked-cluster",
    "x-envoy-upstream-service-time",
    "x-request-id",
];

fn name_in(names: &'static [&'static str], name: &[u8]) -> Option<&'static str> {
    names.iter().find(|known| known.as_bytes() == name).copied()
}

/// Makes one field of several of a head that was received.
pub(crate) fn join_repeated(head: &mut Head) {
    let names: &'static [&'static str] = names(head);
    head.join_repeated(|name| name_in(names, name));
}

/// Adds a field; the name is in lower case.
pub(crate) fn add(head: &mut Head, name: &str, value: &[u8]) {
    match name_in(names(head), name.as_bytes()) {
        Some(name) => head.append(name, value),
        None => head.add(name, value),
    }
}

fn names(head: &Head) -> &'static [&'static str] {
    // Requests have no status.
    if head.status == 0 { &OF_REQUESTS } else { &OF_RESPONSES }
}
