//! Groups of flags that several commands share.

mod attributes;
mod client_tls;
mod effects;
mod empty_config;
mod given_flags;
mod log;
mod namespace;
mod tracing;

pub(crate) use attributes::{AttributeFlags, joined};
pub(crate) use client_tls::ClientTlsFlags;
pub(crate) use effects::{Lost, lost, tell_lost};
pub(crate) use empty_config::EmptyConfigFlags;
pub(crate) use given_flags::GivenFlags;
pub(crate) use log::LogFlags;
pub(crate) use namespace::{NamespaceFlags, validate_command};
pub(crate) use tracing::TracingFlags;
