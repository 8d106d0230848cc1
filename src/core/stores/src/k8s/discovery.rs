//! Which kinds an API server serves.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use mixer_kube::{Client, Error, Resource};

use crate::StoreKind;

/// An API group, as far as it is read.
#[derive(Debug, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Group {
    versions: Vec<GroupVersion>,
    preferred_version: GroupVersion,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct GroupVersion {
    version: String,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct ResourceList {
    resources: Vec<ApiResource>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct ApiResource {
    name: String,
    kind: String,
}

/// How kinds are served: by kind.
pub(super) type Served = BTreeMap<StoreKind, Resource>;

/// Asks which of the kinds are served, each in the version that the server prefers, or else in another.
///
/// Errors: the server does not answer.
pub(super) async fn discover(client: &Client, kinds: &[StoreKind]) -> Result<Served, Error> {
    let groups: BTreeSet<&'static str> = kinds.iter().map(|kind| kind.group).collect();
    let mut served = Served::new();
    for group in groups {
        let Some(known) = found(client.get::<Group>(&format!("/apis/{group}"), JSON).await)? else {
            continue;
        };
        let mut versions: Vec<&str> = known.versions.iter().map(|known| &*known.version).collect();
        let preferred = &*known.preferred_version.version;
        versions.sort_by_key(|version| *version != preferred);
        for version in versions {
            let path = format!("/apis/{group}/{version}");
            let listed = found(client.get::<ResourceList>(&path, JSON).await)?.unwrap_or_default();
            for wanted in kinds.iter().filter(|kind| kind.group == group) {
                // Others than the kind itself are its subresources, such as `rules/status`.
                let is_kind =
                    |resource: &&ApiResource| resource.kind == wanted.kind && !resource.name.contains('/');
                if let Some(resource) = listed.resources.iter().find(is_kind) {
                    served.entry(*wanted).or_insert_with(|| Resource {
                        group: group.into(),
                        version: version.to_owned().into(),
                        plural: resource.name.clone().into(),
                    });
                }
            }
        }
    }
    Ok(served)
}

const JSON: &str = "application/json";

/// An answer, or `None` if there is no such group or version.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Refused { status, .. }) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}
