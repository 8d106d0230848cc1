//! Enums: fields whose value is one of a fixed set of names.

use super::context::DecodeContext;
use super::field::{Field, json_kind};
use super::suggestion;
use crate::field_name::{enum_name, go_type};
use crate::{Node, NodeKind};
use mixer_attribute::ValueType;

/// Declares an enum that decodes from the case-sensitive name or the number of a value; the first value is the default.
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

/// The number of the enum value that `node` holds by name or number; `None` for null, and with an error for anything else.
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
            let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
            let mut hint = format!("one of {}", names.join(", "));
            if matches!(node.kind, NodeKind::Bool(_)) {
                hint += "; YAML 1.1 reads a bare true, false, y, n, yes, no, on or off as a Boolean";
            }
            let text =
                format!("json: cannot unmarshal {} into Go value of type {}", json_kind(node), go_type(full));
            context.error_with_hint(node, text, Some(hint));
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
