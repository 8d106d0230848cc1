//! Records reports.

use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::endpoint::{Endpoint, Lease};
use super::key::{LabelKey, same_values};
use super::metric::{Metric, NEVER, Observation, Recorded};
use super::{MetricsExpirationPolicy, Params};
use mixer_attribute::text::{go_text, push_text};
use mixer_attribute::{SignedDuration, Value};
use mixer_base::exposition::{Labels, push_label};
use mixer_base::log::RateLimit;
use mixer_base::task::Task;
use mixer_engine::adapter::{
    BoundInstance, Clock, Env, HandleReport, Handler, HandlerError, HandlerStatus, Instance, QueueStatus,
    Reply, join_errors,
};

/// A built prometheus adapter.
pub(super) struct PrometheusHandler {
    name: Arc<str>,
    /// One per bound instance.
    feeds: Vec<Feed>,
    expiry: Option<Expiry>,
    /// Zero of the times at which gauges are set.
    started: Instant,
    refusals: RateLimit,
    lease: Lease,
}

/// The metric of an instance.
enum Feed {
    /// No metric is defined for it.
    Nowhere,
    /// Its dimensions differ from the labels of its metric.
    Mismatch { value: Option<usize>, labels: Box<[Box<str>]>, dimensions: Vec<(Box<str>, usize)> },
    /// A metric; `labels` are the positions of its label values, in the order of label names.
    Metric { metric: Arc<Metric>, value: Option<usize>, labels: Box<[usize]> },
}

impl Feed {
    fn metric(&self) -> Option<&Arc<Metric>> {
        match self {
            Feed::Metric { metric, .. } => Some(metric),
            Feed::Nowhere | Feed::Mismatch { .. } => None,
        }
    }
}

struct Expiry {
    after: u64,
    /// The last sweep, initially the build; nanoseconds of the clock.
    base: Arc<AtomicU64>,
}

impl PrometheusHandler {
    pub(super) fn new(params: &Params, instances: &[BoundInstance], lease: Lease, env: &Env) -> Self {
        let feeds = instances.iter().map(|instance| Feed::new(instance, lease.endpoint())).collect();
        let expiry =
            params.metrics_expiration_policy.as_ref().map(|p| Expiry::start(p, lease.endpoint(), env));
        let (name, started) = (Arc::clone(&env.handler_name), epoch());
        Self { name, feeds, expiry, started, refusals: RateLimit::new(1), lease }
    }

    /// Records one instance. `same_key`: it has the key of the previous instance.
    fn record(
        &self,
        key: &mut LabelKey,
        same_key: bool,
        instance: &Instance<'_>,
        sample: Observation,
    ) -> Result<(), String> {
        let feed = self.feeds.get(instance.bound).unwrap_or(&Feed::Nowhere);
        let (metric, value, positions) = match feed {
            Feed::Nowhere => {
                let name = instance.name;
                return Err(format!("could not find metric info from adapter config for {name}"));
            }
            Feed::Mismatch { value, labels, dimensions } => {
                numeric(instance, *value)?;
                return Err(mismatch(instance, labels, dimensions));
            }
            Feed::Metric { metric, value, labels } => (metric, *value, labels),
        };
        let sample = Observation { value: numeric(instance, value)?, ..sample };
        if !same_key {
            key.set(instance, positions);
        }
        match metric.record(key, sample, || labels_text(metric, instance, positions)) {
            Recorded::Taken => Ok(()),
            Recorded::Invalid(text) => Err(text),
            Recorded::Refused => {
                self.warn_refused(metric);
                Ok(())
            }
        }
    }

    #[cold]
    fn warn_refused(&self, metric: &Metric) {
        if let Some(suppressed) = self.refusals.admit() {
            tracing::warn!(
                adapter = &*self.name,
                metric = metric.definition.name,
                suppressed,
                "report dropped: the metric has reached maxSeries"
            );
        }
    }

    fn sample(&self) -> Observation {
        let expires =
            self.expiry.as_ref().map_or(NEVER, |e| e.base.load(Ordering::Relaxed).saturating_add(e.after));
        let at = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Observation { value: 0.0, expires, at }
    }
}

impl Handler for PrometheusHandler {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let mut metrics: Vec<&Arc<Metric>> = self.feeds.iter().filter_map(Feed::metric).collect();
        metrics.sort_by(|a, b| a.definition.name.cmp(&b.definition.name));
        metrics.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let queue = |metric: &&Arc<Metric>| {
            let (length, capacity) = metric.fill();
            let dropped = metric.refused();
            QueueStatus { name: format!("series {}", metric.definition.name), length, capacity, dropped }
        };
        HandlerStatus { queues: metrics.iter().map(queue).collect(), ..HandlerStatus::default() }
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        Box::pin(async move {
            self.lease.close(deadline).await;
            Ok(())
        })
    }
}

impl HandleReport for PrometheusHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        let sample = self.sample();
        let mut errors = Vec::new();
        LabelKey::with(|key| {
            let mut previous: Option<(&Instance<'_>, &[usize])> = None;
            for instance in instances {
                let positions = match self.feeds.get(instance.bound) {
                    Some(Feed::Metric { labels, .. }) => Some(&**labels),
                    _ => None,
                };
                let this = positions.map(|positions| (instance, positions));
                let same =
                    matches!((previous, this), (Some(previous), Some(this)) if same_values(previous, this));
                match self.record(key, same, instance, sample) {
                    Ok(()) => previous = this.or(previous),
                    // Its key may not have been encoded.
                    Err(error) => {
                        previous = None;
                        errors.push(error);
                    }
                }
            }
        });
        Reply::Ready(if errors.is_empty() { Ok(()) } else { Err(HandlerError::new(join_errors(&errors))) })
    }
}

impl Feed {
    fn new(instance: &BoundInstance, endpoint: &Endpoint) -> Self {
        let Some(metric) = endpoint.metric(&instance.name) else { return Feed::Nowhere };
        let value = instance.position("value");
        let labels = &metric.definition.labels;
        let dimensions: Vec<(&str, usize)> = instance.entries("dimensions").collect();
        let position = |label: &String| dimensions.iter().find(|(key, _)| key == label).map(|(_, at)| *at);
        match labels.iter().map(position).collect::<Option<Box<[usize]>>>() {
            Some(positions) if positions.len() == dimensions.len() => {
                Feed::Metric { value, labels: positions, metric }
            }
            _ => {
                let dimensions = dimensions.iter().map(|(key, at)| ((*key).into(), *at)).collect();
                Feed::Mismatch {
                    value,
                    labels: labels.iter().map(|label| (**label).into()).collect(),
                    dimensions,
                }
            }
        }
    }
}

impl Expiry {
    /// Starts the sweeper, which ends with the handler.
    fn start(policy: &MetricsExpirationPolicy, endpoint: &Arc<Endpoint>, env: &Env) -> Self {
        let nanos = |d: SignedDuration| u64::try_from(d.nanos).unwrap_or(0);
        let after = nanos(policy.metrics_expiry_duration);
        let base = Arc::new(AtomicU64::new(nanos_now(&*env.clock)));
        let interval = match policy.expiry_check_interval_duration.nanos {
            0 => after / 2,
            interval => u64::try_from(interval).unwrap_or(0),
        };
        if interval > 0 {
            let interval = Duration::from_nanos(interval);
            let (endpoint, swept, clock) =
                (Arc::downgrade(endpoint), Arc::clone(&base), Arc::clone(&env.clock));
            env.tasks.spawn(Task::restarted("series sweeper").of(&*env.handler_name), move || {
                sweep(endpoint.clone(), Arc::clone(&swept), Arc::clone(&clock), interval)
            });
        }
        Self { after, base }
    }
}

async fn sweep(endpoint: Weak<Endpoint>, base: Arc<AtomicU64>, clock: Arc<dyn Clock>, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick is immediate.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        // Without its endpoint the handler is being closed, which cancels this task.
        let Some(endpoint) = endpoint.upgrade() else { return std::future::pending().await };
        let now = nanos_now(&*clock);
        base.store(now, Ordering::Relaxed);
        endpoint.metrics().iter().for_each(|metric| metric.sweep(now));
    }
}

fn nanos_now(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.monotonic().as_nanos()).unwrap_or(u64::MAX)
}

/// About the start of the process; the same for all handlers, because they can share gauges.
fn epoch() -> Instant {
    static EPOCH: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

fn numeric(instance: &Instance<'_>, position: Option<usize>) -> Result<f64, String> {
    let value = position.and_then(|at| instance.value(at));
    let refuse = |why: String| format!("could not get value for metric {}: {why}", instance.name);
    match value {
        Some(Value::Double(number)) => Ok(number),
        Some(Value::Int64(number)) => Ok(number as f64),
        Some(Value::Duration(duration)) => Ok(duration.nanos as f64 / 1e9),
        Some(Value::String(text)) => parse(text).map_err(|why| {
            refuse(format!("strconv.ParseFloat: parsing {:?}: {why}", String::from_utf8_lossy(text)))
        }),
        Some(other) => Err(refuse(format!("could not extract numeric value for {}", go_text(other)))),
        None => Err(refuse("could not extract numeric value for <nil>".to_owned())),
    }
}

fn parse(text: &[u8]) -> Result<f64, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "invalid syntax")?;
    let number: f64 = text.parse().map_err(|_| "invalid syntax")?;
    let is_infinity = text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
    if number.is_infinite() && !is_infinity { Err("value out of range") } else { Ok(number) }
}

/// Renders the labels of a new series. Errors: a value that is not UTF-8.
fn labels_text(metric: &Metric, instance: &Instance<'_>, positions: &[usize]) -> Result<Labels, String> {
    let mut text = Vec::new();
    let mut value = Vec::new();
    for (name, position) in metric.definition.labels.iter().zip(positions) {
        value.clear();
        if let Some(present) = instance.value(*position) {
            push_text(&mut value, present);
        }
        if std::str::from_utf8(&value).is_err() {
            return Err(format!("label value {:?} is not valid UTF-8", String::from_utf8_lossy(&value)));
        }
        push_label(&mut text, name, &value);
    }
    Ok(Labels::from_text(text))
}

fn mismatch(instance: &Instance<'_>, labels: &[Box<str>], dimensions: &[(Box<str>, usize)]) -> String {
    let is_missing = |label: &&str| dimensions.iter().all(|(dimension, _)| **dimension != **label);
    if labels.len() == dimensions.len()
        && let Some(missing) = labels.iter().map(|label| &**label).find(is_missing)
    {
        return format!("label name {missing:?} missing in label map");
    }
    let labels = labels.len();
    let mut text = format!(
        "inconsistent label cardinality: expected {labels} label values but got {} in prometheus.Labels{{",
        dimensions.len()
    );
    for (i, (key, position)) in dimensions.iter().enumerate() {
        let mut value = Vec::new();
        if let Some(present) = instance.value(*position) {
            push_text(&mut value, present);
        }
        let separator = if i == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{key:?}:{:?}", String::from_utf8_lossy(&value));
    }
    text.push('}');
    text
}
