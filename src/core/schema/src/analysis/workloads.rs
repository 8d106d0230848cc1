//! Sidecars of workloads, and the services before them.

use std::collections::BTreeMap;

use mixer_config::Node;
use serde_json::Value as Json;

use super::world::{ROOT, World, at, integer, items, labels, ports, shown};
use super::{Found, Object, field, listed};

/// Namespaces of Kubernetes itself.
const SYSTEM: [&str; 2] = ["kube-system", "kube-public"];
/// The container of a sidecar.
const PROXY: &str = "istio-proxy";

/// The container of the sidecar of a pod.
pub(super) fn proxy<'d>(pod: &Object<'d>) -> Option<&'d Node> {
    let containers = items(pod.document, &["spec", "containers"]);
    containers.iter().find(|container| field(container, "name") == Some(PROXY))
}

fn annotation<'d>(metadata: Option<&'d Node>, name: &str) -> Option<&'d Node> {
    metadata?.member("annotations")?.get(name)
}

/// IST0102, IST0103
pub(super) fn injection(world: &World<'_>, found: &mut Found) {
    for (object, namespace) in world.all("Namespace") {
        let name = namespace.name;
        if !SYSTEM.contains(&name) && world.injects(name).is_none() {
            let text = format!(
                "The namespace is not enabled for Istio injection. Run 'kubectl label namespace {name} istio-injection=enabled' to enable it, \
                 or 'kubectl label namespace {name} istio-injection=disabled' to explicitly mark it as not needing injection"
            );
            found.warning(object, namespace.document, "IST0102", text);
        }
    }
    for (object, pod) in world.all("Pod") {
        let inject = annotation(pod.document.member("metadata"), "sidecar.istio.io/inject");
        if world.injects(pod.namespace) == Some(true) && shown(inject) != "false" && proxy(pod).is_none() {
            let text = "The pod is missing the Istio proxy. This can often be resolved by restarting or redeploying the workload.";
            found.warning(object, pod.document, "IST0103", text.to_owned());
        }
    }
}

/// IST0105
pub(super) fn images(world: &World<'_>, found: &mut Found) {
    let Some(image) = injected_image(world) else { return };
    for (object, pod) in world.all("Pod").filter(|(_, pod)| world.injects(pod.namespace) == Some(true)) {
        if annotation(pod.document.member("metadata"), "sidecar.istio.io/proxyImage").is_some() {
            continue;
        }
        let Some(own) = proxy(pod).and_then(|container| container.member("image")) else { continue };
        if own.as_str() != Some(&*image) {
            let text = format!(
                "The image of the Istio proxy running on the pod does not match the image defined in the injection configuration (pod image: {}; \
                 injection configuration image: {image}). This often happens after upgrading the Istio control-plane and can be fixed by \
                 redeploying the pod.",
                shown(Some(own))
            );
            found.warning(object, own, "IST0105", text);
        }
    }
}

/// `HUB/IMAGE:TAG` of the injection configuration.
fn injected_image(world: &World<'_>) -> Option<String> {
    let config = world.find("ConfigMap", ROOT, "istio-sidecar-injector")?;
    let values: Json = serde_json::from_str(at(config.document, &["data", "values"])?.as_str()?).ok()?;
    let part = |path: &str| values.pointer(path).and_then(Json::as_str);
    Some(format!("{}/{}:{}", part("/global/hub")?, part("/global/proxy/image")?, part("/global/tag")?))
}

/// The protocol that the name of a port says, or its number; `None` if neither says any.
pub(super) fn protocol(name: &str, protocol: &str, number: i64) -> Option<&'static str> {
    if protocol == "UDP" {
        return Some("UDP");
    }
    if name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("grpc-web")) {
        return Some("GRPC-Web");
    }
    let prefix = name.split_once('-').map_or(name, |(prefix, _)| prefix).to_ascii_lowercase();
    let known = [
        ("tcp", "TCP"),
        ("udp", "UDP"),
        ("grpc", "GRPC"),
        ("http", "HTTP"),
        ("http2", "HTTP2"),
        ("https", "HTTPS"),
        ("tls", "TLS"),
        ("mongo", "Mongo"),
        ("redis", "Redis"),
        ("mysql", "MySQL"),
    ];
    let of_name = known.iter().find(|(known, _)| *known == prefix).map(|(_, protocol)| *protocol);
    of_name.or_else(|| [25, 53, 3306, 27017].contains(&number).then_some("TCP"))
}

/// IST0118
pub(super) fn port_names(world: &World<'_>, found: &mut Found) {
    for (object, service) in world.all("Service") {
        let nodes = items(service.document, &["spec", "ports"]);
        for node in nodes {
            let Some(number) = integer(node.member("port")) else { continue };
            let name = field(node, "name").unwrap_or_default();
            if protocol(name, field(node, "protocol").unwrap_or_default(), number).is_some() {
                continue;
            }
            let target = node.member("targetPort").or_else(|| node.member("port"));
            let text = format!(
                "Port name {name} (port: {number}, targetPort: {}) doesn't follow the naming convention of Istio port.",
                shown(target)
            );
            found.info(object, node, "IST0118", text);
        }
    }
}

/// Whether the pods of a deployment get sidecars.
fn is_in_mesh(world: &World<'_>, deployment: &Object<'_>) -> bool {
    let template = at(deployment.document, &["spec", "template", "metadata"]);
    match &*shown(annotation(template, "sidecar.istio.io/inject")) {
        "true" => true,
        "false" => false,
        _ => world.injects(deployment.namespace) == Some(true),
    }
}

/// IST0116, IST0117
pub(super) fn deployments(world: &World<'_>, found: &mut Found) {
    let mut services: BTreeMap<&str, Vec<&Object<'_>>> = BTreeMap::new();
    for (_, service) in world.all("Service") {
        services.entry(service.namespace).or_default().push(service);
    }
    for (object, deployment) in
        world.all("Deployment").filter(|(_, deployment)| is_in_mesh(world, deployment))
    {
        let of_pods = labels(at(deployment.document, &["spec", "template", "metadata", "labels"]));
        let selects = |service: &&&Object<'_>| {
            let selector = labels(at(service.document, &["spec", "selector"]));
            !selector.is_empty() && selector.iter().all(|(key, value)| of_pods.get(key) == Some(value))
        };
        let of_namespace = services.get(deployment.namespace).map(Vec::as_slice).unwrap_or_default();
        let selecting: Vec<&&Object<'_>> = of_namespace.iter().filter(selects).collect();
        if selecting.is_empty() {
            let text = "No service associated with this deployment. Service mesh deployments must be associated with a service.";
            found.warning(object, deployment.document, "IST0117", text.to_owned());
        }
        let mut protocols: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
        for port in selecting.iter().flat_map(|service| ports(service)) {
            let said = protocol(port.name, port.protocol, port.number).unwrap_or("UnsupportedProtocol");
            let of_port = protocols.entry(port.number).or_default();
            if !of_port.contains(&said) {
                of_port.push(said);
            }
        }
        for (port, protocols) in protocols.into_iter().filter(|(_, protocols)| protocols.len() > 1) {
            let text = format!(
                "This deployment is associated with multiple services using port {port} but different protocols: {}",
                listed(protocols)
            );
            found.warning(object, deployment.document, "IST0116", text);
        }
    }
}
