//! The resource kinds of a service mesh: which there are, in which collections sinks see them, and what messages they are.

pub mod groups;
pub mod kinds;

pub use groups::{DEFAULT_GROUP, SYNTHETIC_GROUP, SnapshotGroup, Strategy, group_of, groups};
pub use kinds::{Body, Kind, MESH_CONFIG, Origin, SYNTHETIC_SERVICE_ENTRIES, TYPE_URL_PREFIX};
pub use kinds::{by_api, by_collection, by_input, by_kind, by_message, kinds};
