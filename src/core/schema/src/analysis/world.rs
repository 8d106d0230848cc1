//! What analyzers look up.

use std::collections::{BTreeMap, HashMap};

use mixer_config::{Node, NodeKind};

use super::Object;

/// The domain of services.
pub(super) const DOMAIN: &str = "svc.cluster.local";
/// The namespace whose resources apply to all.
pub(super) const ROOT: &str = "istio-system";

/// All resources, with what is looked up in them.
pub(super) struct World<'d> {
    pub(super) objects: &'d [Object<'d>],
    by_kind: HashMap<&'static str, Vec<usize>>,
    /// Pods by namespace.
    pods: HashMap<&'d str, Vec<usize>>,
    /// Namespaces by name.
    namespaces: HashMap<&'d str, usize>,
    hosts: Hosts<'d>,
}

/// A port of a host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Port<'d> {
    pub(super) number: i64,
    pub(super) name: &'d str,
    /// Empty if it is TCP by default.
    pub(super) protocol: &'d str,
}

/// What is known of a host.
struct Host<'d> {
    /// The namespaces that see it; none if all do.
    visible_in: Option<Vec<&'d str>>,
    ports: Vec<i64>,
}

#[derive(Default)]
struct Hosts<'d> {
    exact: HashMap<String, Vec<Host<'d>>>,
    /// What follows the `*` of a host.
    wildcards: Vec<(String, Host<'d>)>,
}

/// The node at a path of members.
pub(super) fn at<'n>(node: &'n Node, path: &[&str]) -> Option<&'n Node> {
    path.iter().try_fold(node, |node, name| node.member(name))
}

/// The items of a list at a path; none if there is no list.
pub(super) fn items<'n>(node: &'n Node, path: &[&str]) -> &'n [Node] {
    at(node, path).map(Node::items).unwrap_or_default()
}

/// A text that is not empty.
pub(super) fn text(node: Option<&Node>) -> Option<&str> {
    node.and_then(Node::as_str).filter(|text| !text.is_empty())
}

/// An integer, also as a text.
pub(super) fn integer(node: Option<&Node>) -> Option<i64> {
    match &node?.kind {
        NodeKind::Int(number) => Some(*number),
        NodeKind::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// The text of a scalar.
pub(super) fn shown(node: Option<&Node>) -> String {
    match node.map(|node| &node.kind) {
        Some(NodeKind::Int(number)) => number.to_string(),
        Some(NodeKind::String(text)) => text.to_string(),
        Some(NodeKind::Bool(truth)) => truth.to_string(),
        _ => String::new(),
    }
}

/// Keys and texts of a mapping, sorted.
pub(super) fn labels(node: Option<&Node>) -> BTreeMap<&str, &str> {
    let entries = node.map(Node::entries).unwrap_or_default();
    entries.iter().filter_map(|entry| Some((&*entry.key, entry.value.as_str()?))).collect()
}

/// `a=b,c=d`
pub(super) fn selector_text(selector: &BTreeMap<&str, &str>) -> String {
    selector.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

fn has_all(labels: &BTreeMap<&str, &str>, selector: &BTreeMap<&str, &str>) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// The full name of a host: of a service in `namespace`, if it is a short one.
pub(super) fn full_host(host: &str, namespace: &str) -> String {
    match host.contains(['.', '*', ':']) {
        true => host.to_owned(),
        false => format!("{host}.{namespace}.{DOMAIN}"),
    }
}

impl<'d> World<'d> {
    pub(super) fn of(objects: &'d [Object<'d>]) -> Self {
        let mut world = Self {
            objects,
            by_kind: HashMap::new(),
            pods: HashMap::new(),
            namespaces: HashMap::new(),
            hosts: Hosts::default(),
        };
        for (at, object) in objects.iter().enumerate() {
            world.by_kind.entry(object.kind.kind).or_default().push(at);
            match object.kind.kind {
                "Pod" => world.pods.entry(object.namespace).or_default().push(at),
                "Namespace" => drop(world.namespaces.insert(object.name, at)),
                "Service" | "ServiceEntry" => world.hosts.add(object),
                _ => {}
            }
        }
        world
    }

    /// Whether there is a resource of a kind.
    pub(super) fn has(&self, kind: &str) -> bool {
        self.by_kind.contains_key(kind)
    }

    /// The resources of a kind with their positions.
    pub(super) fn all(&self, kind: &str) -> impl Iterator<Item = (usize, &'d Object<'d>)> {
        let of_kind = self.by_kind.get(kind).map(Vec::as_slice).unwrap_or_default();
        of_kind.iter().filter_map(|at| Some((*at, self.objects.get(*at)?)))
    }

    pub(super) fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<&'d Object<'d>> {
        self.all(kind)
            .map(|(_, object)| object)
            .find(|object| (object.namespace, object.name) == (namespace, name))
    }

    /// The pods with these labels; of all namespaces, or of one. An empty selector selects none.
    pub(super) fn pods(
        &self,
        namespace: Option<&str>,
        selector: &BTreeMap<&str, &str>,
    ) -> Vec<(usize, &'d Object<'d>)> {
        let of_namespace = |namespace: &str| self.pods.get(namespace).cloned().unwrap_or_default();
        let candidates = match namespace {
            _ if selector.is_empty() => Vec::new(),
            Some(namespace) => of_namespace(namespace),
            None => self.by_kind.get("Pod").cloned().unwrap_or_default(),
        };
        let candidates = candidates.into_iter().filter_map(|at| Some((at, self.objects.get(at)?)));
        let is_selected = |(_, pod): &(usize, &Object<'_>)| {
            has_all(&labels(at(pod.document, &["metadata", "labels"])), selector)
        };
        candidates.filter(is_selected).collect()
    }

    /// Whether the label of a namespace has sidecars injected; `None` if there is no label, or no such namespace.
    pub(super) fn injects(&self, namespace: &str) -> Option<bool> {
        let object = self.objects.get(*self.namespaces.get(namespace)?)?;
        let label = at(object.document, &["metadata", "labels", "istio-injection"])?;
        Some(label.as_str() == Some("enabled"))
    }

    /// All names of namespaces in which there is something.
    pub(super) fn namespaces(&self) -> std::collections::BTreeSet<&'d str> {
        let names = self.objects.iter().map(|object| object.namespace);
        names.filter(|namespace| !namespace.is_empty()).collect()
    }

    /// The ports of a host that a namespace sees; `None` if it sees no such host.
    pub(super) fn ports_of(&self, host: &str, namespace: &str) -> Option<Vec<i64>> {
        let sees = |host: &&Host<'_>| {
            host.visible_in.as_ref().is_none_or(|namespaces| namespaces.contains(&namespace))
        };
        let exact = self.hosts.exact.get(host).into_iter().flatten().filter(sees);
        let mut found: Vec<&Host<'_>> = exact.collect();
        if found.is_empty() {
            let wildcards = self.hosts.wildcards.iter().filter(|(suffix, _)| host.ends_with(&**suffix));
            found.extend(wildcards.map(|(_, host)| host).filter(sees));
        }
        (!found.is_empty()).then(|| found.iter().flat_map(|host| host.ports.iter().copied()).collect())
    }
}

impl<'d> Hosts<'d> {
    fn add(&mut self, object: &Object<'d>) {
        let spec = object.document.member("spec");
        let ports = ports(object);
        let host = || Host {
            visible_in: visible_in(object, spec),
            ports: ports.iter().map(|port| port.number).collect(),
        };
        if object.kind.kind == "Service" {
            self.exact.entry(full_host(object.name, object.namespace)).or_default().push(host());
            return;
        }
        for name in
            spec.map(|spec| items(spec, &["hosts"])).unwrap_or_default().iter().filter_map(Node::as_str)
        {
            match name.strip_prefix('*') {
                Some(suffix) => self.wildcards.push((suffix.to_owned(), host())),
                None => self.exact.entry(full_host(name, object.namespace)).or_default().push(host()),
            }
        }
    }
}

/// The namespaces that see a host; `None` if all do.
fn visible_in<'d>(object: &Object<'d>, spec: Option<&'d Node>) -> Option<Vec<&'d str>> {
    let scopes = spec.map(|spec| items(spec, &["exportTo"])).unwrap_or_default();
    let scopes: Vec<&str> = scopes.iter().filter_map(Node::as_str).collect();
    if scopes.is_empty() || scopes.contains(&"*") {
        return None;
    }
    Some(scopes.into_iter().map(|scope| if scope == "." { object.namespace } else { scope }).collect())
}

/// The ports of a service, a service entry, or what has `spec.ports`.
pub(super) fn ports<'d>(object: &Object<'d>) -> Vec<Port<'d>> {
    let all = items(object.document, &["spec", "ports"]).iter();
    let port = |port: &'d Node| {
        let number = integer(port.member("port")).or_else(|| integer(port.member("number")))?;
        let name = port.member("name").and_then(Node::as_str).unwrap_or_default();
        let protocol = port.member("protocol").and_then(Node::as_str).unwrap_or_default();
        Some(Port { number, name, protocol })
    };
    all.filter_map(port).collect()
}
