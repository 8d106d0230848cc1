//! The control law of adaptive concurrency limits, free of clocks and threads.

/// Ratio of latency to its baseline above which a pool shrinks.
const TOLERANCE: f64 = 1.2;
/// Weight of the new target in a step.
const SMOOTHING: f64 = 0.6;
/// Headroom for exploring a higher limit, in square roots of the limit.
const EXPLORATION: f64 = 0.5;
/// How fast the baseline follows higher latencies, per step: slowly, so that overload does not become the baseline.
const BASELINE_DRIFT: f64 = 0.005;
/// Lowest factor by which one step shrinks a limit.
const LARGEST_CUT: f64 = 0.5;

/// Measurements since the last step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct LatencyWindow {
    /// Completed calls.
    pub(super) completed: u64,
    /// Their mean latency in seconds, without the time in the queue.
    pub(super) mean_latency: f64,
    /// Most calls in flight.
    pub(super) peak: usize,
    /// Whether a call had to wait in the queue.
    pub(super) queued: bool,
}

/// Adjusts the limit of one pool between a floor and a ceiling.
///
/// Each step compares the mean latency of the window with a baseline, the lowest latency so far, which drifts up slowly:
///
/// ```text
/// gradient = clamp(1.2 * baseline / latency, 0.5, 1)
/// target   = limit * gradient + 0.5 * sqrt(limit)
/// limit    = clamp(0.4 * limit + 0.6 * target, floor, ceiling)
/// ```
///
/// A pool that was not full does not grow, because nothing was measured at a higher limit. `0.5 * sqrt(limit)` is the headroom by
/// which the limit grows while latency stays at its baseline; latency above 1.2 times the baseline lowers the limit.
#[derive(Debug, Clone)]
pub(super) struct ControlLaw {
    floor: f64,
    ceiling: f64,
    limit: f64,
    baseline: Option<f64>,
}

impl ControlLaw {
    /// Starts at the floor. A floor above the ceiling is lowered to it; both are at least 1.
    pub(super) fn new(floor: usize, ceiling: usize) -> Self {
        let ceiling = ceiling.max(1);
        let floor = floor.clamp(1, ceiling) as f64;
        Self { floor, ceiling: ceiling as f64, limit: floor, baseline: None }
    }

    /// The current limit.
    pub(super) fn limit(&self) -> usize {
        self.limit as usize
    }

    /// Returns the limit after a window of measurements.
    pub(super) fn step(&mut self, window: LatencyWindow) -> usize {
        if window.completed == 0 || window.mean_latency <= 0.0 {
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
