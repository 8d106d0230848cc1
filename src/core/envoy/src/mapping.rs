//! Attributes that the configuration maps from fields of a message.

use bumpalo::Bump;

use super::attributes::Attributes;
use super::certificate::Certificate;
use super::http_message::{header, query_pairs};
use super::metadata::{Field, field, flat, joined, namespaces, push_number};
use crate::config::{CertificateField, CompiledMapping, MappedFrom};
use mixer_attribute::{StringMap, Timestamp, Value, ValueType, typed_text};

/// The fields that mappings can read.
#[derive(Default)]
pub(super) struct MappingSources<'a> {
    pub(super) request_headers: &'a [(&'a [u8], &'a [u8])],
    pub(super) response_headers: &'a [(&'a [u8], &'a [u8])],
    pub(super) path: &'a [u8],
    /// A `Metadata` message.
    pub(super) metadata: &'a [u8],
    /// A `Metadata` message.
    pub(super) route_metadata: &'a [u8],
    pub(super) extensions: &'a [(&'a [u8], &'a [u8])],
    /// URL-encoded PEM.
    pub(super) certificate: &'a [u8],
    /// The certificate in an access log, which has no PEM.
    pub(super) logged_certificate: LoggedCertificate<'a>,
}

/// The certificate of the downstream peer in an access log.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LoggedCertificate<'a> {
    pub(super) subject: &'a [u8],
    pub(super) issuer: &'a [u8],
    pub(super) uri_san: &'a [u8],
    pub(super) dns_san: &'a [u8],
}

/// The value of a field.
enum FieldContent<'a> {
    Text(&'a [u8]),
    Instant(Timestamp),
    Field(Field<'a>),
}

/// Sets the mapped attributes. Returns the number of values of the wrong type.
pub(super) fn set_mapped<'a>(
    mappings: &'a [CompiledMapping],
    sources: &MappingSources<'a>,
    out: &mut Attributes<'a>,
) -> u32 {
    let mut failures = 0;
    let mut certificate = None;
    for mapping in mappings {
        let name = mapping.attribute.as_bytes();
        if !mapping.overwrite && out.has(name) {
            continue;
        }
        let (value, otherwise) = match find(mapping, sources, &mut certificate, out.arena()) {
            None => (None, mapping.default.as_ref()),
            Some(content) => {
                let value = typed(content, mapping.value_type, out.arena());
                failures += u32::from(value.is_none());
                (value, mapping.malformed.as_ref().or(mapping.default.as_ref()))
            }
        };
        if let Some(value) = value.or_else(|| otherwise?.as_value()) {
            out.set_slot(name, Some(mapping.slot), value);
        }
    }
    failures
}

fn find<'a>(
    mapping: &'a CompiledMapping,
    sources: &MappingSources<'a>,
    certificate: &mut Option<Certificate<'a>>,
    arena: &'a Bump,
) -> Option<FieldContent<'a>> {
    match &mapping.source {
        MappedFrom::RequestHeader(name) => {
            header(sources.request_headers, name.as_bytes()).map(FieldContent::Text)
        }
        MappedFrom::ResponseHeader(name) => {
            header(sources.response_headers, name.as_bytes()).map(FieldContent::Text)
        }
        MappedFrom::QueryParameter(name) => {
            let at = sources.path.iter().position(|byte| *byte == b'?')?;
            let mut pairs = query_pairs(sources.path.get(at + 1..)?);
            pairs.find(|(key, _)| *key == name.as_bytes()).map(|(_, value)| FieldContent::Text(value))
        }
        MappedFrom::Cookie(name) => {
            let cookies = header(sources.request_headers, b"cookie")?;
            cookies.split(|byte| matches!(byte, b';' | b',')).find_map(|cookie| {
                let value = cookie.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                Some(FieldContent::Text(value))
            })
        }
        MappedFrom::Metadata(namespace, path) => in_metadata(sources.metadata, namespace, path),
        MappedFrom::RouteMetadata(namespace, path) => in_metadata(sources.route_metadata, namespace, path),
        MappedFrom::Extension(name) => header(sources.extensions, name.as_bytes()).map(FieldContent::Text),
        MappedFrom::Certificate(field) => logged(*field, &sources.logged_certificate).or_else(|| {
            let certificate =
                certificate.get_or_insert_with(|| Certificate::read(sources.certificate, arena));
            match field {
                CertificateField::NotBefore => certificate.not_before.map(FieldContent::Instant),
                CertificateField::NotAfter => certificate.not_after.map(FieldContent::Instant),
                _ => certificate.text(*field, arena).map(FieldContent::Text),
            }
        }),
    }
}

/// A field of a certificate in an access log.
fn logged<'a>(field: CertificateField, certificate: &LoggedCertificate<'a>) -> Option<FieldContent<'a>> {
    let text = match field {
        CertificateField::Subject => certificate.subject,
        CertificateField::CommonName => relative_name(certificate.subject, b"CN=")?,
        CertificateField::Organization => relative_name(certificate.subject, b"O=")?,
        CertificateField::OrganizationalUnit => relative_name(certificate.subject, b"OU=")?,
        CertificateField::Issuer => certificate.issuer,
        CertificateField::UriSan => certificate.uri_san,
        CertificateField::DnsSan => certificate.dns_san,
        _ => return None,
    };
    (!text.is_empty()).then_some(FieldContent::Text(text))
}

/// A part of a subject such as `CN=a,O=b`.
fn relative_name<'a>(subject: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    subject.split(|byte| *byte == b',').find_map(|part| part.trim_ascii().strip_prefix(prefix))
}

fn in_metadata<'a>(metadata: &'a [u8], namespace: &str, path: &[Box<str>]) -> Option<FieldContent<'a>> {
    let mut root = None;
    namespaces(metadata, |name, fields| {
        if name == namespace.as_bytes() {
            root = Some(fields);
        }
    })
    .ok()?;
    let mut content = Field::Struct(root?);
    for step in path {
        let Field::Struct(body) = content else { return None };
        content = field(body, step.as_bytes())?;
    }
    Some(FieldContent::Field(content))
}

fn typed<'a>(content: FieldContent<'a>, value_type: ValueType, arena: &'a Bump) -> Option<Value<'a>> {
    let text = match content {
        FieldContent::Instant(instant) if value_type == ValueType::Timestamp => {
            return Some(Value::Timestamp(instant));
        }
        FieldContent::Instant(instant) => arena.alloc_str(&instant.rfc3339().to_string()).as_bytes(),
        FieldContent::Text(text) | FieldContent::Field(Field::Text(text)) => text,
        FieldContent::Field(Field::Struct(body)) if value_type == ValueType::StringMap => {
            let entries = flat(body, arena).into_bump_slice();
            return Some(Value::StringMap(arena.alloc(StringMap { entries, source: None })));
        }
        FieldContent::Field(Field::List(list)) => joined(list, arena),
        FieldContent::Field(Field::Bool(true)) => b"true",
        FieldContent::Field(Field::Bool(false)) => b"false",
        FieldContent::Field(Field::Number(number)) => {
            if value_type == ValueType::Double {
                return Some(Value::Double(number));
            }
            let mut text = bumpalo::collections::Vec::new_in(arena);
            push_number(number, &mut text);
            text.into_bump_slice()
        }
        FieldContent::Field(Field::Null | Field::Struct(_)) => return None,
    };
    typed_text(text, value_type, arena)
}
