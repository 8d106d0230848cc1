//! The data plane: a sidecar that reads an Envoy bootstrap.
//!
//! [`bootstrap::read`] turns a document into typed configuration, or into diagnostics with positions: what this version does not support is
//! refused by name. [`server::serve`] runs it: the main thread owns configuration, statistics and the admin interface; each worker
//! thread has an event loop of its own that serves every listener, and no connection ever leaves it.
//!
//! The data path takes no lock that workers share but that of an access log, and allocates nothing for a request once the buffers of its
//! connection have grown. Every buffer is bounded: reading pauses while the other side does not keep up.

mod accept;
mod access_log;
mod admin;
mod bodies;
pub mod bootstrap;
mod buffer;
mod certificates;
mod cluster;
mod connection_info;
mod context;
mod copies;
mod drain;
mod error;
mod ext_authz;
mod flags;
mod grpc;
mod head;
mod header_changes;
mod health;
mod http;
mod inline_headers;
mod lds;
mod listener_manager;
mod log_stream;
mod mixer;
mod node;
mod rate_limit;
mod running;
pub mod server;
mod socket_factory;
mod stats;
mod tcp_proxy;
mod timer;
mod tls;
mod transport;
mod udp;
mod upstream;
mod uuid;
mod worker;
