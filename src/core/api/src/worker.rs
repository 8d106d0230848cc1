//! What the services of a worker work with: the engine, who watches, and memory for reuse.
//!
//! Mixer's own calls and those of Envoy are admitted, preprocessed, reported and watched by what is here and in
//! [`observe`](super::observe), so that a setting holds for both.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use bumpalo::Bump;

use super::Observers;
use super::call::{CallInfo, Operation};
use super::observe::Watch;
use crate::load_shedding::{Demand, LoadShedder};
use mixer_attribute::AttributeBag;
use mixer_base::metrics::Metrics;
use mixer_engine::adapter::join_errors;
use mixer_engine::dispatch::{
    self, DispatchContext, DispatchError, LastKnownAnswers, ReportCollector, Trace, TracedPhase,
    trace_started, trace_step,
};
use mixer_engine::routing::RuleKind;
use mixer_engine::runtime::{Published, Runtime};

/// Arenas that a worker keeps for its next requests.
const SPARE_ARENAS: usize = 64;
/// An arena that grew beyond this is given back to the allocator.
const MAX_SPARE_BYTES: usize = 256 << 10;

/// The engine as services see it; shared by all workers.
#[derive(Clone)]
pub struct Engine {
    /// What requests see.
    pub runtime: Arc<Runtime>,
    /// Where everything is counted.
    pub metrics: Arc<Metrics>,
    /// Last good answers of handlers that are configured to repeat them.
    pub last_known: Arc<LastKnownAnswers>,
    /// Refuses calls under overload.
    pub shedder: Option<Arc<LoadShedder>>,
    /// Who wants to know about calls.
    pub observers: Option<Arc<Observers>>,
}

/// The engine, and memory that one worker keeps for reuse without locks.
pub struct WorkerContext {
    pub engine: Engine,
    arenas: RefCell<Vec<Bump>>,
}

impl WorkerContext {
    pub fn new(engine: Engine) -> Self {
        Self { engine, arenas: RefCell::default() }
    }

    pub fn arena(&self) -> Bump {
        self.arenas.borrow_mut().pop().unwrap_or_default()
    }

    pub fn give_back(&self, mut arena: Bump) {
        let mut spare = self.arenas.borrow_mut();
        if spare.len() < SPARE_ARENAS && arena.allocated_bytes() <= MAX_SPARE_BYTES {
            arena.reset();
            spare.push(arena);
        }
    }

    /// Errors: what the caller is told under overload.
    pub fn admit(&self, demand: Demand) -> Result<(), &'static str> {
        self.engine.shedder.as_ref().map_or(Ok(()), |shedder| shedder.admit_demand(demand))
    }

    pub fn context<'c>(&'c self, deadline: Option<Instant>, trace: Trace<'c>) -> DispatchContext<'c> {
        DispatchContext {
            metrics: &self.engine.metrics,
            last_known: &self.engine.last_known,
            deadline,
            trace,
            fired: None,
        }
    }

    /// `None` if nobody wants to know anything of the next call.
    #[inline]
    pub fn watch(&self, operation: Operation, call: &CallInfo<'_>) -> Option<Watch<'_>> {
        self.engine.observers.as_ref()?.begin(operation, call)
    }
}

/// Writes down which configuration answers.
pub fn note_snapshot(trace: Trace<'_>, published: &Published) {
    if let Some(trace) = trace {
        trace.borrow_mut().snapshot = published.id().0;
    }
}

/// Attribute generators, for a check or quota: from here on the answer is decided by the configuration, not by a cache.
pub async fn preprocess<'a>(
    published: &'a Published,
    bag: &mut AttributeBag<'a>,
    context: &DispatchContext<'_>,
) -> Result<(), DispatchError> {
    if let Some(trace) = context.trace {
        trace.borrow_mut().decided = true;
    }
    let began = trace_started(context.trace);
    let done = dispatch::preprocess(&published.routes, bag, context).await;
    if published.routes.has(RuleKind::Generate) {
        let error = done.as_ref().err().map(ToString::to_string);
        trace_step(context.trace, || TracedPhase::Preprocess, began, error);
    }
    done
}

/// Collects what rules make of one record of a report, and tries the rules in dry run. Returns everything that failed.
pub async fn report_record<'a>(
    published: &'a Published,
    bag: &mut AttributeBag<'a>,
    collector: &mut ReportCollector<'a>,
    context: &DispatchContext<'_>,
) -> Vec<String> {
    let routes = &published.routes;
    let began = trace_started(context.trace);
    let failures = match dispatch::preprocess(routes, bag, context).await {
        Err(error) => vec![format!("preprocessing attributes failed: {error}")],
        Ok(()) => {
            let collected = collector.collect(bag, context);
            if routes.has_dry_run() {
                dispatch::dry_run_report(routes, bag, context);
            }
            collected.err().map_or_else(Vec::new, |error| error.errors)
        }
    };
    if let Some(trace) = context.trace {
        let record = trace.borrow().record;
        let error = (!failures.is_empty()).then(|| join_errors(&failures));
        trace_step(context.trace, || TracedPhase::Record(record), began, error);
    }
    next_record(context.trace);
    failures
}

/// Goes on to the next record of a report.
pub fn next_record(trace: Trace<'_>) {
    if let Some(trace) = trace {
        trace.borrow_mut().record += 1;
    }
}
