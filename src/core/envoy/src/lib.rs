//! The services that Envoy calls: authorization, access logs and rate limits, over the same rules and handlers as Mixer's.
//!
//! Requests become attributes straight from their bytes ([`set_check_request`], [`set_entry`], [`set_descriptor`]) and go through
//! the same dispatch as Mixer's own calls. [`GrpcEndpoint`] and [`http_endpoint`] serve the calls; this crate knows nothing of
//! listeners or workers. See docs/envoy.md.

mod access_log;
mod attributes;
mod certificate;
mod check_request;
mod check_response;
mod config;
mod convert;
mod descriptor;
mod forwarded;
mod grpc_endpoint;
pub mod http_endpoint;
mod http_message;
mod identity;
mod known;
mod mapping;
mod metadata;
mod metrics;
mod node;
mod rate_limit;
mod service;
mod uncharged;
mod wire;

pub use access_log::{ConnectionCounters, EntryOutcome, LogEntries, LogKind, LogMessage, LogScan, set_entry};
pub use attributes::{AttributePlan, Attributes};
pub use check_request::{CheckFacts, Metadata, set_check_request};
pub use config::{EnvoyConfig, EnvoyKinds, Unit, config_of};
pub use descriptor::{Descriptor, LimitOverride, RateLimitRequest, set_descriptor};
pub use grpc_endpoint::{EndpointContext, EnvoyMethod, GrpcEndpoint};
pub use node::LogIdentity;
pub use rate_limit::{CURE as UNLIMITED_CURE, Unlimited, UnlimitedCalls};
pub use service::{DecisionCacheStatus, EnvoyShared};
pub use uncharged::CURE as UNCHARGED_CURE;
