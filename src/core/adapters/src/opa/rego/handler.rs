//! The handler: where calls are evaluated, and what their outcome means.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use regorus::Value;
use tokio::time::{Instant, timeout_at};

use super::evaluate::{Evaluator, Outcome, Prepared};
use super::input::document;
use super::lanes::{INLINE, Lanes, Permit, SlowThreads, Trust};
use super::plan::{self, Plan};
use crate::authorization::Layout;
use mixer_base::allocation::Bounds;
use mixer_base::budget::{Reservation, Share};
use mixer_base::metrics::{Counter, Family, Metrics};
use mixer_engine::adapter::{
    CheckResult, HandleCheck, Handler, HandlerError, HandlerStatus, Instance, Reply, Status,
};
use mixer_engine::check_cache::AnswerEpoch;

/// PERMISSION_DENIED of `google.rpc.Code`.
const PERMISSION_DENIED: i32 = 7;
/// INVALID_ARGUMENT of `google.rpc.Code`.
const INVALID_ARGUMENT: i32 = 3;
/// What an input takes for each byte of its texts while it waits, and besides.
const WAITING: usize = 2;
const WAITING_BESIDES: usize = 2 << 10;
/// What an evaluation takes for each byte of its input: lists and copies that a policy makes of it.
const EVALUATED: usize = 32;
/// What an evaluation on the thread of its call may take besides the share, in bytes.
const INLINE_MEMORY: usize = 256 << 10;
/// What evaluations leave of the share to inputs that wait: an eighth.
const LEFT: usize = 8;
/// Of the timeout an evaluation does not wait for memory in the last eighth.
const LAST: u32 = 8;
/// Interval of looks at a share that is waited for.
const LOOK: Duration = Duration::from_millis(2);
/// Why there is no memory for an input.
const CROWDED: &str = "too much input of other calls waits for its evaluation";
/// Why there is no memory for an evaluation, and what helps.
const NO_SHARE: &str = "the evaluation takes more memory than the share waiting-calls has left; make no list or \
                        text in the policy that grows faster than the input, or raise --memory-limit";
/// What begins each denial.
const REJECTED: &str = "opa: request was rejected";

/// What a check that is not decided means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undecided {
    Denied,
    Allowed,
    /// The call fails.
    Error,
}

/// What calls and tasks of a handler share.
pub(super) struct Shared {
    handler_name: Arc<str>,
    evaluator: Evaluator,
    /// What decides without the evaluator, unless the instance needs it.
    plan: Option<Arc<Plan>>,
    query: String,
    undecided: Undecided,
    timeout: Duration,
    trust: Trust,
    lanes: Lanes,
    /// Bounds the memory of inputs that wait, and of their evaluations.
    memory: Arc<Share>,
    max_input: usize,
    max_evaluation: usize,
    /// Longest input of which there can be memory for another thread, in bytes of text.
    max_waiting: usize,
    runtime: tokio::runtime::Handle,
    trouble: ArcSwapOption<String>,
    counters: Counters,
    answers: Arc<AnswerEpoch>,
}

/// Counts what is not as it should be.
struct Counters {
    undefined: Counter,
    failed: Counter,
    stopped: Counter,
    late: Counter,
    too_long: Counter,
    too_large: Counter,
    no_memory: Counter,
    offloaded: Counter,
}

impl Counters {
    fn new(metrics: &Metrics, handler: &str) -> Self {
        let undecided = |reason: &str| metrics.counter(Family::OpaUndecided, &[handler, reason]);
        Self {
            undefined: undecided("undefined"),
            failed: undecided("error"),
            stopped: undecided("bound"),
            late: undecided("timeout"),
            too_long: undecided("input"),
            too_large: undecided("size"),
            no_memory: undecided("memory"),
            offloaded: metrics.counter(Family::OpaOffloaded, &[handler]),
        }
    }
}

/// Settings of a handler.
pub(super) struct Settings {
    pub(super) query: String,
    pub(super) undecided: Undecided,
    pub(super) timeout: Duration,
    /// Longest input, in bytes of text.
    pub(super) max_input: usize,
    /// Most memory of an evaluation, in bytes.
    pub(super) max_evaluation: usize,
}

impl Shared {
    pub(super) fn new(
        settings: Settings,
        plan: Option<Arc<Plan>>,
        prepared: Prepared,
        threads: Arc<SlowThreads>,
        memory: Arc<Share>,
        metrics: &Metrics,
        handler_name: Arc<str>,
    ) -> Self {
        let max_waiting = memory.limit().saturating_sub(WAITING_BESIDES) / (WAITING + EVALUATED);
        Self {
            evaluator: Evaluator::new(prepared),
            plan,
            query: settings.query,
            undecided: settings.undecided,
            timeout: settings.timeout,
            trust: Trust::default(),
            lanes: Lanes::new(threads),
            memory,
            max_input: settings.max_input,
            max_evaluation: settings.max_evaluation,
            max_waiting,
            runtime: tokio::runtime::Handle::current(),
            trouble: ArcSwapOption::empty(),
            counters: Counters::new(metrics, &handler_name),
            handler_name,
            answers: Arc::default(),
        }
    }

    /// Ends the cached answers of a server when the data changes.
    pub(super) fn ending(self, answers: Arc<AnswerEpoch>) -> Self {
        Self { answers, ..self }
    }

    /// Evaluates with other data from now on.
    pub(super) fn replace(&self, prepared: Prepared) {
        tracing::info!(
            target: "adapters",
            adapter = &*self.handler_name,
            version = prepared.version(),
            "Installing updated data"
        );
        self.evaluator.replace(prepared);
        self.answers.advance();
    }

    /// Why the policy is not evaluated as the files say; `None`: it is.
    pub(super) fn set_trouble(&self, trouble: Option<String>) {
        let before = self.trouble.load();
        if before.as_deref() == trouble.as_ref() {
            return;
        }
        if let Some(text) = &trouble {
            tracing::error!(target: "adapters", adapter = &*self.handler_name, "{text}; the last data serves");
        }
        self.trouble.store(trouble.map(Arc::new));
    }

    pub(super) fn warn(&self, text: &str) {
        tracing::warn!(target: "adapters", adapter = &*self.handler_name, "{text}");
    }

    /// The answer to a call with this outcome.
    fn answer(&self, outcome: Outcome) -> Result<CheckResult, HandlerError> {
        let (error, is_bounded) = match outcome {
            Outcome::Allowed => return Ok(CheckResult::default()),
            Outcome::Denied => return Ok(rejected(None)),
            Outcome::Undecided(why) => {
                self.counters.undefined.increment();
                return match self.undecided {
                    Undecided::Denied => Ok(rejected(None)),
                    Undecided::Allowed => Ok(CheckResult::default()),
                    Undecided::Error => {
                        let text = format!("opa: the policy does not decide: {} {why}", self.query);
                        Err(HandlerError::of_request(text))
                    }
                };
            }
            Outcome::Failed(error) => {
                self.counters.failed.increment();
                (error, false)
            }
            Outcome::Stopped(error) => {
                self.counters.stopped.increment();
                (error, true)
            }
            Outcome::Late => {
                self.counters.late.increment();
                (format!("the evaluation takes longer than {:?}", self.timeout), true)
            }
            Outcome::TooLarge => {
                self.counters.too_large.increment();
                (self.too_large(), true)
            }
            Outcome::Crowded | Outcome::NoMemory => {
                return self.without_memory(NO_SHARE);
            }
        };
        self.failed(&error, is_bounded)
    }

    /// The answer to a call whose evaluation has an error or, with `is_bounded`, takes more time or memory than there is, or is stopped. Callers
    /// choose what an evaluation takes, by the length of their inputs and by how many they send: never a failure that may allow a call.
    fn failed(&self, error: &str, is_bounded: bool) -> Result<CheckResult, HandlerError> {
        match self.undecided {
            Undecided::Denied => Ok(rejected(Some(error))),
            // Istio Mixer has no such bounds, so that there is no answer to repeat.
            Undecided::Allowed if !is_bounded => Ok(CheckResult::default()),
            Undecided::Allowed | Undecided::Error => Err(HandlerError::of_request(format!("opa: {error}"))),
        }
    }

    /// Why an evaluation that holds too much memory ends, and what helps.
    fn too_large(&self) -> String {
        format!(
            "handler {}: the evaluation of {} takes more than {} KiB of memory; make no list or text in the policy that grows faster \
             than the input, or raise maxEvaluationKilobytes",
            self.handler_name,
            self.query,
            self.max_evaluation >> 10
        )
    }

    /// Bounds of the memory of an evaluation that has `free` bytes: what is beyond comes from the share.
    fn bounds(&self, free: usize) -> Bounds {
        let left = self.memory.limit() / LEFT;
        Bounds::within(self.max_evaluation, free, Arc::clone(&self.memory)).leaving(left)
    }

    /// The answer to a call for which there is no memory: why.
    fn without_memory(&self, why: &str) -> Result<CheckResult, HandlerError> {
        self.counters.no_memory.increment();
        self.failed(why, true)
    }

    /// The answer to a call whose input is too long. `how`: which evaluations the bound is for, after a blank.
    fn too_long(&self, bytes: usize, most: usize, how: &str) -> CheckResult {
        self.counters.too_long.increment();
        let message =
            format!("opa: the input has {bytes} bytes of text, and at most {most} are evaluated{how}");
        let status = Status { code: INVALID_ARGUMENT, message, details: Vec::new() };
        CheckResult { status, ..CheckResult::default() }
    }

    /// Evaluates on another thread, for which it waits within the timeout. `memory`: what the input takes meanwhile.
    async fn offload(
        self: Arc<Self>,
        input: Value,
        bytes: usize,
        memory: Reservation,
    ) -> Result<CheckResult, HandlerError> {
        self.counters.offloaded.increment();
        let due = Instant::now() + self.timeout;
        match timeout_at(due, Arc::clone(&self).evaluate(input, bytes, memory, due)).await {
            Ok(answer) => answer,
            // A function of the engine may not look at the clock.
            Err(_) => self.answer(Outcome::Late),
        }
    }

    /// Evaluates on another thread. If others hold the memory that it takes, it lets go of its own, and evaluates once more when it is its turn to
    /// wait for theirs.
    async fn evaluate(
        self: Arc<Self>,
        input: Value,
        bytes: usize,
        mut memory: Reservation,
        due: Instant,
    ) -> Result<CheckResult, HandlerError> {
        let free = bytes.saturating_mul(EVALUATED);
        let Ok(permit) = self.lanes.thread(bytes).await else { return self.answer(Outcome::Late) };
        let mut why = CROWDED;
        if memory.grow(free) {
            match self.run(input.clone(), bytes, (permit, memory), due, None).await {
                (Outcome::Crowded, Some(released)) => (why, memory) = (NO_SHARE, released),
                (outcome, _) => return self.answer(outcome),
            }
        } else {
            drop(permit);
        }
        let until = due - self.timeout / LAST;
        let Ok(Ok(_turn)) = timeout_at(until, self.lanes.turn()).await else {
            return self.without_memory(why);
        };
        while !self.memory.has(free) || !memory.grow(free) {
            if Instant::now() >= until {
                return self.without_memory(CROWDED);
            }
            tokio::time::sleep(LOOK).await;
        }
        let Ok(permit) = self.lanes.thread(bytes).await else { return self.answer(Outcome::Late) };
        let (outcome, _) = self.run(input, bytes, (permit, memory), due, Some(until)).await;
        self.answer(outcome)
    }

    /// One evaluation on another thread: its outcome, and what its input takes. `waits_until`: how long it waits for memory of others.
    async fn run(
        self: &Arc<Self>,
        input: Value,
        bytes: usize,
        (permit, mut memory): (Permit, Reservation),
        due: Instant,
        waits_until: Option<Instant>,
    ) -> (Outcome, Option<Reservation>) {
        let free = bytes.saturating_mul(EVALUATED);
        let bounds = self.bounds(free).beside(memory.bytes());
        let bounds = match waits_until {
            None => bounds,
            Some(until) => bounds.waiting_until(until.into_std()),
        };
        let shared = Arc::clone(self);
        let evaluation = self.runtime.spawn_blocking(move || {
            let _permit = permit;
            let begun = std::time::Instant::now();
            let left = due.saturating_duration_since(Instant::now());
            let outcome = shared.evaluator.evaluate(left, bounds, |_| input);
            if outcome != Outcome::Crowded {
                shared.trust.note(bytes, begun.elapsed());
            }
            memory.shrink(free);
            (outcome, Some(memory))
        });
        let ended = evaluation.await;
        ended.unwrap_or_else(|panic| (Outcome::Stopped(format!("the evaluation ended early: {panic}")), None))
    }
}

fn rejected(error: Option<&str>) -> CheckResult {
    let message = error.map_or_else(|| REJECTED.to_owned(), |error| format!("{REJECTED}. err: {error}"));
    let status = Status { code: PERMISSION_DENIED, message, details: Vec::new() };
    CheckResult { status, ..CheckResult::default() }
}

/// A handler with a policy.
pub(super) struct OpaHandler {
    pub(super) shared: Arc<Shared>,
    pub(super) layouts: Vec<Layout>,
}

impl Handler for OpaHandler {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let trouble = self.shared.trouble.load_full().map(|text| (*text).clone());
        HandlerStatus { trouble, ..HandlerStatus::default() }
    }

    fn degradation(&self) -> Option<String> {
        self.shared.trouble.load_full().map(|text| (*text).clone())
    }

    fn callers_choose_duration(&self) -> bool {
        true
    }
}

impl HandleCheck for OpaHandler {
    fn check(&self, instance: &Instance<'_>) -> Reply<CheckResult> {
        let layout = match Layout::find(&self.layouts, instance) {
            Ok(layout) => layout,
            Err(error) => return Reply::Ready(Err(error)),
        };
        let shared = &self.shared;
        let bytes = layout.bytes(instance);
        if bytes > shared.max_input {
            return Reply::Ready(Ok(shared.too_long(bytes, shared.max_input, "")));
        }
        if bytes <= plan::MAX_INPUT
            && let Some(plan) = &shared.plan
            && let Some(outcome) = plan.decide(layout, instance)
        {
            return Reply::Ready(shared.answer(outcome));
        }
        let mut input = None;
        if shared.trust.is_given(bytes) {
            let outcome = shared.evaluator.evaluate(
                INLINE.min(shared.timeout),
                shared.bounds(INLINE_MEMORY),
                |names| input.insert(document(names, layout, instance)).clone(),
            );
            match outcome {
                Outcome::Late if shared.timeout > INLINE => shared.trust.note(bytes, INLINE),
                Outcome::Crowded => {}
                outcome => return Reply::Ready(shared.answer(outcome)),
            }
        }
        if bytes > shared.max_waiting {
            let how = format!(" for longer than {INLINE:?}");
            return Reply::Ready(Ok(shared.too_long(bytes, shared.max_waiting, &how)));
        }
        let waits = bytes.saturating_mul(WAITING).saturating_add(WAITING_BESIDES);
        let Some(memory) = shared.memory.reserve(waits) else {
            return Reply::Ready(shared.without_memory(CROWDED));
        };
        let input = input.unwrap_or_else(|| document(&Default::default(), layout, instance));
        Reply::Later(Box::pin(Arc::clone(shared).offload(input, bytes, memory)))
    }

    fn answers_version(&self) -> u64 {
        self.shared.evaluator.version()
    }
}

/// A handler of a policy that does not compile: its answers are all the same, as in Istio Mixer.
pub(super) struct Unusable {
    pub(super) layouts: Vec<Layout>,
    pub(super) denies: bool,
    pub(super) trouble: String,
}

impl Handler for Unusable {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        HandlerStatus { trouble: Some(self.trouble.clone()), ..HandlerStatus::default() }
    }

    fn degradation(&self) -> Option<String> {
        Some(self.trouble.clone())
    }
}

impl HandleCheck for Unusable {
    fn check(&self, instance: &Instance<'_>) -> Reply<CheckResult> {
        let answer = || if self.denies { rejected(None) } else { CheckResult::default() };
        Reply::Ready(Layout::find(&self.layouts, instance).map(|_| answer()))
    }
}
