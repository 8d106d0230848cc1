//! A source: serves the snapshots of a [`Cache`] on streams.

mod exchange;
mod stream;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};

use mixer_base::metrics::{Counter, Family, Metrics};

use crate::cache::Cache;
use crate::encode::Dialect;
use crate::grpc;
use crate::limiter::{Limiter, Rate};
use crate::report::Report;

pub(crate) use exchange::TRIGGER;
pub(crate) use stream::{Incoming, Revocation, Stop};

/// Settings of a source.
#[derive(Debug, Clone)]
pub struct SourceOptions {
    /// The collections that are served. A request for another one ends its stream.
    pub collections: Vec<Arc<str>>,
    /// Whether sinks that ask for differences get them.
    pub incremental: bool,
    /// Whether a version of a resource is never used again for other content, also by the next process. If not, a sink that names the versions
    /// which it has from an earlier stream gets every resource again, and the removal of those that are gone.
    pub lasting_versions: bool,
    /// Headers of every stream: names and values.
    pub metadata: Vec<(String, String)>,
    /// The header `config.source.version`.
    pub version: String,
    /// New streams of all peers; beyond it they wait. With the default of Galley, 1 000 sinks that reconnect take 15 minutes; a stream costs
    /// the source well below a millisecond, so that one each millisecond after a burst of 1 000 does no harm.
    pub streams: Rate,
    /// Requests of a stream; beyond it they wait. ACKs and NACKs of the last message are not counted.
    pub requests: Rate,
    /// Most bytes of a request.
    pub max_request: usize,
    /// The protocol of releases 1.0 and 1.1 beside that of today: type URLs, and the collection that each stands for. Empty: not served.
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
            lasting_versions: true,
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
    /// By the name that sinks use, for each protocol.
    served: [Arc<HashMap<Arc<str>, Arc<str>>>; 2],
    headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) streams: Limiter,
    pub(crate) report: Report,
    encodings: Counter,
}

impl Source {
    /// A source without streams.
    ///
    /// Errors: metadata that no header can have.
    pub fn new(
        cache: Arc<Cache>,
        options: SourceOptions,
        metrics: &Arc<Metrics>,
    ) -> Result<Arc<Self>, String> {
        let own = options.collections.iter().map(|name| (Arc::clone(name), Arc::clone(name)));
        let of_types = options.legacy.iter().map(|(url, name)| (Arc::clone(url), Arc::clone(name)));
        let served = [Arc::new(own.collect()), Arc::new(of_types.collect())];
        let mut headers = grpc::metadata(&[("config.source.version".to_owned(), options.version.clone())])?;
        headers.extend(grpc::metadata(&options.metadata)?);
        Ok(Arc::new(Self {
            served,
            headers,
            streams: Limiter::new(options.streams),
            report: Report::new(metrics, options.component, options.collections.iter()),
            encodings: metrics.counter(Family::McpEncodings, &[]),
            options,
            cache,
        }))
    }

    /// Its settings.
    pub fn options(&self) -> &SourceOptions {
        &self.options
    }

    /// The snapshots that it serves.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Messages that were encoded so far. Each is sent to all sinks that need it.
    pub fn encodings(&self) -> u64 {
        self.encodings.get()
    }

    /// Streams that are open.
    pub fn open_streams(&self) -> usize {
        self.report.open_streams()
    }

    /// Whether the source serves a protocol.
    pub(crate) fn speaks(&self, dialect: Dialect) -> bool {
        dialect == Dialect::Resources || !self.options.legacy.is_empty()
    }

    /// The headers of a stream.
    pub(crate) fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    fn served(&self, dialect: Dialect) -> &Arc<HashMap<Arc<str>, Arc<str>>> {
        let [today, aggregated] = &self.served;
        match dialect {
            Dialect::Resources => today,
            Dialect::Aggregated => aggregated,
        }
    }
}
