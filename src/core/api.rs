//! The gRPC services, and the bytes between them and the engine.
//!
//! [`grpc`] frames unary calls on HTTP/2 without intermediate copies; [`proto`] are the generated message types for everything
//! off the hot path. This room knows nothing of listeners, threads or start-up.
//! Spec: runtime.md section 11, attributes.md.

mod desk;
pub mod envoy;
pub mod grpc;
pub mod mixer;
mod observe;
mod spans;

pub use crate::core::decision::CALLER_PRINCIPAL;
pub use crate::core::wire as proto;
pub use desk::{CallInfo, CallerAddress, Engine};
pub use grpc::ApiBody;
pub use mixer::{CheckAnswer, ExplainResponse, MixerService};
pub use observe::Observers;
