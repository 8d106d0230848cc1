//! What every other crate stands on: logs, metrics and their text form, time, file rotation, bounded pools, shared maps, secrets.
//!
//! Nothing here knows of requests, rules or adapters, and nothing here may block or fail a request.
//! Spec: cli-operations.md sections 5 and 6.

pub mod build_info;
pub mod exposition;
pub mod json;
pub mod log;
pub mod metrics;
pub mod pool;
pub mod probe;
pub mod rotate;
pub mod rpc_code;
pub mod sample;
pub mod secrets;
pub mod shard;
pub mod shared_map;
pub mod time;
