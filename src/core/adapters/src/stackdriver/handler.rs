//! The handler of the stackdriver adapter.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::log::RateLimit;
use mixer_base::task::Task;
use mixer_delivery::{Batching, Delivery, List};
use mixer_engine::adapter::{
    BoundInstance, BuildError, Clock, Env, HandleReport, Handler, HandlerError, HandlerStatus, Instance,
    Reply,
};
use mixer_remote::{GoogleMetadata, GoogleOptions, GoogleTokens, RemoteError};
use tokio::time::Instant;

use super::entry::{LogTemplate, Logged};
use super::graph::{Assertion, Calls, EdgeTemplate, Graph};
use super::params::Params;
use super::place::Whereabouts;
use super::send::{Method, Sender, Sent};
use super::series::{MetricTemplate, Pushed, SeriesTable};
use super::sinks::Sinks;
use super::span::{SpanItem, TraceTemplate};
use crate::full::Handover;
use crate::outage::Outage;
use crate::sending::{SendingStatus, close_all, closing, settings};
use crate::tracespan::Outcome;

/// What tokens are for.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const METRICS: (&str, &str) = ("monitoring", "google.monitoring.v3.MetricService/CreateTimeSeries");
const LOGS: (&str, &str) = ("logging", "google.logging.v2.LoggingServiceV2/WriteLogEntries");
const SPANS: (&str, &str) = ("cloudtrace", "google.devtools.cloudtrace.v2.TraceService/BatchWriteSpans");
const EDGES: (&str, &str) =
    ("contextgraph", "google.cloud.contextgraph.v1alpha1.ContextGraphService/AssertBatch");
/// Series of a request at most, as Google has it, and entries.
const SERIES: usize = 200;
const ENTRIES: usize = 1000;
/// Bytes of a request at most, unless one item has more; of edges, less.
const BATCH_BYTES: usize = 1 << 20;
const EDGE_BYTES: usize = 500 << 10;
/// How long entries and spans wait for others; what comes all at once waits less.
const WAIT: Duration = Duration::from_secs(1);
const SHORT_WAIT: Duration = Duration::from_millis(50);
/// The interval that 0 stands for.
const PUSH_INTERVAL: Duration = Duration::from_secs(60);
/// A shorter interval would send points faster than Google takes them.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// Longer than any server runs.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A built stackdriver adapter.
pub(super) struct StackdriverHandler {
    clock: Arc<dyn Clock>,
    whereabouts: Arc<Whereabouts>,
    /// One a bound instance.
    feeds: Vec<Feed>,
    metrics: Option<Arc<Metrics>>,
    logs: Option<Arc<Delivery<List<Logged>>>>,
    spans: Option<Arc<Delivery<List<SpanItem>>>>,
    edges: Option<Arc<Edges>>,
    /// Bytes of each queue.
    queue: usize,
    warnings: Arc<Warnings>,
}

/// What becomes of an instance.
enum Feed {
    Metric(Box<MetricTemplate>),
    Log(Box<LogTemplate>),
    Span(Box<TraceTemplate>),
    Edge(Box<EdgeTemplate>),
    /// It is not configured.
    Nowhere,
}

/// Series, and their delivery.
struct Metrics {
    table: SeriesTable,
    delivery: Arc<Delivery<List<Pushed>>>,
}

impl Metrics {
    /// Hands over all series, within a limit. Points that find no room by then are dropped and counted.
    async fn push(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        for part in self.table.take() {
            let left = deadline.saturating_duration_since(Instant::now());
            self.delivery.accept_each_when_room(part, left).await;
        }
    }

    /// The same at an interval, if Google has taken those before: values go on adding up otherwise.
    async fn push_next(&self) {
        if self.delivery.status().waiting() == 0 {
            self.push(FOREVER).await;
        }
    }
}

/// The graph, and its delivery.
struct Edges {
    /// What workers have noted.
    calls: Calls,
    /// Of the task that pushes it.
    graph: tokio::sync::Mutex<Graph>,
    /// Number of its entities and edges.
    known: AtomicUsize,
    delivery: Arc<Delivery<List<Assertion>>>,
    clock: Arc<dyn Clock>,
    whereabouts: Arc<Whereabouts>,
    warnings: Arc<Warnings>,
}

impl Edges {
    /// Hands over what is new, within a limit. What finds no room by then is dropped and counted.
    async fn push(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut graph = self.graph.lock().await;
        let told = |instance: &str, why: &[String], without_room: usize| {
            why.iter().for_each(|why| self.warnings.tell(instance, why));
            if without_room > 0 {
                self.has_no_room(instance, without_room);
            }
        };
        let named = |texts: &[String; 12]| self.whereabouts.site().names.of_texts(texts);
        self.calls.add_to(&mut graph, named, told).await;
        let assertions = graph.tick(self.clock.now().seconds, self.clock.monotonic());
        self.known.store(graph.len(), Ordering::Relaxed);
        drop(graph);
        let left = deadline.saturating_duration_since(Instant::now());
        self.delivery.accept_each_when_room(assertions, left).await;
    }

    fn has_no_room(&self, instance: &str, calls: usize) {
        self.delivery.refuse(calls);
        self.warnings.tell(instance, "an edge is dropped: there is no room for more of the graph");
    }
}

/// What the log says of instances.
struct Warnings {
    handler: Arc<str>,
    limit: RateLimit,
}

impl Warnings {
    fn tell(&self, instance: &str, why: &str) {
        if let Some(suppressed) = self.limit.admit() {
            tracing::warn!(handler = &*self.handler, instance, suppressed, "{why}");
        }
    }
}

/// What the deliveries have in common.
struct Sending<'s> {
    params: &'s Params,
    env: &'s Env,
    tokens: Arc<GoogleTokens>,
    /// `projects/PROJECT`
    project: String,
    queue: usize,
}

impl Sending<'_> {
    fn deliver<T: Sent>(
        &self,
        task: &'static str,
        method: (&str, &str),
        is_routed: bool,
        context: T::Context,
        batching: Batching,
    ) -> Result<Arc<Delivery<List<T>>>, BuildError> {
        let routed = is_routed.then_some(self.project.as_str());
        let method = Method::new(self.params, &self.tokens, method, routed).map_err(refused)?;
        // What is pushed at an interval waits for room as long as it takes, whatever the parameter says.
        let when_full = self.params.when_full.with(self.params.hold_timeout);
        let settings = settings(self.env, self.queue, when_full, batching);
        let sender = Sender::<T>::new(method, context, Outage::new(&self.env.handler_name));
        Ok(Arc::new(Delivery::in_task(task, &*self.env.handler_name, settings, sender)))
    }

    /// Does some work at every interval.
    fn every<W>(&self, task: &'static str, interval: Duration, work: impl Fn() -> W + Send + Sync + 'static)
    where
        W: Future<Output = ()> + Send,
    {
        let work = Arc::new(work);
        self.env.tasks.spawn(Task::restarted(task).of(&*self.env.handler_name), move || {
            let work = Arc::clone(&work);
            async move {
                let mut ticks = tokio::time::interval(interval);
                ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                // The first tick is immediate.
                ticks.tick().await;
                loop {
                    ticks.tick().await;
                    work().await;
                }
            }
        });
    }
}

fn refused(error: RemoteError) -> BuildError {
    BuildError::Refused(error.to_string())
}

/// The options of tokens. A key file that is not there is left out, as in Istio Mixer.
fn options(params: &Params, handler: &str) -> GoogleOptions {
    let mut key_file = Path::new(&params.service_account_path);
    if !key_file.as_os_str().is_empty() && !mixer_remote::is_there(key_file) {
        let file = key_file.display();
        tracing::warn!(handler, "could not find {file}, using Application Default Credentials instead");
        key_file = Path::new("");
    }
    GoogleOptions {
        key_file: key_file.to_owned(),
        scopes: SCOPE,
        token_endpoint: params.token_endpoint.clone(),
        metadata_endpoint: params.metadata_endpoint.clone(),
        ca_file: (&params.ca_file).into(),
    }
}

impl StackdriverHandler {
    pub(super) async fn start(
        params: Params,
        instances: &[BoundInstance],
        env: &Env,
    ) -> Result<Self, BuildError> {
        let tokens = GoogleTokens::new(options(&params, &env.handler_name)).map_err(refused)?;
        let metadata = GoogleMetadata::new(&params.metadata_endpoint).map_err(refused)?;
        let whereabouts = Whereabouts::find(metadata, &params.project_id).await;
        let whereabouts = Arc::new(whereabouts.map_err(|why| BuildError::Invalid(vec![why.to_owned()]))?);
        let project = whereabouts.project();
        let feeds: Vec<Feed> = instances
            .iter()
            .map(|instance| feed(&params, project, instance))
            .collect::<Result<_, _>>()
            .map_err(BuildError::Refused)?;
        let queue = (params.queue_kilobytes as usize).saturating_mul(1024);
        let sending = Sending {
            params: &params,
            env,
            tokens: Arc::new(tokens),
            project: format!("projects/{project}"),
            queue,
        };
        let has = |is: &dyn Fn(&Feed) -> bool| feeds.iter().any(is);
        let warnings =
            Arc::new(Warnings { handler: Arc::clone(&env.handler_name), limit: RateLimit::new(1) });
        let memory = env.commons.get::<MemoryBudget>();
        let account = Arc::new(memory.share(Purpose::Series).open());
        let batching = |items, bytes, wait| Batching { items, bytes, wait };
        let metrics = match has(&|feed| matches!(feed, Feed::Metric(_))) {
            false => None,
            true => {
                let batching = batching(SERIES, BATCH_BYTES, SHORT_WAIT);
                let name = sending.project.clone();
                let delivery = sending.deliver("stackdriver metric sender", METRICS, true, name, batching)?;
                let table = SeriesTable::new(Arc::clone(&account));
                let metrics = Arc::new(Metrics { table, delivery });
                let interval = Some(params.push_interval.to_std_or_zero()).filter(|of| !of.is_zero());
                let interval = interval.unwrap_or(PUSH_INTERVAL).max(MIN_INTERVAL);
                let pushed = Arc::clone(&metrics);
                sending.every("stackdriver series", interval, move || {
                    let pushed = Arc::clone(&pushed);
                    async move { pushed.push_next().await }
                });
                Some(metrics)
            }
        };
        let logs = match has(&|feed| matches!(feed, Feed::Log(_))) {
            false => None,
            true => {
                let batching = batching(ENTRIES, BATCH_BYTES, WAIT);
                let context = Arc::clone(&whereabouts);
                Some(sending.deliver("stackdriver log sender", LOGS, false, context, batching)?)
            }
        };
        let spans = match has(&|feed| matches!(feed, Feed::Span(_))) {
            false => None,
            true => {
                let batching = batching(ENTRIES, BATCH_BYTES, WAIT);
                let name = sending.project.clone();
                Some(sending.deliver("stackdriver span sender", SPANS, true, name, batching)?)
            }
        };
        let edges = match has(&|feed| matches!(feed, Feed::Edge(_))) {
            false => None,
            true => {
                let batching = batching(usize::MAX, EDGE_BYTES, SHORT_WAIT);
                let delivery = sending.deliver("stackdriver edge sender", EDGES, false, (), batching)?;
                let edges = Arc::new(Edges {
                    calls: Calls::new(Arc::clone(&account)),
                    graph: tokio::sync::Mutex::new(Graph::new(Arc::clone(&account))),
                    known: AtomicUsize::new(0),
                    delivery,
                    clock: Arc::clone(&env.clock),
                    whereabouts: Arc::clone(&whereabouts),
                    warnings: Arc::clone(&warnings),
                });
                let interval = params.graph_interval.to_std_or_zero().max(MIN_INTERVAL);
                let pushed = Arc::clone(&edges);
                sending.every("stackdriver graph", interval, move || {
                    let pushed = Arc::clone(&pushed);
                    async move { pushed.push(FOREVER).await }
                });
                Some(edges)
            }
        };
        let sinks = params.log_info.values().filter_map(|info| info.sink_info.clone()).collect();
        let sinks = Sinks::new(&params, &sending.tokens, project, sinks).map_err(refused)?;
        if let Some(sinks) = sinks.map(Arc::new) {
            // Neither this handler nor the rest of a configuration waits for them.
            let handler = Arc::clone(&env.handler_name);
            env.tasks.spawn(Task::restarted("stackdriver sinks").of(&*handler), move || {
                let (sinks, handler) = (Arc::clone(&sinks), Arc::clone(&handler));
                async move { sinks.put(&handler).await }
            });
        }
        let (followed, handler) = (Arc::clone(&whereabouts), Arc::clone(&env.handler_name));
        env.tasks.spawn(Task::restarted("stackdriver metadata").of(&*handler), move || {
            let (followed, handler) = (Arc::clone(&followed), Arc::clone(&handler));
            async move { followed.follow(&handler).await }
        });
        Ok(Self {
            clock: Arc::clone(&env.clock),
            whereabouts,
            feeds,
            metrics,
            logs,
            spans,
            edges,
            queue,
            warnings,
        })
    }

    fn warn(&self, instance: &str, why: &str) {
        self.warnings.tell(instance, why);
    }

    fn metric(&self, metrics: &Metrics, template: &MetricTemplate, instance: &Instance<'_>) {
        if let Err(why) =
            metrics.table.add(template, instance, &self.whereabouts.site().place, self.clock.now())
        {
            metrics.delivery.refuse(1);
            self.warn(instance.name, &format!("a value is dropped: {why}"));
        }
    }
}

fn feed(params: &Params, project: &str, instance: &BoundInstance) -> Result<Feed, String> {
    let name = &*instance.name;
    Ok(match &*instance.template.name {
        "metric" => match params.metric_info.get(name) {
            Some(info) => Feed::Metric(Box::new(MetricTemplate::new(info, instance))),
            None => Feed::Nowhere,
        },
        "logentry" => match params.log_info.get(name) {
            Some(info) => Feed::Log(Box::new(LogTemplate::new(project, info, instance)?)),
            None => Feed::Nowhere,
        },
        "tracespan" => match params.trace.as_ref().map(|trace| trace.sample_probability) {
            Some(sampling) if sampling > 0.0 => {
                Feed::Span(Box::new(TraceTemplate::new(project, sampling, instance)))
            }
            _ => Feed::Nowhere,
        },
        _ => Feed::Edge(Box::new(EdgeTemplate::new(instance))),
    })
}

impl Handler for StackdriverHandler {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let mut status = SendingStatus::new(self.queue);
        let mut notes = Vec::new();
        if let Some(metrics) = &self.metrics {
            status.add("metrics", metrics.delivery.status(), metrics.delivery.trouble());
            notes.push(("series", metrics.table.len().to_string()));
        }
        if let Some(logs) = &self.logs {
            status.add("log entries", logs.status(), logs.trouble());
        }
        if let Some(spans) = &self.spans {
            status.add("spans", spans.status(), spans.trouble());
        }
        if let Some(edges) = &self.edges {
            status.add("edges", edges.delivery.status(), edges.delivery.trouble());
            notes.push(("entities and edges", edges.known.load(Ordering::Relaxed).to_string()));
        }
        HandlerStatus { notes, ..status.finish() }
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        Box::pin(async move {
            let end = Instant::now() + deadline;
            // Some time is left for sending them.
            let (half, metrics, edges) = (deadline / 2, self.metrics.as_ref(), self.edges.as_ref());
            tokio::join!(
                async {
                    if let Some(metrics) = metrics {
                        metrics.push(half).await;
                    }
                },
                async {
                    if let Some(edges) = edges {
                        edges.push(half).await;
                    }
                }
            );
            let left = end.saturating_duration_since(Instant::now());
            let metrics = closing(metrics.map(|metrics| &metrics.delivery), left);
            let edges = closing(edges.map(|edges| &edges.delivery), left);
            let (logs, spans) = (closing(self.logs.as_ref(), left), closing(self.spans.as_ref(), left));
            close_all([metrics, logs, spans, edges]).await
        })
    }
}

impl HandleReport for StackdriverHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        let (mut entries, mut spans, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for instance in instances {
            // All instances are bound when the handler is built.
            match self.feeds.get(instance.bound).unwrap_or(&Feed::Nowhere) {
                Feed::Metric(template) => {
                    if let Some(metrics) = &self.metrics {
                        self.metric(metrics, template, instance);
                    }
                }
                Feed::Log(template) => {
                    let (entry, failure) =
                        template.entry(instance, &self.whereabouts.site().place, self.clock.now());
                    if let Some(why) = failure {
                        self.warn(instance.name, &format!("failed to execute template: {why}"));
                    }
                    entries.push(entry);
                }
                Feed::Span(template) => match (template.span(instance), &self.spans) {
                    (Outcome::Span(span), _) => spans.push(span),
                    (Outcome::Impossible(why), Some(delivery)) => {
                        delivery.refuse(1);
                        self.warn(instance.name, &format!("a span is dropped: {why}"));
                    }
                    _ => {}
                },
                Feed::Edge(template) => {
                    if let Some(edges) = &self.edges
                        && !edges.calls.note(template, instance, &mut texts)
                    {
                        edges.has_no_room(instance.name, 1);
                    }
                }
                Feed::Nowhere => {}
            }
        }
        let mut handover = Handover::default();
        if let Some(logs) = self.logs.as_ref().filter(|_| !entries.is_empty()) {
            handover.add(logs.hand_over(entries));
        }
        if let Some(delivery) = self.spans.as_ref().filter(|_| !spans.is_empty()) {
            handover.add(delivery.hand_over(spans));
        }
        // What is dropped is counted.
        handover.reply(|_| Ok(()))
    }
}
