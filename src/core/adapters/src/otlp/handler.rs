//! The handler of the otlp adapter.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::log::RateLimit;
use mixer_base::metrics::Family;
use mixer_base::task::Task;
use mixer_delivery::{Batching, Delivery, List, Owner, Settings, Spill, StoredItem, WhenFull};
use mixer_engine::adapter::{
    BoundInstance, BuildError, Env, HandleReport, Handler, HandlerError, HandlerStatus, Instance, Reply,
    join_errors,
};

use super::export::{Exported, Exporter, Resources};
use super::log::{LogTemplate, Record};
use super::metric::Metric;
use super::params::Params;
use super::reader::Reader;
use super::series::{Recorded, WallClock};
use super::span::{OtlpTemplate, SpanItem};
use crate::full::Handover;
use crate::sending::{SendingStatus, close_all, closing, settings};
use crate::tracespan::Outcome;

/// Items of a request at most.
const BATCH: usize = 2000;
/// Bytes of a request at most, unless one item has more. Collectors take 4 MiB by default.
const BATCH_BYTES: usize = 1 << 20;
/// How long log records and spans wait for others.
const WAIT: Duration = Duration::from_secs(1);
/// How long points wait for others: they come all at once.
const POINTS_WAIT: Duration = Duration::from_millis(50);

/// A built otlp adapter.
pub(super) struct OtlpHandler {
    name: Arc<str>,
    /// One a bound instance.
    feeds: Vec<Feed>,
    wall: Arc<WallClock>,
    reader: Option<Arc<Reader>>,
    logs: Option<Arc<Delivery<List<Record>>>>,
    spans: Option<Arc<Delivery<List<SpanItem>>>>,
    /// Bytes of each queue.
    queue: usize,
    warnings: RateLimit,
}

/// What becomes of an instance.
enum Feed {
    Metric(Arc<Metric>),
    Log(LogTemplate),
    Span(OtlpTemplate),
    /// Its metric is not configured.
    Nowhere,
}

impl OtlpHandler {
    pub(super) fn start(params: &Params, instances: &[BoundInstance], env: &Env) -> Result<Self, BuildError> {
        let memory = env.commons.get::<MemoryBudget>();
        let wall = Arc::new(WallClock::new(Arc::clone(&env.clock)));
        let account = Arc::new(memory.share(Purpose::Series).open());
        let feed = |instance: &BoundInstance| match &*instance.template.name {
            "metric" => params.metrics.get(&*instance.name).map_or(Feed::Nowhere, |info| {
                let labels = [&*env.handler_name, &*instance.name];
                let overflowed = env.metrics.counter(Family::OtlpOverflow, &labels);
                let (account, wall) = (Arc::clone(&account), Arc::clone(&wall));
                Feed::Metric(Arc::new(Metric::new(params, info, instance, account, wall, overflowed)))
            }),
            "logentry" => Feed::Log(LogTemplate::new(params, instance)),
            _ => Feed::Span(OtlpTemplate::new(params, instance)),
        };
        let feeds: Vec<Feed> = instances.iter().map(feed).collect();
        let metrics: Vec<Arc<Metric>> = feeds
            .iter()
            .filter_map(|feed| match feed {
                Feed::Metric(metric) => Some(Arc::clone(metric)),
                Feed::Log(_) | Feed::Span(_) | Feed::Nowhere => None,
            })
            .collect();
        let sending = Sending { params, resources: Resources::new(params), env };
        let [has_logs, has_spans] = kept(params, instances);
        // The reader waits for room: points are dropped only if there is no memory for those that wait.
        let newest = WhenFull::DropNewest;
        let configured = params.when_full.with(params.hold_timeout);
        let logs = has_logs.then(|| sending.keep("otlp log sender", configured, WAIT)).transpose()?;
        let spans = has_spans.then(|| sending.keep("otlp span sender", configured, WAIT)).transpose()?;
        let (logs, spans) = (logs.map(Arc::new), spans.map(Arc::new));
        let interval = params.export_interval.to_std_or_zero().max(super::validate::MIN_INTERVAL);
        let reader = match metrics.is_empty() {
            true => None,
            false => {
                let delivery = sending.deliver("otlp metric sender", newest, POINTS_WAIT.min(interval))?;
                let expiry = Some(params.metrics_expiry.to_std_or_zero()).filter(|after| !after.is_zero());
                let reader = Arc::new(Reader { metrics, delivery: Arc::new(delivery), expiry });
                let of_task = Arc::clone(&reader);
                env.tasks.spawn(Task::restarted("otlp metric reader").of(&*env.handler_name), move || {
                    Arc::clone(&of_task).run(interval)
                });
                Some(reader)
            }
        };
        let queue = sending.queue();
        let (name, warnings) = (Arc::clone(&env.handler_name), RateLimit::new(1));
        Ok(Self { name, feeds, wall, reader, logs, spans, queue, warnings })
    }

    fn warn(&self, what: &str, why: &str) {
        if let Some(suppressed) = self.warnings.admit() {
            tracing::warn!(handler = &*self.name, suppressed, "{what}: {why}");
        }
    }
}

/// Whether there are log records, and spans.
fn kept(params: &Params, instances: &[BoundInstance]) -> [bool; 2] {
    let has = |name: &str| instances.iter().any(|instance| &*instance.template.name == name);
    [has("logentry"), has("tracespan") && params.sample_probability > 0.0]
}

/// The directory of a signal in that of the handler.
fn spill_directory<T: Exported>(params: &Params) -> PathBuf {
    Path::new(&params.spill_directory).join(T::SIGNAL.name())
}

/// Where log records and spans are kept on disk, if they are.
pub(super) fn spill_directories(params: &Params, instances: &[BoundInstance]) -> Vec<PathBuf> {
    let [has_logs, has_spans] =
        kept(params, instances).map(|is_there| is_there && !params.spill_directory.is_empty());
    let logs = has_logs.then(|| spill_directory::<Record>(params));
    let spans = has_spans.then(|| spill_directory::<SpanItem>(params));
    logs.into_iter().chain(spans).collect()
}

/// What the three deliveries have in common.
struct Sending<'s> {
    params: &'s Params,
    resources: Resources,
    env: &'s Env,
}

impl Sending<'_> {
    fn queue(&self) -> usize {
        (self.params.queue_kilobytes as usize).saturating_mul(1024)
    }

    fn settings(&self, when_full: WhenFull, wait: Duration) -> Settings {
        let batching = Batching { items: BATCH, bytes: BATCH_BYTES, wait };
        settings(self.env, self.queue(), when_full, batching)
    }

    fn exporter<T: Exported>(&self) -> Result<Exporter, BuildError> {
        Exporter::new(self.params, T::SIGNAL, self.resources.clone(), self.env)
    }

    fn deliver<T: Exported + Sync>(
        &self,
        task: &'static str,
        when_full: WhenFull,
        wait: Duration,
    ) -> Result<Delivery<List<T>>, BuildError> {
        let (settings, exporter) = (self.settings(when_full, wait), self.exporter::<T>()?);
        Ok(Delivery::in_task(task, &*self.env.handler_name, settings, exporter))
    }

    /// As [`deliver`](Self::deliver), also on disk if there is a directory for it.
    fn keep<T: Exported + StoredItem + Sync>(
        &self,
        task: &'static str,
        when_full: WhenFull,
        wait: Duration,
    ) -> Result<Delivery<List<T>>, BuildError> {
        if self.params.spill_directory.is_empty() {
            return self.deliver(task, when_full, wait);
        }
        let (settings, exporter) = (self.settings(when_full, wait), self.exporter::<T>()?);
        let (home, directory) = (Path::new(&self.params.spill_directory), spill_directory::<T>(self.params));
        let bytes = u64::from(self.params.spill_megabytes) << 20;
        let name = &*self.env.handler_name;
        let owner = Owner { adapter: "otlp", handler: name.to_owned() };
        let spill = Spill { directory: directory.clone(), home: home.to_owned(), bytes, owner };
        Delivery::in_task_with_spill(task, name, settings, spill, exporter).map_err(|error| {
            BuildError::Invalid(vec![format!("spillDirectory: {}: {error}", directory.display())])
        })
    }
}

impl Handler for OtlpHandler {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let mut status = SendingStatus::new(self.queue);
        if let Some(reader) = &self.reader {
            status.add("metrics", reader.delivery.status(), reader.delivery.trouble());
        }
        if let Some(logs) = &self.logs {
            status.add("logs", logs.status(), logs.trouble());
        }
        if let Some(spans) = &self.spans {
            status.add("spans", spans.status(), spans.trouble());
        }
        for metric in self.reader.iter().flat_map(|reader| &reader.metrics) {
            status.add_series(
                &metric.head.name,
                metric.series.len(),
                metric.series.most(),
                metric.overflowed.get(),
            );
        }
        status.finish()
    }

    fn degradation(&self) -> Option<String> {
        let logs = self.logs.as_ref().and_then(|logs| logs.disk_failure());
        logs.or_else(|| self.spans.as_ref().and_then(|spans| spans.disk_failure()))
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
            let metrics = closing(self.reader.as_ref().map(|reader| &reader.delivery), left);
            let (logs, spans) = (closing(self.logs.as_ref(), left), closing(self.spans.as_ref(), left));
            close_all([metrics, logs, spans]).await
        })
    }
}

impl HandleReport for OtlpHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        let mut errors = Vec::new();
        let (mut records, mut spans) = (Vec::new(), Vec::new());
        let at = self.wall.monotonic();
        let mut observed = None;
        for instance in instances {
            // All instances are bound when the handler is built.
            match self.feeds.get(instance.bound).unwrap_or(&Feed::Nowhere) {
                Feed::Metric(metric) => match metric.record(instance, at) {
                    Ok(Recorded::Series) => {}
                    Ok(Recorded::Overflow) => {
                        self.warn(
                            "a metric has no room for a new series, its values go to the overflow series",
                            &metric.head.name,
                        );
                    }
                    Err(error) => errors.push(error),
                },
                Feed::Log(template) => {
                    let observed = *observed.get_or_insert_with(|| self.wall.now());
                    records.push(template.record(instance, observed));
                }
                Feed::Span(template) => match (template.span(instance), &self.spans) {
                    (Outcome::Span(span), _) => spans.push(span),
                    (Outcome::Impossible(why), Some(delivery)) => {
                        delivery.refuse(1);
                        self.warn("a span is dropped", why);
                    }
                    _ => {}
                },
                Feed::Nowhere => {
                    let name = instance.name;
                    errors.push(format!("could not find metric info from adapter config for {name}"));
                }
            }
        }
        let mut handover = Handover::default();
        if let Some(delivery) = self.logs.as_ref().filter(|_| !records.is_empty()) {
            handover.add(delivery.hand_over(records));
        }
        if let Some(delivery) = self.spans.as_ref().filter(|_| !spans.is_empty()) {
            handover.add(delivery.hand_over(spans));
        }
        let result = if errors.is_empty() { Ok(()) } else { Err(HandlerError::new(join_errors(&errors))) };
        // What is dropped is counted.
        handover.reply(move |_| result)
    }
}
