//! The fields of a pod that are read.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use serde::Deserialize;

use mixer_attribute::Timestamp;
use mixer_kube::{Object, OwnerReference};

use super::stored;

/// Most addresses of a pod. API servers take one of each family.
const MAX_IPS: usize = 8;

/// A pod of the API, with the fields that are used. All others are skipped while it is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodObject {
    pub(super) metadata: Metadata,
    pub(super) spec: Spec,
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    namespace: String,
    name: String,
    resource_version: String,
    creation_timestamp: Option<String>,
    pub(super) self_link: String,
    pub(super) labels: Option<BTreeMap<String, String>>,
    pub(super) owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) service_account_name: String,
    host_network: bool,
    containers: Option<Vec<Container>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Container {
    name: String,
    ports: Option<Vec<Port>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Port {
    container_port: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    #[serde(rename = "podIP")]
    pod_ip: String,
    /// All of them, the one above first; null or absent from API servers before 1.16.
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIp>>,
    #[serde(rename = "hostIP")]
    host_ip: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PodIp {
    ip: String,
}

impl Object for PodObject {
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

/// What a pod has of its own.
pub(super) struct Parts {
    pub(super) key: Box<str>,
    pub(super) namespace_len: u32,
    pub(super) created: u32,
    pub(super) ip: Ipv6Addr,
    /// Each once.
    pub(super) other_ips: Vec<Ipv6Addr>,
    pub(super) host_ip: Ipv6Addr,
    pub(super) is_running: bool,
    pub(super) is_on_host_network: bool,
}

impl PodObject {
    pub(super) fn parts(&self) -> Parts {
        let created = self.metadata.creation_timestamp.as_deref();
        let created = created.and_then(|text| Timestamp::parse_rfc3339(text).ok());
        let (namespace, name) = (&self.metadata.namespace, &self.metadata.name);
        let all = self.status.pod_ips.iter().flatten().map(|of| &of.ip);
        let mut ips: Vec<Ipv6Addr> = Vec::new();
        for ip in [&self.status.pod_ip].into_iter().chain(all).map(|text| address(text)).take(MAX_IPS) {
            if !ip.is_unspecified() && !ips.contains(&ip) {
                ips.push(ip);
            }
        }
        let other_ips = ips.split_off(ips.len().min(1));
        Parts {
            key: format!("{namespace}/{name}").into(),
            namespace_len: u32::try_from(namespace.len()).unwrap_or(u32::MAX),
            created: created.and_then(|time| u32::try_from(time.seconds).ok()).unwrap_or(0),
            ip: ips.first().copied().unwrap_or(Ipv6Addr::UNSPECIFIED),
            other_ips,
            host_ip: address(&self.status.host_ip),
            is_running: self.status.phase == "Running",
            is_on_host_network: self.spec.host_network,
        }
    }

    /// The declared ports and the names of their containers, in order.
    pub(super) fn ports(&self) -> impl Iterator<Item = (u16, &str)> {
        self.spec.containers.iter().flatten().flat_map(|container| {
            let ports = container.ports.iter().flatten();
            let ports = ports.filter_map(|port| u16::try_from(port.container_port).ok());
            ports.filter(|port| *port > 0).map(|port| (port, &*container.name))
        })
    }
}

/// `UNSPECIFIED` if it is none.
fn address(text: &str) -> Ipv6Addr {
    text.parse::<IpAddr>().map_or(Ipv6Addr::UNSPECIFIED, stored)
}
