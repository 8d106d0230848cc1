//! `AttributeContext.HttpRequest`.

use std::collections::hash_map::Entry;

use bumpalo::collections::Vec as ArenaVec;
use foldhash::HashMap;
use rustc_hash::FxHashMap;

use super::super::attributes::{Attributes, Known};
use super::super::http_message::{FORWARDED_ATTRIBUTES, header, protocol, set_path};
use super::super::wire::{FieldBudget, FieldValue};
use mixer_attribute::{DecodeError, Timestamp, Value};

/// The header with which Envoy tells the authorization service that the body is truncated.
const PARTIAL_BODY: &[u8] = b"x-envoy-auth-partial-body";

/// The fields of an HTTP request.
#[derive(Default)]
pub(super) struct HttpRequest<'a> {
    pub(super) id: &'a [u8],
    pub(super) method: &'a [u8],
    /// Names in lower case, repeated headers joined.
    pub(super) headers: &'a [(&'a [u8], &'a [u8])],
    pub(super) path: &'a [u8],
    pub(super) host: &'a [u8],
    pub(super) scheme: &'a [u8],
    pub(super) size: i64,
    pub(super) protocol: &'a [u8],
    pub(super) body: &'a [u8],
    pub(super) raw_body: &'a [u8],
}

pub(super) fn read<'a>(
    body: &'a [u8],
    budget: &FieldBudget,
    out: &Attributes<'a>,
) -> Result<HttpRequest<'a>, DecodeError> {
    let mut http = HttpRequest::default();
    let mut headers = ArenaVec::with_capacity_in(24, out.arena());
    budget.each_field(body, |number, value| {
        match (number, value) {
            (3, FieldValue::Bytes(entry)) => headers.push(budget.map_entry(entry)?),
            (13, FieldValue::Bytes(map)) => read_header_map(map, budget, &mut headers)?,
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
        }
        Ok(())
    })?;
    http.headers = headers.into_bump_slice();
    Ok(http)
}

/// Reads a `HeaderMap`; repeated headers are joined with a comma. Cost: linear in the bytes, however often a header is repeated.
fn read_header_map<'a>(
    body: &'a [u8],
    budget: &FieldBudget,
    out: &mut ArenaVec<'a, (&'a [u8], &'a [u8])>,
) -> Result<(), DecodeError> {
    let arena = out.bump();
    // Seeded: callers choose the names.
    let mut indices: HashMap<&'a [u8], usize> = HashMap::default();
    for (at, (name, _)) in out.iter().enumerate() {
        indices.entry(name).or_insert(at);
    }
    let mut joined: FxHashMap<usize, ArenaVec<'a, u8>> = FxHashMap::default();
    budget.each_bytes(body, |number, header| {
        if number != 1 {
            return Ok(());
        }
        let (mut key, mut value, mut raw) = (&[][..], &[][..], &[][..]);
        budget.each_bytes(header, |number, bytes| {
            match number {
                1 => key = bytes,
                2 => value = bytes,
                3 => raw = bytes,
                _ => {}
            }
            Ok(())
        })?;
        let value = if raw.is_empty() { value } else { raw };
        match indices.entry(key) {
            Entry::Vacant(index) => {
                index.insert(out.len());
                out.push((key, value));
            }
            Entry::Occupied(index) => {
                let first = out.get(*index.get()).map_or(&[][..], |(_, value)| value);
                let text = joined.entry(*index.get()).or_insert_with(|| {
                    let mut text = ArenaVec::new_in(arena);
                    text.extend_from_slice(first);
                    text
                });
                text.push(b',');
                text.extend_from_slice(value);
            }
        }
        Ok(())
    })?;
    for (at, text) in joined {
        if let Some((_, value)) = out.get_mut(at) {
            *value = text.into_bump_slice();
        }
    }
    Ok(())
}

/// Sets the attributes of an HTTP request. `includes_body` sets the body too.
pub(super) fn set<'a>(
    http: &HttpRequest<'a>,
    time: Timestamp,
    includes_body: bool,
    out: &mut Attributes<'a>,
) {
    let header = |name: &[u8]| header(http.headers, name);
    let mut headers = ArenaVec::with_capacity_in(http.headers.len(), out.arena());
    headers.extend(
        http.headers
            .iter()
            .copied()
            .filter(|(name, _)| *name != FORWARDED_ATTRIBUTES && *name != PARTIAL_BODY),
    );
    out.map(Known::RequestHeaders, headers);
    out.set(Known::RequestTime, Value::Timestamp(time));
    out.text(Known::RequestMethod, http.method);
    out.text(Known::RequestHost, http.host);
    out.text(Known::RequestScheme, if http.scheme.is_empty() { b"http" } else { http.scheme });
    // Also without a path, such as that of CONNECT: conditions on an absent attribute do not apply.
    out.text(Known::RequestUrlPath, b"");
    set_path(http.path, out);
    out.some_text(Known::RequestId, header(b"x-request-id").filter(|id| !id.is_empty()).unwrap_or(http.id));
    out.some_text(Known::RequestUserAgent, header(b"user-agent").unwrap_or_default());
    out.some_text(Known::RequestReferer, header(b"referer").unwrap_or_default());
    if http.size > 0 {
        out.number(Known::RequestSize, http.size);
    }
    out.text(Known::ContextProtocol, protocol(header(b"content-type").unwrap_or_default()));
    out.some_text(Known::HttpProtocol, http.protocol);
    if includes_body {
        // Envoy drops the header of a client.
        if let Some(partial) = header(PARTIAL_BODY) {
            out.set(Known::RequestBodyPartial, Value::Bool(partial != b"false"));
        }
        // Envoy sends a text or, over HTTP and with `pack_as_bytes`, bytes.
        out.some_text(Known::RequestBodyText, if http.body.is_empty() { http.raw_body } else { http.body });
        let raw = if http.raw_body.is_empty() { http.body } else { http.raw_body };
        if !raw.is_empty() {
            out.set(Known::RequestBodyRaw, Value::Bytes(raw));
        }
    }
}

#[cfg(test)]
mod tests {
    use bumpalo::Bump;

    use super::*;

    /// A field with this content.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).expect("a short field");
        assert!(length < 0x80);
        [&[number << 3 | 2, length], content].concat()
    }

    #[test]
    fn names_that_an_unseeded_hash_maps_to_one_value_are_read_like_others() {
        // rustc-hash computes the same hash for all names that begin so; comparing each with all before takes minutes.
        const NAMES: u64 = 100_000;
        let name = |number: u64| [0x243f_6a88_85a3_08d3_u64.to_le_bytes(), number.to_le_bytes()].concat();
        let map: Vec<u8> = (0..NAMES)
            .chain([7])
            .flat_map(|n| field(1, &[field(1, &name(n)), field(2, b"x")].concat()))
            .collect();
        let arena = Bump::new();
        let mut headers = ArenaVec::new_in(&arena);
        read_header_map(&map, &FieldBudget::unbounded(), &mut headers).unwrap();
        assert_eq!(headers.len() as u64, NAMES);
        assert_eq!(headers[7], (&name(7)[..], &b"x,x"[..]));
    }
}
