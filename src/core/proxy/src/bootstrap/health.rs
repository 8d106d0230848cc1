//! Active health checks of clusters.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::reader::{Fields, Message, Value};
use super::route::read_additions;
use super::table::Edits;
use crate::head::Head;

static CHECK: Message = Message {
    name: "HealthCheck",
    unsupported: &[
        "custom_health_check",
        "event_log_path",
        "event_logger",
        "event_service",
        "always_log_health_check_failures",
        "always_log_health_check_success",
        "tls_options",
        "transport_socket_match_criteria",
    ],
};
static HTTP: Message = Message {
    name: "HttpHealthCheck",
    unsupported: &["send", "receive", "response_buffer_size", "codec_client_type", "service_name_matcher"],
};
static RANGE: Message = Message { name: "Int64Range", unsupported: &[] };
static TCP: Message = Message { name: "TcpHealthCheck", unsupported: &["proxy_protocol_config"] };
static PAYLOAD: Message = Message { name: "Payload", unsupported: &[] };
static GRPC: Message = Message { name: "GrpcHealthCheck", unsupported: &["initial_metadata"] };

/// How the hosts of a cluster are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheckConfig {
    /// Time limit of a check.
    pub timeout: Duration,
    /// Time between the end of a check and the next one.
    pub interval: Duration,
    /// The first check of a host comes after a random time up to this.
    pub initial_jitter: Duration,
    /// A random time up to this is added to each interval.
    pub interval_jitter: Duration,
    /// A random share of an interval up to so many percent is added to it.
    pub interval_jitter_percent: u32,
    /// Failures in a row after which a healthy host is unhealthy.
    pub unhealthy_threshold: u32,
    /// Successes in a row after which an unhealthy host is healthy.
    pub healthy_threshold: u32,
    /// The port that is checked instead of that of the host.
    pub port: Option<u16>,
    /// Whether a connection is used for further checks.
    pub reuses_connection: bool,
    /// The interval before the cluster has had any connection.
    pub no_traffic_interval: Duration,
    /// The same of healthy hosts.
    pub no_traffic_healthy_interval: Duration,
    /// The interval after a failure of a host that is unhealthy.
    pub unhealthy_interval: Duration,
    /// The interval after a failure that does not make a host unhealthy yet.
    pub unhealthy_edge_interval: Duration,
    /// The interval after a success that does not make a host healthy yet.
    pub healthy_edge_interval: Duration,
    /// Whether a host that names no longer resolve to is removed though its checks succeed.
    pub removes_healthy: bool,
    /// What is sent and expected.
    pub kind: CheckKind,
}

/// What a check sends and expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckKind {
    /// A request.
    Http(HttpCheck),
    /// Bytes.
    Tcp(TcpCheck),
    /// A call of `grpc.health.v1.Health/Check`.
    Grpc(GrpcCheck),
}

/// A check by a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpCheck {
    /// The method.
    pub method: String,
    /// The path with a query.
    pub path: String,
    /// The header `host`; `None` for the name of the cluster.
    pub host: Option<String>,
    /// Edits of the headers.
    pub edits: Edits,
    /// Statuses of success: first, and the one after the last.
    pub expected: Vec<(u16, u16)>,
    /// Statuses of failures that count towards the threshold, where any other makes a host unhealthy at once.
    pub retriable: Vec<(u16, u16)>,
}

/// A check by bytes; only a connection if there are none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TcpCheck {
    /// What is sent.
    pub send: Vec<u8>,
    /// What is to be found in the answer, in this order.
    pub receive: Vec<Vec<u8>>,
}

/// A check by a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcCheck {
    /// The service that is asked about; empty for the server.
    pub service: String,
    /// The authority; `None` for the name of the cluster.
    pub authority: Option<String>,
}

/// The health check of a cluster, of which Envoy takes one. `None` if there is none, or it is not valid.
pub(super) fn read(cluster: &Fields<'_>) -> Option<HealthCheckConfig> {
    let removes_healthy = cluster.boolean("ignore_health_on_host_removal");
    let checks = cluster.items("health_checks");
    if let Some(second) = checks.get(1) {
        second.invalid("Multiple health checks not supported");
    }
    let check = read_check(checks.first()?)?;
    Some(HealthCheckConfig { removes_healthy, ..check })
}

fn read_check(value: &Value<'_>) -> Option<HealthCheckConfig> {
    let check = value.message(&CHECK)?;
    let required = |name: &str, field: &str| match check.get(name) {
        Some(value) => match value.duration() {
            Some(time) if time.is_zero() => {
                value.invalid(format!("HealthCheckValidationError.{field}: value must be greater than 0s"));
                None
            }
            time => time,
        },
        None => {
            check.required(format!("HealthCheckValidationError.{field}: value is required"));
            None
        }
    };
    let threshold = |name: &str, field: &str| match check.get(name) {
        Some(value) => value.u32(),
        None => {
            check.required(format!("HealthCheckValidationError.{field}: value is required"));
            None
        }
    };
    let positive = |name: &str, field: &str| {
        let value = check.get(name)?;
        let time = value.duration()?;
        if time.is_zero() {
            value.invalid(format!("HealthCheckValidationError.{field}: value must be greater than 0s"));
            return None;
        }
        Some(time)
    };
    let (timeout, interval) = (required("timeout", "Timeout"), required("interval", "Interval"));
    let unhealthy_threshold = threshold("unhealthy_threshold", "UnhealthyThreshold");
    let healthy_threshold = threshold("healthy_threshold", "HealthyThreshold");
    let port = check.get("alt_port").and_then(|port| port.number(u64::from(u16::MAX)));
    let reuses_connection = check.get("reuse_connection").is_none_or(|value| value.boolean() != Some(false));
    let no_traffic = positive("no_traffic_interval", "NoTrafficInterval").unwrap_or(Duration::from_secs(60));
    let no_traffic_healthy = positive("no_traffic_healthy_interval", "NoTrafficHealthyInterval");
    let unhealthy = positive("unhealthy_interval", "UnhealthyInterval");
    let unhealthy_edge = positive("unhealthy_edge_interval", "UnhealthyEdgeInterval");
    let healthy_edge = positive("healthy_edge_interval", "HealthyEdgeInterval");
    let initial_jitter = check.duration("initial_jitter").unwrap_or_default();
    let interval_jitter = check.duration("interval_jitter").unwrap_or_default();
    let percent = check.get("interval_jitter_percent").and_then(|value| value.u32()).unwrap_or(0);
    let names = ["http_health_check", "tcp_health_check", "grpc_health_check"];
    let kind = match check.one_of(&names) {
        Some(("http_health_check", http)) => read_http(&http).map(CheckKind::Http),
        Some(("tcp_health_check", tcp)) => read_tcp(&tcp).map(CheckKind::Tcp),
        Some((_, grpc)) => read_grpc(&grpc).map(CheckKind::Grpc),
        None => {
            if check.value.node.get("custom_health_check").is_none() {
                check.required("HealthCheckValidationError: field: \"health_checker\", reason: is required");
            }
            None
        }
    };
    check.finish();
    let interval = interval?;
    let unhealthy = unhealthy.unwrap_or(interval);
    Some(HealthCheckConfig {
        timeout: timeout?,
        interval,
        initial_jitter,
        interval_jitter,
        interval_jitter_percent: percent,
        unhealthy_threshold: unhealthy_threshold?,
        healthy_threshold: healthy_threshold?,
        port: port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0),
        reuses_connection,
        no_traffic_interval: no_traffic,
        no_traffic_healthy_interval: no_traffic_healthy.unwrap_or(no_traffic),
        unhealthy_interval: unhealthy,
        unhealthy_edge_interval: unhealthy_edge.unwrap_or(unhealthy),
        healthy_edge_interval: healthy_edge.unwrap_or(interval),
        removes_healthy: false,
        kind: kind?,
    })
}

fn read_http(value: &Value<'_>) -> Option<HttpCheck> {
    let http = value.message(&HTTP)?;
    let path = match http.get("path") {
        Some(path) => path.nonempty("HttpHealthCheck", "Path").map(str::to_owned),
        None => {
            http.required("HttpHealthCheckValidationError.Path: value length must be at least 1 characters");
            None
        }
    };
    let host = http.text("host").filter(|host| !host.is_empty()).map(str::to_owned);
    let methods = [
        ("METHOD_UNSPECIFIED", 0),
        ("GET", 1),
        ("HEAD", 2),
        ("POST", 3),
        ("PUT", 4),
        ("DELETE", 5),
        ("OPTIONS", 7),
        ("TRACE", 8),
        ("PATCH", 9),
    ];
    let chosen = http.get("method").and_then(|method| method.choice(&methods)).unwrap_or(0);
    let method = methods.iter().find(|(_, number)| *number == chosen.max(1)).map_or("GET", |(name, _)| *name);
    let removed = http.get("request_headers_to_remove").map(|value| value.texts()).unwrap_or_default();
    let edits = Edits {
        add_request: read_additions(&http, "request_headers_to_add"),
        remove_request: removed.into_iter().map(str::to_ascii_lowercase).collect(),
        ..Edits::default()
    };
    let ranges = |name: &str| -> Vec<(u16, u16)> { http.items(name).iter().filter_map(read_range).collect() };
    let (mut expected, retriable) = (ranges("expected_statuses"), ranges("retriable_statuses"));
    http.finish();
    if expected.is_empty() {
        expected.push((200, 201));
    }
    let check = HttpCheck { method: method.to_owned(), path: path?, host, edits, expected, retriable };
    if check.request("cluster").is_none() {
        value.invalid(
            "the method, `path` and `host` are no valid request: a path begins with `/` and has visible ASCII characters, a host has an optional port",
        );
    }
    Some(check)
}

impl HttpCheck {
    /// The head of the request, with edits but those of headers; `None` if it is not valid.
    pub(crate) fn request(&self, cluster: &str) -> Option<Head> {
        let (method, path) = (&self.method, &self.path);
        let host = self.host.as_deref().unwrap_or(cluster);
        // The name of a cluster may be any text.
        let host =
            if self.host.is_some() || crate::head::is_authority(host.as_bytes()) { host } else { "cluster" };
        let text = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: Envoy/HC\r\n\r\n");
        let mut head = Head::default();
        head.read_request(text.as_bytes(), 10).ok()?;
        if !path.starts_with('/') || !crate::head::is_authority(host.as_bytes()) {
            return None;
        }
        head.set_authority(host.as_bytes());
        head.remove(b"host");
        if !matches!(method.as_str(), "GET" | "HEAD" | "DELETE" | "TRACE") {
            head.set("content-length", b"0");
        }
        Some(head)
    }
}

fn read_range(value: &Value<'_>) -> Option<(u16, u16)> {
    let range = value.message(&RANGE)?;
    let number = |name: &str| range.get(name).and_then(|value| value.number(u64::from(u16::MAX)));
    let (start, end) = (number("start").unwrap_or(0), number("end").unwrap_or(0));
    range.finish();
    if start >= end || start < 100 || end > 600 {
        value.invalid(format!(
            "Invalid http status range: expected 100 <= start < end <= 600, but found start={start} and end={end}"
        ));
        return None;
    }
    Some((u16::try_from(start).ok()?, u16::try_from(end).ok()?))
}

fn read_tcp(value: &Value<'_>) -> Option<TcpCheck> {
    let tcp = value.message(&TCP)?;
    let send = tcp.get("send").map(|value| read_payload(&value));
    let receive: Vec<_> = tcp.items("receive").iter().map(read_payload).collect();
    tcp.finish();
    Some(TcpCheck {
        send: match send {
            Some(send) => send?,
            None => Vec::new(),
        },
        receive: receive.into_iter().collect::<Option<_>>()?,
    })
}

/// Bytes in hexadecimal digits, or in base64.
fn read_payload(value: &Value<'_>) -> Option<Vec<u8>> {
    let payload = value.message(&PAYLOAD)?;
    let bytes = match payload.one_of(&["text", "binary"]) {
        Some(("text", text)) => text.nonempty("Payload", "Text").and_then(|digits| {
            let bytes = hex(digits);
            if bytes.is_none() {
                text.invalid(format!("invalid hex string '{digits}'"));
            }
            bytes
        }),
        Some((_, binary)) => binary.text().and_then(|text| {
            let bytes = STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty());
            if bytes.is_none() {
                binary.invalid("expected base64 of one byte or more");
            }
            bytes
        }),
        None => {
            payload.required("PayloadValidationError: field: \"payload\", reason: is required");
            None
        }
    };
    payload.finish();
    bytes
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = digits.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| u8::try_from(high * 16 + low).ok());
    rest.is_empty().then(|| bytes.collect())?
}

fn read_grpc(value: &Value<'_>) -> Option<GrpcCheck> {
    let grpc = value.message(&GRPC)?;
    let service = grpc.text("service_name").unwrap_or_default().to_owned();
    let authority = grpc.get("authority");
    let text = authority.as_ref().and_then(|value| value.text()).filter(|text| !text.is_empty());
    if let (Some(text), Some(authority)) = (text, &authority)
        && !crate::head::is_authority(text.as_bytes())
    {
        authority.invalid(format!("`{text}` is no host with an optional port"));
    }
    let authority = text.map(str::to_owned);
    grpc.finish();
    Some(GrpcCheck { service, authority })
}
