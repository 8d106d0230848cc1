//! What the pages read of the services for Envoy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::CacheStatus;
use mixer_net::registry::ConnectionInfo;

/// The services for Envoy of a server.
pub trait EnvoyServices: Send + Sync {
    /// The cache of check results; `None` if there is none.
    fn cache(&self) -> Option<CacheStatus>;

    /// The nodes that send access logs, with the addresses of their connections: `host:port` or `unix`.
    fn nodes(&self) -> Vec<(String, Arc<str>)>;

    /// The connections of checks and rate limits over HTTP.
    fn http_connections(&self) -> Vec<Arc<ConnectionInfo>>;
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
