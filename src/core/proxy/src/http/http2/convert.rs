//! Heads of HTTP/2 messages to [`Head`] and back.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery};
use http::{Method, Request, StatusCode, Uri, request, response};

use super::super::framing::{self, Framing};
use crate::head::{Head, HeadError, is_authority, is_bodiless};

/// Fields of a response.
const MAX_RESPONSE_FIELDS: usize = 100;

/// Fields that concern one connection of HTTP/1.1: a message of HTTP/2 has none of them.
fn is_of_connection(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" | b"host"
    )
}

/// Whether a text is a scheme. Spec: RFC 3986 section 3.1.
fn is_scheme(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_alphabetic)
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
}

/// Whether a value is without blanks and tabs at its ends, which every parser of HTTP/1.1 leaves out: policies would see another value than a host.
/// Spec: RFC 9113 section 8.2.1.
fn is_trimmed(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    bytes.trim_ascii().len() == bytes.len()
}

/// Removes blanks from the ends of values.
pub(super) fn trim(fields: &mut HeaderMap) {
    for value in fields.values_mut().filter(|value| !is_trimmed(value)) {
        if let Ok(trimmed) = HeaderValue::from_bytes(value.as_bytes().trim_ascii()) {
            *value = trimmed;
        }
    }
}

/// Whether trailers of a request are valid: as [`are_trailers`], and without blanks at the ends of values.
pub(super) fn are_request_trailers(trailers: &HeaderMap, max_fields: usize) -> bool {
    are_trailers(trailers, max_fields) && trailers.values().all(is_trimmed)
}

/// Whether trailers of a response are valid.
pub(super) fn are_response_trailers(trailers: &HeaderMap) -> bool {
    are_trailers(trailers, MAX_RESPONSE_FIELDS)
}

/// Whether trailers are no more than so many fields, and leave to the head what it says of the end of a message, and of where it goes: who merges
/// them reads two of it otherwise.
fn are_trailers(trailers: &HeaderMap, max_fields: usize) -> bool {
    let is_of_head = |name: &[u8]| is_of_connection(name) || matches!(name, b"content-length" | b"te");
    trailers.len() <= max_fields && !trailers.keys().any(|name| is_of_head(name.as_str().as_bytes()))
}

/// Reads the head of a request into `head`. `is_end`: the request has no body. Names, values and what concerns a connection were checked by
/// the decoder. Returns the framing of the body, were it forwarded.
///
/// Errors: too many fields; a scheme that is none; several hosts or one that is no host; no path; a content length that is no number; a blank
/// at an end of a value.
pub(super) fn request(
    parts: &request::Parts,
    is_end: bool,
    max_fields: usize,
    head: &mut Head,
) -> Result<Framing, HeadError> {
    if parts.headers.len() > max_fields {
        return Err(HeadError::TooManyFields);
    }
    if !parts.headers.values().all(is_trimmed) {
        return Err(HeadError::Malformed);
    }
    let target = &parts.uri;
    // In lower case, as Envoy has it: routes and policies compare it, and schemes mean the same in any case.
    let scheme = target.scheme_str().map(str::to_ascii_lowercase);
    if scheme.as_deref().is_some_and(|scheme| !is_scheme(scheme.as_bytes())) {
        return Err(HeadError::Malformed);
    }
    let authority = target.authority().map(|authority| authority.as_str().as_bytes());
    let mut hosts = parts.headers.get_all(http::header::HOST).iter().map(HeaderValue::as_bytes);
    let host = hosts.next();
    // Whoever reads the request next may look at either of them.
    if hosts.next().is_some()
        || matches!((authority, host), (Some(authority), Some(host)) if authority != host)
    {
        return Err(HeadError::Malformed);
    }
    // Without `:authority` there is no host: the decoder drops the scheme then, by which routes and policies may decide.
    let authority = authority.unwrap_or_default();
    if !authority.is_empty() && !is_authority(authority) {
        return Err(HeadError::Malformed);
    }
    let path = target.path_and_query().map_or("", |path| path.as_str());
    if !path.starts_with('/') && path != "*" && parts.method != Method::CONNECT {
        return Err(HeadError::Malformed);
    }
    head.start_request(
        parts.method.as_str().as_bytes(),
        path.as_bytes(),
        authority,
        scheme.unwrap_or_default().as_bytes(),
    );
    let mut cookies: Vec<u8> = Vec::new();
    for (name, value) in &parts.headers {
        match name {
            &http::header::HOST => {}
            // Spec: RFC 9113 section 8.2.3.
            &http::header::COOKIE => {
                if !cookies.is_empty() {
                    cookies.extend_from_slice(b"; ");
                }
                cookies.extend_from_slice(value.as_bytes());
            }
            name => head.add(name.as_str(), value.as_bytes()),
        }
    }
    if !cookies.is_empty() {
        head.add("cookie", &cookies);
    }
    Ok(match framing::of_request(head)? {
        // Without a length: its end is that of the stream.
        Framing::Empty if !is_end => Framing::Chunked,
        framing => framing,
    })
}

/// The fields of a head, and whether that is all of them. They were checked when the head was read, configured or changed.
fn fields(head: &Head) -> (HeaderMap, bool) {
    let (mut headers, mut are_all) = (HeaderMap::new(), true);
    for (name, value) in head.fields().filter(|(name, _)| !is_of_connection(name)) {
        are_all &= match (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            (Ok(name), Ok(value)) => headers.try_append(name, value).is_ok(),
            _ => false,
        };
    }
    (headers, are_all)
}

/// The head of a response.
pub(super) fn response(head: &Head) -> http::Response<()> {
    let mut response = http::Response::new(());
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.version_mut() = http::Version::HTTP_2;
    (*response.headers_mut(), _) = fields(head);
    response
}

/// The length of a path that every URI may have.
const COMMON_LENGTH: usize = 32 << 10;

/// Whether a request can be sent over HTTP/2: its target and its host are those of a URI, which `<` is not, for example.
pub(in crate::http) fn is_sendable(head: &Head) -> bool {
    let is_common = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~?=&:".contains(byte);
    let (path, authority) = (head.path(), head.authority());
    (path.len() <= COMMON_LENGTH && path.iter().chain(authority).all(is_common))
        || (PathAndQuery::try_from(path).is_ok() && Authority::try_from(authority).is_ok())
}

/// The head of a request to a host. `None` if it cannot be written: a target that is no URI, or a field, which may restrict what it may do.
pub(super) fn to_request(head: &Head) -> Option<Request<()>> {
    let part = |name: &str| head.pseudo_or_field(name).unwrap_or_default();
    let target = Uri::builder().scheme(part(":scheme")).authority(part(":authority"));
    let (headers, are_all) = fields(head);
    if !are_all {
        return None;
    }
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(head.method()).ok()?;
    *request.uri_mut() = target.path_and_query(head.path()).build().ok()?;
    *request.version_mut() = http::Version::HTTP_2;
    *request.headers_mut() = headers;
    Some(request)
}

/// Reads the head of a response into `head`. `is_end`: the response has no body. Returns the framing of the body.
///
/// Errors: too many fields, a content length that is no number, a status that HTTP/2 does not have, a length beside a status without a body.
pub(super) fn response_head(
    parts: &response::Parts,
    is_end: bool,
    head: &mut Head,
) -> Result<Framing, HeadError> {
    if parts.headers.len() > MAX_RESPONSE_FIELDS {
        return Err(HeadError::TooManyFields);
    }
    if parts.status.is_informational() {
        return Err(HeadError::Malformed);
    }
    head.start_response(parts.status.as_u16());
    for (name, value) in &parts.headers {
        // Without blanks at its ends, as clients of HTTP/1.1 read it.
        head.add(name.as_str(), value.as_bytes().trim_ascii());
    }
    let declared = framing::of_request(head)?;
    if head.status == 204 && !matches!(declared, Framing::Empty | Framing::Length(0)) {
        return Err(HeadError::Framing);
    }
    Ok(match declared {
        // Data beside such a status would be the next response of a client of HTTP/1.1.
        _ if is_end || is_bodiless(head.status) => Framing::Empty,
        Framing::Length(length) if length > 0 => declared,
        // Its end is that of the stream; trailers may follow.
        _ => {
            head.remove(b"content-length");
            Framing::UntilClose
        }
    })
}
