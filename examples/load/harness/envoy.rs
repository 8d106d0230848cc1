//! Calls of Envoy: the requests that it sends for a plain GET, and entries of its access log.

use std::path::Path;

use anyhow::Result;
use mixer_wire::envoy::config::core::v3::{Address, Node, SocketAddress, address};
use mixer_wire::envoy::data::accesslog::v3::{
    AccessLogCommon, HttpAccessLogEntry, HttpRequestProperties, HttpResponseProperties,
};
use mixer_wire::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
use mixer_wire::envoy::service::accesslog::v3::{StreamAccessLogsMessage, stream_access_logs_message};
use mixer_wire::envoy::service::auth::v3::{AttributeContext, CheckRequest, attribute_context};
use mixer_wire::envoy::service::ratelimit::v3::RateLimitRequest;
use prost::Message as _;

/// The limit of the policy in the format of Limitador.
pub(crate) const LIMITADOR: &str = "- namespace: shop\n  max_value: 4000000000\n  seconds: 3600\n  conditions: []\n  \
     variables: ['descriptors[0].plan']\n";

/// Settings without a cache of decisions.
pub(crate) const WITHOUT_CACHE: &str = "apiVersion: config.istio.io/v1alpha2\nkind: envoybridge\n\
     metadata: {name: default, namespace: istio-system}\nspec: {check: {cache: {entries: 0}}}\n";

/// The policy of the example with limits that are never reached.
pub(crate) fn configuration(into: &Path) -> Result<()> {
    let policy = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/envoy/policy"));
    for entry in std::fs::read_dir(policy)? {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path)?;
        let text = text
            .replace("requests_per_unit: 3", "requests_per_unit: 4000000000")
            .replace("  value: free\n", "");
        std::fs::write(into.join(path.file_name().unwrap_or_default()), text)?;
    }
    Ok(())
}

fn socket(port: u32) -> Option<Address> {
    let socket = SocketAddress { address: "127.0.0.1".to_owned(), port_value: port };
    Some(Address { address: Some(address::Address::SocketAddress(socket)) })
}

/// A CheckRequest with the headers of a browser; every third user is denied.
pub(crate) fn check(number: usize) -> (Vec<u8>, i32) {
    let refused = number % 3 == 2;
    let user = if refused { "mallory".to_owned() } else { format!("user-{number}") };
    let path = format!("/shop/items/{number}?page=1&sort=price");
    let request_id = format!("d9b8c441-c486-4983-9fdf-{number:012}");
    let headers = [
        (":authority", "shop.example"),
        (":method", "GET"),
        (":path", path.as_str()),
        (":scheme", "http"),
        ("accept", "text/html,application/xhtml+xml"),
        ("accept-encoding", "gzip, deflate, br"),
        ("accept-language", "en-GB,en;q=0.5"),
        ("cookie", "session=0123456789abcdef0123456789abcdef"),
        ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
        ("x-forwarded-for", "192.0.2.7"),
        ("x-forwarded-proto", "http"),
        ("x-request-id", request_id.as_str()),
        ("x-user", user.as_str()),
    ];
    let http = attribute_context::HttpRequest {
        id: "1158794516480109326".to_owned(),
        method: "GET".to_owned(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        path: path.clone(),
        host: "shop.example".to_owned(),
        scheme: "http".to_owned(),
        protocol: "HTTP/1.1".to_owned(),
        ..Default::default()
    };
    let peer = |port| Some(attribute_context::Peer { address: socket(port), ..Default::default() });
    let request = CheckRequest {
        attributes: Some(AttributeContext {
            source: peer(37_094),
            destination: peer(10_000),
            request: Some(attribute_context::Request {
                time: Some(std::time::SystemTime::now().into()),
                http: Some(http),
            }),
            metadata_context: Some(Default::default()),
            route_metadata_context: Some(Default::default()),
            ..Default::default()
        }),
    };
    (request.encode_to_vec(), if refused { 7 } else { 0 })
}

/// A RateLimitRequest with one descriptor of one entry.
pub(crate) fn limit(number: usize) -> Vec<u8> {
    let entry = rate_limit_descriptor::Entry { key: "plan".to_owned(), value: format!("plan-{number}") };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
    RateLimitRequest { domain: "shop".to_owned(), descriptors: vec![descriptor], hits_addend: 0 }
        .encode_to_vec()
}

/// An access-log message with this many entries.
pub(crate) fn log(number: usize, entries: usize) -> Vec<u8> {
    let entry = |index: usize| {
        let user = format!("user-{}", (number + index) % 8);
        HttpAccessLogEntry {
            common_properties: Some(AccessLogCommon {
                downstream_remote_address: socket(37_094),
                downstream_direct_remote_address: socket(37_094),
                downstream_local_address: socket(10_000),
                upstream_remote_address: socket(8081),
                start_time: Some(std::time::SystemTime::now().into()),
                duration: Some(prost_types::Duration { seconds: 0, nanos: 2_109_976 }),
                upstream_cluster: "upstream".to_owned(),
                route_name: "all".to_owned(),
                upstream_request_attempt_count: 1,
                stream_id: format!("9289e870-a83c-4bbc-9eca-{number:06}{index:06}"),
                access_log_type: 6,
                ..Default::default()
            }),
            protocol_version: 2,
            request: Some(HttpRequestProperties {
                request_method: 1,
                scheme: "http".to_owned(),
                authority: "shop.example".to_owned(),
                path: format!("/shop/items/{number}?page=1"),
                user_agent: "curl/7.88.1".to_owned(),
                request_id: format!("d9b8c441-c486-4983-9fdf-{number:012}"),
                request_headers_bytes: 312,
                request_headers: [("x-user".to_owned(), user)].into(),
                ..Default::default()
            }),
            response: Some(HttpResponseProperties {
                response_code: Some(200),
                response_headers_bytes: 140,
                response_body_bytes: 368,
                response_code_details: "via_upstream".to_owned(),
                ..Default::default()
            }),
        }
    };
    let node = Node {
        id: "sidecar~10.1.2.3~reviews-v1.prod~prod.svc.cluster.local".to_owned(),
        cluster: "reviews".to_owned(),
        ..Default::default()
    };
    let logs =
        stream_access_logs_message::HttpAccessLogEntries { log_entry: (0..entries).map(entry).collect() };
    StreamAccessLogsMessage {
        identifier: Some(stream_access_logs_message::Identifier {
            node: Some(node),
            log_name: "web".to_owned(),
        }),
        log_entries: Some(stream_access_logs_message::LogEntries::HttpLogs(logs)),
    }
    .encode_to_vec()
}
