//! The fields of a service that are read.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;

use mixer_attribute::Timestamp;
use mixer_kube::Object;

use super::{Service, stored};

/// A service of the API, with the fields that are used. All others are skipped while it is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in super::super) struct ServiceObject {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    namespace: String,
    name: String,
    resource_version: String,
    creation_timestamp: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "type")]
    kind: String,
    selector: Option<BTreeMap<String, String>>,
    /// Of API servers before 1.20, which have no list.
    #[serde(rename = "clusterIP")]
    cluster_ip: String,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Option<Vec<String>>,
}

impl Object for ServiceObject {
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

impl ServiceObject {
    /// What is kept of it; `None` if neither a pod nor an address can belong to it.
    pub(super) fn service(&self) -> Option<Service> {
        // API servers ignore both of a name for something outside.
        let spec = Some(&self.spec).filter(|spec| spec.kind != "ExternalName")?;
        let selector = spec.selector.iter().flatten();
        let selector = selector.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
        let first = spec.cluster_ips.is_none().then_some(&spec.cluster_ip);
        let ips = first.into_iter().chain(spec.cluster_ips.iter().flatten());
        // One without an address has `None`.
        let ips = ips.filter_map(|text| text.parse::<IpAddr>().ok());
        let ips = ips.filter(|ip| !ip.to_canonical().is_unspecified()).map(stored).collect();
        let (namespace, name) = (&self.metadata.namespace, &self.metadata.name);
        let created = self.metadata.creation_timestamp.as_deref();
        let created = created.and_then(|text| Timestamp::parse_rfc3339(text).ok());
        let service = Service {
            key: format!("{namespace}/{name}").into(),
            namespace_len: u32::try_from(namespace.len()).unwrap_or(u32::MAX),
            created: created.and_then(|time| u32::try_from(time.seconds).ok()).unwrap_or(u32::MAX),
            selector,
            ips,
        };
        (!service.selector.is_empty() || !service.ips.is_empty()).then_some(service)
    }
}
