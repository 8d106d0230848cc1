//! Random schedules, on all cores: `MIXER_SCHEDULES` sets their number, `MIXER_SEED` the first seed.

use std::sync::atomic::{AtomicU64, Ordering};

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % end as u64) as usize
    }
}

/// The number of schedules.
pub(crate) fn count(otherwise: u64) -> u64 {
    number("MIXER_SCHEDULES").unwrap_or(otherwise)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs `count` schedules, each with its seed, and returns what the threads collected.
pub(crate) fn run<T: Default + Send>(count: u64, schedule: impl Fn(u64, &mut T) + Sync) -> Vec<T> {
    let first = number("MIXER_SEED").unwrap_or(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(first);
    let worker = || {
        let mut collected = T::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first.saturating_add(count) {
                return collected;
            }
            schedule(seed, &mut collected);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}
