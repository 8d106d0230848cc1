//! What follows from failures: from that of a check, for a call of Envoy, and from that of one handler.

use serde::{Deserialize, Serialize};

use crate::dispatch::{DispatchError, DispatchTrace, TracedDispatch};
use crate::routing::RuleKind;
use crate::snapshot::{FailureAnswer, OnError, Snapshot};
use mixer_config::annotation::ON_ERROR;
use mixer_config::{FieldPath, Positions};

/// What made a check fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureCause {
    /// The request itself.
    Request,
    /// The program: a handler panicked.
    Fault,
    /// A handler, or what it asks.
    Handler,
}

impl FailureCause {
    /// That of the errors of a check.
    pub fn of(error: &DispatchError) -> Self {
        match (error.is_of_request, error.is_fault) {
            (true, _) => Self::Request,
            (false, true) => Self::Fault,
            (false, false) => Self::Handler,
        }
    }
}

/// What a call of Envoy gets whose evaluation fails; `None` if nothing is configured for Envoy, or if shadow mode answers it.
pub fn envoy_call_that_fails(snapshot: &Snapshot, cause: FailureCause) -> Option<String> {
    let mode = snapshot.failure_mode().filter(|_| !snapshot.shadows_checks())?;
    let whatever = "whatever `errorMode` is";
    Some(match (cause, mode.answer) {
        (FailureCause::Request, _) => {
            format!(
                "a call of Envoy is refused with INVALID_ARGUMENT, {whatever}: the request itself makes the evaluation fail"
            )
        }
        (FailureCause::Fault, _) => {
            format!("a call of Envoy is refused with INTERNAL, {whatever}: a handler panicked")
        }
        (FailureCause::Handler, FailureAnswer::Ok) => {
            format!("a call of Envoy gets OK, and the request passes undecided: {mode}")
        }
        (FailureCause::Handler, FailureAnswer::Refusal) => format!("a call of Envoy is refused: {mode}"),
        (FailureCause::Handler, FailureAnswer::Error) => format!(
            "a call of Envoy gets an error, and the request passes if its filter has `failure_mode_allow: true`: {mode}"
        ),
    })
}

/// What a call of Envoy gets in place of a check that fails, by the trace of the check.
pub(super) fn failed_check(
    snapshot: &Snapshot,
    cause: FailureCause,
    trace: &DispatchTrace,
) -> Option<String> {
    let refuses = |traced: &TracedDispatch| {
        let is_enforced = traced.kind == RuleKind::Check && !traced.rule.dry_run;
        is_enforced && traced.check.as_ref().is_some_and(|check| check.status.code != 0)
    };
    let gets = envoy_call_that_fails(snapshot, cause)?;
    // Istio Mixer fails all the same.
    if trace.dispatches.iter().any(refuses) {
        return Some("a call of Envoy is refused: a refusal stands, whatever else fails".to_owned());
    }
    Some(match cause {
        FailureCause::Handler => format!("{gets}; `{ON_ERROR}` on the rule or its handler would come first"),
        FailureCause::Request | FailureCause::Fault => gets,
    })
}

/// The `mixer.dev/on-error` that decides about a handler call that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OnErrorExplanation {
    /// `allow`, `deny` or `lastKnown`.
    pub policy: String,
    /// Full name of the rule or handler that has it.
    pub resource: String,
    /// `FILE:LINE`; the name of the object if it is in no file.
    pub place: String,
}

impl OnErrorExplanation {
    /// Of an enforced check.
    pub(super) fn of(traced: &TracedDispatch) -> Option<Self> {
        if traced.error.is_none() || traced.rule.dry_run {
            return None;
        }
        let (rule, handler) = (&traced.rule, &traced.handler);
        let (policy, key, origin) = match (rule.on_error, handler.on_error) {
            (Some(policy), _) => (policy, &rule.key, &rule.origin),
            (None, Some(policy)) => (policy, &handler.key, &handler.origin),
            (None, None) => return None,
        };
        let field = FieldPath::root().field("metadata").field("annotations").key(ON_ERROR);
        let place = match Positions::default().span(origin, &field).start.line {
            0 => origin.file.to_string(),
            line => format!("{}:{line}", origin.file),
        };
        Some(Self { policy: policy.name().to_owned(), resource: key.to_string(), place })
    }

    /// Whether the failure may refuse the request.
    pub fn may_refuse(&self) -> bool {
        self.policy != OnError::Allow.name()
    }
}

/// What follows from the failure.
impl std::fmt::Display for OnErrorExplanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { policy, place, .. } = self;
        let follows = match policy.as_str() {
            "allow" => "the failure counts for nothing",
            "deny" => "the failure refuses the request",
            _ => "the last answer of the handler counts; without one the failure refuses the request",
        };
        write!(f, "{follows}: `{ON_ERROR}: {policy}` ({place})")
    }
}
