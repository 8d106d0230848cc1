//! Plans: how the message of an instance is written for a process of its own.
//!
//! A plan is compiled once from the types of a template and the parameters of an instance. To write a message takes the values of
//! its expressions and one buffer: no descriptor is looked at, and nothing is allocated for a field.

mod wire;

pub use wire::{WireType, put_bytes, put_length, put_tag, put_varint, put_zigzag};

use std::sync::Arc;

use mixer_attribute::{SignedDuration, Timestamp, Value, ValueType};

use super::Name;
use super::descriptor::INSTANCE_NAME;

/// How the message of an instance is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Plan {
    /// In the order of field numbers.
    pub(crate) steps: Box<[Step]>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// An encoded field, the same for every request.
    Constant {
        /// Tag and value.
        encoded: Box<[u8]>,
        /// Of a field that takes a value of any type: its number and the type of the constant.
        typed: Option<(u32, ValueType)>,
    },
    /// The value of an expression.
    Leaf {
        /// Field number.
        number: u32,
        /// Position among the expressions of the instance.
        leaf: usize,
        /// How it is written.
        form: Form,
    },
    /// A nested message.
    Message {
        /// Field number.
        number: u32,
        /// Its fields.
        steps: Box<[Step]>,
    },
    /// An entry of a map.
    Entry {
        /// Field number of the map.
        number: u32,
        /// The encoded key: field 1 of the entry.
        key: Box<[u8]>,
        /// The value: field 2 of the entry.
        value: Box<Step>,
    },
    /// Numbers in one length-delimited field.
    Packed {
        /// Field number.
        number: u32,
        /// Its elements.
        items: Box<[PackedItem]>,
    },
}

/// A number in a packed list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum PackedItem {
    /// Encoded, without a tag.
    Constant(Box<[u8]>),
    /// The value of an expression, by its position.
    Leaf(usize, Form),
}

/// How a value is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// `int64`, `uint64`
    Int64,
    /// `int32`
    Int32,
    /// `uint32`
    Uint32,
    /// `sint32`
    Sint32,
    /// `sint64`
    Sint64,
    /// `fixed32`, `sfixed32`
    Fixed32,
    /// `fixed64`, `sfixed64`
    Fixed64,
    /// `bool`
    Bool,
    /// `double`
    Double,
    /// `float`
    Float,
    /// `string`
    Text,
    /// An enum, by the number or the name of its value.
    Enum(Arc<[(Name, i32)]>),
    /// `istio.policy.v1beta1.Value` with a value of this type.
    Any(ValueType),
    /// A message of `istio.policy.v1beta1` for values of this type, such as `IPAddress`.
    Typed(ValueType),
}

/// Why a message cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The value of an enum does not exist.
    #[error("unknown value: {found}, enum:[{known}]")]
    UnknownEnumValue {
        /// What was found.
        found: String,
        /// What exists.
        known: String,
    },
    /// A value of another type than that of its expression.
    #[error("a value of another type than that of its expression")]
    Mismatch,
}

impl Plan {
    /// Writes the message of an instance with this full name.
    ///
    /// Errors: a value that its field cannot take; then the buffer has a part of the message. Cost: linear in the bytes written.
    pub fn write(
        &self,
        name: &str,
        values: &[Option<Value<'_>>],
        out: &mut Vec<u8>,
    ) -> Result<(), PlanError> {
        write_steps(&self.steps, values, out)?;
        put_bytes(INSTANCE_NAME, name.as_bytes(), out);
        Ok(())
    }

    /// The message `Type` of the instance: the types of all fields that take a value of any type.
    pub fn inferred_types(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_types(&self.steps, &mut out);
        out
    }
}

fn write_steps(steps: &[Step], values: &[Option<Value<'_>>], out: &mut Vec<u8>) -> Result<(), PlanError> {
    steps.iter().try_for_each(|step| write_step(step, values, out))
}

fn write_step(step: &Step, values: &[Option<Value<'_>>], out: &mut Vec<u8>) -> Result<(), PlanError> {
    match step {
        Step::Constant { encoded, .. } => out.extend_from_slice(encoded),
        Step::Leaf { number, leaf, form } => {
            if let Some(value) = values.get(*leaf).copied().flatten() {
                put_tag(*number, form.wire_type(), out);
                form.put(value, out)?;
            }
        }
        Step::Message { number, steps } => {
            put_tag(*number, WireType::Bytes, out);
            put_length(out, |out| write_steps(steps, values, out))?;
        }
        Step::Entry { number, key, value } => {
            put_tag(*number, WireType::Bytes, out);
            put_length(out, |out| {
                out.extend_from_slice(key);
                write_step(value, values, out)
            })?;
        }
        Step::Packed { number, items } => {
            put_tag(*number, WireType::Bytes, out);
            put_length(out, |out| {
                items.iter().try_for_each(|item| match item {
                    PackedItem::Constant(encoded) => {
                        out.extend_from_slice(encoded);
                        Ok(())
                    }
                    PackedItem::Leaf(leaf, form) => match values.get(*leaf).copied().flatten() {
                        Some(value) => form.put(value, out),
                        None => Ok(()),
                    },
                })
            })?;
        }
    }
    Ok(())
}

fn write_types(steps: &[Step], out: &mut Vec<u8>) {
    for step in steps {
        let start = out.len();
        match step {
            Step::Constant { typed: Some((number, value_type)), .. }
            | Step::Leaf { number, form: Form::Any(value_type), .. } => {
                put_tag(*number, WireType::Varint, out);
                put_varint(*value_type as u64, out);
            }
            Step::Constant { .. } | Step::Leaf { .. } | Step::Packed { .. } => {}
            Step::Message { number, steps } => {
                put_tag(*number, WireType::Bytes, out);
                let written: Result<bool, PlanError> = put_length(out, |out| {
                    let before = out.len();
                    write_types(steps, out);
                    Ok(out.len() > before)
                });
                if !written.unwrap_or(false) {
                    out.truncate(start);
                }
            }
            Step::Entry { number, key, value } => {
                put_tag(*number, WireType::Bytes, out);
                let written: Result<bool, PlanError> = put_length(out, |out| {
                    out.extend_from_slice(key);
                    let before = out.len();
                    write_types(std::slice::from_ref(value), out);
                    Ok(out.len() > before)
                });
                if !written.unwrap_or(false) {
                    out.truncate(start);
                }
            }
        }
    }
}

impl Form {
    pub(crate) fn wire_type(&self) -> WireType {
        match self {
            Self::Int64 | Self::Int32 | Self::Uint32 | Self::Sint32 | Self::Sint64 => WireType::Varint,
            Self::Bool | Self::Enum(_) => WireType::Varint,
            Self::Fixed32 | Self::Float => WireType::Fixed32,
            Self::Fixed64 | Self::Double => WireType::Fixed64,
            Self::Text | Self::Any(_) | Self::Typed(_) => WireType::Bytes,
        }
    }

    /// Writes a value without its tag. Integers that a narrower type cannot hold lose their upper bits, as with Istio Mixer.
    pub(crate) fn put(&self, value: Value<'_>, out: &mut Vec<u8>) -> Result<(), PlanError> {
        #[expect(clippy::cast_possible_truncation, reason = "integers lose their upper bits, as documented")]
        match (self, value) {
            (Self::Int64, Value::Int64(value)) => put_varint(value.cast_unsigned(), out),
            (Self::Int32, Value::Int64(value)) => {
                put_varint(i64::from(value as i32).cast_unsigned(), out);
            }
            (Self::Uint32, Value::Int64(value)) => put_varint(u64::from(value as u32), out),
            (Self::Sint32, Value::Int64(value)) => put_zigzag(i64::from(value as i32), out),
            (Self::Sint64, Value::Int64(value)) => put_zigzag(value, out),
            (Self::Fixed32, Value::Int64(value)) => out.extend_from_slice(&(value as i32).to_le_bytes()),
            (Self::Fixed64, Value::Int64(value)) => out.extend_from_slice(&value.to_le_bytes()),
            (Self::Bool, Value::Bool(value)) => out.push(u8::from(value)),
            (Self::Double, Value::Double(value)) => out.extend_from_slice(&value.to_le_bytes()),
            (Self::Float, Value::Double(value)) => out.extend_from_slice(&(value as f32).to_le_bytes()),
            (Self::Text, Value::String(text)) => put_text(text, out),
            (Self::Enum(_), Value::Int64(value)) => {
                put_varint(i64::from(value as i32).cast_unsigned(), out);
            }
            (Self::Enum(known), Value::String(name)) => {
                let number = known.iter().find(|(known, _)| known.as_bytes() == name);
                let Some((_, number)) = number else {
                    let found = String::from_utf8_lossy(name).into_owned();
                    return Err(unknown_enum_value(found, known));
                };
                put_varint(i64::from(*number).cast_unsigned(), out);
            }
            (Self::Any(value_type), value) => put_length(out, |out| put_any(*value_type, value, out))?,
            (Self::Typed(value_type), value) => put_length(out, |out| put_typed(*value_type, value, out))?,
            _ => return Err(PlanError::Mismatch),
        }
        Ok(())
    }
}

/// The error of a value that an enum does not have.
pub(crate) fn unknown_enum_value(found: String, known: &[(Name, i32)]) -> PlanError {
    let known: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    PlanError::UnknownEnumValue { found, known: known.join(" ") }
}

/// Writes a text; what is not UTF-8, which a protobuf string has to be, becomes U+FFFD.
fn put_text(text: &[u8], out: &mut Vec<u8>) {
    match std::str::from_utf8(text) {
        Ok(_) => {
            put_varint(text.len() as u64, out);
            out.extend_from_slice(text);
        }
        Err(_) => {
            let text = String::from_utf8_lossy(text);
            put_varint(text.len() as u64, out);
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// The fields of an `istio.policy.v1beta1.Value`.
fn put_any(value_type: ValueType, value: Value<'_>, out: &mut Vec<u8>) -> Result<(), PlanError> {
    let number = match value_type {
        ValueType::String => 1,
        ValueType::Int64 => 2,
        ValueType::Double => 3,
        ValueType::Bool => 4,
        ValueType::IpAddress => 5,
        ValueType::Timestamp => 6,
        ValueType::Duration => 7,
        ValueType::EmailAddress => 8,
        ValueType::DnsName => 9,
        ValueType::Uri => 10,
        ValueType::StringMap | ValueType::Unspecified => return Err(PlanError::Mismatch),
    };
    let form = match value_type {
        ValueType::String => Form::Text,
        ValueType::Int64 => Form::Int64,
        ValueType::Double => Form::Double,
        ValueType::Bool => Form::Bool,
        other => Form::Typed(other),
    };
    put_tag(number, form.wire_type(), out);
    form.put(value, out)
}

/// The field of a message for values of one type.
fn put_typed(value_type: ValueType, value: Value<'_>, out: &mut Vec<u8>) -> Result<(), PlanError> {
    match (value_type, value) {
        (ValueType::IpAddress, Value::Bytes(bytes)) => put_bytes(1, bytes, out),
        (ValueType::Timestamp, Value::Timestamp(time)) => {
            put_tag(1, WireType::Bytes, out);
            put_length(out, |out| {
                put_timestamp(time, out);
                Ok::<(), PlanError>(())
            })?;
        }
        (ValueType::Duration, Value::Duration(duration)) => {
            put_tag(1, WireType::Bytes, out);
            put_length(out, |out| {
                put_duration(duration, out);
                Ok::<(), PlanError>(())
            })?;
        }
        (ValueType::DnsName | ValueType::EmailAddress | ValueType::Uri, Value::String(text)) => {
            put_tag(1, WireType::Bytes, out);
            put_text(text, out);
        }
        _ => return Err(PlanError::Mismatch),
    }
    Ok(())
}

/// The fields of a `google.protobuf.Timestamp`.
pub(crate) fn put_timestamp(time: Timestamp, out: &mut Vec<u8>) {
    put_seconds(time.seconds, i64::from(time.nanos), out);
}

/// The fields of a `google.protobuf.Duration`.
pub(crate) fn put_duration(duration: SignedDuration, out: &mut Vec<u8>) {
    const NANOS: i64 = 1_000_000_000;
    put_seconds(duration.nanos / NANOS, duration.nanos % NANOS, out);
}

fn put_seconds(seconds: i64, nanos: i64, out: &mut Vec<u8>) {
    for (number, value) in [(1, seconds), (2, nanos)] {
        if value != 0 {
            put_tag(number, WireType::Varint, out);
            put_varint(value.cast_unsigned(), out);
        }
    }
}

#[cfg(test)]
mod tests;
