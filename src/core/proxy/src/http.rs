//! The HTTP connection manager: HTTP/1.1, routes, the router.
//!
//! A connection is one task: `connection` reads requests one after the other, `routes` chooses what to do, `forward` makes the attempts,
//! `exchange` moves the bytes of one attempt in both directions. No future is allocated for a request.

mod connection;
mod date;
mod edits;
mod exchange;
mod failure;
mod forward;
pub(crate) mod framing;
mod hash;
mod mixer;
mod normalize;
mod redirect;
mod reply;
pub(crate) mod routes;
#[cfg(test)]
mod tests;
mod upgrade;

use std::sync::Arc;
use std::time::Duration;

use crate::access_log::{AccessLogFile, Format};
use crate::bootstrap::Normalization;
use crate::mixer::HttpFilter;
use crate::stats::{Block, Histogram, HttpStat, ManagerStat};

pub(crate) use connection::serve;

/// A connection manager as it serves.
#[derive(Debug)]
pub(crate) struct HttpManager {
    pub(crate) server_name: String,
    pub(crate) routes: routes::RouteTable,
    /// The filter `mixer`.
    pub(crate) mixer: Option<HttpFilter>,
    pub(crate) logs: Vec<(Arc<AccessLogFile>, Format)>,
    pub(crate) use_remote_address: bool,
    pub(crate) generate_request_id: bool,
    pub(crate) preserve_external_request_id: bool,
    pub(crate) request_id_in_response: bool,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) stream_idle_timeout: Option<Duration>,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) headers_timeout: Option<Duration>,
    pub(crate) max_head: usize,
    pub(crate) max_fields: usize,
    pub(crate) max_requests: Option<u32>,
    /// Protocols in lower case that connections may change to, and those that they may not.
    pub(crate) upgrades: Vec<(String, bool)>,
    pub(crate) normalization: Normalization,
    pub(crate) stats: Arc<Block<ManagerStat>>,
    pub(crate) listener_stats: Arc<Block<HttpStat>>,
    pub(crate) request_time: Arc<Histogram>,
    pub(crate) connection_length: Arc<Histogram>,
}
