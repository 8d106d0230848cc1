//! From the messages of a template to its fields and outputs.

use std::sync::Arc;

use super::descriptor::{
    Cardinality, DescriptorError, INSTANCE_NAME, Kind, MessageField, MessageId, Schema, WellKnown,
};
use super::{FieldInfo, FieldKind, OutputInfo};
use mixer_attribute::ValueType;

/// Deepest nesting of the messages of a template.
const MAX_DEPTH: usize = 8;

/// Most fields of a template, those of nested messages included.
const MAX_FIELDS: usize = 1024;

/// The fields of the message of an instance.
///
/// Errors: a field that an adapter in process cannot take, a message that contains itself.
pub(super) fn of_instance(schema: &Schema, id: MessageId) -> Result<Arc<[FieldInfo]>, DescriptorError> {
    Walk { schema, left: MAX_FIELDS }.fields(id, "", 1)
}

struct Walk<'s> {
    schema: &'s Schema,
    /// Number of fields that may still come.
    left: usize,
}

impl Walk<'_> {
    fn fields(
        &mut self,
        id: MessageId,
        prefix: &str,
        depth: usize,
    ) -> Result<Arc<[FieldInfo]>, DescriptorError> {
        let schema = self.schema;
        let Some(message) = schema.message(id) else { return Ok(Arc::default()) };
        let nested = |name: &str| DescriptorError::Recursive(name.to_owned(), MAX_DEPTH);
        if depth > MAX_DEPTH {
            return Err(nested(&message.name));
        }
        let fields = message.fields.iter().filter(|field| field.number != INSTANCE_NAME);
        let fields = fields.map(|field| {
            self.left = self.left.checked_sub(1).ok_or_else(|| nested(&message.name))?;
            let path = format!("{prefix}{}", field.name);
            let kind = match leaf(field, schema) {
                Some(kind) => kind,
                None => match &field.kind {
                    Kind::Message(id) if field.cardinality == Cardinality::One => {
                        FieldKind::Message(self.fields(*id, &format!("{path}."), depth + 1)?)
                    }
                    _ => {
                        return Err(DescriptorError::FieldKind {
                            message: message.name.to_string(),
                            field: field.name.to_string(),
                            kind: shown(field, schema),
                        });
                    }
                },
            };
            Ok(FieldInfo { number: field.number, name: field.name.clone(), path: path.into(), kind })
        });
        fields.collect()
    }
}

/// The kind of a field that is no nested message; `None` of one, and of types that instances in process cannot have.
fn leaf(field: &MessageField, schema: &Schema) -> Option<FieldKind> {
    let is_value = field.kind.well_known(schema) == Some(WellKnown::Value);
    match &field.cardinality {
        Cardinality::One if is_value => Some(FieldKind::Value),
        Cardinality::One => match field.kind {
            Kind::Int64 => Some(FieldKind::Typed(ValueType::Int64)),
            ref kind if kind.is_integer() => None,
            Kind::Float | Kind::Enum(_) => None,
            ref kind => match kind.well_known(schema) {
                Some(WellKnown::GoogleDuration | WellKnown::GoogleTimestamp | WellKnown::StringMap) => None,
                _ => value_type(kind, schema).map(FieldKind::Typed),
            },
        },
        Cardinality::Map { key: Kind::String } if is_value => Some(FieldKind::ValueMap),
        _ => None,
    }
}

/// The outputs of the message of an output. A field whose type no attribute has is none.
pub(super) fn of_output(schema: &Schema, id: MessageId) -> Arc<[OutputInfo]> {
    let fields = schema.message(id).map_or(&[][..], |message| &message.fields);
    let outputs = fields.iter().filter_map(|field| {
        let value_type = match &field.cardinality {
            Cardinality::One => value_type(&field.kind, schema)?,
            Cardinality::Map { key: Kind::String } if field.kind == Kind::String => ValueType::StringMap,
            _ => return None,
        };
        Some(OutputInfo { number: field.number, name: field.name.clone(), value_type })
    });
    outputs.collect()
}

/// The type of the attribute that a single value of a field becomes.
fn value_type(kind: &Kind, schema: &Schema) -> Option<ValueType> {
    match kind {
        Kind::String => Some(ValueType::String),
        Kind::Bool => Some(ValueType::Bool),
        Kind::Double | Kind::Float => Some(ValueType::Double),
        Kind::Enum(_) => Some(ValueType::Int64),
        kind if kind.is_integer() => Some(ValueType::Int64),
        kind => match kind.well_known(schema)? {
            WellKnown::IpAddress => Some(ValueType::IpAddress),
            WellKnown::DnsName => Some(ValueType::DnsName),
            WellKnown::Duration | WellKnown::GoogleDuration => Some(ValueType::Duration),
            WellKnown::TimeStamp | WellKnown::GoogleTimestamp => Some(ValueType::Timestamp),
            WellKnown::Value | WellKnown::EmailAddress | WellKnown::Uri | WellKnown::StringMap => None,
        },
    }
}

/// The type of a field in words.
fn shown(field: &MessageField, schema: &Schema) -> String {
    let kind = field.kind.name(schema);
    match &field.cardinality {
        Cardinality::One => kind.to_owned(),
        Cardinality::Many { .. } => format!("a list of {kind}"),
        Cardinality::Map { key } => format!("a map from {} to {kind}", key.name(schema)),
    }
}
