//! Header compression. Spec: RFC 7541.
//!
//! Decoding is complete. Encoding is as much as an answer needs: the two lines that every gRPC answer repeats are kept in the
//! caller's table, everything else is sent literally.

mod decoder;
mod encoder;
mod huffman;
mod table;

pub(super) use decoder::Decoder;
pub(super) use encoder::Encoder;
pub(super) use table::{Field, Name};
