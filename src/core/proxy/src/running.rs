//! A running proxy: its settings, its state, and everything that the admin interface shows.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use mixer_base::log::Log;

use crate::access_log::AccessLogFiles;
use crate::bootstrap::Bootstrap;
use crate::context::Shared;
pub use crate::drain::DrainOptions;
use crate::lds::Lds;
use crate::listener_manager::{ListenerManager, Shown};
use crate::stats::Stats;

/// Settings of the command line.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of workers; 0 is 1.
    pub concurrency: usize,
    /// The bootstrap, for the admin interface.
    pub config_path: String,
    /// Where the address of the admin interface is written.
    pub admin_address_path: Option<PathBuf>,
    /// The time that connections have to end when the process is told to.
    pub terminate_drain: Duration,
    /// How connections of listeners that are replaced or removed end.
    pub drain: DrainOptions,
    /// Whether the bytes of a Mixer report of a TCP connection are those since the report before it; otherwise, as with Istio, since the last
    /// periodic one.
    pub exact_tcp_deltas: bool,
    /// Bytes that bodies hold which filters wait for, at most.
    pub body_memory: usize,
}

/// The state of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    Live = 0,
    Draining = 1,
    PreInitializing = 2,
    Initializing = 3,
}

impl State {
    /// Its name in the admin interface.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Live => "LIVE",
            State::Draining => "DRAINING",
            State::PreInitializing => "PRE_INITIALIZING",
            State::Initializing => "INITIALIZING",
        }
    }
}

/// A running proxy, as the admin interface sees it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) bootstrap: Bootstrap,
    pub(crate) options: Options,
    pub(crate) stats: Arc<Stats>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) logs: AccessLogFiles,
    pub(crate) log: Log,
    pub(crate) started: Instant,
    /// Cancelled to end the process.
    pub(crate) quit: CancellationToken,
    /// Set once the listeners are bound.
    pub(crate) listeners: std::sync::OnceLock<Arc<ListenerManager>>,
    /// Listeners of a file.
    pub(crate) lds: Option<Lds>,
    /// Whether all clusters have hosts and workers serve.
    pub(crate) state: AtomicU8,
    pub(crate) failing: AtomicBool,
}

impl Running {
    /// The state.
    pub(crate) fn state(&self) -> State {
        match self.state.load(Ordering::Relaxed) {
            0 if self.failing.load(Ordering::Relaxed) => State::Draining,
            0 => State::Live,
            2 => State::PreInitializing,
            _ => State::Initializing,
        }
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Makes health checks fail, or succeed again: while they fail, responses end their connections.
    pub(crate) fn fail_health_checks(&self, fail: bool) {
        self.failing.store(fail, Ordering::Relaxed);
        self.shared.draining.store(fail, Ordering::Relaxed);
    }
}

/// The listeners, as the admin interface shows them.
pub(crate) fn shown_listeners(running: &Running) -> Vec<Shown> {
    running.listeners.get().map(|manager| manager.shown()).unwrap_or_default()
}
