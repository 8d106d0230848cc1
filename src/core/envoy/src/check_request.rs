//! `envoy.service.auth.v3.CheckRequest` as attributes. See docs/envoy.md.

mod http;

use std::net::IpAddr;

use base64::Engine as _;
use bumpalo::collections::Vec as ArenaVec;

use self::http::HttpRequest;
use super::attributes::{Attributes, Known, set_default_namespace, set_static};
use super::convert::{KeyOutcome, set_all_by_key, set_by_key};
use super::forwarded;
use super::http_message::{FORWARDED_ATTRIBUTES, header};
use super::identity::{Side, set_principal, without_scheme};
use super::mapping::{MappingSources, set_mapped};
use super::metadata::{set_metadata, set_route_metadata};
use super::wire::{FieldBudget, address, host_ip, instant, ip_bytes};
use crate::config::{EnvoyConfig, OriginIp, Principal};
use mixer_attribute::{DecodeError, Timestamp, Value};

/// The gRPC metadata of a call: names in lower case, and values.
pub type Metadata<'a> = &'a [(&'a str, &'a [u8])];

/// What the response depends on besides the attributes.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckFacts<'a> {
    /// Whether it is an HTTP request, not a connection.
    pub is_http: bool,
    /// `x-request-id`, or else the stream id.
    pub request_id: &'a [u8],
    /// Names in lower case, and values.
    pub headers: &'a [(&'a [u8], &'a [u8])],
    /// Number of values that could not be converted.
    pub unconvertible: u32,
}

impl CheckFacts<'_> {
    /// Of a request that was not decoded. Of the answer to a connection Envoy reads only what both have.
    pub(crate) fn unknown() -> Self {
        Self { is_http: true, ..Self::default() }
    }
}

/// The fields of an `AttributeContext`.
#[derive(Default)]
struct Context<'a> {
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
/// `now` is the receive time, for connections and for requests without a time. Errors: the bytes are no CheckRequest, or it has too many
/// fields.
pub fn set_check_request<'a>(
    body: &'a [u8],
    metadata: Metadata<'a>,
    now: Timestamp,
    config: &'a EnvoyConfig,
    out: &mut Attributes<'a>,
) -> Result<CheckFacts<'a>, DecodeError> {
    let (mut context, budget) = (None, FieldBudget::default());
    budget.each_bytes(body, |number, bytes| {
        if number == 1 {
            context = Some(bytes);
        }
        Ok(())
    })?;
    let request = read(context.unwrap_or_default(), &budget, out)?;
    set_static(&config.static_attributes, out);
    if let Some(kind) = config.settings.check.reporter_kind.text() {
        out.text(Known::ReporterKind, kind.as_bytes());
    }
    set_peers(&request, config, out);
    let mut facts = CheckFacts { is_http: request.http.is_some(), ..CheckFacts::default() };
    let mut http = HttpRequest::default();
    match request.http {
        Some(body) => {
            http = http::read(body, &budget, out)?;
            let time = request.time.and_then(instant).unwrap_or(now);
            http::set(&http, time, config.settings.check.include_body, out);
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
        budget.take_metadata(metadata)?;
        facts.unconvertible += set_metadata(metadata, out)?;
    }
    if let Some(metadata) = request.route_metadata {
        budget.take_metadata(metadata)?;
        set_route_metadata(metadata, out)?;
    }
    if config.settings.check.trust_forwarded_attributes
        && let Some((_, value)) = http.headers.iter().find(|(name, _)| *name == FORWARDED_ATTRIBUTES)
    {
        facts.unconvertible += set_forwarded(value, out);
    }
    facts.unconvertible += set_grpc_metadata(metadata, out);
    facts.unconvertible += set_all_by_key(request.extensions, Known::ContextExtensions, out);
    if !config.mappings.is_empty() {
        let sources = MappingSources {
            request_headers: http.headers,
            path: http.path,
            metadata: request.metadata.unwrap_or_default(),
            route_metadata: request.route_metadata.unwrap_or_default(),
            extensions: request.extensions,
            certificate: request.source.certificate,
            ..MappingSources::default()
        };
        facts.unconvertible += set_mapped(&config.mappings, &sources, out);
    }
    set_default_namespace(config, out);
    Ok(facts)
}

fn read<'a>(body: &'a [u8], budget: &FieldBudget, out: &Attributes<'a>) -> Result<Context<'a>, DecodeError> {
    let mut request = Context::default();
    let mut extensions = ArenaVec::new_in(out.arena());
    budget.each_bytes(body, |number, bytes| {
        match number {
            1 => request.source = read_peer(bytes, budget, out)?,
            2 => request.destination = read_peer(bytes, budget, out)?,
            4 => budget.each_bytes(bytes, |number, bytes| {
                match number {
                    1 => request.time = Some(bytes),
                    2 => request.http = Some(bytes),
                    _ => {}
                }
                Ok(())
            })?,
            10 => extensions.push(budget.map_entry(bytes)?),
            11 => request.metadata = Some(bytes),
            12 => budget.each_bytes(bytes, |number, bytes| {
                if number == 1 {
                    request.sni = bytes;
                }
                Ok(())
            })?,
            13 => request.route_metadata = Some(bytes),
            _ => {}
        }
        Ok(())
    })?;
    request.extensions = extensions.into_bump_slice();
    Ok(request)
}

fn read_peer<'a>(
    body: &'a [u8],
    budget: &FieldBudget,
    out: &Attributes<'a>,
) -> Result<Peer<'a>, DecodeError> {
    let mut peer = Peer::default();
    budget.each_bytes(body, |number, bytes| {
        match number {
            1 => peer.address = address(bytes)?,
            2 => peer.service = bytes,
            3 => {
                let labels = peer.labels.get_or_insert_with(|| ArenaVec::new_in(out.arena()));
                labels.push(budget.map_entry(bytes)?);
            }
            4 => peer.principal = bytes,
            5 => peer.certificate = bytes,
            _ => {}
        }
        Ok(())
    })?;
    Ok(peer)
}

fn set_peers<'a>(request: &Context<'a>, config: &EnvoyConfig, out: &mut Attributes<'a>) {
    let arena = out.arena();
    let Context { source, destination, .. } = request;
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
    // For a connection, the service fields hold the server name that the client chose.
    if request.http.is_some() {
        out.some_text(Known::SourceService, source.service);
    }
    for (peer, known) in [(source, Known::SourceLabels), (destination, Known::DestinationLabels)] {
        if let Some(labels) = &peer.labels {
            out.map(known, labels.clone());
        }
    }
}

/// Sets `origin.ip`. Without an address where the settings say that it is there is none: the peer is a proxy then, whose address rules trust.
fn set_origin<'a>(
    request: &Context<'a>,
    headers: &[(&'a [u8], &'a [u8])],
    origin: OriginIp,
    out: &mut Attributes<'a>,
) {
    let found = match origin {
        OriginIp::Peer => request.source.address.map(|(address, _)| address),
        OriginIp::ExternalAddress => header(headers, b"x-envoy-external-address").and_then(host_ip),
        OriginIp::ForwardedFor(from_right) => header(headers, b"x-forwarded-for")
            .and_then(|list| list.rsplit(|byte| *byte == b',').nth(from_right - 1))
            .and_then(host_ip),
    };
    if let Some(address) = found {
        out.set(Known::OriginIp, Value::Bytes(ip_bytes(address, out.arena())));
    }
}

/// Sets the attributes that a header or metadata value carries. Returns the number of unconvertible ones.
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
                KeyOutcome::Set => {}
                KeyOutcome::Unconvertible | KeyOutcome::NotAnAttribute => failures += 1,
            }
        } else if name.as_bytes() == FORWARDED_ATTRIBUTES {
            failures += set_forwarded(value, out);
        }
    }
    failures
}
