//! Runs tests.

use std::sync::Arc;
use std::time::Instant;

use super::compare::compare;
use super::expect::Expectation;
use super::suite::{Act, Case, Step, Suite};
use super::{ManualClock, Offline, OfflineError};
use mixer_attribute::request::CheckCall;
use mixer_config::Location;
use mixer_engine::decision::Decision;
use mixer_engine::snapshot::Snapshot;

/// A failed expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Miss {
    /// Its position.
    pub location: Location,
    /// The name of its field.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub found: String,
    /// Rules that applied, for diagnosis.
    pub rules: Vec<String>,
}

/// The result of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseResult {
    /// The failed expectations; empty if the test passed.
    pub misses: Vec<Miss>,
    /// Duration.
    pub took: std::time::Duration,
}

impl CaseResult {
    /// Whether all expectations hold.
    pub fn passed(&self) -> bool {
        self.misses.is_empty()
    }
}

/// Runs one test on its own handlers. Must run inside a tokio runtime.
///
/// Errors: handlers that cannot be built.
pub async fn run_case(
    suite: &Suite,
    case: &Case,
    snapshot: &Arc<Snapshot>,
) -> Result<CaseResult, OfflineError> {
    let started = Instant::now();
    let stubs = suite.stubs.with(&case.stubs);
    let offline = Offline::start(snapshot, ManualClock::at(suite.start), &stubs).await?;
    let mut misses = Vec::new();
    for (number, step) in case.steps.iter().enumerate() {
        run_step(&offline, number, step, &mut misses).await;
    }
    offline.close().await;
    Ok(CaseResult { misses, took: started.elapsed() })
}

async fn run_step(offline: &Offline, number: usize, step: &Step, misses: &mut Vec<Miss>) {
    let found = match &step.act {
        Act::Advance(by) => return offline.clock.advance(*by),
        Act::Check { attributes, quotas, deduplication_id } => {
            let id = deduplication_id.clone().unwrap_or_else(|| format!("step {number}"));
            let call = CheckCall { deduplication_id: &id, quotas: quotas.clone() };
            offline.check(attributes, &call, None, true).await
        }
        Act::Report { records } => offline.report(records, None).await,
    };
    let wants_error = step.expectations.iter().any(|(_, e)| matches!(e, Expectation::Error(_)));
    if let Some(error) = found.error.as_ref().filter(|_| !wants_error) {
        misses.push(miss(
            step.location,
            "call",
            "an answer",
            &format!("{}: {}", error.name, error.message),
            &found,
        ));
    }
    for (location, expectation) in &step.expectations {
        if let Some((expected, was)) = compare(expectation, &found) {
            misses.push(miss(*location, &expectation.what(), &expected, &was, &found));
        }
    }
}

fn miss(location: Location, what: &str, expected: &str, found: &str, decision: &Decision) -> Miss {
    Miss {
        location,
        what: what.to_owned(),
        expected: expected.to_owned(),
        found: found.to_owned(),
        rules: decision.rules.clone(),
    }
}
