//! The handler: where calls are evaluated, and what their outcome means.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use regorus::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::evaluate::{Evaluator, Outcome, Prepared};
use super::input::document;
use crate::authorization::Layout;
use mixer_base::metrics::{Counter, Family, Metrics};
use mixer_engine::adapter::{
    CheckResult, HandleCheck, Handler, HandlerError, HandlerStatus, Instance, Reply, Status,
};
use mixer_engine::check_cache::AnswerEpoch;

/// PERMISSION_DENIED of `google.rpc.Code`.
const PERMISSION_DENIED: i32 = 7;
/// How long an evaluation may hold the thread of its call.
pub(super) const INLINE: Duration = Duration::from_millis(2);
/// After one that took longer, so many quick ones in a row are evaluated on another thread before calls are trusted again.
const DISTRUST: u32 = 256;
/// What begins each denial.
const REJECTED: &str = "opa: request was rejected";

/// Threads for evaluations that take long, shared by the handlers of a server: at most one for each core.
pub(super) struct SlowThreads(Arc<Semaphore>);

impl Default for SlowThreads {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self(Arc::new(Semaphore::new(threads)))
    }
}

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
    query: String,
    undecided: Undecided,
    timeout: Duration,
    trust: Trust,
    threads: Arc<Semaphore>,
    runtime: tokio::runtime::Handle,
    trouble: ArcSwapOption<String>,
    counters: Counters,
    answers: Arc<AnswerEpoch>,
}

/// Whether calls may be evaluated on their own threads.
#[derive(Debug, Default)]
struct Trust {
    /// Quick evaluations that are to come first.
    left: AtomicU32,
}

impl Trust {
    fn is_given(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// Notes how long an evaluation took that was not to its end on the thread of its call.
    fn note(&self, took: Duration) {
        let left = self.left.load(Ordering::Relaxed);
        let left = if took < INLINE { left.saturating_sub(1) } else { DISTRUST };
        // A lost update is one evaluation more on another thread.
        self.left.store(left, Ordering::Relaxed);
    }
}

/// Counts what is not as it should be.
struct Counters {
    undefined: Counter,
    failed: Counter,
    late: Counter,
    offloaded: Counter,
}

impl Counters {
    fn new(metrics: &Metrics, handler: &str) -> Self {
        let undecided = |reason: &str| metrics.counter(Family::OpaUndecided, &[handler, reason]);
        Self {
            undefined: undecided("undefined"),
            failed: undecided("error"),
            late: undecided("timeout"),
            offloaded: metrics.counter(Family::OpaOffloaded, &[handler]),
        }
    }
}

/// Settings of a handler.
pub(super) struct Settings {
    pub(super) query: String,
    pub(super) undecided: Undecided,
    pub(super) timeout: Duration,
}

impl Shared {
    pub(super) fn new(
        settings: Settings,
        prepared: Prepared,
        threads: &SlowThreads,
        metrics: &Metrics,
        handler_name: Arc<str>,
    ) -> Self {
        Self {
            evaluator: Evaluator::new(prepared),
            query: settings.query,
            undecided: settings.undecided,
            timeout: settings.timeout,
            trust: Trust::default(),
            threads: Arc::clone(&threads.0),
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
        let (error, is_late) = match outcome {
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
            Outcome::Late => {
                self.counters.late.increment();
                (format!("the evaluation takes longer than {:?}", self.timeout), true)
            }
        };
        match self.undecided {
            Undecided::Denied => Ok(rejected(Some(&error))),
            // Istio Mixer waits for as long as it takes, so that there is no answer to repeat.
            Undecided::Allowed if !is_late => Ok(CheckResult::default()),
            // How long it takes depends on the server, too.
            Undecided::Allowed | Undecided::Error if is_late => {
                Err(HandlerError::new(format!("opa: {error}")))
            }
            Undecided::Allowed | Undecided::Error => Err(HandlerError::of_request(format!("opa: {error}"))),
        }
    }

    /// Evaluates on another thread, for which it waits within the timeout.
    async fn offload(self: Arc<Self>, input: Value) -> Result<CheckResult, HandlerError> {
        self.counters.offloaded.increment();
        let due = Instant::now() + self.timeout;
        let threads = Arc::clone(&self.threads);
        let Ok(Ok(permit)) = timeout_at(due, threads.acquire_owned()).await else {
            return self.answer(Outcome::Late);
        };
        let shared = Arc::clone(&self);
        let evaluation = self.runtime.spawn_blocking(move || {
            let _permit = permit;
            let begun = std::time::Instant::now();
            let left = due.saturating_duration_since(Instant::now());
            let outcome = shared.evaluator.evaluate(left, |_| input);
            shared.trust.note(begun.elapsed());
            outcome
        });
        match timeout_at(due, evaluation).await {
            Ok(Ok(outcome)) => self.answer(outcome),
            Ok(Err(panic)) => self.answer(Outcome::Failed(format!("the evaluation ended early: {panic}"))),
            // A function of the engine may not look at the clock.
            Err(_) => self.answer(Outcome::Late),
        }
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
}

impl HandleCheck for OpaHandler {
    fn check(&self, instance: &Instance<'_>) -> Reply<CheckResult> {
        let layout = match Layout::find(&self.layouts, instance) {
            Ok(layout) => layout,
            Err(error) => return Reply::Ready(Err(error)),
        };
        let shared = &self.shared;
        let mut input = None;
        if shared.trust.is_given() {
            let outcome = shared.evaluator.evaluate(INLINE.min(shared.timeout), |names| {
                input.insert(document(names, layout, instance)).clone()
            });
            if outcome != Outcome::Late || shared.timeout <= INLINE {
                return Reply::Ready(shared.answer(outcome));
            }
            shared.trust.note(INLINE);
        }
        let input = input.unwrap_or_else(|| document(&Default::default(), layout, instance));
        Reply::Later(Box::pin(Arc::clone(shared).offload(input)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_evaluations_are_trusted_again() {
        let trust = Trust::default();
        assert!(trust.is_given());
        trust.note(INLINE);
        for _ in 1..DISTRUST {
            trust.note(INLINE / 2);
            assert!(!trust.is_given());
        }
        trust.note(INLINE * 2);
        assert!(!trust.is_given(), "it begins again");
        for _ in 0..DISTRUST {
            assert!(!trust.is_given());
            trust.note(Duration::ZERO);
        }
        assert!(trust.is_given());
    }
}
