//! Limits on concurrent work that waits, with bounded queues.
//!
//! A [`Pool`] bounds the work in flight and the work that waits for a permit. Its limit is fixed, or moves between a floor and a
//! ceiling by a `ControlLaw` that watches latencies. Synchronous calls bypass the pools. [`AdapterPools`] gives every handler
//! a pool of its own, so that a slow handler delays no other.
//! See docs/operations.md.

mod law;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use law::{ControlLaw, LatencyWindow};

use crate::metrics::{Collect, Collected, Family};

/// How often the limit of a pool may change.
const STEP: Duration = Duration::from_millis(100);
/// Completed calls that a step needs.
const MIN_COMPLETED: u64 = 8;

/// The limits of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolOptions {
    /// Lowest limit of calls in flight; a floor as high as `ceiling` fixes the limit.
    pub floor: usize,
    /// Highest limit of calls in flight.
    pub ceiling: usize,
    /// Most calls that wait for a permit.
    pub queue: usize,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { floor: 1024, ceiling: 1024, queue: 1024 }
    }
}

/// The pool and its queue are full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the limit is reached: {in_flight} calls in flight, {queued} queued")]
pub struct PoolFull {
    /// Calls in flight.
    pub in_flight: usize,
    /// Calls that wait for a permit.
    pub queued: usize,
}

/// A semaphore whose limit adapts and whose queue is bounded. Permits are granted in the order of arrival.
#[derive(Debug)]
pub struct Pool {
    options: PoolOptions,
    permits: Semaphore,
    state: Mutex<PoolState>,
}

#[derive(Debug)]
struct PoolState {
    limit: usize,
    /// Permits in use above the limit, which has shrunk: they are not returned to the semaphore.
    surplus: usize,
    /// Permits in use.
    in_flight: usize,
    /// Callers that wait, or have been granted a permit and have not run since.
    waiting: usize,
    refused: u64,
    law: ControlLaw,
    window: LatencyWindow,
    /// Sum of the latencies of the window, in seconds.
    latencies: f64,
    stepped: Instant,
}

/// The state of a pool at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolStatus {
    /// Limit of calls in flight.
    pub limit: usize,
    /// Calls in flight.
    pub in_flight: usize,
    /// Calls that wait for a permit.
    pub queued: usize,
    /// Most calls that may wait.
    pub queue: usize,
    /// Calls refused so far.
    pub refused: u64,
}

/// A permit for one call; returned when it is dropped.
#[derive(Debug)]
pub struct Permit {
    pool: Arc<Pool>,
    started: Instant,
}

impl Pool {
    /// An idle pool.
    pub fn new(options: PoolOptions) -> Arc<Self> {
        let law = ControlLaw::new(options.floor, options.ceiling.min(Semaphore::MAX_PERMITS));
        let state = PoolState {
            limit: law.limit(),
            surplus: 0,
            in_flight: 0,
            waiting: 0,
            refused: 0,
            law,
            window: LatencyWindow::default(),
            latencies: 0.0,
            stepped: Instant::now(),
        };
        Arc::new(Self { options, permits: Semaphore::new(state.limit), state: Mutex::new(state) })
    }

    /// Waits for a permit; dropping the future cancels. Errors: pool and queue are full.
    pub async fn enter(self: &Arc<Self>) -> Result<Permit, PoolFull> {
        {
            let mut state = self.state.lock();
            if let Ok(permit) = self.permits.try_acquire() {
                permit.forget();
                return Ok(state.start(self));
            }
            let full = state.fill(&self.permits);
            if full.queued >= self.options.queue {
                state.refused += 1;
                return Err(full);
            }
            state.window.queued = true;
            state.waiting += 1;
        }
        let waiting = Waiting(self);
        let permit = self.permits.acquire().await;
        // One critical section for leaving the queue and being in flight.
        std::mem::forget(waiting);
        let mut state = self.state.lock();
        state.waiting = state.waiting.saturating_sub(1);
        match permit {
            Ok(permit) => {
                permit.forget();
                Ok(state.start(self))
            }
            // Nothing closes the semaphore.
            Err(_) => Err(state.fill(&self.permits)),
        }
    }

    /// The current state.
    pub fn status(&self) -> PoolStatus {
        let state = self.state.lock();
        let PoolFull { in_flight, queued } = state.fill(&self.permits);
        PoolStatus {
            limit: state.limit,
            in_flight,
            queued,
            queue: self.options.queue,
            refused: state.refused,
        }
    }

    /// Completes a call that started at `started`.
    fn complete(&self, started: Instant) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.window.completed += 1;
        state.latencies += now.saturating_duration_since(started).as_secs_f64();
        let is_adaptive = self.options.floor < self.options.ceiling;
        let is_due = now.saturating_duration_since(state.stepped) >= STEP;
        state.in_flight = state.in_flight.saturating_sub(1);
        let mut returned = 1;
        if is_adaptive && is_due && state.window.completed >= MIN_COMPLETED {
            let before = state.limit;
            state.step(now);
            returned += state.limit.saturating_sub(before);
            let shrink = before.saturating_sub(state.limit);
            state.surplus += shrink - self.permits.forget_permits(shrink);
        }
        let withheld = state.surplus.min(returned);
        state.surplus -= withheld;
        // Wakes callers, which take the lock.
        drop(state);
        self.permits.add_permits(returned - withheld);
    }
}

impl PoolState {
    fn start(&mut self, pool: &Arc<Pool>) -> Permit {
        self.in_flight += 1;
        self.window.peak = self.window.peak.max(self.in_flight);
        Permit { pool: Arc::clone(pool), started: Instant::now() }
    }

    /// A caller that has been granted a permit is in flight, even before it runs.
    fn fill(&self, permits: &Semaphore) -> PoolFull {
        let granted = (self.limit + self.surplus).saturating_sub(permits.available_permits());
        let in_flight = granted.max(self.in_flight);
        PoolFull { in_flight, queued: self.waiting.saturating_sub(in_flight - self.in_flight) }
    }

    fn step(&mut self, now: Instant) {
        self.window.mean_latency = self.latencies / self.window.completed.max(1) as f64;
        self.limit = self.law.step(self.window);
        self.window = LatencyWindow { peak: self.in_flight, ..LatencyWindow::default() };
        self.latencies = 0.0;
        self.stepped = now;
    }
}

/// A caller in the queue; dropped if the caller cancels.
struct Waiting<'p>(&'p Pool);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.waiting = state.waiting.saturating_sub(1);
        // Cancelling may have returned a granted permit to the semaphore.
        let surplus = state.surplus;
        state.surplus -= self.0.permits.forget_permits(surplus);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.pool.complete(self.started);
    }
}

/// The pools of all handlers, one each.
#[derive(Debug, Default)]
pub struct AdapterPools {
    options: OnceLock<PoolOptions>,
    pools: Mutex<Vec<Weak<Pool>>>,
}

impl AdapterPools {
    /// Sets the limits of all pools made from now on; only the first call has an effect.
    pub fn configure(&self, options: PoolOptions) {
        let _ = self.options.set(options);
    }

    /// A pool for a new handler.
    pub fn pool(&self) -> Arc<Pool> {
        let pool = Pool::new(self.options.get().copied().unwrap_or_default());
        let mut pools = self.pools.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&pool));
        pool
    }
}

/// Publishes the pools of a server as metrics.
pub struct PoolCollector {
    /// Calls of the API.
    pub api: Arc<Pool>,
    /// Calls of handlers.
    pub adapters: Arc<AdapterPools>,
}

impl Collect for PoolCollector {
    fn collect(&self, out: &mut Collected) {
        let mut add = |name: &str, status: PoolStatus| {
            out.add(Family::PoolLimit, &[name], status.limit as f64);
            out.add(Family::PoolInFlight, &[name], status.in_flight as f64);
            out.add(Family::PoolQueued, &[name], status.queued as f64);
            out.add(Family::PoolRefused, &[name], status.refused as f64);
        };
        add("api", self.api.status());
        let pools: Vec<Arc<Pool>> = self.adapters.pools.lock().iter().filter_map(Weak::upgrade).collect();
        for pool in pools {
            add("adapter", pool.status());
        }
    }
}

#[cfg(test)]
mod tests;
