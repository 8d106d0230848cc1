//! How the engine shows what it does: log records, metrics of its own, and the endpoint that serves them.
//!
//! [`metrics::Metrics`] counts, [`exposition`] writes Prometheus text, [`monitor`] serves it over HTTP, [`log`] formats and
//! routes log records by scope. Nothing here knows of requests, rules or adapters, and nothing here may block or fail a request.
//! Spec: cli-operations.md sections 5 and 6.

mod cpu;
pub mod exposition;
pub mod heap;
pub mod http;
pub mod json;
pub mod log;
pub mod metrics;
pub mod monitor;
mod pprof;
pub mod rotate;
pub mod sample;
pub mod shard;
