//! The filter ratelimit: a server decides whether requests are within their limits, with Envoy's protocol.
//!
//! An answer that cannot be read, no answer in time, and a server that cannot be reached are failures: the request is refused if
//! `failure_mode_deny` says so, and passes otherwise, as with Envoy.

mod headers;

use std::sync::Arc;

use prost::Message as _;

use mixer_wire::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use mixer_wire::envoy::service::ratelimit::v3::rate_limit_response::Code;
use mixer_wire::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

use crate::bootstrap::{HostLimits, RateLimitConfig, RateLimitRoute};
use crate::cluster::Cluster;
use crate::grpc::{Channels, Framed, Method, is_without_memory};
use crate::head::Head;
use crate::header_changes::{Change, Manner, Unwritable, edit_request};
use crate::stats::{NamedCounters, Scope, Stats};

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// Who asks for changes of headers, in the log.
const BY: &str = "ratelimit";

/// What is counted of the clusters of requests.
static OF_CLUSTERS: [&str; 4] =
    ["ratelimit.ok", "ratelimit.over_limit", "ratelimit.error", "ratelimit.failure_mode_allowed"];

/// The filter as it serves.
#[derive(Debug)]
pub(crate) struct Limiter {
    config: RateLimitConfig,
    cluster: Option<usize>,
    /// The clusters of requests, by their index.
    clusters: Vec<(Arc<Cluster>, Arc<NamedCounters>)>,
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Limited {
    /// It passes.
    Within(Box<Additions>),
    /// It is refused.
    Over {
        status: u16,
        body: String,
        /// The status of gRPC, if it is not that of the status of HTTP.
        grpc_status: Option<&'static str>,
        additions: Box<Additions>,
    },
    /// Nobody decided: it is refused with this status; `None` if it passes.
    Failed(Option<u16>),
    /// There is no memory for it: it is refused, whatever the filter does without a decision.
    NoMemory,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undecided {
    /// The server did not decide.
    Failed,
    /// It was not asked: there is no memory for the call.
    NoMemory,
}

/// Headers that a request and its response get.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    request: Vec<Change>,
    response: Vec<Change>,
}

impl Limiter {
    pub(crate) fn new(config: &RateLimitConfig, clusters: &[Arc<Cluster>], stats: &Stats) -> Self {
        let of_cluster = |cluster: &Arc<Cluster>| {
            let scope = Scope::Cluster(cluster.config.name.clone());
            (Arc::clone(cluster), stats.named(&scope, &OF_CLUSTERS))
        };
        Self {
            cluster: clusters.iter().position(|cluster| cluster.config.name == config.service.cluster),
            config: config.clone(),
            clusters: clusters.iter().map(of_cluster).collect(),
        }
    }

    /// Which rate limits of routes it applies.
    pub(crate) fn stage(&self) -> u32 {
        self.config.stage
    }

    /// Asks the server. Dropping the future cancels the call.
    ///
    /// Errors: why there is no decision.
    pub(crate) async fn ask(
        &self,
        channels: &Channels,
        route: Option<&RateLimitRoute>,
        descriptors: Vec<RateLimitDescriptor>,
    ) -> Result<RateLimitResponse, Undecided> {
        let domain = route.and_then(|route| route.domain.as_ref()).unwrap_or(&self.config.domain);
        let request = RateLimitRequest { domain: domain.clone(), descriptors, hits_addend: 0 };
        let (path, authority) = (SHOULD_RATE_LIMIT, self.config.service.authority.as_str());
        let method = Method { path, authority, timeout: self.config.timeout, header: None, once: false };
        let answer = match Framed::of(request) {
            Ok(message) => channels.call(self.cluster, &method, message).await,
            Err(status) => Err(status),
        };
        let why = match &answer {
            Err(status) if is_without_memory(status) => Undecided::NoMemory,
            _ => Undecided::Failed,
        };
        let answer = answer.map_err(|status| status.to_string()).and_then(|answer| {
            let answer = RateLimitResponse::decode(answer)
                .map_err(|error| format!("the answer is no RateLimitResponse: {error}"))?;
            // One that says neither is no decision.
            match answer.overall_code() {
                Code::Unknown => Err("the answer has no code".to_owned()),
                Code::Ok | Code::OverLimit => Ok(answer),
            }
        });
        answer.map_err(|error| {
            mixer_base::warn_limited!(
                1,
                error,
                cluster = self.config.service.cluster,
                "a rate limit was not checked"
            );
            why
        })
    }

    /// Counts an answer about a request to a cluster; gives what becomes of the request.
    pub(crate) fn settle(&self, answer: Result<RateLimitResponse, Undecided>, cluster: usize) -> Limited {
        let of_cluster = self.clusters.get(cluster);
        let count = |name: &'static str| {
            if let Some((_, counters)) = of_cluster {
                counters.increment(&["ratelimit.", name]);
            }
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => {
                count("error");
                if why == Undecided::NoMemory {
                    return Limited::NoMemory;
                }
                if self.config.failure_mode_deny {
                    return Limited::Failed(Some(self.config.status_on_error));
                }
                count("failure_mode_allowed");
                return Limited::Failed(None);
            }
        };
        let is_over = answer.overall_code() == Code::OverLimit;
        let mut additions = Box::new(Additions::of(&answer));
        if is_over && self.config.tells_limited {
            additions.response.push(added("x-envoy-ratelimited", "true"));
        }
        if self.config.tells_limits {
            additions.response.extend(headers::limits(&answer.statuses));
        }
        if !is_over {
            count("ok");
            return Limited::Within(additions);
        }
        count("over_limit");
        if let Some((cluster, _)) = of_cluster {
            cluster.stats.count_response(self.config.limited_status);
        }
        if additions.response.iter().any(|change| change.name == "content-type") {
            // It counts, and not that of a reply with a text.
            let (name, value) = ("content-type".to_owned(), Vec::new());
            additions.response.insert(0, Change { name, value, manner: Manner::Remove });
        }
        Limited::Over {
            status: self.config.limited_status,
            body: String::from_utf8_lossy(&answer.raw_body).into_owned(),
            grpc_status: self.config.resource_exhausted.then_some("8"),
            additions,
        }
    }
}

/// Whether the limits of a virtual host hold, of a route with limits of its own or without.
pub(crate) fn includes_host(route: Option<&RateLimitRoute>, include: bool, has_own: bool) -> bool {
    match route.map(|route| route.host).unwrap_or_default() {
        _ if include => true,
        HostLimits::Include => true,
        HostLimits::Ignore => false,
        HostLimits::Override => !has_own,
    }
}

fn added(name: &str, value: &str) -> Change {
    Change { name: name.to_owned(), value: value.as_bytes().to_vec(), manner: Manner::Add }
}

impl Additions {
    fn of(answer: &RateLimitResponse) -> Self {
        let all = |headers: &[mixer_wire::envoy::config::core::v3::HeaderValue]| {
            let change = |header: &mixer_wire::envoy::config::core::v3::HeaderValue| {
                let value = if header.value.is_empty() { &header.raw_value } else { header.value.as_bytes() };
                let name = header.key.to_ascii_lowercase();
                Change { name, value: value.to_vec(), manner: Manner::Add }
            };
            headers.iter().map(change).collect()
        };
        Self { request: all(&answer.request_headers_to_add), response: all(&answer.response_headers_to_add) }
    }

    /// Whether responses get any.
    pub(crate) fn has_response(&self) -> bool {
        !self.response.is_empty()
    }

    /// Changes the head of the request.
    ///
    /// Errors: a change cannot be written.
    pub(crate) fn edit_request(&self, head: &mut Head) -> Result<(), Unwritable> {
        edit_request(&self.request, head, BY)
    }

    /// Changes the head of a response.
    pub(crate) fn edit_response(&self, head: &mut Head) {
        for change in &self.response {
            if !change.apply(head) {
                change.report_invalid(BY);
            }
        }
    }
}
