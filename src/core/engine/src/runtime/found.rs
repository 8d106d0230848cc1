//! What is wrong with a version of the store.

use std::cell::OnceCell;

use foldhash::{HashMap, HashSet};

use super::kept::Reason;
use crate::snapshot::SnapshotCounts;
use mixer_config::{Diagnostic, Diagnostics, ResourceKey};

/// What the first build found, and what was found since.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) counts: SnapshotCounts,
    pub(super) diagnostics: Diagnostics,
    /// Where the diagnostics of each resource are, once they are looked for.
    pub(super) by_resource: OnceCell<HashMap<String, Vec<usize>>>,
    /// The resources with errors of their own.
    pub(super) faulty: HashSet<String>,
    /// Resources that were left out although they might decide about requests.
    pub(super) refused: Vec<Reason>,
}

impl Found {
    /// The diagnostics of a resource.
    pub(super) fn problems_of(&self, resource: &ResourceKey) -> impl Iterator<Item = &Diagnostic> {
        let all = self.diagnostics.as_slice();
        let by_resource = self.by_resource.get_or_init(|| {
            let mut by_resource: HashMap<String, Vec<usize>> = HashMap::default();
            for (at, problem) in all.iter().enumerate() {
                by_resource.entry(problem.resource.clone()).or_default().push(at);
            }
            by_resource
        });
        let places = by_resource.get(&resource.to_string()).into_iter().flatten();
        places.filter_map(|at| all.get(*at))
    }
}
