//! What objects have in common.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// An object of the API, with as many of its fields as its reader needs. The fields that are left out cost nothing.
pub trait Object: DeserializeOwned + Send + 'static {
    /// `metadata.namespace`; empty for objects of the cluster.
    fn namespace(&self) -> &str;
    /// `metadata.name`
    fn name(&self) -> &str;
    /// `metadata.resourceVersion`
    fn resource_version(&self) -> &str;

    /// `NAMESPACE/NAME`, or the name alone.
    fn key(&self) -> String {
        match self.namespace() {
            "" => self.name().to_owned(),
            namespace => format!("{namespace}/{}", self.name()),
        }
    }
}

/// An object that owns another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    /// For example `apps/v1`.
    pub api_version: String,
    /// For example `ReplicaSet`.
    pub kind: String,
    /// Its name, in the namespace of what it owns.
    pub name: String,
    /// Whether it controls what it owns.
    pub controller: Option<bool>,
}

/// The metadata of any object, which [`Form::Metadata`](crate::Form::Metadata) asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct PartialObject {
    /// The metadata.
    pub metadata: PartialMetadata,
}

/// A part of the metadata of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PartialMetadata {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub resource_version: String,
    /// Its labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// Its owners.
    pub owner_references: Option<Vec<OwnerReference>>,
}

impl Object for PartialObject {
    fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}
