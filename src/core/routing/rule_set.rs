//! The rules of one kind and namespace, in order, and which of them match.

use std::sync::Arc;

use bumpalo::collections::Vec as ArenaVec;
use rustc_hash::{FxHashMap, FxHashSet};

use super::DestinationId;
use super::condition::SharedCondition;
use super::dry_run::DryRunCounters;
use super::index::PredicateIndex;
use super::shared::SharedLeaves;
use crate::core::attribute::AttributeBag;
use crate::core::expr::{EvalError, Program};
use crate::core::handler::LiveHandler;
use crate::core::snapshot::{Condition, InstanceConfig, OnError, RuleConfig};

/// An instance on its way to a handler.
#[derive(Debug)]
pub struct RouteInstance {
    /// The instance.
    pub config: Arc<InstanceConfig>,
    /// Its index among the instances that the handler knows.
    pub bound: usize,
    /// Where it goes.
    pub destination: DestinationId,
    /// Its leaves that other instances have too; reports only.
    pub shared: SharedLeaves,
}

/// What one action of a rule asks of one handler.
#[derive(Debug)]
pub struct RouteAction {
    /// The handler.
    pub handler: Arc<LiveHandler>,
    /// The instances, in order.
    pub instances: Vec<RouteInstance>,
    /// Index of the action in the rule as written.
    pub index: usize,
}

/// A rule, reduced to what is done in one variety.
#[derive(Debug)]
pub struct Route {
    /// The rule.
    pub rule: Arc<RuleConfig>,
    /// Its actions, in order.
    pub actions: Vec<RouteAction>,
    /// Where it is counted what it would have done; rules in dry run only.
    pub dry_run: Option<Arc<DryRunCounters>>,
}

/// A rule that applies: it matched, or its condition failed and the rule says what to do then.
#[derive(Debug, Clone, Copy)]
pub struct Matched<'t, 'a> {
    /// What is to be done.
    pub route: &'t Route,
    /// Why the condition gave no answer; only for rules with an `on_error` of their own.
    pub failed: Option<EvalError<'a>>,
}

/// The rules of one kind and namespace, in order.
#[derive(Debug, Default)]
pub struct RuleSet {
    routes: Vec<Route>,
    always: Vec<u32>,
    conditions: Vec<SharedCondition>,
    index: PredicateIndex,
    destinations: usize,
}

impl RuleSet {
    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// The rules, in order.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// All instances of all rules.
    pub(super) fn instances(&self) -> impl Iterator<Item = &RouteInstance> {
        self.routes.iter().flat_map(|route| &route.actions).flat_map(|action| &action.instances)
    }

    /// All instances of all rules, to change.
    pub(super) fn instances_mut(&mut self) -> impl Iterator<Item = &mut RouteInstance> {
        self.routes.iter_mut().flat_map(|route| &mut route.actions).flat_map(|action| &mut action.instances)
    }

    /// Number of pairs of handler and template.
    pub fn destinations(&self) -> usize {
        self.destinations
    }

    /// Appends the rules that apply, in order, to `matched`, and returns the number of conditions that failed. References are
    /// recorded as if every condition were evaluated.
    pub fn matches<'t: 'a, 'a>(
        &'t self,
        bag: &AttributeBag<'a>,
        matched: &mut ArenaVec<'a, Matched<'t, 'a>>,
    ) -> usize {
        if self.conditions.is_empty() {
            matched.extend(self.routes.iter().map(|route| Matched { route, failed: None }));
            return 0;
        }
        let mut hits: ArenaVec<'a, (u32, Option<EvalError<'a>>)> = ArenaVec::new_in(bag.arena());
        hits.extend(self.always.iter().map(|i| (*i, None)));
        let failures = self.index.evaluate(&self.conditions, bag, &mut |condition, failed| {
            hits.extend(condition.routes.iter().map(|i| (*i, failed)));
        });
        hits.sort_unstable_by_key(|(i, _)| *i);
        for (i, failed) in hits {
            let Some(route) = self.routes.get(i as usize) else { continue };
            if failed.is_none() || route.rule.on_error.is_some() {
                matched.push(Matched { route, failed });
            }
        }
        failures
    }
}

/// Collects the rules of one kind and namespace.
#[derive(Default)]
pub(super) struct RuleSetBuilder {
    routes: Vec<Route>,
}

impl RuleSetBuilder {
    /// Adds a rule, unless it is the one added last.
    pub(super) fn add_rule(
        &mut self,
        rule: &Arc<RuleConfig>,
        dry_run: impl FnOnce() -> Option<Arc<DryRunCounters>>,
    ) {
        if !self.routes.last().is_some_and(|last| Arc::ptr_eq(&last.rule, rule)) {
            self.routes.push(Route { rule: Arc::clone(rule), actions: Vec::new(), dry_run: dry_run() });
        }
    }

    /// Adds an action of the rule that was added last.
    pub(super) fn add_action(
        &mut self,
        handler: &Arc<LiveHandler>,
        index: usize,
        instances: Vec<(Arc<InstanceConfig>, DestinationId)>,
    ) {
        let instances = instances
            .into_iter()
            .filter_map(|(config, destination)| {
                let bound = handler.instances.iter().position(|b| b.name == *config.name())?;
                Some(RouteInstance { config, bound, destination, shared: SharedLeaves::default() })
            })
            .collect();
        if let Some(route) = self.routes.last_mut() {
            route.actions.push(RouteAction { handler: Arc::clone(handler), instances, index });
        }
    }

    pub(super) fn build(self) -> RuleSet {
        let mut always = Vec::new();
        let mut conditions: Vec<SharedCondition> = Vec::new();
        let mut known: FxHashMap<*const Program, usize> = FxHashMap::default();
        let mut destinations = FxHashSet::default();
        for (i, route) in (0u32..).zip(&self.routes) {
            destinations.extend(route.actions.iter().flat_map(|a| &a.instances).map(|r| r.destination));
            let Condition::When(program) = &route.rule.condition else {
                always.push(i);
                continue;
            };
            let at = *known.entry(Arc::as_ptr(program)).or_insert_with(|| {
                conditions.push(SharedCondition {
                    program: Arc::clone(program),
                    routes: Vec::new(),
                    wants_errors: false,
                });
                conditions.len() - 1
            });
            if let Some(condition) = conditions.get_mut(at) {
                condition.routes.push(i);
                condition.wants_errors |=
                    matches!(route.rule.on_error, Some(OnError::Deny | OnError::LastKnown));
            }
        }
        let index = PredicateIndex::build(&conditions);
        RuleSet { routes: self.routes, always, conditions, index, destinations: destinations.len() }
    }
}
