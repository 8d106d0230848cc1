//! The wire form of attributes, read and written without intermediate messages.
//!
//! [`CompressedAttributes::decode`] validates a whole message as protobuf and indexes its words and entries, all borrowed
//! from the request bytes; [`AttributeBag`](super::AttributeBag) interprets them. [`Reader`] and the `put_` functions are
//! the protobuf primitives that Envoy's messages are read and written with as well.

mod message;
mod reader;
mod words;
mod writer;

pub(super) use message::{AttributeEntry, DefaultWords, Parts, Payload, RawMap, TypedMap, text_len};
pub use message::{CompressedAttributes, MAX_ELEMENTS, MAX_TEXT};
pub use message::{duration, timestamp};
pub(super) use reader::VARINT;
pub use reader::{DecodeError, Reader};
pub use words::Words;
pub(super) use writer::{SmallSet, WordList, put_tag, put_time, put_varint, put_zigzag, zigzag};
pub use writer::{nested, put_bytes, put_duration, put_nonempty, put_nonzero};

#[cfg(test)]
mod tests;
