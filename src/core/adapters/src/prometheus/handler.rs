//! Records reports.

use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::endpoint::{Endpoint, Lease};
use super::key::{LabelKey, same_values};
use super::metric::{Metric, NEVER, NewLabels, Observation, Recorded};
use super::{MetricsExpirationPolicy, Params};
use crate::cut::{MAX_BYTES, cut, push_cut};
use mixer_attribute::text::{MAX_REPEATED, brief_text, push_text};
use mixer_attribute::{SignedDuration, Value};
use mixer_base::bounded::key_digest;
use mixer_base::exposition::{Labels, push_label};
use mixer_base::log::RateLimit;
use mixer_base::quote::quoted;
use mixer_base::task::Task;
use mixer_engine::adapter::{
    BoundInstance, Clock, Env, HandleReport, Handler, HandlerError, HandlerStatus, Instance, QueueStatus,
    Reply, join_errors,
};

/// A built prometheus adapter.
pub(super) struct PrometheusHandler {
    name: Arc<str>,
    /// The bound instances and their metrics.
    feeds: Vec<(BoundInstance, Feed)>,
    /// Metrics that were redefined by other handlers since: the feeds that replace those in `feeds`, by bound instance.
    moved: Mutex<Vec<Option<Arc<Feed>>>>,
    clock: Arc<dyn Clock>,
    /// Time after which idle series are removed, in nanoseconds.
    expiry: Option<u64>,
    refusals: RateLimit,
    lease: Lease,
}

/// The metric of an instance.
enum Feed {
    /// No metric is defined for it.
    Nowhere,
    /// Its dimensions differ from the labels of its metric.
    Mismatch {
        metric: Arc<Metric>,
        value: Option<usize>,
        labels: Box<[Box<str>]>,
        dimensions: Vec<(Box<str>, usize)>,
    },
    /// A metric; `labels` are the positions of its label values, in the order of label names.
    Metric { metric: Arc<Metric>, value: Option<usize>, labels: Box<[usize]> },
}

impl Feed {
    /// The metric of the instance.
    fn metric(&self) -> Option<&Arc<Metric>> {
        match self {
            Feed::Metric { metric, .. } | Feed::Mismatch { metric, .. } => Some(metric),
            Feed::Nowhere => None,
        }
    }
}

impl PrometheusHandler {
    pub(super) fn new(params: &Params, instances: &[BoundInstance], lease: Lease, env: &Env) -> Self {
        let feed = |instance: &BoundInstance| Feed::new(instance, lease.endpoint().metric(&instance.name));
        let feeds = instances.iter().map(|instance| (instance.clone(), feed(instance))).collect();
        let expiry =
            params.metrics_expiration_policy.as_ref().map(|p| start_sweeper(p, lease.endpoint(), env));
        Self {
            name: Arc::clone(&env.handler_name),
            feeds,
            moved: Mutex::new(vec![None; instances.len()]),
            clock: Arc::clone(&env.clock),
            expiry,
            refusals: RateLimit::new(1),
            lease,
        }
    }

    /// The feed of a bound instance, and the metric that took the place of its own.
    fn feed(&self, bound: usize) -> (&Feed, Option<Arc<Metric>>) {
        let feed = self.feeds.get(bound).map_or(&Feed::Nowhere, |(_, feed)| feed);
        (feed, feed.metric().and_then(|metric| metric.successor()))
    }

    /// The feed into the metric that took the place of the one that this handler was built with.
    #[cold]
    fn moved(&self, bound: usize, metric: Arc<Metric>) -> Option<Arc<Feed>> {
        let (instance, _) = self.feeds.get(bound)?;
        let mut all = self.moved.lock();
        let moved = all.get_mut(bound)?;
        let is_current = |feed: &Arc<Feed>| feed.metric().is_some_and(|of| Arc::ptr_eq(of, &metric));
        if !moved.as_ref().is_some_and(is_current) {
            *moved = Some(Arc::new(Feed::new(instance, Some(metric))));
        }
        moved.clone()
    }

    /// Records one instance. `same_key`: it has the key of the previous instance.
    fn record(
        &self,
        feed: &Feed,
        key: &mut LabelKey,
        same_key: bool,
        instance: &Instance<'_>,
        sample: Observation,
    ) -> Result<(), String> {
        let (metric, value, positions) = match feed {
            Feed::Nowhere => {
                let name = instance.name;
                return Err(format!("could not find metric info from adapter config for {name}"));
            }
            Feed::Mismatch { value, labels, dimensions, .. } => {
                numeric(instance, *value)?;
                return Err(mismatch(instance, labels, dimensions));
            }
            Feed::Metric { metric, value, labels } => (metric, *value, labels),
        };
        let sample = Observation { value: numeric(instance, value)?, ..sample };
        if !same_key {
            key.set(instance, positions);
        }
        match metric.record(key, sample, || labels_text(metric, instance, positions, key.digests())) {
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
        let at = nanos_now(&*self.clock);
        let expires = self.expiry.map_or(NEVER, |after| at.saturating_add(after));
        Observation { value: 0.0, expires, at }
    }
}

impl Handler for PrometheusHandler {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let current = |metric: &Arc<Metric>| metric.successor().unwrap_or_else(|| Arc::clone(metric));
        let fed = self.feeds.iter().filter_map(|(_, feed)| match feed {
            Feed::Metric { metric, .. } => Some(current(metric)),
            Feed::Nowhere | Feed::Mismatch { .. } => None,
        });
        let mut metrics: Vec<Arc<Metric>> = fed.collect();
        metrics.sort_by(|a, b| a.definition.name.cmp(&b.definition.name));
        metrics.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let queue = |metric: &Arc<Metric>| {
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
                let (feed, successor) = self.feed(instance.bound);
                if let Some(successor) = successor {
                    previous = None;
                    let moved = self.moved(instance.bound, successor);
                    let feed = moved.as_deref().unwrap_or(&Feed::Nowhere);
                    errors.extend(self.record(feed, key, false, instance, sample).err());
                    continue;
                }
                let positions = match feed {
                    Feed::Metric { labels, .. } => Some(&**labels),
                    _ => None,
                };
                let this = positions.map(|positions| (instance, positions));
                let same =
                    matches!((previous, this), (Some(previous), Some(this)) if same_values(previous, this));
                match self.record(feed, key, same, instance, sample) {
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
    fn new(instance: &BoundInstance, metric: Option<Arc<Metric>>) -> Self {
        let Some(metric) = metric else { return Feed::Nowhere };
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
                let labels = labels.iter().map(|label| (**label).into()).collect();
                Feed::Mismatch { value, labels, dimensions, metric }
            }
        }
    }
}

/// Starts the sweeper, which ends with the handler. Returns the expiry in nanoseconds.
fn start_sweeper(policy: &MetricsExpirationPolicy, endpoint: &Arc<Endpoint>, env: &Env) -> u64 {
    let nanos = |d: SignedDuration| u64::try_from(d.nanos).unwrap_or(0);
    let after = nanos(policy.metrics_expiry_duration);
    let interval = match policy.expiry_check_interval_duration.nanos {
        0 => after / 2,
        interval => u64::try_from(interval).unwrap_or(0),
    };
    if interval > 0 {
        let interval = Duration::from_nanos(interval);
        let (endpoint, clock) = (Arc::downgrade(endpoint), Arc::clone(&env.clock));
        env.tasks.spawn(Task::restarted("series sweeper").of(&*env.handler_name), move || {
            sweep(endpoint.clone(), Arc::clone(&clock), interval)
        });
    }
    after
}

async fn sweep(endpoint: Weak<Endpoint>, clock: Arc<dyn Clock>, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick is immediate.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        // Without its endpoint the handler is being closed, which cancels this task.
        let Some(endpoint) = endpoint.upgrade() else { return std::future::pending().await };
        let now = nanos_now(&*clock);
        endpoint.metrics().iter().for_each(|metric| metric.sweep(now));
    }
}

fn nanos_now(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.monotonic().as_nanos()).unwrap_or(u64::MAX)
}

fn numeric(instance: &Instance<'_>, position: Option<usize>) -> Result<f64, String> {
    let value = position.and_then(|at| instance.value(at));
    let refuse = |why: String| format!("could not get value for metric {}: {why}", instance.name);
    match value {
        Some(Value::Double(number)) => Ok(number),
        Some(Value::Int64(number)) => Ok(number as f64),
        Some(Value::Duration(duration)) => Ok(duration.nanos as f64 / 1e9),
        Some(Value::String(text)) => {
            let shown = || match text.len() > MAX_REPEATED {
                true => brief_text(Value::String(text)),
                false => quoted(text).to_string(),
            };
            parse(text).map_err(|why| refuse(format!("strconv.ParseFloat: parsing {}: {why}", shown())))
        }
        Some(other) => Err(refuse(format!("could not extract numeric value for {}", brief_text(other)))),
        None => Err(refuse("could not extract numeric value for <nil>".to_owned())),
    }
}

fn parse(text: &[u8]) -> Result<f64, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "invalid syntax")?;
    let number: f64 = text.parse().map_err(|_| "invalid syntax")?;
    let is_infinity = text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
    if number.is_infinite() && !is_infinity { Err("value out of range") } else { Ok(number) }
}

/// Renders the labels of a new series; long values are cut, strings without a copy of the whole. `digests` are those of the long strings.
/// Errors: a value that is not UTF-8.
fn labels_text(
    metric: &Metric,
    instance: &Instance<'_>,
    positions: &[usize],
    digests: &[[u8; 32]],
) -> Result<NewLabels, String> {
    let mut text = Vec::new();
    let mut value = Vec::new();
    let mut cuts = 0;
    let mut digests = digests.iter();
    for (name, position) in metric.definition.labels.iter().zip(positions) {
        value.clear();
        let long = match instance.value(*position) {
            Some(Value::String(long)) if long.len() > MAX_BYTES => {
                Some((long, digests.next().copied().unwrap_or_else(|| key_digest(long))))
            }
            Some(present) => {
                push_text(&mut value, present);
                None
            }
            None => None,
        };
        if std::str::from_utf8(long.map_or(&value, |(long, _)| long)).is_err() {
            let mut shown = long.map_or_else(|| value.clone(), |(long, _)| long.to_vec());
            cut(&mut shown);
            return Err(format!("label value {} is not valid UTF-8", quoted(&shown)));
        }
        cuts += u64::from(match long {
            Some((long, digest)) => {
                push_cut(&mut value, long, &digest);
                true
            }
            None => cut(&mut value),
        });
        push_label(&mut text, name, &value);
    }
    Ok(NewLabels { labels: Labels::from_text(text), cut: cuts })
}

fn mismatch(instance: &Instance<'_>, labels: &[Box<str>], dimensions: &[(Box<str>, usize)]) -> String {
    let is_missing = |label: &&str| dimensions.iter().all(|(dimension, _)| **dimension != **label);
    if labels.len() == dimensions.len()
        && let Some(missing) = labels.iter().map(|label| &**label).find(is_missing)
    {
        return format!("label name {} missing in label map", quoted(missing));
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
            cut(&mut value);
        }
        let separator = if i == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{}:{}", quoted(&**key), quoted(&value));
    }
    text.push('}');
    text
}
