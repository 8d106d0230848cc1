//! The resource kinds of a service mesh: which there are, in which collections sinks see them, what messages they are, and what is
//! wrong with a resource.
//!
//! [`kinds()`] is the one table that sources, both faces of the configuration plane's pipeline, validation and the sink of the
//! server read. [`analysis`] finds what resources say together. [`encode()`] turns a document into the message of its kind, [`to_json`] the message into JSON. This crate knows
//! nothing of files, clusters or sinks.

pub mod analysis;
pub mod check;
mod descriptors;
pub mod encode;
pub mod groups;
pub mod json;
pub mod kinds;
pub mod messages;
mod place;

pub use check::{Findings, Subject, check, is_workload_label};
pub use encode::{Encoded, encode, encode_message};
pub use groups::{DEFAULT_GROUP, SYNTHETIC_GROUP, SnapshotGroup, Strategy, group_of, groups};
pub use json::{JsonError, UnknownField, to_json, to_json_with_unknown};
pub use kinds::{Body, Kind, MESH_CONFIG, Origin, SYNTHETIC_SERVICE_ENTRIES, TYPE_URL_PREFIX};
pub use kinds::{analyzed_kinds, by_api, by_collection, by_input, by_kind, by_message, kinds, near_kind};
