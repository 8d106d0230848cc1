//! Configuration as documents: values with positions, typed messages, resources with identity and origin, stores.
//!
//! A [`Node`] tree keeps the position of every value; [`message!`](crate::message!) types decode from it the way Istio Mixer
//! decodes YAML through JSON into protobuf messages; every problem is a [`Diagnostic`]. This crate decodes no resource by
//! kind: that is up to its users.
//! See docs/configuration.md.

pub mod annotation;
mod annotations;
mod diagnostic;
mod field_name;
mod field_path;
pub mod mark;
pub mod message;
mod node;
mod quotes;
mod resource;
pub mod store;
pub mod text_index;
pub mod yaml;

pub use annotations::Annotations;
pub use diagnostic::{Chunk, Diagnostic, DiagnosticDetails, Diagnostics, ExpressionPlace, Severity};
pub use field_path::FieldPath;
pub use node::{Location, MappingEntry, Node, NodeKind, Span};
pub use quotes::without_secrets;
pub use resource::{Envelope, FieldPlace, Origin, Positions, RawResource, ResourceKey, UnknownField};
