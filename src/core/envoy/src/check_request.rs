//! `envoy.service.auth.v3.CheckRequest` as attributes. Spec: envoy-bridge.md 2.1 to 2.3.

use std::collections::hash_map::Entry;
use std::net::IpAddr;

use base64::Engine as _;
use bumpalo::collections::Vec as ArenaVec;
use rustc_hash::FxHashMap;

use super::attributes::{Attributes, Known};
use super::convert::{Taken, set_by_key};
use super::forwarded;
use super::identity::{Side, set_principal, without_scheme};
use super::mapping::{Parts, set_mapped};
use super::metadata::{set_metadata, set_route_metadata};
use super::wire::{FieldValue, address, each_bytes, each_field, instant, ip, ip_bytes, map_entry};
use crate::config::{EnvoyConfig, OriginIp, Principal, StaticAttribute};
use mixer_attribute::{DecodeError, Timestamp, Value};

/// Attributes in a request header; sent by proxies of old, and by anybody who likes.
pub(super) const FORWARDED_ATTRIBUTES: &[u8] = b"x-istio-attributes";
/// Says whether a body is whole; added by Envoy for the authorizer alone.
const PARTIAL_BODY: &[u8] = b"x-envoy-auth-partial-body";

/// gRPC metadata of the call: names in lower case and values.
pub type Metadata<'a> = &'a [(&'a str, &'a [u8])];

/// What an answer needs to know of its request beside the attributes.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckFacts<'a> {
    /// Whether it is a request at all, not a connection.
    pub is_http: bool,
    /// `x-request-id`, else the number of the stream.
    pub request_id: &'a [u8],
    /// The headers.
    pub headers: &'a [(&'a [u8], &'a [u8])],
    /// How many values could not be converted.
    pub unconvertible: u32,
}

/// The parts of a request, found in one pass.
#[derive(Default)]
struct Request<'a> {
    source: Peer<'a>,
    destination: Peer<'a>,
    http: Option<&'a [u8]>,
    time: Option<&'a [u8]>,
    extensions: &'a [(&'a [u8], &'a [u8])],
    metadata: Option<&'a [u8]>,
    route_metadata: Option<&'a [u8]>,
    sni: &'a [u8],
}

#[derive(Default)]
struct Peer<'a> {
    address: Option<(IpAddr, i64)>,
    service: &'a [u8],
    labels: Option<ArenaVec<'a, (&'a [u8], &'a [u8])>>,
    principal: &'a [u8],
    certificate: &'a [u8],
}

/// Sets the attributes of a CheckRequest.
///
/// `now` is the time of receipt, for connections. Errors: the bytes are no message.
pub fn set_check_request<'a>(
    body: &'a [u8],
    metadata: Metadata<'a>,
    now: Timestamp,
    config: &'a EnvoyConfig,
    out: &mut Attributes<'a>,
) -> Result<CheckFacts<'a>, DecodeError> {
    let mut context = None;
    each_bytes(body, |number, bytes| {
        if number == 1 {
            context = Some(bytes);
        }
    })?;
    let request = read(context.unwrap_or_default(), out)?;
    set_static(&config.static_attributes, out);
    if let Some(kind) = config.settings.check.reporter_kind.text() {
        out.text(Known::ReporterKind, kind.as_bytes());
    }
    set_peers(&request, config, out);
    let mut facts = CheckFacts { is_http: request.http.is_some(), ..CheckFacts::default() };
    let mut http = Http::default();
    match request.http {
        Some(body) => {
            http = read_http(body, out)?;
            set_http(&http, &request, config, out);
            facts.request_id = out.text_of(Known::RequestId).unwrap_or_default();
        }
        None => {
            out.text(Known::ContextProtocol, b"tcp");
            out.set(Known::ContextTime, Value::Timestamp(now));
        }
    }
    facts.headers = http.headers;
    set_origin(&request, http.headers, config.origin_ip, out);
    let name = if request.http.is_none() && request.sni.is_empty() {
        request.destination.service
    } else {
        request.sni
    };
    out.some_text(Known::RequestedServerName, name);
    if let Some(metadata) = request.metadata {
        set_metadata(metadata, out)?;
    }
    if let Some(metadata) = request.route_metadata {
        set_route_metadata(metadata, out)?;
    }
    if config.settings.check.trust_forwarded_attributes
        && let Some((_, value)) = http.headers.iter().find(|(name, _)| *name == FORWARDED_ATTRIBUTES)
    {
        facts.unconvertible += set_forwarded(value, out);
    }
    facts.unconvertible += set_grpc_metadata(metadata, out);
    facts.unconvertible += set_extensions(request.extensions, out);
    if !config.mappings.is_empty() {
        let parts = Parts {
            request_headers: http.headers,
            path: http.path,
            metadata: request.metadata.unwrap_or_default(),
            route_metadata: request.route_metadata.unwrap_or_default(),
            extensions: request.extensions,
            certificate: request.source.certificate,
            ..Parts::default()
        };
        facts.unconvertible += set_mapped(&config.mappings, &parts, out);
    }
    Ok(facts)
}

/// Sets configured constants.
pub(super) fn set_static<'a>(constants: &'a [StaticAttribute], out: &mut Attributes<'a>) {
    for constant in constants {
        if let Some(value) = constant.value.as_value() {
            out.set_slot(constant.name.as_bytes(), constant.slot, value);
        }
    }
}

fn read<'a>(body: &'a [u8], out: &Attributes<'a>) -> Result<Request<'a>, DecodeError> {
    let mut request = Request::default();
    let mut extensions = ArenaVec::new_in(out.arena());
    let mut result = Ok(());
    let mut note = |read: Result<(), DecodeError>| {
        if read.is_err() {
            result = read;
        }
    };
    each_bytes(body, |number, bytes| match number {
        1 => note(read_peer(bytes, out).map(|peer| request.source = peer)),
        2 => note(read_peer(bytes, out).map(|peer| request.destination = peer)),
        4 => note(each_bytes(bytes, |number, bytes| match number {
            1 => request.time = Some(bytes),
            2 => request.http = Some(bytes),
            _ => {}
        })),
        10 => note(map_entry(bytes).map(|entry| extensions.push(entry))),
        11 => request.metadata = Some(bytes),
        12 => note(each_bytes(bytes, |number, bytes| {
            if number == 1 {
                request.sni = bytes;
            }
        })),
        13 => request.route_metadata = Some(bytes),
        _ => {}
    })?;
    request.extensions = extensions.into_bump_slice();
    result.map(|()| request)
}

fn read_peer<'a>(body: &'a [u8], out: &Attributes<'a>) -> Result<Peer<'a>, DecodeError> {
    let mut peer = Peer::default();
    let mut result = Ok(());
    each_bytes(body, |number, bytes| match number {
        1 => match address(bytes) {
            Ok(address) => peer.address = address,
            Err(error) => result = Err(error),
        },
        2 => peer.service = bytes,
        3 => {
            let labels = peer.labels.get_or_insert_with(|| ArenaVec::new_in(out.arena()));
            match map_entry(bytes) {
                Ok(entry) => labels.push(entry),
                Err(error) => result = Err(error),
            }
        }
        4 => peer.principal = bytes,
        5 => peer.certificate = bytes,
        _ => {}
    })?;
    result.map(|()| peer)
}

fn set_peers<'a>(request: &Request<'a>, config: &EnvoyConfig, out: &mut Attributes<'a>) {
    let arena = out.arena();
    let Request { source, destination, .. } = request;
    for (peer, ip, port) in [
        (source, Known::SourceIp, Known::SourcePort),
        (destination, Known::DestinationIp, Known::DestinationPort),
    ] {
        if let Some((address, number)) = peer.address {
            out.set(ip, Value::Bytes(ip_bytes(address, arena)));
            if number != 0 {
                out.number(port, number);
            }
        }
    }
    let allowed = |principal: &'a [u8]| match config.settings.check.principal {
        Principal::UriOnly if !principal.windows(3).any(|w| w == b"://") => &[][..],
        _ => principal,
    };
    set_principal(Side::Source, allowed(source.principal), out);
    set_principal(Side::Destination, allowed(destination.principal), out);
    let mutual = !without_scheme(source.principal).is_empty() || !source.certificate.is_empty();
    out.set(Known::ConnectionMtls, Value::Bool(mutual));
    // The service of a connection's destination is the server name that the caller chose.
    if request.http.is_some() {
        out.some_text(Known::SourceService, source.service);
    }
    for (peer, known) in [(source, Known::SourceLabels), (destination, Known::DestinationLabels)] {
        if let Some(labels) = &peer.labels {
            out.map(known, labels.clone());
        }
    }
}

/// The parts of an HTTP request.
#[derive(Default)]
pub(super) struct Http<'a> {
    pub(super) id: &'a [u8],
    pub(super) method: &'a [u8],
    /// In lower case, repeated ones joined; everything that came.
    pub(super) headers: &'a [(&'a [u8], &'a [u8])],
    pub(super) path: &'a [u8],
    pub(super) host: &'a [u8],
    pub(super) scheme: &'a [u8],
    pub(super) size: i64,
    pub(super) protocol: &'a [u8],
    pub(super) body: &'a [u8],
    pub(super) raw_body: &'a [u8],
}

fn read_http<'a>(body: &'a [u8], out: &Attributes<'a>) -> Result<Http<'a>, DecodeError> {
    let mut http = Http::default();
    let mut headers = ArenaVec::with_capacity_in(24, out.arena());
    let mut result = Ok(());
    each_field(body, |number, value| match (number, value) {
        (3, FieldValue::Bytes(entry)) => match map_entry(entry) {
            Ok(entry) => headers.push(entry),
            Err(error) => result = Err(error),
        },
        (13, FieldValue::Bytes(map)) => {
            if let Err(error) = read_header_map(map, &mut headers) {
                result = Err(error);
            }
        }
        (1, FieldValue::Bytes(text)) => http.id = text,
        (2, FieldValue::Bytes(text)) => http.method = text,
        (4, FieldValue::Bytes(text)) => http.path = text,
        (5, FieldValue::Bytes(text)) => http.host = text,
        (6, FieldValue::Bytes(text)) => http.scheme = text,
        (9, FieldValue::Varint(size)) => http.size = size.cast_signed(),
        (10, FieldValue::Bytes(text)) => http.protocol = text,
        (11, FieldValue::Bytes(text)) => http.body = text,
        (12, FieldValue::Bytes(bytes)) => http.raw_body = bytes,
        _ => {}
    })?;
    http.headers = headers.into_bump_slice();
    result.map(|()| http)
}

/// Reads a `HeaderMap`; repeated headers are joined with a comma. Cost: linear in the bytes, however often a header is repeated.
fn read_header_map<'a>(
    body: &'a [u8],
    out: &mut ArenaVec<'a, (&'a [u8], &'a [u8])>,
) -> Result<(), DecodeError> {
    let arena = out.bump();
    let mut result = Ok(());
    let mut places: FxHashMap<&'a [u8], usize> = FxHashMap::default();
    for (at, (name, _)) in out.iter().enumerate() {
        places.entry(name).or_insert(at);
    }
    let mut joined: FxHashMap<usize, ArenaVec<'a, u8>> = FxHashMap::default();
    each_bytes(body, |number, header| {
        if number != 1 {
            return;
        }
        let (mut key, mut value, mut raw) = (&[][..], &[][..], &[][..]);
        let read = each_bytes(header, |number, bytes| match number {
            1 => key = bytes,
            2 => value = bytes,
            3 => raw = bytes,
            _ => {}
        });
        let value = if raw.is_empty() { value } else { raw };
        if read.is_err() {
            result = read;
        }
        match places.entry(key) {
            Entry::Vacant(place) => {
                place.insert(out.len());
                out.push((key, value));
            }
            Entry::Occupied(place) => {
                let first = out.get(*place.get()).map_or(&[][..], |(_, value)| value);
                let text = joined.entry(*place.get()).or_insert_with(|| {
                    let mut text = ArenaVec::new_in(arena);
                    text.extend_from_slice(first);
                    text
                });
                text.push(b',');
                text.extend_from_slice(value);
            }
        }
    })?;
    for (at, text) in joined {
        if let Some((_, value)) = out.get_mut(at) {
            *value = text.into_bump_slice();
        }
    }
    result
}

pub(super) fn header<'a>(headers: &[(&'a [u8], &'a [u8])], name: &[u8]) -> Option<&'a [u8]> {
    headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
}

/// Sets everything of an HTTP request but its time and addresses.
fn set_http<'a>(http: &Http<'a>, request: &Request<'a>, config: &EnvoyConfig, out: &mut Attributes<'a>) {
    let header = |name: &[u8]| header(http.headers, name);
    let mut shown = ArenaVec::with_capacity_in(http.headers.len(), out.arena());
    shown.extend(
        http.headers
            .iter()
            .copied()
            .filter(|(name, _)| *name != FORWARDED_ATTRIBUTES && *name != PARTIAL_BODY),
    );
    out.map(Known::RequestHeaders, shown);
    if let Some(time) = request.time.and_then(instant) {
        out.set(Known::RequestTime, Value::Timestamp(time));
    }
    out.text(Known::RequestMethod, http.method);
    out.text(Known::RequestHost, http.host);
    out.text(Known::RequestScheme, if http.scheme.is_empty() { b"http" } else { http.scheme });
    set_path(http.path, out);
    out.some_text(Known::RequestId, header(b"x-request-id").filter(|id| !id.is_empty()).unwrap_or(http.id));
    out.some_text(Known::RequestUserAgent, header(b"user-agent").unwrap_or_default());
    out.some_text(Known::RequestReferer, header(b"referer").unwrap_or_default());
    if http.size > 0 {
        out.number(Known::RequestSize, http.size);
    }
    out.text(Known::ContextProtocol, protocol(header(b"content-type").unwrap_or_default()));
    out.some_text(Known::HttpProtocol, http.protocol);
    if config.settings.check.include_body {
        out.some_text(Known::RequestBodyText, http.body);
        let raw = if http.raw_body.is_empty() { http.body } else { http.raw_body };
        if !raw.is_empty() {
            out.set(Known::RequestBodyRaw, Value::Bytes(raw));
        }
    }
}

/// Sets the path, the part of it before the query, and the query.
pub(super) fn set_path<'a>(path: &'a [u8], out: &mut Attributes<'a>) {
    let at = path.iter().position(|byte| *byte == b'?');
    let (url_path, query) = match at.and_then(|at| path.split_at_checked(at)) {
        Some((url_path, query)) => (url_path, query.get(1..).unwrap_or_default()),
        None => (path, &[][..]),
    };
    out.text(Known::RequestPath, path);
    out.some_text(Known::RequestUrlPath, url_path);
    if query.is_empty() || !out.wants(Known::RequestQueryParams) {
        return;
    }
    let mut params = ArenaVec::new_in(out.arena());
    params.extend(query_pairs(query));
    // Of equal keys the first counts; a map keeps the last.
    params.reverse();
    out.map(Known::RequestQueryParams, params);
}

/// Keys and values of a query as they are written; empty pieces are skipped.
pub(super) fn query_pairs(query: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    query.split(|byte| *byte == b'&').filter(|piece| !piece.is_empty()).map(|piece| {
        let at = piece.iter().position(|byte| *byte == b'=');
        match at.and_then(|at| piece.split_at_checked(at)) {
            Some((key, value)) => (key, value.get(1..).unwrap_or_default()),
            None => (piece, &[][..]),
        }
    })
}

/// `grpc` or `http`, from a content type.
pub(super) fn protocol(content_type: &[u8]) -> &'static [u8] {
    match content_type {
        b"application/grpc" | b"application/grpc+proto" | b"application/grpc+json" => b"grpc",
        _ => b"http",
    }
}

fn set_origin<'a>(
    request: &Request<'a>,
    headers: &[(&'a [u8], &'a [u8])],
    origin: OriginIp,
    out: &mut Attributes<'a>,
) {
    let from_header = match origin {
        OriginIp::Peer => None,
        OriginIp::ExternalAddress => header(headers, b"x-envoy-external-address").and_then(ip),
        OriginIp::ForwardedFor(from_right) => header(headers, b"x-forwarded-for")
            .and_then(|list| list.rsplit(|byte| *byte == b',').nth(from_right - 1))
            .and_then(|address| ip(address.trim_ascii())),
    };
    if let Some(address) = from_header.or(request.source.address.map(|(address, _)| address)) {
        out.set(Known::OriginIp, Value::Bytes(ip_bytes(address, out.arena())));
    }
}

/// Sets the attributes of a header or metadata value that carries many; returns how many could not be taken.
fn set_forwarded<'a>(encoded: &[u8], out: &mut Attributes<'a>) -> u32 {
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim_ascii());
    match decoded {
        Ok(bytes) => forwarded::set_attributes(out.arena().alloc_slice_copy(&bytes), out),
        Err(_) => 1,
    }
}

fn set_grpc_metadata<'a>(metadata: Metadata<'a>, out: &mut Attributes<'a>) -> u32 {
    let mut failures = 0;
    for (name, value) in metadata {
        if let Some(attribute) = name.strip_prefix("x-mixer-attr.") {
            match set_by_key(attribute.as_bytes(), value, out) {
                Taken::Set => {}
                Taken::Unconvertible | Taken::Other => failures += 1,
            }
        } else if name.as_bytes() == FORWARDED_ATTRIBUTES {
            failures += set_forwarded(value, out);
        }
    }
    failures
}

fn set_extensions<'a>(extensions: &[(&'a [u8], &'a [u8])], out: &mut Attributes<'a>) -> u32 {
    let mut failures = 0;
    let mut others = ArenaVec::new_in(out.arena());
    for (key, value) in extensions {
        match set_by_key(key, value, out) {
            Taken::Set => {}
            Taken::Unconvertible => failures += 1,
            Taken::Other => others.push((*key, *value)),
        }
    }
    if !others.is_empty() {
        out.map(Known::ContextExtensions, others);
    }
    failures
}
