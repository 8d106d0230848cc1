//! The proxies that send access logs, by their connections: Envoy tells its node with nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use mixer_net::peer::PeerAddress;

/// The nodes of the open streams, by the number of the stream. As many as there are streams, which connections bound.
#[derive(Debug, Default)]
pub(super) struct Nodes(Mutex<Streams>);

#[derive(Debug, Default)]
struct Streams {
    next: u64,
    nodes: BTreeMap<u64, (PeerAddress, Arc<str>)>,
}

/// The entry of a stream, removed when this is dropped.
#[derive(Debug)]
pub(super) struct NodeEntry {
    nodes: Arc<Nodes>,
    stream: u64,
}

impl Drop for NodeEntry {
    fn drop(&mut self) {
        self.nodes.0.lock().nodes.remove(&self.stream);
    }
}

impl Nodes {
    /// Enters the node of a stream.
    pub(super) fn enter(self: &Arc<Self>, address: PeerAddress, node: &str) -> NodeEntry {
        let mut streams = self.0.lock();
        streams.next += 1;
        let stream = streams.next;
        streams.nodes.insert(stream, (address, node.into()));
        NodeEntry { nodes: Arc::clone(self), stream }
    }

    /// Addresses and nodes, each pair once.
    pub(super) fn list(&self) -> Vec<(String, Arc<str>)> {
        let streams = self.0.lock();
        let mut list: Vec<(String, Arc<str>)> =
            streams.nodes.values().map(|(address, node)| (address.to_string(), Arc::clone(node))).collect();
        drop(streams);
        list.sort();
        list.dedup();
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_known_while_its_stream_is_open() {
        let nodes = Arc::new(Nodes::default());
        let address = PeerAddress::Tcp("10.0.0.7:1234".parse().unwrap());
        let first = nodes.enter(address, "edge-1");
        let second = nodes.enter(address, "edge-1");
        let third = nodes.enter(PeerAddress::Unix, "edge-2");
        let expected = [("10.0.0.7:1234", "edge-1"), ("unix", "edge-2")];
        assert_eq!(nodes.list(), expected.map(|(address, node)| (address.to_owned(), node.into())));
        drop((first, third));
        assert_eq!(nodes.list().len(), 1);
        drop(second);
        assert!(nodes.list().is_empty());
    }
}
