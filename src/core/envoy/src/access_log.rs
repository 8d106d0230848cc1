//! Entries of access logs as attributes. Spec: envoy-bridge.md 3.3 to 3.6.

mod codes;
mod http;
mod tcp;

use bumpalo::collections::Vec as ArenaVec;

use super::attributes::{Attributes, Known};
use super::check_request::set_static;
use super::convert::{Taken, set_by_key};
use super::identity::{Side, namespace_of, set_principal, set_service, without_scheme};
use super::mapping::{LoggedCertificate, Parts, set_mapped};
use super::metadata::{Field, field, flat, namespaces, set_metadata, text};
use super::node::LogIdentity;
use super::wire::{
    FieldValue, address, concat, each_bytes, each_field, instant, int64, ip_bytes, length, map_entry, wrapped,
};
use crate::config::{EnvoyConfig, Principal, ReporterKind};
use mixer_attribute::{DecodeError, SignedDuration, Timestamp, Value};

pub(super) use codes::name_of_code;
pub use tcp::ConnectionCounters;

/// What kind of entries a message has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// `http_logs`.
    Http,
    /// `tcp_logs`.
    Tcp,
}

/// A `StreamAccessLogsMessage`, taken apart.
#[derive(Debug, Default)]
pub struct LogMessage<'a> {
    /// The identifier, in the first message of a stream.
    pub identifier: Option<&'a [u8]>,
    /// The bytes of every entry with its kind.
    pub entries: Vec<(LogKind, &'a [u8])>,
}

impl<'a> LogMessage<'a> {
    /// Takes a message apart. Errors: the bytes are no message.
    pub fn read(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        let mut result = Ok(());
        each_bytes(body, |number, bytes| {
            let kind = match number {
                1 => {
                    message.identifier = Some(bytes);
                    return;
                }
                2 => LogKind::Http,
                3 => LogKind::Tcp,
                _ => return,
            };
            let read = each_bytes(bytes, |number, entry| {
                if number == 1 {
                    message.entries.push((kind, entry));
                }
            });
            if read.is_err() {
                result = read;
            }
        })?;
        result.map(|()| message)
    }
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Its attributes are set; how many values could not be converted.
    Report(u32),
    /// It is of a kind that is not reported.
    Ignored,
}

/// `AccessLogCommon`.
#[derive(Default)]
struct Common<'a> {
    remote: Option<&'a [u8]>,
    direct_remote: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    upstream: Option<&'a [u8]>,
    tls: Option<&'a [u8]>,
    start: Option<Timestamp>,
    last_byte: Option<SignedDuration>,
    duration: Option<SignedDuration>,
    cluster: &'a [u8],
    flags: &'a [u8],
    metadata: &'a [u8],
    upstream_failure: &'a [u8],
    downstream_failure: &'a [u8],
    termination: &'a [u8],
    route: &'a [u8],
    stream_id: &'a [u8],
    attempts: u64,
    kind: u64,
    custom_tags: Option<ArenaVec<'a, (&'a [u8], &'a [u8])>>,
    downstream_peer: Option<&'a [u8]>,
    upstream_peer: Option<&'a [u8]>,
}

/// Sets the attributes of an entry.
///
/// Errors: the bytes are no message.
pub fn set_entry<'a>(
    (kind, body): (LogKind, &'a [u8]),
    identity: &'a LogIdentity,
    config: &'a EnvoyConfig,
    counters: &mut ConnectionCounters,
    out: &mut Attributes<'a>,
) -> Result<Entry, DecodeError> {
    let mut parts: [Option<&[u8]>; 4] = [None; 4];
    let mut protocol = 0;
    each_field(body, |number, value| match value {
        FieldValue::Bytes(bytes) => {
            if let Some(place) = super::wire::numbered(number, &mut parts) {
                *place = Some(bytes);
            }
        }
        FieldValue::Varint(value) if number == 2 => protocol = value,
        _ => {}
    })?;
    let [common, connection, request, response] = parts;
    let common = read_common(common.unwrap_or_default(), out)?;
    if common.kind < 64 && config.access_log_types >> common.kind & 1 == 0 {
        return Ok(Entry::Ignored);
    }
    let log = std::str::from_utf8(&identity.log_name).ok().and_then(|name| config.log_names.get(name));
    let outbound = match log.and_then(|log| log.reporter_kind) {
        Some(kind) => kind == ReporterKind::Outbound,
        None => common.cluster.starts_with(b"outbound|") || common.cluster == b"PassthroughCluster",
    };
    if let Some(log) = log {
        set_static(&log.static_attributes, out);
    }
    out.text(Known::ReporterKind, if outbound { b"outbound" } else { b"inbound" });
    let side = if outbound { Side::Source } else { Side::Destination };
    identity.set(side, out);
    out.some_text(Known::AccessLogName, &identity.log_name);
    let certificate = set_common(&common, outbound, config, out)?;
    let mut mapped = Parts { metadata: common.metadata, logged_certificate: certificate, ..Parts::default() };
    let code = match kind {
        LogKind::Http => {
            let entry = http::read(protocol, request.unwrap_or_default(), response.unwrap_or_default(), out)?;
            http::set(&entry, &common, out);
            mapped.request_headers = entry.request_headers;
            mapped.response_headers = entry.response_headers;
            mapped.path = entry.path();
            Some((entry.status(), entry.details))
        }
        LogKind::Tcp => {
            tcp::set(connection.unwrap_or_default(), &common, counters, out)?;
            None
        }
    };
    set_metadata(common.metadata, out)?;
    set_check(&common, code, out)?;
    let mut failures = 0;
    let mut others = ArenaVec::new_in(out.arena());
    for (key, value) in common.custom_tags.as_deref().unwrap_or_default() {
        match set_by_key(key, value, out) {
            Taken::Set => {}
            Taken::Unconvertible => failures += 1,
            Taken::Other => others.push((*key, *value)),
        }
    }
    if !others.is_empty() {
        out.map(Known::CustomTags, others);
    }
    if !config.mappings.is_empty() {
        let tags = out.arena().alloc_slice_copy(common.custom_tags.as_deref().unwrap_or_default());
        mapped.extensions = tags;
        failures += set_mapped(&config.mappings, &mapped, out);
    }
    Ok(Entry::Report(failures))
}

fn read_common<'a>(body: &'a [u8], out: &Attributes<'a>) -> Result<Common<'a>, DecodeError> {
    let mut common = Common::default();
    let mut result = Ok(());
    each_field(body, |number, value| match (number, value) {
        (24, FieldValue::Varint(number)) => common.attempts = number,
        (33, FieldValue::Varint(number)) => common.kind = number,
        (number, FieldValue::Bytes(bytes)) => match number {
            2 => common.remote = Some(bytes),
            3 => common.local = Some(bytes),
            4 => common.tls = Some(bytes),
            5 => common.start = instant(bytes),
            12 => common.last_byte = length(bytes),
            13 => common.upstream = Some(bytes),
            15 => common.cluster = bytes,
            16 => common.flags = bytes,
            17 => common.metadata = bytes,
            18 => common.upstream_failure = bytes,
            19 => common.route = bytes,
            20 => common.direct_remote = Some(bytes),
            21 => match map_entry(bytes) {
                Ok((b"downstream_peer", any)) => common.downstream_peer = Some(any),
                Ok((b"upstream_peer", any)) => common.upstream_peer = Some(any),
                Ok(_) => {}
                Err(error) => result = Err(error),
            },
            22 => {
                let tags = common.custom_tags.get_or_insert_with(|| ArenaVec::new_in(out.arena()));
                match map_entry(bytes) {
                    Ok(entry) => tags.push(entry),
                    Err(error) => result = Err(error),
                }
            }
            23 => common.duration = length(bytes),
            25 => common.termination = bytes,
            26 => common.stream_id = bytes,
            28 => common.downstream_failure = bytes,
            _ => {}
        },
        _ => {}
    })?;
    result.map(|()| common)
}

impl Common<'_> {
    /// How long it took, by the better of two measures.
    fn took(&self) -> Option<SignedDuration> {
        self.duration.or(self.last_byte)
    }
}

/// Sets everything that HTTP and TCP have in common, but metadata and tags.
fn set_common<'a>(
    common: &Common<'a>,
    outbound: bool,
    config: &EnvoyConfig,
    out: &mut Attributes<'a>,
) -> Result<LoggedCertificate<'a>, DecodeError> {
    set_addresses(common, outbound, out)?;
    out.some_text(Known::UpstreamCluster, common.cluster);
    set_service(common.cluster, out);
    let certificate = match common.tls {
        Some(tls) => set_tls(tls, config, out)?,
        None => {
            out.set(Known::ConnectionMtls, Value::Bool(false));
            LoggedCertificate::default()
        }
    };
    out.text(Known::ProxyErrorCode, codes::response_flags(common.flags, out.arena())?);
    out.some_text(Known::RouteName, common.route);
    out.some_text(Known::UpstreamFailureReason, common.upstream_failure);
    out.some_text(Known::DownstreamFailureReason, common.downstream_failure);
    out.some_text(Known::TerminationDetails, common.termination);
    if common.attempts > 0 {
        out.number(Known::UpstreamAttempts, int64(common.attempts));
    }
    for (side, any) in [(Side::Source, common.downstream_peer), (Side::Destination, common.upstream_peer)] {
        if let Some(any) = any {
            set_peer(side, any, out)?;
        }
    }
    Ok(certificate)
}

fn set_addresses<'a>(
    common: &Common<'a>,
    outbound: bool,
    out: &mut Attributes<'a>,
) -> Result<(), DecodeError> {
    let arena = out.arena();
    let read = |body: Option<&[u8]>| body.map_or(Ok(None), address);
    let remote = read(common.remote)?;
    if let Some((ip, _)) = remote {
        out.set(Known::OriginIp, Value::Bytes(ip_bytes(ip, arena)));
    }
    let upstream = read(common.upstream)?;
    let local = read(common.local)?;
    for (place, ip, port) in [
        (read(common.direct_remote)?.or(remote), Known::SourceIp, Known::SourcePort),
        (if outbound { upstream.or(local) } else { local }, Known::DestinationIp, Known::DestinationPort),
        (upstream, Known::UpstreamIp, Known::UpstreamPort),
    ] {
        if let Some((address, number)) = place {
            out.set(ip, Value::Bytes(ip_bytes(address, arena)));
            if number != 0 {
                out.number(port, number);
            }
        }
    }
    Ok(())
}

/// `TLSProperties`.
fn set_tls<'a>(
    body: &'a [u8],
    config: &EnvoyConfig,
    out: &mut Attributes<'a>,
) -> Result<LoggedCertificate<'a>, DecodeError> {
    let (mut version, mut cipher, mut sni) = (0, None, &[][..]);
    let (mut local, mut peer) = (&[][..], &[][..]);
    each_field(body, |number, value| match (number, value) {
        (1, FieldValue::Varint(number)) => version = number,
        (2, FieldValue::Bytes(bytes)) => cipher = Some(wrapped(bytes)),
        (3, FieldValue::Bytes(bytes)) => sni = bytes,
        (4, FieldValue::Bytes(bytes)) => local = bytes,
        (5, FieldValue::Bytes(bytes)) => peer = bytes,
        _ => {}
    })?;
    let (local, peer) = (read_certificate(local)?, read_certificate(peer)?);
    let principal = |certificate: &LoggedCertificate<'a>| {
        let names = [certificate.uri_san, certificate.dns_san, certificate.subject];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        match config.settings.check.principal {
            Principal::UriOnly if !name.windows(3).any(|w| w == b"://") => &[][..],
            _ => name,
        }
    };
    set_principal(Side::Source, principal(&peer), out);
    set_principal(Side::Destination, principal(&local), out);
    let known_peer = [peer.uri_san, peer.dns_san, peer.subject].iter().any(|name| !name.is_empty());
    out.set(Known::ConnectionMtls, Value::Bool(known_peer));
    out.some_text(Known::RequestedServerName, sni);
    out.some_text(Known::TlsVersion, codes::tls_version(version));
    if let Some(cipher) = cipher {
        out.number(Known::TlsCipherSuite, int64(cipher));
    }
    out.some_text(Known::TlsPeerSubject, peer.subject);
    out.some_text(Known::TlsPeerIssuer, peer.issuer);
    Ok(peer)
}

/// `CertificateProperties`.
fn read_certificate(body: &[u8]) -> Result<LoggedCertificate<'_>, DecodeError> {
    let mut certificate = LoggedCertificate::default();
    let mut result = Ok(());
    each_bytes(body, |number, bytes| match number {
        1 => {
            let read = each_bytes(bytes, |number, name| {
                let place = match number {
                    1 => &mut certificate.uri_san,
                    2 => &mut certificate.dns_san,
                    _ => return,
                };
                if place.is_empty() {
                    *place = name;
                }
            });
            if read.is_err() {
                result = read;
            }
        }
        2 => certificate.subject = bytes,
        3 => certificate.issuer = bytes,
        _ => {}
    })?;
    result.map(|()| certificate)
}

/// What today's Istio knows of a peer: an Any with a Struct, or with a BytesValue that holds one.
fn set_peer<'a>(side: Side, any: &'a [u8], out: &mut Attributes<'a>) -> Result<(), DecodeError> {
    use Known::*;
    let (url, value) = map_entry(any)?;
    let mut body = value;
    if url.ends_with(b"google.protobuf.BytesValue") {
        each_bytes(value, |number, bytes| {
            if number == 1 {
                body = bytes;
            }
        })?;
    }
    let [name, namespace, workload, workload_namespace, labels, principal, rest] = match side {
        Side::Source => [
            SourceName,
            SourceNamespace,
            SourceWorkloadName,
            SourceWorkloadNamespace,
            SourceLabels,
            SourcePrincipal,
            DownstreamPeer,
        ],
        Side::Destination => [
            DestinationName,
            DestinationNamespace,
            DestinationWorkloadName,
            DestinationWorkloadNamespace,
            DestinationLabels,
            DestinationPrincipal,
            UpstreamPeer,
        ],
    };
    out.some_text(name, text(body, b"name").unwrap_or_default());
    out.some_text(workload, text(body, b"workload").unwrap_or_default());
    if let Some(text) = text(body, b"namespace") {
        out.text(namespace, text);
        out.text(workload_namespace, text);
    }
    if side == Side::Destination {
        out.some_text(DestinationServiceName, text(body, b"service").unwrap_or_default());
    }
    if let Some(identity) = text(body, b"identity")
        && out.get(principal).is_none()
    {
        set_identity(side, without_scheme(identity), out);
    }
    if let Some(Field::Struct(fields)) = field(body, b"labels") {
        let entries = flat(fields, out.arena());
        if !entries.is_empty() {
            out.map(labels, entries);
        }
    }
    let taken: &[&[u8]] = match side {
        Side::Source => &[b"name", b"workload", b"namespace", b"identity"],
        Side::Destination => &[b"name", b"workload", b"namespace", b"identity", b"service"],
    };
    let mut others = flat(body, out.arena());
    others.retain(|(key, _)| !taken.contains(key));
    if !others.is_empty() {
        out.map(rest, others);
    }
    Ok(())
}

/// A principal that leaves a namespace that is known.
fn set_identity<'a>(side: Side, identity: &'a [u8], out: &mut Attributes<'a>) {
    let namespace = out.get(Known::SourceNamespace).is_some();
    match side {
        Side::Source => {
            out.text(Known::SourcePrincipal, identity);
            out.text(Known::SourceUser, identity);
            if let Some(text) = namespace_of(identity).filter(|_| !namespace) {
                out.text(Known::SourceNamespace, text);
            }
        }
        Side::Destination => out.text(Known::DestinationPrincipal, identity),
    }
}

/// What the check of the same request decided. `http` is its status and the details of that. Spec: envoy-bridge.md 3.6.
fn set_check<'a>(
    common: &Common<'a>,
    http: Option<(u64, &'a [u8])>,
    out: &mut Attributes<'a>,
) -> Result<(), DecodeError> {
    let arena = out.arena();
    let mut decided = false;
    namespaces(common.metadata, |namespace, body| {
        if !matches!(namespace, b"envoy.filters.http.ext_authz" | b"envoy.filters.network.ext_authz") {
            return;
        }
        if let Some(cache) = text(body, b"mixer_cache") {
            out.set(Known::CheckCacheHit, Value::Bool(cache == b"hit"));
        }
        let Some(name) = text(body, b"mixer_code").filter(|name| *name != b"OK") else { return };
        decided = true;
        if let Some(code) = codes::code_of_name(name) {
            out.number(Known::CheckErrorCode, code);
        }
        let message = text(body, b"mixer_message").unwrap_or_default();
        let full = if message.is_empty() { name } else { concat(&[name, b":", message], arena) };
        out.text(Known::CheckErrorMessage, full);
    })?;
    if decided || !codes::is_unauthorized(common.flags)? {
        return Ok(());
    }
    let code = match http {
        Some((_, b"ext_authz_error")) => 14,
        Some((status, _)) => codes::code_of_status(status),
        None => 7,
    };
    out.number(Known::CheckErrorCode, code);
    out.text(Known::CheckErrorMessage, codes::name_of_code(code).as_bytes());
    Ok(())
}
