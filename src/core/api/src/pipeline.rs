//! The phases of a check that no cache answers: preprocess, check, quotas, dry run, store in the cache.
//!
//! [`decide`] runs them for Mixer's Check and for Envoy's authorization. A [`DecisionSink`] turns their results into the response of
//! its protocol.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use mixer_attribute::AttributeBag;
use mixer_engine::check_cache::{CachedAnswer, CheckCache, Miss};
use mixer_engine::dispatch::{
    self, CheckOutcome, DispatchContext, DispatchError, Protocol, QuotaOutcome, QuotaRequest, TracedPhase,
    trace_started, trace_step,
};
use mixer_engine::routing::RuleKind;
use mixer_engine::runtime::Published;

/// The phase that failed. A quota that fails is a result, see [`QuotaSink::allocated`].
#[derive(Debug)]
pub enum PhaseError {
    /// An attribute generator failed.
    Preprocess(DispatchError),
    /// The check itself failed.
    Check(DispatchError),
}

impl From<PhaseError> for DispatchError {
    fn from(error: PhaseError) -> Self {
        let (PhaseError::Preprocess(error) | PhaseError::Check(error)) = error;
        error
    }
}

impl std::fmt::Display for PhaseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Preprocess(error) | Self::Check(error)) = self;
        error.fmt(f)
    }
}

/// An answer for the cache.
pub struct Cacheable<V> {
    /// The answer.
    pub answer: V,
    /// How long it is valid, from the decision.
    pub valid: Duration,
}

/// Receives the results of the quotas, after that of the check.
pub trait QuotaSink {
    /// Takes the result of a quota, while the references of `bag` are those of preprocessing and this quota. `Break` leaves the
    /// other quotas out.
    fn allocated(
        &mut self,
        quota: QuotaRequest<'_>,
        result: Result<QuotaOutcome, DispatchError>,
        bag: &AttributeBag<'_>,
    ) -> ControlFlow<()>;
}

/// Receives the results of the phases, in their order.
pub trait DecisionSink: QuotaSink {
    /// An answer in the cache of the protocol.
    type Answer: CachedAnswer;

    /// The protocol that the results are for.
    fn protocol(&self) -> Protocol;

    /// Takes the outcome of the check, while the references of `bag` are those of the check. Returns the answer for the cache;
    /// never one unless `is_cacheable`.
    fn checked(
        &mut self,
        outcome: CheckOutcome,
        bag: &AttributeBag<'_>,
        is_cacheable: bool,
    ) -> Option<Cacheable<Self::Answer>>;
}

/// Decides over a bag. `cache` is where the answer is stored, with the part of its key that is not in the bag and the look-up that did not find
/// one; `quotas` are
/// allocated if the check passes.
///
/// Errors: preprocessing or the check failed; no quota was allocated and nothing was stored.
pub async fn decide<'a, S: DecisionSink>(
    published: &'a Published,
    bag: &mut AttributeBag<'a>,
    cache: Option<(&CheckCache<S::Answer>, u32, Miss)>,
    quotas: impl ExactSizeIterator<Item = QuotaRequest<'_>> + Clone,
    sink: &mut S,
    context: &DispatchContext<'_>,
) -> Result<(), PhaseError> {
    let routes = &published.routes;
    let note_secrets = |bag: &AttributeBag<'_>| {
        if let Some(trace) = context.trace {
            trace.borrow_mut().note_secrets(bag, &routes.snapshot().secrets);
        }
    };
    if let Err(error) = preprocess(published, bag, context).await {
        note_secrets(bag);
        return Err(PhaseError::Preprocess(error));
    }
    let preprocessed = (quotas.len() > 0).then(|| bag.mark_references());

    let started = trace_started(context.trace);
    let outcome = dispatch::check(routes, bag, context, sink.protocol()).await;
    trace_step(
        context.trace,
        || TracedPhase::Check,
        started,
        outcome.as_ref().err().map(ToString::to_string),
    );
    let outcome = outcome.map_err(|error| {
        note_secrets(bag);
        PhaseError::Check(error)
    })?;
    let (passed, allowed) = (outcome.status.code == 0, outcome.allowed);
    let is_cacheable = cache.is_some() && !outcome.depends_on_map && !bag.reads_map_without_key();
    let mut cacheable = sink.checked(outcome, bag, is_cacheable);
    let has_dry_run = routes.has_dry_run();
    let checked =
        (cacheable.is_some() && (has_dry_run || preprocessed.is_some())).then(|| bag.mark_references());

    // Quotas may wait for the network; the validity of the answer begins here.
    let decided = (passed && cacheable.is_some() && preprocessed.is_some()).then(Instant::now);
    if passed {
        for quota in quotas.clone() {
            if let Some(preprocessed) = &preprocessed {
                bag.reset_references(preprocessed);
            }
            let result = allocate(published, bag, quota, context).await;
            if sink.allocated(quota, result, bag).is_break() {
                break;
            }
        }
    }

    // The answer does not depend on what quotas read.
    if let Some(checked) = &checked {
        bag.reset_references(checked);
    }
    if has_dry_run {
        let applied = Box::pin(dispatch::dry_run_check(routes, bag, quotas, passed, allowed, context)).await;
        // An answer is stored only for requests to which no rule in dry run applies, because a cache hit does not count them.
        // What the conditions of those rules read is part of the key.
        if applied || bag.reads_map_without_key() {
            cacheable = None;
        }
    }
    if let (Some((cache, key, miss)), Some(Cacheable { answer, valid })) = (cache, cacheable) {
        // An answer that has expired since is not stored.
        let valid = decided.map_or(valid, |decided| valid.saturating_sub(decided.elapsed()));
        cache.put(bag, key, miss, &bag.references(), valid, answer);
    }
    note_secrets(bag);
    Ok(())
}

/// Runs the attribute generators. From here on the configuration answers, not a cache.
pub async fn preprocess<'a>(
    published: &'a Published,
    bag: &mut AttributeBag<'a>,
    context: &DispatchContext<'_>,
) -> Result<(), DispatchError> {
    if let Some(trace) = context.trace {
        trace.borrow_mut().decided = true;
    }
    let started = trace_started(context.trace);
    let result = dispatch::preprocess(&published.routes, bag, context).await;
    if published.routes.has(RuleKind::Generate) {
        let error = result.as_ref().err().map(ToString::to_string);
        trace_step(context.trace, || TracedPhase::Preprocess, started, error);
    }
    result
}

/// Allocates one quota over a preprocessed bag.
pub async fn allocate<'a>(
    published: &'a Published,
    bag: &AttributeBag<'a>,
    quota: QuotaRequest<'_>,
    context: &DispatchContext<'_>,
) -> Result<QuotaOutcome, DispatchError> {
    let started = trace_started(context.trace);
    let result = dispatch::quota(&published.routes, bag, quota, context).await;
    let error = result.as_ref().err().map(ToString::to_string);
    trace_step(context.trace, || TracedPhase::Quota(quota.name.to_owned()), started, error);
    result
}
