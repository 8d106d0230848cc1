//! The identity of the proxy's node, and the attributes that come of it.

use mixer_attribute::{OwnedAttributes, OwnedValue};

/// The workload that the proxy stands beside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) uid: String,
    pub(crate) namespace: String,
}

impl Node {
    /// The identity from `node.metadata`, or else from `node.id` of the form `kind~address~pod.namespace~domain`; empty without either.
    pub(crate) fn new(metadata: (Option<&str>, Option<&str>), id: &str) -> Self {
        if let (Some(uid), Some(namespace)) = metadata {
            return Self { uid: uid.to_owned(), namespace: namespace.to_owned() };
        }
        let parts: Vec<&str> = id.split('~').filter(|part| !part.is_empty()).collect();
        if let (true, Some(pod)) = (parts.len() >= 3, parts.get(2))
            && let Some(namespace) = pod.split('.').nth(1)
        {
            return Self { uid: format!("kubernetes://{pod}"), namespace: namespace.to_owned() };
        }
        tracing::warn!("Missing required node metadata: NODE_UID, NODE_NAMESPACE");
        Self::default()
    }

    /// Attributes of every check and report, and those that the next proxy is told. The direction is that of the configured attributes.
    pub(super) fn attributes(&self, configured: &OwnedAttributes) -> (OwnedAttributes, OwnedAttributes) {
        let outbound = OwnedValue::from("outbound");
        let is_outbound = configured.get("context.reporter.kind") == Some(&outbound);
        let side = if is_outbound { "source" } else { "destination" };
        let mut own = OwnedAttributes::new();
        own.insert(format!("{side}.uid"), self.uid.as_str());
        own.insert(format!("{side}.namespace"), self.namespace.as_str());
        own.insert("context.reporter.uid", self.uid.as_str());
        let mut forward = OwnedAttributes::new();
        if is_outbound {
            forward.insert("source.uid", self.uid.as_str());
        }
        (own, forward)
    }
}
