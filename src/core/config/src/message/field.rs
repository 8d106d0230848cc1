//! Decoding of message fields: scalars, lists, maps and free-form values.

use std::collections::BTreeMap;

use serde_json::json;

use super::FieldInfo;
use super::context::{DecodeContext, Step};
use super::quoted::{self, Quoted};
use super::shown::{JsonWriter, Shown, write_text};
use crate::{Node, NodeKind};
use mixer_base::decimal;
use mixer_base::rpc_code;
use mixer_base::time::SignedDuration;

/// The type of a message field.
pub trait Field: Clone {
    /// Decodes `node` over the current value; errors go to `context`.
    fn merge(&mut self, node: &Node, context: &mut DecodeContext);
    /// The JSON form, with defaults filled in; decodes to the same value.
    fn to_json(&self) -> serde_json::Value;
    /// Writes the text of the JSON form in parts, which takes no more memory than the largest scalar.
    fn write_json(&self, out: &mut dyn FnMut(&str)) {
        out(&self.to_json().to_string());
    }
    /// The field of a message with this proto name.
    fn member(&self, name: &str) -> Option<&dyn Shown> {
        let _ = name;
        None
    }
    /// The item of a list, from 0.
    fn item(&self, index: usize) -> Option<&dyn Shown> {
        let _ = index;
        None
    }
    /// Adds the messages that the type has, itself among them, with their fields; for tests of tables of fields.
    fn messages(known: &mut BTreeMap<&'static str, &'static [FieldInfo]>) {
        let _ = known;
    }
}

/// Go's name of the JSON type, as used in decoding errors.
pub fn json_kind(node: &Node) -> &'static str {
    match node.kind {
        NodeKind::Null => "null",
        NodeKind::Bool(_) => "bool",
        NodeKind::Int(_) | NodeKind::Float(_) => "number",
        NodeKind::String(_) => "string",
        NodeKind::Sequence(_) => "array",
        NodeKind::Mapping(_) => "object",
    }
}

pub(super) fn wrong_kind(node: &Node, expected: &str, context: &mut DecodeContext) {
    if matches!(node.kind, NodeKind::Null) {
        return;
    }
    let hint = match (&node.kind, expected) {
        (NodeKind::Bool(_), "string") => Some(
            "write it in quotes: YAML 1.1 reads a bare true, false, y, n, yes, no, on or off as a Boolean"
                .to_owned(),
        ),
        (NodeKind::String(_), "bool") => Some("write `true` or `false`, without quotes".to_owned()),
        (NodeKind::Int(_) | NodeKind::Float(_), "string") => {
            Some("write it in quotes: text is expected here".to_owned())
        }
        (_, expected) if expected.starts_with("[]") => {
            Some("a list is expected here: begin each item with `- `".to_owned())
        }
        (_, expected) if expected.starts_with("map[") => {
            Some("a mapping is expected here: write `name: value`".to_owned())
        }
        _ => None,
    };
    context.error_with_hint(
        node,
        format!("json: cannot unmarshal {} into Go value of type {expected}", json_kind(node)),
        hint,
    );
}

impl Field for String {
    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        match &node.kind {
            NodeKind::String(text) => *self = text.to_string(),
            _ => wrong_kind(node, "string", context),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        json!(self)
    }

    fn write_json(&self, out: &mut dyn FnMut(&str)) {
        write_text(self, out);
    }
}

impl Field for bool {
    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        match node.kind {
            NodeKind::Bool(value) => *self = value,
            _ => wrong_kind(node, "bool", context),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        json!(self)
    }
}

/// The JSON text of a number, which may be quoted; `None` for null and after an error.
fn number_text(node: &Node, go: &str, context: &mut DecodeContext) -> Option<String> {
    match &node.kind {
        NodeKind::Int(value) => Some(value.to_string()),
        NodeKind::Float(value) => Some(decimal::json(*value).to_string()),
        NodeKind::String(text) => match quoted::read(text) {
            Quoted::Number(literal) => Some(literal.to_owned()),
            Quoted::Null => None,
            Quoted::Rejected(kind) if kind == "bool" => {
                context.error(node, format!("json: cannot unmarshal bool into Go value of type {go}"));
                None
            }
            Quoted::Rejected(error) => {
                // A status by its name, of gRPC.
                let code =
                    rpc_code::parse(text).filter(|_| text.starts_with(|c: char| c.is_ascii_uppercase()));
                let hint = match code {
                    Some(code) => format!("a number is expected here: {text} is {code}"),
                    None => "a number is expected here".to_owned(),
                };
                context.error_with_hint(node, error, Some(hint));
                None
            }
        },
        _ => {
            wrong_kind(node, go, context);
            None
        }
    }
}

macro_rules! integer_field {
    ($($ty:ty => $go:literal),*) => {$(
        impl Field for $ty {
            fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
                if let NodeKind::Int(value) = node.kind
                    && let Ok(value) = <$ty>::try_from(value)
                {
                    *self = value;
                    return;
                }
                let Some(text) = number_text(node, $go, context) else { return };
                match text.parse() {
                    Ok(value) => *self = value,
                    Err(_) => {
                        let text = format!("json: cannot unmarshal number {text} into Go value of type {}", $go);
                        let range = format!("a whole number from {} to {} is expected here", <$ty>::MIN, <$ty>::MAX);
                        context.error_with_hint(node, text, Some(range));
                    }
                }
            }

            fn to_json(&self) -> serde_json::Value {
                json!(self)
            }
        }
    )*};
}
integer_field!(i32 => "int32", i64 => "int64", u32 => "uint32", u64 => "uint64");

impl Field for f64 {
    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        match &node.kind {
            NodeKind::Int(value) => *self = *value as f64,
            NodeKind::Float(value) => *self = *value,
            NodeKind::String(text) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => {
                *self = text.parse().unwrap_or(f64::NAN);
            }
            _ => {
                let Some(text) = number_text(node, "float64", context) else { return };
                match text.parse::<f64>() {
                    Ok(value) if value.is_finite() => *self = value,
                    _ => {
                        let text =
                            format!("json: cannot unmarshal number {text} into Go value of type float64");
                        context.error(node, text);
                    }
                }
            }
        }
    }

    fn to_json(&self) -> serde_json::Value {
        match *self {
            v if v.is_finite() => json!(v),
            v if v.is_nan() => json!("NaN"),
            v if v > 0.0 => json!("Infinity"),
            _ => json!("-Infinity"),
        }
    }
}

impl Field for SignedDuration {
    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        let hint = || Some("write a number and a unit, for example `90s`, `1m30s` or `250ms`".to_owned());
        let text = match &node.kind {
            // Go decodes null as an empty text, which is not a duration.
            NodeKind::Null => Some(""),
            NodeKind::String(text) => Some(&**text),
            _ => None,
        };
        match text.map(SignedDuration::parse) {
            Some(Ok(value)) => *self = value,
            Some(Err(error)) => context.error_with_hint(node, format!("bad Duration: {error}"), hint()),
            None => {
                let text = format!("json: cannot unmarshal {} into Go value of type string", json_kind(node));
                context.error_with_hint(node, text, hint());
            }
        }
    }

    fn to_json(&self) -> serde_json::Value {
        json!(self.to_string())
    }
}

impl<T: Field + Default> Field for Vec<T> {
    fn messages(known: &mut BTreeMap<&'static str, &'static [FieldInfo]>) {
        T::messages(known);
    }

    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        match &node.kind {
            NodeKind::Null => {}
            NodeKind::Sequence(items) => {
                // As many as there are: a document may have very many lists, and long ones.
                *self = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    let mut value = T::default();
                    context.at_step(Step::Index(index), |c| value.merge(item, c));
                    self.push(value);
                }
            }
            _ => wrong_kind(node, "[]json.RawMessage", context),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.iter().map(Field::to_json).collect()
    }

    fn write_json(&self, out: &mut dyn FnMut(&str)) {
        let mut list = JsonWriter::list(out);
        self.iter().for_each(|item| list.item(item));
        list.end();
    }

    fn item(&self, index: usize) -> Option<&dyn Shown> {
        self.get(index).map(|item| item as &dyn Shown)
    }
}

impl<T: Field + Default> Field for BTreeMap<String, T> {
    fn messages(known: &mut BTreeMap<&'static str, &'static [FieldInfo]>) {
        T::messages(known);
    }

    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        match &node.kind {
            NodeKind::Null => {}
            NodeKind::Mapping(entries) => {
                // compat(1.3): replaces a default map instead of merging; pinned by scenarios/report-log-severity.
                self.clear();
                for entry in entries {
                    let mut value = T::default();
                    context.at_step(Step::Key(entry.key.to_string()), |c| value.merge(&entry.value, c));
                    self.insert(entry.key.to_string(), value);
                }
            }
            _ => wrong_kind(node, "map[string]json.RawMessage", context),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        serde_json::Value::Object(self.iter().map(|(k, v)| (k.clone(), v.to_json())).collect())
    }

    fn write_json(&self, out: &mut dyn FnMut(&str)) {
        let mut object = JsonWriter::object(out);
        self.iter().for_each(|(key, value)| object.member(key, value));
        object.end();
    }
}

impl<T: Field + Default> Field for Option<T> {
    fn messages(known: &mut BTreeMap<&'static str, &'static [FieldInfo]>) {
        T::messages(known);
    }

    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        if !matches!(node.kind, NodeKind::Null) {
            // compat(1.3): replaces a default instead of merging.
            self.insert(T::default()).merge(node, context);
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.as_ref().map_or(serde_json::Value::Null, Field::to_json)
    }

    fn write_json(&self, out: &mut dyn FnMut(&str)) {
        match self {
            Some(value) => value.write_json(out),
            None => out("null"),
        }
    }

    fn member(&self, name: &str) -> Option<&dyn Shown> {
        Field::member(self.as_ref()?, name)
    }

    fn item(&self, index: usize) -> Option<&dyn Shown> {
        Field::item(self.as_ref()?, index)
    }
}

/// A free-form value (`google.protobuf.Struct`, `Any`), kept undecoded.
impl Field for Node {
    fn merge(&mut self, node: &Node, _: &mut DecodeContext) {
        self.clone_from(node);
    }

    fn to_json(&self) -> serde_json::Value {
        match &self.kind {
            NodeKind::Null => serde_json::Value::Null,
            NodeKind::Bool(value) => json!(value),
            NodeKind::Int(value) => json!(value),
            NodeKind::Float(value) => json!(value),
            NodeKind::String(value) => json!(value),
            NodeKind::Sequence(items) => items.iter().map(Field::to_json).collect(),
            NodeKind::Mapping(entries) => serde_json::Value::Object(
                entries.iter().map(|e| (e.key.to_string(), e.value.to_json())).collect(),
            ),
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Node::synthetic(NodeKind::Null)
    }
}
