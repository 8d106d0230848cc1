//! Adds and removes rules of a routing table.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashSet;
use rustc_hash::{FxHashMap, FxHashSet};

use super::dry_run::DryRunCounters;
use super::kind::RuleKind;
use super::namespaces::{InstanceTarget, NamespaceRules};
use super::route::{Destination, DestinationId, Route, RouteAction};
use super::rule_set::RuleSet;
use super::shared::{SharedLeaves, SharedValues};
use crate::handler::{HandlerTable, LiveHandler};
use crate::snapshot::{ActionConfig, Condition, InstanceConfig, RuleConfig, Snapshot};
use crate::template::{Name, TemplateInfo};
use mixer_base::metrics::Metrics;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, ResourceKey, Severity};

/// Everything in a routing table that rules contribute to.
#[derive(Debug, Default)]
pub(super) struct RoutedRules {
    /// By [`RuleKind`].
    pub(super) enforced: [NamespaceRules; 6],
    /// `None` when no rule is in dry run.
    pub(super) dry_run: Option<Box<DryRunRules>>,
    /// By [`DestinationId`].
    pub(super) destinations: Vec<Destination>,
    problems: RuleProblems,
}

/// Rules that are evaluated and not enforced.
#[derive(Debug)]
pub(super) struct DryRunRules {
    /// By [`RuleKind`].
    pub(super) rules: [NamespaceRules; 6],
    count: usize,
    /// Targets of the enforced quota rules.
    pub(super) enforced_quotas: FxHashSet<InstanceTarget>,
    /// Their short names, in lower case.
    pub(super) enforced_quota_names: HashSet<String>,
}

/// Problems by rule; rules of the default namespace sort first.
type RuleProblems = Arc<BTreeMap<(bool, ResourceKey), Diagnostics>>;

impl RoutedRules {
    /// The problems of all rules, in their order.
    pub(super) fn diagnostics(&self) -> Diagnostics {
        self.problems.values().flatten().cloned().collect()
    }
}

/// What rules are joined with.
#[derive(Clone, Copy)]
pub(super) struct PatchContext<'m> {
    pub(super) metrics: &'m Metrics,
    pub(super) snapshot: &'m Snapshot,
    pub(super) handlers: &'m HandlerTable,
    pub(super) shared: &'m SharedValues,
}

/// Rules of a table under construction, added and removed one at a time.
pub(super) struct RulePatch<'m> {
    context: PatchContext<'m>,
    rules: [NamespaceRules; 6],
    dry_run: [NamespaceRules; 6],
    dry_run_count: usize,
    destinations: Vec<Destination>,
    known_destinations: FxHashMap<(*const LiveHandler, Name), DestinationId>,
    problems: RuleProblems,
}

impl<'m> RulePatch<'m> {
    /// Starts with the rules of another table.
    pub(super) fn new(before: &RoutedRules, context: PatchContext<'m>) -> Self {
        let known = (0..).zip(&before.destinations);
        let known =
            known.map(|(i, d)| ((Arc::as_ptr(&d.handler), d.template.name.clone()), DestinationId(i)));
        Self {
            context,
            rules: before.enforced.clone(),
            dry_run: before.dry_run.as_ref().map_or_else(Default::default, |d| d.rules.clone()),
            dry_run_count: before.dry_run.as_ref().map_or(0, |d| d.count),
            destinations: before.destinations.clone(),
            known_destinations: known.collect(),
            problems: Arc::clone(&before.problems),
        }
    }

    pub(super) fn finish(self) -> RoutedRules {
        let RulePatch { rules, dry_run, dry_run_count, destinations, problems, .. } = self;
        let dry_run = (dry_run_count > 0).then(|| {
            let [_, _, quotas, _, _, _] = &rules;
            Box::new(DryRunRules {
                rules: dry_run,
                count: dry_run_count,
                enforced_quotas: quotas.targets(),
                enforced_quota_names: quotas.instance_names(),
            })
        });
        RoutedRules { enforced: rules, dry_run, destinations, problems }
    }

    pub(super) fn add(&mut self, rule: &Arc<RuleConfig>) {
        self.dry_run_count += usize::from(rule.dry_run);
        if let Condition::Broken(cause) = &rule.condition {
            self.note(rule, uncompiled(rule, cause));
            if rule.denies_by_default {
                // What it would select is unknown: all of it is closed, whatever happens to a condition that fails.
                let closed = route(rule, RuleKind::Default, self.context.metrics);
                self.change(RuleKind::Default, rule, |set| set.add(closed));
            }
            return;
        }
        let mut routes: [Option<Route>; 6] = Default::default();
        for action in &rule.actions {
            match self.context.handlers.get(&action.handler.key) {
                Some(handler) => self.add_action(rule, action, handler, &mut routes),
                None => self.note(rule, unsatisfied(rule, action)),
            }
        }
        let [_, _, _, _, headers, default] = &mut routes;
        if rule.has_header_operations {
            headers.get_or_insert_with(|| route(rule, RuleKind::Headers, self.context.metrics));
        }
        if rule.denies_by_default {
            default.get_or_insert_with(|| route(rule, RuleKind::Default, self.context.metrics));
        }
        for (kind, route) in RuleKind::ALL.into_iter().zip(routes) {
            if let Some(route) = route {
                self.change(kind, rule, |set| set.add(route));
            }
        }
    }

    pub(super) fn remove(&mut self, rule: &RuleConfig) {
        self.dry_run_count -= usize::from(rule.dry_run);
        let key = self.problem_key(rule);
        if self.problems.contains_key(&key) {
            Arc::make_mut(&mut self.problems).remove(&key);
        }
        for kind in RuleKind::ALL {
            let has_kind = match kind {
                RuleKind::Headers => rule.has_header_operations,
                RuleKind::Default => rule.denies_by_default,
                kind => rule.actions.iter().flat_map(|a| &a.instances).any(|i| kind_of(i) == kind),
            };
            if has_kind {
                self.change(kind, rule, |set| set.remove(rule));
            }
        }
    }

    fn add_action(
        &mut self,
        rule: &Arc<RuleConfig>,
        action: &ActionConfig,
        handler: &Arc<LiveHandler>,
        routes: &mut [Option<Route>; 6],
    ) {
        let PatchContext { metrics, shared, .. } = self.context;
        for (kind, into) in RuleKind::ALL.into_iter().zip(routes) {
            let mut instances = action.instances.iter().filter(|i| kind_of(i) == kind).peekable();
            if instances.peek().is_none() {
                continue;
            }
            let share = kind == RuleKind::Report && !rule.dry_run;
            let routed = instances.map(|instance| {
                let leaves = if share { shared.leaves(instance) } else { SharedLeaves::default() };
                (Arc::clone(instance), self.destination(handler, instance.template()), leaves)
            });
            let action = RouteAction::new(rule, handler, action.index, routed);
            into.get_or_insert_with(|| route(rule, kind, metrics)).actions.push(action);
        }
    }

    fn destination(&mut self, handler: &Arc<LiveHandler>, template: &Arc<TemplateInfo>) -> DestinationId {
        let next = DestinationId(u32::try_from(self.destinations.len()).unwrap_or(u32::MAX));
        *self.known_destinations.entry((Arc::as_ptr(handler), template.name.clone())).or_insert_with(|| {
            let counters = self.context.metrics.dispatch(handler.name(), handler.adapter(), &template.name);
            self.destinations.push(Destination {
                handler: Arc::clone(handler),
                template: Arc::clone(template),
                counters,
            });
            next
        })
    }

    /// Changes the set of a rule; drops the set when it becomes empty.
    fn change(&mut self, kind: RuleKind, rule: &RuleConfig, change: impl FnOnce(&mut RuleSet)) {
        let sets = if rule.dry_run { &mut self.dry_run } else { &mut self.rules };
        let Some(sets) = sets.get_mut(kind as usize) else { return };
        if rule.key.namespace == self.context.snapshot.default_namespace {
            change(&mut sets.default);
            return;
        }
        let own = Arc::make_mut(&mut sets.own);
        let namespace = rule.key.namespace.as_bytes();
        if !own.contains_key(namespace) {
            own.insert(namespace.into(), Arc::default());
        }
        if let Some(set) = own.get_mut(namespace) {
            change(Arc::make_mut(set));
            if set.is_empty() {
                own.remove(namespace);
            }
        }
    }

    fn problem_key(&self, rule: &RuleConfig) -> (bool, ResourceKey) {
        (rule.key.namespace != self.context.snapshot.default_namespace, rule.key.clone())
    }

    fn note(&mut self, rule: &RuleConfig, problem: Diagnostic) {
        let key = self.problem_key(rule);
        Arc::make_mut(&mut self.problems).entry(key).or_default().push(problem);
    }
}

fn kind_of(instance: &InstanceConfig) -> RuleKind {
    RuleKind::of(instance.template().variety)
}

/// A route without actions.
fn route(rule: &Arc<RuleConfig>, kind: RuleKind, metrics: &Metrics) -> Route {
    let name = rule.key.to_string();
    let dry_run = || Arc::new(DryRunCounters::new(metrics, &name, kind));
    Route::new(rule, kind, metrics.rule(&name), rule.dry_run.then(dry_run))
}

/// The problem of a rule whose condition does not compile.
fn uncompiled(rule: &RuleConfig, cause: &str) -> Diagnostic {
    let field = FieldPath::root().field("spec").field("match");
    let diagnostic = if rule.denies_by_default {
        let text = format!(
            "the default {} has an error: it refuses all requests of its namespace that no rule allows",
            rule.key
        );
        Diagnostic::warning("default-closed", field, text).with_hint("mend its other diagnostic")
    } else {
        let text = format!(
            "Unable to compile match condition expression: '{cause}', rule='{}', expression='{}'",
            rule.key, rule.match_text
        );
        Diagnostic::warning("rule-skipped", field, text.clone())
            .with_legacy(text)
            .with_hint("the rule never applies until its condition is fixed")
    };
    let mut diagnostic = diagnostic.with_resource(rule.key.to_string());
    diagnostic.file = Some(Arc::clone(&rule.origin.file));
    diagnostic
}

fn unsatisfied(rule: &RuleConfig, action: &ActionConfig) -> Diagnostic {
    let text = format!(
        "Unable to find a handler for action. rule[action]='{}[{}]', handler='{}'",
        rule.key, action.index, action.handler.name
    );
    let field = FieldPath::root().field("spec").field("actions").index(action.index).field("handler");
    let mut diagnostic = Diagnostic::new(Severity::Warning, "handler-missing", field, text.clone())
        .with_legacy(text)
        .with_resource(rule.key.to_string())
        .with_hint("the handler could not be built; see its own diagnostic");
    diagnostic.file = Some(Arc::clone(&rule.origin.file));
    diagnostic
}
