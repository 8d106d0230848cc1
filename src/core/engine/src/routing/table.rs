//! The routing table of one snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::dry_run::DryRunCounters;
use super::rule_set::{Route, RouteAction, RouteInstance, RuleSet};
use super::shared::{self, SharedLeaves, SharedValues};
use crate::handler::{HandlerTable, LiveHandler};
use crate::snapshot::{ActionConfig, Condition, InstanceConfig, RuleConfig, Snapshot};
use crate::template::{TemplateInfo, Variety};
use mixer_attribute::{AttributeBag, Value};
use mixer_base::metrics::{DispatchCounters, Metrics};
use mixer_base::shared_map::Changed;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, ResourceKey, Severity};

/// What a set of rules is matched for. The first four are varieties; header operations are matched on their own, after a check
/// that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleKind {
    /// Attribute generators, before everything else.
    Generate,
    /// Checks.
    Check,
    /// Quotas.
    Quota,
    /// Reports.
    Report,
    /// Header operations.
    Headers,
}

impl RuleKind {
    const ALL: [RuleKind; 5] =
        [RuleKind::Generate, RuleKind::Check, RuleKind::Quota, RuleKind::Report, RuleKind::Headers];

    /// For example `check`, as metrics and logs spell it.
    pub fn name(self) -> &'static str {
        match self {
            RuleKind::Generate => "attribute-generator",
            RuleKind::Check => "check",
            RuleKind::Quota => "quota",
            RuleKind::Report => "report",
            RuleKind::Headers => "headers",
        }
    }

    /// The set that instances of a variety belong to; CHECK_WITH_OUTPUT is filed under check.
    pub fn of(variety: Variety) -> RuleKind {
        match variety {
            Variety::Check | Variety::CheckWithOutput => RuleKind::Check,
            Variety::Report => RuleKind::Report,
            Variety::Quota => RuleKind::Quota,
            Variety::AttributeGenerator => RuleKind::Generate,
        }
    }
}

/// The number of a [`Destination`] in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DestinationId(pub u32);

impl DestinationId {
    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A handler and a template: what one report call goes to.
#[derive(Debug, Clone)]
pub struct Destination {
    /// The handler.
    pub handler: Arc<LiveHandler>,
    /// The template of all instances.
    pub template: &'static TemplateInfo,
    /// Where calls of it are counted.
    pub counters: Arc<DispatchCounters>,
}

/// Rules by namespace: those of the default namespace apply to every request.
#[derive(Debug, Clone, Default)]
struct ByNamespace {
    default: RuleSet,
    own: Arc<FxHashMap<Box<[u8]>, Arc<RuleSet>>>,
}

/// The rules for one request: those of the default namespace, then those of its own.
#[derive(Debug, Clone, Copy)]
pub struct SelectedRules<'t> {
    /// Rules of the default namespace.
    pub default: &'t RuleSet,
    /// Rules of the namespace of the request, if it has any and is not the default one.
    pub own: Option<&'t RuleSet>,
}

impl<'t> SelectedRules<'t> {
    /// Both sets, in order.
    pub fn sets(self) -> impl Iterator<Item = &'t RuleSet> {
        std::iter::once(self.default).chain(self.own)
    }

    /// Number of destinations that the rules name, for the metrics.
    pub fn destinations(self) -> usize {
        self.sets().map(RuleSet::destinations).sum()
    }
}

/// All rules of a snapshot, joined with live handlers.
#[derive(Debug)]
pub struct RoutingTable {
    snapshot: Arc<Snapshot>,
    handlers: HandlerTable,
    destinations: Vec<Destination>,
    rules: [ByNamespace; 5],
    /// Rules that are tried and not enforced; `None` when there are none at all.
    dry_run: Option<Box<DryRunRules>>,
    shared: Arc<SharedValues>,
    /// What is wrong with rules, by their place in the order of rules.
    problems: Problems,
    diagnostics: Diagnostics,
}

/// Problems by rule; rules of the default namespace go first.
type Problems = Arc<BTreeMap<(bool, ResourceKey), Diagnostics>>;

impl RoutingTable {
    /// Joins a snapshot with its handlers. Actions whose handler could not be built are left out and diagnosed.
    pub fn build(snapshot: Arc<Snapshot>, handlers: HandlerTable, metrics: &Metrics) -> RoutingTable {
        let shared = Arc::new(SharedValues::of(snapshot.rules.iter()));
        let mut patch = Patch::new(metrics, &snapshot, &handlers, &shared);
        for rule in &snapshot.rules {
            patch.add(rule);
        }
        patch.finish().into_table(snapshot, handlers, shared)
    }

    /// The table of the next snapshot: what [`build`](Self::build) gives, made from this one. Cost: proportional to the rules that
    /// changed, as long as no handler did; everything else is shared between both tables.
    pub fn next(&self, snapshot: Arc<Snapshot>, handlers: HandlerTable, metrics: &Metrics) -> RoutingTable {
        let alike = Arc::ptr_eq(&snapshot.vocabulary, &self.snapshot.vocabulary)
            && snapshot.default_namespace == self.snapshot.default_namespace
            && handlers.same_as(&self.handlers);
        let before = Arc::clone(&self.snapshot);
        let changes = if alike { before.rules.changes(&snapshot.rules) } else { Vec::new() };
        if !alike || changes.len() > self.snapshot.rules.len() / 4 {
            return Self::build(snapshot, handlers, metrics);
        }
        let mut shared = Arc::clone(&self.shared);
        let concerned = |(old, new): &&Changed<'_, Arc<RuleConfig>>| {
            [old, new].into_iter().flatten().any(|rule| shared::concerns(rule))
        };
        let concerned: Vec<_> = changes.iter().filter(concerned).collect();
        concerned.iter().filter_map(|(old, _)| *old).for_each(|rule| Arc::make_mut(&mut shared).remove(rule));
        for rule in concerned.iter().filter_map(|(_, new)| *new) {
            if Arc::make_mut(&mut shared).add(rule) {
                return Self::build(snapshot, handlers, metrics);
            }
        }
        let mut patch = Patch::of(self, metrics, &snapshot, &handlers, &shared);
        changes.iter().filter_map(|(old, _)| *old).for_each(|rule| patch.remove(rule));
        changes.iter().filter_map(|(_, new)| *new).for_each(|rule| patch.add(rule));
        patch.finish().into_table(snapshot, handlers, shared)
    }

    /// How much memory is shared with `other`: chunks of rules that both have, and chunks of `self`.
    pub fn shared_chunks(&self, other: &RoutingTable) -> (usize, usize) {
        let pairs = self.rules.iter().zip(&other.rules);
        pairs
            .map(|(own, other)| own.default.shared_chunks(&other.default))
            .fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    }

    /// The snapshot behind the table.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The live handlers.
    pub fn handlers(&self) -> &HandlerTable {
        &self.handlers
    }

    /// Everything that report calls go to, by [`DestinationId`].
    pub fn destinations(&self) -> &[Destination] {
        &self.destinations
    }

    /// Number of cells for the values that instances of reports share; see [`RouteInstance::shared`](super::RouteInstance).
    pub fn shared_values(&self) -> usize {
        self.shared.len()
    }

    /// Actions that were left out for want of their handler.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.diagnostics
    }

    /// The rules that apply to a request with these attributes. Reads, and so records, `context.reporter.kind` and then the
    /// namespace attribute that it selects. Spec: runtime.md 9.2.
    pub fn select(&self, kind: RuleKind, bag: &AttributeBag<'_>) -> SelectedRules<'_> {
        let rules = self.of(kind);
        let own = self.namespace_of(bag).and_then(|namespace| rules.own.get(namespace)).map(|set| &**set);
        SelectedRules { default: &rules.default, own }
    }

    /// The rules in dry run that would apply to a request; otherwise as [`select`](Self::select). Cost without any: nothing.
    pub fn select_dry_run(&self, kind: RuleKind, bag: &AttributeBag<'_>) -> Option<SelectedRules<'_>> {
        let rules = self.dry_run.as_ref()?.rules.get(kind as usize)?;
        if rules.default.is_empty() && rules.own.is_empty() {
            return None;
        }
        let own = self.namespace_of(bag).and_then(|namespace| rules.own.get(namespace)).map(|set| &**set);
        Some(SelectedRules { default: &rules.default, own })
    }

    /// Whether any rule is in dry run.
    pub fn has_dry_run(&self) -> bool {
        self.dry_run.is_some()
    }

    /// Whether a rule that is enforced asks the same handler about the same quota.
    pub(crate) fn enforces_quota(&self, action: &RouteAction, instance: &RouteInstance) -> bool {
        self.dry_run.as_ref().is_some_and(|d| d.quotas.contains(&quota_of(action, instance)))
    }

    /// The namespace whose own rules apply to a request, if it names one; records what it reads.
    pub fn namespace_of<'a>(&self, bag: &AttributeBag<'a>) -> Option<&'a [u8]> {
        request_namespace(bag)
    }

    /// Whether there are rules of this kind anywhere.
    pub fn has(&self, kind: RuleKind) -> bool {
        let rules = self.of(kind);
        !rules.default.is_empty() || !rules.own.is_empty()
    }

    /// Number of destinations of this kind over all namespaces, for the metrics.
    pub fn destinations_of(&self, kind: RuleKind) -> usize {
        let rules = self.of(kind);
        rules.default.destinations() + rules.own.values().map(|set| set.destinations()).sum::<usize>()
    }

    fn of(&self, kind: RuleKind) -> &ByNamespace {
        let [generate, check, quota, report, headers] = &self.rules;
        match kind {
            RuleKind::Generate => generate,
            RuleKind::Check => check,
            RuleKind::Quota => quota,
            RuleKind::Report => report,
            RuleKind::Headers => headers,
        }
    }
}

/// The namespace whose own rules apply, if any is named.
fn request_namespace<'a>(bag: &AttributeBag<'a>) -> Option<&'a [u8]> {
    let vocabulary = bag.vocabulary();
    let attribute = match bag.get(vocabulary.reporter_kind()) {
        Some(Value::String(b"outbound")) => vocabulary.source_namespace(),
        Some(Value::String(kind)) if kind != b"inbound" => return None,
        _ => vocabulary.destination_namespace(),
    };
    match bag.get(attribute) {
        Some(Value::String(namespace)) => Some(namespace),
        _ => None,
    }
}

/// Rules that are tried and not enforced.
#[derive(Debug)]
struct DryRunRules {
    /// By [`RuleKind`].
    rules: [ByNamespace; 5],
    /// How many there are.
    count: usize,
    /// What rules that are enforced ask quota handlers about.
    quotas: FxHashSet<(usize, usize)>,
}

/// A handler of this table, and one of its instances.
fn quota_of(action: &RouteAction, instance: &RouteInstance) -> (usize, usize) {
    (Arc::as_ptr(&action.handler).addr(), instance.bound)
}

impl ByNamespace {
    /// Handler and number of every instance.
    fn instances(&self) -> FxHashSet<(usize, usize)> {
        let sets = std::iter::once(&self.default).chain(self.own.values().map(|set| &**set));
        let actions = sets.flat_map(RuleSet::routes).flat_map(|route| &route.actions);
        actions.flat_map(|action| action.instances.iter().map(move |i| quota_of(action, i))).collect()
    }
}

/// A table in the making: rules go in and out, one at a time.
struct Patch<'m> {
    metrics: &'m Metrics,
    snapshot: &'m Snapshot,
    handlers: &'m HandlerTable,
    shared: &'m SharedValues,
    rules: [ByNamespace; 5],
    dry_run: [ByNamespace; 5],
    dry_runs: usize,
    destinations: Vec<Destination>,
    known: FxHashMap<(*const LiveHandler, &'static str), DestinationId>,
    problems: Problems,
}

/// What a finished patch gives.
struct Patched {
    rules: [ByNamespace; 5],
    dry_run: Option<Box<DryRunRules>>,
    destinations: Vec<Destination>,
    problems: Problems,
}

impl Patched {
    fn into_table(
        self,
        snapshot: Arc<Snapshot>,
        handlers: HandlerTable,
        shared: Arc<SharedValues>,
    ) -> RoutingTable {
        let Patched { rules, dry_run, destinations, problems } = self;
        let diagnostics = problems.values().flatten().cloned().collect();
        RoutingTable { snapshot, handlers, destinations, rules, dry_run, shared, problems, diagnostics }
    }
}

impl<'m> Patch<'m> {
    /// A table without rules.
    fn new(
        metrics: &'m Metrics,
        snapshot: &'m Snapshot,
        handlers: &'m HandlerTable,
        shared: &'m SharedValues,
    ) -> Self {
        Self {
            metrics,
            snapshot,
            handlers,
            shared,
            rules: Default::default(),
            dry_run: Default::default(),
            dry_runs: 0,
            destinations: Vec::new(),
            known: FxHashMap::default(),
            problems: Problems::default(),
        }
    }

    /// A table with the rules of another one.
    fn of(
        table: &RoutingTable,
        metrics: &'m Metrics,
        snapshot: &'m Snapshot,
        handlers: &'m HandlerTable,
        shared: &'m SharedValues,
    ) -> Self {
        let known = (0..).zip(&table.destinations);
        let known = known.map(|(i, d)| ((Arc::as_ptr(&d.handler), d.template.name), DestinationId(i)));
        Self {
            rules: table.rules.clone(),
            dry_run: table.dry_run.as_ref().map_or_else(Default::default, |d| d.rules.clone()),
            dry_runs: table.dry_run.as_ref().map_or(0, |d| d.count),
            destinations: table.destinations.clone(),
            known: known.collect(),
            problems: Arc::clone(&table.problems),
            ..Self::new(metrics, snapshot, handlers, shared)
        }
    }

    fn finish(self) -> Patched {
        let Patch { rules, dry_run, dry_runs, destinations, problems, .. } = self;
        let dry_run = (dry_runs > 0).then(|| {
            let [_, _, quotas, _, _] = &rules;
            Box::new(DryRunRules { rules: dry_run, count: dry_runs, quotas: quotas.instances() })
        });
        Patched { rules, dry_run, destinations, problems }
    }

    fn add(&mut self, rule: &Arc<RuleConfig>) {
        self.dry_runs += usize::from(rule.dry_run);
        if let Condition::Broken(cause) = &rule.condition {
            self.note(rule, uncompiled(rule, cause));
            return;
        }
        let mut routes: [Option<Route>; 5] = Default::default();
        for action in &rule.actions {
            match self.handlers.get(&action.handler.key) {
                Some(handler) => self.add_action(rule, action, handler, &mut routes),
                None => self.note(rule, unsatisfied(rule, action)),
            }
        }
        let [_, _, _, _, headers] = &mut routes;
        if !rule.request_headers.is_empty() || !rule.response_headers.is_empty() {
            headers.get_or_insert_with(|| route(rule, RuleKind::Headers, self.metrics));
        }
        for (kind, route) in RuleKind::ALL.into_iter().zip(routes) {
            if let Some(route) = route {
                self.change(kind, rule, |set| set.add(route));
            }
        }
    }

    fn remove(&mut self, rule: &RuleConfig) {
        self.dry_runs -= usize::from(rule.dry_run);
        let key = self.problem_key(rule);
        if self.problems.contains_key(&key) {
            Arc::make_mut(&mut self.problems).remove(&key);
        }
        for kind in RuleKind::ALL {
            let here = match kind {
                RuleKind::Headers => !rule.request_headers.is_empty() || !rule.response_headers.is_empty(),
                kind => rule.actions.iter().flat_map(|a| &a.instances).any(|i| kind_of(i) == kind),
            };
            if here {
                self.change(kind, rule, |set| set.remove(rule));
            }
        }
    }

    fn add_action(
        &mut self,
        rule: &Arc<RuleConfig>,
        action: &ActionConfig,
        handler: &Arc<LiveHandler>,
        routes: &mut [Option<Route>; 5],
    ) {
        for (kind, into) in RuleKind::ALL.into_iter().zip(routes) {
            let mut instances = action.instances.iter().filter(|i| kind_of(i) == kind).peekable();
            if instances.peek().is_none() {
                continue;
            }
            let shared = self.shared;
            let share = kind == RuleKind::Report && !rule.dry_run;
            let routed = instances.map(|instance| {
                let leaves = if share { shared.leaves(instance) } else { SharedLeaves::default() };
                (Arc::clone(instance), self.destination(handler, instance.template()), leaves)
            });
            let action = RouteAction::new(handler, action.index, routed);
            into.get_or_insert_with(|| route(rule, kind, self.metrics)).actions.push(action);
        }
    }

    fn destination(&mut self, handler: &Arc<LiveHandler>, template: &'static TemplateInfo) -> DestinationId {
        let next = DestinationId(u32::try_from(self.destinations.len()).unwrap_or(u32::MAX));
        *self.known.entry((Arc::as_ptr(handler), template.name)).or_insert_with(|| {
            let counters = self.metrics.dispatch(handler.name(), handler.adapter(), template.name);
            self.destinations.push(Destination { handler: Arc::clone(handler), template, counters });
            next
        })
    }

    /// Changes the set of a rule. A set without rules is not kept.
    fn change(&mut self, kind: RuleKind, rule: &RuleConfig, change: impl FnOnce(&mut RuleSet)) {
        let sets = if rule.dry_run { &mut self.dry_run } else { &mut self.rules };
        let Some(sets) = sets.get_mut(kind as usize) else { return };
        if rule.key.namespace == self.snapshot.default_namespace {
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
        (rule.key.namespace != self.snapshot.default_namespace, rule.key.clone())
    }

    fn note(&mut self, rule: &RuleConfig, problem: Diagnostic) {
        let key = self.problem_key(rule);
        Arc::make_mut(&mut self.problems).entry(key).or_default().push(problem);
    }
}

fn kind_of(instance: &InstanceConfig) -> RuleKind {
    RuleKind::of(instance.template().variety)
}

/// A rule without actions yet.
fn route(rule: &Arc<RuleConfig>, kind: RuleKind, metrics: &Metrics) -> Route {
    let counters = || Arc::new(DryRunCounters::new(metrics, &rule.key.to_string(), kind));
    Route { rule: Arc::clone(rule), actions: Vec::new(), dry_run: rule.dry_run.then(counters), order: 0 }
}

fn uncompiled(rule: &RuleConfig, cause: &str) -> Diagnostic {
    let text = format!(
        "Unable to compile match condition expression: '{cause}', rule='{}', expression='{}'",
        rule.key, rule.match_text
    );
    let field = FieldPath::root().field("spec").field("match");
    let mut diagnostic = Diagnostic::new(Severity::Warning, "rule-skipped", field, text.clone())
        .with_legacy(text)
        .with_resource(rule.key.to_string())
        .with_hint("the rule never applies until its condition is mended");
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
        .with_hint("the handler could not be built; its own diagnostic says why");
    diagnostic.file = Some(Arc::clone(&rule.origin.file));
    diagnostic
}
