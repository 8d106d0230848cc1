//! The rules of one kind and namespace, in order, and which of them match.

use std::sync::Arc;

use super::DestinationId;
use super::condition::SharedCondition;
use super::dry_run::DryRunCounters;
use super::index::PredicateIndex;
use super::shared::SharedLeaves;
use crate::handler::LiveHandler;
use crate::snapshot::{Condition, InstanceConfig, RuleConfig};
use bumpalo::collections::Vec as ArenaVec;
use mixer_attribute::AttributeBag;
use mixer_base::shared_map::{Keyed, SharedMap};
use mixer_expr::EvalError;

/// An instance on its way to a handler.
#[derive(Debug, Clone)]
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
#[derive(Debug, Clone)]
pub struct RouteAction {
    /// The handler.
    pub handler: Arc<LiveHandler>,
    /// The instances, in order.
    pub instances: Vec<RouteInstance>,
    /// Index of the action in the rule as written.
    pub index: usize,
}

/// A rule, reduced to what is done in one variety.
#[derive(Debug, Clone)]
pub struct Route {
    /// The rule.
    pub rule: Arc<RuleConfig>,
    /// Its actions, in order.
    pub actions: Vec<RouteAction>,
    /// Where it is counted what it would have done; rules in dry run only.
    pub dry_run: Option<Arc<DryRunCounters>>,
    /// Its place among the rules of its set: only the order of these numbers counts.
    pub(super) order: u64,
}

/// A rule that applies: it matched, or its condition failed and the rule says what to do then.
#[derive(Debug, Clone, Copy)]
pub struct Matched<'t, 'a> {
    /// What is to be done.
    pub route: &'t Route,
    /// Why the condition gave no answer; only for rules with an `on_error` of their own.
    pub failed: Option<EvalError<'a>>,
}

/// The rules of one kind and namespace, in order. Sets of two tables share what they have in common.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    routes: SharedMap<Arc<Route>>,
    /// Those without a condition.
    always: SharedMap<Arc<Route>>,
    index: PredicateIndex,
    /// Pairs of handler and template, and how many instances go there.
    destinations: Vec<(DestinationId, usize)>,
}

/// Routes stand this far apart, so that others fit between them.
const GAP: u64 = 1 << 32;

impl RuleSet {
    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// The rules, in order.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().map(|route| &**route)
    }

    /// Number of pairs of handler and template.
    pub fn destinations(&self) -> usize {
        self.destinations.len()
    }

    /// Appends the rules that apply, in order, to `matched`, and returns the number of conditions that failed. References are
    /// recorded as if every condition were evaluated.
    pub fn matches<'t: 'a, 'a>(
        &'t self,
        bag: &AttributeBag<'a>,
        matched: &mut ArenaVec<'a, Matched<'t, 'a>>,
    ) -> usize {
        let begin = matched.len();
        matched.extend(self.always.iter().map(|route| Matched { route, failed: None }));
        if self.always.len() == self.routes.len() {
            return 0;
        }
        let sorted = matched.len();
        let failures = self.index.evaluate(bag, &mut |condition, failed| {
            for route in condition.routes() {
                if failed.is_none() || route.rule.on_error.is_some() {
                    matched.push(Matched { route, failed });
                }
            }
        });
        // What always applies is in order already.
        if (matched.len() > sorted && begin < sorted) || matched.len() > sorted + 1 {
            matched.get_mut(begin..).unwrap_or_default().sort_unstable_by_key(|m| m.route.order);
        }
        failures
    }

    /// Adds a rule that is not among them.
    pub(super) fn add(&mut self, mut route: Route) {
        match self.order_of(&route) {
            Some(order) => route.order = order,
            None => {
                self.spread();
                route.order = self.order_of(&route).unwrap_or_default();
            }
        }
        self.link(Arc::new(route));
    }

    /// A place between the neighbours of a rule; `None` when there is none left.
    fn order_of(&self, route: &Route) -> Option<u64> {
        let (before, after) = self.routes.neighbours(&route.rule.key.name);
        match (before, after) {
            (None, None) => Some(u64::MAX / 2),
            (Some(before), None) => before.order.checked_add(GAP),
            (None, Some(after)) => after.order.checked_sub(GAP),
            (Some(before), Some(after)) => {
                let middle = before.order + (after.order - before.order) / 2;
                (middle > before.order).then_some(middle)
            }
        }
    }

    /// Gives all rules places that are apart again.
    fn spread(&mut self) {
        let routes = std::mem::take(self).routes;
        for route in &routes {
            let mut route = Route::clone(route);
            route.order = self.order_of(&route).unwrap_or_default();
            self.link(Arc::new(route));
        }
    }

    fn link(&mut self, route: Arc<Route>) {
        for instance in route.actions.iter().flat_map(|action| &action.instances) {
            match self.destinations.iter_mut().find(|(known, _)| *known == instance.destination) {
                Some((_, uses)) => *uses += 1,
                None => self.destinations.push((instance.destination, 1)),
            }
        }
        match &route.rule.condition {
            Condition::When(program) => {
                let condition = match self.index.take(program) {
                    Some(mut condition) => {
                        Arc::make_mut(&mut condition).add(Arc::clone(&route));
                        condition
                    }
                    None => Arc::new(SharedCondition::new(program, Arc::clone(&route))),
                };
                self.index.put(condition);
            }
            _ => drop(self.always.put(Arc::clone(&route))),
        }
        self.routes.put(route);
    }

    /// Takes a rule out, if it is among them.
    pub(super) fn remove(&mut self, rule: &RuleConfig) {
        let Some(route) = self.routes.remove(&rule.key.name) else { return };
        for instance in route.actions.iter().flat_map(|action| &action.instances) {
            if let Some((_, uses)) = self.destinations.iter_mut().find(|(d, _)| *d == instance.destination) {
                *uses -= 1;
            }
        }
        self.destinations.retain(|(_, uses)| *uses > 0);
        match &route.rule.condition {
            Condition::When(program) => {
                if let Some(mut condition) = self.index.take(program)
                    && Arc::make_mut(&mut condition).remove(&route)
                {
                    self.index.put(condition);
                }
            }
            _ => drop(self.always.remove(&rule.key.name)),
        }
    }

    /// How much memory is shared with `other`: chunks of rules that both have, and chunks of `self`.
    pub(super) fn shared_chunks(&self, other: &RuleSet) -> (usize, usize) {
        self.routes.shared_chunks(&other.routes)
    }
}

impl Keyed for Route {
    type Key = str;

    /// All rules of a set are of one namespace.
    fn key(&self) -> &str {
        &self.rule.key.name
    }
}

impl RouteAction {
    /// An action of a rule on a live handler.
    pub(super) fn new(
        handler: &Arc<LiveHandler>,
        index: usize,
        instances: impl Iterator<Item = (Arc<InstanceConfig>, DestinationId, SharedLeaves)>,
    ) -> Self {
        let routed = instances.filter_map(|(config, destination, shared)| {
            let bound = handler.instances.binary_search_by(|b| b.name.cmp(config.name())).ok()?;
            Some(RouteInstance { config, bound, destination, shared })
        });
        Self { handler: Arc::clone(handler), instances: routed.collect(), index }
    }
}
