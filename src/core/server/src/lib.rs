//! The server process: settings, start sequence, endpoints, shutdown sequence.
//!
//! [`ServerOptions`] are the resolved settings. A start performs its steps through a table of external [`Effects`], which tests can make
//! fail; started components stop in the order of [`StopStep`], each with a time limit. [`Controls`] is the interface for ControlZ, signals
//! and probes. This crate neither parses flags nor prints.
//!
//! ```ignore
//! let server = Server::start(&ServerOptions::default())?;
//! let report = server.stop();
//! ```
//! See docs/operations.md.

mod activation;
mod controls;
mod controlz;
mod discovery;
mod effects;
mod error;
mod faults;
mod health;
mod observers;
mod options;
mod pid_file;
mod server;
mod service;
mod start;
mod steps;
mod supervisor;

pub use activation::{Endpoint, InheritedSockets};
pub use controls::{Controls, Reload};
pub use effects::{Effects, Rehearsal, SystemEffects};
pub use error::StartError;
pub use health::Health;
pub use mixer_base::resident::release_startup_code;
pub use pid_file::PidFile;
pub use server::Server;
pub use start::RehearsalReport;
pub use steps::{StopReport, StopStep};
pub use supervisor::Supervisor;

pub use options::{ProbeOptions, Reflection, ServerOptions};

pub use mixer_adapters::MetricsAddress;
pub use mixer_api::load_shedding::{LoadSheddingMode, LoadSheddingOptions};
pub use mixer_base::log::{LogLevel, LogLevels, LogOptions, LogScopes, OptionsError, SCOPES};
pub use mixer_delivery::LeftOnDisk;
pub use mixer_introspect::IntrospectionOptions;
pub use mixer_net::tls::{ClientAuth, ServerTlsOptions, TlsVersion};

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mixer_config::store::{StoreContents, StoreError};
use mixer_engine::snapshot::{Registry, Snapshot, spill_directories};
use mixer_stores::StoreOptions;

/// Reads the configuration store of a server once, for the tool `reader`; see [`mixer_stores::read`].
///
/// Errors: there is no store with this URL, or it cannot be opened.
pub async fn read_store(
    options: &ServerOptions,
    reader: &'static str,
    expected: &[&Path],
    limit: Duration,
) -> Result<Arc<StoreContents>, StoreError> {
    let store = StoreOptions { reader: Some(reader), ..options.store_options() };
    mixer_stores::read(&store, expected, limit).await
}

/// What handlers that a configuration does not have, or does not use, left on disk, for tools. Reads directories; see
/// [`mixer_delivery::left_beside`].
pub fn left_on_disk(options: &ServerOptions, snapshot: &Snapshot) -> Vec<LeftOnDisk> {
    mixer_delivery::left_beside(&spill_directories(snapshot), options.memory_of_spills().as_deref())
}

/// The adapters and kinds that a configuration may refer to.
pub const REGISTRY: Registry = Registry {
    adapters: mixer_adapters::INVENTORY,
    extensions: &[&mixer_envoy::EnvoyKinds, &mixer_adapters::RbacKinds],
};
