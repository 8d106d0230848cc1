//! Evaluates prepared engines: one call at a time each, within a budget of time and one of memory.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use regorus::utils::limits::ExecutionTimerConfig;
use regorus::{Engine, LimitError, Value};

use mixer_base::allocation::{Bounds, Exceeded, metered};

use super::bounded::{self, Beyond};
use super::compile::Entry;
use super::input::Names;
use super::prints;
use super::text::one_line;

/// Why a rule without a value is undecided.
pub(super) const UNDEFINED: &str = "is undefined";

/// Steps of an evaluation between two looks at the clock.
const STEPS: u32 = 32;

/// Most bytes that an engine may keep of one evaluation for the next one of its thread. A copy of the engine is cheaper than more.
const KEPT: usize = 256 << 10;

/// Most bytes that evaluations leave in the process before the patterns are dropped that the engine keeps compiled for all of them: it bounds
/// their number, and not their bytes, and callers may choose them.
const KEPT_BY_ALL: usize = 16 << 20;

/// What the engine is told about memory is above this while an evaluation has to end (`src/core/engine-memory`).
const ENGINE_LIMIT: u64 = 0;

/// Has the engine ask whether an evaluation has to end.
pub(super) fn bound_memory() {
    regorus::set_global_memory_limit(Some(ENGINE_LIMIT));
}

/// A budget of time.
pub(super) fn timer(limit: Duration) -> ExecutionTimerConfig {
    ExecutionTimerConfig { limit, check_interval: NonZeroU32::new(STEPS).unwrap_or(NonZeroU32::MIN) }
}

/// Bytes that evaluations left since the patterns were dropped the last time.
struct Left(AtomicUsize);

impl Left {
    /// Adds what an evaluation left. Returns whether the patterns have to be dropped, which one caller is told.
    fn add(&self, bytes: usize) -> bool {
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        before.saturating_add(bytes) > KEPT_BY_ALL && self.0.swap(0, Ordering::Relaxed) > KEPT_BY_ALL
    }
}

static LEFT: Left = Left(AtomicUsize::new(0));

/// Drops the compiled patterns that the engine keeps for all evaluations if those have left much. The engines of threads are bounded apart.
fn bound_patterns(left: usize) {
    if LEFT.add(left) {
        regorus::cache::clear();
    }
}

/// What an evaluation says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Allowed,
    Denied,
    /// Neither: why.
    Undecided(&'static str),
    /// It has an error.
    Failed(String),
    /// A function went beyond its bound, or the program failed: no error of the policy, and callers may bring it about.
    Stopped(String),
    /// It takes longer than its budget.
    Late,
    /// It holds more memory than it may.
    TooLarge,
    /// There is no memory for it beside what other calls hold.
    Crowded,
    /// All calls together have less memory than it takes.
    NoMemory,
}

/// An engine with what it evaluates.
pub(super) struct Prepared {
    /// Copied for each thread that evaluates, and never evaluated itself.
    template: Mutex<Engine>,
    entry: Entry,
    /// Another one for each version of the data; 0 without.
    version: u64,
}

impl Prepared {
    pub(super) fn new(engine: Engine, entry: Entry, version: u64) -> Self {
        Self { template: Mutex::new(engine), entry, version }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }
}

/// A copy of an engine.
struct Copied {
    engine: Engine,
    names: Names,
    version: u64,
}

/// Engines for the threads that evaluate.
pub(super) struct Evaluator {
    prepared: ArcSwap<Prepared>,
    /// A thread takes the copy of its own place, so that threads do not wait for each other.
    places: Box<[Mutex<Option<Box<Copied>>>]>,
}

impl Evaluator {
    pub(super) fn new(prepared: Prepared) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // Two for each core: those of workers, and of evaluations that take long.
        let places = (0..threads.saturating_mul(2)).map(|_| Mutex::new(None));
        Self { prepared: ArcSwap::from_pointee(prepared), places: places.collect() }
    }

    /// The version of the data.
    pub(super) fn version(&self) -> u64 {
        self.prepared.load().version
    }

    /// Evaluates with other data from now on.
    pub(super) fn replace(&self, prepared: Prepared) {
        self.prepared.store(Arc::new(prepared));
    }

    /// Evaluates the document that `input` makes, within `limit` and `memory`.
    pub(super) fn evaluate(
        &self,
        limit: Duration,
        memory: Bounds,
        input: impl FnOnce(&Names) -> Value,
    ) -> Outcome {
        let prepared = self.prepared.load();
        let place = self.places.get(place_of_thread() % self.places.len().max(1));
        let taken = place.and_then(|place| place.try_lock()?.take());
        let mut copied = taken.filter(|copied| copied.version == prepared.version).unwrap_or_else(|| {
            let engine = prepared.template.lock().clone();
            Box::new(Copied { engine, names: Names::default(), version: prepared.version })
        });
        let Copied { engine, names, .. } = &mut *copied;
        let run = || run(engine, &prepared.entry, input(names), limit);
        let run = AssertUnwindSafe(|| metered(memory, run));
        let (outcome, kept) = match catch_unwind(run) {
            Ok((outcome, usage)) => {
                bound_patterns(usage.left);
                match usage.exceeded {
                    None => (outcome, usage.left),
                    Some(Exceeded::Bound) => (Outcome::TooLarge, 0),
                    Some(Exceeded::Share) => (Outcome::Crowded, 0),
                    Some(Exceeded::WholeShare) => (Outcome::NoMemory, 0),
                }
            }
            Err(_) => {
                // What it left is unknown.
                regorus::cache::clear();
                (Outcome::Stopped("the evaluation panicked".to_owned()), 0)
            }
        };
        // INVARIANT: an engine is used again only if it came to an end. One that stops early keeps what `with` had replaced, and the
        // values of loops, and would decide about the next request with them.
        let has_ended = match outcome {
            Outcome::Allowed | Outcome::Denied | Outcome::Undecided(_) => true,
            Outcome::Failed(_) | Outcome::Stopped(_) => false,
            Outcome::Late | Outcome::TooLarge | Outcome::Crowded | Outcome::NoMemory => false,
        };
        if has_ended
            && kept <= KEPT
            && let Some(mut place) = place.and_then(|place| place.try_lock())
        {
            *place = Some(copied);
        }
        outcome
    }
}

/// A number of the thread.
fn place_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static PLACE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    PLACE.with(|place| *place)
}

fn run(engine: &mut Engine, entry: &Entry, input: Value, limit: Duration) -> Outcome {
    let printed = tracing::enabled!(target: "adapters", tracing::Level::DEBUG).then(|| input.clone());
    engine.set_input(input);
    engine.set_execution_timer_config(timer(limit));
    let (value, beyond) = bounded::evaluating(limit, || engine.eval_rule(entry.rule().to_owned()));
    if let (Ok(lines), Some(input)) = (engine.take_prints(), printed) {
        prints::log(&input, &lines);
    }
    match (value, beyond) {
        (Ok(value), None) => decided(entry, value),
        (_, Some(Beyond::Time)) => Outcome::Late,
        // The policy went on without the value of the function.
        (Ok(_), Some(Beyond::Bound)) => Outcome::Stopped("a function went beyond its bound".to_owned()),
        (Err(error), _) if is_late(&error) => Outcome::Late,
        (Err(error), Some(Beyond::Bound)) => Outcome::Stopped(one_line(&error)),
        (Err(error), None) if is_limit(&error) => Outcome::Stopped(one_line(&error)),
        (Err(error), None) => Outcome::Failed(one_line(&error)),
    }
}

/// Whether an error is a bound of the engine itself, such as that of the size of a compiled expression.
fn is_limit(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    // The engine adds places to errors as text.
    causes.any(|cause| cause.is::<LimitError>())
        || ["exceeded memory limit", "exceeded size limit"]
            .iter()
            .any(|text| error.to_string().contains(text))
}

fn is_late(error: &anyhow::Error) -> bool {
    let is_limit = |cause: &(dyn std::error::Error + 'static)| {
        matches!(cause.downcast_ref(), Some(LimitError::TimeLimitExceeded { .. }))
    };
    // The engine adds places to errors as text.
    error.chain().any(is_limit) || error.to_string().contains("time limit")
}

fn decided(entry: &Entry, value: Value) -> Outcome {
    let value = match (entry, value) {
        (Entry::Rule(_), value) => value,
        (Entry::Rows, Value::Array(rows)) => match rows.as_slice() {
            [] => Value::Undefined,
            [row] => row.clone(),
            _ => return Outcome::Undecided("has several results"),
        },
        (Entry::Rows, _) => Value::Undefined,
    };
    match value {
        Value::Bool(true) => Outcome::Allowed,
        Value::Bool(false) => Outcome::Denied,
        Value::Undefined => Outcome::Undecided(UNDEFINED),
        _ => Outcome::Undecided("is neither true nor false"),
    }
}
