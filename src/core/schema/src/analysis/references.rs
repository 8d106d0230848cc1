//! References to what does not exist.

use std::collections::{HashMap, HashSet};

use mixer_config::Node;

use super::conflicts::MESH;
use super::world::{DOMAIN, World, at, full_host, integer, items, labels, ports, selector_text, text};
use super::{Found, Object, field, listed, namespaced};

fn missing(kind: &str, value: &str) -> String {
    format!("Referenced {kind} not found: \"{value}\"")
}

/// IST0101: gateways of virtual services.
pub(super) fn gateways(world: &World<'_>, found: &mut Found) {
    let known: HashSet<(&str, &str)> =
        world.all("Gateway").map(|(_, gateway)| (gateway.namespace, gateway.name)).collect();
    for (object, service) in world.all("VirtualService") {
        for node in items(service.document, &["spec", "gateways"]) {
            let Some(gateway) = node.as_str().filter(|gateway| *gateway != MESH) else { continue };
            // `NAME.NAMESPACE.svc.cluster.local` as well.
            let mut labels = gateway.splitn(3, '.');
            let short = match (labels.next(), labels.next(), labels.next()) {
                (Some(name), Some(namespace), Some(rest)) if rest.starts_with("svc") => (namespace, name),
                _ => namespaced(gateway, service.namespace),
            };
            if !known.contains(&short) {
                found.error(object, node, "IST0101", missing("gateway", gateway));
            }
        }
    }
}

/// A destination of a virtual service.
struct Destination<'d> {
    node: &'d Node,
    host: &'d str,
    /// Its full name.
    full: String,
    port: Option<i64>,
    subset: Option<&'d str>,
}

/// Where a virtual service routes to, and mirrors.
fn destinations_of<'d>(service: &Object<'d>) -> Vec<Destination<'d>> {
    let mut nodes = Vec::new();
    for protocol in ["http", "tcp", "tls"] {
        for route in items(service.document, &["spec", protocol]) {
            let to = items(route, &["route"]).iter().filter_map(|to| to.member("destination"));
            nodes.extend(to.chain(route.member("mirror")));
        }
    }
    let destination = |node: &'d Node| {
        let host = field(node, "host")?;
        let port = node.member("port").and_then(|port| integer(port.member("number")));
        let full = full_host(host, service.namespace);
        Some(Destination { node, host, full, port, subset: field(node, "subset") })
    };
    nodes.into_iter().filter_map(destination).collect()
}

/// IST0101 and IST0112: hosts of destinations.
pub(super) fn destinations(world: &World<'_>, found: &mut Found) {
    for (object, service) in world.all("VirtualService") {
        for Destination { node, host, full, port, .. } in destinations_of(service) {
            let Some(ports) = world.ports_of(&full, service.namespace) else {
                found.error(object, node, "IST0101", missing("host", host));
                continue;
            };
            match port {
                Some(port) if ports.contains(&port) => {}
                Some(port) => {
                    found.error(object, node, "IST0101", missing("host:port", &format!("{host}:{port}")));
                }
                None if ports.iter().collect::<HashSet<_>>().len() > 1 => {
                    let text = format!(
                        "This VirtualService routes to a service \"{host}\" that exposes multiple ports {}. Specifying a port in the \
                         destination is required to disambiguate.",
                        listed(ports)
                    );
                    found.error(object, node, "IST0112", text);
                }
                None => {}
            }
        }
    }
}

/// IST0101: subsets of destinations.
pub(super) fn subsets(world: &World<'_>, found: &mut Found) {
    let mut known: HashMap<String, HashSet<&str>> = HashMap::new();
    for (_, rule) in world.all("DestinationRule") {
        let Some(host) = rule.document.member("spec").and_then(|spec| field(spec, "host")) else { continue };
        let subsets =
            items(rule.document, &["spec", "subsets"]).iter().filter_map(|subset| field(subset, "name"));
        known.entry(full_host(host, rule.namespace)).or_default().extend(subsets);
    }
    for (object, service) in world.all("VirtualService") {
        for Destination { node, host, full, subset, .. } in destinations_of(service) {
            let Some(subset) = subset else { continue };
            if !known.get(&full).is_some_and(|subsets| subsets.contains(subset)) {
                let value = format!("{host}+{subset}");
                found.error(object, node, "IST0101", missing("host+subset in destinationrule", &value));
            }
        }
    }
}

/// IST0101: roles of bindings.
pub(super) fn roles(world: &World<'_>, found: &mut Found) {
    let known: HashSet<(&str, &str)> =
        world.all("ServiceRole").map(|(_, role)| (role.namespace, role.name)).collect();
    for (object, binding) in world.all("ServiceRoleBinding") {
        let reference = at(binding.document, &["spec", "roleRef"]);
        let Some(name) = reference.and_then(|reference| field(reference, "name")) else { continue };
        if !known.contains(&(binding.namespace, name)) {
            let place = reference.unwrap_or(binding.document);
            found.error(object, place, "IST0101", missing("service role", name));
        }
    }
}

/// IST0101: services of roles.
pub(super) fn services_of_roles(world: &World<'_>, found: &mut Found) {
    let mut hosts: HashMap<&str, Vec<String>> = HashMap::new();
    for (_, service) in world.all("Service") {
        hosts.entry(service.namespace).or_default().push(full_host(service.name, service.namespace));
    }
    for (object, role) in world.all("ServiceRole") {
        let known = hosts.get(role.namespace).map(Vec::as_slice).unwrap_or_default();
        for rule in items(role.document, &["spec", "rules"]) {
            for node in items(rule, &["services"]) {
                let Some(service) = node.as_str().filter(|service| *service != "*") else { continue };
                let is_meant = |host: &String| match (service.strip_suffix('*'), service.strip_prefix('*')) {
                    (Some(prefix), _) => host.starts_with(prefix),
                    (None, Some(suffix)) => host.ends_with(suffix),
                    (None, None) => {
                        *host == full_host(service, role.namespace) || *host == format!("{service}.{DOMAIN}")
                    }
                };
                if !known.iter().any(is_meant) {
                    found.error(object, node, "IST0101", missing("service", service));
                }
            }
        }
    }
}

/// IST0101: workloads of gateways.
pub(super) fn gateway_selectors(world: &World<'_>, found: &mut Found) {
    for (object, gateway) in world.all("Gateway") {
        let Some(node) = at(gateway.document, &["spec", "selector"]) else { continue };
        let selector = labels(Some(node));
        if !selector.is_empty() && world.pods(None, &selector).is_empty() {
            found.error(object, node, "IST0101", missing("selector", &selector_text(&selector)));
        }
    }
}

/// IST0104
pub(super) fn gateway_ports(world: &World<'_>, found: &mut Found) {
    for (object, gateway) in world.all("Gateway") {
        let selector = labels(at(gateway.document, &["spec", "selector"]));
        let pods = world.pods(None, &selector);
        if pods.is_empty() {
            // Told as a selector.
            continue;
        }
        let mut exposed: HashSet<i64> = HashSet::new();
        for (_, service) in world.all("Service") {
            let of_service = labels(at(service.document, &["spec", "selector"]));
            let mut own = pods.iter().filter(|(_, pod)| pod.namespace == service.namespace);
            let selects = !of_service.is_empty()
                && own.any(|(_, pod)| {
                    let labels = labels(at(pod.document, &["metadata", "labels"]));
                    of_service.iter().all(|(key, value)| labels.get(key) == Some(value))
                });
            if selects {
                let tcp = ports(service).into_iter().filter(|port| matches!(port.protocol, "" | "TCP"));
                exposed.extend(tcp.map(|port| port.number));
            }
        }
        for server in items(gateway.document, &["spec", "servers"]) {
            let port = server.member("port");
            let Some(number) = port.and_then(|port| integer(port.member("number"))) else { continue };
            if !exposed.contains(&number) {
                let text = format!(
                    "The gateway refers to a port that is not exposed on the workload (pod selector {}; port {number})",
                    selector_text(&selector)
                );
                found.warning(object, port.unwrap_or(server), "IST0104", text);
            }
        }
    }
}

/// IST0101: secrets of gateways.
pub(super) fn secrets(world: &World<'_>, found: &mut Found) {
    let known: HashSet<(&str, &str)> =
        world.all("Secret").map(|(_, secret)| (secret.namespace, secret.name)).collect();
    for (object, gateway) in world.all("Gateway") {
        let selector = labels(at(gateway.document, &["spec", "selector"]));
        let namespaces: HashSet<&str> =
            world.pods(None, &selector).into_iter().map(|(_, pod)| pod.namespace).collect();
        for server in items(gateway.document, &["spec", "servers"]) {
            let node = at(server, &["tls", "credentialName"]);
            let Some(name) = text(node) else { continue };
            if !namespaces.is_empty()
                && !namespaces.iter().any(|namespace| known.contains(&(*namespace, name)))
            {
                found.error(object, node.unwrap_or(server), "IST0101", missing("credentialName", name));
            }
        }
    }
}
