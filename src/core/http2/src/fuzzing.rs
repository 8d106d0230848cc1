//! Internals of a connection that the fuzz targets check.

pub use super::hpack::fuzzing::{FuzzedName, HpackDecoder};
pub use super::session::fuzzing::SessionSizes;
