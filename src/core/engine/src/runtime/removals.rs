//! What a change removes from the configuration that serves, for the log.

use std::sync::Arc;

use super::last_good::Resources;
use crate::snapshot::{BuildStage, SnapshotBuilder};
use mixer_config::RawResource;

/// The number of resources that are logged by name.
const NAMED: usize = 50;

/// The resources that a change removes.
pub(super) struct Removed {
    /// Those that may have refused calls: what they refused is allowed from now on.
    refusing: Vec<Arc<RawResource>>,
    others: Vec<Arc<RawResource>>,
}

impl Removed {
    /// What served and is gone from a configuration that is about to serve. Cost: proportional to what changed.
    pub(super) fn between(good: &Resources, next: &Resources, builder: &SnapshotBuilder) -> Self {
        let changes = good.changes(next, |a, b| a.revision == b.revision);
        let gone = changes.into_iter().filter(|(_, new)| new.is_none()).filter_map(|(old, _)| old);
        let mut removed = Self { refusing: Vec::new(), others: Vec::new() };
        for resource in gone {
            let refuses = match builder.stage_of(&resource.key.kind) {
                BuildStage::Ignored => continue,
                BuildStage::Rules => builder.may_enforce(resource),
                BuildStage::Extensions => true,
                BuildStage::Vocabulary | BuildStage::Parts => false,
            };
            let list = if refuses { &mut removed.refusing } else { &mut removed.others };
            list.push(Arc::clone(resource));
        }
        removed
    }

    /// Logs them, at most [`NAMED`] by name.
    pub(super) fn log(&self) {
        for resource in self.refusing.iter().take(NAMED) {
            let (file, line) = (&*resource.origin.file, resource.origin.document_line());
            tracing::warn!(file, line, "removed: {}, which may have refused calls", resource.key);
        }
        for resource in self.others.iter().take(NAMED.saturating_sub(self.refusing.len())) {
            let (file, line) = (&*resource.origin.file, resource.origin.document_line());
            tracing::info!(file, line, "removed: {}", resource.key);
        }
        let more = (self.refusing.len() + self.others.len()).saturating_sub(NAMED);
        if more > 0 {
            tracing::warn!("removed: {more} more resources");
        }
    }
}
