//! Settings of snapshot builds.

use std::sync::Arc;

use super::annotations::LANGUAGE;
use super::extension::Registry;
use mixer_config::RawResource;
use mixer_expr::Language;

/// The namespace of mesh-wide rules, unless a flag names another one.
pub const DEFAULT_NAMESPACE: &str = "istio-system";

/// Settings of snapshot builds.
#[derive(Debug, Clone)]
pub struct SnapshotOptions {
    /// Built-in adapters and extensions.
    pub registry: Registry,
    /// Namespace of mesh-wide rules.
    pub default_namespace: Arc<str>,
    /// The language of all resources; overrides their annotations. From the environment variable `ISTIO_LANG`.
    pub language: Option<Language>,
    /// Whether the legacy kinds named like adapters are known.
    pub adapter_kinds: bool,
    /// Whether the legacy kinds named like templates are known.
    pub template_kinds: bool,
    /// Whether the server verifies nobody's identity, and removes the attribute of the caller's principal; `false` if that is not
    /// known, or if callers are believed.
    pub removes_principals: bool,
    /// Whether the attributes that Envoy and Istio's proxies send are known without a manifest, and outputs that Istio's templates do not
    /// have; what a manifest declares wins.
    pub standard_attributes: bool,
}

impl SnapshotOptions {
    /// The defaults of Istio Mixer's server, with these adapters and extensions.
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
            default_namespace: DEFAULT_NAMESPACE.into(),
            language: None,
            adapter_kinds: true,
            template_kinds: true,
            removes_principals: false,
            standard_attributes: false,
        }
    }
}

impl SnapshotOptions {
    /// The language of a rule or instance.
    pub(crate) fn language_of(&self, resource: &RawResource) -> Language {
        let annotated = || resource.annotations.get(LANGUAGE).map_or(Language::Cexl, Language::from_name);
        self.language.unwrap_or_else(annotated)
    }
}
