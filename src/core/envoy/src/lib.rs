//! The services that a current Envoy calls: authorization, access logs and rate limits, over the same rules and handlers as Mixer.
//!
//! Requests become attributes straight from their bytes ([`set_check_request`], [`set_entry`], [`set_descriptor`]) and go through
//! the same dispatch as Mixer's own calls. This room knows nothing of listeners or threads.
//! Spec: envoy-bridge.md.

mod access_log;
mod attributes;
mod calls;
mod certificate;
mod check_request;
mod check_response;
pub mod config;
mod convert;
mod descriptor;
mod forwarded;
pub mod http;
mod identity;
mod mapping;
mod metadata;
mod metrics;
mod node;
mod rate_limit;
mod service;
mod wire;

pub use access_log::{ConnectionCounters, Entry, LogKind, LogMessage, set_entry};
pub use attributes::{AttributePlan, Attributes, Slots};
pub use calls::{EnvoyCalls, EnvoyMethod, EnvoyParts};
pub use check_request::{CheckFacts, Metadata, set_check_request};
pub use config::{EnvoyConfig, EnvoyKinds};
pub use descriptor::{Descriptor, LimitOverride, RateLimitRequest, set_descriptor};
pub use node::LogIdentity;
pub use rate_limit::Windows;
pub use service::{BridgeService, BridgeShared, HttpVerdict, LogStream};
