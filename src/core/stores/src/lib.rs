//! The configuration stores of a server, by URL: a directory or the embedded sample of `mixer_config`, the objects of a Kubernetes
//! cluster, and the collections of an MCP source.
//!
//! A store over the network is a [`Feed`](mixer_config::store::Feed): a task of this crate follows the server and turns every object
//! into the resource that a file with the same text would give. An outage changes nothing of what serves; it is told.
//!
//! | URL | store |
//! | --- | --- |
//! | `k8s://[KUBECONFIG][?ns=A,B]` | the custom resources of a cluster, see [`k8s`] |
//! | `mcp://HOST:PORT`, `mcps://HOST:PORT` | the collections of an MCP source, see [`mcp`] |
//! | `mcp+listen://ADDRESS`, `mcps+listen://ADDRESS` | those of the source that connects to this server |
//! | others | [`mixer_config::store::open_with`] |

pub mod k8s;
pub mod mcp;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use mixer_base::metrics::Metrics;
use mixer_config::RawResource;
use mixer_config::store::{self, ConfigStore, StoreContents, StoreError, WhenLost};

pub use mcp::Credentials;

/// What a store is opened with.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Where it is; empty: the cluster that this process runs in.
    pub url: String,
    /// What happens when a directory is lost.
    pub when_lost: WhenLost,
    /// The kinds that are read from a server; a directory has whatever its files have.
    pub kinds: Vec<StoreKind>,
    /// The kinds that an MCP source is asked for once a resource needs them.
    pub needed: Vec<NeededKinds>,
    /// The certificates of this server, for MCP with TLS.
    pub credentials: Credentials,
    /// Maximum size of a message of an MCP source, in bytes.
    pub max_mcp_message: usize,
    /// Whether fields of MCP resources that this program does not know are ignored, as Istio Mixer ignores them; otherwise such a resource
    /// cannot be read.
    pub ignores_unknown_fields: bool,
    /// The tool that reads the store once, for example `mixer doctor`: an MCP source is told, so that nobody waits for it as for a server.
    pub reader: Option<&'static str>,
    /// What cannot be used, to be written onto the objects of a cluster; `None`: nothing is written, and nothing until it has a value.
    pub faults: Option<watch::Receiver<Option<Arc<Faults>>>>,
}

/// A kind that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreKind {
    /// As written in resources.
    pub kind: &'static str,
    /// Its API group.
    pub group: &'static str,
}

/// Kinds, and what needs them.
#[derive(Clone)]
pub struct NeededKinds {
    /// The kinds.
    pub kinds: Vec<StoreKind>,
    /// Whether a resource needs them.
    pub is_needed_by: Arc<dyn Fn(&RawResource) -> bool + Send + Sync>,
}

impl std::fmt::Debug for NeededKinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NeededKinds").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}

/// What is wrong with objects, by the name of their [origin](mixer_config::Origin).
pub type Faults = BTreeMap<Arc<str>, Fault>;

/// Why an object cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The code of the first error.
    pub code: &'static str,
    /// For operators.
    pub message: String,
}

impl StoreOptions {
    /// Without kinds and certificates, and with messages of at most 64 MiB.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            when_lost: WhenLost::Keep,
            kinds: Vec::new(),
            needed: Vec::new(),
            credentials: Credentials::default(),
            max_mcp_message: 64 << 20,
            ignores_unknown_fields: false,
            reader: None,
            faults: None,
        }
    }
}

/// Opens a store. One over the network follows its server from now on, on the current runtime, until it is dropped.
///
/// Errors: see [`StoreError`]. That a server is away is no error: the store is unavailable until it answers.
pub fn open(options: &StoreOptions, metrics: &Arc<Metrics>) -> Result<Arc<dyn ConfigStore>, StoreError> {
    let url = if options.url.is_empty() { "k8s://" } else { &options.url };
    match url.split_once("://") {
        Some(("k8s" | "kube" | "kubernetes", rest)) => {
            Ok(Arc::new(k8s::open(url, k8s::Settings::parse(url, rest)?, options)?))
        }
        Some((scheme @ ("mcp" | "mcps" | "mcp+listen" | "mcps+listen"), rest)) => {
            let settings = mcp::Settings::parse(url, scheme, rest)?;
            Ok(Arc::new(mcp::open(url, settings, options, metrics)?))
        }
        _ => store::open_with(url, options.when_lost).map(Arc::from),
    }
}

/// Whether the store at a URL is over the network.
pub fn is_over_network(url: &str) -> bool {
    url.is_empty() || store::OVER_NETWORK.contains(&url.split("://").next().unwrap_or_default())
}

/// Reads a store once, for tools. Waits at most `limit` for a server; the contents are unavailable then, and say what was waited for.
/// `expected`: see [`ConfigStore::expect`].
///
/// Errors: as of [`open`].
pub async fn read(
    options: &StoreOptions,
    expected: &[&Path],
    limit: Duration,
) -> Result<Arc<StoreContents>, StoreError> {
    let opened = open(options, &Arc::default())?;
    opened.expect(expected);
    if !is_over_network(&options.url) {
        return Ok(opened.load());
    }
    let is_read = tokio::time::timeout(limit, opened.loaded()).await.is_ok();
    let contents = opened.contents();
    let outage = opened.availability().err().filter(|_| !is_read);
    Ok(match outage {
        Some(outage) => {
            let unavailable = Some(outage.why);
            Arc::new(StoreContents { unavailable, ..StoreContents::clone(&contents) })
        }
        None => contents,
    })
}
