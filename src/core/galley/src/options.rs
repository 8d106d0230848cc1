//! Settings, and what follows from them: which kinds are read, which collections are served, in which groups.

use std::sync::Arc;
use std::time::Duration;

use crate::judge::Judge;
use crate::keeper::Keeper;
use mixer_schema::{
    DEFAULT_GROUP, Kind, MESH_CONFIG, Origin, SYNTHETIC_GROUP, SYNTHETIC_SERVICE_ENTRIES, Strategy, groups,
    kinds,
};

/// The collections from which service entries are made.
pub const SERVICE_DISCOVERY: [&str; 4] =
    [collection::SERVICES, collection::ENDPOINTS, collection::NODES, collection::PODS];

/// Collections that transformers know.
pub mod collection {
    /// Services of Kubernetes.
    pub const SERVICES: &str = "k8s/core/v1/services";
    /// Endpoints of Kubernetes.
    pub const ENDPOINTS: &str = "k8s/core/v1/endpoints";
    /// Nodes of Kubernetes.
    pub const NODES: &str = "k8s/core/v1/nodes";
    /// Pods of Kubernetes.
    pub const PODS: &str = "k8s/core/v1/pods";
    /// Namespaces of Kubernetes.
    pub const NAMESPACES: &str = "k8s/core/v1/namespaces";
    /// Ingresses of Kubernetes.
    pub const INGRESSES: &str = "k8s/extensions/v1beta1/ingresses";
    /// Gateways.
    pub const GATEWAYS: &str = "istio/networking/v1alpha3/gateways";
    /// Virtual services.
    pub const VIRTUAL_SERVICES: &str = "istio/networking/v1alpha3/virtualservices";
    /// Service entries.
    pub const SERVICE_ENTRIES: &str = "istio/networking/v1alpha3/serviceentries";
}

/// The body of kinds that have no message of their own.
const ANY_OBJECT: &str = "google.protobuf.Struct";

/// Which of Istio Galley's two processors sinks believe to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Face {
    /// The first one, `--useOldProcessor=true`: collections have numbers as versions, excluded kinds are refused.
    #[default]
    First,
    /// The second one, `--useOldProcessor=false`: versions are `COLLECTION/GENERATION`, excluded kinds are empty collections.
    Second,
}

/// When a group with the strategy debounce is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Debounce {
    /// After a pause of this length between changes.
    pub quiet: Duration,
    /// At the latest this long after the first change.
    pub max_wait: Duration,
}

impl Debounce {
    /// An edit is published as soon as nothing follows it at once.
    pub const FAST: Self = Self { quiet: Duration::from_millis(5), max_wait: Duration::from_millis(100) };

    /// As Istio Galley waits.
    pub fn of_istio(face: Face) -> Self {
        let quiet = match face {
            Face::First => Duration::from_secs(1),
            Face::Second => Duration::from_millis(500),
        };
        Self { quiet, max_wait: Duration::from_secs(1) }
    }
}

impl Default for Debounce {
    fn default() -> Self {
        Self::FAST
    }
}

/// All settings of the pipeline.
#[derive(Debug, Clone)]
pub struct Options {
    /// What sinks see.
    pub face: Face,
    /// Kinds that are not read, for example `Pod`.
    pub excluded_kinds: Vec<String>,
    /// Whether service entries are made from services, endpoints, pods and nodes.
    pub service_discovery: bool,
    /// The domain of services, for example `cluster.local`.
    pub domain: String,
    /// When changes are published.
    pub debounce: Debounce,
    /// Whether a configuration of which a part cannot be read, or has an error in what decides about requests, changes nothing: sinks keep
    /// what they have until it is mended. Otherwise that part is gone, as with Istio Galley.
    pub keeps_last: bool,
    /// Whether a directory without resources, and at a start one below it that is empty, is published with
    /// [`keeps_last`](Self::keeps_last). Otherwise what was published stays, and a start waits for resources.
    pub allows_empty: bool,
    /// Whom [`keeps_last`](Self::keeps_last) asks for errors that sinks do not see.
    pub judge: Option<Arc<dyn Judge>>,
    /// What keeps the files that are published with [`keeps_last`](Self::keeps_last) for the next start, if anything does.
    pub keeper: Option<Arc<dyn Keeper>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            face: Face::First,
            excluded_kinds: ["Node", "Pod", "Endpoints", "Namespace", "Service"].map(str::to_owned).into(),
            service_discovery: false,
            domain: "cluster.local".to_owned(),
            debounce: Debounce::FAST,
            keeps_last: false,
            allows_empty: false,
            judge: None,
            keeper: None,
        }
    }
}

/// A group of collections that are published together.
#[derive(Debug, Clone)]
pub struct GroupPlan {
    /// Its name.
    pub name: &'static str,
    /// When it is published.
    pub strategy: Strategy,
    /// Its collections.
    pub collections: Vec<&'static str>,
}

impl Options {
    fn excludes(&self, kind: &Kind) -> bool {
        self.excluded_kinds.iter().any(|excluded| excluded == kind.kind)
    }

    /// Whether sources read a kind.
    pub fn reads(&self, kind: &Kind) -> bool {
        let is_discovered = match self.face {
            Face::First => {
                kind.collection == collection::NAMESPACES || SERVICE_DISCOVERY.contains(&kind.collection)
            }
            Face::Second => kind.origin == Origin::Core,
        };
        !kind.kind.is_empty() && (!self.excludes(kind) || (self.service_discovery && is_discovered))
    }

    /// The kinds that sources read.
    pub fn read_kinds(&self) -> impl Iterator<Item = &'static Kind> {
        kinds().iter().filter(|kind| self.reads(kind))
    }

    /// Whether sinks may ask for the collection of a kind. Spec: galley.md, "What is served".
    pub fn serves(&self, kind: &Kind) -> bool {
        match (kind.collection, self.face) {
            (MESH_CONFIG | SYNTHETIC_SERVICE_ENTRIES, _) | (collection::INGRESSES, Face::First) => true,
            (_, Face::First) => !self.excludes(kind),
            (collection::NAMESPACES | collection::SERVICES, Face::Second) => true,
            (_, Face::Second) => kind.origin != Origin::Core,
        }
    }

    /// The collections for which sinks may ask.
    pub fn served_collections(&self) -> Vec<&'static str> {
        kinds().iter().filter(|kind| self.serves(kind)).map(|kind| kind.collection).collect()
    }

    /// How sinks of Istio 1.0 and 1.1 name the collections for which they may ask, and the collection that each name stands for: 1.1 by its
    /// name, 1.0 by the type URL of its resources. A type of several collections stands for that of the kind with its name; `google.protobuf.Struct`,
    /// which says nothing, for none. Spec: mcp.md, 2.
    pub fn legacy_names(&self) -> Vec<(String, &'static str)> {
        let served: Vec<&Kind> = kinds().iter().filter(|kind| self.serves(kind)).collect();
        let rank = |kind: &Kind| (!kind.message.ends_with(&format!(".{}", kind.kind)), kind.kind.is_empty());
        let by_type = |kind: &Kind| {
            let others = served.iter().filter(|other| other.message == kind.message);
            kind.message != ANY_OBJECT && others.map(|other| rank(other)).min() == Some(rank(kind))
        };
        let types = served.iter().filter(|kind| by_type(kind)).map(|kind| (kind.type_url(), kind.collection));
        served.iter().map(|kind| (kind.collection.to_owned(), kind.collection)).chain(types).collect()
    }

    /// The groups that are published. Without service discovery there is none of synthetic service entries.
    pub fn groups(&self) -> Vec<GroupPlan> {
        let served = kinds().iter().filter(|kind| self.serves(kind)).map(|kind| kind.collection);
        let (synthetic, default): (Vec<_>, Vec<_>) =
            served.partition(|name| *name == SYNTHETIC_SERVICE_ENTRIES);
        let plan = groups().iter().filter_map(|group| {
            let collections = match group.name {
                DEFAULT_GROUP => default.clone(),
                SYNTHETIC_GROUP if self.service_discovery => synthetic.clone(),
                _ => return None,
            };
            Some(GroupPlan { name: group.name, strategy: group.strategy, collections })
        });
        plan.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_differ_in_what_they_serve() {
        let serves = |options: &Options, name| options.served_collections().contains(&name);
        let first = Options::default();
        let second = Options { face: Face::Second, ..Options::default() };
        for (name, in_first, in_second) in [
            (collection::INGRESSES, true, false),
            (collection::SERVICES, false, true),
            (collection::NAMESPACES, false, true),
            (collection::PODS, false, false),
            (SYNTHETIC_SERVICE_ENTRIES, true, true),
            (MESH_CONFIG, true, true),
            ("istio/policy/v1beta1/rules", true, true),
        ] {
            assert_eq!((serves(&first, name), serves(&second, name)), (in_first, in_second), "{name}");
        }
        let without_rules =
            |face| Options { face, excluded_kinds: vec!["rule".to_owned()], ..Options::default() };
        assert!(!serves(&without_rules(Face::First), "istio/policy/v1beta1/rules"), "refused");
        assert!(serves(&without_rules(Face::Second), "istio/policy/v1beta1/rules"), "empty");
        assert!(serves(&without_rules(Face::First), collection::PODS), "not excluded");
        assert!(!without_rules(Face::Second).read_kinds().any(|kind| kind.kind == "rule"));
    }

    #[test]
    fn old_sinks_name_collections_and_types() {
        let names = Options { excluded_kinds: vec!["rule".to_owned()], ..Options::default() }.legacy_names();
        let url = |message: &str| format!("type.googleapis.com/{message}");
        let of = |asked: &str| {
            let found: Vec<_> = names.iter().filter(|(name, _)| name == asked).map(|(_, of)| *of).collect();
            assert!(found.len() < 2, "{asked} stands for {found:?}");
            found.first().copied()
        };
        names.iter().for_each(|(name, _)| assert!(of(name).is_some()));
        for (asked, collection) in [
            ("istio/networking/v1alpha3/gateways".to_owned(), Some("istio/networking/v1alpha3/gateways")),
            (url("istio.networking.v1alpha3.Gateway"), Some("istio/networking/v1alpha3/gateways")),
            (url("istio.networking.v1alpha3.ServiceEntry"), Some("istio/networking/v1alpha3/serviceentries")),
            (url("istio.authentication.v1alpha1.Policy"), Some("istio/authentication/v1alpha1/policies")),
            (
                "istio/authentication/v1alpha1/meshpolicies".to_owned(),
                Some("istio/authentication/v1alpha1/meshpolicies"),
            ),
            (url("istio.mesh.v1alpha1.MeshConfig"), Some(MESH_CONFIG)),
            (url("google.protobuf.Struct"), None),
            (url("istio.policy.v1beta1.Rule"), None),
            ("istio/policy/v1beta1/rules".to_owned(), None),
        ] {
            assert_eq!(of(&asked), collection, "{asked}");
        }
    }

    #[test]
    fn service_discovery_reads_what_is_excluded() {
        let read = |face, service_discovery| {
            let options = Options { face, service_discovery, ..Options::default() };
            let core = options.read_kinds().filter(|kind| kind.origin == Origin::Core);
            core.map(|kind| kind.kind).collect::<Vec<_>>()
        };
        assert_eq!(read(Face::First, false), ["Ingress"]);
        assert_eq!(read(Face::First, true).len(), 6);
        assert_eq!(read(Face::Second, true).len(), 6);
        let groups = Options::default().groups();
        assert_eq!(groups.iter().map(|group| group.name).collect::<Vec<_>>(), [DEFAULT_GROUP]);
    }
}
