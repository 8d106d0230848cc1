//! The messages and services of `proto/`, one module per package.
//!
//! The hot path does not use these types: it decodes and encodes the same bytes without building messages.

#![expect(
    missing_docs,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated; the messages are documented in the .proto files"
)]

include!(concat!(env!("OUT_DIR"), "/wire.rs"));

/// The descriptors of `proto/`, as an encoded `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The descriptors of `proto/istio/template/` and what they import, with the options that make a file a template, as an encoded
/// `google.protobuf.FileDescriptorSet`.
pub const TEMPLATES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/templates.bin"));
