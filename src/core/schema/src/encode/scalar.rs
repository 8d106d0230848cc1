//! Scalars and enums.

use base64::Engine as _;
use mixer_config::message::{DecodeContext, enum_number};
use mixer_config::{Node, NodeKind};
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{EnumDescriptor, Kind as Type};

use super::Encoder;
use crate::place::Place;

/// A value of a scalar type, in its encoding.
pub(super) enum Scalar<'n> {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
    Text(&'n str),
    Owned(Vec<u8>),
}

impl Scalar<'_> {
    pub(super) fn is_default(&self) -> bool {
        match self {
            Scalar::Varint(value) => *value == 0,
            Scalar::Fixed32(bytes) => *bytes == [0; 4],
            Scalar::Fixed64(bytes) => *bytes == [0; 8],
            Scalar::Text(text) => text.is_empty(),
            Scalar::Owned(bytes) => bytes.is_empty(),
        }
    }

    pub(super) fn write(&self, number: u32, out: &mut Vec<u8>) {
        let wire_type = match self {
            Scalar::Varint(_) => WireType::Varint,
            Scalar::Fixed32(_) => WireType::ThirtyTwoBit,
            Scalar::Fixed64(_) => WireType::SixtyFourBit,
            Scalar::Text(_) | Scalar::Owned(_) => WireType::LengthDelimited,
        };
        encode_key(number, wire_type, out);
        self.write_untagged(out);
    }

    pub(super) fn write_untagged(&self, out: &mut Vec<u8>) {
        let delimited = |bytes: &[u8], out: &mut Vec<u8>| {
            encode_varint(bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        };
        match self {
            Scalar::Varint(value) => encode_varint(*value, out),
            Scalar::Fixed32(bytes) => out.extend_from_slice(bytes),
            Scalar::Fixed64(bytes) => out.extend_from_slice(bytes),
            Scalar::Text(text) => delimited(text.as_bytes(), out),
            Scalar::Owned(bytes) => delimited(bytes, out),
        }
    }
}

/// The varint of a signed number.
#[expect(clippy::cast_sign_loss, reason = "negative numbers are encoded as their two's complement")]
fn signed(value: i64) -> Scalar<'static> {
    Scalar::Varint(value as u64)
}

fn zig_zag(value: i64) -> Scalar<'static> {
    #[expect(clippy::cast_sign_loss, reason = "the bits are those of the encoding")]
    let bits = ((value << 1) ^ (value >> 63)) as u64;
    Scalar::Varint(bits)
}

impl Encoder {
    /// A scalar; `None` after an error. Null is the default value.
    pub(super) fn scalar<'n>(
        &mut self,
        kind: &Type,
        node: &'n Node,
        place: &Place<'_>,
    ) -> Option<Scalar<'n>> {
        Some(match kind {
            Type::String => match &node.kind {
                NodeKind::String(text) => Scalar::Text(text),
                _ => Scalar::Owned(self.lenient::<String>(node, place)?.into_bytes()),
            },
            Type::Bool => Scalar::Varint(u64::from(match node.kind {
                NodeKind::Bool(value) => value,
                _ => self.lenient::<bool>(node, place)?,
            })),
            Type::Int32 => signed(i64::from(self.lenient::<i32>(node, place)?)),
            Type::Int64 => signed(self.lenient::<i64>(node, place)?),
            Type::Uint32 => Scalar::Varint(u64::from(self.lenient::<u32>(node, place)?)),
            Type::Uint64 => Scalar::Varint(self.lenient::<u64>(node, place)?),
            Type::Sint32 => zig_zag(i64::from(self.lenient::<i32>(node, place)?)),
            Type::Sint64 => zig_zag(self.lenient::<i64>(node, place)?),
            Type::Fixed32 => Scalar::Fixed32(self.lenient::<u32>(node, place)?.to_le_bytes()),
            Type::Sfixed32 => Scalar::Fixed32(self.lenient::<i32>(node, place)?.to_le_bytes()),
            Type::Fixed64 => Scalar::Fixed64(self.lenient::<u64>(node, place)?.to_le_bytes()),
            Type::Sfixed64 => Scalar::Fixed64(self.lenient::<i64>(node, place)?.to_le_bytes()),
            Type::Double => Scalar::Fixed64(self.lenient::<f64>(node, place)?.to_le_bytes()),
            #[expect(clippy::cast_possible_truncation, reason = "a float is as precise as it is")]
            Type::Float => Scalar::Fixed32((self.lenient::<f64>(node, place)? as f32).to_le_bytes()),
            Type::Bytes => Scalar::Owned(self.base64(node, place)?),
            Type::Enum(descriptor) => self.enum_value(descriptor, node, place)?,
            Type::Message(_) => return None,
        })
    }

    fn base64(&mut self, node: &Node, place: &Place<'_>) -> Option<Vec<u8>> {
        let text = self.lenient::<String>(node, place)?;
        // Go's decoder skips line ends.
        let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        match base64::engine::general_purpose::STANDARD.decode(joined) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let hint = Some("bytes are written in base64, with padding".to_owned());
                self.error(node, place, format!("illegal base64 data: {error}"), hint);
                None
            }
        }
    }

    /// A name, or any number.
    fn enum_value(
        &mut self,
        descriptor: &EnumDescriptor,
        node: &Node,
        place: &Place<'_>,
    ) -> Option<Scalar<'static>> {
        match &node.kind {
            NodeKind::Null => return Some(signed(0)),
            NodeKind::Int(number) if i32::try_from(*number).is_ok() => return Some(signed(*number)),
            NodeKind::Int(_) | NodeKind::Float(_) => {
                return self.lenient::<i32>(node, place).map(|number| signed(i64::from(number)));
            }
            NodeKind::String(text) => {
                if let Some(value) = descriptor.get_value_by_name(text) {
                    return Some(signed(i64::from(value.number())));
                }
            }
            _ => {}
        }
        let values: Vec<_> =
            descriptor.values().map(|v| (v.name().to_owned(), i64::from(v.number()))).collect();
        let values: Vec<_> = values.iter().map(|(name, number)| (name.as_str(), *number)).collect();
        let mut context = DecodeContext::at(place.path());
        enum_number(node, descriptor.full_name(), &values, &mut context);
        self.result.errors.append(&mut context.errors);
        None
    }
}
