//! One rule joined with live handlers.

use std::sync::Arc;
use std::time::Instant;

use super::dry_run::DryRunCounters;
use super::kind::RuleKind;
use super::shared::SharedLeaves;
use crate::adapter::{CheckPower, HandlerError};
use crate::handler::LiveHandler;
use crate::snapshot::{Allowance, Evasion, InstanceConfig, OnError, RuleConfig};
use crate::template::{TemplateInfo, Variety};
use mixer_base::metrics::{DispatchCounters, RuleCounters};
use mixer_base::shared_map::Keyed;
use mixer_expr::EvalError;

/// The index of a [`Destination`] in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DestinationId(pub(super) u32);

impl DestinationId {
    /// Its position in [`RoutingTable::destinations`](super::RoutingTable::destinations).
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A handler and a template: the target of one report call.
#[derive(Debug, Clone)]
pub struct Destination {
    /// The handler.
    pub handler: Arc<LiveHandler>,
    /// The template of all instances.
    pub template: Arc<TemplateInfo>,
    /// Counters of its calls.
    pub(crate) counters: Arc<DispatchCounters>,
}

impl Destination {
    /// Counts a call that began at `started`, and tells its handler how it ended.
    pub(crate) fn record<T>(&self, started: Instant, result: &Result<T, HandlerError>) {
        self.counters.record(started.elapsed(), result.is_err());
        self.ended(result);
    }

    /// Counts a call that began at `started`, whose caller left before its answer.
    pub(crate) fn count_left(&self, started: Instant) {
        self.counters.record(started.elapsed(), true);
    }

    /// Tells the handler how a call ended.
    pub(crate) fn ended<T>(&self, result: &Result<T, HandlerError>) {
        // A report decides nothing.
        if self.template.variety != Variety::Report {
            self.handler.ended(result.as_ref().err());
        }
    }
}

/// Destinations with the number of instances that are routed to each.
#[derive(Debug, Clone, Default)]
pub(super) struct DestinationUses(Vec<(DestinationId, usize)>);

impl DestinationUses {
    /// Number of destinations.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Counts the instances of a route.
    pub(super) fn add(&mut self, route: &Route) {
        for instance in route.instances() {
            match self.0.iter_mut().find(|(known, _)| *known == instance.destination) {
                Some((_, uses)) => *uses += 1,
                None => self.0.push((instance.destination, 1)),
            }
        }
    }

    /// Takes the instances of a route back.
    pub(super) fn remove(&mut self, route: &Route) {
        for instance in route.instances() {
            if let Some((_, uses)) = self.0.iter_mut().find(|(known, _)| *known == instance.destination) {
                *uses -= 1;
            }
        }
        self.0.retain(|(_, uses)| *uses > 0);
    }
}

/// An instance routed to a handler.
#[derive(Debug, Clone)]
pub struct RouteInstance {
    /// The instance.
    pub config: Arc<InstanceConfig>,
    /// Its index among the instances bound to the handler.
    pub bound: usize,
    /// Its destination.
    pub destination: DestinationId,
    /// Leaves whose values it shares with other instances; reports only.
    pub(crate) shared: SharedLeaves,
}

/// One action of a rule: a handler and the instances that it receives.
#[derive(Debug, Clone)]
pub struct RouteAction {
    /// The handler.
    pub handler: Arc<LiveHandler>,
    /// The instances, in order.
    pub instances: Vec<RouteInstance>,
    /// Index of the action in the rule as written.
    pub index: usize,
    /// Which defaults OK of its handler satisfies: none if OK only raises no objection.
    pub(crate) allows: Allowance,
}

/// A rule, reduced to its actions of one kind.
#[derive(Debug, Clone)]
pub struct Route {
    /// The rule.
    pub rule: Arc<RuleConfig>,
    /// Its actions, in order.
    pub actions: Vec<RouteAction>,
    /// Its counters; rules in dry run count their outcomes instead.
    pub(crate) counters: Arc<RuleCounters>,
    /// Counters of its outcomes; rules in dry run only.
    pub(crate) dry_run: Option<Arc<DryRunCounters>>,
    /// Whether a condition that fails refuses the request.
    pub(super) denies_failures: bool,
    /// Whether each failure of the condition is told, also of a test that is looked up: of those that refuse, and of those by which a
    /// request may evade the charge of a quota.
    pub(super) tells_failures: bool,
    /// Sort key among the rules of its set: only the order of these numbers is meaningful.
    pub(super) order: u64,
}

impl Route {
    fn instances(&self) -> impl Iterator<Item = &RouteInstance> {
        self.actions.iter().flat_map(|action| &action.instances)
    }
}

/// The rule that refused a request, with its counters.
#[derive(Debug, Clone)]
pub struct Refuser {
    rule: Arc<RuleConfig>,
    counters: Arc<RuleCounters>,
}

impl Refuser {
    /// That of a route.
    pub(crate) fn of(route: &Route) -> Self {
        Self { rule: Arc::clone(&route.rule), counters: Arc::clone(&route.counters) }
    }

    /// The rule.
    pub fn rule(&self) -> &Arc<RuleConfig> {
        &self.rule
    }

    /// Counts a request that it refused.
    pub(crate) fn count(&self) {
        self.counters.denied();
    }

    /// Counts a request that it would have refused, were checks not in shadow mode.
    pub fn count_shadow(&self) {
        self.counters.shadow_denied();
    }
}

/// By the rule.
impl PartialEq for Refuser {
    fn eq(&self, other: &Self) -> bool {
        self.rule.key == other.rule.key
    }
}

impl Keyed for Route {
    type Key = str;

    /// All rules of a set belong to one namespace.
    fn key(&self) -> &str {
        &self.rule.key.name
    }
}

impl Route {
    /// What happens when the condition fails.
    pub(crate) fn on_condition_error(&self) -> Option<OnError> {
        if self.denies_failures { Some(OnError::Deny) } else { self.rule.on_error }
    }

    /// Whether the condition took more than it may, and no policy says what happens then. Callers bring it about by long texts, so that
    /// the request is refused: a failed call might be allowed.
    pub(crate) fn refuses_exhausted(&self, error: EvalError<'_>) -> bool {
        matches!(error, EvalError::Exhausted(_)) && self.on_condition_error().is_none()
    }

    /// A rule without actions of its kind. `dry_run`: counters of its outcomes in dry run.
    pub(super) fn new(
        rule: &Arc<RuleConfig>,
        kind: RuleKind,
        counters: Arc<RuleCounters>,
        dry_run: Option<Arc<DryRunCounters>>,
    ) -> Self {
        let is_sent = |variety| RuleKind::of(variety) == kind;
        // What a default cannot tell apart from its part is closed as well.
        let is_default = kind == RuleKind::Default && rule.on_error.is_none();
        let denies_failures = is_default || rule.denies_failed_condition(is_sent);
        let is_evaded = kind == RuleKind::Quota && rule.evasion != Evasion::Nobody;
        Self {
            rule: Arc::clone(rule),
            actions: Vec::new(),
            counters,
            dry_run,
            denies_failures,
            tells_failures: denies_failures || is_evaded,
            order: 0,
        }
    }
}

impl RouteAction {
    /// An action of a rule on a live handler.
    pub(super) fn new(
        rule: &RuleConfig,
        handler: &Arc<LiveHandler>,
        index: usize,
        instances: impl Iterator<Item = (Arc<InstanceConfig>, DestinationId, SharedLeaves)>,
    ) -> Self {
        let routed = instances.filter_map(|(config, destination, shared)| {
            let bound = handler.instances.binary_search_by(|b| b.name.cmp(config.name())).ok()?;
            Some(RouteInstance { config, bound, destination, shared })
        });
        let config = &handler.config;
        let allows = match config.adapter.check_power(&config.params) {
            CheckPower::Refuses => Allowance::Nothing,
            CheckPower::Allows | CheckPower::Decides => rule.allowance(),
        };
        Self { handler: Arc::clone(handler), instances: routed.collect(), index, allows }
    }
}
