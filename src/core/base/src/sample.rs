//! Random sampling.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};

/// Selects a share of events at random. Cost: a few nanoseconds, no shared state.
#[derive(Debug, Clone, Copy)]
pub struct Sampler {
    /// Random numbers below this are selected; `None` selects everything.
    below: Option<u64>,
}

thread_local! {
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0_u8) | 1);
}

/// A random number for sampling and for ids; not for secrets.
pub fn random() -> u64 {
    STATE.with(|state| {
        // xorshift64*
        let mut x = state.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        state.set(x);
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    })
}

impl Sampler {
    /// Selects a share from 0 to 1.
    pub fn new(share: f64) -> Self {
        Self { below: (share < 1.0).then_some((share.max(0.0) * u64::MAX as f64) as u64) }
    }

    /// Whether this event is selected.
    #[inline]
    pub fn take(self) -> bool {
        self.below.is_none_or(|below| random() < below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept() {
        for (share, low, high) in [(0.0, 0, 0), (0.1, 800, 1200), (0.5, 4700, 5300), (1.0, 10_000, 10_000)] {
            let sampler = Sampler::new(share);
            let taken = (0..10_000).filter(|_| sampler.take()).count();
            assert!((low..=high).contains(&taken), "{share}: {taken}");
        }
    }
}
