//! Dynamic metadata, route metadata and other `google.protobuf.Struct` messages.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

use super::attributes::{Attributes, Known};
use super::identity::{self, namespace_of};
use super::known::{KNOWN, is_standard};
use super::wire::{FieldValue, concat, each_bytes, each_field, map_entry};
use mixer_attribute::wire::Reader;
use mixer_attribute::{DecodeError, ValueType};

/// What the names of attributes of route metadata begin with, which the configuration of Envoy sets.
const OF_ROUTES: &[u8] = b"envoy.route_metadata.";

/// Maximum nesting of values in JSON.
const MAX_DEPTH: usize = 32;

/// A `google.protobuf.Value`, decoded one level deep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field<'a> {
    Null,
    Number(f64),
    Text(&'a [u8]),
    Bool(bool),
    /// The bytes of a Struct.
    Struct(&'a [u8]),
    /// The bytes of a ListValue.
    List(&'a [u8]),
}

impl<'a> Field<'a> {
    /// Decodes a Value; the last of several kinds counts, as for every oneof.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut found = Field::Null;
        each_field(body, |number, value| match (number, value) {
            (1, FieldValue::Varint(_)) => found = Field::Null,
            (2, FieldValue::Fixed64(bits)) => found = Field::Number(f64::from_bits(bits)),
            (3, FieldValue::Bytes(text)) => found = Field::Text(text),
            (4, FieldValue::Varint(flag)) => found = Field::Bool(flag != 0),
            (5, FieldValue::Bytes(body)) => found = Field::Struct(body),
            (6, FieldValue::Bytes(body)) => found = Field::List(body),
            _ => {}
        })?;
        Ok(found)
    }
}

/// The decodable fields of a Struct, in wire order.
pub(super) fn fields(body: &[u8]) -> impl Iterator<Item = (&[u8], Field<'_>)> {
    let mut reader = Reader::new(body);
    std::iter::from_fn(move || {
        loop {
            let (number, wire_type) = reader.tag().ok()??;
            if number != 1 || wire_type != 2 {
                reader.skip(wire_type).ok()?;
                continue;
            }
            let (key, value) = map_entry(reader.bytes().ok()?).ok()?;
            return Some((key, Field::read(value).ok()?));
        }
    })
}

/// The items of a ListValue.
pub(super) fn items(body: &[u8]) -> impl Iterator<Item = Field<'_>> {
    let mut reader = Reader::new(body);
    std::iter::from_fn(move || {
        loop {
            let (number, wire_type) = reader.tag().ok()??;
            if number != 1 || wire_type != 2 {
                reader.skip(wire_type).ok()?;
                continue;
            }
            return Field::read(reader.bytes().ok()?).ok();
        }
    })
}

/// The field of a Struct with this name.
pub(super) fn field<'a>(body: &'a [u8], name: &[u8]) -> Option<Field<'a>> {
    fields(body).filter(|(key, _)| *key == name).map(|(_, value)| value).last()
}

/// A non-empty string field of a Struct.
pub(super) fn text<'a>(body: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    match field(body, name)? {
        Field::Text(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// The items of a list joined with commas; an item that is no string counts as empty. In an item that has a comma or a percent sign these are
/// `%2C` and `%25`: whoever may name one item does not name two.
pub(super) fn joined<'a>(list: &[u8], arena: &'a Bump) -> &'a [u8] {
    let mut out = ArenaVec::new_in(arena);
    for (index, item) in items(list).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if let Field::Text(text) = item {
            for byte in text {
                match byte {
                    b',' => out.extend_from_slice(b"%2C"),
                    b'%' => out.extend_from_slice(b"%25"),
                    byte => out.push(*byte),
                }
            }
        }
    }
    out.into_bump_slice()
}

/// The string and list fields of a Struct, as text.
pub(super) fn flat<'a>(body: &'a [u8], arena: &'a Bump) -> ArenaVec<'a, (&'a [u8], &'a [u8])> {
    let mut out = ArenaVec::new_in(arena);
    for (key, value) in fields(body) {
        match value {
            Field::Text(text) => out.push((key, text)),
            Field::List(list) => out.push((key, joined(list, arena))),
            _ => {}
        }
    }
    out
}

/// Sets the attributes of a `Metadata` message, in wire order; unknown namespaces become maps under their own names. Returns the number of
/// those that are left out because their names are [reserved](is_reserved).
pub(super) fn set_metadata<'a>(body: &'a [u8], out: &mut Attributes<'a>) -> Result<u32, DecodeError> {
    let mut left_out = 0;
    namespaces(body, |namespace, fields| match namespace {
        b"istio_authn" => set_istio_authn(fields, out),
        b"envoy.filters.http.jwt_authn" => set_jwt(fields, out),
        b"envoy.filters.http.rbac" => set_rbac(fields, out),
        b"istio.mixer" => {}
        _ if is_reserved(namespace, out) => {
            left_out += 1;
            mixer_base::warn_limited!(
                1,
                namespace = %String::from_utf8_lossy(namespace.get(..128).unwrap_or(namespace)).escape_debug(),
                "a namespace of dynamic metadata has the name of an attribute that comes from elsewhere: it is left out"
            );
        }
        _ => {
            let entries = flat(fields, out.arena());
            if !entries.is_empty() {
                out.map_named(namespace, entries);
            }
        }
    })?;
    Ok(left_out)
}

/// Whether the name of a namespace is that of an attribute that has another source: what a filter copies from a request would replace who sent
/// it, or which namespace it belongs to.
fn is_reserved(namespace: &[u8], out: &Attributes<'_>) -> bool {
    let vocabulary = out.vocabulary();
    let declared = vocabulary.slot(namespace).and_then(|slot| vocabulary.value_type(slot));
    is_standard(namespace)
        || namespace.starts_with(OF_ROUTES)
        || KNOWN.iter().any(|(_, name, _)| name.as_bytes() == namespace)
        || declared.is_some_and(|declared| !declared.holds(ValueType::StringMap))
}

/// Sets `envoy.route_metadata.<namespace>` for every namespace of a `Metadata` message.
pub(super) fn set_route_metadata<'a>(body: &'a [u8], out: &mut Attributes<'a>) -> Result<(), DecodeError> {
    namespaces(body, |namespace, fields| {
        let entries = flat(fields, out.arena());
        if !entries.is_empty() {
            let name = concat(&[OF_ROUTES, namespace], out.arena());
            out.map_named(name, entries);
        }
    })
}

/// Calls `each` for every namespace of a `Metadata` message with the bytes of its Struct.
pub(super) fn namespaces<'a>(
    body: &'a [u8],
    mut each: impl FnMut(&'a [u8], &'a [u8]),
) -> Result<(), DecodeError> {
    let mut bad = None;
    each_bytes(body, |number, entry| {
        if number == 1 {
            match map_entry(entry) {
                Ok((namespace, fields)) => each(namespace, fields),
                Err(error) => bad = Some(error),
            }
        }
    })?;
    bad.map_or(Ok(()), Err)
}

/// Sets the result of Istio's authentication filter.
fn set_istio_authn<'a>(body: &'a [u8], out: &mut Attributes<'a>) {
    for (known, name) in [
        (Known::AuthPrincipal, &b"request.auth.principal"[..]),
        (Known::AuthAudiences, b"request.auth.audiences"),
        (Known::AuthPresenter, b"request.auth.presenter"),
        (Known::AuthRawClaims, b"request.auth.raw_claims"),
    ] {
        if let Some(text) = text(body, name) {
            out.text(known, text);
        }
    }
    if let Some(Field::Struct(claims)) = field(body, b"request.auth.claims") {
        let entries = flat(claims, out.arena());
        out.map(Known::AuthClaims, entries);
    }
    let principal = text(body, b"source.principal").map(identity::without_scheme);
    if let Some(principal) = principal {
        out.text(Known::SourcePrincipal, principal);
    }
    if let Some(user) = text(body, b"source.user").or(principal) {
        out.text(Known::SourceUser, user);
    }
    if let Some(namespace) = text(body, b"source.namespace").or_else(|| principal.and_then(namespace_of)) {
        out.text(Known::SourceNamespace, namespace);
    }
}

/// Sets the payload that Envoy's JWT filter verified: the first one with issuer and subject, or else the first one. The filter writes the
/// header of the token, or why it failed, beside it.
fn set_jwt<'a>(body: &'a [u8], out: &mut Attributes<'a>) {
    let payloads = || {
        fields(body).filter_map(|(_, value)| match value {
            Field::Struct(payload) => Some(payload),
            _ => None,
        })
    };
    let is_identity = |payload: &&[u8]| text(payload, b"iss").is_some() && text(payload, b"sub").is_some();
    let Some(payload) = payloads().find(is_identity).or_else(|| payloads().next()) else { return };
    let arena = out.arena();
    if let (Some(issuer), Some(subject)) = (text(payload, b"iss"), text(payload, b"sub")) {
        out.text(Known::AuthPrincipal, concat(&[issuer, b"/", subject], arena));
    }
    let audience = match field(payload, b"aud") {
        Some(Field::Text(text)) => Some(text),
        Some(Field::List(list)) => match items(list).next() {
            Some(Field::Text(text)) => Some(text),
            _ => None,
        },
        _ => None,
    };
    if let Some(audience) = audience {
        out.some_text(Known::AuthAudiences, audience);
    }
    if let Some(presenter) = text(payload, b"azp") {
        out.text(Known::AuthPresenter, presenter);
    }
    let entries = flat(payload, arena);
    if !entries.is_empty() {
        out.map(Known::AuthClaims, entries);
    }
    if out.wants(Known::AuthRawClaims) {
        let mut json = ArenaVec::new_in(arena);
        push_struct(payload, &mut json, MAX_DEPTH);
        out.text(Known::AuthRawClaims, json.into_bump_slice());
    }
}

/// Sets the shadow result of Envoy's RBAC filter. Of Istio's dry-run results the denial counts.
fn set_rbac<'a>(body: &'a [u8], out: &mut Attributes<'a>) {
    for prefix in [&b""[..], b"istio_dry_run_allow_", b"istio_dry_run_deny_"] {
        for (known, name) in [
            (Known::RbacPermissiveCode, &b"shadow_engine_result"[..]),
            (Known::RbacPermissivePolicy, b"shadow_effective_policy_id"),
        ] {
            if let Some(text) = text(body, concat(&[prefix, name], out.arena())) {
                out.text(known, text);
            }
        }
    }
}

/// Appends a Struct as compact JSON, keys in byte order.
fn push_struct(body: &[u8], out: &mut ArenaVec<'_, u8>, depth: usize) {
    let mut sorted: ArenaVec<'_, (&[u8], Field<'_>)> = ArenaVec::new_in(out.bump());
    sorted.extend(fields(body));
    sorted.sort_by_key(|(key, _)| *key);
    out.push(b'{');
    for (index, (key, value)) in sorted.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_json_text(key, out);
        out.push(b':');
        push_value(*value, out, depth);
    }
    out.push(b'}');
}

fn push_value(value: Field<'_>, out: &mut ArenaVec<'_, u8>, depth: usize) {
    match value {
        Field::Text(text) => push_json_text(text, out),
        Field::Number(number) => push_number(number, out),
        Field::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Field::Struct(inner) if depth > 0 => push_struct(inner, out, depth - 1),
        Field::List(inner) if depth > 0 => {
            out.push(b'[');
            for (index, item) in items(inner).enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                push_value(item, out, depth - 1);
            }
            out.push(b']');
        }
        Field::Null | Field::Struct(_) | Field::List(_) => out.extend_from_slice(b"null"),
    }
}

/// Appends a number; an integer without a fraction.
pub(super) fn push_number(number: f64, out: &mut ArenaVec<'_, u8>) {
    let text = match serde_json::Number::from_f64(number) {
        // Integers up to 2^53 are exact.
        Some(_) if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0 => {
            format!("{number:.0}")
        }
        Some(number) => number.to_string(),
        None => "null".to_owned(),
    };
    out.extend_from_slice(text.as_bytes());
}

fn push_json_text(text: &[u8], out: &mut ArenaVec<'_, u8>) {
    // A string always serializes.
    let quoted = serde_json::to_vec(&String::from_utf8_lossy(text)).unwrap_or_default();
    out.extend_from_slice(&quoted);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::AttributePlan;
    use mixer_attribute::{Value, Vocabulary};

    /// A field of less than 128 bytes.
    fn encoded(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    /// A `Metadata` message with one namespace, which has one text.
    fn message(namespace: &str) -> Vec<u8> {
        let text = encoded(3, b"forged");
        let fields = encoded(1, &[encoded(1, b"key"), encoded(2, &text)].concat());
        encoded(1, &[encoded(1, namespace.as_bytes()), encoded(2, &fields)].concat())
    }

    #[test]
    fn a_namespace_replaces_no_attribute_of_another_source() {
        let mut builder = Vocabulary::builder();
        for (name, declared) in
            [("tenant", ValueType::String), ("my.filter", ValueType::StringMap), ("limit", ValueType::Int64)]
        {
            builder.declare(name, declared);
        }
        let (vocabulary, arena) = (builder.build(), Bump::new());
        let plan = AttributePlan::complete(&vocabulary);
        for name in [
            "request.headers",
            "request.path",
            "request.auth.claims",
            "request.unknown",
            "source.principal",
            "source.labels",
            "destination.service",
            "destination.namespace",
            "origin.ip",
            "context.protocol",
            "context.reporter.kind",
            "connection.mtls",
            "check.error_code",
            "api.service",
            "quota.name",
            "response.code",
            "rbac.permissive.response_code",
            "envoy.context_extensions",
            "envoy.node.id",
            "envoy.route_metadata.tenants",
            "ratelimit.key",
            "tenant",
            "limit",
        ] {
            let body: &[u8] = arena.alloc_slice_copy(&message(name));
            let mut attributes = Attributes::new(&plan, &arena);
            attributes.set_named(name.as_bytes(), Value::String(b"true"));
            assert_eq!(set_metadata(body, &mut attributes), Ok(1), "{name}");
            let values: Vec<Value<'_>> = attributes.values().collect();
            assert_eq!(values, [Value::String(b"true")], "{name}");
            let mut attributes = Attributes::new(&plan, &arena);
            assert_eq!(set_metadata(body, &mut attributes), Ok(1), "{name}");
            assert!(!attributes.has(name.as_bytes()), "{name}: nor is it said by metadata alone");
        }
        for name in ["my.filter", "envoy.lb", "envoy.filters.http.wasm", "request", "sourced", "com.example"]
        {
            let body = message(name);
            let mut attributes = Attributes::new(&plan, &arena);
            assert_eq!(set_metadata(arena.alloc_slice_copy(&body), &mut attributes), Ok(0), "{name}");
            assert!(attributes.has(name.as_bytes()), "{name}");
        }
    }
}
