//! Resource kinds, and the changed resources of each.

use std::sync::Arc;

use super::extension::{Registry, SnapshotExtension};
use super::options::SnapshotOptions;
use crate::adapter::ErasedAdapter;
use crate::template::{self, TEMPLATES, TemplateInfo};
use mixer_base::shared_map::SharedMap;
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, FieldPath, RawResource, ResourceKey};

/// How resources of a kind are built.
#[derive(Clone, Copy)]
pub(super) enum ResourceKind {
    Manifest,
    /// With the adapter of a legacy kind.
    Handler(Option<&'static dyn ErasedAdapter>),
    /// With the template of a legacy kind.
    Instance(Option<&'static TemplateInfo>),
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
                let template = template::find(name).filter(|_| options.template_kinds);
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
}

impl<'c> ResourceChanges<'c> {
    /// The differences between two states of a store.
    pub(super) fn between(
        before: &'c SharedMap<Arc<RawResource>>,
        after: &'c SharedMap<Arc<RawResource>>,
        options: &SnapshotOptions,
    ) -> Self {
        let mut changes = Self::default();
        for (old, new) in before.changes(after, Arc::ptr_eq) {
            match (old, new) {
                (_, Some(new)) => changes.changed.push((new, ResourceKind::find(&new.key.kind, options))),
                (Some(old), None) => {
                    changes.removed.push((&old.key, ResourceKind::find(&old.key.kind, options)));
                }
                (None, None) => {}
            }
        }
        changes
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

/// The diagnostic of a resource of unknown kind.
pub(super) fn unknown_kind(resource: &RawResource, registry: Registry) -> Diagnostic {
    let kind = &*resource.key.kind;
    let modern = ["attributemanifest", "handler", "instance", "rule", "template", "adapter"];
    let modern = modern.into_iter().chain(registry.kinds());
    let adapters = registry.adapters.names();
    let candidates = modern.chain(adapters).chain(TEMPLATES.iter().map(|t| t.name));
    let field = FieldPath::root().field("kind");
    let span = resource.document().at(&field).span;
    let mut problem = Diagnostic::warning(
        "kind-unknown",
        field,
        format!("kind `{kind}` is unknown; the resource is ignored"),
    )
    .with_resource(resource.key.to_string());
    problem.hint = suggestion(kind, candidates);
    problem.span = Some(span);
    problem
}
