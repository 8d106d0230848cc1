//! A sink: asks a source for collections, passes changes to an [`Updater`], and answers each with an ACK or a NACK.

mod arrived;
mod service;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use mixer_base::metrics::Metrics;
use mixer_base::time::Timestamp;

use crate::client::{ClientOptions, LazyClient};
use crate::grpc::Message;
use crate::message::{RequestResources, SinkNode};
use crate::report::Report;
use crate::transport;

pub(crate) use arrived::Arrived;
pub use arrived::ChangedResources;
pub(crate) use service::SinkService;
use state::State;

/// How often files of certificates are looked for that are not there yet.
const FILES_POLL: Duration = Duration::from_millis(500);
/// Characters of a refusal.
const MAX_REFUSAL: usize = 2_048;
/// Code of a NACK for a collection that the sink did not ask for.
const UNIMPLEMENTED: i32 = 12;
/// Code of a NACK for a body that cannot be decoded.
const UNKNOWN: i32 = 2;
/// Code of a NACK for content that the application refuses.
const INVALID_ARGUMENT: i32 = 3;

/// A change of one collection, as it came from the source.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The collection.
    pub collection: Arc<str>,
    /// All resources of the collection; or, if `incremental`, those that are new or different. In the order of the message.
    pub resources: ChangedResources,
    /// Names of the resources that are gone; only if `incremental`.
    pub removed: Vec<String>,
    /// Whether it is a difference to the last change that was applied; otherwise it replaces everything.
    pub incremental: bool,
    /// The version of the collection.
    pub system_version: String,
}

/// Why a change is refused: code and text of the NACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A code of gRPC.
    pub code: i32,
    /// For the operators of the source.
    pub message: String,
}

impl Refusal {
    /// A body that cannot be decoded.
    pub fn undecodable(message: impl Into<String>) -> Self {
        Self { code: UNKNOWN, message: message.into() }
    }

    /// With a text of bounded length: it may repeat names that a source chose, and the last ones are kept.
    fn shortened(mut self) -> Self {
        if let Some((end, _)) = self.message.char_indices().nth(MAX_REFUSAL) {
            self.message.truncate(end);
            self.message.push('…');
        }
        self
    }
}

/// Refused by the application.
impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self { code: INVALID_ARGUMENT, message }
    }
}

/// A change that is being applied.
pub type Applying<'u> = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send + 'u>>;

/// Takes the changes of a sink.
pub trait Updater: Send + 'static {
    /// Takes a change as a whole, or refuses it as a whole, after which the content is as before. Called on the task of the sink, one change
    /// at a time; the answer is sent when it returns, so that it must not block.
    ///
    /// Errors: what the source is told in the NACK.
    fn apply(&mut self, change: Change) -> Result<(), Refusal>;

    /// As [`apply`](Self::apply), for changes that take so long that they are applied elsewhere. The next message is read when it completes.
    fn apply_elsewhere(&mut self, change: Change) -> Applying<'_> {
        Box::pin(std::future::ready(self.apply(change)))
    }

    /// A stream begins: the source sends everything again, and what it has of a collection is unknown until then.
    fn begin(&mut self) {}

    /// A change of a collection is refused, by [`apply`](Self::apply) or before. What the source has of it is unknown until the next one.
    fn refused(&mut self, collection: &str, refusal: &Refusal) {
        let _ = (collection, refusal);
    }
}

/// A collection that a sink asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkCollection {
    /// Its name.
    pub name: Arc<str>,
    /// The type URL of its resources; a message with others is refused. `None`: any.
    pub type_url: Option<Arc<str>>,
    /// Whether the sink takes differences; the source decides whether it sends some.
    pub incremental: bool,
}

/// Settings of a sink.
#[derive(Debug, Clone)]
pub struct SinkOptions {
    /// Who asks.
    pub node: SinkNode,
    /// What it asks for.
    pub collections: Vec<SinkCollection>,
    /// What it may [ask for](Sink::ask_for) later.
    pub later: Vec<SinkCollection>,
    /// Most bytes of a message.
    pub max_message: usize,
    /// The pauses before a stream is opened again: the first one, and the longest. They double, with jitter, and start over once a change was
    /// applied in a version that the sink did not have, or a stream has lasted as long as the longest pause: a source that sends again on each
    /// stream what was applied before, and then something that ends it, is not asked all the time.
    pub pauses: (Duration, Duration),
    /// The label `component` of the metrics.
    pub component: &'static str,
}

impl SinkOptions {
    /// The defaults for these collections: node `default`, messages of 64 MiB, pauses of 1 s to 30 s.
    pub fn new(component: &'static str, collections: Vec<SinkCollection>) -> Self {
        Self {
            node: SinkNode { id: "default".to_owned(), annotations: BTreeMap::new() },
            collections,
            later: Vec::new(),
            max_message: 64 << 20,
            pauses: (Duration::from_secs(1), Duration::from_secs(30)),
            component,
        }
    }
}

/// What a sink knows of one collection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SinkCollectionStatus {
    /// The version of the last change that was applied; `None` before the first.
    pub version: Option<String>,
    /// Resources in it.
    pub resources: usize,
    /// Time since the last message; `None` before the first.
    pub age: Option<Duration>,
    /// Changes that were applied, and refused.
    pub changes: (u64, u64),
    /// The last refusal, until a change is applied.
    pub refusal: Option<Refusal>,
}

/// What a sink shows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SinkStatus {
    /// The address of the source that it is connected to.
    pub source: Option<String>,
    /// Why the last stream ended or could not be opened, unless one is open.
    pub error: Option<String>,
    /// By name.
    pub collections: BTreeMap<Arc<str>, SinkCollectionStatus>,
}

/// A request that a sink sent.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// When.
    pub time: Timestamp,
    /// The collection.
    pub collection: Arc<str>,
    /// The nonce that it answers; empty for a first request.
    pub nonce: String,
    /// The refusal, if it is a NACK.
    pub refusal: Option<Refusal>,
    /// Whether the sink asked for differences.
    pub incremental: bool,
}

/// A sink. One value is used for all streams, one after the other: what it has is kept while there is none.
#[derive(Debug)]
pub struct Sink {
    options: SinkOptions,
    state: Mutex<State>,
    report: Report,
}

impl Sink {
    /// A sink without a stream.
    pub fn new(options: SinkOptions, metrics: &Arc<Metrics>) -> Arc<Self> {
        let collections = options.collections.iter().chain(&options.later);
        let report = Report::new(metrics, options.component, collections.map(|c| &c.name));
        let state = Mutex::new(State::new(&options));
        Arc::new(Self { options, state, report })
    }

    /// Its settings.
    pub fn options(&self) -> &SinkOptions {
        &self.options
    }

    /// Asks for a collection of [`SinkOptions::later`], from now on. For an [`Updater`] that applies a change: an open stream has the request
    /// behind the answer.
    pub fn ask_for(&self, collection: &str) {
        let later = self.options.later.iter().find(|later| &*later.name == collection);
        if let Some(later) = later {
            self.state.lock().add(later);
        }
    }

    /// What it has, and where from.
    pub fn status(&self) -> SinkStatus {
        self.state.lock().status()
    }

    /// The last 32 requests, oldest first.
    pub fn journal(&self) -> Vec<JournalEntry> {
        self.state.lock().journal()
    }

    /// Follows a source until `stop`: opens a stream, and another one when it ends. A task of its own, supervised by the caller. Files of
    /// certificates that are not there yet are waited for.
    pub async fn follow(&self, source: &ClientOptions, updater: &mut dyn Updater, stop: CancellationToken) {
        let mut client = LazyClient::default();
        let mut pauses = Pauses::new(self.options.pauses);
        loop {
            tracing::info!(source = source.address, "(re)trying to establish new MCP sink stream");
            let ended = tokio::select! {
                ended = self.stream(&mut client, source, updater, &mut pauses) => ended,
                () = stop.cancelled() => Err(Status::cancelled("the sink stops")),
            };
            let why = self.ended(ended.err());
            if stop.is_cancelled() {
                return;
            }
            let pause = match why {
                Some(Code::FailedPrecondition) => FILES_POLL,
                _ => pauses.next(),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// One stream, to its end. Errors: it could not be opened, or ended with this status.
    async fn stream(
        &self,
        client: &mut LazyClient,
        source: &ClientOptions,
        updater: &mut dyn Updater,
        pauses: &mut Pauses,
    ) -> Result<(), Status> {
        let failed = |status: Status| {
            let error = mixer_remote::grpc_error_text(&status);
            mixer_base::warn_limited!(1, "Failed to create a new MCP sink stream: {error}");
            status
        };
        let client = client.get(source).await.map_err(failed)?;
        let (requests, outgoing) = mpsc::channel(1);
        let outgoing = ReceiverStream::new(outgoing).map(Ok).boxed();
        let opening = client.open::<Arrived>(transport::SOURCE, outgoing, self.options.max_message);
        // The source need not answer before it has requests.
        let (opened, ()) = {
            let mut sending = std::pin::pin!(self.send_initial_requests(&requests));
            let mut opening = std::pin::pin!(opening);
            tokio::select! {
                opened = opening.as_mut() => (opened.map_err(failed)?, sending.await),
                () = sending.as_mut() => (opening.await.map_err(failed)?, ()),
            }
        };
        tracing::info!(source = source.address, "New MCP sink stream created");
        self.report.reconnected();
        let _open = self.opened(&source.address);
        updater.begin();
        let mut messages = opened.messages;
        let settled = Instant::now() + self.options.pauses.1;
        while let Some(message) = messages.next().await {
            let is_settled = Instant::now() >= settled;
            if is_settled {
                pauses.reset();
            }
            let (message, _) = message.inspect_err(|status| self.report.receive_failed(status.code()))?;
            let is_news =
                !self.state.lock().has_version(&message.head.collection, &message.head.system_version_info);
            let answer = self.take(message, updater).await;
            if is_news && answer.error_detail.is_none() {
                pauses.reset();
            }
            if self.send_with_others(&requests, &answer).await.is_err() {
                self.report.send_failed(Code::Unavailable);
                // Why the stream has ended.
                return match messages.next().await {
                    Some(Err(status)) => Err(status),
                    _ => Err(Status::unavailable("the connection was lost")),
                };
            }
        }
        if Instant::now() >= settled {
            pauses.reset();
        }
        drop(opened.link);
        Ok(())
    }

    /// Nothing is sent once the stream has ended.
    async fn send_initial_requests(&self, requests: &mpsc::Sender<Message>) {
        let initial = self.state.lock().initial_requests(&self.options.node);
        for request in initial {
            if self.send(requests, &request).await.is_err() {
                return;
            }
        }
    }

    /// Errors: the stream has ended.
    async fn send(&self, requests: &mpsc::Sender<Message>, request: &RequestResources) -> Result<(), ()> {
        let message = Message::of(request).map_err(|_| ())?;
        requests.send(message).await.map_err(|_| ())
    }

    /// An answer, and requests for the collections that are asked for since. Errors: the stream has ended.
    async fn send_with_others(
        &self,
        requests: &mpsc::Sender<Message>,
        answer: &RequestResources,
    ) -> Result<(), ()> {
        self.send(requests, answer).await?;
        let others = self.state.lock().later_requests(&self.options.node);
        for request in others {
            self.send(requests, &request).await?;
        }
        Ok(())
    }

    /// The requests with which a stream begins.
    #[cfg(test)]
    pub(crate) fn initial_requests(&self) -> Vec<RequestResources> {
        self.state.lock().initial_requests(&self.options.node)
    }

    /// Applies a message of the source. Returns the answer.
    pub(crate) async fn take(&self, message: Arrived, updater: &mut dyn Updater) -> RequestResources {
        let understood = self.state.lock().understand(&message);
        let change = understood.and_then(|understood| understood.change(&message));
        let head = message.head;
        let (nonce, asked) = (head.nonce, head.collection);
        let applied = match change {
            // Without the lock: the application may look at the status.
            Ok((change, applied)) => updater.apply_elsewhere(change).await.map(|()| applied),
            Err(refusal) => Err(refusal),
        };
        let applied = applied.map_err(Refusal::shortened);
        let refusal = applied.as_ref().err().cloned();
        match &refusal {
            None => self.report.acknowledged(&asked),
            Some(refusal) => {
                updater.refused(&asked, refusal);
                tracing::error!("MCP: sending NACK for nonce={nonce}: error={:?}", refusal.message);
                self.report.refused(&asked, refusal.code);
            }
        }
        self.state.lock().answer(&self.options.node, asked, nonce, applied)
    }

    /// As [`take`](Self::take), of an updater that applies every change at once.
    #[cfg(test)]
    pub(crate) fn handle(
        &self,
        message: crate::message::Resources,
        updater: &mut dyn Updater,
    ) -> RequestResources {
        use futures_util::FutureExt as _;
        self.take(message.into(), updater).now_or_never().expect("it is applied at once")
    }

    /// A stream is open until the returned value is dropped.
    fn opened(&self, source: &str) -> OpenStream<'_> {
        let mut state = self.state.lock();
        state.source = Some(source.to_owned());
        state.error = None;
        self.report.stream_opened();
        OpenStream(self)
    }

    /// A stream has ended, or could not be opened. Returns the code, if it is one of an error.
    fn ended(&self, status: Option<Status>) -> Option<Code> {
        let text = match &status {
            None => "the source has ended the stream".to_owned(),
            Some(status) => mixer_remote::grpc_error_text(status),
        };
        tracing::info!("MCP sink stream ended: {text}");
        self.state.lock().error = Some(text);
        status.map(|status| status.code())
    }
}

/// An open stream of a sink.
struct OpenStream<'s>(&'s Sink);

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        self.0.state.lock().source = None;
        self.0.report.stream_closed();
    }
}

/// Pauses that double, with jitter.
#[derive(Debug)]
struct Pauses {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pauses {
    fn new((first, longest): (Duration, Duration)) -> Self {
        Self { first, longest, next: first }
    }

    fn reset(&mut self) {
        self.next = self.first;
    }

    /// Between 80 % and 120 % of what it is without jitter: sinks that lost one source come back one after the other.
    fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        pause.mul_f64(0.8 + 0.4 * fastrand::f64())
    }
}
