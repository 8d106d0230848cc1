//! Which rules allocate quotas for a request.

use std::sync::Arc;

use bumpalo::collections::Vec as ArenaVec;

use super::instances::{equal_fold, instances_named};
use crate::routing::{Matched, RoutingTable, RuleKind};
use crate::snapshot::RuleConfig;
use mixer_attribute::AttributeBag;

/// The rules with quotas that apply to a request, as [`quota`](super::quota()) selects them. Nothing is allocated or counted.
pub struct QuotaRules<'t, 'a>(ArenaVec<'a, Matched<'t, 'a>>);

impl<'t: 'a, 'a> QuotaRules<'t, 'a> {
    /// Evaluates the conditions over a preprocessed bag, which records what they read.
    pub fn of(table: &'t RoutingTable, bag: &AttributeBag<'a>) -> Self {
        let mut matched = ArenaVec::new_in(bag.arena());
        for set in table.select(RuleKind::Quota, bag).sets() {
            set.matches(bag, &mut matched);
        }
        Self(matched)
    }

    /// Those that allocate the quota of this name, in evaluation order.
    pub fn allocating(&self, name: &str) -> impl Iterator<Item = &'t Arc<RuleConfig>> {
        let has_quota =
            move |matched: &&Matched<'t, 'a>| instances_named(matched.route, name).next().is_some();
        self.0.iter().filter(has_quota).map(|matched| &matched.route.rule)
    }

    /// Whether two names are those of the same quota.
    pub fn is_same(one: &str, other: &str) -> bool {
        equal_fold(one, other)
    }
}
