//! The publications of this process: what sinks are asked about is numbered here.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use mixer_base::time::Moment;
use mixer_galley::Distributor;
use mixer_mcp::{Cache, Publication, Snapshot};

/// Publishes into the snapshot cache, and knows the last publication of every group.
#[derive(Debug)]
pub struct Publications {
    cache: Arc<Cache>,
    last: Mutex<BTreeMap<String, (Publication, Moment)>>,
}

impl Publications {
    /// Nothing was published yet.
    pub fn new(cache: Arc<Cache>) -> Arc<Self> {
        Arc::new(Self { cache, last: Mutex::default() })
    }

    /// The snapshot cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The last publication of any group; 0 before the first.
    pub fn latest(&self) -> Publication {
        self.last.lock().values().map(|(number, _)| *number).max().unwrap_or_default()
    }

    /// The last publication of every group, and when it was.
    pub fn by_group(&self) -> BTreeMap<String, (Publication, Moment)> {
        self.last.lock().clone()
    }
}

impl Distributor for Publications {
    fn distribute(&self, group: &str, snapshot: Arc<Snapshot>) {
        let number = self.cache.set_snapshot(group, snapshot);
        self.last.lock().insert(group.to_owned(), (number, Moment::now()));
    }
}
