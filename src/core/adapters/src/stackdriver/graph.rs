//! The context graph: workloads and services, and which of them talk to each other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use mixer_attribute::Value;
use mixer_base::budget::{Account, Charge};
use mixer_delivery::Item;
use mixer_engine::adapter::{BoundInstance, Instance};
use parking_lot::Mutex;
use prost::Message as _;

use super::labels::label;
use super::place::Place;
use super::wire::{Entity, EntityAssertion, Relationship, RelationshipAssertion};
use crate::cut::MAX_BYTES;

const MEMBERSHIP: &str = "google.cloud.contextgraph.Membership";
const COMMUNICATION: &str = "google.cloud.contextgraph.Communication";
/// How often everything that was seen meanwhile is sent again.
const REASSERTION: Duration = Duration::from_secs(9 * 60);
/// Entities and edges at most, and calls that the graph does not know yet.
const MAX_NODES: usize = 100_000;
/// Bytes of the length of a text.
const LENGTH: usize = 4;
/// Calls that are added without a pause.
const AT_ONCE: usize = 64;

/// An entity or an edge on its way.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Assertion {
    Entity(EntityAssertion),
    Edge(RelationshipAssertion),
}

impl Item for Assertion {
    fn size(&self) -> usize {
        size_of::<Self>()
            + match self {
                Assertion::Entity(entity) => entity.encoded_len(),
                Assertion::Edge(edge) => edge.encoded_len(),
            }
    }
}

/// Where the values of an instance are.
pub(super) struct EdgeTemplate {
    /// That of the instance.
    name: Arc<str>,
    source: [Option<usize>; 4],
    destination: [Option<usize>; 4],
    service: [Option<usize>; 2],
    protocols: [Option<usize>; 2],
}

/// A workload of one end of a call.
struct Workload {
    uid: String,
    owner: String,
    name: String,
    namespace: String,
}

/// Entities and edges of a call.
#[derive(Debug, Default)]
pub(super) struct Call {
    entities: Vec<Entity>,
    edges: Vec<Relationship>,
    /// Why there is less of it than there could be.
    pub(super) warnings: Vec<String>,
}

impl EdgeTemplate {
    pub(super) fn new(instance: &BoundInstance) -> Self {
        let end = |end: &str| {
            ["uid", "owner", "workload_name", "workload_namespace"]
                .map(|field| instance.position(&format!("{end}_{field}")))
        };
        Self {
            name: Arc::clone(&instance.name),
            source: end("source"),
            destination: end("destination"),
            service: ["destination_service_namespace", "destination_service_name"]
                .map(|field| instance.position(field)),
            protocols: ["context_protocol", "api_protocol"].map(|field| instance.position(field)),
        }
    }

    /// Writes the texts of an instance into `key`: what its entities and edges are made of.
    fn texts(&self, instance: &Instance<'_>, key: &mut Vec<u8>) {
        key.clear();
        let places = [&self.source[..], &self.destination, &self.service, &self.protocols];
        for at in places.into_iter().flatten() {
            let length_at = key.len();
            key.extend_from_slice(&[0; LENGTH]);
            match at.and_then(|at| instance.value(at)) {
                Some(Value::String(text)) if text.len() <= MAX_BYTES => key.extend_from_slice(text),
                long @ Some(Value::String(_)) => key.extend_from_slice(label(long).as_bytes()),
                _ => {}
            }
            let length = u32::try_from(key.len() - length_at - LENGTH).unwrap_or(u32::MAX).to_be_bytes();
            if let Some(place) = key.get_mut(length_at..length_at + LENGTH) {
                place.copy_from_slice(&length);
            }
        }
    }
}

/// The texts that [`EdgeTemplate::texts`] wrote.
fn texts(mut key: &[u8]) -> [String; 12] {
    std::array::from_fn(|_| {
        let (length, rest) = key.split_first_chunk::<LENGTH>().unwrap_or((&[0; LENGTH], &[]));
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let (text, rest) = rest.split_at(length.min(rest.len()));
        key = rest;
        label(Some(Value::String(text)))
    })
}

/// Calls of which the graph does not know yet, each once, as their texts: workers write no names, and wait for nobody who does.
pub(super) struct Calls {
    noted: Mutex<Noted>,
    memory: Arc<Account>,
}

type Noted = HashMap<Box<[u8]>, Occurrences>;

/// A call, and how often it was noted.
struct Occurrences {
    /// Which one of those that are noted.
    number: usize,
    instance: Arc<str>,
    count: usize,
    _memory: Charge,
}

impl Calls {
    pub(super) fn new(memory: Arc<Account>) -> Self {
        Self { noted: Mutex::default(), memory }
    }

    /// Notes the call of an instance. `key` is room for its texts. Returns whether there was memory for it. Cost: in proportion to the texts.
    pub(super) fn note(&self, template: &EdgeTemplate, instance: &Instance<'_>, key: &mut Vec<u8>) -> bool {
        template.texts(instance, key);
        let mut noted = self.noted.lock();
        if let Some(known) = noted.get_mut(key.as_slice()) {
            known.count += 1;
            return true;
        }
        let bytes = key.len() + 2 * size_of::<(Box<[u8]>, Occurrences)>();
        let Some(memory) = self.memory.charge(bytes).filter(|_| noted.len() < MAX_NODES) else {
            return false;
        };
        let (number, instance) = (noted.len(), Arc::clone(&template.name));
        let occurrences = Occurrences { number, instance, count: 1, _memory: memory };
        noted.insert(key.as_slice().into(), occurrences);
        true
    }

    /// Adds them to a graph, a few at a time: other tasks of the thread go on meanwhile. `named` gives entities and edges their names. `told` is told, of each call, the name of the instance, why there is less of
    /// it than there could be, and how often it was noted if there was no room for it.
    pub(super) async fn add_to(
        &self,
        graph: &mut Graph,
        named: impl Fn(&[String; 12]) -> Call,
        mut told: impl FnMut(&str, &[String], usize),
    ) {
        let noted = std::mem::take(&mut *self.noted.lock());
        let mut noted: Vec<_> = noted.into_iter().collect();
        noted.sort_unstable_by_key(|(_, of)| of.number);
        for (key, Occurrences { number, instance, count, _memory }) in noted {
            if number % AT_ONCE == AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
            let mut call = named(&texts(&key));
            let warnings = std::mem::take(&mut call.warnings);
            let without_room = if graph.add(call) { 0 } else { count };
            told(&instance, &warnings, without_room);
        }
    }
}

/// What names are made of.
pub(super) struct Names {
    project: String,
    location: String,
    cluster: String,
    /// Escaped.
    mesh: String,
}

impl Names {
    pub(super) fn new(project: &str, place: &Place) -> Self {
        let Place { location, cluster, .. } = place;
        let mesh = escaped(&format!("{project}/{location}/{cluster}"));
        Self { project: project.to_owned(), location: location.clone(), cluster: cluster.clone(), mesh }
    }

    /// The entities and edges of the texts of a call.
    pub(super) fn of_texts(&self, texts: &[String; 12]) -> Call {
        let [source @ .., _, _, _, _, _, _, _, _] = texts;
        let [_, _, _, _, destination @ .., _, _, _, _] = texts;
        let [.., namespace, name, context, api] = texts;
        let workload = |[uid, owner, name, namespace]: &[String; 4]| Workload {
            uid: uid.clone(),
            owner: owner.clone(),
            name: name.clone(),
            namespace: namespace.clone(),
        };
        let protocols = [context.clone(), api.clone()];
        self.call(&workload(source), &workload(destination), (namespace, name), &protocols)
    }

    fn call(
        &self,
        source: &Workload,
        destination: &Workload,
        (namespace, name): (&str, &str),
        protocols: &[String; 2],
    ) -> Call {
        let mut call = Call::default();
        let communication = protocols.iter().find_map(|protocol| communication(protocol));
        if communication.is_none() {
            let [_, api] = protocols;
            call.warnings.push(format!("Unknown type of protocol: {api}"));
        }
        let service = self.service(namespace, name);
        let sources = self.add(source, &mut call);
        if let Some(kind) = &communication {
            for source in &sources {
                call.edges.push(edge(source, &service.full_name, kind));
            }
        }
        let destinations = self.add(destination, &mut call);
        if let Some(kind) = &communication {
            for destination in &destinations {
                for source in &sources {
                    call.edges.push(edge(source, destination, kind));
                }
                call.edges.push(edge(&service.full_name, destination, kind));
            }
            let of_kubernetes =
                format!("{}/k8s/namespaces/{namespace}/services/{name}", self.container(true));
            call.edges.push(edge(&service.full_name, &of_kubernetes, MEMBERSHIP));
        }
        call.entities.push(service);
        call
    }

    /// Adds a workload. Returns the names of its entities.
    fn add(&self, workload: &Workload, call: &mut Call) -> [String; 3] {
        let Self { mesh, project, .. } = self;
        let (location, cluster) = (escaped(&self.location), escaped(&self.cluster));
        let [uid, owner, name, namespace] =
            [&workload.uid, &workload.owner, &workload.name, &workload.namespace].map(|text| escaped(text));
        let root = format!("//istio.io/projects/{project}/meshes/{mesh}");
        let clusters = format!("{root}/clusterProjects/{project}/locations/{location}/clusters/{cluster}");
        let entity = |kind: &str, full_name: String, location: &str, short: &[&String]| Entity {
            location: location.to_owned(),
            full_name,
            short_names: short.iter().filter(|name| !name.is_empty()).map(|name| (*name).clone()).collect(),
            type_name: format!("io.istio.{kind}"),
            container_full_name: format!("//cloudresourcemanager.googleapis.com/projects/{project}"),
        };
        let instance_name = format!("{clusters}/workloadInstances/{uid}");
        let owner_name = format!("{clusters}/owners/{owner}");
        let workload_name = format!("{root}/workloads/{namespace}/{name}");
        call.entities.push(entity(
            "WorkloadInstance",
            instance_name.clone(),
            &location,
            &[mesh, project, &cluster, &uid],
        ));
        call.entities.push(entity(
            "Owner",
            owner_name.clone(),
            &location,
            &[mesh, project, &cluster, &owner],
        ));
        call.entities.push(entity("Workload", workload_name.clone(), "global", &[mesh, &namespace, &name]));
        call.edges.push(edge(&workload_name, &owner_name, MEMBERSHIP));
        call.edges.push(edge(&owner_name, &instance_name, MEMBERSHIP));
        match kubernetes_owner(&workload.owner) {
            Some(path) => {
                let object = format!("{}/k8s/namespaces/{path}", self.container(false));
                call.edges.push(edge(&owner_name, &object, MEMBERSHIP));
            }
            None if workload.owner == "unknown" => {}
            None => call.warnings.push(format!("Unknown owner type: {}", workload.owner)),
        }
        match kubernetes_pod(&workload.uid) {
            Some((pod, namespace)) => {
                let object = format!("{}/k8s/namespaces/{namespace}/pods/{pod}", self.container(false));
                call.edges.push(edge(&instance_name, &object, MEMBERSHIP));
            }
            None if workload.uid == "Unknown" => {}
            None => call.warnings.push(format!("Unknown workload instance type: {}", workload.uid)),
        }
        [instance_name, owner_name, workload_name]
    }

    fn service(&self, namespace: &str, name: &str) -> Entity {
        let Self { mesh, project, .. } = self;
        let (namespace, name) = (escaped(namespace), escaped(name));
        let short = [mesh.clone(), namespace.clone(), name.clone()];
        Entity {
            location: "global".to_owned(),
            full_name: format!("//istio.io/projects/{project}/meshes/{mesh}/services/{namespace}/{name}"),
            short_names: short.into_iter().filter(|name| !name.is_empty()).collect(),
            type_name: "io.istio.Service".to_owned(),
            container_full_name: format!("//cloudresourcemanager.googleapis.com/projects/{project}"),
        }
    }

    /// The cluster at Google.
    fn container(&self, is_escaped: bool) -> String {
        let escape = |text: &str| if is_escaped { escaped(text) } else { text.to_owned() };
        let (location, cluster) = (escape(&self.location), escape(&self.cluster));
        let kind = if location.matches('-').count() == 2 { "zones" } else { "locations" };
        format!("//container.googleapis.com/projects/{}/{kind}/{location}/clusters/{cluster}", self.project)
    }
}

fn edge(source: &str, target: &str, kind: &str) -> Relationship {
    Relationship {
        type_name: kind.to_owned(),
        source_full_name: source.to_owned(),
        target_full_name: target.to_owned(),
    }
}

fn communication(protocol: &str) -> Option<String> {
    let kind = match protocol {
        "http" => "Http",
        "https" => "Https",
        "tcp" => "Tcp",
        "grpc" => "Grpc",
        _ => return None,
    };
    Some(format!("{COMMUNICATION}.{kind}"))
}

/// Namespace, type and name of an owner in Kubernetes, such as `kubernetes://apis/apps/v1/namespaces/ns/deployments/web`.
fn kubernetes_owner(owner: &str) -> Option<String> {
    let parts: Vec<&str> = owner.strip_prefix("kubernetes:")?.split('/').skip(2).collect();
    let path = match parts.as_slice() {
        ["apis", "v1", _, namespace, kind, name, ..] => format!("{namespace}/{kind}/{name}"),
        ["apis", group @ ("extensions" | "apps" | "batch"), _, _, namespace, kind, name, ..] => {
            format!("{namespace}/{group}/{kind}/{name}")
        }
        _ => return None,
    };
    Some(path).filter(|path| !path.ends_with('/'))
}

/// Name and namespace of a pod, such as `kubernetes://web-1.ns`.
fn kubernetes_pod(uid: &str) -> Option<(&str, &str)> {
    let name = uid.strip_prefix("kubernetes://").filter(|name| !name.contains('/'))?;
    name.split_once('.').filter(|(_, namespace)| !namespace.contains('.'))
}

/// As Go escapes a part of a query.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// When a node was seen, and when it was sent: numbers of periods.
struct Seen {
    seen: i64,
    sent: i64,
    _memory: Charge,
}

/// What was seen, and what is to be sent.
pub(super) struct Graph {
    entities: HashMap<Entity, Seen>,
    edges: HashMap<Relationship, Seen>,
    new: (Vec<Entity>, Vec<Relationship>),
    period: i64,
    /// The period after which everything was sent again, and the monotonic time of that.
    flushed: i64,
    flushed_at: Option<Duration>,
    memory: Arc<Account>,
}

impl Graph {
    pub(super) fn new(memory: Arc<Account>) -> Self {
        Self {
            entities: HashMap::new(),
            edges: HashMap::new(),
            new: (Vec::new(), Vec::new()),
            period: 0,
            flushed: -1,
            flushed_at: None,
            memory,
        }
    }

    /// Number of entities and edges.
    pub(super) fn len(&self) -> usize {
        self.entities.len() + self.edges.len()
    }

    /// Notes a call. Returns whether there was room for all of it.
    pub(super) fn add(&mut self, call: Call) -> bool {
        let mut has_room = true;
        for entity in call.entities {
            let is_full = self.entities.len() >= MAX_NODES;
            has_room &=
                note(self.entities.entry(entity), self.period, is_full, &self.memory, &mut self.new.0);
        }
        for edge in call.edges {
            let is_full = self.edges.len() >= MAX_NODES;
            has_room &= note(self.edges.entry(edge), self.period, is_full, &self.memory, &mut self.new.1);
        }
        has_room
    }

    /// What is to be sent at the end of a period, at a time of day and a monotonic time.
    pub(super) fn tick(&mut self, seconds: i64, now: Duration) -> Vec<Assertion> {
        let (mut entities, mut edges) = (std::mem::take(&mut self.new.0), std::mem::take(&mut self.new.1));
        if self.flushed_at.is_none_or(|at| now.saturating_sub(at) > REASSERTION) {
            let (period, flushed) = (self.period, self.flushed);
            entities.extend(flush(&mut self.entities, period, flushed));
            edges.extend(flush(&mut self.edges, period, flushed));
            (self.flushed, self.flushed_at) = (period, Some(now));
        }
        self.period += 1;
        let timestamp = Some(prost_types::Timestamp { seconds, nanos: 0 });
        let of_entity = |entity| Assertion::Entity(EntityAssertion { timestamp, entity: Some(entity) });
        let of_edge = |edge| {
            let relationship = Some(edge);
            Assertion::Edge(RelationshipAssertion { timestamp, relationship, owning_entity: 1 })
        };
        entities.into_iter().map(of_entity).chain(edges.into_iter().map(of_edge)).collect()
    }
}

/// Notes that a node was seen; one that is new is sent. Returns whether there was room for it.
fn note<N: Clone + std::hash::Hash + Eq + prost::Message>(
    entry: Entry<'_, N, Seen>,
    period: i64,
    is_full: bool,
    memory: &Arc<Account>,
    new: &mut Vec<N>,
) -> bool {
    match entry {
        Entry::Occupied(mut found) => {
            let seen = found.get_mut();
            seen.seen = seen.seen.max(period);
        }
        Entry::Vacant(vacant) => {
            let bytes = 2 * vacant.key().encoded_len() + size_of::<(N, Seen)>();
            let Some(memory) = memory.charge(bytes).filter(|_| !is_full) else { return false };
            new.push(vacant.key().clone());
            vacant.insert(Seen { seen: period, sent: period, _memory: memory });
        }
    }
    true
}

/// Forgets what was not seen since the last time, and returns what is to be sent again.
fn flush<N: Clone + std::hash::Hash + Eq>(nodes: &mut HashMap<N, Seen>, period: i64, flushed: i64) -> Vec<N> {
    nodes.retain(|_, seen| seen.seen > flushed);
    let mut again = Vec::new();
    for (node, seen) in nodes.iter_mut().filter(|(_, seen)| seen.sent != period) {
        seen.sent = period;
        again.push(node.clone());
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_base::budget::Share;

    #[test]
    fn names_of_kubernetes_are_read() {
        for (owner, path) in [
            ("kubernetes://apis/apps/v1/namespaces/ns1/deployments/wl1", Some("ns1/apps/deployments/wl1")),
            ("kubernetes://apis/v1/namespaces/ns2/pods/pod2", Some("ns2/pods/pod2")),
            ("kubernetes://apis/custom/v1/namespaces/ns/things/x", None),
            ("kubernetes://apis/v1", None),
            ("vm://x", None),
            ("", None),
        ] {
            assert_eq!(kubernetes_owner(owner).as_deref(), path, "{owner}");
        }
        for (uid, pod) in [
            ("kubernetes://pod1.ns1", Some(("pod1", "ns1"))),
            ("kubernetes://a.b.c", None),
            ("kubernetes://a/b.c", None),
            ("Unknown", None),
        ] {
            assert_eq!(kubernetes_pod(uid), pod, "{uid}");
        }
        assert_eq!(escaped("kubernetes://a b~é"), "kubernetes%3A%2F%2Fa+b~%C3%A9");
    }

    #[tokio::test]
    async fn calls_are_noted_once_and_named_later() {
        let share = Arc::new(Share::new(100_000));
        let calls = Calls::new(Arc::new(share.open()));
        let at = |first: usize| std::array::from_fn(|index| Some(first + index));
        let template = EdgeTemplate {
            name: "edge.instance.ns".into(),
            source: at(0),
            destination: at(4),
            service: [Some(8), Some(9)],
            protocols: [Some(10), Some(11)],
        };
        let long = "l".repeat(2 * MAX_BYTES);
        let texts_of = |uid: &'static str, api: &'static str| {
            let texts =
                [uid, "unknown", "web", "ns", "kubernetes://b.ns", &long, "b", "ns", "ns", "b", "", api];
            texts.map(str::to_owned)
        };
        let mut key = Vec::new();
        let mut note = |texts: &[String; 12]| {
            let values: Vec<_> = texts.iter().map(|text| Some(Value::String(text.as_bytes()))).collect();
            calls.note(&template, &crate::testing::instance("edge.instance.ns", &values), &mut key)
        };
        let (first, second) = (texts_of("kubernetes://a.ns", "http"), texts_of("kubernetes://c.ns", "tcp"));
        assert!(note(&first) && note(&second) && note(&first));
        let without_protocol = texts_of("kubernetes://d.ns", "udp");
        assert!(note(&without_protocol));
        let notes: Vec<_> = calls.noted.lock().values().map(|of| (of.number, of.count)).collect();
        assert_eq!(notes.iter().map(|(_, count)| count).sum::<usize>(), 4);
        assert!(notes.contains(&(0, 2)) && notes.contains(&(1, 1)) && notes.contains(&(2, 1)), "{notes:?}");
        let names = Names::new("project", &Place::default());
        let (mut graph, mut told) = (graph(1 << 20), Vec::new());
        let keep = |instance: &str, why: &[String], without_room| {
            told.push((instance.to_owned(), why.concat(), without_room));
        };
        calls.add_to(&mut graph, |texts| names.of_texts(texts), keep).await;
        assert_eq!(told.len(), 3);
        assert!(
            told.iter()
                .all(|(instance, _, without_room)| instance == "edge.instance.ns" && *without_room == 0)
        );
        assert!(told[2].1.contains("Unknown type of protocol: udp"), "{told:?}");
        // Three sources, one destination with its owner and workload, and the service; sources share owner and workload.
        let named = graph.tick(0, Duration::ZERO);
        let shown = format!("{named:?}");
        assert!(
            shown.contains("kubernetes%3A%2F%2Fa.ns") && shown.contains(".Http") && shown.contains(".Tcp")
        );
        assert!(shown.contains("lll%E2%80%A6") && !shown.contains(&long), "long texts are cut");
        assert!(calls.noted.lock().is_empty() && share.used() < 1000, "{}", share.used());
    }

    #[tokio::test]
    async fn calls_without_room_are_counted() {
        let calls = Calls::new(Arc::new(Arc::new(Share::new(100_000)).open()));
        let template = EdgeTemplate {
            name: "e".into(),
            source: [Some(0), None, None, None],
            destination: [None; 4],
            service: [None; 2],
            protocols: [None; 2],
        };
        let mut key = Vec::new();
        let mut note = |uid: &str| {
            let values = [Some(Value::String(uid.as_bytes()))];
            calls.note(&template, &crate::testing::instance("e", &values), &mut key)
        };
        let fits = (0..10_000).take_while(|number| note(&format!("uid {number}"))).count();
        assert!((100..5000).contains(&fits), "{fits}");
        assert!(note("uid 0"), "what is noted is counted");
        let names = Names::new("project", &Place::default());
        let (mut graph, mut lost) = (graph(1000), 0);
        calls
            .add_to(&mut graph, |texts| names.of_texts(texts), |_, _, without_room| lost += without_room)
            .await;
        assert_eq!(lost, fits + 1, "of a graph without room");
        assert!(note("uid 10000"));
    }

    fn graph(memory: usize) -> Graph {
        Graph::new(Arc::new(Arc::new(Share::new(memory)).open()))
    }

    fn call(names: &[&str]) -> Call {
        let entity = |name: &&str| Entity { full_name: (*name).to_owned(), ..Entity::default() };
        let edges = names.windows(2).map(|pair| edge(pair[0], pair[1], MEMBERSHIP)).collect();
        Call { entities: names.iter().map(entity).collect(), edges, warnings: Vec::new() }
    }

    #[test]
    fn what_is_new_is_sent_once_and_again_after_nine_minutes_while_it_is_seen() {
        let mut graph = graph(1 << 20);
        let at = Duration::from_secs;
        assert!(graph.add(call(&["a", "b"])) && graph.add(call(&["a", "b"])));
        assert_eq!(graph.tick(0, at(30)).len(), 3);
        assert_eq!(graph.tick(0, at(60)).len(), 0);
        assert!(graph.add(call(&["a", "c"])));
        assert_eq!(graph.tick(0, at(90)).len(), 2, "c, and the edge to it");
        // All that were seen since: a, c, and their edge. b is forgotten.
        assert_eq!(graph.tick(0, at(30 + 541)).len(), 3);
        assert_eq!(graph.len(), 3);
        assert_eq!(graph.tick(0, at(30 + 2 * 541)).len(), 0, "nothing was seen any more");
        assert_eq!(graph.len(), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut graph = graph(10_000);
        let fits = (0..1000).take_while(|number| graph.add(call(&[&format!("node {number}")]))).count();
        assert!((10..200).contains(&fits), "{fits}");
        graph.tick(0, Duration::ZERO);
        graph.tick(0, Duration::from_secs(1000));
        graph.tick(0, Duration::from_secs(2000));
        assert!(graph.add(call(&["later"])), "what is forgotten makes room");
    }
}
