//! From a document, of a file or of a Kubernetes API server, to a resource of the wire. Each document is converted once.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use mixer_base::time::Timestamp;
use mixer_config::{Diagnostic, FieldPath, MappingEntry, Node, NodeKind, Severity, without_secrets};
use mixer_mcp::Resource;
use mixer_schema::{Body, Kind, Origin, kinds};

use crate::event::Entry;
use crate::object;
use crate::options::Options;

/// The code of problems with the names and metadata of resources.
const METADATA: &str = "resource-metadata";

/// The code of a field without a value.
const WITHOUT_VALUE: &str = "field-empty";

/// Collections whose peers are completed. Spec: galley.md, "Authentication policies".
const AUTHENTICATION: [&str; 2] =
    ["istio/authentication/v1alpha1/policies", "istio/authentication/v1alpha1/meshpolicies"];

/// A converted document.
#[derive(Debug)]
pub struct Converted {
    /// The resource.
    pub entry: Entry,
    /// What is suspicious about it, without file.
    pub warnings: Vec<Diagnostic>,
}

/// Converts documents with these settings.
#[derive(Debug, Clone)]
pub struct Converter {
    options: Arc<Options>,
}

impl Converter {
    /// For a pipeline with these settings.
    pub fn new(options: &Options) -> Self {
        Self { options: Arc::new(options.clone()) }
    }

    /// See [`Options::keeps_last`].
    pub(crate) fn keeps_last(&self) -> bool {
        self.options.keeps_last
    }

    /// See [`Options::allows_empty`].
    pub(crate) fn allows_empty(&self) -> bool {
        self.options.allows_empty
    }

    /// The errors of a document that decides about requests, which its resource does not have: the wire has no null.
    fn unseen(&self, kind: &'static Kind, document: &Node, resource: &Resource) -> Vec<Diagnostic> {
        let null = Node::synthetic(NodeKind::Null);
        let spec = document.get("spec").unwrap_or(&null);
        if !is_of_engine(kind.group) {
            let mut problems = Vec::new();
            without_value(spec, &FieldPath::root().field("spec"), kind, &mut problems);
            return problems;
        }
        let unseen = self.options.judge.iter().flat_map(|judge| judge.unseen(kind, resource, spec));
        unseen
            .map(|mut problem| {
                problem.span = Some(document.at(&problem.field).span);
                problem.file = None;
                problem
            })
            .collect()
    }

    /// The resource of a document. A kind that sinks cannot ask for has an empty body.
    ///
    /// Errors: what does not decode, with spans in the document and without file; with [`Options::keeps_last`] also what has no effect in a
    /// resource that decides about requests, and what whoever reads the document itself refuses.
    pub fn convert(
        &self,
        kind: &'static Kind,
        document: &Node,
        version: &str,
    ) -> Result<Converted, Vec<Diagnostic>> {
        let masked = |problems: Vec<Diagnostic>| -> Vec<Diagnostic> {
            problems.into_iter().map(|problem| without_secrets(problem, document)).collect()
        };
        match self.decoded(kind, document, version) {
            Ok(Converted { entry, warnings }) => Ok(Converted { entry, warnings: masked(warnings) }),
            Err(problems) => Err(masked(problems)),
        }
    }

    fn decoded(
        &self,
        kind: &'static Kind,
        document: &Node,
        version: &str,
    ) -> Result<Converted, Vec<Diagnostic>> {
        let metadata = document.get("metadata");
        let mut warnings = Vec::new();
        let name = full_name(kind, metadata, &mut warnings)?;
        let labels = texts(kind, metadata, "labels", &mut warnings)?;
        let annotations = texts(kind, metadata, "annotations", &mut warnings)?;
        let object = match object::is_read(kind.collection, &self.options) {
            true => object::decode(kind.collection, document, &labels, &annotations),
            false => None,
        };
        let (type_url, body) = match self.options.serves(kind) {
            true => {
                let encoded = encode(kind, document)?;
                warnings.extend(encoded.warnings);
                (type_url(kind), encoded.body)
            }
            false => (type_url(kind), bytes::Bytes::new()),
        };
        let resource = Resource {
            name: name.into(),
            version: version.into(),
            create_time: create_time(metadata),
            labels,
            annotations,
            type_url,
            body,
        };
        if self.keeps_last() && decides(kind) {
            warnings.extend(self.unseen(kind, document, &resource));
            if !warnings.is_empty() {
                let error = |warning: Diagnostic| warning.with_severity(Severity::Error);
                return Err(warnings.into_iter().map(error).collect());
            }
        }
        let entry = Entry { resource: Arc::new(resource), object: object.map(Arc::new) };
        Ok(Converted { entry, warnings })
    }
}

/// The API groups of which everything decides about requests. A policy server reads those of the engine, proxies read the others.
const OF_ENGINE: [&str; 2] = ["config.istio.io", "rbac.istio.io"];
const OF_PROXIES: [&str; 2] = ["security.istio.io", "authentication.istio.io"];
/// Kinds of other groups that do: what workloads may call, what filters check, which requests a route ends.
const DECIDING: [&str; 3] = [
    "istio/networking/v1alpha3/sidecars",
    "istio/networking/v1alpha3/envoyfilters",
    "istio/networking/v1alpha3/virtualservices",
];
/// Where an empty list means everybody, as without it.
const OPEN_WHEN_EMPTY: &str = "security.istio.io";

/// Whether resources of a kind decide about requests.
pub(crate) fn decides(kind: &Kind) -> bool {
    is_of_engine(kind.group) || OF_PROXIES.contains(&kind.group) || DECIDING.contains(&kind.collection)
}

/// Whether an API group is of the policy engine.
pub(crate) fn is_of_engine(group: &str) -> bool {
    OF_ENGINE.contains(&group)
}

/// The fields below a node that are written without a value, and so mean what leaving them out means.
pub(crate) fn without_value(node: &Node, path: &FieldPath, kind: &Kind, out: &mut Vec<Diagnostic>) {
    for (index, item) in node.items().iter().enumerate() {
        without_value(item, &path.index(index), kind, out);
    }
    for entry in node.entries() {
        let field = path.field(&entry.key);
        let is_empty = match &entry.value.kind {
            // `mtls:` is how Istio writes it.
            NodeKind::Null => &*entry.key != "mtls",
            NodeKind::Sequence(items) => {
                // A policy without rules denies.
                kind.group == OPEN_WHEN_EMPTY && items.is_empty() && &*entry.key != "rules"
            }
            _ => false,
        };
        if is_empty {
            let text = format!("`{}` has no value: it restricts nothing, as if it were not there", entry.key);
            let mut problem = Diagnostic::error(WITHOUT_VALUE, field.clone(), text);
            problem.span = Some(entry.value.span);
            out.push(problem.with_hint("remove it, if nothing is to be restricted"));
        }
        without_value(&entry.value, &field, kind, out);
    }
}

fn encode(kind: &'static Kind, document: &Node) -> Result<mixer_schema::Encoded, Vec<Diagnostic>> {
    let null = Node::synthetic(NodeKind::Null);
    match kind.body {
        Body::Object => mixer_schema::encode(kind, document),
        Body::Spec => {
            let spec = document.get("spec").unwrap_or(&null);
            match AUTHENTICATION.contains(&kind.collection) && has_empty_peer(spec) {
                true => mixer_schema::encode(kind, &with_peers(spec)),
                false => mixer_schema::encode(kind, spec),
            }
        }
    }
}

/// Whether a peer method is written `mtls:`, which would vanish.
fn has_empty_peer(spec: &Node) -> bool {
    let peers = spec.get("peers").map_or(&[][..], Node::items).iter();
    peers.filter_map(|peer| peer.get("mtls")).any(|mtls| matches!(mtls.kind, NodeKind::Null))
}

/// The same with `mtls: {}`.
fn with_peers(spec: &Node) -> Node {
    let mut spec = spec.clone();
    let entries = |node: &mut Node, name: &str, change: &mut dyn FnMut(&mut Node)| {
        if let NodeKind::Mapping(entries) = &mut node.kind {
            let named = entries.iter_mut().filter(|entry: &&mut MappingEntry| &*entry.key == name);
            named.for_each(|entry| change(&mut entry.value));
        }
    };
    entries(&mut spec, "peers", &mut |peers| {
        if let NodeKind::Sequence(peers) = &mut peers.kind {
            for peer in peers {
                entries(peer, "mtls", &mut |mtls| {
                    if matches!(mtls.kind, NodeKind::Null) {
                        mtls.kind = NodeKind::Mapping(Vec::new());
                    }
                });
            }
        }
    });
    spec
}

/// The type URL of a kind, shared by all its resources.
pub fn type_url(kind: &Kind) -> Arc<str> {
    static ALL: OnceLock<BTreeMap<&'static str, Arc<str>>> = OnceLock::new();
    let all = ALL.get_or_init(|| kinds().iter().map(|kind| (kind.message, kind.type_url().into())).collect());
    all.get(kind.message).map_or_else(|| kind.type_url().into(), Arc::clone)
}

fn problem(field: &str, message: impl Into<String>) -> Diagnostic {
    Diagnostic::warning(METADATA, FieldPath::root().field("metadata").field(field), message)
}

/// `namespace/name`, or the name alone; a part that is no text is empty.
fn full_name(
    kind: &Kind,
    metadata: Option<&Node>,
    warnings: &mut Vec<Diagnostic>,
) -> Result<String, Vec<Diagnostic>> {
    let part = |name: &str| {
        let node = metadata.and_then(|metadata| metadata.get(name));
        (node.and_then(Node::as_str).unwrap_or_default(), node)
    };
    let ((namespace, in_document), (name, _)) = (part("namespace"), part("name"));
    if name.contains('/') || namespace.contains('/') {
        let text = format!("`{namespace}/{name}` is no name: it contains a slash");
        return Err(vec![Diagnostic::error(METADATA, FieldPath::root().field("metadata"), text)]);
    }
    if name.is_empty() {
        warnings.push(problem(
            "name",
            "the resource has no name, or one that YAML reads as something else than text",
        ));
    }
    if in_document.is_some_and(|node| node.as_str().is_none() && !matches!(node.kind, NodeKind::Null)) {
        let text = "the namespace is lost: YAML reads it as something else than text";
        warnings.push(problem("namespace", text).with_hint("write it in quotes"));
    }
    if kind.cluster_scoped && !namespace.is_empty() {
        warnings.push(problem("namespace", format!("a {} has no namespace", kind.kind)));
    }
    Ok(if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") })
}

/// Labels or annotations. A value that is no text loses all of them, and a core object as a whole.
fn texts(
    kind: &Kind,
    metadata: Option<&Node>,
    name: &str,
    warnings: &mut Vec<Diagnostic>,
) -> Result<BTreeMap<String, String>, Vec<Diagnostic>> {
    let Some(node) = metadata.and_then(|metadata| metadata.get(name)) else { return Ok(BTreeMap::new()) };
    let text = |entry: &MappingEntry| Some((entry.key.to_string(), entry.value.as_str()?.to_owned()));
    let all: Option<BTreeMap<String, String>> = match node.kind {
        NodeKind::Null => return Ok(BTreeMap::new()),
        NodeKind::Mapping(_) => node.entries().iter().map(text).collect(),
        _ => None,
    };
    if let Some(all) = all {
        return Ok(all);
    }
    let lost =
        problem(name, format!("{name} with a value that is no text")).with_hint("write the value in quotes");
    match kind.origin {
        Origin::Core => Err(vec![lost.with_severity(Severity::Error)]),
        _ => {
            let mut warning = lost;
            warning.message = format!("all {name} are lost: a value is no text");
            warnings.push(warning);
            Ok(BTreeMap::new())
        }
    }
}

fn create_time(metadata: Option<&Node>) -> Option<Timestamp> {
    let text = metadata?.get("creationTimestamp")?.as_str()?;
    Timestamp::parse_rfc3339(text).ok()
}
