//! Header compression. Spec: RFC 7541.
//!
//! The decoder is complete. The encoder indexes the two field lines of the fixed response and sends all others as literals.

mod decoder;
mod encoder;
pub(super) mod fuzzing;
mod huffman;
mod table;

pub(super) use decoder::Decoder;
pub(super) use encoder::Encoder;
pub use encoder::FixedResponse;
pub(super) use table::{Field, Name};
