//! Rates: how many streams may begin, and how many requests a stream may make.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// A rate: one each `every`, after `burst` at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The time between two; zero: no limit.
    pub every: Duration,
    /// How many need not wait.
    pub burst: u32,
}

/// A bucket of tokens that fills at a rate.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    /// When the bucket is full if no more is taken.
    full: Instant,
}

impl Bucket {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, full: Instant::now() }
    }

    /// Takes a token. Errors: how long it takes until there is one.
    pub(crate) fn take(&mut self) -> Result<(), Duration> {
        let now = Instant::now();
        let full = self.full.max(now);
        let missing = full.saturating_duration_since(now);
        let capacity = self.rate.every.saturating_mul(self.rate.burst.max(1) - 1);
        if missing > capacity {
            return Err(missing - capacity);
        }
        // Without an overflow: `missing` is at most the capacity.
        self.full = full.checked_add(self.rate.every).unwrap_or(full);
        Ok(())
    }
}

/// A bucket that is waited for, first come, first served. Whoever gives up takes nothing.
#[derive(Debug)]
pub(crate) struct Limiter(Mutex<Bucket>);

impl Limiter {
    pub(crate) fn new(rate: Rate) -> Self {
        Self(Mutex::new(Bucket::new(rate)))
    }

    pub(crate) async fn acquire(&self) {
        let mut bucket = self.0.lock().await;
        while let Err(wait) = bucket.take() {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        let limiter = Limiter::new(Rate { every: Duration::from_secs(1), burst: 3 });
        let start = Instant::now();
        let mut times = Vec::new();
        for _ in 0..5 {
            limiter.acquire().await;
            times.push(start.elapsed().as_secs());
        }
        assert_eq!(times, [0, 0, 0, 1, 2]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        for _ in 0..3 {
            limiter.acquire().await;
        }
        assert_eq!(start.elapsed().as_secs(), 62);
    }

    #[tokio::test(start_paused = true)]
    async fn no_limit_never_waits_and_who_gives_up_takes_nothing() {
        let start = Instant::now();
        let unlimited = Limiter::new(Rate { every: Duration::ZERO, burst: 0 });
        for _ in 0..1000 {
            unlimited.acquire().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        let limiter = Limiter::new(Rate { every: Duration::from_secs(10), burst: 1 });
        limiter.acquire().await;
        for _ in 0..5 {
            let given_up = tokio::time::timeout(Duration::from_secs(1), limiter.acquire()).await;
            assert!(given_up.is_err());
        }
        limiter.acquire().await;
        assert_eq!(start.elapsed().as_secs(), 10);
    }
}
