//! The rules of one kind and namespace, in order, and which of them match.

use std::sync::Arc;

use super::condition::SharedCondition;
use super::index::{Evaluations, PredicateIndex};
use super::route::{DestinationUses, Route};
use crate::snapshot::{Condition, RuleConfig};
use bumpalo::collections::Vec as ArenaVec;
use mixer_attribute::AttributeBag;
use mixer_base::shared_map::SharedMap;
use mixer_expr::EvalError;

/// A rule that applies: it matched, or its condition failed and that refuses the request.
#[derive(Debug, Clone, Copy)]
pub struct Matched<'t, 'a> {
    /// The rule with its actions.
    pub route: &'t Route,
    /// Why the condition failed; only for rules that refuse then, and for all rules if the evaluation was exhausted.
    pub failed: Option<EvalError<'a>>,
}

/// What the evaluation of conditions amounts to, for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MatchCounts {
    /// Conditions that could not be evaluated.
    pub failures: usize,
    /// Destinations of the conditions that hold, counted once per condition; rules without a condition share one. Istio Mixer's
    /// instance groups.
    pub groups: usize,
    /// Look-ups and evaluations of conditions, and unconditional rules.
    pub evaluations: usize,
}

impl std::ops::AddAssign for MatchCounts {
    fn add_assign(&mut self, other: Self) {
        self.failures += other.failures;
        self.groups += other.groups;
        self.evaluations += other.evaluations;
    }
}

/// The rules of one kind and namespace, in order. The sets of two tables share unchanged chunks.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    routes: SharedMap<Arc<Route>>,
    /// Rules without a condition.
    always: SharedMap<Arc<Route>>,
    /// Destinations of [`RuleSet::always`].
    always_destinations: DestinationUses,
    index: PredicateIndex,
    destinations: DestinationUses,
}

/// Gap between the order numbers of neighbouring routes, so that others fit between them.
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

    /// Number of destinations.
    pub(super) fn destinations(&self) -> usize {
        self.destinations.len()
    }

    /// Appends the rules that apply, in order, to `matched`. References are recorded as if every condition were evaluated.
    pub fn matches<'t: 'a, 'a>(
        &'t self,
        bag: &AttributeBag<'a>,
        matched: &mut ArenaVec<'a, Matched<'t, 'a>>,
    ) -> MatchCounts {
        self.matches_and_failures(bag, matched, &mut |_, _| {})
    }

    /// As [`matches`](Self::matches), and calls `failed` for rules that do not apply because their condition failed, in no order. Those are
    /// left out that an absent attribute makes fail in a test that nobody evades by leaving it out.
    pub(crate) fn matches_and_failures<'t: 'a, 'a>(
        &'t self,
        bag: &AttributeBag<'a>,
        matched: &mut ArenaVec<'a, Matched<'t, 'a>>,
        failed: &mut dyn FnMut(&'t Route, EvalError<'a>),
    ) -> MatchCounts {
        let mut groups = self.always_destinations.len();
        let begin = matched.len();
        matched.extend(self.always.iter().map(|route| Matched { route, failed: None }));
        if self.always.len() == self.routes.len() {
            return MatchCounts { failures: 0, groups, evaluations: self.always.len() };
        }
        let sorted = matched.len();
        let Evaluations { failures, count } = self.index.evaluate(bag, &mut |condition, error| {
            if error.is_none() {
                groups += condition.destinations();
            }
            for route in condition.routes() {
                match error {
                    Some(error) if !route.denies_failures && !matches!(error, EvalError::Exhausted(_)) => {
                        failed(route, error);
                    }
                    _ => matched.push(Matched { route, failed: error }),
                }
            }
        });
        // Unconditional rules are in order already.
        if (matched.len() > sorted && begin < sorted) || matched.len() > sorted + 1 {
            matched.get_mut(begin..).unwrap_or_default().sort_unstable_by_key(|m| m.route.order);
        }
        MatchCounts { failures, groups, evaluations: self.always.len() + count }
    }

    /// Adds a rule that is not in the set.
    pub(super) fn add(&mut self, mut route: Route) {
        match self.order_of(&route) {
            Some(order) => route.order = order,
            None => {
                self.renumber();
                route.order = self.order_of(&route).unwrap_or_default();
            }
        }
        self.link(Arc::new(route));
    }

    /// An order number between the neighbours of a rule; `None` when the gap is exhausted.
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

    /// Renumbers all rules with full gaps.
    fn renumber(&mut self) {
        let routes = std::mem::take(self).routes;
        for route in &routes {
            let mut route = Route::clone(route);
            route.order = self.order_of(&route).unwrap_or_default();
            self.link(Arc::new(route));
        }
    }

    fn link(&mut self, route: Arc<Route>) {
        self.destinations.add(&route);
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
            _ => {
                self.always_destinations.add(&route);
                drop(self.always.put(Arc::clone(&route)));
            }
        }
        self.routes.put(route);
    }

    /// Removes a rule, if it is in the set.
    pub(super) fn remove(&mut self, rule: &RuleConfig) {
        let Some(route) = self.routes.remove(&rule.key.name) else { return };
        self.destinations.remove(&route);
        match &route.rule.condition {
            Condition::When(program) => {
                if let Some(mut condition) = self.index.take(program)
                    && Arc::make_mut(&mut condition).remove(&route)
                {
                    self.index.put(condition);
                }
            }
            _ => {
                self.always_destinations.remove(&route);
                drop(self.always.remove(&rule.key.name));
            }
        }
    }
}
