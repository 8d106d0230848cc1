//! The messages of Kubernetes that have a JSON form of their own.

use mixer_base::time::Timestamp;
use mixer_config::{Node, NodeKind};
use prost_reflect::{FieldDescriptor, MessageDescriptor};

use super::{Encoder, well_known, write};
use crate::place::Place;

/// Times.
pub(crate) const TIME: &str = "k8s.io.apimachinery.pkg.apis.meta.v1.Time";
/// Amounts of resources.
pub(crate) const QUANTITY: &str = "k8s.io.apimachinery.pkg.api.resource.Quantity";
/// Ports, by number or name.
pub(crate) const INT_OR_STRING: &str = "k8s.io.apimachinery.pkg.util.intstr.IntOrString";

/// Fields whose own fields stand in their place in JSON.
const INLINE: [&str; 4] = ["volumeSource", "handler", "ingressRuleValue", "localObjectReference"];

/// Whether the fields of a field stand in its place in JSON.
pub(crate) fn is_inline(field: &FieldDescriptor) -> bool {
    INLINE.contains(&field.name()) && field.parent_message().full_name().starts_with("k8s.io.")
}

impl Encoder {
    /// Encodes a special message of Kubernetes; false for any other.
    pub(super) fn kubernetes(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &Node,
        place: &Place<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        match descriptor.full_name() {
            TIME => self.time(node, place, out),
            QUANTITY => self.quantity(node, place, out),
            INT_OR_STRING => self.int_or_string(node, place, out),
            _ => return false,
        }
        true
    }

    fn time(&mut self, node: &Node, place: &Place<'_>, out: &mut Vec<u8>) {
        if matches!(node.kind, NodeKind::Null) {
            return;
        }
        let Some(text) = self.lenient::<String>(node, place) else { return };
        match Timestamp::parse_rfc3339(&text) {
            // Kubernetes has whole seconds.
            Ok(time) => well_known::put_timestamp(Timestamp { nanos: 0, ..time }, out),
            Err(error) => self.error(node, place, error, None),
        }
    }

    fn quantity(&mut self, node: &Node, place: &Place<'_>, out: &mut Vec<u8>) {
        match &node.kind {
            NodeKind::Null => {}
            NodeKind::String(text) => write::bytes(1, text.as_bytes(), out),
            NodeKind::Int(number) => write::bytes(1, number.to_string().as_bytes(), out),
            NodeKind::Float(number) => write::bytes(1, number.to_string().as_bytes(), out),
            _ => self.wrong_kind(node, place, "string"),
        }
    }

    fn int_or_string(&mut self, node: &Node, place: &Place<'_>, out: &mut Vec<u8>) {
        match &node.kind {
            NodeKind::Null => {}
            NodeKind::String(text) => {
                write::varint(1, 1, out);
                write::bytes(3, text.as_bytes(), out);
            }
            _ => {
                if let Some(number) = self.lenient::<i32>(node, place) {
                    write::varint(1, 0, out);
                    #[expect(clippy::cast_sign_loss, reason = "negative numbers are their two's complement")]
                    write::varint(2, i64::from(number) as u64, out);
                }
            }
        }
    }
}
