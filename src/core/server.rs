//! The server process: settings, start sequence, workers and listeners, shutdown sequence.
//!
//! [`ServerOptions`] is what the command line, the environment and the configuration file boil down to. A start goes step by step
//! through a table of external [`Effects`], so that every one of them can be made to fail; what was begun is a list of parts, ended
//! in the order of [`StopStep`], each with a limit of time. [`Controls`] is a running server as ControlZ, signals and probes see it.
//! Nothing here parses flags or prints.
//! Spec: cli-operations.md sections 1.2 and 3, runtime.md section 15.

mod activation;
mod components;
pub mod connection;
mod controls;
mod controlz;
mod discovery;
mod draining;
mod effects;
mod envoy;
mod envoy_http;
mod health;
pub mod listener;
mod observers;
mod options;
mod pid_file;
mod service;
mod start;
mod supervisor;
mod turns;
pub mod workers;

pub use activation::{InheritedSocket, InheritedSockets};
pub use components::{StopReport, StopStep};
pub use controls::{Controls, Reload};
pub use effects::{Effects, Endpoint, Rehearsal, SystemEffects};
pub use health::Health;
pub use pid_file::PidFile;
pub use start::{RehearsalReport, Server, StartError};
pub use supervisor::Supervisor;

pub use options::{IntrospectionOptions, ListenAddress, ProbeOptions, Reflection, ServerOptions};

pub use crate::core::load_shedding::{LoadSheddingMode, LoadSheddingOptions};
pub use crate::core::telemetry::log::{LogLevel, LogLevels, LogOptions, LogScopes, OptionsError, SCOPES};
pub use crate::core::tls::{ClientAuth, ServerTlsOptions, TlsVersion};
