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

mod context;
mod define;
mod enums;
mod field;
mod names;
mod quoted;
mod suggestion;

pub use context::{DecodeContext, DecodeError};
pub use define::{enter_message, find_field, reject_unknown};
pub use enums::enum_number;
pub use field::{Field, json_kind};
pub use names::{go_type, is_lower_camel_of, lower_camel, upper_camel};
pub use suggestion::suggestion;

use super::{FieldPath, Node};

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
