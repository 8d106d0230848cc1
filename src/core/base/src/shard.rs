//! Per-worker shards of shared state.
//!
//! Counters that every request touches exist once per shard, so that workers on different cores never write to the same cache
//! line; readers sum the shards. Workers claim distinct shards while there are enough; other threads get theirs round-robin.

use std::cell::Cell;
use std::iter::repeat_with;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Number of shards: a power of two, at least twice the number of cores, at most 64.
pub fn count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (cores * 2).next_power_of_two().min(64)
    })
}

/// The shard of the current thread, below [`count`].
#[inline]
pub fn current() -> usize {
    let mine = MINE.get();
    if mine != usize::MAX {
        return mine;
    }
    // Threads without a claim share the upper half, away from the first workers.
    let next = count() / 2 + NEXT.fetch_add(1, Ordering::Relaxed) % (count() / 2).max(1);
    MINE.set(next % count());
    MINE.get()
}

/// Assigns the shard of worker `index` to the current thread. Call it once, when the worker starts.
pub fn claim(index: usize) {
    MINE.set(index % count());
}

/// Two cache lines, because adjacent lines are prefetched in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Lines([AtomicU64; PER_LINES]);

const PER_LINES: usize = 16;

/// A row of counters per shard. Clones share it.
#[derive(Debug, Clone)]
pub struct ShardedCounters {
    lines_per_shard: usize,
    /// Those of shards to which nothing was added may be missing.
    shards: Arc<[OnceLock<Box<[Lines]>>]>,
}

impl ShardedCounters {
    /// `width` counters, all 0.
    pub fn new(width: usize) -> Self {
        let counters = Self::on_demand(width);
        for shard in counters.shards.iter() {
            counters.lines_of(shard);
        }
        counters
    }

    /// `width` counters, all 0, that take memory in the shards that add to them: for rows of many.
    pub fn on_demand(width: usize) -> Self {
        let shards = repeat_with(OnceLock::new).take(count()).collect();
        Self { lines_per_shard: width.div_ceil(PER_LINES), shards }
    }

    #[inline]
    fn lines_of<'s>(&self, shard: &'s OnceLock<Box<[Lines]>>) -> &'s [Lines] {
        shard.get_or_init(|| repeat_with(Lines::default).take(self.lines_per_shard).collect())
    }

    /// Adds to counter `index` in the shard of the current thread; wraps around. An index out of range has no effect.
    #[inline]
    pub fn add(&self, index: usize, amount: u64) {
        debug_assert!(index < self.lines_per_shard * PER_LINES);
        let lines = self.shards.get(current()).map_or(&[][..], |shard| self.lines_of(shard));
        if let Some(cell) = cell(lines, index) {
            cell.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// The sum of counter `index` over all shards.
    pub fn total(&self, index: usize) -> u64 {
        let cells = self.shards.iter().filter_map(|shard| cell(shard.get()?, index));
        cells.fold(0, |sum, cell| sum.wrapping_add(cell.load(Ordering::Relaxed)))
    }

    /// The sums of the first `width` counters over all shards.
    pub fn totals(&self, width: usize) -> Vec<u64> {
        let mut totals = vec![0_u64; width];
        for lines in self.shards.iter().filter_map(OnceLock::get) {
            let cells = lines.iter().flat_map(|lines| &lines.0);
            for (total, cell) in totals.iter_mut().zip(cells) {
                *total = total.wrapping_add(cell.load(Ordering::Relaxed));
            }
        }
        totals
    }
}

fn cell(lines: &[Lines], index: usize) -> Option<&AtomicU64> {
    lines.get(index / PER_LINES)?.0.get(index % PER_LINES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_summed() {
        let counters = ShardedCounters::new(20);
        std::thread::scope(|scope| {
            for worker in 0..8 {
                let counters = &counters;
                scope.spawn(move || {
                    if worker % 2 == 0 {
                        claim(worker);
                    }
                    for _ in 0..1000 {
                        counters.add(0, 1);
                        counters.add(19, 2);
                    }
                });
            }
        });
        assert_eq!((counters.total(0), counters.total(1), counters.total(19)), (8000, 0, 16000));
        let totals = counters.totals(20);
        assert_eq!((totals[0], totals[1], totals[19], totals.len()), (8000, 0, 16000, 20));
    }

    #[test]
    fn counters_on_demand_take_memory_where_they_count() {
        let counters = ShardedCounters::on_demand(200);
        assert!(counters.shards.iter().all(|shard| shard.get().is_none()));
        assert_eq!((counters.total(7), counters.totals(8)), (0, vec![0; 8]));
        counters.add(7, 3);
        assert_eq!(counters.shards.iter().filter(|shard| shard.get().is_some()).count(), 1);
        assert_eq!((counters.total(7), counters.totals(8)[7]), (3, 3));
    }

    #[test]
    fn a_claimed_shard_is_kept() {
        claim(1);
        assert_eq!(current(), 1 % count());
        claim(count() + 1);
        assert_eq!(current(), 1 % count());
    }
}
