//! Galley as a process: starts and stops the configuration plane, decides about resources for API servers, and shows operators its state.
//!
//! | module | subject |
//! | --- | --- |
//! | [`options`] | all settings as plain data, and their errors |
//! | [`host`] | the components, in the order in which they start; a failed start ends those that were started |
//! | [`admission`] | the validation webhook, and the webhook configuration of the cluster |
//! | [`introspect`] | ControlZ: snapshots, sinks, sources, events, admission; what `mixer galley` commands ask for |
//!
//! ```ignore
//! let host = Host::start(&HostOptions::default(), SnapshotOptions::new(registry), std::future::pending())?;
//! let report = host.stop();
//! ```
//!
//! This crate neither parses flags nor prints. Of the policy engine it uses validation alone.

pub mod admission;
mod analysis;
pub mod host;
pub mod introspect;
mod judge;
mod kept_files;
pub mod options;
mod publications;

pub use host::{Host, StartError};
pub use judge::EngineJudge;
pub use options::{HostOptions, ProbeFile, ServingOptions, SinkAuth};
pub use publications::Publications;
