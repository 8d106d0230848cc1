//! Resources that contradict each other.

use std::collections::{BTreeMap, BTreeSet};

use mixer_config::Node;

use super::world::{World, at, full_host, items, labels, selector_text};
use super::{Found, Object, listed};

/// The gateway that stands for the sidecars of the mesh.
pub(super) const MESH: &str = "mesh";

/// Whether a virtual service is for the sidecars of the mesh.
fn is_of_mesh(service: &Object<'_>) -> bool {
    let gateways = items(service.document, &["spec", "gateways"]);
    gateways.is_empty() || gateways.iter().any(|gateway| gateway.as_str() == Some(MESH))
}

/// IST0109
pub(super) fn hosts(world: &World<'_>, found: &mut Found) {
    // By host and the namespaces that see it.
    let mut by_host: BTreeMap<_, Vec<(usize, &Object<'_>, &Node)>> = BTreeMap::new();
    for (object, service) in world.all("VirtualService").filter(|(_, service)| is_of_mesh(service)) {
        let scopes = items(service.document, &["spec", "exportTo"]).iter().filter_map(Node::as_str);
        let scope = |scope: &str| if scope == "." { service.namespace.to_owned() } else { scope.to_owned() };
        let mut scopes: BTreeSet<String> = scopes.map(scope).collect();
        if scopes.is_empty() {
            scopes.insert("*".to_owned());
        }
        for node in items(service.document, &["spec", "hosts"]) {
            let Some(host) = node.as_str() else { continue };
            for scope in &scopes {
                let host = full_host(host, service.namespace);
                by_host.entry((host, scope.clone())).or_default().push((object, service, node));
            }
        }
    }
    for ((host, _), services) in by_host {
        let names: BTreeSet<String> = services
            .iter()
            .map(|(_, service, _)| format!("{}/{}", service.namespace, service.name))
            .collect();
        if names.len() < 2 {
            continue;
        }
        let names = names.into_iter().collect::<Vec<_>>().join(",");
        for (object, _, node) in services {
            let text = format!(
                "The VirtualServices {names} associated with mesh gateway define the same host {host} which can lead to undefined behavior. \
                 This can be fixed by merging the conflicting VirtualServices into a single resource."
            );
            found.error(object, node, "IST0109", text);
        }
    }
}

/// The labels of the workloads of a sidecar.
fn workload<'d>(sidecar: &Object<'d>) -> Option<&'d Node> {
    let selector = at(sidecar.document, &["spec", "workloadSelector", "labels"])?;
    (!selector.entries().is_empty()).then_some(selector)
}

/// IST0111
pub(super) fn default_sidecars(world: &World<'_>, found: &mut Found) {
    let mut by_namespace: BTreeMap<&str, Vec<(usize, &Object<'_>)>> = BTreeMap::new();
    for (object, sidecar) in world.all("Sidecar").filter(|(_, sidecar)| workload(sidecar).is_none()) {
        by_namespace.entry(sidecar.namespace).or_default().push((object, sidecar));
    }
    for (namespace, sidecars) in by_namespace.into_iter().filter(|(_, sidecars)| sidecars.len() > 1) {
        let names = listed(sidecars.iter().map(|(_, sidecar)| sidecar.name));
        for (object, sidecar) in sidecars {
            let text = format!(
                "The Sidecars {names} in namespace \"{namespace}\" have no workload selector, which can lead to undefined behavior."
            );
            found.error(object, sidecar.document, "IST0111", text);
        }
    }
}

/// IST0101 and IST0110, of sidecars.
pub(super) fn sidecars(world: &World<'_>, found: &mut Found) {
    let mut by_pod: BTreeMap<usize, Vec<(usize, &Object<'_>)>> = BTreeMap::new();
    for (object, sidecar) in world.all("Sidecar") {
        let Some(node) = workload(sidecar) else { continue };
        let selector = labels(Some(node));
        let pods = world.pods(Some(sidecar.namespace), &selector);
        if pods.is_empty() {
            let text = format!("Referenced selector not found: \"{}\"", selector_text(&selector));
            found.error(object, node, "IST0101", text);
        }
        for (pod, _) in pods {
            by_pod.entry(pod).or_default().push((object, sidecar));
        }
    }
    for (pod, sidecars) in by_pod.into_iter().filter(|(_, sidecars)| sidecars.len() > 1) {
        let Some(pod) = world.objects.get(pod) else { continue };
        let names = listed(sidecars.iter().map(|(_, sidecar)| sidecar.name));
        for (object, sidecar) in sidecars {
            let text = format!(
                "The Sidecars {names} in namespace \"{}\" select the same workload pod \"{}\", which can lead to undefined behavior.",
                sidecar.namespace, pod.name
            );
            found.error(object, sidecar.document, "IST0110", text);
        }
    }
}
