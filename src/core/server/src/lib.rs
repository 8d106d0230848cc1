//! The server process: settings, start sequence, workers and listeners, shutdown sequence.
//!
//! [`ServerOptions`] is what the command line, the environment and the configuration file boil down to. A start goes step by step
//! through a table of external [`Effects`], so that every one of them can be made to fail; what was begun is a list of parts, ended
//! in the order of [`StopStep`], each with a limit of time. [`Controls`] is a running server as ControlZ, signals and probes see it.
//! Nothing here parses flags or prints.
//! Spec: cli-operations.md sections 1.2 and 3, runtime.md section 15.

mod activation;
mod components;
mod controls;
mod controlz;
mod discovery;
mod effects;
mod health;
mod monitor;
mod observers;
mod options;
mod pid_file;
mod pprof;
mod service;
mod start;
mod supervisor;

pub use activation::InheritedSockets;
pub use components::{StopReport, StopStep};
pub use controls::{Controls, Reload};
pub use effects::{Effects, Endpoint, Rehearsal, SystemEffects};
pub use health::Health;
pub use pid_file::PidFile;
pub use start::{RehearsalReport, Server, StartError};
pub use supervisor::Supervisor;

pub use options::{IntrospectionOptions, ProbeOptions, Reflection, ServerOptions};

pub use mixer_api::load_shedding::{LoadSheddingMode, LoadSheddingOptions};
pub use mixer_base::log::{LogLevel, LogLevels, LogOptions, LogScopes, OptionsError, SCOPES};
pub use mixer_net::tls::{ClientAuth, ServerTlsOptions, TlsVersion};

use mixer_engine::snapshot::Registry;

/// What the configuration of a server, and of every tool that reads it, may refer to.
pub const REGISTRY: Registry =
    Registry { adapters: mixer_adapters::INVENTORY, extensions: &[&mixer_envoy::EnvoyKinds] };
