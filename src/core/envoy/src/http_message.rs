//! Headers, paths and protocols of HTTP messages, for checks, access logs and mappings.

use bumpalo::collections::Vec as ArenaVec;

use super::attributes::{Attributes, Known};

/// The request header with attributes that proxies with a Mixer client send; any client can forge it.
pub(super) const FORWARDED_ATTRIBUTES: &[u8] = b"x-istio-attributes";

/// The value of the first header with this name.
pub(super) fn header<'a>(headers: &[(&'a [u8], &'a [u8])], name: &[u8]) -> Option<&'a [u8]> {
    headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
}

/// Sets the path, the path without the query, and the query parameters.
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
    // The first of equal keys counts; a map keeps the last.
    params.reverse();
    out.map(Known::RequestQueryParams, params);
}

/// Keys and values of a query, still encoded; empty parts are skipped.
pub(super) fn query_pairs(query: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    query.split(|byte| *byte == b'&').filter(|part| !part.is_empty()).map(|part| {
        let at = part.iter().position(|byte| *byte == b'=');
        match at.and_then(|at| part.split_at_checked(at)) {
            Some((key, value)) => (key, value.get(1..).unwrap_or_default()),
            None => (part, &[][..]),
        }
    })
}

/// The protocol of a content type: `grpc` or `http`.
pub(super) fn protocol(content_type: &[u8]) -> &'static [u8] {
    match content_type {
        b"application/grpc" | b"application/grpc+proto" | b"application/grpc+json" => b"grpc",
        _ => b"http",
    }
}
