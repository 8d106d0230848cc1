//! What an authorization server is told of a request.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use tonic::Status;

use mixer_wire::envoy::config::core::v3::{Address, Metadata, SocketAddress, address};
use mixer_wire::envoy::service::auth::v3::attribute_context::{HttpRequest, Peer, Request, TlsSession};
use mixer_wire::envoy::service::auth::v3::{AttributeContext, CheckRequest};

use crate::connection_info::ConnectionInfo;
use crate::grpc::Framed;
use crate::head::Head;

/// The header that says whether the body is not told as a whole.
const PARTIAL: &str = "x-envoy-auth-partial-body";

/// The fields that lead to the body: `attributes.request.http.body`, or `raw_body`.
const ATTRIBUTES: u32 = 1;
const REQUEST: u32 = 4;
const HTTP: u32 = 2;
const BODY: u32 = 11;
const RAW_BODY: u32 = 12;

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
    /// In pieces, which the request shares.
    pub(crate) data: Vec<Bytes>,
    /// Bytes of it that have arrived.
    pub(crate) received: u64,
    /// Whether there is more of it.
    pub(crate) is_partial: bool,
    /// Whether it is told as bytes and not as text.
    pub(crate) as_bytes: bool,
}

/// What the server is told, and of the body what is still to be sent with it: it may be long, and is not copied.
#[derive(Debug)]
pub(crate) struct Check {
    message: CheckRequest,
    body: Option<Body>,
}

impl Check {
    /// Of a request.
    pub(crate) fn new(
        mut facts: Facts<'_>,
        context_extensions: BTreeMap<String, String>,
        with_tls_session: bool,
    ) -> Self {
        let body = facts.body.take();
        let mut message = check_request(facts, context_extensions, with_tls_session);
        let attributes = message.attributes.as_mut();
        let request = attributes.and_then(|attributes| attributes.request.as_mut());
        if let (Some(http), Some(body)) = (request.and_then(|request| request.http.as_mut()), &body) {
            http.size = i64::try_from(body.received).unwrap_or(i64::MAX);
            http.headers.insert(PARTIAL.to_owned(), body.is_partial.to_string());
        }
        Self { message, body }
    }

    /// The message with its prefix: the body is the last field, and follows in pieces.
    ///
    /// Errors: it has more than 4 GiB.
    pub(super) fn framed(self) -> Result<Framed, Status> {
        let Self { mut message, body } = self;
        let data = body.map(|body| (body.data.iter().map(Bytes::len).sum::<usize>(), body));
        let Some((length, body)) = data.filter(|(length, _)| *length > 0) else {
            return Framed::of(message);
        };
        let mut attributes = message.attributes.take().unwrap_or_default();
        let mut request = attributes.request.take().unwrap_or_default();
        let http = request.http.take().unwrap_or_default();
        // Each contains the next as its last field.
        let field = |length: usize| 1 + encoded_len_varint(number(length)) + length;
        let http_length = http.encoded_len() + field(length);
        let request_length = request.encoded_len() + field(http_length);
        let attributes_length = attributes.encoded_len() + field(request_length);
        let is_text = !body.as_bytes;
        Framed::begin(field(attributes_length), length, |out| {
            let begin = |tag: u32, length: usize, out: &mut BytesMut| {
                encode_key(tag, WireType::LengthDelimited, out);
                encode_varint(number(length), out);
            };
            begin(ATTRIBUTES, attributes_length, out);
            attributes.encode_raw(out);
            begin(REQUEST, request_length, out);
            request.encode_raw(out);
            begin(HTTP, http_length, out);
            http.encode_raw(out);
            begin(if is_text { BODY } else { RAW_BODY }, length, out);
        })
        .map(|framed| framed.with(body.data, is_text))
    }
}

fn number(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// What the server is told but for the body.
fn check_request(
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
        tls_session: with_tls_session
            .then(|| TlsSession { sni: connection.requested_server_name().to_owned() }),
        route_metadata_context: Some(Metadata::default()),
    };
    CheckRequest { attributes: Some(attributes) }
}

fn http(facts: Facts<'_>) -> HttpRequest {
    let Facts { head, protocol, .. } = facts;
    let pseudo = |name: &str| head.pseudo_or_field(name).map(text).unwrap_or_default();
    HttpRequest {
        id: fastrand::u64(..).to_string(),
        method: pseudo(":method"),
        headers: headers(head),
        path: pseudo(":path"),
        host: pseudo(":authority"),
        scheme: pseudo(":scheme"),
        protocol: protocol.to_owned(),
        ..HttpRequest::default()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_the_name_of_the_handshake_without_an_inspector() {
        let mut head = Head::default();
        head.read_request(b"GET /a HTTP/1.1\r\nhost: h\r\n\r\n", 10).unwrap();
        let told = |inspected: &str, negotiated: Option<&str>| {
            let mut connection =
                ConnectionInfo::new(([10, 1, 2, 3], 5000).into(), ([192, 0, 2, 1], 443).into());
            connection.server_name = inspected.to_owned();
            connection.tls = negotiated.map(|name| mixer_net::tls::context::TlsSession {
                server_name: Some(name.to_owned()),
                ..Default::default()
            });
            let (start, protocol) = (SystemTime::UNIX_EPOCH, "HTTP/1.1");
            let facts = Facts { head: &head, connection: &connection, start, protocol, body: None };
            let session = check_request(facts, BTreeMap::new(), true).attributes.unwrap().tls_session;
            session.unwrap().sni
        };
        for (inspected, negotiated, expected) in [
            ("", Some("a.test"), "a.test"),
            ("b.test", Some("a.test"), "b.test"),
            ("", None, ""),
            ("c", None, "c"),
        ] {
            assert_eq!(told(inspected, negotiated), expected, "{inspected} {negotiated:?}");
        }
    }

    /// What a server reads.
    fn read(check: Check) -> (Vec<Bytes>, CheckRequest) {
        let framed = check.framed().unwrap();
        let pieces: Vec<Bytes> = std::iter::once(framed.head.clone()).chain(framed.body()).collect();
        let bytes = pieces.concat();
        let length = u32::from_be_bytes(bytes[1..5].try_into().unwrap());
        assert_eq!((bytes[0], length as usize), (0, bytes.len() - 5));
        (pieces, CheckRequest::decode(&bytes[5..]).unwrap())
    }

    #[test]
    fn a_body_is_the_last_field_and_is_not_copied() {
        let mut head = Head::default();
        head.read_request(b"POST /a HTTP/1.1\r\nhost: h\r\nx-a: 1\r\n\r\n", 10).unwrap();
        let connection = ConnectionInfo::new(([10, 1, 2, 3], 5000).into(), ([192, 0, 2, 1], 443).into());
        let extensions: BTreeMap<String, String> = [("k".to_owned(), "v".repeat(300))].into();
        let check = |pieces: &[&'static [u8]], as_bytes: bool| {
            let data: Vec<Bytes> = pieces.iter().map(|piece| Bytes::from_static(piece)).collect();
            let body = Some(Body { data, received: 7, is_partial: true, as_bytes });
            let start = SystemTime::UNIX_EPOCH;
            let facts = Facts { head: &head, connection: &connection, start, protocol: "HTTP/1.1", body };
            Check::new(facts, extensions.clone(), true)
        };
        static LONG: [u8; 70_000] = [b'x'; 70_000];
        let cases: [&[&[u8]]; 5] =
            [&[], &[b"abc"], &[b"a", b"bc", &LONG], &[b"\xc3", b"\xa9"], &[&LONG, b"\xff"]];
        for pieces in cases {
            let whole = pieces.concat();
            let (sent, found) = read(check(pieces, true));
            assert!(sent.iter().skip(1).zip(pieces).all(|(sent, piece)| sent.as_ptr() == piece.as_ptr()));
            let attributes = found.attributes.unwrap();
            assert_eq!(attributes.context_extensions, extensions);
            let request = attributes.request.unwrap();
            assert_eq!(request.time, Some(SystemTime::UNIX_EPOCH.into()));
            let http = request.http.unwrap();
            assert_eq!((http.path.as_str(), http.size, http.body.as_str()), ("/a", 7, ""));
            assert_eq!(http.headers.get(PARTIAL).map(String::as_str), Some("true"));
            assert!(http.raw_body == whole);
            let (_, found) = read(check(pieces, false));
            let http = found.attributes.unwrap().request.unwrap().http.unwrap();
            assert!(http.body == text(&whole) && http.raw_body.is_empty());
        }
    }
}
