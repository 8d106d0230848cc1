//! The messages of `proto/` that are bodies of resources, one module per package.

#![expect(missing_docs, clippy::all, reason = "generated; the messages are those of Istio and Kubernetes")]

include!(concat!(env!("OUT_DIR"), "/messages.rs"));
