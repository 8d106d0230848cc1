//! Samples of the last minutes for the plots: a ring of fixed length, filled at a fixed interval while ControlZ is in use.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::process_memory::Memory;
use super::quantile::quantile;
use super::series::{SAMPLE_INTERVAL, Series};
use super::{Introspection, SharedConsole};
use mixer_base::metrics::{Family, Metrics, RpcCounters, cpu_seconds};
use mixer_base::task::Task;

/// How long sampling continues after the last request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Capacity of the ring: ten minutes.
const POINTS: usize = 300;
/// Points over which rates and quantiles are computed.
const SMOOTH: usize = 5;
/// The time over which rates and quantiles are computed.
pub(super) const WINDOW: Duration = Duration::from_secs(SMOOTH as u64 * SAMPLE_INTERVAL.as_secs());

/// The ring.
pub(super) struct Trend {
    check: Arc<RpcCounters>,
    report: Arc<RpcCounters>,
    points: Mutex<VecDeque<Point>>,
    collections: AtomicU64,
    /// Whether the sampling task runs.
    is_sampling: AtomicBool,
    visited: Mutex<Option<Instant>>,
}

/// A sample; all fields but the memory are counters.
#[derive(Debug, Clone, Default)]
struct Point {
    at: Duration,
    checks: u64,
    reports: u64,
    denials: u64,
    cpu: f64,
    memory: f64,
    /// Checks by latency bucket.
    latency: Vec<u64>,
}

/// The last minutes as time series.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub(super) checks: Series,
    pub(super) reports: Series,
    pub(super) denials: Series,
    /// Cores in use.
    pub(super) cpu: Series,
    /// Bytes.
    pub(super) memory: Series,
    /// Seconds.
    pub(super) check_p50: Series,
    /// Seconds.
    pub(super) check_p99: Series,
    pub(super) checks_total: u64,
    pub(super) reports_total: u64,
    pub(super) denials_total: u64,
}

fn calls(counters: &RpcCounters) -> u64 {
    counters.completed().map(|(_, count)| count).sum()
}

impl Trend {
    /// An empty ring.
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            check: metrics.rpc("istio.mixer.v1.Mixer/Check"),
            report: metrics.rpc("istio.mixer.v1.Mixer/Report"),
            points: Mutex::default(),
            collections: AtomicU64::new(0),
            is_sampling: AtomicBool::new(false),
            visited: Mutex::default(),
        }
    }

    /// Records a request to ControlZ and starts sampling. Must run on a tokio runtime.
    pub(super) fn visit(server: &SharedConsole) {
        *server.trend.visited.lock() = Some(Instant::now());
        if server.trend.is_sampling.swap(true, Ordering::Relaxed) {
            return;
        }
        server.trend.sample(server);
        let watched = Arc::downgrade(server);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        Task::restarted("samples for ControlZ").spawn(stop, move || {
            let (watched, stopped) = (watched.clone(), stopped.clone());
            async move {
                loop {
                    tokio::time::sleep(SAMPLE_INTERVAL).await;
                    let server = watched.upgrade();
                    let Some(server) = server.filter(|server| !server.trend.is_idle()) else { break };
                    server.trend.sample(&server);
                }
                if let Some(server) = watched.upgrade() {
                    *server.trend.points.lock() = VecDeque::new();
                    server.trend.is_sampling.store(false, Ordering::Relaxed);
                }
                stopped.cancel();
            }
        });
    }

    fn is_idle(&self) -> bool {
        self.visited.lock().is_none_or(|visited| visited.elapsed() > IDLE_TIMEOUT)
    }

    /// Adds a sample.
    fn sample(&self, server: &Introspection) {
        use std::sync::OnceLock;
        static START: OnceLock<Instant> = OnceLock::new();
        let point = Point {
            at: START.get_or_init(Instant::now).elapsed(),
            checks: calls(&self.check),
            reports: calls(&self.report),
            denials: (server.program.denials)(),
            cpu: cpu_seconds().unwrap_or(0.0),
            memory: Memory::now().resident as f64,
            latency: self.check.latency().get().0,
        };
        let mut points = self.points.lock();
        if points.len() >= POINTS {
            points.pop_front();
        }
        points.push_back(point);
    }

    /// The last minutes.
    pub(super) fn view(&self) -> View {
        let points: Vec<Point> = self.points.lock().iter().cloned().collect();
        view(&points)
    }

    /// Number of forced collections.
    pub(super) fn collections(&self) -> u64 {
        self.collections.load(Ordering::Relaxed)
    }

    /// Counts a forced collection.
    pub(super) fn count_collection(&self) {
        self.collections.fetch_add(1, Ordering::Relaxed);
    }
}

fn view(points: &[Point]) -> View {
    let mut view = View::default();
    let bounds = Family::RpcLatency.info().bounds;
    for (index, point) in points.iter().enumerate().skip(1) {
        let Some(before) = points.get(index.saturating_sub(SMOOTH)) else { continue };
        let seconds = (point.at.saturating_sub(before.at)).as_secs_f64().max(1e-3);
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        view.checks.0.push(rate(point.checks, before.checks));
        view.reports.0.push(rate(point.reports, before.reports));
        view.denials.0.push(rate(point.denials, before.denials));
        view.cpu.0.push(((point.cpu - before.cpu) / seconds).max(0.0));
        view.memory.0.push(point.memory);
        let counts: Vec<u64> =
            point.latency.iter().zip(&before.latency).map(|(now, then)| now.saturating_sub(*then)).collect();
        // The family is in milliseconds.
        view.check_p50.0.push(quantile(bounds, &counts, 0.5) / 1e3);
        view.check_p99.0.push(quantile(bounds, &counts, 0.99) / 1e3);
    }
    if let Some(last) = points.last() {
        (view.checks_total, view.reports_total, view.denials_total) =
            (last.checks, last.reports, last.denials);
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_over_time() {
        let point = |second: u64, checks: u64| Point {
            at: Duration::from_secs(second),
            checks,
            latency: vec![checks, 0],
            ..Point::default()
        };
        let view = view(&[point(0, 0), point(2, 20), point(4, 40)]);
        assert_eq!(view.checks.0, [10.0, 10.0]);
        assert_eq!(view.checks_total, 40);
        assert_eq!(super::view(&[]).checks.now(), 0.0);
    }
}
