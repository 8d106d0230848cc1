//! The messages and services of `proto/`, one module a package, for those who need them whole.
//!
//! The hot path does not use these types: it reads and writes the same bytes without building messages.

#![expect(
    missing_docs,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated; what the messages mean is said in the .proto files"
)]

include!(concat!(env!("OUT_DIR"), "/wire.rs"));

/// What the files in `proto/` say, as an encoded `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
