//! Service entries from services, endpoints, pods and nodes. Spec: galley.md, "Service entries from core kinds".

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use mixer_config::Node;
use mixer_mcp::Resource;
use mixer_schema::{Kind, SYNTHETIC_SERVICE_ENTRIES, by_collection};

use super::tree::{list, map, number, resource, text, texts};
use super::{Product, Products, Transformer};
use crate::event::Entry;
use crate::object::{Endpoints, Object, Service, ServicePort};
use crate::options::{Options, SERVICE_DISCOVERY, collection};

const OUTPUTS: [&str; 1] = [SYNTHETIC_SERVICE_ENTRIES];
/// The annotation of a service with the namespaces that see it.
const EXPORT_TO: &str = "networking.istio.io/exportTo";
/// Annotations of service entries.
const SERVICE_VERSION: &str = "networking.alpha.istio.io/serviceVersion";
const ENDPOINTS_VERSION: &str = "networking.alpha.istio.io/endpointsVersion";
const NOT_READY: &str = "networking.alpha.istio.io/notReadyEndpoints";

/// Makes a service entry of each service.
pub struct ServiceEntries {
    domain: String,
    services: BTreeMap<Box<str>, Entry>,
    endpoints: FxHashMap<Box<str>, Entry>,
    /// The full names of endpoints that have an address.
    by_address: FxHashMap<Box<str>, BTreeSet<Box<str>>>,
    pods: Pods,
    /// The services that are to be made anew.
    touched: BTreeSet<Box<str>>,
    kind: Option<&'static Kind>,
}

/// Pods and the localities of their nodes.
#[derive(Default)]
struct Pods {
    all: FxHashMap<Box<str>, Entry>,
    /// The full names of the pods with an address: of several, which only pods of the host network have, the first counts.
    by_address: FxHashMap<Box<str>, BTreeSet<Box<str>>>,
    /// The addresses of pods on a node.
    by_node: FxHashMap<Box<str>, BTreeSet<Box<str>>>,
    localities: FxHashMap<Box<str>, Box<str>>,
}

/// What a service entry takes from a pod.
struct Workload<'p> {
    labels: &'p BTreeMap<String, String>,
    locality: &'p str,
    identity: String,
}

impl Pods {
    fn address_and_node(entry: &Entry) -> Option<(&str, &str)> {
        match entry.object.as_deref() {
            Some(Object::Pod(pod)) if !pod.ip.is_empty() => Some((&pod.ip, &pod.node)),
            _ => None,
        }
    }

    /// Replaces a pod. Returns the addresses about which something else is known now.
    fn set(&mut self, name: &str, new: Option<&Entry>) -> Vec<Box<str>> {
        let old = match new {
            Some(entry) => self.all.insert(name.into(), entry.clone()),
            None => self.all.remove(name),
        };
        let mut addresses = Vec::new();
        if let Some((address, node)) = old.as_ref().and_then(Self::address_and_node) {
            remove(&mut self.by_address, address, name);
            remove(&mut self.by_node, node, name);
            addresses.push(address.into());
        }
        if let Some((address, node)) = new.and_then(Self::address_and_node) {
            self.by_address.entry(address.into()).or_default().insert(name.into());
            self.by_node.entry(node.into()).or_default().insert(name.into());
            addresses.push(address.into());
        }
        addresses
    }

    /// Replaces the locality of a node. Returns likewise.
    fn set_node(&mut self, name: &str, locality: Option<&str>) -> Vec<Box<str>> {
        let old = match locality.filter(|locality| !locality.is_empty()) {
            Some(locality) => self.localities.insert(name.into(), locality.into()),
            None => self.localities.remove(name),
        };
        if old.as_deref().unwrap_or_default() == locality.unwrap_or_default() {
            return Vec::new();
        }
        let names = self.by_node.get(name).into_iter().flatten();
        let address =
            |name: &str| Self::address_and_node(self.all.get(name)?).map(|(address, _)| address.into());
        names.filter_map(|name| address(name)).collect()
    }

    /// The pod that has an address.
    fn at(&self, address: &str) -> Option<Workload<'_>> {
        let entry = self.all.get(self.by_address.get(address)?.first()?)?;
        let Some(Object::Pod(pod)) = entry.object.as_deref() else { return None };
        let (namespace, _) = entry.resource.namespace_and_name();
        Some(Workload {
            labels: &entry.resource.labels,
            locality: self.localities.get(&pod.node).map_or("", |locality| locality),
            // The trust domain is not configurable: every sink expects this one.
            identity: format!("spiffe://cluster.local/ns/{namespace}/sa/{}", pod.service_account),
        })
    }
}

fn remove(index: &mut FxHashMap<Box<str>, BTreeSet<Box<str>>>, key: &str, name: &str) {
    if let Some(names) = index.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}

impl ServiceEntries {
    /// Nothing was delivered yet.
    pub fn new(options: &Options) -> Self {
        Self {
            domain: options.domain.clone(),
            services: BTreeMap::new(),
            endpoints: FxHashMap::default(),
            by_address: FxHashMap::default(),
            pods: Pods::default(),
            touched: BTreeSet::new(),
            kind: by_collection(SYNTHETIC_SERVICE_ENTRIES),
        }
    }

    fn endpoints(entry: &Entry) -> Option<&Endpoints> {
        match entry.object.as_deref() {
            Some(Object::Endpoints(endpoints)) => Some(endpoints),
            _ => None,
        }
    }

    fn set_endpoints(&mut self, name: &str, new: Option<&Entry>) {
        let addresses = |entry: &Entry| {
            let subsets = Self::endpoints(entry).into_iter().flat_map(|endpoints| &endpoints.subsets);
            subsets.flat_map(|subset| subset.ready.iter().cloned()).collect::<BTreeSet<_>>()
        };
        let old = match new {
            Some(entry) => self.endpoints.insert(name.into(), entry.clone()),
            None => self.endpoints.remove(name),
        };
        for address in old.as_ref().map(addresses).unwrap_or_default() {
            remove(&mut self.by_address, &address, name);
        }
        for address in new.map(addresses).unwrap_or_default() {
            self.by_address.entry(address).or_default().insert(name.into());
        }
        self.touched.insert(name.into());
    }

    fn touch_addresses(&mut self, addresses: &[Box<str>]) {
        let names = addresses.iter().filter_map(|address| self.by_address.get(address)).flatten();
        self.touched.extend(names.cloned());
    }

    /// The service entry of a service.
    fn entry(&self, kind: &'static Kind, service: &Entry) -> Option<Resource> {
        let Some(Object::Service(spec)) = service.object.as_deref() else { return None };
        let of = &service.resource;
        let endpoints = self.endpoints.get(&of.name);
        let (mut members, identities) = self.members(endpoints.and_then(Self::endpoints));
        let is_external = !spec.external_name.is_empty();
        if members.is_empty() && is_external {
            members.push(external(spec, of));
        }
        let resolution = match (is_external, members.is_empty()) {
            (true, _) => "DNS",
            (false, false) => "STATIC",
            (false, true) => "NONE",
        };
        let mut fields = vec![
            ("hosts", texts([self.host(of)])),
            ("resolution", text(resolution)),
            ("location", text(if is_external { "MESH_EXTERNAL" } else { "MESH_INTERNAL" })),
            ("ports", list(spec.ports.iter().filter_map(port))),
            ("endpoints", list(members)),
            ("subjectAltNames", texts(identities)),
            ("exportTo", texts(export_to(&of.annotations))),
        ];
        if !is_external {
            let is_headless = matches!(&*spec.cluster_ip, "" | "None");
            fields.push(("addresses", texts([if is_headless { "0.0.0.0" } else { &*spec.cluster_ip }])));
        }
        let product = resource(kind, of.name.to_string(), "", &map(fields))?;
        let annotations = annotations(of, endpoints);
        Some(Resource { create_time: of.create_time, labels: of.labels.clone(), annotations, ..product })
    }

    fn host(&self, service: &Resource) -> String {
        let (namespace, name) = service.namespace_and_name();
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        format!("{name}.{namespace}.svc.{}", self.domain)
    }

    /// The endpoints of a service entry, in order, and the identities behind them.
    fn members(&self, endpoints: Option<&Endpoints>) -> (Vec<Node>, BTreeSet<String>) {
        let (mut members, mut identities) = (Vec::new(), BTreeSet::new());
        for subset in endpoints.into_iter().flat_map(|endpoints| &endpoints.subsets) {
            for address in &subset.ready {
                let ports = subset.ports.iter().map(|(name, port)| (name.clone(), number(*port)));
                let mut member = vec![("address", text(address.clone())), ("ports", map(ports))];
                if let Some(pod) = self.pods.at(address) {
                    let labels = pod.labels.iter().map(|(name, value)| (name.as_str(), text(value.as_str())));
                    member.push(("labels", map(labels)));
                    member.push(("locality", text(pod.locality)));
                    identities.insert(pod.identity);
                }
                members.push(map(member));
            }
        }
        (members, identities)
    }
}

/// The endpoint of a service outside the mesh.
fn external(spec: &Service, service: &Resource) -> Node {
    let ports = spec.ports.iter().map(|port| (port.name.clone(), number(port.number)));
    let labels = service.labels.iter().map(|(name, value)| (name.as_str(), text(value.as_str())));
    map([("address", text(spec.external_name.clone())), ("ports", map(ports)), ("labels", map(labels))])
}

/// A port; nothing if its number is none of a port.
fn port(port: &ServicePort) -> Option<Node> {
    let valid = u16::try_from(port.number).is_ok_and(|number| number > 0);
    valid.then(|| {
        map([
            ("number", number(port.number)),
            ("name", text(port.name.clone())),
            ("protocol", text(protocol(port))),
        ])
    })
}

/// The protocol of a port, as its name says.
fn protocol(port: &ServicePort) -> &'static str {
    if &*port.protocol == "UDP" {
        return "UDP";
    }
    let name = port.name.to_ascii_lowercase();
    if name.starts_with("grpc-web") {
        return "GRPC-Web";
    }
    match name.split('-').next().unwrap_or_default() {
        "tcp" => "TCP",
        "udp" => "UDP",
        "grpc" => "GRPC",
        "http" => "HTTP",
        "http2" => "HTTP2",
        "https" => "HTTPS",
        "tls" => "TLS",
        "mongo" => "Mongo",
        "redis" => "Redis",
        "mysql" => "MySQL",
        _ if matches!(port.number, 25 | 53 | 3306 | 27017) => "TCP",
        _ => "UnsupportedProtocol",
    }
}

fn export_to(annotations: &BTreeMap<String, String>) -> BTreeSet<&str> {
    let text = annotations.get(EXPORT_TO).filter(|text| !text.is_empty());
    text.into_iter().flat_map(|text| text.split(',')).map(str::trim).collect()
}

fn annotations(service: &Resource, endpoints: Option<&Entry>) -> BTreeMap<String, String> {
    let mut all = service.annotations.clone();
    all.insert(SERVICE_VERSION.to_owned(), service.version.to_string());
    let Some(entry) = endpoints else { return all };
    all.insert(ENDPOINTS_VERSION.to_owned(), entry.resource.version.to_string());
    let mut not_ready = Vec::new();
    for subset in ServiceEntries::endpoints(entry).into_iter().flat_map(|endpoints| &endpoints.subsets) {
        for (_, port) in &subset.ports {
            not_ready.extend(subset.not_ready.iter().map(|address| format!("{address}:{port}")));
        }
    }
    if !not_ready.is_empty() {
        all.insert(NOT_READY.to_owned(), not_ready.join(","));
    }
    all
}

impl Transformer for ServiceEntries {
    fn inputs(&self) -> &[&'static str] {
        &SERVICE_DISCOVERY
    }

    fn outputs(&self) -> &[&'static str] {
        &OUTPUTS
    }

    fn change(&mut self, collection: &'static str, old: Option<&Entry>, new: Option<&Entry>) {
        let Some(name) = new.or(old).map(|entry| entry.resource.name.clone()) else { return };
        match collection {
            collection::SERVICES => {
                match new {
                    Some(entry) => drop(self.services.insert(name.clone(), entry.clone())),
                    None => drop(self.services.remove(&name)),
                }
                self.touched.insert(name);
            }
            collection::ENDPOINTS => self.set_endpoints(&name, new),
            collection::PODS => {
                let addresses = self.pods.set(&name, new);
                self.touch_addresses(&addresses);
            }
            collection::NODES => {
                let locality = match new.and_then(|entry| entry.object.as_deref()) {
                    Some(Object::Node(node)) => Some(&*node.locality),
                    _ => None,
                };
                let (_, node) = name.rsplit_once('/').unwrap_or(("", &name));
                let addresses = self.pods.set_node(node, locality);
                self.touch_addresses(&addresses);
            }
            _ => {}
        }
    }

    fn flush(&mut self, out: &mut Products) {
        let Some(kind) = self.kind else { return };
        for name in std::mem::take(&mut self.touched) {
            let product = self.services.get(&name).and_then(|service| self.entry(kind, service));
            match product {
                Some(product) => out.put(SYNTHETIC_SERVICE_ENTRIES, Product::Draft(product)),
                None => out.remove(SYNTHETIC_SERVICE_ENTRIES, name),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_those_of_the_names() {
        for (name, number, protocol, expected) in [
            ("", 80, "UDP", "UDP"),
            ("http", 80, "TCP", "HTTP"),
            ("HTTP2-admin", 80, "", "HTTP2"),
            ("grpc-web-x", 80, "TCP", "GRPC-Web"),
            ("GRPC-x", 80, "TCP", "GRPC"),
            ("mysql-main", 1, "TCP", "MySQL"),
            ("", 3306, "TCP", "TCP"),
            ("web", 8080, "TCP", "UnsupportedProtocol"),
            ("", 8080, "TCP", "UnsupportedProtocol"),
        ] {
            let port = ServicePort { name: name.into(), number, protocol: protocol.into() };
            assert_eq!(super::protocol(&port), expected, "{name} {number}");
        }
        let beyond = ServicePort { number: 65_536, ..ServicePort::default() };
        assert!(port(&beyond).is_none());
    }

    #[test]
    fn exports_are_sorted_and_unique() {
        let of = |text: &str| {
            let annotations = [(EXPORT_TO.to_owned(), text.to_owned())].into();
            export_to(&annotations).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of("b, a,b"), ["a", "b"]);
        assert!(of("").is_empty());
    }
}
