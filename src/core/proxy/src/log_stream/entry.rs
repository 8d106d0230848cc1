//! What an entry of an access log tells: `HTTPAccessLogEntry` and `TCPAccessLogEntry`.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use mixer_wire::envoy::config::core::v3::{Address, SocketAddress, address};
use mixer_wire::envoy::data::accesslog::v3::tls_properties::CertificateProperties;
use mixer_wire::envoy::data::accesslog::v3::tls_properties::certificate_properties::{
    SubjectAltName, subject_alt_name::San,
};
use mixer_wire::envoy::data::accesslog::v3::{
    AccessLogCommon, ConnectionProperties, HttpAccessLogEntry, HttpRequestProperties, HttpResponseProperties,
    TcpAccessLogEntry, TlsProperties,
};
use prost::Message as _;
use prost_types::{Struct, Value, value::Kind};

use crate::access_log::Entry;
use crate::bootstrap::LogStreamConfig;
use crate::flags::{Flag, Flags};
use crate::head::Head;

/// `DownstreamEnd` and `TcpConnectionEnd` of AccessLogType.
const REQUEST_END: i32 = 6;
const CONNECTION_END: i32 = 3;
/// HTTP11 and HTTP2 of HTTPVersion.
const HTTP11: i32 = 2;
const HTTP2: i32 = 3;

/// An entry, encoded.
pub(super) fn encode(entry: &Entry<'_>, config: &LogStreamConfig) -> Vec<u8> {
    let common = Some(common(entry, config.is_http));
    if !config.is_http {
        let connection_properties =
            Some(ConnectionProperties { received_bytes: entry.received, sent_bytes: entry.sent });
        return TcpAccessLogEntry { common_properties: common, connection_properties }.encode_to_vec();
    }
    let entry = HttpAccessLogEntry {
        common_properties: common,
        protocol_version: if entry.protocol == "HTTP/2" { HTTP2 } else { HTTP11 },
        request: Some(request(entry, config)),
        response: Some(response(entry, config)),
    };
    entry.encode_to_vec()
}

fn common(entry: &Entry<'_>, is_http: bool) -> AccessLogCommon {
    let connection = entry.connection;
    let duration = prost_types::Duration::try_from(entry.duration).ok();
    let id = entry.request.and_then(|head| head.get("x-request-id")).map(text).unwrap_or_default();
    AccessLogCommon {
        downstream_remote_address: Some(address_of(entry.remote())),
        downstream_local_address: Some(address_of(connection.local)),
        downstream_direct_remote_address: Some(address_of(connection.direct_remote)),
        tls_properties: tls(entry),
        start_time: Some(entry.start.into()),
        duration,
        time_to_last_downstream_tx_byte: duration.filter(|_| is_http && entry.status > 0),
        upstream_remote_address: entry.upstream.map(address_of),
        upstream_cluster: entry.cluster.to_owned(),
        response_flags: flags(entry.flags),
        route_name: entry.route.to_owned(),
        stream_id: id,
        access_log_type: if is_http { REQUEST_END } else { CONNECTION_END },
        ..AccessLogCommon::default()
    }
}

fn request(entry: &Entry<'_>, config: &LogStreamConfig) -> HttpRequestProperties {
    let Some(head) = entry.request else { return HttpRequestProperties::default() };
    let field = |name: &str| head.pseudo_or_field(name).map(text).unwrap_or_default();
    HttpRequestProperties {
        request_method: method(head.method()),
        scheme: field(":scheme"),
        authority: field(":authority"),
        path: field(":path"),
        user_agent: field("user-agent"),
        referer: field("referer"),
        forwarded_for: field("x-forwarded-for"),
        request_id: field("x-request-id"),
        original_path: field("x-envoy-original-path"),
        request_headers_bytes: head.size(),
        request_body_bytes: entry.received,
        request_headers: headers(head, &config.request_headers),
    }
}

fn response(entry: &Entry<'_>, config: &LogStreamConfig) -> HttpResponseProperties {
    let head = entry.response.filter(|_| entry.status > 0);
    // Envoy adds the length of an empty local reply when it is written.
    let has_no_body = |head: &Head| head.get("content-length").is_some_and(|length| length == b"0");
    let added = if entry.upstream.is_none() && head.is_some_and(has_no_body) { 15 } else { 0 };
    HttpResponseProperties {
        response_code: (entry.status > 0).then_some(u32::from(entry.status)),
        // With the field `:status`.
        response_headers_bytes: head.map_or(0, |head| head.size() + 10 - added),
        response_body_bytes: entry.sent,
        response_headers: head.map(|head| headers(head, &config.response_headers)).unwrap_or_default(),
        response_code_details: entry.details.to_owned(),
        ..HttpResponseProperties::default()
    }
}

/// Headers that are asked for; several of a name are one, with commas.
fn headers(head: &Head, names: &[String]) -> BTreeMap<String, String> {
    let value = |name: &String| {
        let values: Vec<String> = head.values(name).map(text).collect();
        (!values.is_empty()).then(|| (name.clone(), values.join(",")))
    };
    names.iter().filter_map(value).collect()
}

fn method(method: &[u8]) -> i32 {
    const METHODS: [&[u8]; 9] =
        [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];
    let place = METHODS.iter().position(|known| *known == method);
    place.and_then(|place| i32::try_from(place + 1).ok()).unwrap_or(0)
}

fn tls(entry: &Entry<'_>) -> Option<TlsProperties> {
    let connection = entry.connection;
    let session = connection.tls.as_ref();
    if session.is_none() && connection.server_name.is_empty() {
        return None;
    }
    let peer = session.map(|session| {
        let peer = session.peer.as_ref();
        let uris = peer.map(|peer| peer.uris.as_slice()).unwrap_or_default();
        let name = |uri: &String| SubjectAltName { san: Some(San::Uri(uri.clone())) };
        CertificateProperties {
            subject_alt_name: uris.iter().map(name).collect(),
            subject: peer.map(|peer| peer.subject.clone()).unwrap_or_default(),
            ..CertificateProperties::default()
        }
    });
    Some(TlsProperties {
        tls_version: match session.map(|session| session.version) {
            Some("TLSv1.3") => 4,
            Some("TLSv1.2") => 3,
            _ => 0,
        },
        tls_sni_hostname: connection.server_name.clone(),
        peer_certificate_properties: peer,
        ..TlsProperties::default()
    })
}

/// The message `ResponseFlags`.
fn flags(flags: Flags) -> Bytes {
    let mut numbers: Vec<u32> = flags.iter().map(number).collect();
    numbers.sort_unstable();
    let mut out = Vec::new();
    for number in numbers {
        if number == UNAUTHORIZED {
            // Its reason: an external service.
            prost::encoding::bytes::encode(number, &vec![0x08, 0x01], &mut out);
        } else {
            prost::encoding::bool::encode(number, &true, &mut out);
        }
    }
    out.into()
}

/// The field `unauthorized_details`.
const UNAUTHORIZED: u32 = 13;

fn number(flag: Flag) -> u32 {
    match flag {
        Flag::UH => 2,
        Flag::UT => 3,
        Flag::UR => 5,
        Flag::UF => 6,
        Flag::UC => 7,
        Flag::UO => 8,
        Flag::NR => 9,
        Flag::RL => 12,
        Flag::Uaex => UNAUTHORIZED,
        Flag::Rlse => 14,
        Flag::DC => 15,
        Flag::Urx => 16,
        Flag::SI => 17,
        Flag::Dpe => 19,
        Flag::Upe => 24,
        Flag::NC => 25,
        Flag::DR => 28,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn address_of(address: SocketAddr) -> Address {
    let socket = SocketAddress { address: address.ip().to_string(), port_value: u32::from(address.port()) };
    Address { address: Some(address::Address::SocketAddress(socket)) }
}

/// A JSON object as a message; `None` for what is none.
pub(super) fn structure(json: &serde_json::Value) -> Option<Struct> {
    let fields = json.as_object()?;
    Some(Struct { fields: fields.iter().map(|(name, value)| (name.clone(), message(value))).collect() })
}

fn message(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(*value),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(0.0)),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(items) => {
            Kind::ListValue(prost_types::ListValue { values: items.iter().map(message).collect() })
        }
        Json::Object(_) => Kind::StructValue(structure(json).unwrap_or_default()),
    };
    Value { kind: Some(kind) }
}
