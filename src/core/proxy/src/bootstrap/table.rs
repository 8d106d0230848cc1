//! Route tables.

use std::time::Duration;

use super::filter::PerFilter;
use super::hash::HashPolicy;
use super::matching::MatchConfig;
use super::mirror::MirrorConfig;
use super::rate_limit::LimitConfig;

/// A route table.
#[derive(Debug, Clone, Default)]
pub struct RouteTableConfig {
    /// Its name.
    pub name: String,
    /// Whether clusters that do not exist are errors.
    pub validate_clusters: bool,
    /// Edits of every request and response.
    pub edits: Edits,
    /// What filters do with every request.
    pub filters: PerFilter,
    /// Copies of requests, unless the virtual host or the route says otherwise.
    pub mirrors: Vec<MirrorConfig>,
    /// Virtual hosts.
    pub hosts: Vec<HostConfig>,
}

/// A virtual host.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// Its name.
    pub name: String,
    /// Domains, in lower case.
    pub domains: Vec<String>,
    /// Edits of its requests and responses.
    pub edits: Edits,
    /// What filters do with its requests.
    pub filters: PerFilter,
    /// Rate limits of its requests.
    pub limits: Vec<LimitConfig>,
    /// Copies of its requests, unless the route says otherwise; none are those of the table.
    pub mirrors: Vec<MirrorConfig>,
    /// Routes, in order.
    pub routes: Vec<RouteConfig>,
}

/// A route.
#[derive(Debug, Clone)]
pub struct RouteConfig {
    /// Its name.
    pub name: String,
    /// Which requests it takes.
    pub matching: MatchConfig,
    /// What it does with them.
    pub action: Action,
    /// Edits of its requests and responses.
    pub edits: Edits,
    /// What filters do with its requests.
    pub filters: PerFilter,
}

/// Header edits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edits {
    /// Headers that requests get.
    pub add_request: Vec<Addition>,
    /// Headers that requests lose, in lower case.
    pub remove_request: Vec<String>,
    /// Headers that responses get.
    pub add_response: Vec<Addition>,
    /// Headers that responses lose.
    pub remove_response: Vec<String>,
}

/// An added header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// In lower case.
    pub name: String,
    /// The value; an empty one is not added, unless it is [kept](Self::keeps_empty).
    pub value: String,
    /// What happens if there is one.
    pub mode: AdditionMode,
    /// Whether an empty value is added as well.
    pub keeps_empty: bool,
}

/// What happens if a header to add exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdditionMode {
    /// Another one is added.
    Append,
    /// It stays; nothing is added.
    AddIfAbsent,
    /// It is replaced; without one, it is added.
    Overwrite,
    /// It is replaced; without one, nothing is added.
    OverwriteIfExists,
}

/// What a route does.
#[derive(Debug, Clone)]
pub enum Action {
    /// Forwards.
    Route(Box<RouteAction>),
    /// Redirects.
    Redirect(Box<Redirect>),
    /// Answers.
    Direct {
        /// The status.
        status: u16,
        /// The body.
        body: String,
    },
}

/// Forwards.
#[derive(Debug, Clone)]
pub struct RouteAction {
    /// Clusters, one of which is chosen.
    pub clusters: Vec<WeightedCluster>,
    /// The status of an answer if the cluster does not exist.
    pub not_found_status: u16,
    /// What replaces the matched prefix or path.
    pub prefix_rewrite: Option<String>,
    /// What replaces the host.
    pub host_rewrite: Option<String>,
    /// Time limit of the response; `None` for no limit.
    pub timeout: Option<Duration>,
    /// Retries.
    pub retry: Option<RetryConfig>,
    /// Rate limits.
    pub limits: Vec<LimitConfig>,
    /// Whether those of the virtual host hold as well.
    pub include_host_limits: bool,
    /// What of a request chooses the host, with consistent hashing; each with whether it is the last if it finds something.
    pub hash: Vec<(HashPolicy, bool)>,
    /// Protocols that connections may change to, or not, whatever the connection manager says.
    pub upgrades: Vec<(String, bool)>,
    /// Copies of requests; none are those of the virtual host.
    pub mirrors: Vec<MirrorConfig>,
}

/// A cluster of a route.
#[derive(Debug, Clone, Default)]
pub struct WeightedCluster {
    /// Its name.
    pub name: String,
    /// How often it is chosen, compared with the others.
    pub weight: u32,
    /// Edits of its requests and responses.
    pub edits: Edits,
    /// What filters do with its requests.
    pub filters: PerFilter,
}

/// Redirects.
#[derive(Debug, Clone, Default)]
pub struct Redirect {
    /// The status.
    pub status: u16,
    /// The scheme.
    pub scheme: Option<String>,
    /// The host.
    pub host: Option<String>,
    /// The port.
    pub port: Option<u16>,
    /// The path.
    pub path: Option<String>,
    /// What replaces the matched prefix.
    pub prefix_rewrite: Option<String>,
    /// Whether the query is dropped.
    pub strip_query: bool,
}

/// When and how often a request is sent again.
#[derive(Debug, Clone, Default)]
pub struct RetryConfig {
    /// Conditions.
    pub on: RetryOn,
    /// Statuses, with `retriable-status-codes`.
    pub statuses: Vec<u16>,
    /// How often.
    pub retries: u32,
    /// Time limit of an attempt.
    pub per_try_timeout: Option<Duration>,
    /// The first pause, and the longest.
    pub back_off: (Duration, Duration),
}

/// Conditions of a retry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetryOn {
    /// Any 5xx, no response at all, a reset, a timeout.
    pub server_error: bool,
    /// 502, 503 and 504.
    pub gateway_error: bool,
    /// No response at all: disconnected, reset, timeout.
    pub reset: bool,
    /// As `reset`, before the request was sent.
    pub reset_before_request: bool,
    /// A failed connection.
    pub connect_failure: bool,
    /// 409.
    pub retriable_4xx: bool,
    /// Statuses that are listed.
    pub statuses: bool,
    /// `x-envoy-ratelimited`.
    pub ratelimited: bool,
    /// A stream that the host refused, of which nothing was begun.
    pub refused_stream: bool,
    /// Statuses of gRPC, one bit each.
    pub grpc_statuses: u32,
}

impl RetryOn {
    /// Whether a status of gRPC is among those that are retried.
    pub fn has_grpc(&self, status: u8) -> bool {
        self.grpc_statuses.checked_shr(u32::from(status)).is_some_and(|bits| bits & 1 == 1)
    }
}
