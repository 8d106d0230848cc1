//! Objects of the API as resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use mixer_config::store::{ReadObject, SourceObject, read_object};
use mixer_kube::Object;

/// A custom resource.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ConfigObject {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Value,
    #[serde(flatten)]
    beside: Map<String, Value>,
}

#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    resource_version: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl Object for ConfigObject {
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

impl ConfigObject {
    /// Its status, as written.
    pub(super) fn status(&self) -> Option<&Value> {
        self.beside.get("status")
    }

    /// The resource of this kind. `origin`: the name of the object.
    pub(super) fn read(mut self, kind: &str, origin: &Arc<str>) -> ReadObject {
        // Whoever writes a status changes no configuration.
        self.beside.remove("status");
        let Metadata { name, namespace, resource_version, labels, annotations } = self.metadata;
        let object = SourceObject {
            api_version: self.api_version,
            kind: kind.to_owned(),
            namespace,
            name,
            version: resource_version,
            labels: labels.unwrap_or_default(),
            annotations: annotations.unwrap_or_default(),
            spec: self.spec,
            beside: self.beside,
        };
        read_object(origin, object)
    }
}
