//! The handler of the signalfx adapter.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::log::RateLimit;
use mixer_base::metrics::Family;
use mixer_base::task::Task;
use mixer_delivery::{Batching, Bounds, Delivery, List, Settings, WhenFull};
use mixer_engine::adapter::{
    BoundInstance, BuildError, Clock, Env, HandleReport, Handler, HandlerError, HandlerStatus, Instance,
    Reply, join_errors,
};

use super::Params;
use super::ingest::{Ingest, Ingested};
use super::metric::{Metric, Point};
use super::series::Recorded;
use super::span::{JsonTemplate, SpanItem};
use crate::full::Handover;
use crate::sending::{SendingStatus, close_all, closing, settings};
use crate::tracespan::Outcome;

/// Items of a request at most.
const BATCH: usize = 10_000;
/// Bytes of a request at most, unless one item has more.
const BATCH_BYTES: usize = 1 << 20;
/// How long items wait for others.
const WAIT: Duration = Duration::from_millis(100);
/// Longer than any server runs.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Istio Mixer's text.
const FULL: &str = "dropping span because trace buffer is full -- you should increase the capacity of it";

/// A built signalfx adapter.
pub(super) struct SignalFxHandler {
    name: Arc<str>,
    clock: Arc<dyn Clock>,
    /// One a bound instance.
    feeds: Vec<Feed>,
    /// `None`: no datapoint is sent.
    reader: Option<Arc<Reader>>,
    /// `None`: no span is sent.
    spans: Option<Arc<Delivery<List<SpanItem>>>>,
    queue: usize,
    warnings: RateLimit,
}

/// Where an instance goes.
enum Feed {
    Metric(Arc<Metric>),
    Span(Box<JsonTemplate>),
    Nowhere,
}

/// Reads the metrics of a handler.
struct Reader {
    metrics: Vec<Arc<Metric>>,
    delivery: Arc<Delivery<List<Point>>>,
    clock: Arc<dyn Clock>,
}

impl Reader {
    /// Hands over the datapoints of all series, at every interval. While the queue is full it waits: what comes meanwhile is in the sums that
    /// it reads next.
    async fn run(self: Arc<Self>, interval: Duration) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first tick is immediate.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.read(FOREVER).await;
        }
    }

    /// Hands over the datapoints of all series, within a limit. Those that find no room by then are dropped and counted.
    async fn read(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        for metric in &self.metrics {
            for part in metric.series.parts() {
                // When it is read, not when the reading began: it may have waited.
                let millis = i64::try_from(self.clock.unix_time().as_millis()).unwrap_or(i64::MAX);
                let points = metric.points(part, millis, self.clock.monotonic());
                if !points.is_empty() {
                    let left = deadline.saturating_duration_since(Instant::now());
                    self.delivery.accept_each_when_room(points, left).await;
                }
            }
        }
    }
}

impl SignalFxHandler {
    pub(super) fn start(params: &Params, instances: &[BoundInstance], env: &Env) -> Result<Self, BuildError> {
        let account = Arc::new(env.commons.get::<MemoryBudget>().share(Purpose::Series).open());
        let feed = |instance: &BoundInstance| {
            let kind = params.kind_of(&instance.name);
            match (&*instance.template.name, kind) {
                ("metric", Some(kind)) if params.enable_metrics => {
                    let labels = [&*env.handler_name, &*instance.name];
                    let overflowed = env.metrics.counter(Family::SignalfxOverflow, &labels);
                    Feed::Metric(Arc::new(Metric::new(instance, kind, Arc::clone(&account), overflowed)))
                }
                ("tracespan", _) if params.enable_tracing => {
                    Feed::Span(Box::new(JsonTemplate::new(instance, params.tracing_sample_probability)))
                }
                _ => Feed::Nowhere,
            }
        };
        let feeds: Vec<Feed> = instances.iter().map(feed).collect();
        let metrics: Vec<Arc<Metric>> = feeds
            .iter()
            .filter_map(|feed| match feed {
                Feed::Metric(metric) => Some(Arc::clone(metric)),
                Feed::Span(_) | Feed::Nowhere => None,
            })
            .collect();
        let has_spans = feeds.iter().any(|feed| matches!(feed, Feed::Span(_)));
        let spans = match has_spans {
            true => {
                let items = params.tracing_buffer_size.max(1) as usize;
                let when_full = params.when_full.with(params.hold_timeout);
                Some(Arc::new(deliver("signalfx span sender", params, items, when_full, env)?))
            }
            false => None,
        };
        let reader = match metrics.is_empty() {
            true => None,
            false => {
                let task = "signalfx metric sender";
                let delivery = Arc::new(deliver(task, params, usize::MAX, WhenFull::DropNewest, env)?);
                let reader = Arc::new(Reader { metrics, delivery, clock: Arc::clone(&env.clock) });
                let (of_task, interval) = (Arc::clone(&reader), params.interval());
                let handler = &*env.handler_name;
                env.tasks.spawn(Task::restarted("signalfx metric reader").of(handler), move || {
                    Arc::clone(&of_task).run(interval)
                });
                Some(reader)
            }
        };
        let (name, clock) = (Arc::clone(&env.handler_name), Arc::clone(&env.clock));
        let warnings = RateLimit::new(1);
        Ok(Self { name, clock, feeds, reader, spans, queue: queue(params), warnings })
    }

    fn warn(&self, what: &str, why: &str) {
        if let Some(suppressed) = self.warnings.admit() {
            tracing::warn!(handler = &*self.name, suppressed, "{what}: {why}");
        }
    }
}

/// Bytes of a queue.
fn queue(params: &Params) -> usize {
    (params.queue_kilobytes as usize).saturating_mul(1024)
}

fn deliver<T: Ingested>(
    task: &'static str,
    params: &Params,
    items: usize,
    when_full: WhenFull,
    env: &Env,
) -> Result<Delivery<List<T>>, BuildError> {
    let batching = Batching { items: BATCH.min(items), bytes: BATCH_BYTES, wait: WAIT };
    let usual = settings(env, queue(params), when_full, batching);
    let settings = Settings { bounds: Bounds { items, ..usual.bounds }, ..usual };
    let sink = Ingest::new::<T>(params, env)?;
    Ok(Delivery::in_task(task, &*env.handler_name, settings, sink))
}

impl Handler for SignalFxHandler {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let mut status = SendingStatus::new(self.queue);
        if let Some(reader) = &self.reader {
            status.add("metrics", reader.delivery.status(), reader.delivery.trouble());
        }
        if let Some(spans) = &self.spans {
            status.add("spans", spans.status(), spans.trouble());
        }
        for metric in self.reader.iter().flat_map(|reader| &reader.metrics) {
            status.add_series(
                &metric.name,
                metric.series.len(),
                metric.series.most(),
                metric.overflowed.get(),
            );
        }
        status.finish()
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        Box::pin(async move {
            let end = Instant::now() + deadline;
            if let Some(reader) = &self.reader {
                // Some time is left for sending them.
                reader.read(deadline / 2).await;
            }
            let left = end.saturating_duration_since(Instant::now());
            let metrics = self.reader.as_ref().map(|reader| &reader.delivery);
            close_all([closing(metrics, left), closing(self.spans.as_ref(), left)]).await
        })
    }
}

impl HandleReport for SignalFxHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        let mut errors = Vec::new();
        let mut spans = Vec::new();
        let at = self.clock.monotonic();
        for instance in instances {
            // All instances are bound when the handler is built.
            match self.feeds.get(instance.bound).unwrap_or(&Feed::Nowhere) {
                Feed::Metric(metric) => match metric.record(instance, at) {
                    Ok(Recorded::Series) => {}
                    Ok(Recorded::Overflow) => {
                        let what =
                            "a metric has no room for a new series, its values go to the overflow series";
                        self.warn(what, &metric.name);
                    }
                    Err(error) => errors.push(error),
                },
                Feed::Span(template) => match (template.span(instance), &self.spans) {
                    (Outcome::Span(span), _) => spans.push(span),
                    (Outcome::Impossible(why), Some(delivery)) => {
                        delivery.refuse(1);
                        self.warn("a span is dropped", why);
                    }
                    _ => {}
                },
                Feed::Nowhere => {}
            }
        }
        let mut handover = Handover::default();
        if let Some(delivery) = self.spans.as_ref().filter(|_| !spans.is_empty()) {
            handover.add(delivery.hand_over(spans));
        }
        handover.reply(move |dropped| match (errors.is_empty(), dropped > 0) {
            (true, false) => Ok(()),
            (true, true) => Err(HandlerError::new(FULL)),
            (false, is_full) => {
                errors.extend(is_full.then(|| FULL.to_owned()));
                Err(HandlerError::new(join_errors(&errors)))
            }
        })
    }
}
