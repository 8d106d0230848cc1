//! What an authorization server is told of a request.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::SystemTime;

use bytes::Bytes;

use mixer_wire::envoy::config::core::v3::{Address, Metadata, SocketAddress, address};
use mixer_wire::envoy::service::auth::v3::attribute_context::{HttpRequest, Peer, Request, TlsSession};
use mixer_wire::envoy::service::auth::v3::{AttributeContext, CheckRequest};

use crate::connection_info::ConnectionInfo;
use crate::head::Head;

/// The header that says whether the body is not told as a whole.
const PARTIAL: &str = "x-envoy-auth-partial-body";

/// What is known of a request.
#[derive(Debug)]
pub(crate) struct Facts<'f> {
    pub(crate) head: &'f Head,
    pub(crate) connection: &'f ConnectionInfo,
    pub(crate) start: SystemTime,
    /// `HTTP/1.1` or `HTTP/2`.
    pub(crate) protocol: &'static str,
    /// What is told of the body; `None` if it is not.
    pub(crate) body: Option<Body>,
}

/// What is told of the body of a request.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) data: Vec<u8>,
    /// Bytes of it that have arrived.
    pub(crate) received: u64,
    /// Whether there is more of it.
    pub(crate) is_partial: bool,
    /// Whether it is told as bytes and not as text.
    pub(crate) as_bytes: bool,
}

/// What the server is told. The body is moved into it: it may be long.
pub(crate) fn check_request(
    facts: Facts<'_>,
    context_extensions: BTreeMap<String, String>,
    with_tls_session: bool,
) -> CheckRequest {
    let (head, connection) = (facts.head, facts.connection);
    let service = head.get("x-envoy-downstream-service-cluster").map(text).unwrap_or_default();
    let attributes = AttributeContext {
        source: Some(Peer {
            address: Some(address_of(connection.remote)),
            service,
            principal: principal(connection),
            ..Peer::default()
        }),
        destination: Some(Peer { address: Some(address_of(connection.local)), ..Peer::default() }),
        request: Some(Request { time: Some(facts.start.into()), http: Some(http(facts)) }),
        context_extensions,
        metadata_context: Some(Metadata::default()),
        tls_session: with_tls_session.then(|| TlsSession { sni: connection.server_name.clone() }),
        route_metadata_context: Some(Metadata::default()),
    };
    CheckRequest { attributes: Some(attributes) }
}

fn http(facts: Facts<'_>) -> HttpRequest {
    let Facts { head, protocol, body, .. } = facts;
    let pseudo = |name: &str| head.pseudo_or_field(name).map(text).unwrap_or_default();
    let mut request = HttpRequest {
        id: fastrand::u64(..).to_string(),
        method: pseudo(":method"),
        headers: headers(head),
        path: pseudo(":path"),
        host: pseudo(":authority"),
        scheme: pseudo(":scheme"),
        size: body.as_ref().map_or(0, |body| i64::try_from(body.received).unwrap_or(i64::MAX)),
        protocol: protocol.to_owned(),
        ..HttpRequest::default()
    };
    if let Some(body) = body {
        request.headers.insert(PARTIAL.to_owned(), body.is_partial.to_string());
        if body.as_bytes {
            request.raw_body = Bytes::from(body.data);
        } else {
            request.body = String::from_utf8(body.data).unwrap_or_else(|error| text(error.as_bytes()));
        }
    }
    request
}

/// Pseudo headers and headers; several of a name are one, with commas.
fn headers(head: &Head) -> BTreeMap<String, String> {
    let pseudo = [":method", ":path", ":authority", ":scheme"];
    let pseudo = pseudo.into_iter().filter_map(|name| Some((name.as_bytes(), head.pseudo_or_field(name)?)));
    let mut all = BTreeMap::<String, String>::new();
    for (name, value) in pseudo.chain(head.fields()).filter(|(name, _)| *name != PARTIAL.as_bytes()) {
        let value = text(value);
        match all.get_mut(text(name).as_str()) {
            Some(before) => {
                before.push(',');
                before.push_str(&value);
            }
            None => {
                all.insert(text(name), value);
            }
        }
    }
    all
}

/// Text of a message: bytes that are not UTF-8 are `!`, as with Envoy.
fn text(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|_| out.push('!'));
    }
    out
}

/// The name of the client by its certificate.
fn principal(connection: &ConnectionInfo) -> String {
    let peer = connection.tls.as_ref().and_then(|tls| tls.peer.as_ref());
    peer.map(|peer| peer.uris.first().or(peer.dns.first()).unwrap_or(&peer.subject).clone())
        .unwrap_or_default()
}

fn address_of(address: SocketAddr) -> Address {
    let socket = SocketAddress { address: address.ip().to_string(), port_value: u32::from(address.port()) };
    Address { address: Some(address::Address::SocketAddress(socket)) }
}
