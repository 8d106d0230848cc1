//! Header compression. Spec: RFC 7541.
//!
//! Decoding is complete. Encoding is as much as an answer needs: the two lines of the fixed response are kept in the
//! client's table, everything else is sent literally.

mod decoder;
mod encoder;
pub(super) mod fuzzing;
mod huffman;
mod table;

pub(super) use decoder::Decoder;
pub(super) use encoder::Encoder;
pub use encoder::FixedResponse;
pub(super) use table::{Field, Name};
