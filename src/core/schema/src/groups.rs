//! Snapshot groups: which collections are published together.

use crate::kinds::{Kind, Origin, SYNTHETIC_SERVICE_ENTRIES, kinds};

/// When a changed group is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// With every change.
    Immediate,
    /// When changes pause, or have gone on for too long.
    Debounce,
}

/// A list of collections that are published together.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotGroup {
    /// The name of its snapshots.
    pub name: &'static str,
    /// When it is published.
    pub strategy: Strategy,
    contains: fn(&Kind) -> bool,
}

impl SnapshotGroup {
    /// The kinds whose collections the group has in the second pipeline, in the order of the table. The first pipeline publishes the
    /// kinds of Kubernetes that are not excluded in the default group.
    pub fn kinds(&self) -> impl Iterator<Item = &'static Kind> {
        let contains = self.contains;
        kinds().iter().filter(move |kind| contains(kind))
    }
}

/// The group of everything that users configure.
pub const DEFAULT_GROUP: &str = "default";
/// The group of the service entries made from Kubernetes services.
pub const SYNTHETIC_GROUP: &str = "syntheticServiceEntry";

/// Collections of Kubernetes that the second pipeline always publishes.
const ALWAYS: [&str; 2] = ["k8s/core/v1/namespaces", "k8s/core/v1/services"];

static GROUPS: [SnapshotGroup; 2] = [
    SnapshotGroup {
        name: DEFAULT_GROUP,
        strategy: Strategy::Debounce,
        contains: |kind| match kind.origin {
            Origin::Core => ALWAYS.contains(&kind.collection),
            _ => kind.collection != SYNTHETIC_SERVICE_ENTRIES,
        },
    },
    SnapshotGroup {
        name: SYNTHETIC_GROUP,
        strategy: Strategy::Immediate,
        contains: |kind| kind.collection == SYNTHETIC_SERVICE_ENTRIES,
    },
];

/// The groups.
pub fn groups() -> &'static [SnapshotGroup] {
    &GROUPS
}

/// The name of the group from which a request for a collection is answered.
pub fn group_of(collection: &str) -> &'static str {
    if collection == SYNTHETIC_SERVICE_ENTRIES { SYNTHETIC_GROUP } else { DEFAULT_GROUP }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_their_collections() {
        let names = |group: &SnapshotGroup| group.kinds().map(|kind| kind.collection).collect::<Vec<_>>();
        let [default, synthetic] = &GROUPS;
        let default = names(default);
        assert_eq!(names(synthetic), [SYNTHETIC_SERVICE_ENTRIES]);
        assert!(!default.contains(&SYNTHETIC_SERVICE_ENTRIES) && !default.contains(&"k8s/core/v1/pods"));
        assert!(
            default.contains(&"k8s/core/v1/services") && default.contains(&"istio/mesh/v1alpha1/MeshConfig")
        );
        assert!(default.contains(&"istio/config/v1alpha2/legacy/deniers"));
        assert!(default.iter().all(|collection| group_of(collection) == DEFAULT_GROUP));
        assert_eq!(group_of(SYNTHETIC_SERVICE_ENTRIES), SYNTHETIC_GROUP);
    }
}
