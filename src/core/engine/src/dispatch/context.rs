//! The context of a dispatch.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::FutureExt as _;

use super::{DispatchTrace, LastKnownAnswers};
use crate::adapter::{HandlerError, Reply, join_errors};
use crate::routing::{Destination, Route};
use crate::secret_values::for_log;
use crate::snapshot::{OnError, RuleConfig};
use mixer_attribute::AttributeBag;
use mixer_base::metrics::{Family, Metrics};
use mixer_base::secrets::{SecretNames, Window, mask_text};
use mixer_expr::EvalError;

thread_local! {
    static WORK: Cell<usize> = const { Cell::new(0) };
}

/// Evaluations of conditions and values, and instances, of this thread so far: what the time of a call grows with besides its bytes.
/// A clock that passes by work alone; it wraps.
pub fn work_done() -> usize {
    WORK.get()
}

/// Counts evaluations.
pub(super) fn count_work(work: usize) {
    WORK.set(WORK.get().wrapping_add(work));
}

/// The inputs of a dispatch besides routing table and attribute bag.
pub struct DispatchContext<'c> {
    /// The metrics of the server.
    pub metrics: &'c Metrics,
    /// Last good answers of handlers with `on-error: lastKnown`.
    pub last_known: &'c LastKnownAnswers,
    /// The deadline of the call.
    pub deadline: Option<Instant>,
    /// The trace of the request; `None` costs nothing.
    pub trace: Option<&'c RefCell<DispatchTrace>>,
    /// Collects the rules that applied to a check, if the answer names them.
    pub fired: Option<&'c RefCell<Vec<Arc<RuleConfig>>>>,
}

/// All errors of a failed operation. Displays as an error list of Istio Mixer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DispatchError {
    /// At least one.
    pub errors: Vec<String>,
    /// Whether one of them [depends on the request alone](HandlerError::is_of_request).
    pub is_of_request: bool,
    /// Whether the program itself [is at fault](HandlerError::is_fault) for one of them.
    pub is_fault: bool,
    /// Whether the server [stops](HandlerError::is_stopping).
    pub is_stopping: bool,
}

/// The text of a condition that failed.
pub(super) fn condition_failure(route: &Route, error: EvalError<'_>) -> String {
    format!("condition of rule `{}` failed: {error}", route.rule.key)
}

impl std::fmt::Display for DispatchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&join_errors(&self.errors))
    }
}

impl DispatchError {
    /// Adds an error, of a long text the first 8 KiB. Callers read it: what is secret in it, such as a password in an address, is masked.
    pub fn push(&mut self, error: HandlerError) {
        const LONGEST: usize = 8 << 10;
        self.errors.push(match error.message.len() > LONGEST {
            true => Window::of(error.message.as_bytes(), LONGEST).masked().text + "…",
            false => match mask_text(&error.message) {
                Cow::Borrowed(_) => error.message,
                Cow::Owned(masked) => masked,
            },
        });
        self.is_of_request |= error.is_of_request;
        self.is_fault |= error.is_fault;
        self.is_stopping |= error.is_stopping;
    }

    /// Adds the errors of another operation.
    pub fn extend(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.is_of_request |= other.is_of_request;
        self.is_fault |= other.is_fault;
        self.is_stopping |= other.is_stopping;
    }

    /// Applies `on_error` to a condition that failed: adds it, ignores it, or returns why it refuses the request.
    pub(super) fn condition_failed(&mut self, route: &Route, error: EvalError<'_>) -> Option<String> {
        match route.on_condition_error() {
            None => self.push(HandlerError::of_request(condition_failure(route, error))),
            Some(OnError::Allow) => {}
            Some(OnError::Deny | OnError::LastKnown) => return Some(condition_failure(route, error)),
        }
        None
    }

    /// Whether nothing failed.
    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Logs and counts the errors of a call that another answer refuses. `of`: the request that they are of, and what is secret in it; the log
    /// has their number alone if it is not known. Returns whether there is any.
    pub fn overruled(&self, of: Option<(&AttributeBag<'_>, &SecretNames)>, metrics: &Metrics) -> bool {
        if self.is_empty() {
            return false;
        }
        metrics.counter(Family::CheckFailuresOverruled, &[]).add(self.errors.len() as u64);
        let text = || match of {
            Some((bag, names)) => for_log(self, bag, names),
            None => self.errors.len().to_string(),
        };
        mixer_base::warn_limited!(1, error = text(), "a refused call has failures besides");
        true
    }

    /// `Err(self)` if there is any error.
    pub(super) fn into_result<T>(self, value: T) -> Result<T, DispatchError> {
        if self.errors.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl DispatchContext<'_> {
    /// Whether what happens is counted. Explanations count nothing: they repeat a request, or ask what one would get.
    pub(super) fn counts(&self) -> bool {
        self.trace.is_none_or(|trace| !trace.borrow().full)
    }

    /// Counts a call that began at `started`, and tells its handler how it ended.
    pub(super) fn record<T>(
        &self,
        destination: &Destination,
        started: Instant,
        result: &Result<T, HandlerError>,
    ) {
        match self.counts() {
            true => destination.record(started, result),
            false => destination.ended(result),
        }
    }

    /// Counts that the condition of a rule held.
    pub(super) fn hit(&self, route: &Route) {
        if self.counts() {
            route.counters.hit();
        }
    }

    /// Counts that the condition of a rule failed.
    pub(super) fn failed(&self, route: &Route) {
        if self.counts() {
            route.counters.failed();
        }
    }

    /// Counts a failure of a handler that `on_error` ignores.
    pub(super) fn ignored(&self, handler: &str) {
        self.metrics.counter(Family::CheckFailuresIgnored, &[handler]).add(1);
    }

    /// Awaits an answer, at most until the deadline, and counts the call that started at `started`. If the caller leaves before, it
    /// counts as a failure of `route` as well; other failures are for whoever gets them to count.
    pub(super) async fn settle<T>(
        &self,
        (route, destination): (Option<&Route>, &Destination),
        started: Instant,
        reply: Reply<T>,
    ) -> Result<T, HandlerError> {
        let result = match reply {
            Reply::Ready(result) => result,
            Reply::Later(mut future) => {
                let handler = &destination.handler;
                let answered = handler.answered();
                let mut awaited = Awaited { context: self, route, destination, started, answered, polls: 0 };
                let answer = std::future::poll_fn(|cx| awaited.poll(&mut future, cx));
                let result = match self.deadline {
                    None => answer.await,
                    Some(deadline) => {
                        tokio::time::timeout_at(deadline.into(), answer).await.unwrap_or_else(|_| {
                            Err(handler.without_answer(format!(
                                "handler `{}` did not answer before the deadline of the call",
                                handler.name()
                            )))
                        })
                    }
                };
                awaited.end();
                result
            }
        };
        self.record(destination, started, &result);
        result
    }
}

/// A call that waits for its answer. If it is dropped before [`end`](Self::end), its caller has left.
struct Awaited<'c> {
    context: &'c DispatchContext<'c>,
    /// The rule that asked, if failures count for one.
    route: Option<&'c Route>,
    destination: &'c Destination,
    started: Instant,
    /// What the handler had answered when the call began.
    answered: u64,
    /// The first one reaches no handler, see `LiveHandler`.
    polls: u8,
}

impl Awaited<'_> {
    fn poll<F: Future + Unpin>(&mut self, future: &mut F, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.polls = self.polls.saturating_add(1);
        let polled = future.poll_unpin(cx);
        if polled.is_ready() {
            self.destination.handler.count_answer();
        }
        polled
    }

    /// The caller has waited until the answer or its deadline.
    fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        // A call that was refused before it reached the handler is none.
        if self.polls < 2 {
            return;
        }
        let handler = &self.destination.handler;
        if self.context.counts() {
            self.destination.count_left(self.started);
            self.route.into_iter().for_each(|route| route.counters.failed());
        }
        // A caller who leaves while others are answered says nothing about the handler.
        if handler.answered() == self.answered {
            let waited = self.started.elapsed();
            let text = format!("no answer within {waited:?}, after which the caller left");
            self.destination.ended::<()>(&Err(handler.without_answer(text)));
        }
    }
}
