//! The results of a run.

use std::time::Duration;

use mixer_policy::CaseResult;

/// A completed test.
pub(super) struct FinishedTest {
    pub(super) file: String,
    pub(super) name: String,
    pub(super) line: u32,
    pub(super) result: CaseResult,
}

/// All completed tests.
#[derive(Default)]
pub(super) struct TestRun {
    pub(super) ran: Vec<FinishedTest>,
    pub(super) filtered: usize,
    pub(super) took: Duration,
}

impl TestRun {
    pub(super) fn failed(&self) -> usize {
        self.ran.iter().filter(|ran| !ran.result.passed()).count()
    }
}
