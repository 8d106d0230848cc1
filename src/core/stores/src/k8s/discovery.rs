//! Which of the kinds that are read an API server serves.

use std::collections::{BTreeMap, BTreeSet};

use mixer_kube::{Client, Error, Resource, discover as served_in};

use crate::StoreKind;

/// How kinds are served: by kind.
pub(super) type Served = BTreeMap<StoreKind, Resource>;

/// Asks which of the kinds are served, each in the version that the server prefers, or else in another.
///
/// Errors: the server does not answer.
pub(super) async fn discover(client: &Client, kinds: &[StoreKind]) -> Result<Served, Error> {
    let groups: BTreeSet<&'static str> = kinds.iter().map(|kind| kind.group).collect();
    let mut served = Served::new();
    for group in groups {
        for found in served_in(client, group).await? {
            if let Some(wanted) = kinds.iter().find(|kind| kind.group == group && kind.kind == found.kind) {
                served.entry(*wanted).or_insert(found.resource);
            }
        }
    }
    Ok(served)
}
