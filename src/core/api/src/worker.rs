//! The state of one worker: the engine and arenas for reuse. Shared by Mixer's service and those of Envoy.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use bumpalo::Bump;

use super::observers::Observers;
use crate::load_shedding::LoadShedder;
use mixer_base::metrics::Metrics;
use mixer_engine::dispatch::{DispatchContext, LastKnownAnswers, Trace};
use mixer_engine::runtime::{PublishedGuard, Runtime};

/// Arenas that a worker keeps for its next requests.
const SPARE_ARENAS: usize = 64;
/// An arena that grew beyond this is freed instead of kept.
const MAX_SPARE_BYTES: usize = 256 << 10;

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
}

/// The engine, and the memory that one worker reuses without locks.
pub struct WorkerContext {
    /// The engine.
    pub engine: Engine,
    spare_arenas: RefCell<Vec<Bump>>,
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
        Self { engine, spare_arenas: RefCell::default() }
    }

    /// Begins a call: loads the published configuration, takes an arena and notes the snapshot in `trace`.
    pub fn begin<'w>(&'w self, deadline: Option<Instant>, trace: Trace<'w>) -> CallScope<'w> {
        let arena = self.spare_arenas.borrow_mut().pop().unwrap_or_default();
        let published = self.engine.runtime.load();
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
        CallScope { published, context, arena: WorkerArena { arena, spare: &self.spare_arenas } }
    }
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
