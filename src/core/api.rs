//! The gRPC services, and the bytes between them and the engine.
//!
//! [`grpc`] frames unary calls on HTTP/2 without intermediate copies; [`proto`] holds the generated message types for everything
//! off the hot path. This room knows nothing of listeners, threads or start-up.
//! Spec: runtime.md section 11, attributes.md.

pub mod grpc;

/// Messages and services as generated from `proto/`: `proto::istio::mixer::v1`, `proto::google::rpc`.
#[expect(
    missing_docs,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated from proto/, which has the documentation"
)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/protos.rs"));
}

pub use grpc::ApiBody;
