//! Mixer's Check and Report services: from the bytes of a request to the bytes of its response.
//!
//! A call goes from [`MixerService`] to `check` or `report`, which lead through the engine phase by phase. [`pipeline`], [`report`] and
//! [`worker`] are shared with the services of Envoy, so that admission, observers and dry run work alike in both; so is [`unary`], which
//! serves the methods on HTTP/2. [`grpc`] frames their messages without intermediate copies. This crate knows nothing of listeners, threads or start-up.
//! Answers are those of Istio Mixer 1.3; docs/compatibility.md lists the differences.

pub mod call;
mod call_pool;
mod check;
mod draining;
mod explain;
pub mod grpc;
mod left;
pub mod load_shedding;
mod mixer;
pub mod observers;
pub mod pipeline;
pub mod principal;
pub mod report;
mod response;
mod spans;
pub mod unary;
pub mod waiting;
pub mod worker;

pub use call::CallInfo;
pub use call_pool::CallPool;
pub use draining::DrainingBody;
pub use explain::ExplainResponse;
pub use grpc::ApiBody;
pub use left::IfLeft;
pub use mixer::MixerService;
pub use mixer_wire as proto;
pub use observers::Observers;
pub use response::encode_directive;
pub use unary::{CallLimits, UnaryMethod};
pub use worker::Engine;
