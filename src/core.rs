//! The engine. Doors between the rooms open one way:
//! `attribute <- expr <- template <- config <- adapter <- snapshot <- handler <- routing <- dispatch <- runtime <- api <- server`;
//! `store` feeds `snapshot`.

pub mod adapter;
pub mod api;
pub mod attribute;
pub mod build_info;
pub mod callers;
pub mod check_cache;
pub mod config;
pub mod decision;
pub mod denials;
pub mod dispatch;
pub mod explain;
pub mod expr;
pub mod handler;
pub mod http2;
pub mod introspect;
pub mod load_shedding;
pub mod policy;
pub mod pool;
pub mod probe;
pub mod resident;
pub mod routing;
pub mod rpc_code;
pub mod runtime;
pub mod secrets;
pub mod server;
pub mod shared_map;
pub mod snapshot;
pub mod spans;
pub mod store;
pub mod telemetry;
pub mod template;
pub mod tls;
pub mod wire;
