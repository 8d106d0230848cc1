//! Typed messages that decode from a [`Node`] the way the originals decode JSON into protobuf messages.
//!
//! Decoding starts from a value that may already hold defaults and writes over it: present fields, maps and lists replace as a
//! whole, `null` leaves what is there. Fields are taken in field-number order; the first one that does
//! not decode stops what is applied (the rest is still examined, so that all problems are reported); unknown fields are noticed
//! last. Both spellings of a name, lowerCamelCase and snake_case, are accepted. Spec: runtime.md 1.3, adapters-inprocess.md 1.2.
//!
//! ```
//! mixer::message! {
//!     /// Limits.
//!     pub struct Limits: "example.Limits" {
//!         /// Most entries.
//!         1 max_entries: i64 = 10;
//!         /// A field whose proto name is a keyword.
//!         2 kind as "type": String = String::new();
//!     }
//! }
//! ```

mod names;
mod quoted;

use std::collections::BTreeMap;

use serde_json::json;

pub use names::{enum_name, go_type, is_lower_camel_of, lower_camel, suggestion, upper_camel};
use quoted::Quoted;

use super::number::shortest_f64;
use super::{FieldPath, Node, NodeKind, Span};
use mixer_attribute::ValueType;
use mixer_base::time::SignedDuration;

/// One value that did not decode.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodeError {
    /// The text of the originals, for example `unknown field "x" in pkg.Message`.
    pub message: String,
    /// Where in the message.
    pub field: FieldPath,
    /// Where in the file.
    pub span: Span,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Collects the problems of one decoding and knows where it is.
#[derive(Debug, Default)]
pub struct DecodeContext {
    base: FieldPath,
    steps: Vec<Step>,
    /// What went wrong, in the order in which it was met; the first is the one that the originals report.
    pub errors: Vec<DecodeError>,
}

/// One step below the base; becomes part of a path only if there is something to report.
#[derive(Debug)]
enum Step {
    Field(&'static str),
    Index(usize),
    Key(String),
}

impl DecodeContext {
    /// A context for a message that stands at `path` in its resource.
    pub fn at(path: FieldPath) -> Self {
        Self { base: path, ..Self::default() }
    }

    /// Where decoding is.
    pub fn path(&self) -> FieldPath {
        self.steps.iter().fold(self.base.clone(), |path, step| match step {
            Step::Field(name) => path.field(&lower_camel(name)),
            Step::Index(index) => path.index(*index),
            Step::Key(key) => path.key(key),
        })
    }

    /// Whether anything went wrong yet.
    pub fn failed(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Notes a problem at the present place.
    pub fn error(&mut self, node: &Node, message: impl Into<String>) {
        self.error_with_hint(node, message, None);
    }

    /// Notes a problem at the present place, with advice.
    pub fn error_with_hint(&mut self, node: &Node, message: impl Into<String>, hint: Option<String>) {
        self.errors.push(DecodeError { message: message.into(), field: self.path(), span: node.span, hint });
    }

    /// Runs `step` at another place.
    pub fn within<T>(&mut self, path: FieldPath, step: impl FnOnce(&mut Self) -> T) -> T {
        let base = std::mem::replace(&mut self.base, path);
        let steps = std::mem::take(&mut self.steps);
        let result = step(self);
        (self.base, self.steps) = (base, steps);
        result
    }

    /// Runs `step` in a field, given by its proto name. Costs nothing when all goes well.
    pub fn in_field<T>(&mut self, name: &'static str, step: impl FnOnce(&mut Self) -> T) -> T {
        self.deeper(Step::Field(name), step)
    }

    fn deeper<T>(&mut self, to: Step, step: impl FnOnce(&mut Self) -> T) -> T {
        self.steps.push(to);
        let result = step(self);
        self.steps.pop();
        result
    }
}

/// A value that can stand in a message field.
pub trait Field: Clone {
    /// Decodes `node` over what is there.
    fn merge(&mut self, node: &Node, context: &mut DecodeContext);
    /// The JSON form, with defaults filled in; decoding it gives the value back.
    fn to_json(&self) -> serde_json::Value;
}

/// Name and number of a message field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldInfo {
    /// snake_case.
    pub name: &'static str,
    /// Protobuf field number.
    pub number: u32,
}

/// A message: a struct made by [`message!`](crate::message).
pub trait Message: Field + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// Full protobuf name.
    const NAME: &'static str;
    /// Every field, in number order.
    const FIELDS: &'static [FieldInfo];
}

/// Decodes a message over `target`; all problems end up in the returned context.
pub fn decode_over<M: Message>(target: &mut M, node: &Node, path: FieldPath) -> Vec<DecodeError> {
    let mut context = DecodeContext::at(path);
    target.merge(node, &mut context);
    context.errors
}

/// The entry of a mapping that spells the field in either way; lowerCamelCase goes first.
pub fn find_field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let entries = node.entries();
    let camel = entries.iter().find(|e| is_lower_camel_of(&e.key, name));
    camel.or_else(|| entries.iter().find(|e| &*e.key == name)).map(|e| &e.value)
}

/// Prepares a message node: true when it is a mapping, an error unless it is a mapping or null.
pub fn enter_message(node: &Node, context: &mut DecodeContext) -> bool {
    match node.kind {
        NodeKind::Mapping(_) => true,
        NodeKind::Null => false,
        _ => {
            let text = format!(
                "json: cannot unmarshal {} into Go value of type map[string]json.RawMessage",
                json_kind(node)
            );
            context.error_with_hint(node, text, Some("a mapping is expected here".to_owned()));
            false
        }
    }
}

/// Notes every entry of `node` that is not one of `fields`.
pub fn reject_unknown(node: &Node, message: &str, fields: &[FieldInfo], context: &mut DecodeContext) {
    for entry in node.entries() {
        if fields.iter().any(|f| f.name == &*entry.key || is_lower_camel_of(&entry.key, f.name)) {
            continue;
        }
        let names = fields.iter().map(|f| lower_camel(f.name)).collect::<Vec<_>>();
        let hint = suggestion(&entry.key, names.iter().map(String::as_str));
        let path = context.path().field(&entry.key);
        let at = Node { kind: NodeKind::Null, span: entry.key_span };
        context.within(path, |c| {
            let text = format!("unknown field \"{}\" in {}", entry.key, go_type(message));
            c.error_with_hint(&at, text, hint);
        });
    }
}

/// What Go's JSON decoder calls this kind of value.
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

fn wrong_kind(node: &Node, wanted: &str, context: &mut DecodeContext) {
    if matches!(node.kind, NodeKind::Null) {
        return;
    }
    let hint = match (&node.kind, wanted) {
        (NodeKind::Bool(_), "string") => Some(
            "write it in quotes: YAML 1.1 reads a bare y, n, yes, no, on or off as a truth value".to_owned(),
        ),
        (NodeKind::Int(_) | NodeKind::Float(_), "string") => {
            Some("write it in quotes: text is expected here".to_owned())
        }
        (_, wanted) if wanted.starts_with("[]") => {
            Some("a list is expected here: begin each item with `- `".to_owned())
        }
        (_, wanted) if wanted.starts_with("map[") => {
            Some("a mapping is expected here: write `name: value`".to_owned())
        }
        _ => None,
    };
    context.error_with_hint(
        node,
        format!("json: cannot unmarshal {} into Go value of type {wanted}", json_kind(node)),
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

/// The JSON text of a number, also of one in a string; `None` after an error and for null.
fn number_text(node: &Node, go: &str, context: &mut DecodeContext) -> Option<String> {
    match &node.kind {
        NodeKind::Int(value) => Some(value.to_string()),
        NodeKind::Float(value) => Some(shortest_f64(*value).json()),
        NodeKind::String(text) => match quoted::read(text) {
            Quoted::Number(literal) => Some(literal.to_owned()),
            Quoted::Null => None,
            Quoted::Refused(kind) if kind == "bool" => {
                context.error(node, format!("json: cannot unmarshal bool into Go value of type {go}"));
                None
            }
            Quoted::Refused(text) => {
                context.error_with_hint(node, text, Some("a number is expected here".to_owned()));
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

impl Field for ValueType {
    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        let names = ValueType::ALL.map(|t| (t.name(), t as i64));
        let number = enum_number(node, "istio.policy.v1beta1.ValueType", &names, context);
        if let Some(value) = number.and_then(ValueType::from_number) {
            *self = value;
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.name().into()
    }
}

impl Field for SignedDuration {
    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        let hint = || Some("write a number and a unit, for example `90s`, `1m30s` or `250ms`".to_owned());
        let text = match &node.kind {
            // An explicit null reads as an empty text, which is no duration.
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
    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        match &node.kind {
            NodeKind::Null => {}
            NodeKind::Sequence(items) => {
                self.clear();
                for (index, item) in items.iter().enumerate() {
                    let mut value = T::default();
                    context.deeper(Step::Index(index), |c| value.merge(item, c));
                    self.push(value);
                }
            }
            _ => wrong_kind(node, "[]json.RawMessage", context),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.iter().map(Field::to_json).collect()
    }
}

impl<T: Field + Default> Field for BTreeMap<String, T> {
    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        match &node.kind {
            NodeKind::Null => {}
            NodeKind::Mapping(entries) => {
                // compat(1.3): the entries of a default map are forgotten; pinned by scenarios/report-log-severity.
                self.clear();
                for entry in entries {
                    let mut value = T::default();
                    context.deeper(Step::Key(entry.key.to_string()), |c| value.merge(&entry.value, c));
                    self.insert(entry.key.to_string(), value);
                }
            }
            _ => wrong_kind(node, "map[string]json.RawMessage", context),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        serde_json::Value::Object(self.iter().map(|(k, v)| (k.clone(), v.to_json())).collect())
    }
}

impl<T: Field + Default> Field for Option<T> {
    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        if !matches!(node.kind, NodeKind::Null) {
            // compat(1.3): what a default holds is forgotten, not merged with.
            self.insert(T::default()).merge(node, context);
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.as_ref().map_or(serde_json::Value::Null, Field::to_json)
    }
}

/// A free-form value (`google.protobuf.Struct`, `Any`): kept as it was written.
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

/// Declares a message: a struct with defaults, [`Field`] and [`Message`].
#[macro_export]
macro_rules! message {
    ($(#[$meta:meta])* pub struct $name:ident : $full:literal {
        $($(#[$field_meta:meta])* $number:literal $field:ident $(as $alias:literal)? : $ty:ty = $default:expr;)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::message::Field for $name {
            fn merge(
                &mut self,
                node: &$crate::Node,
                context: &mut $crate::message::DecodeContext,
            ) {
                use $crate::message::{self, Message};
                if !message::enter_message(node, context) {
                    return;
                }
                $(
                    if let Some(value) = message::find_field(node, $crate::message_field_name!($field $($alias)?)) {
                        let name = $crate::message_field_name!($field $($alias)?);
                        // Behind the first problem everything is still examined, but nothing applies.
                        if context.failed() {
                            let mut examined = self.$field.clone();
                            context.in_field(name, |c| message::Field::merge(&mut examined, value, c));
                        } else {
                            context.in_field(name, |c| message::Field::merge(&mut self.$field, value, c));
                        }
                    }
                )*
                message::reject_unknown(node, Self::NAME, Self::FIELDS, context);
            }

            fn to_json(&self) -> serde_json::Value {
                #[allow(unused_mut, clippy::allow_attributes, reason = "a message may have no fields")]
                let mut object = serde_json::Map::new();
                $(
                    object.insert(
                        $crate::message::lower_camel($crate::message_field_name!($field $($alias)?)),
                        $crate::message::Field::to_json(&self.$field),
                    );
                )*
                serde_json::Value::Object(object)
            }
        }

        impl $crate::message::Message for $name {
            const NAME: &'static str = $full;
            const FIELDS: &'static [$crate::message::FieldInfo] = &[
                $($crate::message::FieldInfo {
                    name: $crate::message_field_name!($field $($alias)?),
                    number: $number,
                },)*
            ];
        }
    };
}

/// The proto name of a field that [`message!`](crate::message) declares.
#[doc(hidden)]
#[macro_export]
macro_rules! message_field_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $alias:literal) => {
        $alias
    };
}

/// Declares an enum that decodes from the name of a value (case-sensitive) or its number; the first value is the default.
#[macro_export]
macro_rules! message_enum {
    ($(#[$meta:meta])* pub enum $name:ident : $full:literal {
        $($(#[$value_meta:meta])* $number:literal $text:literal $value:ident;)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$value_meta])* $value = $number,)*
        }

        impl $name {
            /// The name in configuration files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)*
                }
            }

            /// Names and numbers of all values.
            pub const NAMES: &'static [(&'static str, i64)] = &[$(($text, $number),)*];
        }

        impl Default for $name {
            fn default() -> Self {
                let [first, ..] = [$($name::$value),*];
                first
            }
        }

        impl $crate::message::Field for $name {
            fn merge(
                &mut self,
                node: &$crate::Node,
                context: &mut $crate::message::DecodeContext,
            ) {
                if let Some(number) = $crate::message::enum_number(node, $full, Self::NAMES, context) {
                    $(if number == $number {
                        *self = Self::$value;
                    })*
                }
            }

            fn to_json(&self) -> serde_json::Value {
                serde_json::Value::from(self.name())
            }
        }
    };
}

/// The number of the enum value that `node` names, by name or number; an error unless it is one of `values` or null.
pub fn enum_number(
    node: &Node,
    full: &str,
    values: &[(&str, i64)],
    context: &mut DecodeContext,
) -> Option<i64> {
    let found = match &node.kind {
        NodeKind::Null => return None,
        NodeKind::String(text) => values.iter().find(|(name, _)| *name == &**text),
        NodeKind::Int(number) => values.iter().find(|(_, n)| n == number),
        NodeKind::Float(number) if number.fract() == 0.0 => values.iter().find(|(_, n)| *n as f64 == *number),
        _ => {
            wrong_kind(node, &go_type(full), context);
            return None;
        }
    };
    if found.is_none() {
        let shown = match &node.kind {
            NodeKind::String(text) => text.to_string(),
            _ => node.to_json().to_string(),
        };
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let hint = suggestion(&shown, names.iter().copied())
            .unwrap_or_else(|| format!("one of {}", names.join(", ")));
        context.error_with_hint(
            node,
            format!("unknown value \"{shown}\" for enum {}", enum_name(full)),
            Some(hint),
        );
    }
    found.map(|(_, number)| *number)
}
