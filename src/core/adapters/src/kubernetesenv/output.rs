//! The attributes of a pod.

use std::sync::Arc;

use mixer_engine::adapter::GeneratedValue;

use super::owners::Owner;
use super::pods::Pod;

/// A pod and what it belongs to.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) pod: Arc<Pod>,
    /// The controller that nothing known controls.
    pub(super) root: Option<Arc<Owner>>,
}

/// The names of the output fields for a side.
struct Names {
    pod_uid: &'static str,
    pod_ip: &'static str,
    host_ip: &'static str,
    pod_name: &'static str,
    namespace: &'static str,
    labels: &'static str,
    service_account_name: &'static str,
    workload_name: &'static str,
    workload_namespace: &'static str,
    workload_uid: &'static str,
    owner: &'static str,
}

/// Fields of a side at most.
pub(super) const FIELDS: usize = 12;

const SOURCE: Names = Names {
    pod_uid: "source_pod_uid",
    pod_ip: "source_pod_ip",
    host_ip: "source_host_ip",
    pod_name: "source_pod_name",
    namespace: "source_namespace",
    labels: "source_labels",
    service_account_name: "source_service_account_name",
    workload_name: "source_workload_name",
    workload_namespace: "source_workload_namespace",
    workload_uid: "source_workload_uid",
    owner: "source_owner",
};

const DESTINATION: Names = Names {
    pod_uid: "destination_pod_uid",
    pod_ip: "destination_pod_ip",
    host_ip: "destination_host_ip",
    pod_name: "destination_pod_name",
    namespace: "destination_namespace",
    labels: "destination_labels",
    service_account_name: "destination_service_account_name",
    workload_name: "destination_workload_name",
    workload_namespace: "destination_workload_namespace",
    workload_uid: "destination_workload_uid",
    owner: "destination_owner",
};

type Values = Vec<(&'static str, GeneratedValue)>;

/// Adds the attributes of the source.
pub(super) fn source(found: &Found, out: &mut Values) {
    fill(&SOURCE, found, out);
}

/// Adds the attributes of the destination, with the container of a port.
pub(super) fn destination(found: &Found, port: i64, out: &mut Values) {
    fill(&DESTINATION, found, out);
    if let Some(container) = found.pod.container(port) {
        out.push(("destination_container_name", GeneratedValue::String((**container).to_owned())));
    }
}

fn fill(names: &Names, Found { pod, root }: &Found, out: &mut Values) {
    let (namespace, name, common) = (pod.namespace(), pod.name(), &pod.common);
    let mut text = |field, value: String| out.push((field, GeneratedValue::String(value)));
    text(names.pod_uid, format!("kubernetes://{name}.{namespace}"));
    text(names.pod_name, name.to_owned());
    text(names.namespace, namespace.to_owned());
    if !common.service_account.is_empty() {
        text(names.service_account_name, (*common.service_account).to_owned());
    }
    let workload = root.as_ref().map_or(name, |root| &*root.name);
    text(names.workload_name, workload.to_owned());
    text(names.workload_namespace, namespace.to_owned());
    text(names.workload_uid, format!("istio://{namespace}/workloads/{workload}"));
    let link = |root: &Owner| {
        let kind = root.kind.to_lowercase();
        format!("kubernetes://apis/{}/namespaces/{namespace}/{kind}s/{}", root.api_version, root.name)
    };
    let of_pod = || common.self_link.as_deref().map(str::to_owned);
    if let Some(owner) = root.as_deref().map(link).or_else(of_pod) {
        text(names.owner, owner);
    }
    if let Some(ip) = pod.ip() {
        out.push((names.pod_ip, GeneratedValue::IpAddress(ip)));
    }
    if let Some(ip) = pod.host_ip() {
        out.push((names.host_ip, GeneratedValue::IpAddress(ip)));
    }
    if !common.labels.is_empty() {
        let labels = common.labels.iter().map(|(key, value)| ((**key).to_owned(), (**value).to_owned()));
        out.push((names.labels, GeneratedValue::StringMap(labels.collect())));
    }
}
