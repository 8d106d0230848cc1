//! What each rule has done. A rule gets values of its own with its first hit, denial or failure, so that rules that never do anything take
//! none; those that come after [`MAX_RULES`] others share one row.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::shard::ShardedCounters;

/// Rules with values of their own; all others share those of [`OTHER_RULES`].
pub const MAX_RULES: usize = 500;
/// The label of the rules beyond [`MAX_RULES`]; no rule has such a name.
pub const OTHER_RULES: &str = "other";

const HITS: usize = 0;
const DENIALS: usize = 1;
const ERRORS: usize = 2;
const SHADOW_DENIALS: usize = 3;
const WIDTH: usize = 4;

/// The metrics of one rule.
pub struct RuleCounters {
    name: Arc<str>,
    /// What it counts in from the first time on: values of its own, or those of all others.
    cells: OnceLock<ShardedCounters>,
    rules: Arc<RuleTable>,
}

/// How often something happened to a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleCounts {
    /// Evaluations in which its condition held; answers of caches are none.
    pub hits: u64,
    /// Requests that it refused, answers of caches included.
    pub denials: u64,
    /// Requests that it would have refused, were checks not in shadow mode; answers of caches included.
    pub shadow_denials: u64,
    /// Failures of its condition, its instances and its handlers.
    pub errors: u64,
}

impl RuleCounts {
    fn of(cells: &ShardedCounters) -> Self {
        Self {
            hits: cells.total(HITS),
            denials: cells.total(DENIALS),
            shadow_denials: cells.total(SHADOW_DENIALS),
            errors: cells.total(ERRORS),
        }
    }
}

impl std::fmt::Debug for RuleCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleCounters").field("name", &self.name).finish_non_exhaustive()
    }
}

impl RuleCounters {
    /// Counts an evaluation in which the condition held. Cost: a write to a cache line of the current thread's shard; the first time of a rule
    /// also a lock.
    #[inline]
    pub fn hit(&self) {
        self.count(HITS);
    }

    /// Counts a request that the rule refused.
    pub fn denied(&self) {
        self.count(DENIALS);
    }

    /// Counts a request that the rule would have refused, were checks not in shadow mode.
    pub fn shadow_denied(&self) {
        self.count(SHADOW_DENIALS);
    }

    /// Counts a failure.
    pub fn failed(&self) {
        self.count(ERRORS);
    }

    #[inline]
    fn count(&self, what: usize) {
        self.cells.get_or_init(|| self.rules.cells_of(&self.name)).add(what, 1);
    }
}

impl Drop for RuleCounters {
    fn drop(&mut self) {
        self.rules.forget(&self.name);
    }
}

/// The counters of all rules. Nobody drops a [`RuleCounters`] while the state is locked.
pub(super) struct RuleTable {
    state: Mutex<State>,
    /// Those of the rules without values of their own.
    others: ShardedCounters,
}

#[derive(Default)]
struct State {
    /// The rules that somebody counts, by full name.
    counted: HashMap<Arc<str>, Counted>,
    /// The rules with values of their own.
    own: BTreeMap<Arc<str>, ShardedCounters>,
    /// Those of them that nobody counts any more. They are kept all the same, so that a rule that comes back goes on counting, until
    /// others need the room.
    gone: BTreeSet<Arc<str>>,
}

struct Counted {
    counters: Weak<RuleCounters>,
    is_among_others: bool,
}

impl RuleTable {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), others: ShardedCounters::on_demand(WIDTH) })
    }

    /// The counters of the rule with this full name; the same ones while somebody has them.
    pub(super) fn counters(self: &Arc<Self>, name: &str) -> Arc<RuleCounters> {
        let mut state = self.state.lock();
        let known = state.counted.get(name).and_then(|counted| counted.counters.upgrade());
        if let Some(known) = known {
            return known;
        }
        let name: Arc<str> = name.into();
        state.gone.remove(&name);
        let cells = state.own.get(&name).cloned().map_or_else(OnceLock::new, OnceLock::from);
        let counters = Arc::new(RuleCounters { name: Arc::clone(&name), cells, rules: Arc::clone(self) });
        let counted = Counted { counters: Arc::downgrade(&counters), is_among_others: false };
        state.counted.insert(name, counted);
        counters
    }

    /// What a rule counts in that has not counted yet.
    fn cells_of(&self, name: &Arc<str>) -> ShardedCounters {
        let State { counted, own, gone } = &mut *self.state.lock();
        if own.len() >= MAX_RULES
            && let Some(gone) = gone.pop_first()
        {
            own.remove(&gone);
        }
        if own.len() < MAX_RULES {
            let cells = || ShardedCounters::on_demand(WIDTH);
            return own.entry(Arc::clone(name)).or_insert_with(cells).clone();
        }
        if let Some(counted) = counted.get_mut(name) {
            counted.is_among_others = true;
        }
        self.others.clone()
    }

    /// Nobody has the counters of this name any more that are dropped now.
    fn forget(&self, name: &Arc<str>) {
        let State { counted, own, gone } = &mut *self.state.lock();
        // Others may have taken their place meanwhile.
        if counted.get(name).is_some_and(|counted| counted.counters.strong_count() > 0) {
            return;
        }
        counted.remove(name);
        if own.contains_key(name) {
            gone.insert(Arc::clone(name));
        }
    }

    /// The counts of the rule with this full name; `None` if it is counted among others.
    pub(super) fn counts(&self, name: &str) -> Option<RuleCounts> {
        let state = self.state.lock();
        match state.own.get(name) {
            Some(cells) => Some(RuleCounts::of(cells)),
            None if state.counted.get(name).is_some_and(|counted| counted.is_among_others) => None,
            None => Some(RuleCounts::default()),
        }
    }

    /// The counts of all rules without values of their own.
    pub(super) fn others(&self) -> RuleCounts {
        RuleCounts::of(&self.others)
    }

    /// Passes the counts of each rule with values of its own to `visit`, then those of all others.
    pub(super) fn each(&self, mut visit: impl FnMut(&str, RuleCounts)) {
        for (name, cells) in &self.state.lock().own {
            visit(name, RuleCounts::of(cells));
        }
        visit(OTHER_RULES, self.others());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(hits: u64, denials: u64, errors: u64) -> Option<RuleCounts> {
        Some(RuleCounts { hits, denials, errors, ..RuleCounts::default() })
    }

    #[test]
    fn rules_get_values_of_their_own_when_they_first_do_something() {
        let table = RuleTable::new();
        let name = |n: usize| format!("r{n:06}.rule.ns");
        let all: Vec<_> = (0..800).map(|n| table.counters(&name(n))).collect();
        assert_eq!(table.state.lock().own.len(), 0, "rules that do nothing take none");
        all[799].denied();
        all[798].hit();
        all[5].failed();
        assert_eq!(table.counts(&name(799)), counts(0, 1, 0));
        assert_eq!(table.counts(&name(798)), counts(1, 0, 0));
        assert_eq!((table.counts(&name(5)), table.counts(&name(6))), (counts(0, 0, 1), counts(0, 0, 0)));
        // The same rule of another kind or configuration counts in the same values.
        table.counters(&name(799)).hit();
        assert_eq!(table.counts(&name(799)), counts(1, 1, 0));

        all.iter().for_each(|rule| rule.hit());
        assert_eq!(
            (table.state.lock().own.len(), table.others()),
            (MAX_RULES, RuleCounts { hits: 300, ..RuleCounts::default() })
        );
        assert_eq!(table.counts(&name(799)), counts(2, 1, 0));
        assert_eq!(table.counts(&name(700)), None, "counted among others");
        assert_eq!(table.counts("unknown.rule.ns"), counts(0, 0, 0));
        let mut total = 0;
        table.each(|_, counts| total += counts.hits + counts.denials + counts.errors);
        assert_eq!(total, 804, "each is counted once");
    }

    #[test]
    fn rules_that_are_gone_make_room_and_go_on_counting_if_they_come_back() {
        let table = RuleTable::new();
        let count_all = |names: std::ops::Range<usize>| -> Vec<_> {
            let all = names.map(|n| table.counters(&format!("r{n}.rule.ns")));
            all.inspect(|rule| rule.hit()).collect()
        };
        let first = count_all(0..MAX_RULES);
        let late = table.counters("late.rule.ns");
        late.hit();
        drop(first);
        assert_eq!(table.state.lock().counted.len(), 1, "only those that somebody counts are known");
        let back = table.counters("r7.rule.ns");
        back.hit();
        assert_eq!(table.counts("r7.rule.ns"), counts(2, 0, 0));
        let second = count_all(1000..1499);
        assert!((1000..1499).all(|n| table.counts(&format!("r{n}.rule.ns")) == counts(1, 0, 0)));
        assert_eq!(table.counts("r7.rule.ns"), counts(2, 0, 0), "one in use makes no room");
        assert_eq!(table.counts("late.rule.ns"), None, "what it has counted so far is among others");
        let one_more = count_all(2000..2001);
        assert_eq!((table.others().hits, table.state.lock().own.len()), (2, MAX_RULES));
        drop((back, second, one_more, late));
        let state = table.state.lock();
        assert_eq!((state.counted.len(), state.own.len()), (0, MAX_RULES));
    }

    #[test]
    fn first_hits_of_many_threads_are_counted_once_each() {
        let table = RuleTable::new();
        let all: Vec<_> = (0..600).map(|n| table.counters(&format!("r{n}.rule.ns"))).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| all.iter().for_each(|rule| rule.hit()));
            }
        });
        let mut totals = (0, 0);
        table.each(|name, counts| {
            assert!(name == OTHER_RULES || counts.hits == 4, "{name}: {counts:?}");
            totals = (totals.0 + 1, totals.1 + counts.hits);
        });
        assert_eq!(totals, (MAX_RULES + 1, 2400));
    }
}
