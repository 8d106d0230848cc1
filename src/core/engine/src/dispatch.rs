//! Dispatches a request over one routing table: preprocess, check, quota, report.
//!
//! The functions here take a [`RoutingTable`](crate::routing::RoutingTable) and an
//! [`AttributeBag`](mixer_attribute::AttributeBag), evaluate instances into the arena of the bag and call handlers.
//! Handlers that answer at once run inline; asynchronous ones are awaited together. Results are combined in rule order, whatever
//! their order of completion. This module depends on no wire format, cache or load shedding.
//! Phases and combination of results are those of Istio Mixer 1.3.

mod check;
mod combine;
mod context;
mod default_deny;
mod directive;
mod dry_run;
mod generate;
mod headers;
mod instances;
mod last_known;
mod quota;
mod quota_rules;
mod report;
mod trace;

pub use check::{Protocol, check};
pub use combine::{CheckOutcome, UNEVALUATED};
pub use context::{DispatchContext, DispatchError, work_done};
pub use directive::{HeaderChange, RouteDirective};
pub use dry_run::{dry_run_check, dry_run_quota, dry_run_report};
pub use generate::preprocess;
pub use last_known::LastKnownAnswers;
pub use quota::{QuotaOutcome, QuotaRequest, quota};
pub use quota_rules::QuotaRules;
pub use report::ReportCollector;
pub use trace::{DispatchTrace, Trace, TracedDispatch, TracedPhase, TracedRule, TracedStep};
pub use trace::{started as trace_started, step as trace_step};
