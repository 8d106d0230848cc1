//! The state of one worker: the engine and arenas for reuse. Shared by Mixer's service and those of Envoy.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bumpalo::Bump;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::call::CallInfo;
use super::call_pool::CallPool;
use super::grpc::{Code, GrpcError};
use super::observers::Observers;
use super::principal::CallerPrincipal;
use crate::load_shedding::LoadShedder;
use mixer_attribute::request::SliceLimits;
use mixer_base::budget::Share;
use mixer_base::metrics::Metrics;
use mixer_engine::dispatch::{DispatchContext, LastKnownAnswers, Trace};
use mixer_engine::runtime::{PublishedGuard, Runtime};

/// Arenas that a worker keeps for its next requests: at most 4 MiB.
const SPARE_ARENAS: usize = 16;
/// An arena that grew beyond this is freed instead of kept.
const MAX_SPARE_BYTES: usize = 256 << 10;

/// Bounds of what one message may hold, whatever its size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageLimits {
    /// Quotas of a check, and descriptors of a rate limit call.
    pub quotas: usize,
    /// Records of a report, and entries of an access log message.
    pub records: usize,
}

impl Default for MessageLimits {
    /// Istio's proxies ask for a few quotas and batch up to 1 000 records; an access log message of 8 MiB has 20 000 entries of 400
    /// bytes.
    fn default() -> Self {
        Self { quotas: 64, records: 20_000 }
    }
}

/// The engine as the services see it; shared by all workers.
#[derive(Clone)]
pub struct Engine {
    /// The published configuration.
    pub runtime: Arc<Runtime>,
    /// The metrics registry.
    pub metrics: Arc<Metrics>,
    /// Last successful answers, for handlers whose error policy repeats them.
    pub last_known: Arc<LastKnownAnswers>,
    /// Rejects calls under overload.
    pub shedder: Option<Arc<LoadShedder>>,
    /// The decision log and the tracer.
    pub observers: Option<Arc<Observers>>,
    /// Bounds of messages.
    pub limits: MessageLimits,
    /// Memory of what calls decoded that wait for handlers.
    pub waiting: Arc<Share>,
    /// Mixer's Check fails as in Istio Mixer, where a failure precedes a refusal, and callers are who they say.
    pub as_istio_mixer: bool,
}

/// The engine, and the memory that one worker reuses without locks.
pub struct WorkerContext {
    /// The engine.
    pub engine: Engine,
    spare_arenas: RefCell<Vec<Bump>>,
    /// Held by the call that has a slice: of all long calls of a worker, one at a time has memory for records.
    turns: Semaphore,
    /// The work of a record in recent reports.
    record_work: Cell<usize>,
    /// How much longer recent deliveries took than their work says, in parts of [`PAR`].
    delivery_weight: Cell<usize>,
}

/// Bounds of the records that a call decodes at once.
pub(crate) const SLICE: SliceLimits = SliceLimits { records: 128, bytes: 256 << 10 };
/// Memory of an arena at which a slice ends.
const SLICE_BYTES: usize = 1 << 20;
/// The work of a call after which its worker serves other calls, in evaluations of a condition or a value: about 10 ns each, so 0.1 ms. A
/// proxy's batch of 25 records with 4 metrics of 17 dimensions takes 5 800.
pub const WORK_PER_TURN: usize = 8 << 10;
/// The time that goes with [`WORK_PER_TURN`]: what is estimated takes longer when nothing of it is in the caches of the processor. Without
/// optimization everything does, and tests say which calls are interrupted: there the work alone decides, but for what hangs.
const TIME_PER_TURN: Duration = Duration::from_micros(if cfg!(debug_assertions) { 500_000 } else { 100 });
/// Work between two looks at the clock, some 3 us.
const WORK_PER_LOOK: usize = 256;
/// The time of a unit of work, in nanoseconds.
const NANOS_PER_WORK: usize = if cfg!(debug_assertions) { 500 } else { 10 };
/// The weight of a delivery that takes what its work says. Handlers that encode or count what they get take longer.
const PAR: usize = 16;
/// The most that one delivery counts for, as its thread may have waited for its core meanwhile.
const MAX_WEIGHT: usize = 64 * PAR;
/// The work of the records of a message that are decoded at once: a proxy's batch of 100.
const WHOLE_WORK: usize = 32 << 10;
/// The work of a record besides evaluations.
const RECORD_WORK: usize = 32;
/// Bytes whose decoding takes as long as one evaluation.
const BYTES_PER_WORK: usize = 8;
/// Bytes of a record with which an evaluation takes as long as two of short values.
const BYTES_PER_EVALUATION: usize = 1 << 10;

/// Bytes of long texts of a record whose evaluation and delivery take as long as one evaluation.
const TEXT_PER_WORK: usize = 4;

/// The work of decoding so many bytes.
fn decoding_work(bytes: usize) -> usize {
    bytes / BYTES_PER_WORK
}

/// The work of a record of so many bytes, long texts of so many bytes and so many evaluations.
fn record_work(bytes: usize, text: usize, evaluations: usize) -> usize {
    let evaluating = evaluations.saturating_mul(1 + bytes / BYTES_PER_EVALUATION);
    RECORD_WORK + decoding_work(bytes) + text / TEXT_PER_WORK + evaluating
}

/// What one call works with. Holds the configuration that was published when the call began.
pub struct CallScope<'w> {
    /// The configuration.
    pub published: PublishedGuard,
    /// The context of its dispatches.
    pub context: DispatchContext<'w>,
    /// Memory that lives as long as the call.
    pub arena: WorkerArena<'w>,
}

/// An arena that returns to its worker when it is dropped.
pub struct WorkerArena<'w> {
    arena: Bump,
    spare: &'w RefCell<Vec<Bump>>,
}

impl WorkerContext {
    /// The state of a worker that has served no call.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            spare_arenas: RefCell::default(),
            turns: Semaphore::new(1),
            record_work: Cell::new(0),
            delivery_weight: Cell::new(PAR),
        }
    }

    /// The pace of a call that begins.
    pub fn pace(&self) -> Pace<'_> {
        Pace { worker: self, done: 0, looked: 0, since: Instant::now(), text: 0, is_long: false, turn: None }
    }

    /// Bounds of a message of records that is handled without slices, by the work that a record took recently.
    pub fn whole(&self) -> SliceLimits {
        let work = self.record_work.get().max(RECORD_WORK);
        SliceLimits { records: SLICE.records.min(WHOLE_WORK / work).max(1), ..SLICE }
    }

    /// An arena for one slice.
    pub fn arena(&self) -> WorkerArena<'_> {
        let arena = self.spare_arenas.borrow_mut().pop().unwrap_or_default();
        WorkerArena { arena, spare: &self.spare_arenas }
    }

    /// What is known of the caller of a call. Istio Mixer believes what a caller says of itself.
    pub fn principal<'c>(&self, call: &CallInfo<'c>) -> CallerPrincipal<'c> {
        match call.principal {
            CallerPrincipal::Unverified if self.engine.as_istio_mixer => CallerPrincipal::AsSent,
            principal => principal,
        }
    }

    /// Begins a call: loads the published configuration, takes an arena and notes the snapshot in `trace`.
    ///
    /// Errors: UNAVAILABLE while no configuration serves. A call that cannot begin cannot be allowed by an empty one.
    pub fn begin<'w>(
        &'w self,
        deadline: Option<Instant>,
        trace: Trace<'w>,
    ) -> Result<CallScope<'w>, GrpcError> {
        let published = self.engine.runtime.load();
        if let Some(why) = &published.told {
            return Err(withheld(why));
        }
        let arena = self.arena();
        if let Some(trace) = trace {
            trace.borrow_mut().decided_by(published.routes.snapshot());
        }
        let context = DispatchContext {
            metrics: &self.engine.metrics,
            last_known: &self.engine.last_known,
            deadline,
            trace,
            fired: None,
        };
        Ok(CallScope { published, context, arena })
    }
}

/// Shares a worker between a call that takes long and all others. The call counts its work; [`WORK_PER_TURN`] after the worker last served
/// other calls, or 0.1 ms, it gives way to them.
///
/// A call that gave way is long: it has the turn of its worker, which the others wait for, until its slice ends or waits for a handler.
pub struct Pace<'w> {
    worker: &'w WorkerContext,
    /// Work since the call began or gave way.
    done: usize,
    /// The part of it at the last look at the clock.
    looked: usize,
    /// When the call began or last gave way.
    since: Instant,
    /// Bytes of long texts since the call began.
    text: usize,
    is_long: bool,
    turn: Option<SemaphorePermit<'w>>,
}

impl Pace<'_> {
    /// Counts the work of decoding.
    pub fn count_decoding(&mut self, bytes: usize) {
        self.done = self.done.saturating_add(decoding_work(bytes));
    }

    /// Counts a record of so many bytes, long texts of so many bytes and so many evaluations.
    pub fn count_record(&mut self, bytes: usize, text: usize, evaluations: usize) {
        let work = record_work(bytes, text, evaluations);
        self.done = self.done.saturating_add(work);
        let recent = &self.worker.record_work;
        // Rises at once and falls slowly: records of one worker are alike.
        recent.set(work.max(recent.get() - recent.get() / 8));
    }

    /// Work since the call began or gave way.
    pub fn work(&self) -> usize {
        self.done
    }

    /// Counts long texts, and returns those of the whole call.
    pub(crate) fn count_text(&mut self, bytes: usize) -> usize {
        self.text = self.text.saturating_add(bytes);
        self.text
    }

    /// Whether the call was ever interrupted. Until then it has delivered nothing, and its pool can refuse it.
    pub fn is_long(&self) -> bool {
        self.is_long
    }

    /// Gives way if `more` work would exceed what is allowed at once, or if the work until now took longer than it says.
    pub async fn before(&mut self, more: usize) {
        if self.done > 0 && (self.done.saturating_add(more) > WORK_PER_TURN || self.has_taken_long()) {
            self.give_way().await;
        }
        self.done = self.done.saturating_add(more);
    }

    fn has_taken_long(&mut self) -> bool {
        if self.done.saturating_sub(self.looked) < WORK_PER_LOOK {
            return false;
        }
        self.looked = self.done;
        self.since.elapsed() > TIME_PER_TURN
    }

    /// The work of a delivery of so much, by what recent ones took.
    pub(crate) fn delivery_work(&self, work: usize) -> usize {
        work.saturating_mul(self.worker.delivery_weight.get()) / PAR
    }

    /// Delivers so much work: what runs at once tells how long the next deliveries take. See [`run`](Self::run).
    pub(crate) async fn run_delivery<F: Future>(&mut self, work: usize, delivery: F) -> F::Output {
        let mut delivery = std::pin::pin!(delivery);
        let began = Instant::now();
        let first = futures_util::poll!(delivery.as_mut());
        self.note_delivery(work, began.elapsed());
        match first {
            Poll::Ready(output) => output,
            Poll::Pending => self.wait_for(delivery).await,
        }
    }

    /// Deliveries of one worker are alike: the weight is a moving average.
    fn note_delivery(&self, work: usize, took: Duration) {
        if work == 0 {
            return;
        }
        let nanos = usize::try_from(took.as_nanos()).unwrap_or(usize::MAX);
        let now = (nanos.saturating_mul(PAR) / work.saturating_mul(NANOS_PER_WORK)).clamp(PAR, MAX_WEIGHT);
        let weight = &self.worker.delivery_weight;
        weight.set((weight.get() * 7 + now) / 8);
    }

    /// Serves other calls of the worker. A long call continues when it has the turn.
    pub async fn give_way(&mut self) {
        // Boxed, so that the future of a short call stays small.
        Box::pin(async {
            if !self.is_long {
                CallPool::before_long_work().await;
                self.is_long = true;
            }
            if self.turn.is_none() {
                // The semaphore is never closed.
                self.turn = self.worker.turns.acquire().await.ok();
            }
            tokio::task::yield_now().await;
            (self.done, self.looked, self.since) = (0, 0, Instant::now());
        })
        .await;
    }

    /// Leaves the turn to other calls. The call has freed the memory of its slice.
    pub fn end_slice(&mut self) {
        self.turn = None;
    }

    /// Runs what may wait for handlers. Other long calls do not wait for them.
    pub async fn run<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        if let Poll::Ready(output) = futures_util::poll!(work.as_mut()) {
            return output;
        }
        self.wait_for(work).await
    }

    async fn wait_for<F: Future>(&mut self, work: F) -> F::Output {
        self.turn = None;
        let output = work.await;
        if self.is_long {
            self.give_way().await;
        }
        output
    }
}

impl WorkerArena<'_> {
    /// The size at which a slice that begins now ends.
    pub fn slice_end(&self) -> SliceEnd {
        let begin = self.arena.allocated_bytes();
        SliceEnd(begin.saturating_add(begin.max(SLICE_BYTES)))
    }
}

/// The size of an arena at which a slice ends: a fixed number of bytes and as much as it began with, so that slices pay for what they begin with.
#[derive(Debug, Clone, Copy)]
pub struct SliceEnd(usize);

impl SliceEnd {
    /// Whether the slice in this arena ends.
    pub fn is_reached(self, arena: &Bump) -> bool {
        arena.allocated_bytes() > self.0
    }
}

#[cold]
fn withheld(why: &str) -> GrpcError {
    GrpcError::refused(Code::Unavailable, format!("no configuration is served: {why}"))
}

impl Deref for WorkerArena<'_> {
    type Target = Bump;

    fn deref(&self) -> &Bump {
        &self.arena
    }
}

impl Drop for WorkerArena<'_> {
    fn drop(&mut self) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_ARENAS && self.arena.allocated_bytes() <= MAX_SPARE_BYTES {
            self.arena.reset();
            // An empty arena allocates nothing.
            spare.push(std::mem::take(&mut self.arena));
        }
    }
}
