//! What transformers read of Kubernetes objects and of the mesh configuration: decoded once, when the object arrives.

use std::collections::BTreeMap;

use mixer_config::Node;
use mixer_config::NodeKind;

use crate::options::{Options, SERVICE_DISCOVERY, collection};

/// A decoded object.
#[derive(Debug, Clone, PartialEq)]
pub enum Object {
    /// A service.
    Service(Service),
    /// The endpoints of a service.
    Endpoints(Endpoints),
    /// A pod.
    Pod(Pod),
    /// A node.
    Node(ClusterNode),
    /// An ingress.
    Ingress(Ingress),
    /// The mesh configuration.
    Mesh(MeshSettings),
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Service {
    /// `spec.clusterIP`; may be empty, or `None`.
    pub cluster_ip: Box<str>,
    /// `spec.externalName`, if the type is `ExternalName`; empty otherwise.
    pub external_name: Box<str>,
    /// `spec.ports`, in order.
    pub ports: Vec<ServicePort>,
}

/// A port of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServicePort {
    /// Its name; may be empty.
    pub name: Box<str>,
    /// Its number, which may be none of a port.
    pub number: i64,
    /// `TCP`, `UDP`; may be empty.
    pub protocol: Box<str>,
}

/// The endpoints of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Endpoints {
    /// In order.
    pub subsets: Vec<Subset>,
}

/// Addresses with common ports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subset {
    /// The addresses of those that are ready.
    pub ready: Vec<Box<str>>,
    /// The addresses of those that are not.
    pub not_ready: Vec<Box<str>>,
    /// Names, which may be empty, and numbers.
    pub ports: Vec<(Box<str>, i64)>,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pod {
    /// `status.podIP`, while its phase is `Pending` or `Running`; empty otherwise.
    pub ip: Box<str>,
    /// `spec.nodeName`; may be empty.
    pub node: Box<str>,
    /// `spec.serviceAccountName`; may be empty.
    pub service_account: Box<str>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterNode {
    /// `REGION/ZONE`; empty if it has neither.
    pub locality: Box<str>,
}

/// An ingress.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ingress {
    /// The annotation `kubernetes.io/ingress.class`.
    pub class: Option<Box<str>>,
    /// The hosts of each block of `spec.tls`.
    pub tls: Vec<Vec<Box<str>>>,
    /// `spec.rules`, without those that have no `http`.
    pub rules: Vec<IngressRule>,
}

/// A rule of an ingress.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IngressRule {
    /// May be empty.
    pub host: Box<str>,
    /// Its paths, without those to ports that have no number.
    pub paths: Vec<IngressPath>,
}

/// A path of an ingress.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IngressPath {
    /// May be empty.
    pub path: Box<str>,
    /// The name of the service.
    pub service: Box<str>,
    /// The port of the service.
    pub port: i64,
}

/// Which ingresses the mesh takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IngressMode {
    /// None.
    #[default]
    Off,
    /// Those of its class, and those without a class.
    Default,
    /// Those of its class.
    Strict,
}

/// What transformers read of the mesh configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MeshSettings {
    /// Which ingresses are taken.
    pub ingress_mode: IngressMode,
    /// The class of those.
    pub ingress_class: Box<str>,
}

impl MeshSettings {
    /// Whether an ingress is taken. Spec: galley.md, "Ingress".
    pub fn takes(&self, ingress: &Ingress) -> bool {
        match (self.ingress_mode, &ingress.class) {
            (IngressMode::Off, _) => false,
            (IngressMode::Strict, None) => false,
            (IngressMode::Default, None) => true,
            (_, Some(class)) => *class == self.ingress_class,
        }
    }
}

/// Whether a transformer reads the objects of a collection.
pub fn is_read(collection: &str, options: &Options) -> bool {
    collection == collection::INGRESSES
        || (options.service_discovery && SERVICE_DISCOVERY.contains(&collection))
}

/// Decodes an object of a collection; `None` if no transformer reads that. `annotations` and `labels` are those of the object.
pub fn decode(
    collection: &str,
    document: &Node,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Option<Object> {
    let spec = document.get("spec");
    Some(match collection {
        collection::SERVICES => Object::Service(service(spec)),
        collection::ENDPOINTS => Object::Endpoints(endpoints(document)),
        collection::PODS => Object::Pod(pod(spec, document.get("status"))),
        collection::NODES => Object::Node(ClusterNode { locality: locality(labels) }),
        collection::INGRESSES => Object::Ingress(ingress(spec, annotations)),
        _ => return None,
    })
}

fn text(node: Option<&Node>, name: &str) -> Box<str> {
    node.and_then(|node| node.get(name)).and_then(Node::as_str).unwrap_or_default().into()
}

fn number(node: Option<&Node>, name: &str) -> Option<i64> {
    match node?.get(name)?.kind {
        NodeKind::Int(number) => Some(number),
        _ => None,
    }
}

fn items<'n>(node: Option<&'n Node>, name: &str) -> &'n [Node] {
    node.and_then(|node| node.get(name)).map_or(&[], Node::items)
}

fn service(spec: Option<&Node>) -> Service {
    let port = |port: &Node| ServicePort {
        name: text(Some(port), "name"),
        number: number(Some(port), "port").unwrap_or(0),
        protocol: text(Some(port), "protocol"),
    };
    let is_external = &*text(spec, "type") == "ExternalName";
    Service {
        cluster_ip: text(spec, "clusterIP"),
        external_name: if is_external { text(spec, "externalName") } else { Box::default() },
        ports: items(spec, "ports").iter().map(port).collect(),
    }
}

fn endpoints(document: &Node) -> Endpoints {
    let subset = |subset: &Node| {
        let addresses =
            |name| items(Some(subset), name).iter().map(|address| text(Some(address), "ip")).collect();
        let port = |port: &Node| (text(Some(port), "name"), number(Some(port), "port").unwrap_or(0));
        Subset {
            ready: addresses("addresses"),
            not_ready: addresses("notReadyAddresses"),
            ports: items(Some(subset), "ports").iter().map(port).collect(),
        }
    };
    Endpoints { subsets: items(Some(document), "subsets").iter().map(subset).collect() }
}

fn pod(spec: Option<&Node>, status: Option<&Node>) -> Pod {
    let counts = matches!(&*text(status, "phase"), "Pending" | "Running");
    Pod {
        ip: if counts { text(status, "podIP") } else { Box::default() },
        node: text(spec, "nodeName"),
        service_account: text(spec, "serviceAccountName"),
    }
}

/// The locality of a node. The labels that Kubernetes used before its release 1.17 go before those that replaced them.
fn locality(labels: &BTreeMap<String, String>) -> Box<str> {
    let label = |names: [&str; 2]| {
        let found = names.into_iter().find_map(|name| labels.get(name).filter(|value| !value.is_empty()));
        found.map_or("", String::as_str)
    };
    let region = label(["failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"]);
    let zone = label(["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"]);
    match (region, zone) {
        ("", "") => Box::default(),
        _ => format!("{region}/{zone}").into(),
    }
}

/// The annotation that says which controller an ingress is for.
pub const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

fn ingress(spec: Option<&Node>, annotations: &BTreeMap<String, String>) -> Ingress {
    let strings =
        |nodes: &[Node]| nodes.iter().filter_map(Node::as_str).map(Box::from).collect::<Vec<Box<str>>>();
    let path = |path: &Node| {
        let backend = path.get("backend");
        Some(IngressPath {
            path: text(Some(path), "path"),
            service: text(backend, "serviceName"),
            port: number(backend, "servicePort")?,
        })
    };
    let rule = |rule: &Node| {
        let http = rule.get("http").filter(|http| !matches!(http.kind, NodeKind::Null))?;
        let paths = items(Some(http), "paths").iter().filter_map(path).collect();
        Some(IngressRule { host: text(Some(rule), "host"), paths })
    };
    Ingress {
        class: annotations.get(INGRESS_CLASS).map(|class| class.as_str().into()),
        tls: items(spec, "tls").iter().map(|block| strings(items(Some(block), "hosts"))).collect(),
        rules: items(spec, "rules").iter().filter_map(rule).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ingresses_are_taken_by_class_and_mode() {
        let takes = |mode, class: Option<&str>| {
            let settings = MeshSettings { ingress_mode: mode, ingress_class: "istio".into() };
            settings.takes(&Ingress { class: class.map(Box::from), ..Ingress::default() })
        };
        for (mode, none, ours, other) in [
            (IngressMode::Off, false, false, false),
            (IngressMode::Strict, false, true, false),
            (IngressMode::Default, true, true, false),
        ] {
            let found = (takes(mode, None), takes(mode, Some("istio")), takes(mode, Some("nginx")));
            assert_eq!(found, (none, ours, other), "{mode:?}");
        }
    }

    #[test]
    fn localities_have_a_region_or_a_zone() {
        let of = |pairs: &[(&str, &str)]| {
            let labels =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            locality(&labels).to_string()
        };
        assert_eq!(of(&[]), "");
        assert_eq!(of(&[("failure-domain.beta.kubernetes.io/region", "south")]), "south/");
        assert_eq!(of(&[("topology.kubernetes.io/zone", "z")]), "/z");
        let both =
            [("failure-domain.beta.kubernetes.io/zone", "old"), ("topology.kubernetes.io/zone", "new")];
        assert_eq!(of(&both), "/old");
    }
}
