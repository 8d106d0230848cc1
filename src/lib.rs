//! Policy and telemetry engine for service meshes.
//!
//! [`core`] holds the engine, one module a room; [`cmd`] holds one file a subcommand. `docs/architecture.md` is the map.

pub mod cmd;
pub mod core;
