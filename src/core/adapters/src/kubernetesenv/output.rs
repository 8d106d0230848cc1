//! The attributes of a pod and of its service.

use std::sync::Arc;

use mixer_engine::adapter::{BoundInstance, GeneratedValue};

use super::OF_SERVICES;
use super::owners::Owner;
use super::pods::Pod;
use super::services::Service;

/// What a side of a request is.
#[derive(Debug, Clone)]
pub(super) enum Found {
    Pod(FoundPod),
    /// It has an address of a service, and of no pod.
    Service(Arc<Service>),
}

/// A pod and what it belongs to.
#[derive(Debug, Clone)]
pub(super) struct FoundPod {
    pub(super) pod: Arc<Pod>,
    /// The controller that nothing known controls.
    pub(super) root: Option<Arc<Owner>>,
    /// If it was looked for.
    pub(super) service: Option<Arc<Service>>,
}

/// Fields of a side at most.
pub(super) const FIELDS: usize = 15;

/// The positions of the outputs of the template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outputs {
    source: Side,
    destination: Side,
    destination_container_name: Option<usize>,
}

impl Outputs {
    pub(super) fn of(instance: &BoundInstance) -> Self {
        Self {
            source: Side::of(instance, "source"),
            destination: Side::of(instance, "destination"),
            destination_container_name: instance.output("destination_container_name"),
        }
    }

    /// Whether anything of the services of source and destination is read.
    pub(super) fn read_services(instance: &BoundInstance) -> (bool, bool) {
        let reads =
            |side: &str| OF_SERVICES.iter().any(|name| instance.reads_output(&format!("{side}_{name}")));
        (reads("source"), reads("destination"))
    }
}

/// The positions of the outputs of a side.
#[derive(Debug, Clone, Copy)]
struct Side {
    pod_uid: Option<usize>,
    pod_ip: Option<usize>,
    host_ip: Option<usize>,
    pod_name: Option<usize>,
    namespace: Option<usize>,
    labels: Option<usize>,
    service_account_name: Option<usize>,
    workload_name: Option<usize>,
    workload_namespace: Option<usize>,
    workload_uid: Option<usize>,
    owner: Option<usize>,
    service_name: Option<usize>,
    service_namespace: Option<usize>,
    service_host: Option<usize>,
}

impl Side {
    fn of(instance: &BoundInstance, side: &str) -> Self {
        let output = |name: &str| instance.output(&format!("{side}_{name}"));
        Self {
            pod_uid: output("pod_uid"),
            pod_ip: output("pod_ip"),
            host_ip: output("host_ip"),
            pod_name: output("pod_name"),
            namespace: output("namespace"),
            labels: output("labels"),
            service_account_name: output("service_account_name"),
            workload_name: output("workload_name"),
            workload_namespace: output("workload_namespace"),
            workload_uid: output("workload_uid"),
            owner: output("owner"),
            service_name: output("service_name"),
            service_namespace: output("service_namespace"),
            service_host: output("service_host"),
        }
    }
}

type Values = Vec<(usize, GeneratedValue)>;

/// Adds the attributes of the source. `domain`: of the cluster.
pub(super) fn source(outputs: &Outputs, found: &Found, domain: &str, out: &mut Values) {
    fill(&outputs.source, found, domain, out);
}

/// Adds the attributes of the destination, with the container of a port.
pub(super) fn destination(outputs: &Outputs, found: &Found, port: i64, domain: &str, out: &mut Values) {
    fill(&outputs.destination, found, domain, out);
    if let Found::Pod(FoundPod { pod, .. }) = found
        && let Some(container) = pod.container(port)
        && let Some(at) = outputs.destination_container_name
    {
        out.push((at, GeneratedValue::String((**container).to_owned())));
    }
}

fn fill(side: &Side, found: &Found, domain: &str, out: &mut Values) {
    let service = match found {
        Found::Pod(found) => {
            fill_pod(side, found, out);
            found.service.as_deref()
        }
        Found::Service(service) => Some(&**service),
    };
    if let Some(service) = service {
        let (name, namespace) = (service.name(), service.namespace());
        let mut text =
            |at: Option<usize>, value| out.extend(at.map(|at| (at, GeneratedValue::String(value))));
        text(side.service_name, name.to_owned());
        text(side.service_namespace, namespace.to_owned());
        text(side.service_host, format!("{name}.{namespace}.svc.{domain}"));
    }
}

fn fill_pod(side: &Side, FoundPod { pod, root, .. }: &FoundPod, out: &mut Values) {
    let (namespace, name, common) = (pod.namespace(), pod.name(), &pod.common);
    let mut put = |at: Option<usize>, value| out.extend(at.map(|at| (at, value)));
    let mut text = |at, value: String| put(at, GeneratedValue::String(value));
    text(side.pod_uid, format!("kubernetes://{name}.{namespace}"));
    text(side.pod_name, name.to_owned());
    text(side.namespace, namespace.to_owned());
    if !common.service_account.is_empty() {
        text(side.service_account_name, (*common.service_account).to_owned());
    }
    let workload = root.as_ref().map_or(name, |root| &*root.name);
    text(side.workload_name, workload.to_owned());
    text(side.workload_namespace, namespace.to_owned());
    text(side.workload_uid, format!("istio://{namespace}/workloads/{workload}"));
    let link = |root: &Owner| {
        let kind = root.kind.to_lowercase();
        format!("kubernetes://apis/{}/namespaces/{namespace}/{kind}s/{}", root.api_version, root.name)
    };
    let of_pod = || common.self_link.as_deref().map(str::to_owned);
    if let Some(owner) = root.as_deref().map(link).or_else(of_pod) {
        text(side.owner, owner);
    }
    if let Some(ip) = pod.ip() {
        put(side.pod_ip, GeneratedValue::IpAddress(ip));
    }
    if let Some(ip) = pod.host_ip() {
        put(side.host_ip, GeneratedValue::IpAddress(ip));
    }
    if !common.labels.is_empty() {
        let labels = common.labels.iter().map(|(key, value)| ((**key).to_owned(), (**value).to_owned()));
        put(side.labels, GeneratedValue::StringMap(labels.collect()));
    }
}
