//! Samples of the last minutes for the plots: a ring of fixed length, filled at a fixed interval from the start on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::outcomes::{CallCounters, Outcomes};
use super::process_memory::Memory;
use super::quantile::quantile;
use super::series::{SAMPLE_INTERVAL, Series};
use super::{Introspection, SharedConsole};
use mixer_base::metrics::{Family, Metrics, cpu_seconds};
use mixer_base::task::Task;

/// Capacity of the ring: ten minutes.
const POINTS: usize = 300;
/// Points over which rates and quantiles are computed.
const SMOOTH: usize = 5;
/// The time over which rates and quantiles are computed.
pub(super) const WINDOW: Duration = Duration::from_secs(SMOOTH as u64 * SAMPLE_INTERVAL.as_secs());

/// The ring.
pub(super) struct Trend {
    calls: CallCounters,
    start: Instant,
    points: Mutex<VecDeque<Point>>,
    collections: AtomicU64,
}

/// A sample; all fields but the memory are counters.
#[derive(Debug, Clone, Default)]
struct Point {
    /// Since the start.
    at: Duration,
    checks: u64,
    reports: u64,
    limits: u64,
    failed: u64,
    unanswered: u64,
    shed: u64,
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
    /// Requests for rate limits.
    pub(super) limits: Series,
    /// Failed calls.
    pub(super) failed: Series,
    /// Calls whose caller left before the answer.
    pub(super) unanswered: Series,
    /// Calls above the limits of load shedding.
    pub(super) shed: Series,
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
    /// Those of them that are messages of access logs.
    pub(super) logs_total: u64,
    /// The entries in those messages.
    pub(super) entries_total: u64,
    pub(super) limits_total: u64,
    pub(super) denials_total: u64,
    /// What became of all calls.
    pub(super) outcomes: Outcomes,
}

impl Trend {
    /// An empty ring.
    pub(super) fn new(metrics: &Arc<Metrics>) -> Self {
        Self {
            calls: CallCounters::new(metrics),
            start: Instant::now(),
            points: Mutex::default(),
            collections: AtomicU64::new(0),
        }
    }

    /// Takes samples until the console is dropped. Without a runtime of tokio it takes none.
    pub(super) fn follow(server: &SharedConsole) {
        if tokio::runtime::Handle::try_current().is_err() {
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
                    let Some(server) = watched.upgrade() else { break };
                    server.trend.sample(&server);
                }
                stopped.cancel();
            }
        });
    }

    /// Adds a sample.
    fn sample(&self, server: &Introspection) {
        let outcomes = self.calls.outcomes();
        let point = Point {
            at: self.start.elapsed(),
            checks: self.calls.checks(),
            reports: self.calls.reports(),
            limits: self.calls.limits(),
            failed: outcomes.failures(),
            unanswered: outcomes.unanswered,
            shed: outcomes.shed,
            denials: (server.program.denials)(),
            cpu: cpu_seconds().unwrap_or(0.0),
            memory: Memory::now().resident as f64,
            latency: self.calls.latency_of_checks(),
        };
        let mut points = self.points.lock();
        if points.len() >= POINTS {
            points.pop_front();
        }
        points.push_back(point);
    }

    /// The last minutes, with the totals of now.
    pub(super) fn view(&self, server: &Introspection) -> View {
        let points: Vec<Point> = self.points.lock().iter().cloned().collect();
        View {
            checks_total: self.calls.checks(),
            reports_total: self.calls.reports(),
            logs_total: self.calls.logs(),
            entries_total: server.metrics.total(Family::BridgeLogEntries),
            limits_total: self.calls.limits(),
            denials_total: (server.program.denials)(),
            outcomes: self.calls.outcomes(),
            ..view(&points)
        }
    }

    /// The counters of calls.
    pub(super) fn calls(&self) -> &CallCounters {
        &self.calls
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

/// The samples that are missing between two: the process did not run.
fn missing(before: &Point, after: &Point) -> usize {
    let intervals = (after.at.saturating_sub(before.at)).as_secs_f64() / SAMPLE_INTERVAL.as_secs_f64();
    (intervals.round() as usize).saturating_sub(1).min(POINTS)
}

/// The series, without totals.
fn view(points: &[Point]) -> View {
    let mut view = View::default();
    // The first sample of the points that follow one another.
    let mut begin = 0;
    for (index, point) in points.iter().enumerate().skip(1) {
        let Some(previous) = points.get(index - 1) else { continue };
        let missing = missing(previous, point);
        for _ in 0..missing {
            view.push_unknown();
        }
        if missing > 0 {
            begin = index;
        }
        let from = begin.max(index.saturating_sub(SMOOTH));
        match points.get(from).filter(|_| from < index) {
            Some(before) => view.push(before, point),
            None => {
                view.push_unknown();
                if let Some(last) = view.memory.0.last_mut() {
                    *last = point.memory;
                }
            }
        }
    }
    view
}

impl View {
    fn all(&mut self) -> [&mut Series; 11] {
        let Self { checks, reports, limits, failed, unanswered, shed, denials, .. } = self;
        let Self { cpu, memory, check_p50, check_p99, .. } = self;
        [checks, reports, limits, failed, unanswered, shed, denials, cpu, memory, check_p50, check_p99]
    }

    fn push_unknown(&mut self) {
        for series in self.all() {
            series.0.push(f64::NAN);
        }
    }

    fn push(&mut self, before: &Point, point: &Point) {
        let seconds = (point.at.saturating_sub(before.at)).as_secs_f64().max(1e-3);
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        let bounds = Family::RpcLatency.info().bounds;
        let both = point.latency.iter().zip(&before.latency);
        let counts: Vec<u64> = both.map(|(now, then)| now.saturating_sub(*then)).collect();
        // The family is in milliseconds. What is above the last bound is drawn there.
        let last = bounds.last().copied().unwrap_or_default();
        let at = |q| quantile(bounds, &counts, q).min_or_nan(last) / 1e3;
        let values = [
            rate(point.checks, before.checks),
            rate(point.reports, before.reports),
            rate(point.limits, before.limits),
            rate(point.failed, before.failed),
            rate(point.unanswered, before.unanswered),
            rate(point.shed, before.shed),
            rate(point.denials, before.denials),
            ((point.cpu - before.cpu) / seconds).max(0.0),
            point.memory,
            at(0.5),
            at(0.99),
        ];
        for (series, value) in self.all().into_iter().zip(values) {
            series.0.push(value);
        }
    }
}

/// The smaller of two numbers, NaN if the first one is.
trait MinOrNan {
    fn min_or_nan(self, other: f64) -> f64;
}

impl MinOrNan for f64 {
    fn min_or_nan(self, other: f64) -> f64 {
        if self.is_nan() { self } else { self.min(other) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(second: u64, checks: u64) -> Point {
        Point { at: Duration::from_secs(second), checks, latency: vec![checks, 0], ..Point::default() }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let view = view(&[point(0, 0), point(2, 20), point(4, 40)]);
        assert_eq!(view.checks.0, [10.0, 10.0]);
        assert!(super::view(&[]).checks.now().is_nan());
    }

    /// A process that was suspended for ten seconds.
    #[test]
    fn where_nothing_is_known_there_is_a_gap() {
        let points = [point(0, 0), point(2, 20), point(12, 1000), point(14, 1040)];
        let view = view(&points);
        let known: Vec<bool> = view.checks.0.iter().map(|value| !value.is_nan()).collect();
        assert_eq!(known, [true, false, false, false, false, false, true]);
        assert_eq!(view.checks.now(), 20.0, "not over the gap");
        assert!(!view.memory.0.get(5).unwrap().is_nan(), "the memory of a sample is known");
    }

    #[test]
    fn without_a_check_its_latency_is_not_known() {
        let view = view(&[point(0, 7), point(2, 7), point(4, 8)]);
        assert_eq!(view.checks.0, [0.0, 0.25]);
        assert!(view.check_p99.0.first().unwrap().is_nan());
        assert!(!view.check_p99.now().is_nan());
    }
}
