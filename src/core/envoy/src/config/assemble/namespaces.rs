//! The namespaces whose rules apply to the requests of Envoy, which does not tell them.

use std::collections::BTreeMap;

use super::Assembler;
use crate::config::EnvoyResource;
use crate::config::settings::{BridgeSettings, Check, ReporterKind};
use mixer_config::{Diagnostic, FieldPath, RawResource};
use mixer_engine::snapshot::{NamespaceReference, QuotaNamespaces};

/// The attributes that select the namespace whose rules apply.
pub(super) const SELECTORS: [&str; 2] = ["destination.namespace", "source.namespace"];
/// The attribute that tells which of them does.
const REPORTER_KIND: &str = "context.reporter.kind";

/// Which of the [`SELECTORS`] select the rules of checks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Selects {
    destination: bool,
    source: bool,
}

impl Selects {
    /// As the settings of checks tell; both if the request tells.
    pub(super) fn of(settings: &Check) -> Self {
        let is_open = settings.reporter_kind == ReporterKind::FromExtension
            || settings.static_attributes.contains_key(REPORTER_KIND);
        Self {
            destination: settings.enabled && (is_open || settings.reporter_kind == ReporterKind::Inbound),
            source: settings.enabled && (is_open || settings.reporter_kind == ReporterKind::Outbound),
        }
    }

    /// Whether an attribute does.
    pub(super) fn has(self, name: &str) -> bool {
        let [destination, source] = SELECTORS;
        (self.destination && name == destination) || (self.source && name == source)
    }
}

impl Assembler<'_> {
    /// Notes the namespaces that the settings give checks.
    pub(super) fn settings_namespaces(&mut self, settings: &BridgeSettings, resource: Option<&RawResource>) {
        let spec = FieldPath::root().field("spec");
        if settings.check.enabled {
            self.names_namespace(&settings.default_namespace, spec.field("defaultNamespace"), resource);
        }
        let field = spec.field("check").field("staticAttributes");
        for (name, text) in &settings.check.static_attributes {
            if self.selects.has(name) {
                self.names_namespace(text, field.key(name), resource);
            } else if let Some(problem) = unselecting(name, &field, settings) {
                self.problem(resource, problem);
            }
        }
    }

    /// Notes a namespace that requests get; none if it is empty.
    pub(super) fn names_namespace(&mut self, name: &str, field: FieldPath, resource: Option<&RawResource>) {
        let Some(resource) = resource.filter(|_| !name.is_empty()) else { return };
        let text = format!("no rule is in namespace `{name}`, which requests of Envoy get");
        let problem = Diagnostic::error("namespace-unused", field, text);
        let problem = self.positions.place(problem, &resource.key, &resource.origin);
        self.config.namespaces.push(NamespaceReference { name: name.to_owned(), problem });
    }

    /// The namespaces that descriptors with these entries may name.
    pub(super) fn namespaces_of_descriptors(
        &self,
        entries: &BTreeMap<String, String>,
        settings: &BridgeSettings,
    ) -> QuotaNamespaces {
        let may_name = entries.is_empty() || entries.keys().any(|key| SELECTORS.contains(&key.as_str()));
        if may_name || self.maps_namespace {
            return QuotaNamespaces::Any;
        }
        let name = &settings.default_namespace;
        QuotaNamespaces::Only((!name.is_empty()).then(|| name.as_str().into()))
    }

    /// Notes the problem of requests without a namespace, unless an attribute of the configuration may name one.
    pub(super) fn missing_namespace(&mut self, resources: &[(&RawResource, &EnvoyResource)]) {
        let is_settings =
            |(_, state): &&(&RawResource, &EnvoyResource)| matches!(state, EnvoyResource::Settings(_));
        let Some((resource, _)) = resources.iter().find(is_settings).or(resources.first()) else { return };
        self.config.is_configured = true;
        let is_of_checks = |(_, state): &(&RawResource, &EnvoyResource)| {
            matches!(state, EnvoyResource::Settings(_) | EnvoyResource::Mapping(_))
        };
        self.config.has_checks = self.config.settings.check.enabled && resources.iter().any(is_of_checks);
        let settings = &self.config.settings;
        let is_static = SELECTORS.iter().any(|name| settings.check.static_attributes.contains_key(*name));
        if is_static || self.maps_namespace || !settings.check.enabled {
            return;
        }
        let field = FieldPath::root().field("spec").field("check");
        let text = "a request of Envoy that names no namespace is refused, because rules of a namespace may refuse it";
        let problem = Diagnostic::warning("envoy-namespace-unknown", field, text);
        self.config.namespace_problem = Some(self.positions.place(problem, &resource.key, &resource.origin));
    }
}

/// Warns about a constant namespace of the side whose rules do not apply, if requests get no other namespace.
fn unselecting(name: &str, field: &FieldPath, settings: &BridgeSettings) -> Option<Diagnostic> {
    let kind = settings.check.reporter_kind.text().filter(|_| settings.check.enabled)?;
    let other = SELECTORS.iter().find(|other| **other != name).filter(|_| SELECTORS.contains(&name))?;
    let has_other = settings.check.static_attributes.contains_key(*other);
    if has_other || !settings.default_namespace.is_empty() {
        return None;
    }
    let text = format!("`{name}` selects no rules with `reporterKind: {kind}`: `{other}` does");
    let reverse = if kind == "inbound" { "outbound" } else { "inbound" };
    let hint = format!("write `{other}`, or `reporterKind: {reverse}` if the proxy runs on the other side");
    Some(Diagnostic::warning("envoy-namespace-unselected", field.key(name), text).with_hint(hint))
}
