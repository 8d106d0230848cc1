//! Service entries that a registry of services yields, with their versions: what the sources ZooKeeper and Eureka share.
//!
//! A registry has services by key. Each is a service entry, whose name is made of the key. Versions go on when a source starts again:
//! a service entry gets another one only if its content differs. Spec: galley.md, "Zookeeper source", "Eureka source".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mixer_config::{Diagnostic, FieldPath};
use mixer_mcp::Resource;
use mixer_schema::{Kind, by_collection};

use crate::convert::type_url;
use crate::error::StartError;
use crate::event::{Batch, Entry, Event};
use crate::options::{Options, collection::SERVICE_ENTRIES};
use crate::transform::tree::{list, map, number, text, texts};

/// The label of a resource with the name of its registry.
const REGISTRY: &str = "registry";
/// The code of problems with what a registry has.
pub(super) const PROBLEM: &str = "registry-entry";
/// Most bytes of the service entries of a registry, as [`size`] counts them.
const MAX_BYTES: usize = 160 << 20;
/// What a service takes beside its texts and its message, in bytes. Measured: 100 000 services of ZooKeeper.
const SERVICE_BYTES: usize = 2_560;

/// Most endpoints of a service.
pub(super) const MAX_ENDPOINTS: usize = 20_000;
/// Most problems that are kept, and of one name.
const MAX_PROBLEMS: usize = 1_000;
const PROBLEMS_OF_NAME: usize = 4;

/// What is wrong with the nodes or applications of a registry, by name: the number of all problems, and the first ones.
#[derive(Debug, Default)]
pub(super) struct Problems {
    by_name: BTreeMap<Arc<str>, (usize, Vec<Diagnostic>)>,
    /// The number of all.
    count: usize,
    /// The names of which problems are kept.
    told: BTreeSet<Arc<str>>,
    kept: usize,
}

impl Problems {
    /// Nothing is wrong with this name.
    pub(super) fn remove(&mut self, name: &str) {
        if let Some((count, kept)) = self.by_name.remove(name) {
            self.count -= count;
            self.kept -= kept.len();
            self.told.remove(name);
        }
    }

    /// One more, which is made only if it is kept.
    pub(super) fn add(&mut self, name: &Arc<str>, problem: impl FnOnce() -> Diagnostic) {
        let (count, first) = self.by_name.entry(Arc::clone(name)).or_default();
        *count += 1;
        self.count += 1;
        if first.len() < PROBLEMS_OF_NAME && self.kept < MAX_PROBLEMS {
            first.push(problem());
            self.kept += 1;
            self.told.insert(Arc::clone(name));
        }
    }

    /// Adds those that are kept. Returns the number of all.
    pub(super) fn tell(&self, out: &mut Vec<Diagnostic>) -> usize {
        let told = self.told.iter().filter_map(|name| self.by_name.get(name));
        out.extend(told.flat_map(|(_, first)| first.iter().cloned()));
        self.count
    }
}

/// A service as a registry has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RegisteredService {
    /// The name of the resource, without namespace.
    pub(super) name: String,
    /// The host of the service.
    pub(super) host: String,
    /// `STATIC` or `DNS`.
    pub(super) resolution: &'static str,
    /// By number.
    pub(super) ports: Vec<ServicePort>,
    /// In their order.
    pub(super) endpoints: Vec<ServiceEndpoint>,
}

/// A port of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServicePort {
    pub(super) number: u16,
    pub(super) name: String,
    pub(super) protocol: &'static str,
}

/// An endpoint of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServiceEndpoint {
    /// An IP address or a host name.
    pub(super) address: String,
    /// By the names of ports of the service.
    pub(super) ports: BTreeMap<String, u16>,
    pub(super) labels: BTreeMap<String, String>,
}

/// The service entries of a registry.
pub(super) struct Registered {
    kind: &'static Kind,
    registry: &'static str,
    namespace: String,
    max_bytes: usize,
    /// By full name and key: of several keys with one name, the first one is seen.
    entries: BTreeMap<(Arc<str>, Arc<str>), Entry>,
    /// Full names that several keys have.
    contested: BTreeSet<Arc<str>>,
    /// The full names by key.
    names: BTreeMap<Arc<str>, Arc<str>>,
    /// What does not fit or cannot be encoded, by key.
    refused: Problems,
    /// The [`size`] of all.
    bytes: usize,
    /// The number of the last version.
    number: u64,
}

impl Registered {
    /// None yet. `registry` is its name in labels; `namespace` is that of the resources.
    ///
    /// Errors: the settings exclude service entries; the namespace is no name.
    pub(super) fn new(
        registry: &'static str,
        namespace: &str,
        options: &Options,
    ) -> Result<Self, StartError> {
        let kind = by_collection(SERVICE_ENTRIES).filter(|kind| options.reads(kind)).ok_or_else(|| {
            let text = format!(
                "{registry} yields service entries, which --excluded-resource-kinds excludes: take ServiceEntry out of it"
            );
            StartError::Source(text)
        })?;
        let is_name_character = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if namespace.is_empty() || !namespace.chars().all(is_name_character) {
            let text = format!(
                "--{registry}-namespace: `{namespace}` is no namespace: use lower-case letters, digits and hyphens"
            );
            return Err(StartError::Source(text));
        }
        Ok(Self {
            kind,
            registry,
            namespace: namespace.to_owned(),
            max_bytes: MAX_BYTES,
            entries: BTreeMap::new(),
            contested: BTreeSet::new(),
            names: BTreeMap::new(),
            refused: Problems::default(),
            bytes: 0,
            number: 0,
        })
    }

    /// Replaces the service with a key, or removes it. Adds to `out` what that changes.
    pub(super) fn set(&mut self, key: &str, service: Option<&RegisteredService>, out: &mut Batch) {
        self.refused.remove(key);
        let encoded = service.and_then(|service| match self.encode(service) {
            Ok(body) => Some((self.full_name(service), body)),
            Err(problem) => {
                self.refused.add(&key.into(), || problem.with_resource(key));
                None
            }
        });
        let key_of = self.names.get_key_value(key).map(|(key, name)| (Arc::clone(name), Arc::clone(key)));
        let old = key_of.as_ref().and_then(|key| self.entries.get(key)).cloned();
        if let (Some(old), Some((name, body))) = (&old, &encoded)
            && *old.resource.name == **name
            && old.resource.body == *body
        {
            return;
        }
        let freed = old.as_ref().map_or(0, |old| size(key, &old.resource));
        let new = encoded.map(|(name, body)| self.entry(&name, body));
        let taken = new.as_ref().map_or(0, |new| size(key, &new.resource));
        if self.bytes - freed + taken > self.max_bytes {
            let max_bytes = self.max_bytes;
            self.refused.add(&key.into(), || {
                let text = format!(
                    "the service entry takes {taken} bytes, and those of this registry would have more than {max_bytes} bytes"
                );
                let hint = "register fewer services or instances; what was known of this one before stays";
                Diagnostic::error(PROBLEM, FieldPath::root(), text).with_hint(hint).with_resource(key)
            });
            return;
        }
        self.bytes = self.bytes - freed + taken;
        match (key_of, new) {
            (Some((name, key)), Some(new)) if *name == *new.resource.name => {
                self.change(name, key, Some(new), out);
            }
            (old, new) => {
                if let Some((name, key)) = old {
                    self.names.remove(&key);
                    self.change(name, key, None, out);
                }
                if let Some(new) = new {
                    let (name, key): (Arc<str>, Arc<str>) = (Arc::from(&*new.resource.name), key.into());
                    self.names.insert(Arc::clone(&key), Arc::clone(&name));
                    self.change(name, key, Some(new), out);
                }
            }
        }
    }

    /// Those with a name, by key.
    fn below(&self, name: &Arc<str>) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        let from = (Arc::clone(name), Arc::from(""));
        let below = self.entries.range(from..).take_while(move |((other, _), _)| other == name);
        below.map(|((_, key), entry)| (key, entry))
    }

    /// Changes what is below a name.
    fn change(&mut self, name: Arc<str>, key: Arc<str>, new: Option<Entry>, out: &mut Batch) {
        let seen = |of: &Self| of.below(&name).next().map(|(_, entry)| entry.clone());
        let before = seen(self);
        let place = (Arc::clone(&name), key);
        match new {
            Some(new) => drop(self.entries.insert(place, new)),
            None => drop(self.entries.remove(&place)),
        }
        let after = seen(self);
        let is_contested = self.below(&name).nth(1).is_some();
        match is_contested {
            true => drop(self.contested.insert(Arc::clone(&name))),
            false => drop(self.contested.remove(&name)),
        }
        match (before, after) {
            (before, Some(after)) if before_differs(before.as_ref(), &after) => {
                out.push(Event::put(SERVICE_ENTRIES, after));
            }
            (Some(_), None) => out.push(Event::delete(SERVICE_ENTRIES, &*name)),
            _ => {}
        }
    }

    /// Everything that is seen.
    pub(super) fn all(&self) -> Batch {
        let mut last: Option<&Arc<str>> = None;
        let seen = self.entries.iter().filter(|((name, _), _)| last.replace(name) != Some(name));
        seen.map(|(_, entry)| Event::put(SERVICE_ENTRIES, entry.clone())).collect()
    }

    /// Adds what is wrong: names that several services want, and what does not fit. Returns the number of services that are not seen.
    pub(super) fn problems(&self, out: &mut Vec<Diagnostic>) -> usize {
        let refused = self.refused.tell(out);
        let mut hidden = 0;
        for name in &self.contested {
            let mut keys = self.below(name).map(|(key, _)| key);
            let first = keys.next().cloned().unwrap_or_else(|| "".into());
            for key in keys {
                hidden += 1;
                if hidden > MAX_PROBLEMS {
                    continue;
                }
                let text = format!("the service entry `{name}` of `{key}` is that of `{first}` already");
                let hint =
                    "names differ in more than upper case and special characters: rename one of the services";
                let problem = Diagnostic::error(PROBLEM, FieldPath::root(), text).with_hint(hint);
                out.push(problem.with_resource(&**key));
            }
        }
        hidden + refused
    }

    fn full_name(&self, service: &RegisteredService) -> String {
        format!("{}/{}", self.namespace, service.name)
    }

    fn entry(&mut self, name: &str, body: bytes::Bytes) -> Entry {
        self.number += 1;
        let labels = [(REGISTRY.to_owned(), self.registry.to_owned())].into();
        let resource = Resource::new(name, &self.number.to_string(), type_url(self.kind), body);
        Entry { resource: Arc::new(Resource { labels, ..resource }), object: None }
    }

    /// The message of a service entry.
    fn encode(&self, service: &RegisteredService) -> Result<bytes::Bytes, Diagnostic> {
        let port = |port: &ServicePort| {
            map([
                ("number", number(i64::from(port.number))),
                ("name", text(port.name.clone())),
                ("protocol", text(port.protocol)),
            ])
        };
        let endpoint = |endpoint: &ServiceEndpoint| {
            let ports = endpoint.ports.iter().map(|(name, port)| (name.as_str(), number(i64::from(*port))));
            let labels = endpoint.labels.iter().map(|(name, value)| (name.as_str(), text(value.as_str())));
            map([("address", text(endpoint.address.clone())), ("ports", map(ports)), ("labels", map(labels))])
        };
        let message = map([
            ("hosts", texts([service.host.as_str()])),
            ("resolution", text(service.resolution)),
            ("location", text("MESH_INTERNAL")),
            ("ports", list(service.ports.iter().map(port))),
            ("endpoints", list(service.endpoints.iter().map(endpoint))),
        ]);
        match mixer_schema::encode(self.kind, &message) {
            Ok(encoded) => Ok(encoded.body),
            Err(problems) => {
                let why = problems.first().map(Diagnostic::one_line).unwrap_or_default();
                let text = format!("the service is no service entry: {why}");
                Err(Diagnostic::error(PROBLEM, FieldPath::root(), text))
            }
        }
    }
}

fn before_differs(before: Option<&Entry>, after: &Entry) -> bool {
    before.is_none_or(|before| before.resource.version != after.resource.version)
}

/// The bytes that a service takes: here, in the pipeline, and in what is published.
fn size(key: &str, resource: &Resource) -> usize {
    SERVICE_BYTES + 2 * key.len() + 2 * resource.name.len() + resource.body.len()
}

/// A name as resources have it: letters in lower case, and a hyphen for every character but letters, digits, dots and hyphens.
pub(super) fn resource_name(key: &str) -> String {
    let character = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-') => c,
        _ => '-',
    };
    key.chars().map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Change;

    fn service(name: &str, address: &str) -> RegisteredService {
        RegisteredService {
            name: resource_name(name),
            host: name.to_owned(),
            resolution: "STATIC",
            ports: vec![ServicePort { number: 80, name: "http-80".to_owned(), protocol: "HTTP" }],
            endpoints: vec![ServiceEndpoint {
                address: address.to_owned(),
                ports: [("http-80".to_owned(), 8080)].into(),
                labels: [("version".to_owned(), "v1".to_owned())].into(),
            }],
        }
    }

    fn registered() -> Registered {
        Registered::new("eureka", "n", &Options::default()).unwrap()
    }

    /// What a change delivers.
    fn shown(batch: &Batch) -> Vec<String> {
        let one = |event: &Event| match &event.change {
            Change::Put(entry) => format!("{} {}", entry.resource.name, entry.resource.version),
            Change::Delete(name) => format!("-{name}"),
            Change::FullSync => "sync".to_owned(),
        };
        batch.iter().map(one).collect()
    }

    fn set(of: &mut Registered, key: &str, service: Option<RegisteredService>) -> Vec<String> {
        let mut batch = Batch::new();
        of.set(key, service.as_ref(), &mut batch);
        shown(&batch)
    }

    #[test]
    fn a_version_stands_for_one_content() {
        let mut of = registered();
        assert_eq!(set(&mut of, "a", Some(service("a", "10.0.0.1"))), ["n/a 1"]);
        assert!(set(&mut of, "a", Some(service("a", "10.0.0.1"))).is_empty(), "nothing changed");
        assert_eq!(set(&mut of, "a", Some(service("a", "10.0.0.2"))), ["n/a 2"]);
        assert_eq!(set(&mut of, "a", None), ["-n/a"]);
        assert!(set(&mut of, "a", None).is_empty());
        assert_eq!(set(&mut of, "a", Some(service("a", "10.0.0.1"))), ["n/a 3"]);
        let Change::Put(entry) = of.all().remove(0).change else { panic!("no entry") };
        assert_eq!(entry.resource.labels, [("registry".to_owned(), "eureka".to_owned())].into());
        let body = mixer_schema::to_json(&entry.resource.type_url, &entry.resource.body).unwrap();
        let expected = serde_json::json!({
            "hosts": ["a"], "resolution": "STATIC", "location": "MESH_INTERNAL",
            "ports": [{"number": 80, "name": "http-80", "protocol": "HTTP"}],
            "endpoints": [{"address": "10.0.0.1", "ports": {"http-80": 8080}, "labels": {"version": "v1"}}],
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn of_two_services_with_one_name_the_first_is_seen() {
        let mut of = registered();
        assert_eq!(set(&mut of, "b_c", Some(service("b_c", "10.0.0.1"))), ["n/b-c 1"]);
        assert_eq!(set(&mut of, "b-c", Some(service("b-c", "10.0.0.2"))), ["n/b-c 2"], "`-` is before `_`");
        let mut problems = Vec::new();
        assert_eq!((of.problems(&mut problems), of.all().len()), (1, 1));
        assert!(problems[0].brief().starts_with("b_c: the service entry `n/b-c`"), "{}", problems[0].brief());
        assert!(set(&mut of, "b_c", Some(service("b_c", "10.0.0.3"))).is_empty(), "it is not seen");
        assert_eq!(set(&mut of, "b-c", None), ["n/b-c 3"], "the other one is seen now");
        assert_eq!(of.problems(&mut Vec::new()), 0);
        assert_eq!(set(&mut of, "b_c", None), ["-n/b-c"]);
        assert_eq!((of.all().len(), of.bytes), (0, 0));
    }

    #[test]
    fn what_does_not_fit_is_told_and_what_was_known_stays() {
        let mut of = registered();
        set(&mut of, "a", Some(service("a", "10.0.0.1")));
        of.max_bytes = of.bytes + 10;
        assert!(set(&mut of, "b", Some(service("b", "10.0.0.1"))).is_empty());
        let large = service("a", &"long.".repeat(100));
        assert!(set(&mut of, "a", Some(large)).is_empty());
        let mut problems = Vec::new();
        assert_eq!(of.problems(&mut problems), 2);
        assert!(problems.iter().all(|problem| problem.message.contains("more than")), "{problems:?}");
        assert_eq!(shown(&of.all()), ["n/a 1"]);
        assert_eq!(set(&mut of, "a", None), ["-n/a"]);
        assert_eq!(set(&mut of, "b", Some(service("b", "10.0.0.1"))).len(), 1, "there is room now");
        assert_eq!(of.problems(&mut Vec::new()), 0);
    }

    /// What is counted beside it is in the pipeline and in what is published.
    #[test]
    fn services_count_with_what_they_take() {
        use mixer_base::allocation::{Bounds, metered};
        for (what, endpoints) in [("small", 1), ("large", 2_000)] {
            let mut of = registered();
            of.max_bytes = 8 << 20;
            let (services, usage) = metered(Bounds::of(usize::MAX), || {
                for number in 0.. {
                    let name = format!("org.example.service-{number}");
                    let mut service = service(&name, "10.0.0.1");
                    let first = service.endpoints[0].clone();
                    service.endpoints.resize(endpoints, first);
                    let mut out = Batch::new();
                    of.set(&name, Some(&service), &mut out);
                    if out.is_empty() {
                        return number;
                    }
                }
                0
            });
            println!("{services} {what} services take {} bytes, and count {}", usage.left, of.bytes);
            assert!(of.bytes > of.max_bytes / 10 * 9, "{what}: it is filled to the bound");
            assert!(usage.left <= of.bytes * 5 / 4, "{what}: {} of {}", usage.left, of.bytes);
            assert!(usage.left >= of.bytes / 5, "{what}: {} of {}", usage.left, of.bytes);
        }
    }

    #[test]
    fn settings_that_yield_nothing_are_refused() {
        let excluded = Options { excluded_kinds: vec!["ServiceEntry".to_owned()], ..Options::default() };
        let refused =
            |namespace, options: &Options| Registered::new("eureka", namespace, options).err().unwrap();
        assert!(refused("n", &excluded).to_string().contains("--excluded-resource-kinds"));
        for namespace in ["", "a/b", "A"] {
            let text = refused(namespace, &Options::default()).to_string();
            assert!(text.contains("--eureka-namespace"), "{text}");
        }
        assert_eq!(resource_name("org.Foo:g_1:2.0"), "org.foo-g-1-2.0");
    }
}
