//! A running server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::ServerOptions;
use crate::controls::Controls;
use crate::effects::{Effects, Rehearsal, SystemEffects};
use crate::error::StartError;
use crate::start::{FAILED_START_LIMIT, RehearsalReport, Serving, THREADS_LIMIT, run_start};
use crate::steps::{Components, StopReport, StopStep};
use mixer_net::address::ListenAddress;

/// A running server.
pub struct Server {
    background: tokio::runtime::Runtime,
    components: Components,
    serving: Serving,
    drain_delay: Duration,
    shutdown_timeout: Duration,
}

impl Server {
    /// Starts a server and returns when it accepts calls.
    ///
    /// Errors: the first step that failed; previous steps are rolled back.
    pub fn start(options: &ServerOptions) -> Result<Server, StartError> {
        Self::start_with(options, &SystemEffects)
    }

    /// Starts a server with injected external effects. Errors: as [`start`](Self::start).
    pub fn start_with(options: &ServerOptions, effects: &dyn Effects) -> Result<Server, StartError> {
        let (background, components, serving) =
            run_start(options, effects, async |start| start.begin().await)?;
        Ok(Server {
            background,
            components,
            serving,
            drain_delay: options.drain_delay.to_std_or_zero(),
            shutdown_timeout: options.shutdown_timeout.to_std_or_zero(),
        })
    }

    /// Runs the start without external effects and stops.
    ///
    /// Errors: as [`start`](Self::start).
    pub fn rehearse(options: &ServerOptions) -> Result<RehearsalReport, StartError> {
        let (background, mut components, report) =
            run_start(options, &Rehearsal, async |start| start.rehearse().await)?;
        background.block_on(components.end(FAILED_START_LIMIT));
        background.shutdown_timeout(THREADS_LIMIT);
        Ok(report)
    }

    /// The configured listen address of the API.
    pub fn api_address(&self) -> &ListenAddress {
        &self.serving.api_address
    }

    /// The bound TCP address of the API.
    pub fn bound_address(&self) -> Option<SocketAddr> {
        self.serving.bound
    }

    /// Operator controls.
    pub fn controls(&self) -> &Arc<Controls> {
        &self.serving.controls
    }

    /// The runtime of background tasks.
    pub fn background(&self) -> &tokio::runtime::Handle {
        self.background.handle()
    }

    /// Stops gracefully: becomes not ready, drains calls, closes handlers, removes files.
    pub fn stop(self) -> StopReport {
        let Server { background, mut components, serving, drain_delay, shutdown_timeout } = self;
        let report = background.block_on(async move {
            serving.controls.health.degradations.stopping();
            if let Some(supervisor) = serving.controls.supervisor() {
                supervisor.stopping();
            }
            drop(serving);
            let mut report = components.end_through(StopStep::Readiness, shutdown_timeout).await;
            tokio::time::sleep(drain_delay).await;
            let rest = components.end(shutdown_timeout).await;
            report.ended.extend(rest.ended);
            report.forced.extend(rest.forced);
            report
        });
        background.shutdown_timeout(THREADS_LIMIT);
        report
    }
}
