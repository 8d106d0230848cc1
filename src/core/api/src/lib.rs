//! The gRPC services, and the bytes between them and the engine.
//!
//! [`grpc`] frames unary calls on HTTP/2 without intermediate copies; [`proto`] are the generated message types for everything
//! off the hot path. This room knows nothing of listeners, threads or start-up.
//! Spec: runtime.md section 11, attributes.md.

pub mod call;
mod draining;
pub mod grpc;
pub mod load_shedding;
pub mod mixer;
pub mod observe;
mod spans;
mod turns;
pub mod worker;

pub use call::CallInfo;
pub use draining::DrainingBody;
pub use grpc::ApiBody;
pub use mixer::{ExplainResponse, MixerService};
pub use mixer_engine::decision::CALLER_PRINCIPAL;
pub use mixer_wire as proto;
pub use observe::Observers;
pub use turns::Turns;
pub use worker::Engine;
