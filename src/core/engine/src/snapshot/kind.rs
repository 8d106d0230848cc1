//! Resource kinds, and the changed resources of each.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::extension::{Registry, SnapshotExtension};
use super::options::SnapshotOptions;
use crate::adapter::ErasedAdapter;
use crate::template::{self, TEMPLATES, TemplateInfo};
use mixer_base::shared_map::SharedMap;
use mixer_config::message::{misspelling, resembles, suggestion};
use mixer_config::{Diagnostic, FieldPath, MappingEntry, NodeKind, RawResource, ResourceKey, Severity};

/// The code of a resource of unknown kind.
pub(crate) const KIND_UNKNOWN: &str = "kind-unknown";
/// The code of a policy for proxies, which somebody who wrote it may believe in effect.
const POLICY_UNENFORCED: &str = "policy-unenforced";

/// How resources of a kind are built.
#[derive(Clone, Copy)]
pub(super) enum ResourceKind {
    Manifest,
    /// With the adapter of a legacy kind.
    Handler(Option<&'static dyn ErasedAdapter>),
    /// With the template of a legacy kind.
    Instance(Option<&'static Arc<TemplateInfo>>),
    Rule,
    /// A template or adapter out of process.
    External,
    Extended(&'static dyn SnapshotExtension),
    Unknown,
}

impl ResourceKind {
    /// The kind with this name.
    pub(super) fn find(name: &str, options: &SnapshotOptions) -> Self {
        match name {
            "attributemanifest" => ResourceKind::Manifest,
            "handler" => ResourceKind::Handler(None),
            "instance" => ResourceKind::Instance(None),
            "rule" => ResourceKind::Rule,
            "template" | "adapter" => ResourceKind::External,
            name => {
                if let Some(extension) = options.registry.extension(name) {
                    return ResourceKind::Extended(extension);
                }
                let adapter = options.registry.adapters.find(name).filter(|_| options.adapter_kinds);
                let template = template::built_in(name).filter(|_| options.template_kinds);
                match (adapter, template) {
                    (Some(adapter), _) => ResourceKind::Handler(Some(adapter)),
                    (None, Some(template)) => ResourceKind::Instance(Some(template)),
                    (None, None) => ResourceKind::Unknown,
                }
            }
        }
    }
}

/// The resources that differ from the previous build.
#[derive(Default)]
pub(super) struct ResourceChanges<'c> {
    /// New and modified resources.
    pub(super) changed: Vec<(&'c Arc<RawResource>, ResourceKind)>,
    pub(super) removed: Vec<(&'c ResourceKey, ResourceKind)>,
    /// Unmodified resources, among the changed ones, that are built again all the same.
    again: BTreeSet<ResourceKey>,
}

impl<'c> ResourceChanges<'c> {
    /// The differences between two states of a store, and the resources with the keys `again`.
    pub(super) fn between(
        before: &'c SharedMap<Arc<RawResource>>,
        after: &'c SharedMap<Arc<RawResource>>,
        options: &SnapshotOptions,
        again: BTreeSet<ResourceKey>,
    ) -> Self {
        let mut changes = Self { again, ..Self::default() };
        for (old, new) in before.changes(after, Arc::ptr_eq) {
            match (old, new) {
                (_, Some(new)) => changes.changed.push((new, ResourceKind::find(&new.key.kind, options))),
                (Some(old), None) => {
                    changes.removed.push((&old.key, ResourceKind::find(&old.key.kind, options)));
                }
                (None, None) => {}
            }
        }
        let is_changed = |key: &ResourceKey| changes.changed.iter().any(|(resource, _)| resource.key == *key);
        let unchanged = changes.again.iter().filter(|key| !is_changed(key));
        let unchanged: Vec<_> = unchanged.filter_map(|key| after.get(key)).collect();
        let unchanged = unchanged.into_iter().map(|new| (new, ResourceKind::find(&new.key.kind, options)));
        changes.changed.extend(unchanged);
        changes
    }

    /// Whether a resource is to be built even if it is the same.
    pub(super) fn is_due_again(&self, key: &ResourceKey) -> bool {
        self.again.contains(key)
    }

    /// Whether any resource of a kind differs.
    pub(super) fn has(&self, kind: impl Fn(ResourceKind) -> bool) -> bool {
        self.changed.iter().any(|(_, k)| kind(*k)) || self.removed.iter().any(|(_, k)| kind(*k))
    }

    /// The resources of a kind to build: the changed ones, or all of `all`.
    pub(super) fn of(
        &self,
        all: Option<&'c SharedMap<Arc<RawResource>>>,
        options: &SnapshotOptions,
        kind: impl Fn(ResourceKind) -> bool,
    ) -> Vec<(&'c Arc<RawResource>, ResourceKind)> {
        match all {
            None => self.changed.iter().copied().filter(|(_, k)| kind(*k)).collect(),
            Some(all) => {
                let kinds = all.iter().map(|r| (r, ResourceKind::find(&r.key.kind, options)));
                kinds.filter(|(_, k)| kind(*k)).collect()
            }
        }
    }

    /// Keys of removed resources of a kind.
    pub(super) fn removed(
        &self,
        kind: impl Fn(ResourceKind) -> bool,
    ) -> impl Iterator<Item = &'c ResourceKey> {
        self.removed.iter().filter(move |(_, k)| kind(*k)).map(|(key, _)| *key)
    }
}

/// A kind that a snapshot is built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownKind {
    /// As written in resources.
    pub name: &'static str,
    /// Its API group.
    pub group: &'static str,
}

impl SnapshotOptions {
    /// The kinds that have an effect, each once: those of every configuration, those of extensions, and those of adapters and
    /// templates as far as they are read.
    pub fn kinds(&self) -> Vec<KnownKind> {
        let extensions = self.registry.extensions.iter();
        let extended = extensions.flat_map(|extension| {
            let group = extension.group();
            extension.kinds().iter().map(move |name| KnownKind { name, group })
        });
        let own = candidates(self.registry).map(|name| KnownKind { name, group: GROUP });
        let mut kinds: Vec<KnownKind> = extended.collect();
        for kind in own {
            let is_known = !matches!(ResourceKind::find(kind.name, self), ResourceKind::Unknown);
            if is_known && !kinds.iter().any(|known| known.name == kind.name) {
                kinds.push(kind);
            }
        }
        kinds
    }
}

/// The API group of Istio Mixer.
pub(super) const GROUP: &str = "config.istio.io";

/// The API group of a resource; empty without `apiVersion`.
fn group_of(resource: &RawResource) -> &str {
    let api_version = &*resource.envelope.api_version;
    api_version.split_once('/').map_or(api_version, |(group, _)| group)
}

/// Kinds of that group that Istio has and this build does not: adapters and templates with a kind of their own, and the
/// configuration of clients.
const FOREIGN_KINDS: [&str; 29] = [
    "HTTPAPISpec",
    "HTTPAPISpecBinding",
    "QuotaSpec",
    "QuotaSpecBinding",
    "apigee",
    "bypass",
    "circonus",
    "cloudwatch",
    "denier",
    "dogstatsd",
    "edge",
    "fluentd",
    "kubernetes",
    "kubernetesenv",
    "listchecker",
    "memquota",
    "noop",
    "opa",
    "prometheus",
    "rbac",
    "redisquota",
    "servicecontrol",
    "servicecontrolreport",
    "signalfx",
    "solarwinds",
    "stackdriver",
    "statsd",
    "stdio",
    "zipkin",
];

/// What the kind of a resource that is unknown probably is.
enum Guess {
    /// One of another program, which stores its resources in the same directory, or of an adapter that this build does not have.
    Foreign,
    /// A misspelt one, or one that this build does not know: what it should decide is lost.
    Misspelt,
}

impl Guess {
    /// Cost: constant, unless the resource has no `apiVersion`.
    fn of(resource: &RawResource, registry: Registry) -> Self {
        let kind = &*resource.key.kind;
        // A legacy kind of Istio may be switched off. A rule with such a kind is a mistake all the same.
        let is_named = || FOREIGN_KINDS.contains(&kind) || candidates(registry).any(|known| known == kind);
        let is_known = !resembles_rule(resource) && is_named();
        let is_meant = match group_of(resource) {
            // Istio Mixer reads documents without it.
            "" => candidates(registry).any(|known| resembles(kind, known)) || resembles_rule(resource),
            group if group == GROUP || misspelling(group, GROUP) => true,
            group => resource.envelope.is_like_ours || is_misspelt_among_others(kind, group, registry),
        };
        if is_meant && !is_known { Self::Misspelt } else { Self::Foreign }
    }
}

/// Whether a resource is written like one of ours, also if only roughly so.
fn resembles_rule(resource: &RawResource) -> bool {
    resource.envelope.is_like_ours
        || resource.document().member("spec").is_some_and(|spec| spec.get("actions").is_some())
}

/// The domain of Istio, whose kinds are known.
const ISTIO: &str = "istio.io";

/// The API groups of policies that proxies of Istio enforce.
const OF_POLICIES: [&str; 2] = ["security.istio.io", "authentication.istio.io"];

/// Our kinds, in lower case, of which no other program has a namesake.
const DISTINCT: [&str; 3] = ["attributemanifest", "attributemapping", "envoybridge"];

/// Kinds of Istio and others that resemble one of ours.
const LIKE_OURS: [&str; 2] = ["RateLimit", "Role"];

/// Whether a kind in an API group of another program is one of ours with a typing error.
///
/// Only kinds that act by themselves count, and manifests: a rule does not find a handler or an instance of an adapter's or template's
/// own kind, and has an error. Kinds of Kubernetes begin with a capital, and in the domains of others many resemble ours (`Rules`,
/// `DBInstance`): there, only those that resemble a distinct one count. Of Istio's own kinds none resembles ours, except in the
/// spelling of Kubernetes.
fn is_misspelt_among_others(kind: &str, group: &str, registry: Registry) -> bool {
    let is_camel = kind.starts_with(|first: char| first.is_ascii_uppercase());
    let is_istio = group.strip_suffix(ISTIO).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if is_camel && !is_istio {
        return DISTINCT.into_iter().any(|known| misspelling(kind, known));
    }
    let is_of_others = |known: &str| is_camel && kind.eq_ignore_ascii_case(known);
    !LIKE_OURS.contains(&kind)
        && !MODERN.into_iter().any(is_of_others)
        && MODERN.into_iter().chain(registry.kinds()).any(|known| misspelling(kind, known))
}

/// The resources whose kind is misspelt: they have no effect, and whatever they should decide is lost.
pub(super) fn misspelt<'r>(
    resources: &'r SharedMap<Arc<RawResource>>,
    options: &SnapshotOptions,
) -> Vec<&'r Arc<RawResource>> {
    // Resources come by kind.
    let mut last: Option<(&Arc<str>, bool)> = None;
    let unknown = resources.iter().filter(|resource| {
        let kind = &resource.key.kind;
        let known = last.filter(|(seen, _)| Arc::ptr_eq(seen, kind) || *seen == kind);
        let is_unknown = known
            .map_or_else(|| matches!(ResourceKind::find(kind, options), ResourceKind::Unknown), |(_, is)| is);
        last = Some((kind, is_unknown));
        is_unknown
    });
    unknown.filter(|resource| matches!(Guess::of(resource, options.registry), Guess::Misspelt)).collect()
}

/// The kinds of which every configuration consists.
const MODERN: [&str; 4] = ["attributemanifest", "handler", "instance", "rule"];

/// Every kind of this build.
fn candidates(registry: Registry) -> impl Iterator<Item = &'static str> {
    let modern = MODERN.into_iter().chain(["template", "adapter"]).chain(registry.kinds());
    modern.chain(registry.adapters.names()).chain(TEMPLATES.iter().map(|t| &*t.name))
}

/// The diagnostic of a policy for proxies.
fn policy_of_proxies(kind: &str, group: &str) -> Diagnostic {
    let field = FieldPath::root().field("kind");
    let text = format!("kind `{kind}` of `{group}` is for proxies of Istio: this server does not enforce it");
    Diagnostic::warning(POLICY_UNENFORCED, field, text).with_hint(
        "write rules that decide the same (docs/migration.md), or keep it in the directory of `mixer galley`, which distributes it to proxies",
    )
}

/// Whether a resource is a ConfigMap with a file of envoyproxy/ratelimit, as that program has them in a cluster.
fn holds_limits(resource: &RawResource) -> bool {
    let is_file = |entry: &MappingEntry| matches!(&entry.value.kind, NodeKind::String(text) if text.contains("domain:") && text.contains("descriptors:"));
    &*resource.key.kind == "ConfigMap"
        && resource.document().member("data").is_some_and(|data| data.entries().iter().any(is_file))
}

/// The diagnostic of a resource of unknown kind.
pub(super) fn unknown_kind(resource: &RawResource, registry: Registry) -> Diagnostic {
    let kind = &*resource.key.kind;
    let severity = match Guess::of(resource, registry) {
        Guess::Foreign => Severity::Warning,
        Guess::Misspelt => Severity::Error,
    };
    let field = FieldPath::root().field("kind");
    let span = resource.document().at(&field).span;
    let group = group_of(resource);
    if severity == Severity::Warning && OF_POLICIES.contains(&group) {
        let mut problem = policy_of_proxies(kind, group).accepted_by_istio();
        problem.resource = resource.key.to_string();
        problem.span = Some(span);
        return problem;
    }
    let text = format!("kind `{kind}` is unknown; the resource is ignored");
    let mut problem = Diagnostic::new(severity, KIND_UNKNOWN, field, text);
    problem.resource = resource.key.to_string();
    let group = match severity {
        _ if misspelling(group, GROUP) => Some(format!("the API group is `{GROUP}`, not `{group}`")),
        Severity::Error if !group.is_empty() && group != GROUP => Some(format!(
            "a resource of this server has `apiVersion: {GROUP}/v1alpha2` and one of its kinds; keep those of other \
             programs in another directory"
        )),
        _ => None,
    };
    // In another group most kinds are no misspelling.
    let near =
        suggestion(kind, candidates(registry)).filter(|_| severity == Severity::Error || group.is_some());
    let limits = holds_limits(resource).then(|| {
        "limits of envoyproxy/ratelimit are read from files: write the text below `data` into a file of its own".to_owned()
    });
    let hints = [near, group, limits];
    problem.hint =
        Some(hints.into_iter().flatten().collect::<Vec<_>>().join("; ")).filter(|hint| !hint.is_empty());
    problem.span = Some(span);
    problem.accepted_by_istio = true;
    problem
}
