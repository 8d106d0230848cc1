//! What a request did on its way: rules that matched, what handlers said, and how long everything took.
//!
//! Explanations, policy tests, the decision log and spans are all made of this one record. It costs nothing where nobody asked for
//! it; where somebody did, it copies references to configuration and formats nothing that was not asked for.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use crate::adapter::{CheckResult, HandlerError, Instance, QuotaResult};
use crate::routing::{Route, RouteAction, RouteInstance, RuleKind};
use crate::snapshot::{HandlerConfig, RuleConfig};
use mixer_attribute::text::text;

/// A rule that applied to a request.
#[derive(Debug, Clone)]
pub struct TracedRule {
    /// The rule.
    pub rule: Arc<RuleConfig>,
    /// What it was matched for.
    pub kind: RuleKind,
    /// Position of the record in its report; 0 for checks.
    pub record: usize,
}

/// One instance that was sent to a handler, or would have been, or could not be made.
#[derive(Debug, Clone)]
pub struct TracedDispatch {
    /// The rule.
    pub rule: Arc<RuleConfig>,
    /// What the rule was matched for.
    pub kind: RuleKind,
    /// Position of the record in its report; 0 for checks.
    pub record: usize,
    /// The handler.
    pub handler: Arc<HandlerConfig>,
    /// Name of the template.
    pub template: &'static str,
    /// Full name of the instance.
    pub instance: Arc<str>,
    /// Leaf names and values of the instance as text, if they were asked for.
    pub values: Vec<(String, String)>,
    /// The decision, for checks.
    pub check: Option<CheckResult>,
    /// The grant, for quotas, with the amount that was asked for.
    pub quota: Option<(i64, QuotaResult)>,
    /// Why there is no answer.
    pub error: Option<String>,
    /// The handler was called, and from when to when. Reports have this in [`DispatchTrace::steps`].
    pub called: Option<(Instant, Instant)>,
}

/// A part of the work on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TracedPhase {
    /// Attribute generators.
    Preprocess,
    /// Checks and header operations.
    Check,
    /// The quota of this name.
    Quota(String),
    /// Rules that are not enforced.
    DryRun,
    /// Rules over the record of this position.
    Record(usize),
    /// Handing instances over to this handler.
    Deliver {
        /// Name of the handler.
        handler: Arc<str>,
        /// Name of its adapter.
        adapter: &'static str,
        /// Name of the template.
        template: &'static str,
    },
}

/// A part of the work on a request, with its time and its failure.
#[derive(Debug, Clone)]
pub struct TracedStep {
    /// Which part.
    pub phase: TracedPhase,
    /// When it began.
    pub started: Instant,
    /// When it was done.
    pub ended: Instant,
    /// Why it failed.
    pub error: Option<String>,
}

/// Everything that happened in one call, in order.
#[derive(Debug, Clone, Default)]
pub struct DispatchTrace {
    /// Whether values of instances are wanted as text, and answers of rules in dry run are waited for.
    pub full: bool,
    /// Rules that applied.
    pub rules: Vec<TracedRule>,
    /// Instances that were sent to handlers.
    pub dispatches: Vec<TracedDispatch>,
    /// The parts of the work.
    pub steps: Vec<TracedStep>,
    /// Number of the snapshot that answered.
    pub snapshot: u64,
    /// The configuration was asked: the answer does not come from a cache.
    pub decided: bool,
    /// Position of the record at work.
    pub record: usize,
}

impl DispatchTrace {
    /// A record with values, for people.
    pub fn full() -> Self {
        Self { full: true, ..Self::default() }
    }

    pub(super) fn rule(&mut self, rule: &Arc<RuleConfig>, kind: RuleKind) {
        self.rules.push(TracedRule { rule: Arc::clone(rule), kind, record: self.record });
    }

    /// Notes an instance; returns its position, to complete it with.
    pub(super) fn dispatch(
        &mut self,
        route: &Route,
        action: &RouteAction,
        route_instance: &RouteInstance,
        kind: RuleKind,
        instance: Option<&Instance<'_>>,
    ) -> usize {
        let values = match instance {
            Some(instance) if self.full => values(route_instance, instance),
            _ => Vec::new(),
        };
        self.dispatches.push(TracedDispatch {
            rule: Arc::clone(&route.rule),
            kind,
            record: self.record,
            handler: Arc::clone(&action.handler.config),
            template: route_instance.config.template().name,
            instance: Arc::clone(route_instance.config.name()),
            values,
            check: None,
            quota: None,
            error: None,
            called: None,
        });
        self.dispatches.len() - 1
    }

    pub(super) fn failed(&mut self, at: usize, error: impl Into<String>) {
        if let Some(dispatch) = self.dispatches.get_mut(at) {
            dispatch.error = Some(error.into());
        }
    }
}

/// Where a request writes what it does, if anybody wants to know.
pub type Trace<'c> = Option<&'c RefCell<DispatchTrace>>;

/// A call of a handler that is being traced.
#[derive(Debug, Clone, Copy)]
pub(super) struct TracedCall {
    at: usize,
    started: Instant,
}

impl TracedCall {
    pub(super) fn new(at: usize, started: Instant) -> Self {
        Self { at, started }
    }

    fn complete<T>(
        self,
        trace: &RefCell<DispatchTrace>,
        result: &Result<T, HandlerError>,
        note: impl FnOnce(&mut TracedDispatch, &T),
    ) {
        if let Some(dispatch) = trace.borrow_mut().dispatches.get_mut(self.at) {
            dispatch.called = Some((self.started, Instant::now()));
            match result {
                Ok(answer) => note(dispatch, answer),
                Err(error) => dispatch.error = Some(error.message.clone()),
            }
        }
    }

    /// Completes the entry with what the handler said of a check.
    pub(super) fn checked(self, trace: &RefCell<DispatchTrace>, result: &Result<CheckResult, HandlerError>) {
        self.complete(trace, result, |dispatch, answer| dispatch.check = Some(answer.clone()));
    }

    /// Completes the entry with what the handler granted of `amount`.
    pub(super) fn granted(
        self,
        trace: &RefCell<DispatchTrace>,
        amount: i64,
        result: &Result<QuotaResult, HandlerError>,
    ) {
        self.complete(trace, result, |dispatch, answer| dispatch.quota = Some((amount, *answer)));
    }

    /// Completes the entry of a call whose answer is of no interest.
    pub(super) fn done<T>(self, trace: &RefCell<DispatchTrace>, result: &Result<T, HandlerError>) {
        self.complete(trace, result, |_, _| {});
    }
}

/// Notes a part of the work that began at `started` and ends now.
pub fn step(
    trace: Trace<'_>,
    phase: impl FnOnce() -> TracedPhase,
    started: Option<Instant>,
    error: Option<String>,
) {
    if let (Some(trace), Some(started)) = (trace, started) {
        trace.borrow_mut().steps.push(TracedStep { phase: phase(), started, ended: Instant::now(), error });
    }
}

/// The time, if anybody wants to know.
pub fn started(trace: Trace<'_>) -> Option<Instant> {
    trace.map(|_| Instant::now())
}

fn values(route: &RouteInstance, instance: &Instance<'_>) -> Vec<(String, String)> {
    let named = route.config.leaf_names.iter().zip(instance.values);
    named.filter_map(|(name, value)| Some((name.to_string(), text((*value)?).to_string()))).collect()
}
