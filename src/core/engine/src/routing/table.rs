//! The routing table of one snapshot.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use super::kind::RuleKind;
use super::namespace_fault::{FoldedNames, NamespaceFault};
use super::namespaces::{NamespaceRules, SelectedRules, request_namespace, target};
use super::patch::{PatchContext, RoutedRules, RulePatch};
use super::route::{Destination, RouteAction, RouteInstance};
use super::shared::{self, SharedValues};
use crate::handler::HandlerTable;
use crate::snapshot::{HeaderOperationKind, RuleConfig, Snapshot};
use mixer_attribute::AttributeBag;
use mixer_base::metrics::Metrics;
use mixer_base::shared_map::Changed;
use mixer_config::Diagnostics;

/// All rules of a snapshot, joined with live handlers.
#[derive(Debug)]
pub struct RoutingTable {
    snapshot: Arc<Snapshot>,
    handlers: HandlerTable,
    rules: RoutedRules,
    shared: Arc<SharedValues>,
    diagnostics: Diagnostics,
    /// Namespaces whose rules may refuse requests, from the first request on that names another one.
    folded_names: OnceLock<FoldedNames>,
}

impl RoutingTable {
    /// Joins a snapshot with its handlers. Actions whose handler could not be built are left out and diagnosed.
    pub fn build(snapshot: Arc<Snapshot>, handlers: HandlerTable, metrics: &Metrics) -> RoutingTable {
        let shared = Arc::new(SharedValues::of(snapshot.rules.iter()));
        let context = PatchContext { metrics, snapshot: &snapshot, handlers: &handlers, shared: &shared };
        let mut patch = RulePatch::new(&RoutedRules::default(), context);
        for rule in &snapshot.rules {
            patch.add(rule);
        }
        let rules = patch.finish();
        Self::over(snapshot, handlers, shared, rules)
    }

    fn over(
        snapshot: Arc<Snapshot>,
        handlers: HandlerTable,
        shared: Arc<SharedValues>,
        rules: RoutedRules,
    ) -> Self {
        let diagnostics = rules.diagnostics();
        Self { snapshot, handlers, rules, shared, diagnostics, folded_names: OnceLock::new() }
    }

    /// The table of the next snapshot: equal to what [`build`](Self::build) returns, made from this one. Cost: proportional to the
    /// rules that changed, as long as no handler did; both tables share everything else.
    pub(crate) fn next(
        &self,
        snapshot: Arc<Snapshot>,
        handlers: HandlerTable,
        metrics: &Metrics,
    ) -> RoutingTable {
        let comparable = Arc::ptr_eq(&snapshot.vocabulary, &self.snapshot.vocabulary)
            && snapshot.default_namespace == self.snapshot.default_namespace
            && handlers.same_as(&self.handlers);
        let before = Arc::clone(&self.snapshot);
        let changes = if comparable { before.rules.changes(&snapshot.rules) } else { Vec::new() };
        if !comparable || changes.len() > self.snapshot.rules.len() / 4 {
            return Self::build(snapshot, handlers, metrics);
        }
        let mut shared = Arc::clone(&self.shared);
        let shares_values = |(old, new): &&Changed<'_, Arc<RuleConfig>>| {
            [old, new].into_iter().flatten().any(|rule| shared::has_shareable_values(rule))
        };
        let sharing: Vec<_> = changes.iter().filter(shares_values).collect();
        sharing.iter().filter_map(|(old, _)| *old).for_each(|rule| Arc::make_mut(&mut shared).remove(rule));
        for rule in sharing.iter().filter_map(|(_, new)| *new) {
            if Arc::make_mut(&mut shared).add(rule) {
                return Self::build(snapshot, handlers, metrics);
            }
        }
        let context = PatchContext { metrics, snapshot: &snapshot, handlers: &handlers, shared: &shared };
        let mut patch = RulePatch::new(&self.rules, context);
        changes.iter().filter_map(|(old, _)| *old).for_each(|rule| patch.remove(rule));
        changes.iter().filter_map(|(_, new)| *new).for_each(|rule| patch.add(rule));
        let rules = patch.finish();
        Self::over(snapshot, handlers, shared, rules)
    }

    /// The snapshot behind the table.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The live handlers.
    pub fn handlers(&self) -> &HandlerTable {
        &self.handlers
    }

    /// All targets of report calls, by [`DestinationId`](super::DestinationId).
    pub fn destinations(&self) -> &[Destination] {
        &self.rules.destinations
    }

    /// Number of cells for values that report instances share.
    pub(crate) fn shared_values(&self) -> usize {
        self.shared.len()
    }

    /// Actions that were left out because their handler was not built.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.diagnostics
    }

    /// The rules that apply to a request with these attributes. Reads, and so records, `context.reporter.kind` and then the
    /// namespace attribute that it selects.
    pub fn select(&self, kind: RuleKind, bag: &AttributeBag<'_>) -> SelectedRules<'_> {
        self.of(kind).select(bag)
    }

    /// The rules in dry run that would apply to a request; otherwise as [`select`](Self::select). Cost without any: one comparison.
    pub fn select_dry_run(&self, kind: RuleKind, bag: &AttributeBag<'_>) -> Option<SelectedRules<'_>> {
        let rules = self.rules.dry_run.as_ref()?.rules.get(kind as usize)?;
        (!rules.is_empty()).then(|| rules.select(bag))
    }

    /// Whether any rule is in dry run.
    pub fn has_dry_run(&self) -> bool {
        self.rules.dry_run.is_some()
    }

    /// Whether an enforced rule allocates the same quota of the same handler. False for a table without rules in dry run.
    pub(crate) fn enforces_quota(&self, action: &RouteAction, instance: &RouteInstance) -> bool {
        self.rules.dry_run.as_ref().is_some_and(|d| d.enforced_quotas.contains(&target(action, instance)))
    }

    /// Whether an enforced rule of any namespace has a quota of this name. False for a table without rules in dry run.
    pub(crate) fn is_quota_enforced(&self, name: &str) -> bool {
        self.rules.dry_run.as_ref().is_some_and(|d| d.enforced_quota_names.contains(&name.to_lowercase()))
    }

    /// The namespace whose own rules apply to a request, if the request names one; records what it reads.
    pub fn namespace_of<'a>(&self, bag: &AttributeBag<'a>) -> Option<&'a [u8]> {
        request_namespace(bag)
    }

    /// What a request names instead of a namespace, while namespaces other than the default one have rules that may refuse requests or change
    /// their headers; records what it reads. Cost without such rules: three comparisons; with a namespace that has some: a look-up more.
    pub fn namespace_fault(&self, bag: &AttributeBag<'_>) -> Option<NamespaceFault> {
        if !self.decides_by_namespace() {
            return None;
        }
        let Some(named) = request_namespace(bag).filter(|name| !name.is_empty()) else {
            return Some(NamespaceFault::Missing);
        };
        let is_known = self.deciding().any(|rules| rules.own.contains_key(named))
            || named == self.snapshot.default_namespace.as_bytes();
        if is_known {
            return None;
        }
        let names = self.folded_names.get_or_init(|| FoldedNames::of(self.deciding()));
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let meant = names.meant_by(named, self.deciding())?;
        Some(NamespaceFault::Misspelt { named: text(named), meant: text(meant) })
    }

    /// Whether namespaces other than the default one have rules that may refuse requests or change their headers.
    pub fn decides_by_namespace(&self) -> bool {
        self.deciding().any(|rules| !rules.own.is_empty())
    }

    /// The rules that may refuse requests or change their headers.
    fn deciding(&self) -> impl Iterator<Item = &NamespaceRules> {
        [RuleKind::Check, RuleKind::Default, RuleKind::Headers].into_iter().map(|kind| self.of(kind))
    }

    /// The request headers that an enforced rule of any namespace replaces or removes, in lower case and in order.
    pub fn guarded_request_headers(&self) -> Vec<String> {
        let operations = self.of(RuleKind::Headers).routes().flat_map(|route| &route.rule.request_headers);
        let guards = operations.filter(|operation| operation.kind != HeaderOperationKind::Append);
        let names: BTreeSet<_> = guards.map(|operation| operation.name.to_ascii_lowercase()).collect();
        names.into_iter().collect()
    }

    /// Whether any namespace has rules of this kind.
    pub fn has(&self, kind: RuleKind) -> bool {
        !self.of(kind).is_empty()
    }

    /// Number of destinations of this kind over all namespaces, for the metrics.
    pub(crate) fn destinations_of(&self, kind: RuleKind) -> usize {
        self.of(kind).destinations()
    }

    fn of(&self, kind: RuleKind) -> &NamespaceRules {
        let [generate, check, quota, report, headers, default] = &self.rules.enforced;
        match kind {
            RuleKind::Generate => generate,
            RuleKind::Check => check,
            RuleKind::Quota => quota,
            RuleKind::Report => report,
            RuleKind::Headers => headers,
            RuleKind::Default => default,
        }
    }
}
