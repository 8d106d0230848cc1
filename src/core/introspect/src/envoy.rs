//! What the pages read of the services for Envoy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maud::{Markup, html};
use serde::{Serialize, Serializer};

use super::{CacheStatus, Server, format};
use mixer_base::time::Moment;
use mixer_net::registry::ConnectionInfo;

/// The services for Envoy of a server.
pub trait EnvoyServices: Send + Sync {
    /// The cache of check results; `None` if there is none.
    fn cache(&self) -> Option<CacheStatus>;

    /// The nodes that send access logs, with the addresses of their connections: `host:port` or `unix`.
    fn nodes(&self) -> Vec<(String, Arc<str>)>;

    /// The connections of checks and rate limits over HTTP.
    fn http_connections(&self) -> Vec<Arc<ConnectionInfo>>;

    /// The number of such connections since the start.
    fn http_connections_total(&self) -> u64;

    /// Descriptors of calls for rate limits that nothing in the published configuration is for.
    fn unlimited(&self) -> Unlimited;
}

/// Descriptors of calls for rate limits that nothing limits.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Unlimited {
    /// By domain and keys, the busiest first.
    pub groups: Vec<UnlimitedCalls>,
    /// The number of calls of other groups.
    pub others: u64,
    /// What to do about it.
    pub cure: &'static str,
    /// Quotas of the published configuration that no check of Envoy is charged to, if Envoy has asked since.
    pub uncharged: Vec<String>,
    /// What to do about them.
    #[serde(rename = "unchargedCure")]
    pub uncharged_cure: &'static str,
}

/// Calls of a domain with such a descriptor of the same keys.
#[derive(Debug, Clone, Serialize)]
pub struct UnlimitedCalls {
    /// The domain.
    pub domain: String,
    /// The keys of the descriptor.
    pub keys: String,
    /// What the configuration lacks.
    pub why: String,
    /// Their number since the configuration was published.
    pub calls: u64,
    /// When the last one came; in RFC 3339.
    #[serde(serialize_with = "instant")]
    pub last: Moment,
}

fn instant<S: Serializer>(moment: &Moment, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format::instant(moment.time()))
}

/// The descriptors that nothing limits; none without services for Envoy.
pub(super) fn unlimited(server: &Server) -> Unlimited {
    server.envoy.as_ref().map(|envoy| envoy.unlimited()).unwrap_or_default()
}

/// Most groups of calls in a notice.
const LISTED: usize = 5;

/// Tells of descriptors that nothing limits, and of quotas that nothing is charged to.
pub(super) fn unlimited_notice(server: &Server) -> Markup {
    let Unlimited { groups, others, cure, uncharged, uncharged_cure } = unlimited(server);
    let others = others + groups.iter().skip(LISTED).map(|group| group.calls).sum::<u64>();
    let calls = |count: u64| format::counted(count, "call");
    html! {
        @if !groups.is_empty() {
            div.notice.warn #unlimited role="status" {
                strong { "Envoy asks for rate limits that are not configured" }
                ul {
                    @for group in groups.iter().take(LISTED) { li {
                        "domain " code { (group.domain) } ", keys " code { (group.keys) } ": " (format::message(&group.why)) "; "
                        (calls(group.calls)) " since the configuration was published, the last one " (format::ago(group.last))
                    } }
                    @if others > 0 { li.dim { "and " (calls(others)) " with other domains or keys" } }
                }
                p { "Remedy: " (cure) }
            }
        }
        @if !uncharged.is_empty() {
            div.notice.warn #uncharged role="status" {
                strong { "No check of Envoy is charged to quotas that rules configure" }
                ul { @for name in &uncharged { li { code { (name) } } } }
                p { "Remedy: " (uncharged_cure) }
            }
        }
    }
}

/// Most characters of a node on a page.
const SHOWN: usize = 100;

/// The nodes by address and by host.
#[derive(Debug, Default)]
pub(super) struct NodesByPeer {
    addresses: BTreeMap<String, BTreeSet<Arc<str>>>,
    hosts: BTreeMap<String, BTreeSet<Arc<str>>>,
}

fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

impl NodesByPeer {
    pub(super) fn new(nodes: Vec<(String, Arc<str>)>) -> Self {
        let mut all = Self::default();
        for (address, node) in nodes {
            all.hosts.entry(host(&address).to_owned()).or_default().insert(Arc::clone(&node));
            all.addresses.entry(address).or_default().insert(node);
        }
        all
    }

    /// The node of a peer: the one that logs on its connection, or else the only one that logs from its host.
    pub(super) fn of(&self, peer: &str) -> Option<String> {
        // The principal follows the address.
        let address = peer.split(' ').next().unwrap_or_default();
        let only = |nodes: Option<&BTreeSet<Arc<str>>>| {
            nodes.filter(|nodes| nodes.len() == 1).and_then(|nodes| nodes.first().cloned())
        };
        let found = only(self.addresses.get(address)).or_else(|| only(self.hosts.get(host(address))))?;
        Some(match found.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", found.get(..end).unwrap_or_default()),
            None => found.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_the_node_of_its_connection_or_of_its_host() {
        let nodes = [("10.0.0.1:1", "a"), ("10.0.0.2:1", "b"), ("10.0.0.2:2", "c"), ("[::1]:5", "d")];
        let nodes = NodesByPeer::new(nodes.map(|(at, node)| (at.to_owned(), node.into())).to_vec());
        assert_eq!(nodes.of("10.0.0.1:1 spiffe://x").as_deref(), Some("a"));
        assert_eq!(nodes.of("10.0.0.1:9").as_deref(), Some("a"), "a second connection");
        assert_eq!(nodes.of("10.0.0.2:2").as_deref(), Some("c"));
        assert_eq!(nodes.of("10.0.0.2:9"), None, "one of two");
        assert_eq!(nodes.of("[::1]:6").as_deref(), Some("d"));
        assert_eq!(nodes.of("10.0.0.3:1"), None);
    }
}
