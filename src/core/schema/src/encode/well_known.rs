//! The messages of `google.protobuf` that have a JSON form of their own.

use mixer_base::time::{SignedDuration, Timestamp};
use mixer_config::{Node, NodeKind};
use prost_reflect::{Kind as Type, MessageDescriptor};

use super::{Encoder, write};
use crate::descriptors;
use crate::place::Place;

impl Encoder {
    /// Encodes a well-known message; false for any other.
    pub(super) fn well_known(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &Node,
        place: &Place<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(name) = descriptor.full_name().strip_prefix("google.protobuf.") else { return false };
        match name {
            "Duration" => self.duration(node, place, out),
            "Timestamp" => self.timestamp(node, place, out),
            "Struct" => self.structure(node, place, out),
            "Value" => self.free_value(node, place, out),
            "ListValue" => self.free_list(node, place, out),
            "Any" => self.any(node, place, out),
            name if name.ends_with("Value") => {
                if let Some(field) = descriptor.get_field(1) {
                    self.value(1, &field.kind(), node, place, false, out);
                }
            }
            _ => return false,
        }
        true
    }

    fn duration(&mut self, node: &Node, place: &Place<'_>, out: &mut Vec<u8>) {
        if let Some(SignedDuration { nanos }) = self.lenient::<SignedDuration>(node, place) {
            put_number(1, nanos / 1_000_000_000, out);
            put_number(2, nanos % 1_000_000_000, out);
        }
    }

    fn timestamp(&mut self, node: &Node, place: &Place<'_>, out: &mut Vec<u8>) {
        let Some(text) = self.lenient::<String>(node, place) else { return };
        match Timestamp::parse_rfc3339(&text) {
            Ok(time) => put_timestamp(time, out),
            Err(error) => {
                let hint = Some("write it like `2018-01-31T12:00:00Z`".to_owned());
                self.error(node, place, format!("bad Timestamp: {error}"), hint);
            }
        }
    }

    fn structure(&mut self, node: &Node, place: &Place<'_>, out: &mut Vec<u8>) {
        let NodeKind::Mapping(entries) = &node.kind else {
            if !matches!(node.kind, NodeKind::Null) {
                let kind = mixer_config::message::json_kind(node);
                let text = format!(
                    "bad StructValue: json: cannot unmarshal {kind} into Go value of type map[string]json.RawMessage"
                );
                self.error(node, place, text, Some("a mapping is expected here".to_owned()));
            }
            return;
        };
        let mut sorted: Vec<_> = entries.iter().collect();
        sorted.sort_by(|a, b| a.key.cmp(&b.key));
        for entry in sorted {
            write::nested(1, out, |out| {
                write::bytes(1, entry.key.as_bytes(), out);
                write::nested(2, out, |out| self.free_value(&entry.value, &place.key(&entry.key), out));
            });
        }
    }

    fn free_value(&mut self, node: &Node, place: &Place<'_>, out: &mut Vec<u8>) {
        match &node.kind {
            NodeKind::Null => write::varint(1, 0, out),
            NodeKind::Int(number) => write::double(2, *number as f64, out),
            NodeKind::Float(number) => write::double(2, *number, out),
            NodeKind::String(text) => write::bytes(3, text.as_bytes(), out),
            NodeKind::Bool(value) => write::varint(4, u64::from(*value), out),
            NodeKind::Mapping(_) => write::nested(5, out, |out| self.structure(node, place, out)),
            NodeKind::Sequence(_) => write::nested(6, out, |out| self.free_list(node, place, out)),
        }
    }

    fn free_list(&mut self, node: &Node, place: &Place<'_>, out: &mut Vec<u8>) {
        let NodeKind::Sequence(items) = &node.kind else {
            if !matches!(node.kind, NodeKind::Null) {
                self.wrong_kind(node, place, "[]json.RawMessage");
            }
            return;
        };
        for (index, item) in items.iter().enumerate() {
            write::nested(1, out, |out| self.free_value(item, &place.index(index), out));
        }
    }

    fn any(&mut self, node: &Node, place: &Place<'_>, out: &mut Vec<u8>) {
        let Some(url) = node.get("@type").and_then(Node::as_str) else {
            let hint = Some("name the message in `@type`".to_owned());
            return self.error(node, place, "Any JSON doesn't have '@type'".to_owned(), hint);
        };
        let name = url.rsplit_once('/').map_or(url, |(_, name)| name);
        let Some(descriptor) = descriptors::message(name) else {
            if self.has_opaque_any {
                return write::bytes(1, url.as_bytes(), out);
            }
            return self.error(node, place, format!("unknown message type {name:?}"), None);
        };
        write::bytes(1, url.as_bytes(), out);
        let is_well_known = name.starts_with("google.protobuf.") && name != "google.protobuf.Empty";
        write::nested(2, out, |out| match node.get("value").filter(|_| is_well_known) {
            Some(value) => self.message(&descriptor, value, &place.field("value"), out),
            None => {
                let rest = node.entries().iter().filter(|entry| &*entry.key != "@type").cloned().collect();
                let rest = Node { kind: NodeKind::Mapping(rest), span: node.span };
                self.message(&descriptor, &rest, place, out);
            }
        });
    }
}

/// An int64 or int32 field, unless it is 0.
fn put_number(number: u32, value: i64, out: &mut Vec<u8>) {
    if value != 0 {
        #[expect(clippy::cast_sign_loss, reason = "negative numbers are encoded as their two's complement")]
        write::varint(number, value as u64, out);
    }
}

/// The fields of a timestamp, which are also those of Kubernetes' times.
pub(super) fn put_timestamp(time: Timestamp, out: &mut Vec<u8>) {
    put_number(1, time.seconds, out);
    put_number(2, i64::from(time.nanos), out);
}

/// Whether a message is one whose JSON form is that of its only field.
pub(crate) fn is_wrapper(descriptor: &MessageDescriptor) -> bool {
    let is_scalar = |field: prost_reflect::FieldDescriptor| !matches!(field.kind(), Type::Message(_));
    descriptor.full_name().starts_with("google.protobuf.")
        && descriptor.full_name().ends_with("Value")
        && descriptor.fields().len() == 1
        && descriptor.get_field(1).is_some_and(is_scalar)
}
