//! The wire form of attributes, read and written without intermediate messages.
//!
//! [`CompressedAttributes::decode`] checks a whole message at the level of protobuf and finds its words and entries, all
//! borrowed from the request bytes; [`AttributeBag`](super::AttributeBag) gives them meaning. Spec: attributes.md 4.1 and 5.

mod message;
mod reader;
mod words;
mod writer;

pub use message::CompressedAttributes;
pub(super) use message::{Entry, Field, Parts, Payload, RawMap};
pub use message::{duration, timestamp};
pub use reader::DecodeError;
pub use reader::{Reader, VARINT};
pub use words::Words;
pub(super) use writer::{SmallSet, WordList, put_zigzag, zigzag};
pub use writer::{nested, put_bytes, put_duration, put_nonempty, put_nonzero, put_tag, put_time, put_varint};

#[cfg(test)]
mod tests;
