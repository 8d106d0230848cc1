//! Typed messages that decode from a [`Node`] the way Istio Mixer decodes JSON into protobuf messages.
//!
//! Decoding overwrites a value that may hold defaults: present fields, maps and lists are replaced as a whole, `null` changes
//! nothing. Fields are decoded in field-number order. After the first error no field is applied; the others are decoded only to
//! report their errors. Unknown fields are reported last. Names are accepted in lowerCamelCase and snake_case. Behind the fields may stand the
//! hints for names that users write instead of them, or `elsewhere NAME` with the constant of type `&[Elsewhere]` that several messages share.
//!
//! ```
//! mixer::message! {
//!     /// Limits.
//!     pub struct Limits: "example.Limits" {
//!         /// Most entries.
//!         1 max_entries: i64 = 10;
//!         /// A field whose proto name is a keyword.
//!         2 kind as "type": String = String::new();
//!     } elsewhere {
//!         "limit" => "did you mean `maxEntries`?",
//!     }
//! }
//! ```

mod context;
mod define;
mod entries;
mod enums;
mod field;
mod plain;
mod quoted;
mod shown;
mod suggestion;

pub use context::{DecodeContext, DecodeError};
pub use define::{enter_message, find_field, reject_unknown};
pub use entries::Entries;
pub use enums::enum_number;
pub use field::{Field, json_kind};
pub use plain::plain_words;
pub use shown::{JsonWriter, Shown};
pub use suggestion::{is_within, misspelling, resembles, suggested, suggestion};

pub use super::field_name::{go_type, lower_camel, upper_camel};
use super::{FieldPath, Node};

/// Name and number of a message field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldInfo {
    /// snake_case.
    pub name: &'static str,
    /// Protobuf field number.
    pub number: u32,
}

/// A name in lowerCamelCase that is no field of a message, but what others call one, or a field of something else; and the hint for who writes it.
pub type Elsewhere = (&'static str, &'static str);

/// A message: a struct declared by [`message!`](crate::message!).
pub trait Message: Field + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// Full protobuf name.
    const NAME: &'static str;
    /// All fields, in number order.
    const FIELDS: &'static [FieldInfo];
    /// Hints for names that are none of them.
    const ELSEWHERE: &'static [Elsewhere];
}

/// Decodes a message over `target` and returns all problems, the one that Istio Mixer reports first. `path` is the position of
/// the message in its resource.
pub fn decode_over<M: Message>(target: &mut M, node: &Node, path: FieldPath) -> Vec<DecodeError> {
    let mut context = DecodeContext::at(path);
    target.merge(node, &mut context);
    context.errors
}
