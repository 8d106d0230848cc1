//! What the services of a worker work with: the engine, who watches, and memory for reuse.
//!
//! Mixer's own calls and those of Envoy are admitted, preprocessed, reported and watched by what is here and in
//! [`observe`](super::observe), so that a setting holds for both.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bumpalo::Bump;
use http::HeaderMap;

use super::Observers;
use super::observe::{Operation, Watch};
use crate::core::adapter::join_errors;
use crate::core::attribute::{AttributeBag, SlotId, Value};
use crate::core::decision::{CALLER_PRINCIPAL, CallerText};
use crate::core::dispatch::{
    self, DispatchContext, DispatchError, LastKnownAnswers, ReportCollector, Trace, TracedPhase,
    trace_started, trace_step,
};
use crate::core::load_shedding::{Demand, LoadShedder};
use crate::core::routing::RuleKind;
use crate::core::runtime::{Published, Runtime};
use crate::core::telemetry::metrics::Metrics;

/// Arenas that a worker keeps for its next requests.
const SPARE_ARENAS: usize = 64;
/// An arena that grew beyond this is given back to the allocator.
const MAX_SPARE_BYTES: usize = 256 << 10;

/// Where a call comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerAddress {
    /// Over TCP, from this address.
    Tcp(SocketAddr),
    /// Over a unix socket.
    Unix,
}

/// `host:port`, or `unix`.
impl std::fmt::Display for CallerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallerAddress::Tcp(address) => write!(f, "{address}"),
            CallerAddress::Unix => f.write_str("unix"),
        }
    }
}

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

/// What is known of a call beside its message.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallInfo<'c> {
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// The name in the certificate of the caller, empty if it has none; `None` if callers are not asked for certificates.
    pub principal: Option<&'c str>,
    /// Where it comes from; `None` if it is made in this process.
    pub address: Option<CallerAddress>,
    /// Who calls, as one number, for shares under overload; 0 for nobody in particular.
    pub caller: u64,
    /// Its headers, which may say what trace it belongs to.
    pub headers: Option<&'c HeaderMap>,
}

impl From<Option<Instant>> for CallInfo<'_> {
    fn from(deadline: Option<Instant>) -> Self {
        Self { deadline, ..Self::default() }
    }
}

impl CallInfo<'_> {
    /// Who called, for those who write it down.
    pub(super) fn caller_text(&self) -> Option<CallerText> {
        let address = self.address.map(|address| address.to_string());
        let principal = self.principal.map(str::to_owned);
        (address.is_some() || principal.is_some())
            .then(|| CallerText { address: address.unwrap_or_default(), principal })
    }

    /// Whether answers depend on who called.
    pub(super) fn decides(&self, published: &Published) -> bool {
        self.principal.is_some() && slot_of_caller(published).is_some()
    }

    /// Sets the attribute that tells who called.
    pub(super) fn identify(&self, published: &Published, bag: &mut AttributeBag<'_>) {
        if let Some(principal) = self.principal
            && let Some(slot) = slot_of_caller(published)
        {
            let principal = bag.arena().alloc_slice_copy(principal.as_bytes());
            bag.set(slot, Value::String(principal));
        }
    }
}

fn slot_of_caller(published: &Published) -> Option<SlotId> {
    published.routes.snapshot().vocabulary.slot(CALLER_PRINCIPAL.as_bytes())
}

/// The engine, and memory that one worker keeps for reuse without locks.
pub(super) struct Desk {
    pub(super) engine: Engine,
    arenas: RefCell<Vec<Bump>>,
}

impl Desk {
    pub(super) fn new(engine: Engine) -> Self {
        Self { engine, arenas: RefCell::default() }
    }

    pub(super) fn arena(&self) -> Bump {
        self.arenas.borrow_mut().pop().unwrap_or_default()
    }

    pub(super) fn give_back(&self, mut arena: Bump) {
        let mut spare = self.arenas.borrow_mut();
        if spare.len() < SPARE_ARENAS && arena.allocated_bytes() <= MAX_SPARE_BYTES {
            arena.reset();
            spare.push(arena);
        }
    }

    /// Errors: what the caller is told under overload.
    pub(super) fn admit(&self, demand: Demand) -> Result<(), &'static str> {
        self.engine.shedder.as_ref().map_or(Ok(()), |shedder| shedder.admit_demand(demand))
    }

    pub(super) fn context<'c>(&'c self, deadline: Option<Instant>, trace: Trace<'c>) -> DispatchContext<'c> {
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
    pub(super) fn watch(&self, operation: Operation, call: &CallInfo<'_>) -> Option<Watch<'_>> {
        self.engine.observers.as_ref()?.begin(operation, call)
    }
}

/// Writes down which configuration answers.
pub(super) fn note_snapshot(trace: Trace<'_>, published: &Published) {
    if let Some(trace) = trace {
        trace.borrow_mut().snapshot = published.id().0;
    }
}

/// Attribute generators, for a check or quota: from here on the answer is decided by the configuration, not by a cache.
pub(super) async fn preprocess<'a>(
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
pub(super) async fn report_record<'a>(
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
pub(super) fn next_record(trace: Trace<'_>) {
    if let Some(trace) = trace {
        trace.borrow_mut().record += 1;
    }
}
