//! What a configuration decides without enforcing it: settings of a whole service, and rules in dry run.

use super::model::{RuleConfig, Snapshot};
use mixer_config::annotation::DRY_RUN;
use mixer_config::{FieldPath, Origin, Positions, RawResource, ResourceKey};

/// What follows from a rule in dry run.
const RULE_IN_DRY_RUN: &str =
    "the rule is in dry run (`mixer.dev/dry-run`): it is evaluated and counted, and decides nothing";

/// The service of checks, as [`Unenforced::service`] names it.
const CHECKS: &str = "check";

/// Whom it concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnenforcedScope {
    /// Every call of a service: none is refused.
    Service,
    /// Some limits of a service.
    Limits,
    /// What one rule would do.
    Rule,
}

/// Something that is computed and counted, and not enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unenforced {
    /// Whom it concerns.
    pub scope: UnenforcedScope,
    /// The service: `check` or `ratelimit`; empty of a rule.
    pub service: &'static str,
    /// What is set, and what follows; one line.
    pub what: &'static str,
    /// The resource that says so.
    pub resource: ResourceKey,
    /// What says so in the resource.
    pub field: FieldPath,
    /// `file:line`; the name of the object if it is in no file.
    pub place: String,
}

impl Unenforced {
    /// A setting of a service, and what follows.
    pub fn service(
        (service, what): (&'static str, &'static str),
        resource: &RawResource,
        field: FieldPath,
        positions: &Positions,
    ) -> Self {
        let place = place(&resource.origin, positions.span(&resource.origin, &field).start.line);
        let (scope, resource) = (UnenforcedScope::Service, resource.key.clone());
        Self { scope, service, what, resource, field, place }
    }

    /// Limits of a resource.
    pub fn limits(what: &'static str, resource: &RawResource) -> Self {
        let place = place(&resource.origin, resource.origin.document_line());
        let (scope, resource, field) = (UnenforcedScope::Limits, resource.key.clone(), FieldPath::root());
        Self { scope, service: "ratelimit", what, resource, field, place }
    }

    /// Whether it is a setting by which no check is refused.
    pub fn is_of_checks(&self) -> bool {
        self.scope == UnenforcedScope::Service && self.service == CHECKS
    }

    /// A rule in dry run.
    pub(crate) fn rule(rule: &RuleConfig) -> Self {
        let place = place(&rule.origin, rule.origin.document_line());
        Self {
            scope: UnenforcedScope::Rule,
            service: "",
            what: RULE_IN_DRY_RUN,
            resource: rule.key.clone(),
            field: FieldPath::root().field("metadata").field("annotations").key(DRY_RUN),
            place,
        }
    }
}

fn place(origin: &Origin, line: u32) -> String {
    match line {
        0 => origin.file.to_string(),
        line => format!("{}:{line}", origin.file),
    }
}

impl Snapshot {
    /// The settings by which services enforce nothing.
    pub fn unenforced_services(&self) -> impl Iterator<Item = &Unenforced> {
        self.unenforced_settings().filter(|unenforced| unenforced.scope == UnenforcedScope::Service)
    }

    /// Whether checks of Envoy are answered OK whatever the rules say.
    pub fn shadows_checks(&self) -> bool {
        self.unenforced_settings().any(Unenforced::is_of_checks)
    }

    /// The settings by which services enforce nothing, or not all of their limits.
    pub fn unenforced_settings(&self) -> impl Iterator<Item = &Unenforced> {
        self.extensions.iter().flat_map(|config| config.unenforced())
    }

    /// The rules in dry run. Cost: a pass over all rules.
    pub fn unenforced_rules(&self) -> impl Iterator<Item = Unenforced> {
        self.rules.iter().filter(|rule| rule.dry_run).map(|rule| Unenforced::rule(rule))
    }
}
