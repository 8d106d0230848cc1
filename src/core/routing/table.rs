//! The routing table of one snapshot.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::dry_run::DryRunCounters;
use super::rule_set::{RouteAction, RouteInstance, RuleSet, RuleSetBuilder};
use super::shared;
use crate::core::attribute::{AttributeBag, Value};
use crate::core::config::{Diagnostic, Diagnostics, FieldPath, Severity};
use crate::core::handler::{HandlerTable, LiveHandler};
use crate::core::snapshot::{ActionConfig, Condition, RuleConfig, Snapshot};
use crate::core::telemetry::metrics::{DispatchCounters, Metrics};
use crate::core::template::{TemplateInfo, Variety};

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
#[derive(Debug)]
pub struct Destination {
    /// The handler.
    pub handler: Arc<LiveHandler>,
    /// The template of all instances.
    pub template: &'static TemplateInfo,
    /// Where calls of it are counted.
    pub counters: Arc<DispatchCounters>,
}

/// Rules by namespace: those of the default namespace apply to every request.
#[derive(Debug, Default)]
struct ByNamespace {
    default: RuleSet,
    own: FxHashMap<Box<[u8]>, RuleSet>,
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
    shared_values: usize,
    diagnostics: Diagnostics,
}

impl RoutingTable {
    /// Joins a snapshot with its handlers. Actions whose handler could not be built are left out and diagnosed.
    pub fn build(snapshot: Arc<Snapshot>, handlers: HandlerTable, metrics: &Metrics) -> RoutingTable {
        let mut builder = TableBuilder::new(metrics);
        for rule in &snapshot.rules {
            builder.add(rule, &snapshot.default_namespace, &handlers);
        }
        let dry_run = snapshot.rules.iter().any(|rule| rule.dry_run);
        let mut rules = builder.rules.map(SetsBuilder::build);
        let dry_run = dry_run.then(|| {
            let [_, _, quotas, _, _] = &rules;
            Box::new(DryRunRules {
                rules: builder.dry_run.map(SetsBuilder::build),
                quotas: quotas.instances(),
            })
        });
        let [_, _, _, report, _] = &mut rules;
        let shared_values = shared::assign(report.own.values_mut().chain([&mut report.default]));
        RoutingTable {
            shared_values,
            destinations: builder.destinations,
            diagnostics: builder.diagnostics,
            rules,
            dry_run,
            snapshot,
            handlers,
        }
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
        self.shared_values
    }

    /// Actions that were left out for want of their handler.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.diagnostics
    }

    /// The rules that apply to a request with these attributes. Reads, and so records, `context.reporter.kind` and then the
    /// namespace attribute that it selects. Spec: runtime.md 9.2.
    pub fn select(&self, kind: RuleKind, bag: &AttributeBag<'_>) -> SelectedRules<'_> {
        let rules = self.of(kind);
        let own = self.namespace_of(bag).and_then(|namespace| rules.own.get(namespace));
        SelectedRules { default: &rules.default, own }
    }

    /// The rules in dry run that would apply to a request; otherwise as [`select`](Self::select). Cost without any: nothing.
    pub fn select_dry_run(&self, kind: RuleKind, bag: &AttributeBag<'_>) -> Option<SelectedRules<'_>> {
        let rules = self.dry_run.as_ref()?.rules.get(kind as usize)?;
        if rules.default.is_empty() && rules.own.is_empty() {
            return None;
        }
        let own = self.namespace_of(bag).and_then(|namespace| rules.own.get(namespace));
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
        rules.default.destinations() + rules.own.values().map(RuleSet::destinations).sum::<usize>()
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
        let sets = std::iter::once(&self.default).chain(self.own.values());
        let actions = sets.flat_map(RuleSet::routes).flat_map(|route| &route.actions);
        actions.flat_map(|action| action.instances.iter().map(move |i| quota_of(action, i))).collect()
    }
}

#[derive(Default)]
struct SetsBuilder {
    default: RuleSetBuilder,
    own: FxHashMap<Box<[u8]>, RuleSetBuilder>,
}

impl SetsBuilder {
    fn build(self) -> ByNamespace {
        ByNamespace {
            default: self.default.build(),
            own: self.own.into_iter().map(|(namespace, set)| (namespace, set.build())).collect(),
        }
    }
}

struct TableBuilder<'m> {
    metrics: &'m Metrics,
    rules: [SetsBuilder; 5],
    dry_run: [SetsBuilder; 5],
    destinations: Vec<Destination>,
    known: FxHashMap<(*const LiveHandler, &'static str), DestinationId>,
    diagnostics: Diagnostics,
}

impl<'m> TableBuilder<'m> {
    fn new(metrics: &'m Metrics) -> Self {
        Self {
            metrics,
            rules: Default::default(),
            dry_run: Default::default(),
            destinations: Vec::new(),
            known: FxHashMap::default(),
            diagnostics: Diagnostics::new(),
        }
    }

    fn add(&mut self, rule: &Arc<RuleConfig>, default_namespace: &str, handlers: &HandlerTable) {
        if let Condition::Broken(cause) = &rule.condition {
            self.diagnostics.push(uncompiled(rule, cause));
            return;
        }
        for action in &rule.actions {
            match handlers.get(&action.handler.key) {
                Some(handler) => self.add_action(rule, action, handler, default_namespace),
                None => self.diagnostics.push(unsatisfied(rule, action)),
            }
        }
        if !rule.request_headers.is_empty() || !rule.response_headers.is_empty() {
            self.set(RuleKind::Headers, rule, default_namespace);
        }
    }

    fn add_action(
        &mut self,
        rule: &Arc<RuleConfig>,
        action: &ActionConfig,
        handler: &Arc<LiveHandler>,
        default_namespace: &str,
    ) {
        for kind in RuleKind::ALL {
            let instances: Vec<_> =
                action.instances.iter().filter(|i| RuleKind::of(i.template().variety) == kind).collect();
            if instances.is_empty() || kind == RuleKind::Headers {
                continue;
            }
            let routed = instances
                .into_iter()
                .map(|instance| (Arc::clone(instance), self.destination(handler, instance.template())))
                .collect();
            self.set(kind, rule, default_namespace).add_action(handler, action.index, routed);
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

    /// The set of a rule, with the rule in it.
    fn set(
        &mut self,
        kind: RuleKind,
        rule: &Arc<RuleConfig>,
        default_namespace: &str,
    ) -> &mut RuleSetBuilder {
        let metrics = self.metrics;
        let [generate, check, quota, report, headers] =
            if rule.dry_run { &mut self.dry_run } else { &mut self.rules };
        let sets = match kind {
            RuleKind::Generate => generate,
            RuleKind::Check => check,
            RuleKind::Quota => quota,
            RuleKind::Report => report,
            RuleKind::Headers => headers,
        };
        let set = if &*rule.key.namespace == default_namespace {
            &mut sets.default
        } else {
            sets.own.entry(rule.key.namespace.as_bytes().into()).or_default()
        };
        set.add_rule(rule, || {
            rule.dry_run.then(|| Arc::new(DryRunCounters::new(metrics, &rule.key.to_string(), kind)))
        });
        set
    }
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
