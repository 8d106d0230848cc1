//! How large a pool should be: the control law, free of clocks and threads.

/// Latency over its baseline that is tolerated before a pool shrinks.
const TOLERANCE: f64 = 1.2;
/// Share of the new target that is taken over at a step.
const SMOOTHING: f64 = 0.6;
/// Room in which a larger pool is tried out, in square roots of its size.
const EXPLORATION: f64 = 0.5;
/// How fast the baseline follows latencies above it, per step: slowly, so that overload does not become the norm.
const BASELINE_DRIFT: f64 = 0.005;
/// The most that one step shrinks a pool to.
const LARGEST_CUT: f64 = 0.5;

/// What happened since the last step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Window {
    /// Calls that ended.
    pub ended: u64,
    /// Their mean latency in seconds, from the moment when they left the queue.
    pub mean_latency: f64,
    /// The most calls in flight at one time.
    pub peak: usize,
    /// Whether a call had to wait in the queue.
    pub queued: bool,
}

/// Adjusts the limit of one pool between a floor and a ceiling.
///
/// Each step compares the mean latency of the window with a baseline, the lowest latency that was seen, which drifts up slowly:
///
/// ```text
/// gradient = clamp(1.2 * baseline / latency, 0.5, 1)
/// target   = limit * gradient + 0.5 * sqrt(limit)
/// limit    = clamp(0.4 * limit + 0.6 * target, floor, ceiling)
/// ```
///
/// A pool that was not full does not grow: nothing was learnt about a larger one. `0.5 * sqrt(limit)` is the room in which a larger pool
/// is tried out; latency that stays at its baseline lets the pool grow by it, latency above 1.2 times the baseline shrinks the pool.
#[derive(Debug, Clone)]
pub struct ControlLaw {
    floor: f64,
    ceiling: f64,
    limit: f64,
    baseline: Option<f64>,
}

impl ControlLaw {
    /// Begins at the floor. A floor above the ceiling counts as the ceiling, and both are at least 1.
    pub fn new(floor: usize, ceiling: usize) -> Self {
        let ceiling = ceiling.max(1);
        let floor = floor.clamp(1, ceiling) as f64;
        Self { floor, ceiling: ceiling as f64, limit: floor, baseline: None }
    }

    /// The present limit.
    pub fn limit(&self) -> usize {
        self.limit as usize
    }

    /// Takes a window in; gives the limit from now on.
    pub fn step(&mut self, window: Window) -> usize {
        if window.ended == 0 || window.mean_latency <= 0.0 {
            return self.limit();
        }
        let latency = window.mean_latency;
        let baseline = match self.baseline {
            Some(baseline) if latency > baseline => baseline + (latency - baseline) * BASELINE_DRIFT,
            _ => latency,
        };
        self.baseline = Some(baseline);
        let gradient = (TOLERANCE * baseline / latency).clamp(LARGEST_CUT, 1.0);
        let mut target = self.limit * gradient + EXPLORATION * self.limit.sqrt();
        let full = window.queued || window.peak as f64 >= self.limit * 0.9;
        if !full {
            target = target.min(self.limit);
        }
        self.limit = (self.limit + SMOOTHING * (target - self.limit)).clamp(self.floor, self.ceiling);
        self.limit()
    }
}
