//! JSON to protobuf by schema. Fields are written in number order; defaults are left out, as proto3 does.

use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine as _, GeneralPurpose, GeneralPurposeConfig};
use prost::encoding::{WireType, encode_key, encode_varint};

use super::encode_any;
use super::schema::{Cardinality, FieldSchema, FieldType, Schema, Shape};
use mixer_attribute::{SignedDuration, Timestamp};
use mixer_config::message::{
    DecodeContext, FieldInfo, enter_message, enum_number, find_field, go_type, json_kind, lower_camel,
    suggestion,
};
use mixer_config::{Node, NodeKind};

/// Deepest nesting of messages.
const MAX_DEPTH: usize = 32;

/// Appends the encoding of the message in `node` to `out`. `ignored` is a key that is not a field.
pub(super) fn message(
    schema: &Schema,
    node: &Node,
    ignored: Option<&str>,
    context: &mut DecodeContext,
    out: &mut Vec<u8>,
    depth: usize,
) {
    if depth > MAX_DEPTH {
        context.error(node, format!("messages nest deeper than {MAX_DEPTH} levels"));
        return;
    }
    match &schema.shape {
        Shape::Fields(fields) => {
            if !enter_message(node, context) {
                return;
            }
            for field in *fields {
                if let Some(value) = find_field(node, field.name) {
                    let path = context.path().field(&lower_camel(field.name));
                    context.within(path, |c| field_values(field, value, c, out, depth));
                }
            }
            reject_unknown(node, schema.name, fields, ignored, context);
        }
        Shape::Wrapper(kind) => singular(1, *kind, node, context, out, depth, false),
        Shape::Duration => duration(node, context, out),
        Shape::Timestamp => timestamp(node, context, out),
        Shape::Struct => {
            if enter_message(node, context) {
                struct_fields(node, context, out, depth);
            }
        }
        Shape::Value => json_value(node, context, out, depth),
        Shape::ListValue => list_values(node, context, out, depth),
        Shape::Any => {
            if let Some(any) = encode_any(node, context, depth) {
                any_message(&any.type_url, &any.value, out);
            }
        }
    }
}

/// Appends a `google.protobuf.Any`.
fn any_message(type_url: &str, value: &[u8], out: &mut Vec<u8>) {
    if !type_url.is_empty() {
        length_delimited(1, type_url.as_bytes(), out);
    }
    if !value.is_empty() {
        length_delimited(2, value, out);
    }
}

fn field_values(
    field: &FieldSchema,
    node: &Node,
    context: &mut DecodeContext,
    out: &mut Vec<u8>,
    depth: usize,
) {
    match (field.cardinality, &node.kind) {
        (_, NodeKind::Null) => {}
        (Cardinality::One, _) => singular(field.number, field.field_type, node, context, out, depth, false),
        (Cardinality::Many, NodeKind::Sequence(items)) => {
            for (index, item) in items.iter().enumerate() {
                let path = context.path().index(index);
                context.within(path, |c| singular(field.number, field.field_type, item, c, out, depth, true));
            }
        }
        (Cardinality::Map, NodeKind::Mapping(entries)) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by(|a, b| a.key.cmp(&b.key));
            for entry in entries {
                let mut pair = Vec::new();
                length_delimited(1, entry.key.as_bytes(), &mut pair);
                let path = context.path().key(&entry.key);
                context
                    .within(path, |c| singular(2, field.field_type, &entry.value, c, &mut pair, depth, true));
                length_delimited(field.number, &pair, out);
            }
        }
        (Cardinality::Many, _) => wrong_kind(node, "[]json.RawMessage", context),
        (Cardinality::Map, _) => wrong_kind(node, "map[string]json.RawMessage", context),
    }
}

/// Appends one value with its key. A default value is written only if `always`.
fn singular(
    number: u32,
    field_type: FieldType,
    node: &Node,
    context: &mut DecodeContext,
    out: &mut Vec<u8>,
    depth: usize,
    always: bool,
) {
    match field_type {
        FieldType::Bool => match node.kind {
            NodeKind::Bool(value) => varint(number, u64::from(value), always, out),
            _ => wrong_kind(node, "bool", context),
        },
        FieldType::Int32 => match integer(node).and_then(|v| i32::try_from(v).ok()) {
            Some(value) => varint(number, i64::from(value).cast_unsigned(), always, out),
            None => wrong_kind(node, "int32", context),
        },
        FieldType::Int64 => match integer(node).and_then(|v| i64::try_from(v).ok()) {
            Some(value) => varint(number, value.cast_unsigned(), always, out),
            None => wrong_kind(node, "int64", context),
        },
        FieldType::Uint32 => match integer(node).and_then(|v| u32::try_from(v).ok()) {
            Some(value) => varint(number, u64::from(value), always, out),
            None => wrong_kind(node, "uint32", context),
        },
        FieldType::Uint64 => match integer(node).and_then(|v| u64::try_from(v).ok()) {
            Some(value) => varint(number, value, always, out),
            None => wrong_kind(node, "uint64", context),
        },
        FieldType::Float => match number_of(node) {
            Some(value) => {
                if always || value as f32 != 0.0 {
                    encode_key(number, WireType::ThirtyTwoBit, out);
                    out.extend_from_slice(&(value as f32).to_le_bytes());
                }
            }
            None => wrong_kind(node, "float32", context),
        },
        FieldType::Double => match number_of(node) {
            Some(value) => {
                if always || value != 0.0 {
                    double(number, value, out);
                }
            }
            None => wrong_kind(node, "float64", context),
        },
        FieldType::String => match &node.kind {
            NodeKind::String(text) => bytes(number, text.as_bytes(), always, out),
            _ => wrong_kind(node, "string", context),
        },
        FieldType::Bytes => match node.as_str().map(base64) {
            Some(Some(value)) => bytes(number, &value, always, out),
            Some(None) => context.error(node, "illegal base64 data"),
            None => wrong_kind(node, "[]uint8", context),
        },
        // Numbers need no name in the enum, as in protobuf's JSON mapping.
        FieldType::Enum(name, values) => {
            let bare = match node.kind {
                NodeKind::String(_) => None,
                _ => integer(node).and_then(|v| i32::try_from(v).ok()).map(i64::from),
            };
            if let Some(value) = bare.or_else(|| enum_number(node, name, values, context)) {
                varint(number, value.cast_unsigned(), always, out);
            }
        }
        FieldType::Message(schema) => {
            if matches!(node.kind, NodeKind::Null) {
                return;
            }
            let mut inner = Vec::new();
            message(schema, node, None, context, &mut inner, depth + 1);
            length_delimited(number, &inner, out);
        }
    }
}

fn duration(node: &Node, context: &mut DecodeContext, out: &mut Vec<u8>) {
    match node.as_str().map(SignedDuration::parse) {
        Some(Ok(value)) => {
            varint(1, (value.nanos / 1_000_000_000).cast_unsigned(), false, out);
            varint(2, (value.nanos % 1_000_000_000).cast_unsigned(), false, out);
        }
        Some(Err(error)) => context.error(node, format!("bad Duration: {error}")),
        None => wrong_kind(node, "string", context),
    }
}

fn timestamp(node: &Node, context: &mut DecodeContext, out: &mut Vec<u8>) {
    match node.as_str().map(|text| Timestamp::from_text(text.as_bytes())) {
        Some(Some(value)) => {
            varint(1, value.seconds.cast_unsigned(), false, out);
            varint(2, u64::from(value.nanos), false, out);
        }
        Some(None) => {
            let hint = "for example `2019-01-02T03:04:05Z`".to_owned();
            let shown = node.as_str().unwrap_or_default();
            context.error_with_hint(node, format!("bad Timestamp: cannot parse \"{shown}\""), Some(hint));
        }
        None => wrong_kind(node, "string", context),
    }
}

/// The entries of a `google.protobuf.Struct`.
fn struct_fields(node: &Node, context: &mut DecodeContext, out: &mut Vec<u8>, depth: usize) {
    for entry in node.entries() {
        let mut pair = Vec::new();
        length_delimited(1, entry.key.as_bytes(), &mut pair);
        let mut value = Vec::new();
        let path = context.path().key(&entry.key);
        context.within(path, |c| json_value(&entry.value, c, &mut value, depth + 1));
        length_delimited(2, &value, &mut pair);
        length_delimited(1, &pair, out);
    }
}

/// A `google.protobuf.Value`.
fn json_value(node: &Node, context: &mut DecodeContext, out: &mut Vec<u8>, depth: usize) {
    if depth > MAX_DEPTH {
        context.error(node, format!("messages nest deeper than {MAX_DEPTH} levels"));
        return;
    }
    match &node.kind {
        NodeKind::Null => varint(1, 0, true, out),
        NodeKind::Int(value) => double(2, *value as f64, out),
        NodeKind::Float(value) => double(2, *value, out),
        NodeKind::String(text) => length_delimited(3, text.as_bytes(), out),
        NodeKind::Bool(value) => varint(4, u64::from(*value), true, out),
        NodeKind::Mapping(_) => {
            let mut inner = Vec::new();
            struct_fields(node, context, &mut inner, depth);
            length_delimited(5, &inner, out);
        }
        NodeKind::Sequence(_) => {
            let mut inner = Vec::new();
            list_values(node, context, &mut inner, depth);
            length_delimited(6, &inner, out);
        }
    }
}

/// The items of a `google.protobuf.ListValue`.
fn list_values(node: &Node, context: &mut DecodeContext, out: &mut Vec<u8>, depth: usize) {
    let NodeKind::Sequence(items) = &node.kind else {
        wrong_kind(node, "[]json.RawMessage", context);
        return;
    };
    for (index, item) in items.iter().enumerate() {
        let mut value = Vec::new();
        let path = context.path().index(index);
        context.within(path, |c| json_value(item, c, &mut value, depth + 1));
        length_delimited(1, &value, out);
    }
}

fn reject_unknown(
    node: &Node,
    message: &str,
    fields: &[FieldSchema],
    ignored: Option<&str>,
    context: &mut DecodeContext,
) {
    let known: Vec<FieldInfo> = fields.iter().map(|f| FieldInfo { name: f.name, number: f.number }).collect();
    for entry in node.entries() {
        let named = known.iter().any(|f| f.name == &*entry.key || lower_camel(f.name) == *entry.key);
        if named || ignored == Some(&*entry.key) {
            continue;
        }
        let names: Vec<String> = known.iter().map(|f| lower_camel(f.name)).collect();
        let hint = suggestion(&entry.key, names.iter().map(String::as_str));
        let path = context.path().field(&entry.key);
        let at = Node { kind: NodeKind::Null, span: entry.key_span };
        context.within(path, |c| {
            c.error_with_hint(&at, format!("unknown field \"{}\" in {}", entry.key, go_type(message)), hint);
        });
    }
}

fn wrong_kind(node: &Node, wanted: &str, context: &mut DecodeContext) {
    if !matches!(node.kind, NodeKind::Null) {
        context.error(
            node,
            format!("json: cannot unmarshal {} into Go value of type {wanted}", json_kind(node)),
        );
    }
}

fn integer(node: &Node) -> Option<i128> {
    match &node.kind {
        NodeKind::Int(value) => Some(i128::from(*value)),
        NodeKind::Float(value) if value.fract() == 0.0 && value.abs() < 1.9e19 => Some(*value as i128),
        NodeKind::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn number_of(node: &Node) -> Option<f64> {
    match &node.kind {
        NodeKind::Int(value) => Some(*value as f64),
        NodeKind::Float(value) => Some(*value),
        NodeKind::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn varint(number: u32, value: u64, always: bool, out: &mut Vec<u8>) {
    if always || value != 0 {
        encode_key(number, WireType::Varint, out);
        encode_varint(value, out);
    }
}

fn double(number: u32, value: f64, out: &mut Vec<u8>) {
    encode_key(number, WireType::SixtyFourBit, out);
    out.extend_from_slice(&value.to_le_bytes());
}

fn bytes(number: u32, value: &[u8], always: bool, out: &mut Vec<u8>) {
    if always || !value.is_empty() {
        length_delimited(number, value, out);
    }
}

fn length_delimited(number: u32, value: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Decodes base64, standard or URL-safe alphabet, padding optional.
fn base64(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    let text = text.trim_end_matches('=').replace('-', "+").replace('_', "/");
    LENIENT.decode(text).ok()
}
