//! The state of one worker: the engine and arenas for reuse. Shared by Mixer's service and those of Envoy.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bumpalo::Bump;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::grpc::{Code, GrpcError};
use super::observers::Observers;
use crate::load_shedding::LoadShedder;
use mixer_attribute::request::{RecordLimits, SliceLimits};
use mixer_base::metrics::Metrics;
use mixer_engine::dispatch::{DispatchContext, LastKnownAnswers, Trace};
use mixer_engine::runtime::{PublishedGuard, Runtime};

/// Arenas that a worker keeps for its next requests.
const SPARE_ARENAS: usize = 64;
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

impl MessageLimits {
    /// The bounds of a report.
    pub(crate) fn of_report(self) -> RecordLimits {
        RecordLimits { records: self.records, slice: SLICE }
    }
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
}

/// The engine, and the memory that one worker reuses without locks.
pub struct WorkerContext {
    /// The engine.
    pub engine: Engine,
    spare_arenas: RefCell<Vec<Bump>>,
    /// Held by the call whose slice is next: of all long calls of a worker, one slice runs between two turns of its event loop.
    turns: Semaphore,
}

/// Bounds of the records that a call handles at once; the worker then serves other calls. A proxy's batch of 100 records is one
/// slice, of about a millisecond.
pub const SLICE: SliceLimits = SliceLimits { records: 128, bytes: 256 << 10 };

/// Whether a message of so many records and bytes may take more than one slice.
pub fn needs_slices(records: usize, bytes: usize) -> bool {
    records > SLICE.records || bytes > SLICE.bytes
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
        Self { engine, spare_arenas: RefCell::default(), turns: Semaphore::new(1) }
    }

    /// Waits for the other calls of the worker before a slice of a long call. The call has a permit of its pool already: see
    /// [`CallPool::before_long_work`](crate::CallPool::before_long_work).
    pub async fn turn(&self) -> Turn<'_> {
        // The semaphore is never closed.
        let permit = self.turns.acquire().await.ok();
        tokio::task::yield_now().await;
        Turn { _permit: permit }
    }

    /// An arena for the slices of a long call.
    pub fn arena(&self) -> WorkerArena<'_> {
        let arena = self.spare_arenas.borrow_mut().pop().unwrap_or_default();
        WorkerArena { arena, spare: &self.spare_arenas }
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
        if let Some(why) = &published.withheld {
            return Err(withheld(why));
        }
        let arena = self.arena();
        if let Some(trace) = trace {
            trace.borrow_mut().snapshot = published.id().0;
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

/// The turn of a long call.
pub struct Turn<'w> {
    _permit: Option<SemaphorePermit<'w>>,
}

impl Turn<'_> {
    /// Runs a slice. The turn ends when the slice first waits for something.
    pub async fn first_poll<F: Future>(self, slice: F) -> F::Output {
        let mut slice = std::pin::pin!(slice);
        let polled = futures_util::poll!(slice.as_mut());
        drop(self);
        match polled {
            Poll::Ready(output) => output,
            Poll::Pending => slice.await,
        }
    }
}

impl WorkerArena<'_> {
    /// Frees everything in the arena.
    pub fn reset(&mut self) {
        if self.arena.allocated_bytes() > MAX_SPARE_BYTES {
            self.arena = Bump::new();
        } else {
            self.arena.reset();
        }
    }
}

#[cold]
fn withheld(why: &str) -> GrpcError {
    GrpcError::new(Code::Unavailable, format!("no configuration is served: {why}"))
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
