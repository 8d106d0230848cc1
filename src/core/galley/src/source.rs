//! The contract of sources.
//!
//! A [`Source`] is one asynchronous function, [`run`](Source::run), which delivers everything that it has, then
//! [`FullSync`](crate::Change::FullSync) for every collection that it feeds, then changes, until its future is dropped. To stop a source is to drop that future; to
//! start it is to call the function again, with an [`Emitter`] of the next generation. Whatever an emitter of an earlier generation
//! still delivers, from a task or a callback that has not noticed, is dropped. So stopping and starting are idempotent, each start
//! delivers everything again, and nothing is delivered after a stop, without any effort of the source.
//!
//! What is delivered again replaces what was delivered before, in one step at the sync of the collection. Meanwhile sinks keep what
//! they have.
//!
//! ```ignore
//! impl Source for Registry {
//!     fn name(&self) -> String { format!("registry {}", self.url) }
//!     fn collections(&self) -> Vec<&'static str> { vec!["istio/networking/v1alpha3/serviceentries"] }
//!     fn run(self: Arc<Self>, out: Emitter) -> BoxFuture<'static, Ended> {
//!         Box::pin(async move {
//!             let Ok(services) = self.poll().await else { return Ended::Failed("cannot reach the registry".into()) };
//!             out.health().connected(true);
//!             if out.send(self.batch(services)).await.is_err() { return Ended::Stopped }
//!             ...
//!         })
//!     }
//! }
//! ```

pub mod eureka;
pub mod files;
pub mod kubernetes;
pub mod mesh;
mod registered;
#[cfg(test)]
mod tests;
pub mod zookeeper;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use mixer_base::task::Task;
use mixer_base::time::Moment;
use mixer_config::Diagnostic;

use crate::event::{Batch, Event};

/// Resources that are delivered together, while everything is delivered.
const PART: usize = 256;
/// Most problems that are kept of a source.
const MAX_PROBLEMS: usize = 1000;
/// The pause after the first failure of a source in a row; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A source that ran this long starts again with the first pause.
const STABLE: Duration = Duration::from_secs(60);

/// Delivers resources.
pub trait Source: Send + Sync + 'static {
    /// For operators, for example `files config/`.
    fn name(&self) -> String;

    /// The collections that it feeds, by the names under which sinks see their kinds. Always the same.
    fn collections(&self) -> Vec<&'static str>;

    /// Delivers everything, then a sync of each collection, then changes. Cancel safe: the future is dropped to stop it.
    fn run(self: Arc<Self>, out: Emitter) -> BoxFuture<'static, Ended>;

    /// An operator asks to look for changes now. What was deleted counts at once.
    fn reload(&self) {}

    /// Looks for changes now: those before the call were delivered, or are [pending](Self::pending), when it returns. Returns soon.
    fn look(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// How many changes it knows of that were not delivered by now, besides those of [`Health::pending`]; what cannot be counted is one.
    fn pending(&self) -> usize {
        0
    }
}

/// Why a source ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It can no longer vouch for what it delivered, and is started again at once.
    Reset,
    /// It cannot go on, for this reason. It is started again after a pause.
    Failed(String),
    /// Its emitter said that it was stopped.
    Stopped,
}

/// The source was stopped: nothing that it delivers arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the source was stopped")]
pub struct Stopped;

/// What a source tells about itself.
#[derive(Debug, Default)]
pub struct Health(Mutex<HealthState>);

/// The health of a source at one time.
#[derive(Debug, Clone, Default)]
pub struct HealthState {
    /// Whether it reaches what it reads.
    pub is_connected: bool,
    /// What went wrong last, and when.
    pub last_error: Option<(String, Moment)>,
    /// Why something that was read is not published.
    pub held: Option<String>,
    /// Whether it is published by itself after some time.
    pub is_delayed: bool,
    /// Changes that were read and wait to be published: those that are held, and those that may be a part of another one.
    pub pending: usize,
    /// Resources that could not be decoded.
    pub skipped: usize,
    /// What is wrong with its resources: the first ones.
    pub problems: Vec<Diagnostic>,
    /// How often it lost what it reads.
    pub outages: u64,
}

impl Health {
    /// Whether what it reads can be reached.
    pub fn connected(&self, is_connected: bool) {
        let mut state = self.0.lock();
        if std::mem::replace(&mut state.is_connected, is_connected) && !is_connected {
            state.outages += 1;
        }
    }

    /// Something went wrong.
    pub fn failed(&self, why: impl Into<String>) {
        self.0.lock().last_error = Some((why.into(), Moment::now()));
    }

    /// What went wrong last is mended.
    pub fn mended(&self) {
        self.0.lock().last_error = None;
    }

    /// Why something that was read is not published by now; `None`: all of it is, or is about to be.
    pub fn held(&self, why: Option<String>) {
        let mut state = self.0.lock();
        (state.held, state.is_delayed) = (why, false);
    }

    /// [`held`](Self::held), of what is published by itself after some time.
    pub fn delayed(&self, why: String) {
        let mut state = self.0.lock();
        (state.held, state.is_delayed) = (Some(why), true);
    }

    /// How many changes that were read are not published by now, besides those that were delivered.
    pub fn pending(&self, changes: usize) {
        self.0.lock().pending = changes;
    }

    /// How many resources are skipped by now, and what is wrong with them and others: the first ones are kept.
    pub fn problems(&self, skipped: usize, mut problems: Vec<Diagnostic>) {
        problems.truncate(MAX_PROBLEMS);
        let mut state = self.0.lock();
        (state.skipped, state.problems) = (skipped, problems);
    }

    /// By now.
    pub fn state(&self) -> HealthState {
        self.0.lock().clone()
    }
}

/// What arrives from sources.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// A source was started: what follows of this generation counts.
    Started { source: usize, generation: u64 },
    /// Events of a source. `shown` is dropped when operators see what they changed.
    Events { source: usize, generation: u64, batch: Batch, shown: Option<oneshot::Sender<()>> },
}

/// Where a source delivers, from one start to the next.
#[derive(Debug, Clone)]
pub struct Emitter {
    source: usize,
    generation: u64,
    slot: Arc<Slot>,
    queue: mpsc::Sender<Delivery>,
}

impl Emitter {
    /// Delivers events that belong together. Waits while the pipeline is behind, so that what a source reads ahead is bounded.
    ///
    /// Errors: the source was stopped, or started again.
    pub async fn send(&self, batch: Batch) -> Result<(), Stopped> {
        self.deliver(batch, None).await
    }

    /// [`send`](Self::send), and waits until operators see what the events changed. Errors: as [`send`](Self::send).
    pub async fn send_and_show(&self, batch: Batch) -> Result<(), Stopped> {
        let (shown, is_shown) = oneshot::channel();
        self.deliver(batch, Some(shown)).await?;
        // Nothing is ever sent: the other end is dropped.
        drop(is_shown.await);
        if self.is_stopped() { Err(Stopped) } else { Ok(()) }
    }

    async fn deliver(&self, batch: Batch, shown: Option<oneshot::Sender<()>>) -> Result<(), Stopped> {
        if self.is_stopped() {
            return Err(Stopped);
        }
        let delivery = Delivery::Events { source: self.source, generation: self.generation, batch, shown };
        self.queue.send(delivery).await.map_err(|_| Stopped)?;
        if self.is_stopped() { Err(Stopped) } else { Ok(()) }
    }

    /// Delivers everything that there is of collections, in parts, and then their sync. Errors: as [`send`](Self::send).
    pub async fn send_everything(&self, all: Batch, collections: &[&'static str]) -> Result<(), Stopped> {
        let mut all = all.into_iter();
        loop {
            let part: Batch = all.by_ref().take(PART).collect();
            if part.is_empty() {
                break;
            }
            self.send(part).await?;
        }
        self.send(collections.iter().map(|collection| Event::full_sync(collection)).collect()).await
    }

    /// Whether the source was stopped, or started again.
    pub fn is_stopped(&self) -> bool {
        self.slot.generation.load(Ordering::Acquire) != self.generation || self.queue.is_closed()
    }

    /// How often the source was started, from 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Where the source tells about itself.
    pub fn health(&self) -> &Health {
        &self.slot.health
    }
}

/// What the starts of a source share.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// The current start; [`u64::MAX`] once it was stopped for good.
    generation: AtomicU64,
    pub(crate) health: Health,
}

/// A source with its starts.
pub(crate) struct Hosted {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) slot: Arc<Slot>,
    running: Mutex<Option<(CancellationToken, JoinHandle<()>)>>,
}

impl Hosted {
    pub(crate) fn new(source: Arc<dyn Source>) -> Self {
        Self { source, slot: Arc::default(), running: Mutex::new(None) }
    }

    /// The number of starts.
    pub(crate) fn generation(&self) -> u64 {
        self.slot.generation.load(Ordering::Acquire)
    }

    /// Starts the source; nothing if it runs.
    pub(crate) fn start(&self, index: usize, queue: &mpsc::Sender<Delivery>) {
        let mut running = self.running.lock();
        if running.is_some() {
            return;
        }
        let stop = CancellationToken::new();
        let (source, slot) = (Arc::clone(&self.source), Arc::clone(&self.slot));
        let (queue, until) = (queue.clone(), stop.clone());
        let follow = move || {
            let starts = Starts {
                index,
                source: Arc::clone(&source),
                slot: Arc::clone(&slot),
                queue: queue.clone(),
                stop: until.clone(),
            };
            starts.follow()
        };
        let task = Task::restarted("configuration source").of(self.source.name()).spawn(stop.clone(), follow);
        *running = Some((stop, task));
    }

    /// Stops the source, and waits until it has ended; nothing if it does not run. What it delivered last may wait in the queue, but
    /// counts no more.
    pub(crate) async fn stop(&self) {
        let running = self.running.lock().take();
        let Some((stop, task)) = running else { return };
        self.slot.generation.fetch_add(1, Ordering::AcqRel);
        stop.cancel();
        drop(task.await);
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        if let Some((stop, _)) = self.running.lock().take() {
            stop.cancel();
        }
    }
}

/// The starts of a source, one after the other.
struct Starts {
    index: usize,
    source: Arc<dyn Source>,
    slot: Arc<Slot>,
    queue: mpsc::Sender<Delivery>,
    stop: CancellationToken,
}

impl Starts {
    async fn follow(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let generation = self.slot.generation.fetch_add(1, Ordering::AcqRel) + 1;
            let started = tokio::time::Instant::now();
            let emitter = Emitter {
                source: self.index,
                generation,
                slot: Arc::clone(&self.slot),
                queue: self.queue.clone(),
            };
            let run = async {
                let start = Delivery::Started { source: self.index, generation };
                match self.queue.send(start).await {
                    Ok(()) => Arc::clone(&self.source).run(emitter).await,
                    Err(_) => Ended::Stopped,
                }
            };
            let ended = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                ended = run => ended,
            };
            let wait = match ended {
                Ended::Stopped => {
                    self.stop.cancelled().await;
                    return;
                }
                Ended::Reset => {
                    tracing::info!(source = self.source.name(), generation, "source starts again");
                    // A source that does nothing else would keep a core busy.
                    Duration::from_millis(10)
                }
                Ended::Failed(why) => {
                    if started.elapsed() >= STABLE {
                        pause = FIRST_PAUSE;
                    }
                    tracing::warn!(source = self.source.name(), ?pause, "source failed: {why}");
                    self.slot.health.connected(false);
                    self.slot.health.failed(why);
                    let wait = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    wait
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}
