//! Which kinds an API server serves.

use serde::Deserialize;

use crate::client::Client;
use crate::error::Error;
use crate::object::PartialObject;
use crate::selection::{Resource, Selection};
use crate::watch::page;

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

/// The kinds of a version of a group.
#[derive(Debug, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ResourceList {
    kind: String,
    group_version: String,
    resources: Option<Vec<ApiResource>>,
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
        let path = format!("{path}/{version}");
        let Some(listed) = found(client.get::<ResourceList>(&path, JSON).await)? else { continue };
        let group_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
        // What is taken for an empty one says that no kind is served.
        let resources = match listed {
            ResourceList { kind, group_version: said, resources: Some(resources) }
                if kind == "APIResourceList" && said == group_version =>
            {
                resources
            }
            _ => {
                let why = format!("no list of the kinds of {group_version}");
                return Err(Error::Malformed { server: client.server(), path, why });
            }
        };
        // Names with a slash are subresources, such as `gateways/status`.
        let kinds = resources.into_iter().filter(|kind| !kind.name.contains('/'));
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

/// Whether there is the definition of a custom resource, `PLURAL.GROUP`. A kind may be defined and not served, while an API server starts
/// for example.
///
/// Definitions are listed, since a list can be empty: that something is not found is what a server says as well that does not know definitions.
///
/// Errors: the server does not answer, does not know definitions, or the account may not list them.
pub async fn is_defined(client: &Client, name: &str) -> Result<bool, Error> {
    let field = format!("metadata.name={name}");
    let listed = async |version: &'static str| {
        let definitions = Resource::new("apiextensions.k8s.io", version, "customresourcedefinitions");
        let selection = Selection::of("CustomResourceDefinition", definitions).metadata_only();
        page::<PartialObject>(client, &selection, &[("fieldSelector", &*field)]).await
    };
    let mut page = listed("v1").await;
    if matches!(&page, Err(Error::Refused { status, .. }) if status.code == 404) {
        page = listed("v1beta1").await;
    }
    Ok(page?.items().iter().any(|definition| definition.metadata.name == name))
}

/// An answer, or `None` if there is no such group or version.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Refused { status, .. }) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}
