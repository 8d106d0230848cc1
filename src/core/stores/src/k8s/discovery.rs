//! Which of the kinds that are read an API server serves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mixer_kube::{Client, Error, Resource, discover as served_in, is_defined};

use crate::StoreKind;

/// What a look found.
pub(super) struct Look {
    /// The kinds that are read and served.
    pub(super) served: BTreeMap<StoreKind, Resource>,
    /// Everything that is served in their groups, `PLURAL.GROUP`.
    pub(super) names: BTreeSet<String>,
    /// Of what was missed and is not served: whether its definition is there.
    pub(super) definitions: BTreeMap<Arc<str>, Result<bool, Error>>,
}

/// Asks which of the kinds are served, each in the version that the server prefers, or else in another; and of those `missed` that are
/// not, by `PLURAL.GROUP`, whether their definitions are there.
///
/// Errors: the server does not answer.
pub(super) async fn look(
    client: Client,
    kinds: Vec<StoreKind>,
    missed: Vec<Arc<str>>,
) -> Result<Look, Error> {
    let groups: BTreeSet<&'static str> = kinds.iter().map(|kind| kind.group).collect();
    let (mut served, mut names) = (BTreeMap::new(), BTreeSet::new());
    for group in groups {
        for found in served_in(&client, group).await? {
            names.insert(found.resource.to_string());
            if let Some(wanted) = kinds.iter().find(|kind| kind.group == group && kind.kind == found.kind) {
                served.entry(*wanted).or_insert(found.resource);
            }
        }
    }
    let mut definitions = BTreeMap::new();
    for name in missed {
        if !names.contains(&*name) {
            let defined = is_defined(&client, &name).await;
            definitions.insert(name, defined);
        }
    }
    Ok(Look { served, names, definitions })
}
