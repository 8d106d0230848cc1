//! The HTTP connection manager: HTTP/1.1 and HTTP/2, routes, the router.
//!
//! A connection is one task: `serve` finds its protocol, `connection` reads requests one after the other, `routing` has `filters` decide on them
//! and `routes` choose what to do, `retry` makes the attempts that `forward` consists of, `exchange` moves the bytes of one attempt in both
//! directions. What has no response of a host ends in `ending`, local replies are made in `respond`, and `transaction` counts and logs. One future
//! is allocated for a request of HTTP/1.1 that is forwarded, and one for what it waits for.
//!
//! `shadow` sends copies of requests elsewhere: each is a task of its own with the same router, whose client is what was read of the request.
//!
//! Protocols meet in `client`: a head, a source of data and a sink, which a connection of HTTP/1.1 is, and a stream of HTTP/2, of which
//! `http2` serves many at the same time. `upstream_request` is its counterpart for hosts.

mod arrival;
mod attempt;
mod body;
mod client;
mod connection;
mod date;
mod descriptors;
mod drained;
mod edits;
mod ending;
mod exchange;
mod failure;
mod filters;
mod forward;
pub(crate) mod framing;
mod hash;
mod http2;
mod kept;
mod normalize;
mod pieces;
mod presence;
mod redirect;
mod refuse;
mod reply;
mod respond;
mod retry;
pub(crate) mod routes;
mod routing;
mod serve;
mod shadow;
#[cfg(test)]
mod tests;
mod transaction;
mod upgrade;
mod upstream_request;

use std::sync::Arc;
use std::time::Duration;

use crate::access_log::{AccessLogFile, Format};
use crate::bootstrap::{Codec, Http2Options, Normalization};
use crate::log_stream::LogStream;
use crate::stats::{Block, Histogram, Http2Stat, HttpStat, ManagerStat};

pub(crate) use edits::edit_request;
pub(crate) use filters::Filter;
pub(crate) use normalize::looked_up_path;
pub(crate) use serve::serve;
pub(crate) use shadow::Copier;

/// A connection manager as it serves.
#[derive(Debug)]
pub(crate) struct HttpManager {
    pub(crate) codec: Codec,
    pub(crate) http2: Http2Options,
    pub(crate) server_name: String,
    pub(crate) routes: routes::RouteTable,
    /// What copies of requests are sent with; `None` if no route has any.
    pub(crate) copier: Option<Arc<Copier>>,
    /// The filters before the router, in order.
    pub(crate) filters: Vec<Filter>,
    pub(crate) logs: Vec<(Arc<AccessLogFile>, Format)>,
    pub(crate) log_streams: Vec<Arc<LogStream>>,
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
    pub(crate) http2_stats: Arc<Block<Http2Stat>>,
    pub(crate) request_time: Arc<Histogram>,
    pub(crate) connection_length: Arc<Histogram>,
}
