//! The order in which the components of a server stop.

use mixer_base::components;

/// The started components of a server.
pub(super) type Components = components::Components<StopStep>;

/// The result of a stop.
pub type StopReport = components::StopReport<StopStep>;

/// The steps of a stop, in order. See docs/operations.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopStep {
    /// Readiness is withdrawn.
    Readiness,
    /// No new calls; calls in flight are drained.
    Calls,
    /// ControlZ.
    Introspection,
    /// Following the configuration store stops.
    Configuration,
    /// The check cache.
    CheckCache,
    /// The API socket is closed and its file removed.
    Listener,
    /// Spans are flushed.
    Tracing,
    /// The monitoring endpoint.
    Monitoring,
    /// The worker threads.
    Workers,
    /// Handlers flush and close.
    Handlers,
    /// Probe files and the pid file are removed.
    Probes,
    /// The log is flushed.
    Log,
}
