//! Metrics of sources and sinks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tonic::Code;

use mixer_base::metrics::{Collect, Collected, Counter, Family, Gauge, Histogram, Metrics};
use mixer_base::rpc_code;

use crate::cache::Cache;

/// The metrics of a source or a sink. Collections are those that are known at the start, so that a peer cannot make up labels.
pub(crate) struct Report {
    component: &'static str,
    metrics: Arc<Metrics>,
    clients: Gauge,
    open: AtomicUsize,
    collections: HashMap<Arc<str>, (Histogram, Counter)>,
}

impl std::fmt::Debug for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Report").field("component", &self.component).finish_non_exhaustive()
    }
}

/// The name of a code of gRPC that came from a peer.
fn code_name(code: i32) -> &'static str {
    rpc_code::camel_name(code).unwrap_or("Unknown")
}

impl Report {
    pub(crate) fn new<'c>(
        metrics: &Arc<Metrics>,
        component: &'static str,
        collections: impl Iterator<Item = &'c Arc<str>>,
    ) -> Self {
        let of_collection = |name: &Arc<str>| {
            let labels: [&str; 2] = [name, component];
            let sizes = metrics.histogram(Family::McpMessageSizes, &labels);
            (Arc::clone(name), (sizes, metrics.counter(Family::McpAcks, &labels)))
        };
        Self {
            component,
            metrics: Arc::clone(metrics),
            clients: metrics.gauge(Family::McpClients, &[component]),
            open: AtomicUsize::new(0),
            collections: collections.map(of_collection).collect(),
        }
    }

    pub(crate) fn open_streams(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(crate) fn stream_opened(&self) {
        self.clients.set(self.open.fetch_add(1, Ordering::Relaxed) + 1);
    }

    pub(crate) fn stream_closed(&self) {
        self.clients.set(self.open.fetch_sub(1, Ordering::Relaxed).saturating_sub(1));
    }

    pub(crate) fn reconnected(&self) {
        self.metrics.counter(Family::McpReconnections, &[self.component]).increment();
    }

    pub(crate) fn request_size(&self, collection: &str, size: usize) {
        if let Some((sizes, _)) = self.collections.get(collection) {
            sizes.observe(size as u64);
        }
    }

    pub(crate) fn acknowledged(&self, collection: &str) {
        if let Some((_, acknowledged)) = self.collections.get(collection) {
            acknowledged.increment();
        }
    }

    pub(crate) fn refused(&self, collection: &str, code: i32) {
        // A sink also refuses collections that it does not know.
        let collection = if self.collections.contains_key(collection) { collection } else { "unknown" };
        self.metrics.counter(Family::McpNacks, &[code_name(code), collection, self.component]).increment();
    }

    pub(crate) fn receive_failed(&self, code: Code) {
        self.failed(Family::McpReceiveFailures, code);
    }

    pub(crate) fn send_failed(&self, code: Code) {
        self.failed(Family::McpSendFailures, code);
    }

    /// The label `error` has the name of the code: texts of peers would be labels without a bound.
    fn failed(&self, family: Family, code: Code) {
        let number = (code as i32).to_string();
        self.metrics.counter(family, &[&number, self.component, code_name(code as i32)]).increment();
    }
}

/// How many sinks have not answered, or refused, the current version of each collection.
impl Collect for Cache {
    fn collect(&self, out: &mut Collected) {
        let current: HashMap<(Arc<str>, Arc<str>), Arc<str>> = self.current_versions();
        self.ledger().for_each_open(|sink| {
            for (collection, record) in &sink.collections {
                let Some(version) = current.get(&(Arc::clone(&record.group), Arc::clone(collection))) else {
                    continue;
                };
                let has = |delivered: &crate::ledger::Delivered| delivered.version == *version;
                let acknowledged = record.acknowledged.as_ref().is_some_and(has);
                let refused = !acknowledged && record.refused.as_ref().is_some_and(|r| has(&r.delivered));
                let labels: [&str; 1] = [collection];
                out.add(Family::McpSinksRefusing, &labels, f64::from(u8::from(refused)));
                out.add(Family::McpSinksBehind, &labels, f64::from(u8::from(!acknowledged && !refused)));
            }
        });
    }
}
