//! What the fuzz targets see of a connection beside its bytes.

pub use super::hpack::fuzzing::{FuzzedName, HpackDecoder};
pub use super::session::fuzzing::SessionSizes;
