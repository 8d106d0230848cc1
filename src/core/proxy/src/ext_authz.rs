//! The filter ext_authz: a server decides whether a request passes, with Envoy's protocol of external authorization.
//!
//! `request` says what the server is told, `response` what its answer means. An answer that cannot be read, no answer in time, and a server
//! that cannot be reached are failures: the request passes only if `failure_mode_allow` says so.

mod request;
mod response;

use std::sync::Arc;

use prost::Message as _;

use mixer_wire::envoy::service::auth::v3::CheckResponse;

use crate::bootstrap::{BodyConfig, ExtAuthzConfig, ExtAuthzRoute};
use crate::cluster::Cluster;
use crate::grpc::{Channels, Method, is_without_memory};
use crate::stats::{Block, ExtAuthzStat, NamedCounters, Scope, Stats};

pub(crate) use request::{Body, Check, Facts};
pub(crate) use response::{Decision, Denial, Grant};

const CHECK: &str = "/envoy.service.auth.v3.Authorization/Check";

/// What is counted of the clusters of requests.
static OF_CLUSTERS: [&str; 4] = ["ok", "denied", "error", "failure_mode_allowed"];

/// The filter as it serves.
#[derive(Debug)]
pub(crate) struct Authorizer {
    config: ExtAuthzConfig,
    cluster: Option<usize>,
    stats: Arc<Block<ExtAuthzStat>>,
    /// Of the clusters of requests, by their index.
    clusters: Vec<(Arc<Cluster>, Arc<NamedCounters>)>,
}

impl Authorizer {
    /// A filter of a manager whose statistics begin with `manager`.
    pub(crate) fn new(
        config: &ExtAuthzConfig,
        manager: &str,
        clusters: &[Arc<Cluster>],
        stats: &Stats,
    ) -> Self {
        let scope = Scope::ExtAuthz(manager.to_owned(), config.stat_prefix.clone());
        let of_cluster = |cluster: &Arc<Cluster>| {
            let scope = Scope::ClusterExtAuthz(cluster.config.name.clone(), config.stat_prefix.clone());
            (Arc::clone(cluster), stats.named(&scope, &OF_CLUSTERS))
        };
        Self {
            cluster: clusters.iter().position(|cluster| cluster.config.name == config.service.cluster),
            config: config.clone(),
            stats: stats.block(&scope),
            clusters: clusters.iter().map(of_cluster).collect(),
        }
    }

    /// How much of the body the server is told of a request to a route.
    pub(crate) fn body(&self, route: Option<&ExtAuthzRoute>) -> Option<BodyConfig> {
        self.config.body.filter(|_| !route.is_some_and(|route| route.without_body))
    }

    /// What the server is told.
    pub(crate) fn request(&self, facts: Facts<'_>, route: Option<&ExtAuthzRoute>) -> Check {
        let extensions = route.map(|route| route.context_extensions.clone()).unwrap_or_default();
        Check::new(facts, extensions, self.config.include_tls_session)
    }

    /// Asks the server. Dropping the future cancels the call.
    pub(crate) async fn check(&self, channels: &Channels, check: Check) -> Decision {
        let (path, authority) = (CHECK, self.config.service.authority.as_str());
        let method = Method { path, authority, timeout: self.config.timeout, header: None, once: false };
        let answer = match check.framed() {
            Ok(message) => channels.call(self.cluster, &method, message).await,
            Err(status) => Err(status),
        };
        let is_without_memory = answer.as_ref().is_err_and(is_without_memory);
        let answer = answer.map_err(|status| status.to_string()).and_then(|answer| {
            CheckResponse::decode(answer).map_err(|error| format!("the answer is no CheckResponse: {error}"))
        });
        match answer {
            Ok(answer) => Decision::of(answer),
            Err(error) => {
                mixer_base::warn_limited!(
                    1,
                    error,
                    cluster = self.config.service.cluster,
                    "external authorization failed"
                );
                if is_without_memory { Decision::NoMemory } else { Decision::Failed(Denial::default()) }
            }
        }
    }

    /// Counts a decision about a request to a cluster; gives what becomes of the request.
    pub(crate) fn settle(&self, decision: Decision, cluster: Option<usize>) -> Verdict {
        let of_cluster = cluster.and_then(|cluster| self.clusters.get(cluster));
        let count = |stat: ExtAuthzStat, name: &'static str| {
            self.stats.increment(stat);
            if let Some((_, counters)) = of_cluster {
                counters.increment(&[name]);
            }
        };
        match decision {
            Decision::Allowed(grant) => {
                count(ExtAuthzStat::Ok, "ok");
                let reroutes = self.config.clear_route_cache && grant.changes_request();
                Verdict::Pass { grant, reroutes }
            }
            Decision::Denied(mut denial) => {
                count(ExtAuthzStat::Denied, "denied");
                let status = *denial.status.get_or_insert(403);
                if let (Some((cluster, _)), true) = (of_cluster, self.config.charges_cluster) {
                    cluster.stats.count_response(status);
                }
                Verdict::Refuse { denial, details: "ext_authz_denied" }
            }
            Decision::NoMemory => {
                count(ExtAuthzStat::Error, "error");
                Verdict::NoMemory
            }
            Decision::Failed(mut denial) => {
                count(ExtAuthzStat::Error, "error");
                if self.config.failure_mode_allow {
                    count(ExtAuthzStat::FailureModeAllowed, "failure_mode_allowed");
                    let mut grant = Box::<Grant>::default();
                    if self.config.failure_mode_allow_header {
                        grant.say_failed();
                    }
                    return Verdict::Pass { grant, reroutes: false };
                }
                denial.status.get_or_insert(self.config.status_on_error);
                Verdict::Refuse { denial, details: "ext_authz_error" }
            }
        }
    }
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It passes, with changes; `reroutes` if a route is to be chosen again.
    Pass { grant: Box<Grant>, reroutes: bool },
    /// It is answered.
    Refuse { denial: Denial, details: &'static str },
    /// There is no memory for it: it is refused, whatever the filter does without a decision.
    NoMemory,
}
