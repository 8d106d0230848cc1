//! A source: serves the snapshots of a [`Cache`] on streams.

use std::sync::Arc;
use std::time::Duration;

use mixer_base::metrics::Metrics;

use crate::cache::Cache;
use crate::limiter::Rate;

/// Settings of a source.
#[derive(Debug, Clone)]
pub struct SourceOptions {
    /// The collections that are served. A request for another one ends its stream.
    pub collections: Vec<Arc<str>>,
    /// Whether sinks that ask for differences get them.
    pub incremental: bool,
    /// Headers of every stream: names and values.
    pub metadata: Vec<(String, String)>,
    /// The header `config.source.version`.
    pub version: String,
    /// New streams of all peers; beyond it they wait.
    pub streams: Rate,
    /// Requests of a stream; beyond it they wait. ACKs and NACKs of the last message are not counted.
    pub requests: Rate,
    /// Most bytes of a request.
    pub max_request: usize,
    /// Whether the protocol of releases 1.0 and 1.1 is served as well: the type URL of each collection that it can ask for.
    pub legacy: Vec<(Arc<str>, Arc<str>)>,
    /// The label `component` of the metrics.
    pub component: &'static str,
}

impl SourceOptions {
    /// The defaults of Galley for these collections, with differences.
    pub fn new(collections: Vec<Arc<str>>) -> Self {
        let rate = Rate { every: Duration::from_secs(1), burst: 100 };
        Self {
            collections,
            incremental: true,
            metadata: Vec::new(),
            version: "unknown".to_owned(),
            streams: rate,
            requests: rate,
            max_request: 1 << 20,
            legacy: Vec::new(),
            component: "galley",
        }
    }
}

/// A source. One value serves all streams: of servers, and of call-outs.
#[derive(Debug)]
pub struct Source {
    options: SourceOptions,
    cache: Arc<Cache>,
}

impl Source {
    /// A source without streams.
    pub fn new(cache: Arc<Cache>, options: SourceOptions, _metrics: &Metrics) -> Arc<Self> {
        Arc::new(Self { options, cache })
    }

    /// Its settings.
    pub fn options(&self) -> &SourceOptions {
        &self.options
    }

    /// The snapshots that it serves.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }
}
