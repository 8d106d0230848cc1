//! Kind, name, namespace and annotations of a document, extracted as by Go's JSON decoder.

mod likeness;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::message::{json_kind, resembles};
use crate::store::IdentityRule;
use crate::{
    Annotations, Envelope, FieldPlace, MappingEntry, Node, NodeKind, ResourceKey, Span, UnknownField,
};
use mixer_base::decimal;

/// The identity of a document.
pub(super) struct Identity {
    pub(super) key: ResourceKey,
    pub(super) annotations: Annotations,
    pub(super) envelope: Envelope,
}

/// Why a document has no identity.
pub(super) enum Unidentified {
    /// There is no document: nothing, comments only, or null.
    Nothing,
    /// A mapping without any part of a resource: of a document that was cut off, what it was to define is unknown.
    NoResource,
    /// A list of resources, as Kubernetes returns it.
    List {
        /// As of [`Missing`](Self::Missing), if that is so as well.
        extracted: Option<String>,
        kind: String,
        span: Span,
    },
    /// Parts of the key are missing.
    Missing {
        /// `name.kind.namespace`, missing parts empty.
        extracted: String,
        missing: Vec<&'static str>,
    },
    /// It looks like a file of rate limits, but is none.
    Limits { message: String, hint: String, span: Span },
    /// A value has the wrong type.
    Type { message: String, span: Span },
}

/// Extracts the identity of a document.
pub(super) fn identify(root: &Node, rule: IdentityRule) -> Result<Identity, Unidentified> {
    match rule {
        IdentityRule::Complete => identify_completely(root),
        IdentityRule::Kind | IdentityRule::GroupAndKind => identify_loosely(root, rule),
    }
}

/// The identity of an object of Kubernetes: parts that are missing, or are no text, are empty.
fn identify_loosely(root: &Node, rule: IdentityRule) -> Result<Identity, Unidentified> {
    match root.kind {
        NodeKind::Null => return Err(Unidentified::Nothing),
        NodeKind::Mapping(_) => {}
        _ => return Err(type_error(root, "Go value of type map[string]interface {}")),
    }
    let part = |node: Option<&Node>| node.and_then(Node::as_str).unwrap_or_default().to_owned();
    let metadata = |name: &str| part(root.get("metadata").and_then(|metadata| metadata.get(name)));
    let api_version = part(root.get("apiVersion"));
    let mut kind = part(root.get("kind"));
    if let (IdentityRule::GroupAndKind, Some((group, _))) = (rule, api_version.rsplit_once('/')) {
        kind = format!("{kind}.{group}");
    }
    let (namespace, name) = (metadata("namespace"), metadata("name"));
    if let Some(text) = [&kind, &namespace, &name].into_iter().find(|text| text.len() > ResourceKey::MAX_PART)
    {
        let message =
            format!("a part of the name has {} bytes, more than {}", text.len(), ResourceKey::MAX_PART);
        return Err(Unidentified::Type { message, span: root.span });
    }
    let key = ResourceKey { kind: shared(kind), namespace: shared(namespace), name: name.into() };
    let envelope = Envelope { api_version: shared(api_version), ..Envelope::default() };
    Ok(Identity { key, annotations: Annotations::default(), envelope })
}

fn identify_completely(root: &Node) -> Result<Identity, Unidentified> {
    match root.kind {
        NodeKind::Null => return Err(Unidentified::Nothing),
        NodeKind::Mapping(_) => {}
        _ => return Err(type_error(root, "Go value of type store.BackEndResource")),
    }
    if let Some(identity) = limits_of_domain(root)? {
        return Ok(identity);
    }
    let kind = text(root.member("kind"), "BackEndResource.Kind")?;
    let metadata = root.member("metadata");
    if let Some(node) = metadata.filter(|m| !matches!(m.kind, NodeKind::Mapping(_))) {
        return Err(type_error(node, "Go struct field BackEndResource.Metadata of type store.ResourceMeta"));
    }
    let part = |name| metadata.and_then(|m| m.member(name));
    let mut named = BTreeMap::new();
    let annotations = part("annotations");
    texts(annotations, "ResourceMeta.Metadata.Annotations", |name, value| {
        named.insert(name.to_owned(), value);
    })?;
    let labels = part("labels");
    texts(labels, "ResourceMeta.Metadata.Labels", |_, _| {})?;
    let name = text(part("name"), "ResourceMeta.Metadata.Name")?;
    let namespace = text(part("namespace"), "ResourceMeta.Metadata.Namespace")?;
    let revision = text(part("revision"), "ResourceMeta.Metadata.Revision")?;
    let spec = root.member("spec");
    if let Some(node) = spec.filter(|s| !matches!(s.kind, NodeKind::Mapping(_))) {
        return Err(type_error(node, "Go struct field BackEndResource.Spec of type map[string]interface {}"));
    }
    let parts = [("kind", &kind), ("metadata.name", &name), ("metadata.namespace", &namespace)];
    let missing = parts.iter().filter(|(_, text)| text.is_empty()).map(|(part, _)| *part).collect::<Vec<_>>();
    if let Some((part, text)) = parts.iter().find(|(_, text)| text.len() > ResourceKey::MAX_PART) {
        let message = format!("{part} has {} bytes, more than {}", text.len(), ResourceKey::MAX_PART);
        return Err(Unidentified::Type { message, span: root.span });
    }
    if let Some(items) = list_items(root, &kind) {
        let extracted = (!missing.is_empty()).then(|| format!("{name}.{kind}.{namespace}"));
        return Err(Unidentified::List { extracted, kind, span: items.span });
    }
    if missing.is_empty() {
        let key = ResourceKey { kind: shared(kind), namespace: shared(namespace), name: name.into() };
        let annotations = Annotations::from(named);
        // The fields of a `spec` that lost its indentation stand beside it.
        let is_like_ours = likeness::has_our_annotation(&annotations)
            || spec.into_iter().chain([root]).any(likeness::is_our_spec);
        let version = revision.into();
        let envelope = Envelope { is_like_ours, version, ..envelope(root, metadata, &key.kind) };
        return Ok(Identity { key, annotations, envelope });
    }
    if missing.len() == 3
        && annotations.is_none()
        && labels.is_none()
        && revision.is_empty()
        && spec.is_none()
    {
        return Err(Unidentified::NoResource);
    }
    Err(Unidentified::Missing { extracted: format!("{name}.{kind}.{namespace}"), missing })
}

/// The fields of a document; Kubernetes writes `status`.
const FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Fields of a `spec`, of any kind: in the metadata, or as annotations, they lost their place. Not those that metadata has as well.
const SPEC_FIELDS: [&str; 21] = [
    "spec",
    "match",
    "actions",
    "handler",
    "instances",
    "params",
    "compiledAdapter",
    "compiledTemplate",
    "adapter",
    "template",
    "connection",
    "attributeBindings",
    "requestHeaderOperations",
    "responseHeaderOperations",
    "sampling",
    "attributes",
    "check",
    "report",
    "ratelimit",
    "mappings",
    "descriptors",
];

/// Fields anywhere in the `spec` of a kind, whose names are too common to be looked for in the metadata of others.
const FIELDS_OF_KINDS: [(&str, &[&str]); 5] = [
    ("ServiceRole", &["rules", "services", "paths", "methods", "constraints", "key", "values"]),
    ("ServiceRoleBinding", &["subjects", "user", "group", "properties", "roleRef", "mode"]),
    (
        "envoybridge",
        &[
            "defaultNamespace",
            "enabled",
            "mode",
            "errorMode",
            "staticAttributes",
            "trustForwardedAttributes",
            "includeBody",
            "principal",
            "originIp",
            "quotaSpec",
            "quotas",
            "rules",
            "quota",
            "charge",
            "clause",
            "domain",
            "entries",
            "unmatched",
            "shadow",
            "reporterKind",
            "cache",
            "maxAge",
            "denyBody",
            "denyBodyNames",
            "responseMetadata",
            "httpPathPrefix",
            "httpSourceIp",
            "exact",
            "prefix",
            "regex",
            "accessLogTypes",
            "logNames",
            "tcpStateEntries",
            "tcpStateIdle",
            "headers",
            "limit",
            "remaining",
            "reset",
            "nearLimitRatio",
            "stopIncrementWhenOver",
            "mergeDomains",
        ],
    ),
    (
        "attributemapping",
        &[
            "attribute",
            "from",
            "default",
            "malformed",
            "overwrite",
            "requestHeader",
            "responseHeader",
            "queryParameter",
            "cookie",
            "routeMetadata",
            "certificate",
            "extension",
            "path",
        ],
    ),
    (
        "ratelimit",
        &[
            "domain",
            "key",
            "value",
            "rateLimit",
            "shadowMode",
            "unit",
            "requestsPerUnit",
            "unlimited",
            "replaces",
            "quotaMode",
            "detailedMetric",
            "valueToMetric",
            "shareThreshold",
        ],
    ),
];

/// Whether an entry has the name of a field of a `spec` of a kind.
fn is_of_spec(entry: &MappingEntry, kind: &str) -> bool {
    is_field_of_spec(kind, &entry.key)
}

/// Whether a field of the metadata, or an annotation, has the name of a field in the `spec` of a kind, in either spelling of Protobuf, so that it
/// lost its place. Names that Kubernetes has there are none: `name`, `namespace`, `labels`, `annotations` and so on.
pub fn is_field_of_spec(kind: &str, name: &str) -> bool {
    let name = name.replace('_', "");
    let of_kind = FIELDS_OF_KINDS.iter().filter(|(of, _)| *of == kind).flat_map(|(_, fields)| *fields);
    SPEC_FIELDS.iter().chain(of_kind).any(|field| name.eq_ignore_ascii_case(field))
}

/// What a document has beside its identity. Kubernetes keeps much in the metadata: only settings that are lost there count.
fn envelope(root: &Node, metadata: Option<&Node>, kind: &str) -> Envelope {
    let is_known = |entry: &&MappingEntry| FIELDS.iter().any(|name| entry.key.eq_ignore_ascii_case(name));
    let unknown = |place| {
        move |entry: &MappingEntry| UnknownField { name: entry.key.clone(), place, span: entry.key_span }
    };
    let beside = root.entries().iter().filter(|entry| !is_known(entry)).map(unknown(FieldPlace::Document));
    let is_lost = |entry: &&MappingEntry| {
        const ANNOTATIONS: &str = "annotations";
        let is_misspelt =
            || !entry.key.eq_ignore_ascii_case(ANNOTATIONS) && resembles(&entry.key, ANNOTATIONS);
        // Nearly all of them.
        if matches!(&*entry.key, "name" | "namespace" | "labels" | ANNOTATIONS) {
            return false;
        }
        entry.key.contains('/')
            || likeness::has_our_prefix(&entry.key)
            || is_of_spec(entry, kind)
            || is_misspelt()
    };
    let labels = metadata.and_then(|metadata| metadata.member("labels")).map_or(&[][..], Node::entries);
    let labels =
        labels.iter().filter(|label| likeness::names_us(&label.key)).map(unknown(FieldPlace::Labels));
    let lost = metadata
        .map_or(&[][..], Node::entries)
        .iter()
        .filter(is_lost)
        .map(unknown(FieldPlace::Metadata))
        .chain(labels);
    let annotations = metadata.and_then(|metadata| metadata.member("annotations"));
    let annotations = annotations.map_or(&[][..], Node::entries).iter();
    let lost = lost.chain(
        annotations.clone().filter(|entry| is_of_spec(entry, kind)).map(unknown(FieldPlace::Annotations)),
    );
    let api_version = root.member("apiVersion").and_then(Node::as_str).unwrap_or_default();
    let is_untyped =
        |entry: &&MappingEntry| likeness::has_our_prefix(&entry.key) && entry.value.as_str().is_none();
    let untyped = annotations.filter(is_untyped);
    let untyped_annotations = untyped.map(|entry| entry.key.clone()).collect();
    let lost = lost.chain(["name", "namespace"].into_iter().filter_map(|name| {
        let value = metadata?.member(name).filter(|value| value.as_str().is_none())?;
        Some(UnknownField { name: name.into(), place: FieldPlace::NoText, span: value.span })
    }));
    let api_version = shared(api_version.to_owned());
    let unknown = beside.chain(lost).collect();
    Envelope { api_version, unknown, untyped_annotations, ..Envelope::default() }
}

/// The resources in a list, such as `kubectl get -o yaml` prints.
fn list_items<'n>(root: &'n Node, kind: &str) -> Option<&'n Node> {
    let items = root.member("items").filter(|_| kind.ends_with("List"));
    items.filter(|items| matches!(items.kind, NodeKind::Sequence(_)))
}

/// Interns a text per thread: resources share few kinds and namespaces.
fn shared(text: String) -> Arc<str> {
    /// Maximum number of interned texts.
    const MAX_SHARED: usize = 64;
    thread_local! {
        static RECENT: RefCell<Vec<Arc<str>>> = const { RefCell::new(Vec::new()) };
    }
    RECENT.with_borrow_mut(|recent| {
        if let Some(known) = recent.iter().find(|known| ***known == *text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        recent.truncate(MAX_SHARED - 1);
        recent.insert(0, Arc::clone(&text));
        text
    })
}

/// A file of envoyproxy/ratelimit: domain and descriptors without an envelope. It becomes a resource of kind `ratelimit`. Errors: it
/// has both, but one of them is misspelt or no name.
fn limits_of_domain(root: &Node) -> Result<Option<Identity>, Unidentified> {
    const ENVELOPE: [&str; 4] = ["apiVersion", "kind", "metadata", "spec"];
    const DOMAIN: &str = "domain";
    const DESCRIPTORS: &str = "descriptors";
    if ENVELOPE.into_iter().any(|name| root.member(name).is_some()) {
        return Ok(None);
    }
    let near = |name: &'static str| {
        let exact = root.entries().iter().find(|entry| &*entry.key == name);
        exact.or_else(|| root.entries().iter().find(|entry| resembles(&entry.key, name)))
    };
    let is_list = |entry: &&MappingEntry| {
        &*entry.key == DESCRIPTORS || matches!(entry.value.kind, NodeKind::Sequence(_))
    };
    let Some((domain, descriptors)) = near(DOMAIN).zip(near(DESCRIPTORS).filter(is_list)) else {
        // Neither a limit nor a resource; or a part of a limit.
        return match (root.get(DOMAIN), root.get(DESCRIPTORS)) {
            (None, Some(list)) if matches!(list.kind, NodeKind::Sequence(_)) => Err(Unidentified::Limits {
                message: "a file of rate limits has no domain".to_owned(),
                hint: "add `domain: NAME`".to_owned(),
                span: list.span,
            }),
            _ => Ok(None),
        };
    };
    for (entry, name) in [(domain, DOMAIN), (descriptors, DESCRIPTORS)] {
        if &*entry.key != name {
            return Err(Unidentified::Limits {
                message: format!("unknown field `{}` of a file of rate limits", entry.key),
                hint: format!("did you mean `{name}`?"),
                span: entry.key_span,
            });
        }
    }
    match domain.value.as_str().filter(|domain| !domain.is_empty()) {
        Some(domain) => {
            let key =
                ResourceKey { kind: "ratelimit".into(), namespace: "ratelimit".into(), name: domain.into() };
            Ok(Some(Identity { key, annotations: Annotations::default(), envelope: Envelope::default() }))
        }
        None => Err(Unidentified::Limits {
            message: "the domain of a file of rate limits is no text".to_owned(),
            hint: "write `domain: NAME`, in quotes if it looks like a number".to_owned(),
            span: domain.value.span,
        }),
    }
}

/// A text. Only in the identity are numbers and Booleans converted to text.
fn text(node: Option<&Node>, field: &str) -> Result<String, Unidentified> {
    let Some(node) = node else { return Ok(String::new()) };
    Ok(match &node.kind {
        NodeKind::Null => String::new(),
        NodeKind::String(text) => text.to_string(),
        NodeKind::Bool(value) => value.to_string(),
        NodeKind::Int(value) => value.to_string(),
        NodeKind::Float(value) => decimal::general_single(*value as f32).to_string(),
        _ => return Err(type_error(node, &format!("Go struct field {field} of type string"))),
    })
}

fn texts(node: Option<&Node>, field: &str, mut read: impl FnMut(&str, String)) -> Result<(), Unidentified> {
    let Some(node) = node else { return Ok(()) };
    if !matches!(node.kind, NodeKind::Mapping(_)) {
        return Err(type_error(node, &format!("Go struct field {field} of type map[string]string")));
    }
    node.entries().iter().try_for_each(|entry| {
        read(&entry.key, text(Some(&entry.value), field)?);
        Ok(())
    })
}

fn type_error(node: &Node, target: &str) -> Unidentified {
    Unidentified::Type {
        message: format!("json: cannot unmarshal {} into {target}", json_kind(node)),
        span: node.span,
    }
}
