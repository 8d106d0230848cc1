//! From documents to messages: protobuf JSON as Istio reads it, and Kubernetes' JSON for its own objects.
//!
//! Fields are accepted in lowerCamelCase and as they are named in the `.proto` files. Numbers may be quoted, enums are names or
//! numbers, `null` is an absent field. Fields that a message does not have are left out, with a warning.

mod kubernetes;
mod scalar;
mod well_known;
mod write;

use bytes::Bytes;
use mixer_config::message::{DecodeContext, DecodeError, go_type, json_kind, suggestion};
use mixer_config::{Diagnostic, FieldPath, Node, NodeKind, Severity};
use prost_reflect::{FieldDescriptor, Kind as Type, MessageDescriptor};

use crate::descriptors;
use crate::kinds::{Body, Kind, TYPE_URL_PREFIX};
use crate::place::Place;

pub(crate) use kubernetes::{INT_OR_STRING, QUANTITY, TIME, is_inline};
pub(crate) use well_known::is_wrapper;

/// The code of a problem of a field that does not decode, as the policy engine has it.
const SPEC_DECODE: &str = "spec-decode";
/// The code of the warning about a field that is left out.
const FIELD_IGNORED: &str = "field-ignored";

/// The body of a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoded {
    /// For example `type.googleapis.com/istio.networking.v1alpha3.Gateway`.
    pub type_url: String,
    /// The message. Equal documents have equal bytes.
    pub body: Bytes,
    /// Warnings about fields that are left out, with spans in the document.
    pub warnings: Vec<Diagnostic>,
}

/// Encodes the body of a resource: `node` is what [`Body`] of its kind says, null if the document does not have it.
///
/// Errors: one diagnostic for every field that does not decode, first the one that Istio reports, with spans in the document.
pub fn encode(kind: &Kind, node: &Node) -> Result<Encoded, Vec<Diagnostic>> {
    let decoded = decode(kind, node);
    if !decoded.errors.is_empty() {
        return Err(decoded.errors.into_iter().map(error).collect());
    }
    let warnings = decoded.warnings();
    Ok(Encoded { type_url: kind.type_url(), body: decoded.body.into(), warnings })
}

/// Encodes a message that is no resource, such as the mesh configuration. `base` is the position of the node in its document.
///
/// Errors: as [`encode`]; a message that no resource has is one, too.
pub fn encode_message(name: &str, node: &Node, base: &FieldPath) -> Result<Encoded, Vec<Diagnostic>> {
    let decoded = decode_message(name, node, base);
    if !decoded.errors.is_empty() {
        return Err(decoded.errors.into_iter().map(error).collect());
    }
    let warnings = decoded.warnings();
    Ok(Encoded { type_url: format!("{TYPE_URL_PREFIX}{name}"), body: decoded.body.into(), warnings })
}

/// A body with all that was found in its document.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) body: Vec<u8>,
    pub(crate) errors: Vec<DecodeError>,
    /// Fields that the message does not have.
    pub(crate) unknown: Vec<DecodeError>,
    /// Fields that exclude each other.
    pub(crate) excluded: Vec<DecodeError>,
    /// Entries of maps that are null although they are messages.
    pub(crate) null_entries: Vec<FieldPath>,
}

impl Decoded {
    /// The warnings about fields that are left out.
    pub(crate) fn warnings(&self) -> Vec<Diagnostic> {
        self.unknown.iter().chain(&self.excluded).cloned().map(warning).collect()
    }
}

pub(crate) fn decode(kind: &Kind, node: &Node) -> Decoded {
    let base = match kind.body {
        Body::Spec => FieldPath::root().field("spec"),
        Body::Object => FieldPath::root(),
    };
    decode_message(kind.message, node, &base)
}

pub(crate) fn decode_message(name: &str, node: &Node, base: &FieldPath) -> Decoded {
    let is_kubernetes = name.starts_with("k8s.io.");
    // The messages of Envoy's extensions are not known here.
    let has_opaque_any = name.starts_with("envoy.");
    let mut encoder = Encoder { result: Decoded::default(), is_kubernetes, has_opaque_any };
    let place = Place::base(base);
    let mut body = Vec::new();
    match descriptors::message(name) {
        Some(_) if matches!(node.kind, NodeKind::Null) => {}
        Some(descriptor) => encoder.message(&descriptor, node, &place, &mut body),
        None => encoder.error(node, &place, format!("unknown message type {name:?}"), None),
    }
    encoder.result.body = body;
    encoder.result
}

pub(crate) fn error(problem: DecodeError) -> Diagnostic {
    diagnostic(Severity::Error, SPEC_DECODE, problem)
}

fn warning(problem: DecodeError) -> Diagnostic {
    diagnostic(Severity::Warning, FIELD_IGNORED, problem).accepted_by_istio()
}

fn diagnostic(severity: Severity, code: &'static str, problem: DecodeError) -> Diagnostic {
    let mut diagnostic = Diagnostic::new(severity, code, problem.field, problem.message);
    diagnostic.span = Some(problem.span);
    match problem.hint {
        Some(hint) => diagnostic.with_hint(hint),
        None => diagnostic,
    }
}

/// Writes messages, and collects what is wrong.
struct Encoder {
    result: Decoded,
    /// Whether the rules are those of Kubernetes' own objects.
    is_kubernetes: bool,
    /// Whether a `google.protobuf.Any` may have a message that is not known, and is left empty then.
    has_opaque_any: bool,
}

impl Encoder {
    fn error(&mut self, node: &Node, place: &Place<'_>, message: String, hint: Option<String>) {
        self.result.errors.push(DecodeError { message, field: place.path(), span: node.span, hint });
    }

    /// Adds the error that Istio has for a value of the wrong type.
    fn wrong_kind(&mut self, node: &Node, place: &Place<'_>, expected: &str) {
        let hint = match expected.split_once('[').map_or("", |(before, _)| before) {
            "map" => Some("a mapping is expected here".to_owned()),
            "" if expected.starts_with("[]") => {
                Some("a list is expected here: begin each item with `- `".to_owned())
            }
            _ => None,
        };
        let text = format!("json: cannot unmarshal {} into Go value of type {expected}", json_kind(node));
        self.error(node, place, text, hint);
    }

    /// A message without its length. Null is an empty message.
    fn message(&mut self, descriptor: &MessageDescriptor, node: &Node, place: &Place<'_>, out: &mut Vec<u8>) {
        if self.well_known(descriptor, node, place, out) || self.kubernetes(descriptor, node, place, out) {
            return;
        }
        match node.kind {
            NodeKind::Mapping(_) => {}
            NodeKind::Null => return,
            _ => return self.wrong_kind(node, place, "map[string]json.RawMessage"),
        }
        for field in descriptor.fields() {
            if kubernetes::is_inline(&field) {
                // Its fields are written like those of the message itself.
                if let Type::Message(inner) = field.kind() {
                    let mut body = Vec::new();
                    self.message(&inner, node, place, &mut body);
                    if !body.is_empty() {
                        write::bytes(field.number(), &body, out);
                    }
                }
            } else if let Some(value) = find(node, &field) {
                self.field(&field, value, &place.field(field.json_name()), out);
            }
        }
        if !self.is_kubernetes {
            self.unknown_fields(descriptor, node, place);
            self.excluding_fields(descriptor, node, place);
        }
    }

    fn field(&mut self, field: &FieldDescriptor, node: &Node, place: &Place<'_>, out: &mut Vec<u8>) {
        if field.is_map() {
            return self.map(field, node, place, out);
        }
        if field.is_list() {
            return self.list(field, node, place, out);
        }
        let kind = field.kind();
        let is_null = matches!(node.kind, NodeKind::Null);
        if is_null && matches!(kind, Type::Message(_)) && !accepts_null(field, &kind) {
            return;
        }
        if is_null && !matches!(kind, Type::Message(_)) && field.containing_oneof().is_none() {
            return;
        }
        self.value(field.number(), &kind, node, place, field.supports_presence(), out);
    }

    /// A value with its tag. Without `presence`, the default value is left out.
    fn value(
        &mut self,
        number: u32,
        kind: &Type,
        node: &Node,
        place: &Place<'_>,
        presence: bool,
        out: &mut Vec<u8>,
    ) {
        match kind {
            Type::Message(descriptor) => {
                write::nested(number, out, |out| self.message(descriptor, node, place, out));
            }
            _ => {
                if let Some(scalar) = self.scalar(kind, node, place)
                    && (presence || !scalar.is_default())
                {
                    scalar.write(number, out);
                }
            }
        }
    }

    fn list(&mut self, field: &FieldDescriptor, node: &Node, place: &Place<'_>, out: &mut Vec<u8>) {
        let items = match &node.kind {
            NodeKind::Sequence(items) => items,
            NodeKind::Null => return,
            _ => return self.wrong_kind(node, place, "[]json.RawMessage"),
        };
        let kind = field.kind();
        let mut packed = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let place = place.index(index);
            match &kind {
                Type::Message(_) if matches!(item.kind, NodeKind::Null) && !accepts_null(field, &kind) => {
                    let hint = Some("remove the item, or write what it is to be".to_owned());
                    self.error(item, &place, "an item of a list is null".to_owned(), hint);
                }
                _ if field.is_packed() => {
                    if let Some(scalar) = self.scalar(&kind, item, &place) {
                        scalar.write_untagged(&mut packed);
                    }
                }
                _ => self.value(field.number(), &kind, item, &place, true, out),
            }
        }
        if !packed.is_empty() {
            write::bytes(field.number(), &packed, out);
        }
    }

    fn map(&mut self, field: &FieldDescriptor, node: &Node, place: &Place<'_>, out: &mut Vec<u8>) {
        let entries = match &node.kind {
            NodeKind::Mapping(entries) => entries,
            NodeKind::Null => return,
            _ => return self.wrong_kind(node, place, "map[string]json.RawMessage"),
        };
        let Type::Message(entry_type) = field.kind() else { return };
        let (key_type, value_type) =
            (entry_type.map_entry_key_field().kind(), entry_type.map_entry_value_field().kind());
        let mut sorted: Vec<_> = entries.iter().collect();
        sorted.sort_by(|a, b| a.key.cmp(&b.key));
        for entry in sorted {
            let place = place.key(&entry.key);
            if matches!(entry.value.kind, NodeKind::Null) && matches!(value_type, Type::Message(_)) {
                self.result.null_entries.push(place.path());
            }
            write::nested(field.number(), out, |out| {
                let key = Node { kind: NodeKind::String(entry.key.clone()), span: entry.key_span };
                self.value(1, &key_type, &key, &place, true, out);
                self.value(2, &value_type, &entry.value, &place, true, out);
            });
        }
    }

    /// Decodes a value that is not simply of its type, as the policy engine decodes it.
    fn lenient<T: mixer_config::message::Field + Default>(
        &mut self,
        node: &Node,
        place: &Place<'_>,
    ) -> Option<T> {
        let mut context = DecodeContext::at(place.path());
        let mut value = T::default();
        value.merge(node, &mut context);
        let decoded = (!context.failed()).then_some(value);
        self.result.errors.append(&mut context.errors);
        decoded
    }

    fn unknown_fields(&mut self, descriptor: &MessageDescriptor, node: &Node, place: &Place<'_>) {
        for entry in node.entries() {
            let key = &*entry.key;
            if descriptor.get_field_by_json_name(key).is_some() || descriptor.get_field_by_name(key).is_some()
            {
                continue;
            }
            let names: Vec<_> = descriptor.fields().map(|field| field.json_name().to_owned()).collect();
            self.result.unknown.push(DecodeError {
                message: format!("unknown field \"{key}\" in {}", go_type(descriptor.full_name())),
                field: place.field(key).path(),
                span: entry.key_span,
                hint: suggestion(key, names.iter().map(String::as_str)),
            });
        }
    }

    /// Of fields of which a message has one at most, the last counts.
    fn excluding_fields(&mut self, descriptor: &MessageDescriptor, node: &Node, place: &Place<'_>) {
        for oneof in descriptor.oneofs() {
            let fields: Vec<_> = oneof.fields().collect();
            let given: Vec<_> = fields.iter().filter_map(|f| find(node, f).map(|value| (f, value))).collect();
            if let [.., (before, _), (last, value)] = given.as_slice() {
                let (before, last) = (before.json_name(), last.json_name());
                self.result.excluded.push(DecodeError {
                    message: format!("`{before}` and `{last}` exclude each other; `{last}` counts"),
                    field: place.field(last).path(),
                    span: value.span,
                    hint: Some("remove one of them".to_owned()),
                });
            }
        }
    }
}

/// The value of a field, in either spelling; lowerCamelCase takes precedence.
fn find<'n>(node: &'n Node, field: &FieldDescriptor) -> Option<&'n Node> {
    node.get(field.json_name()).or_else(|| node.get(field.name()))
}

/// Whether null is a value of a message field, rather than its absence.
fn accepts_null(field: &FieldDescriptor, kind: &Type) -> bool {
    let name = match kind {
        Type::Message(descriptor) => descriptor.full_name().to_owned(),
        _ => return false,
    };
    // compat(1.3): mutual TLS is configured by `mtls:` alone; pinned by galley/snap-authn-rbac.
    name == "google.protobuf.Value"
        || field.full_name() == "istio.authentication.v1alpha1.PeerAuthenticationMethod.mtls"
}

#[cfg(test)]
mod tests;
