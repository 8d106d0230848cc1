//! Which kinds an API server serves.

use serde::Deserialize;

use crate::client::Client;
use crate::error::Error;
use crate::selection::Resource;

const JSON: &str = "application/json";

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

/// A kind that a server serves, in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// For example `Gateway`.
    pub kind: String,
    /// How URLs name it.
    pub resource: Resource,
}

/// The kinds that a server serves in an API group, the empty one being that of Kubernetes' core, by version: the one that the server
/// prefers goes first. Empty if there is no such group.
///
/// Errors: the server does not answer, or with something else.
pub async fn discover(client: &Client, group: &str) -> Result<Vec<Served>, Error> {
    let (path, versions) = match group {
        "" => ("/api".to_owned(), vec!["v1".to_owned()]),
        group => {
            let path = format!("/apis/{group}");
            let Some(known) = found(client.get::<Group>(&path, JSON).await)? else { return Ok(Vec::new()) };
            if known.versions.is_empty() {
                let server = client.server();
                return Err(Error::Malformed { server, path, why: "a group without versions".to_owned() });
            }
            let preferred = known.preferred_version.version;
            let mut versions: Vec<String> = known.versions.into_iter().map(|known| known.version).collect();
            versions.sort_by_key(|version| *version != preferred);
            (path, versions)
        }
    };
    let mut served = Vec::new();
    for version in versions {
        let listed = found(client.get::<ResourceList>(&format!("{path}/{version}"), JSON).await)?;
        // Names with a slash are subresources, such as `gateways/status`.
        let kinds = listed.unwrap_or_default().resources.into_iter().filter(|kind| !kind.name.contains('/'));
        served.extend(kinds.map(|kind| Served {
            kind: kind.kind,
            resource: Resource {
                group: group.to_owned().into(),
                version: version.clone().into(),
                plural: kind.name.into(),
            },
        }));
    }
    Ok(served)
}

/// An answer, or `None` if there is no such group or version.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Refused { status, .. }) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}
