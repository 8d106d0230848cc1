//! Makes the filters of a proxy from their configuration.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use http::header::HeaderValue;
use mixer_attribute::OwnedAttributes;

use super::client::ClientConfig;
use super::forwarded;
use super::http::HttpFilter;
use super::node::Node;
use super::statistics::MixerStat;
use super::tcp::TcpFilter;
use crate::bootstrap::{Bootstrap, MixerConfig, TcpMixerConfig, TransportConfig};
use crate::stats::{Block, Scope, Stats};

/// Makes filters. Those of a kind count together.
#[derive(Debug)]
pub(crate) struct FilterBuilder {
    identity: (Option<String>, Option<String>),
    node_id: String,
    node: OnceLock<Node>,
    http: OnceLock<Arc<Block<MixerStat>>>,
    tcp: OnceLock<Arc<Block<MixerStat>>>,
    /// Whether the bytes of a report of a TCP connection are those since the report before it.
    exact_tcp_deltas: bool,
}

impl FilterBuilder {
    pub(crate) fn new(bootstrap: &Bootstrap, exact_tcp_deltas: bool) -> Self {
        Self {
            identity: bootstrap.node_identity.clone(),
            node_id: bootstrap.node_id.clone(),
            node: OnceLock::new(),
            http: OnceLock::new(),
            tcp: OnceLock::new(),
            exact_tcp_deltas,
        }
    }

    /// The identity of the node. A missing one is logged once.
    fn node(&self) -> &Node {
        let (uid, namespace) = &self.identity;
        self.node.get_or_init(|| Node::new((uid.as_deref(), namespace.as_deref()), &self.node_id))
    }

    fn client(
        &self,
        transport: &TransportConfig,
        stats: &Arc<Block<MixerStat>>,
        cluster: impl Fn(&str) -> Option<usize>,
    ) -> Arc<ClientConfig> {
        let mut caller = OwnedAttributes::new();
        caller.insert("source.uid", self.node().uid.as_str());
        let caller = HeaderValue::try_from(forwarded::encode(&caller));
        Arc::new(ClientConfig {
            check_cluster: cluster(&transport.check_cluster),
            report_cluster: cluster(&transport.report_cluster),
            transport: transport.clone(),
            stats: Arc::clone(stats),
            // Base64 is a valid value.
            caller: caller.unwrap_or(HeaderValue::from_static("")),
            is_retired: AtomicBool::new(false),
        })
    }

    /// The HTTP filter. `cluster` gives the index of a cluster by its name.
    pub(crate) fn http(
        &self,
        config: &MixerConfig,
        stats: &Stats,
        cluster: impl Fn(&str) -> Option<usize>,
    ) -> HttpFilter {
        let block = self.http.get_or_init(|| stats.block(&Scope::Mixer("http")));
        HttpFilter::new(config, self.node(), self.client(&config.transport, block, cluster))
    }

    /// The network filter.
    pub(crate) fn tcp(
        &self,
        config: &TcpMixerConfig,
        stats: &Stats,
        cluster: impl Fn(&str) -> Option<usize>,
    ) -> TcpFilter {
        let block = self.tcp.get_or_init(|| stats.block(&Scope::Mixer("tcp")));
        let client = self.client(&config.transport, block, cluster);
        TcpFilter::new(config, self.node(), client, self.exact_tcp_deltas)
    }
}
