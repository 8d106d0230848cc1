//! The [`message!`](crate::message!) macro and the functions that its expansion calls.

use super::context::DecodeContext;
use super::field::json_kind;
use super::{Elsewhere, suggestion};
use crate::field_name::{go_type, is_lower_camel_of, lower_camel};
use crate::{Node, NodeKind};

/// Declares a message: a struct with defaults, [`Field`](crate::message::Field) and [`Message`](crate::message::Message).
#[macro_export]
macro_rules! message {
    ($(#[$meta:meta])* pub struct $name:ident : $full:literal {
        $($(#[$field_meta:meta])* $number:literal $field:ident $(as $alias:literal)? : $ty:ty = $default:expr;)*
    } $(elsewhere $elsewhere:tt)?) => {
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
                        // After the first error fields are decoded to report their errors, but not applied.
                        if context.failed() {
                            let mut discarded = self.$field.clone();
                            context.in_field(name, |c| message::Field::merge(&mut discarded, value, c));
                        } else {
                            context.in_field(name, |c| message::Field::merge(&mut self.$field, value, c));
                        }
                    }
                )*
                let names = Self::FIELDS.iter().map(|field| field.name);
                message::reject_unknown(node, (Self::NAME, Self::ELSEWHERE), names, context);
            }

            fn messages(
                known: &mut ::std::collections::BTreeMap<&'static str, &'static [$crate::message::FieldInfo]>,
            ) {
                use $crate::message::Message;
                if known.insert(Self::NAME, Self::FIELDS).is_none() {
                    $(<$ty as $crate::message::Field>::messages(known);)*
                }
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

            fn write_json(&self, out: &mut dyn FnMut(&str)) {
                #[allow(unused_mut, clippy::allow_attributes, reason = "a message may have no fields")]
                let mut object = $crate::message::JsonWriter::object(out);
                $(
                    object.member(
                        &$crate::message::lower_camel($crate::message_field_name!($field $($alias)?)),
                        &self.$field,
                    );
                )*
                object.end();
            }

            fn member(&self, name: &str) -> Option<&dyn $crate::message::Shown> {
                $(
                    if name == $crate::message_field_name!($field $($alias)?) {
                        return Some(&self.$field);
                    }
                )*
                let _ = name;
                None
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
            const ELSEWHERE: &'static [$crate::message::Elsewhere] = $crate::message_elsewhere!($($elsewhere)?);
        }
    };
}

/// The hints of a message for names that are none of its fields: those between braces, or those of a constant that messages share.
#[doc(hidden)]
#[macro_export]
macro_rules! message_elsewhere {
    () => {
        &[]
    };
    ({ $($other:literal => $hint:literal,)* }) => {
        &[$(($other, $hint),)*]
    };
    ($shared:ident) => {
        $shared
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

/// The entry of a mapping for a field, given by its proto name, in either spelling; lowerCamelCase takes precedence.
pub fn find_field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let entries = node.entries();
    let camel = entries.iter().find(|e| is_lower_camel_of(&e.key, name));
    camel.or_else(|| entries.iter().find(|e| &*e.key == name)).map(|e| &e.value)
}

/// Whether a message node is a mapping; adds an error unless it is a mapping or null.
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

/// Most fields that a hint lists.
const LISTED_FIELDS: usize = 12;

/// The only field of which a name is a part, as `max` of `maxAmount` and `header` of `requestHeader`.
fn containing<'n>(name: &str, fields: &'n [String]) -> Option<&'n str> {
    let name = name.to_lowercase();
    let mut found = fields.iter().filter(|field| name.len() >= 3 && field.to_lowercase().contains(&name));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// The hint for what this name is taken for, in either spelling.
fn meant(name: &str, elsewhere: &[Elsewhere]) -> Option<String> {
    let camel = lower_camel(name);
    let known = |(other, _): &&Elsewhere| name == *other || camel == *other;
    elsewhere.iter().find(known).map(|(_, hint)| (*hint).to_owned())
}

/// Adds an error for every entry of `node` that is not one of `fields`, which are proto names. `elsewhere`: hints for names that are none of them.
pub fn reject_unknown<'f>(
    node: &Node,
    (message, elsewhere): (&str, &[Elsewhere]),
    fields: impl Iterator<Item = &'f str> + Clone,
    context: &mut DecodeContext,
) {
    let is_known = |key: &str| fields.clone().any(|name| name == key || is_lower_camel_of(key, name));
    let mut unknown = node.entries().iter().filter(|entry| !is_known(&entry.key)).peekable();
    if unknown.peek().is_none() {
        return;
    }
    // As the names beside it are written.
    let is_snake_case = node.entries().iter().any(|entry| entry.key.contains('_'));
    let spelled = |name: &str| if is_snake_case { name.to_owned() } else { lower_camel(name) };
    let names = fields.clone().map(spelled).collect::<Vec<_>>();
    for entry in unknown {
        if context.lists_no_more() {
            return;
        }
        let hint = meant(&entry.key, elsewhere)
            .or_else(|| suggestion(&entry.key, names.iter().map(String::as_str)))
            .or_else(|| containing(&entry.key, &names).map(|name| format!("did you mean `{name}`?")))
            .or_else(|| {
                let is_short = (1..=LISTED_FIELDS).contains(&names.len());
                is_short.then(|| format!("the fields are {}", names.join(", ")))
            });
        let path = context.path().field(&entry.key);
        let at = Node { kind: NodeKind::Null, span: entry.key_span };
        context.within(path, |c| {
            let text = format!("unknown field \"{}\" in {}", entry.key, go_type(message));
            c.error_with_hint(&at, text, hint);
        });
    }
}
