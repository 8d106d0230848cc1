//! The messages of the protocol, generated from `proto/istio/mcp`.

#![expect(missing_docs, reason = "generated; the messages are documented in the .proto files")]

include!(concat!(env!("OUT_DIR"), "/messages.rs"));

pub use istio::mcp::v1alpha1::*;
