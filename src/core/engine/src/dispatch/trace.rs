//! The trace of a request: matched rules, answers of handlers, timings.
//!
//! Explanations, policy tests, the decision log and spans are derived from it. An untraced request pays nothing; a traced one clones
//! references to configuration and formats values only in a full trace.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use crate::adapter::{CheckResult, HandlerError, Instance, QuotaResult};
use crate::routing::{Refuser, Route, RouteAction, RouteInstance, RuleKind};
use crate::secret_values::SecretValues;
use crate::snapshot::{Allowance, HandlerConfig, RuleConfig, Snapshot};
use crate::template::Name;
use mixer_attribute::AttributeBag;
use mixer_attribute::text::text;
use mixer_base::secrets::SecretNames;

/// A rule that applied to a request.
#[derive(Debug, Clone)]
pub struct TracedRule {
    /// The rule.
    pub rule: Arc<RuleConfig>,
    /// The kind that it matched.
    pub kind: RuleKind,
    /// Index of the record in its report; 0 for checks.
    pub record: usize,
}

/// One instance: dispatched, evaluated in dry run, or failed to evaluate.
#[derive(Debug, Clone)]
pub struct TracedDispatch {
    /// The rule.
    pub rule: Arc<RuleConfig>,
    /// The kind that the rule matched.
    pub kind: RuleKind,
    /// Index of the record in its report; 0 for checks.
    pub record: usize,
    /// The handler.
    pub handler: Arc<HandlerConfig>,
    /// Name of the template.
    pub template: Name,
    /// Full name of the instance.
    pub instance: Arc<str>,
    /// Leaf names and values of the instance as text; full traces only.
    pub values: Vec<(String, String)>,
    /// The decision, for checks.
    pub check: Option<CheckResult>,
    /// The requested amount and the grant, for quotas.
    pub quota: Option<(i64, QuotaResult)>,
    /// Why evaluation or call failed.
    pub error: Option<String>,
    /// Start and end of the call, if the handler was called. For reports see [`DispatchTrace::steps`].
    pub called: Option<(Instant, Instant)>,
}

/// A phase of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TracedPhase {
    /// Attribute generators.
    Preprocess,
    /// Checks and header operations.
    Check,
    /// The quota of this name.
    Quota(String),
    /// Rules in dry run.
    DryRun,
    /// Report rules over the record with this index.
    Record(usize),
    /// Delivery of report instances to a handler.
    Deliver {
        /// Name of the handler.
        handler: Arc<str>,
        /// Name of its adapter.
        adapter: Arc<str>,
        /// Name of the template.
        template: Name,
    },
}

/// A phase of a request, with timing and error.
#[derive(Debug, Clone)]
pub struct TracedStep {
    /// The phase.
    pub phase: TracedPhase,
    /// Its start.
    pub started: Instant,
    /// Its end.
    pub ended: Instant,
    /// Its error.
    pub error: Option<String>,
}

/// Most rules, instances and phases each of the trace of a report without values, which may have millions of them. A call has at most 512
/// spans.
const MAX_ENTRIES: usize = 4096;

/// The trace of one call, in order.
#[derive(Debug, Clone, Default)]
pub struct DispatchTrace {
    /// Whether to record values of instances and to await the answers of rules in dry run.
    pub full: bool,
    /// Rules that applied.
    pub rules: Vec<TracedRule>,
    /// Instances of these rules.
    pub dispatches: Vec<TracedDispatch>,
    /// The phases.
    pub steps: Vec<TracedStep>,
    /// Number of the snapshot.
    pub snapshot: u64,
    /// The attributes that this snapshot declares to be secret; `None` if it declares none.
    pub secrets: Option<Arc<SecretNames>>,
    /// The secret values that generators made; `None` if there are none.
    pub made_secrets: Option<Arc<SecretValues>>,
    /// Whether [`note_secrets`](Self::note_secrets) is wanted.
    pub notes_secrets: bool,
    /// The secret values of a call whose texts are exported; `None` if they are not known, so that no text may be.
    pub call_secrets: Option<Box<SecretValues>>,
    /// Which defaults the answers of handlers satisfy; checks only.
    pub allowed: Allowance,
    /// Rules were evaluated: the answer does not come from the check cache.
    pub decided: bool,
    /// Index of the current record.
    pub record: usize,
}

impl DispatchTrace {
    /// An empty trace that records values.
    pub fn full() -> Self {
        Self { full: true, ..Self::default() }
    }

    /// Notes the snapshot that decides.
    pub fn decided_by(&mut self, snapshot: &Snapshot) {
        self.snapshot = snapshot.id.0;
        self.secrets = (!snapshot.secrets.is_empty()).then(|| Arc::clone(&snapshot.secrets));
    }

    /// Notes the rule of a refusal in the check cache, and the secret values that generators had made for the answer. No rule was evaluated.
    pub fn answered_from_cache(&mut self, refuser: Option<&Refuser>, made: Option<&Arc<SecretValues>>) {
        self.made_secrets = made.cloned();
        if let Some(refuser) = refuser {
            self.rule(refuser.rule(), RuleKind::Check);
        }
    }

    /// Notes what is secret in the request of a check, if its texts may repeat it and are exported.
    pub fn note_secrets(&mut self, bag: &AttributeBag<'_>, names: &SecretNames) {
        let has_text = || {
            let says = |dispatch: &TracedDispatch| {
                let answer = dispatch.check.as_ref();
                dispatch.error.is_some() || answer.is_some_and(|answer| !answer.status.message.is_empty())
            };
            self.dispatches.iter().any(says) || self.steps.iter().any(|step| step.error.is_some())
        };
        if self.notes_secrets && has_text() {
            self.call_secrets = Some(Box::new(SecretValues::of_call(bag, names)));
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let of_dispatch = |dispatch: &TracedDispatch| {
            let texts = dispatch.values.iter().map(|(name, value)| name.len() + value.len() + 96);
            let check = dispatch.check.as_ref().map_or(0, |check| check.status.message.len() + 16);
            texts.sum::<usize>() + check + dispatch.error.as_ref().map_or(0, |error| error.len() + 16)
        };
        self.rules.capacity() * size_of::<TracedRule>()
            + self.dispatches.capacity() * size_of::<TracedDispatch>()
            + self.dispatches.iter().map(of_dispatch).sum::<usize>()
            + self.made_secrets.as_ref().map_or(0, |made| made.heap_bytes())
    }

    /// Notes why handlers that have not answered never will. Reports have [`steps`](Self::steps) instead.
    pub fn note_left(&mut self, why: &str) {
        let is_open = |dispatch: &TracedDispatch| {
            dispatch.called.is_none() && dispatch.error.is_none() && dispatch.kind != RuleKind::Report
        };
        for dispatch in self.dispatches.iter_mut().filter(|dispatch| !dispatch.rule.dry_run) {
            if is_open(dispatch) {
                dispatch.error = Some(why.to_owned());
            }
        }
    }

    pub(super) fn rule(&mut self, rule: &Arc<RuleConfig>, kind: RuleKind) {
        if self.has_room(self.rules.len()) {
            self.rules.push(TracedRule { rule: Arc::clone(rule), kind, record: self.record });
        }
    }

    /// Whether a list of this length may grow: checks and first records are traced whole.
    fn has_room(&self, length: usize) -> bool {
        self.full || self.record == 0 || length < MAX_ENTRIES
    }

    /// Adds an instance, if there is room. Returns its index.
    pub(super) fn dispatch(
        &mut self,
        route: &Route,
        action: &RouteAction,
        route_instance: &RouteInstance,
        kind: RuleKind,
        instance: Option<&Instance<'_>>,
    ) -> usize {
        if !self.has_room(self.dispatches.len()) {
            return usize::MAX;
        }
        let values = match instance {
            Some(instance) if self.full => values(route_instance, instance),
            _ => Vec::new(),
        };
        self.dispatches.push(TracedDispatch {
            rule: Arc::clone(&route.rule),
            kind,
            record: self.record,
            handler: Arc::clone(&action.handler.config),
            template: route_instance.config.template().name.clone(),
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

/// The trace of a request, if it is traced.
pub type Trace<'c> = Option<&'c RefCell<DispatchTrace>>;

/// The trace entry of a call of a handler, before its result.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallTrace {
    at: usize,
    started: Instant,
}

impl CallTrace {
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

    /// Adds the result of a check.
    pub(super) fn checked(self, trace: &RefCell<DispatchTrace>, result: &Result<CheckResult, HandlerError>) {
        self.complete(trace, result, |dispatch, answer| dispatch.check = Some(answer.clone()));
    }

    /// Adds the result of a request for `amount` of a quota.
    pub(super) fn granted(
        self,
        trace: &RefCell<DispatchTrace>,
        amount: i64,
        result: &Result<QuotaResult, HandlerError>,
    ) {
        self.complete(trace, result, |dispatch, answer| dispatch.quota = Some((amount, *answer)));
    }

    /// Adds the outcome of a call without recording its answer.
    pub(super) fn done<T>(self, trace: &RefCell<DispatchTrace>, result: &Result<T, HandlerError>) {
        self.complete(trace, result, |_, _| {});
    }
}

/// Adds a phase that started at `started` and ends now.
pub fn step(
    trace: Trace<'_>,
    phase: impl FnOnce() -> TracedPhase,
    started: Option<Instant>,
    error: Option<String>,
) {
    if let (Some(trace), Some(started)) = (trace, started) {
        let mut trace = trace.borrow_mut();
        if trace.has_room(trace.steps.len()) {
            trace.steps.push(TracedStep { phase: phase(), started, ended: Instant::now(), error });
        }
    }
}

/// The time, if the request is traced.
pub fn started(trace: Trace<'_>) -> Option<Instant> {
    trace.map(|_| Instant::now())
}

fn values(route: &RouteInstance, instance: &Instance<'_>) -> Vec<(String, String)> {
    let named = route.config.leaf_names.iter().zip(instance.values);
    named.filter_map(|(name, value)| Some((name.to_string(), text((*value)?).to_string()))).collect()
}
