//! The configuration stores of a server, by URL: a directory or the embedded sample of `mixer_config`, the objects of a Kubernetes
//! cluster, and the collections of an MCP source.
//!
//! A store over the network is a [`Feed`](mixer_config::store::Feed): a task of this crate follows the server and turns every object
//! into the resource that a file with the same text would give. An outage changes nothing of what serves; it is told.
//!
//! | URL | store |
//! | --- | --- |
//! | `k8s://[KUBECONFIG][?ns=A,B]` | the custom resources of a cluster, see [`k8s`] |
//! | others | [`mixer_config::store::open_with`] |

pub mod k8s;

use std::sync::Arc;

use mixer_config::store::{self, ConfigStore, StoreError, WhenLost};

/// What a store is opened with.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Where it is; empty: the cluster that this process runs in.
    pub url: String,
    /// What happens when a directory is lost.
    pub when_lost: WhenLost,
    /// The kinds that are read from a server; a directory has whatever its files have.
    pub kinds: Vec<StoreKind>,
}

/// A kind that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreKind {
    /// As written in resources.
    pub kind: &'static str,
    /// Its API group.
    pub group: &'static str,
}

impl StoreOptions {
    /// Without kinds.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), when_lost: WhenLost::Keep, kinds: Vec::new() }
    }
}

/// Opens a store. One over the network follows its server from now on, on the current runtime, until it is dropped.
///
/// Errors: see [`StoreError`]. That a server is away is no error: the store is unavailable until it answers.
pub fn open(options: &StoreOptions) -> Result<Arc<dyn ConfigStore>, StoreError> {
    let url = if options.url.is_empty() { "k8s://" } else { &options.url };
    match url.split_once("://") {
        Some(("k8s" | "kube" | "kubernetes", rest)) => {
            Ok(Arc::new(k8s::open(url, k8s::Settings::parse(url, rest)?, &options.kinds)?))
        }
        _ => store::open_with(url, options.when_lost).map(Arc::from),
    }
}
