//! How much work may be under way at once, and how much may wait for its turn.
//!
//! [`Pool`] bounds both. Its size is fixed, or moves between a floor and a ceiling by a [`ControlLaw`] that watches how long work
//! takes. Work that is done at once never comes here. [`AdapterPools`] gives every handler a pool of its own, so that a slow one
//! holds up nobody else.
//! Spec: runtime.md section 15.

mod law;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use law::{ControlLaw, Window};

use crate::metrics::{Collect, Collected, Family};

/// How often the size of a pool may change.
const STEP: Duration = Duration::from_millis(100);
/// Work that must have ended before a step says anything.
const FEWEST: u64 = 8;

/// The size of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolOptions {
    /// Least work at once; as large as `ceiling` means that the size is fixed.
    pub floor: usize,
    /// Most work at once.
    pub ceiling: usize,
    /// Most work that waits.
    pub queue: usize,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { floor: 1024, ceiling: 1024, queue: 1024 }
    }
}

/// The pool and its queue are full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{in_flight} calls are under way and {queued} wait, which is the limit")]
pub struct PoolFull {
    /// Work under way.
    pub in_flight: usize,
    /// Work that waits.
    pub queued: usize,
}

/// Bounds work. Work enters in the order in which it came.
#[derive(Debug)]
pub struct Pool {
    options: PoolOptions,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    in_flight: usize,
    /// Bounded by the length of the queue; may hold some that have given up.
    waiting: VecDeque<oneshot::Sender<Permit>>,
    refused: u64,
    law: ControlLaw,
    window: Window,
    /// Sum of the latencies of the window, in seconds.
    latencies: f64,
    stepped: Instant,
}

/// What a pool looks like now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolStatus {
    /// Most work at once, as it is now.
    pub limit: usize,
    /// Work under way.
    pub in_flight: usize,
    /// Work that waits.
    pub queued: usize,
    /// Work that was refused so far.
    pub refused: u64,
}

/// Leave to work; ends when it is dropped.
#[derive(Debug)]
pub struct Permit {
    /// None once it was given back.
    pool: Option<Arc<Pool>>,
    started: Instant,
}

impl Pool {
    /// An empty pool.
    pub fn new(options: PoolOptions) -> Arc<Self> {
        let law = ControlLaw::new(options.floor, options.ceiling);
        let state = State {
            limit: law.limit(),
            in_flight: 0,
            waiting: VecDeque::new(),
            refused: 0,
            law,
            window: Window::default(),
            latencies: 0.0,
            stepped: Instant::now(),
        };
        Arc::new(Self { options, state: Mutex::new(state) })
    }

    /// Waits for its turn. Giving up is dropping the future. Errors: the queue is full as well.
    pub async fn enter(self: &Arc<Self>) -> Result<Permit, PoolFull> {
        let turn = {
            let mut state = self.state.lock();
            if state.in_flight < state.limit {
                return Ok(state.begin(self));
            }
            if state.waiting.len() >= self.options.queue {
                state.waiting.retain(|turn| !turn.is_closed());
            }
            if state.waiting.len() >= self.options.queue {
                state.refused += 1;
                return Err(PoolFull { in_flight: state.in_flight, queued: state.waiting.len() });
            }
            state.window.queued = true;
            let (sender, turn) = oneshot::channel();
            state.waiting.push_back(sender);
            turn
        };
        // The sender goes with the pool, which `self` holds.
        turn.await.map_err(|_| PoolFull { in_flight: 0, queued: 0 })
    }

    /// What it looks like now.
    pub fn status(&self) -> PoolStatus {
        let state = self.state.lock();
        PoolStatus {
            limit: state.limit,
            in_flight: state.in_flight,
            queued: state.waiting.iter().filter(|turn| !turn.is_closed()).count(),
            refused: state.refused,
        }
    }

    /// Work that was begun at `started` has ended.
    fn leave(self: &Arc<Self>, started: Instant) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.window.ended += 1;
        state.latencies += now.saturating_duration_since(started).as_secs_f64();
        let is_adaptive = self.options.floor < self.options.ceiling;
        if is_adaptive && state.window.ended >= FEWEST && now.saturating_duration_since(state.stepped) >= STEP
        {
            state.step(now);
        }
        while state.in_flight < state.limit
            && let Some(turn) = state.waiting.pop_front()
        {
            if !turn.is_closed() {
                let permit = state.begin(self);
                if let Err(mut permit) = turn.send(permit) {
                    // It gave up just now. Dropping the permit as it is would take the lock again.
                    permit.pool = None;
                    state.in_flight = state.in_flight.saturating_sub(1);
                }
            }
        }
    }
}

impl State {
    fn begin(&mut self, pool: &Arc<Pool>) -> Permit {
        self.in_flight += 1;
        self.window.peak = self.window.peak.max(self.in_flight);
        Permit { pool: Some(Arc::clone(pool)), started: Instant::now() }
    }

    fn step(&mut self, now: Instant) {
        self.window.mean_latency = self.latencies / self.window.ended.max(1) as f64;
        self.limit = self.law.step(self.window);
        self.window = Window { peak: self.in_flight, ..Window::default() };
        self.latencies = 0.0;
        self.stepped = now;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.leave(self.started);
        }
    }
}

/// The pools of all handlers, one each.
#[derive(Debug, Default)]
pub struct AdapterPools {
    options: OnceLock<PoolOptions>,
    pools: Mutex<Vec<Weak<Pool>>>,
}

impl AdapterPools {
    /// Sizes of all pools from now on; the first one to say counts.
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

/// Shows the pools of a server in its metrics.
pub struct PoolCollector {
    /// Calls of the API.
    pub api: Arc<Pool>,
    /// Calls of handlers.
    pub adapters: Arc<AdapterPools>,
}

impl Collect for PoolCollector {
    fn collect(&self, out: &mut Collected) {
        let mut show = |name: &str, status: PoolStatus| {
            out.add(Family::PoolLimit, &[name], status.limit as f64);
            out.add(Family::PoolInFlight, &[name], status.in_flight as f64);
            out.add(Family::PoolQueued, &[name], status.queued as f64);
            out.add(Family::PoolRefused, &[name], status.refused as f64);
        };
        show("api", self.api.status());
        let pools: Vec<Arc<Pool>> = self.adapters.pools.lock().iter().filter_map(Weak::upgrade).collect();
        for pool in pools {
            show("adapter", pool.status());
        }
    }
}

#[cfg(test)]
mod tests;
