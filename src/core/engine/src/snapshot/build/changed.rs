//! What a build has changed so far, on which other resources depend.

use std::sync::Arc;

use foldhash::HashSet;

use crate::snapshot::kind::ResourceKind;
use crate::snapshot::rules::RuleState;
use crate::snapshot::unit::UnitChange;
use mixer_config::{RawResource, ResourceKey};

/// Changed handlers and instances, by full name. Rules do not depend on positions.
#[derive(Default)]
pub(super) struct ChangedNames {
    pub(super) changed: HashSet<String>,
}

impl ChangedNames {
    pub(super) fn note(&mut self, key: &ResourceKey, change: UnitChange) {
        if change == UnitChange::Changed {
            self.changed.insert(key.to_string());
        }
    }

    /// Whether a rule depends on any of them.
    pub(super) fn reach(&self, rule: &RuleState) -> bool {
        rule.advised || rule.references.iter().any(|name| self.changed.contains(&**name))
    }
}

/// Those of `external` that are of a kind and not due anyway; and the keys of all of that kind.
pub(super) fn dependents_of<'r>(
    external: &'r [Arc<RawResource>],
    due: &[(&Arc<RawResource>, ResourceKind)],
    kind: &str,
) -> (Vec<&'r Arc<RawResource>>, HashSet<ResourceKey>) {
    let of_kind = || external.iter().filter(|resource| *resource.key.kind == *kind);
    let keys = of_kind().map(|resource| resource.key.clone()).collect();
    let due: HashSet<&ResourceKey> = due.iter().map(|(resource, _)| &resource.key).collect();
    (of_kind().filter(|resource| !due.contains(&resource.key)).collect(), keys)
}
