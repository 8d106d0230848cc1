//! Attributes: typed facts about one request, and their wire encoding.
//!
//! The main type is [`AttributeBag`]: a view of the attributes of one request or report record that borrows from the request
//! bytes, resolves names to dense [`SlotId`]s of a [`Vocabulary`] once, and records which attributes are read.
//! This crate knows nothing of expressions, templates or configuration files.
//! The encoding is that of Istio's API `mixer/v1`.

mod bag;
mod dictionary;
mod owned;
mod report;
pub mod request;
pub mod response;
mod slot;
pub mod text;
mod typed_text;
mod value;
mod vocabulary;
pub mod wire;

pub use bag::{
    AttributeBag, Condition, NamedValue, Reads, ReceivedValue, Reference, ReferenceMark, StrictError,
    last_by_key,
};
pub use dictionary::{GLOBAL_WORDS, global_index};
pub use mixer_base::time::{SignedDuration, TextForm, Timestamp, TimestampText};
pub use owned::{OwnedAttributes, OwnedValue};
pub use report::{RecordError, RecordSlices, ReportRecords, SliceDecoder};
pub use slot::SlotId;
pub use typed_text::typed_text;
pub use value::{StringMap, Value, ValueType, append_key_bytes};
pub use vocabulary::{CALLER_PRINCIPAL, Vocabulary, VocabularyBuilder};
pub use wire::{CompressedAttributes, DecodeError, Words};
