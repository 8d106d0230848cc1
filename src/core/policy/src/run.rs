//! Runs tests.

use std::sync::Arc;
use std::time::Instant;

use super::compare::compare;
use super::expectation::Expectation;
use super::suite::{StepAction, Suite, TestCase, TestStep};
use super::{ManualClock, Offline, OfflineError};
use mixer_api::principal::CallerPrincipal;
use mixer_attribute::request::CheckCall;
use mixer_config::Location;
use mixer_engine::decision::Decision;
use mixer_engine::snapshot::Snapshot;

/// An expectation that does not hold, or a call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedExpectation {
    /// The position in the file.
    pub location: Location,
    /// The field of `expect`, or `call`.
    pub field: String,
    /// The expected value.
    pub expected: String,
    /// The value found.
    pub found: String,
    /// The rules that applied.
    pub rules: Vec<String>,
}

/// The result of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseResult {
    /// Failed expectations; empty if the test passed.
    pub failures: Vec<FailedExpectation>,
    /// The time that it took.
    pub took: std::time::Duration,
}

impl CaseResult {
    /// Whether the test passed.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Runs one test with its own handlers. Requires a tokio runtime.
///
/// Errors: handlers that cannot be built.
pub async fn run_case(
    suite: &Suite,
    case: &TestCase,
    snapshot: &Arc<Snapshot>,
) -> Result<CaseResult, OfflineError> {
    let started = Instant::now();
    let stubs = suite.stubs.merged_with(&case.stubs);
    let offline = Offline::start(snapshot, ManualClock::at(suite.start), &stubs).await?;
    let mut failures = Vec::new();
    for (number, step) in case.steps.iter().enumerate() {
        run_step(&offline, number, step, &mut failures).await;
    }
    offline.close().await;
    Ok(CaseResult { failures, took: started.elapsed() })
}

async fn run_step(offline: &Offline, number: usize, step: &TestStep, failures: &mut Vec<FailedExpectation>) {
    let found = match &step.action {
        StepAction::Advance(by) => return offline.clock.advance(*by),
        StepAction::Check { attributes, quotas, deduplication_id } => {
            let id = deduplication_id.clone().unwrap_or_else(|| format!("step {number}"));
            let call = CheckCall { deduplication_id: &id, quotas: quotas.clone() };
            offline.check(attributes, &call, CallerPrincipal::AsSent, true).await
        }
        StepAction::Report { records } => offline.report(records, CallerPrincipal::AsSent).await,
    };
    let wants_error = step.expectations.iter().any(|(_, e)| matches!(e, Expectation::Error(_)));
    if let Some(error) = found.error.as_ref().filter(|_| !wants_error) {
        failures.push(failure(
            step.location,
            "call",
            "an answer",
            &format!("{}: {}", error.name, error.message),
            &found,
        ));
    }
    for (location, expectation) in &step.expectations {
        if let Some((expected, was)) = compare(expectation, &found) {
            failures.push(failure(*location, &expectation.field(), &expected, &was, &found));
        }
    }
}

fn failure(
    location: Location,
    field: &str,
    expected: &str,
    found: &str,
    decision: &Decision,
) -> FailedExpectation {
    FailedExpectation {
        location,
        field: field.to_owned(),
        expected: expected.to_owned(),
        found: found.to_owned(),
        rules: decision.rules.clone(),
    }
}
