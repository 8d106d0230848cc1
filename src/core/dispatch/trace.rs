//! What handlers said, for explanations.

use crate::core::adapter::{CheckResult, QuotaResult};

/// One call of a handler, or the failure that prevented it.
#[derive(Debug, Clone, PartialEq)]
pub struct TracedDispatch {
    /// Full name of the rule.
    pub rule: String,
    /// Name of the handler.
    pub handler: String,
    /// Name of the adapter.
    pub adapter: &'static str,
    /// Full name of the instance.
    pub instance: String,
    /// Leaf names and values of the instance as text.
    pub values: Vec<(String, String)>,
    /// The decision, for checks.
    pub check: Option<CheckResult>,
    /// The grant, for quotas.
    pub quota: Option<QuotaResult>,
    /// Why there is no answer.
    pub error: Option<String>,
}

/// All calls of a request, in rule order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DispatchTrace {
    /// The calls.
    pub dispatches: Vec<TracedDispatch>,
}
