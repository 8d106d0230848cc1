//! The server process: settings, start sequence, workers and listeners, shutdown sequence.
//!
//! [`ServerOptions`] is what the command line, the environment and the configuration file boil down to. Nothing here parses
//! flags or prints.
//! Spec: cli-operations.md sections 1.2 and 3, runtime.md section 15.

pub mod connection;
pub mod listener;
mod options;
mod service;
mod start;
pub mod workers;

pub use start::{Server, StartError};

pub use options::{IntrospectionOptions, ListenAddress, ProbeOptions, ServerOptions, TracingOptions};

pub use crate::core::load_shedding::{LoadSheddingMode, LoadSheddingOptions};
pub use crate::core::telemetry::log::{LogLevel, LogLevels, LogOptions, LogScopes, OptionsError, SCOPES};
