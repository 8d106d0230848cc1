//! The engine: configuration in, decisions out.
//!
//! Dependencies point one way: `template <- adapter <- snapshot <- handler <- routing <- dispatch <- runtime`. Nothing here knows of the
//! wire, of sockets or of a particular adapter.

pub mod adapter;
pub mod check_cache;
pub mod decision;
pub mod denials;
pub mod dispatch;
pub mod explain;
pub mod handler;
pub mod routing;
pub mod runtime;
pub mod secret_values;
pub mod snapshot;
pub mod template;
