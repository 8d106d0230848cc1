//! Who the proxy is.

/// Who the proxy is: `node` of the bootstrap.
#[derive(Debug, Default)]
pub(crate) struct NodeIdentity {
    pub(crate) id: String,
    pub(crate) cluster: String,
    /// As JSON.
    pub(crate) metadata: serde_json::Value,
}
