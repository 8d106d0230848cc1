//! Test suites: requests, stubs and expectations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::expectation::Expectation;
use mixer_attribute::{OwnedAttributes, SignedDuration};
use mixer_config::Location;
use mixer_engine::adapter::{
    CheckResult, Generated, HandleCheck, HandleGenerate, HandleQuota, HandleReport, Handler, HandlerError,
    Instance, QuotaCall, QuotaResult, Reply, Status,
};

/// The answers that replace a handler.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Stub {
    /// The result of checks.
    pub(crate) check: CheckResult,
    /// The largest amount granted of a quota; `None` grants every requested amount.
    pub(crate) granted: Option<i64>,
    /// The valid duration of grants.
    pub(crate) quota_valid: Option<SignedDuration>,
    /// Every call fails with this text.
    pub(crate) error: Option<String>,
}

/// Stubs by handler name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stubs {
    stubs: BTreeMap<String, Stub>,
}

impl Stubs {
    /// Replaces a handler by a stub.
    pub(crate) fn insert(&mut self, handler: impl Into<String>, stub: Stub) {
        self.stubs.insert(handler.into(), stub);
    }

    /// These stubs and those of `other`, which take precedence.
    #[must_use]
    pub(crate) fn merged_with(&self, other: &Stubs) -> Stubs {
        let mut stubs = self.stubs.clone();
        stubs.extend(other.stubs.iter().map(|(name, stub)| (name.clone(), stub.clone())));
        Stubs { stubs }
    }

    /// The replacement of a handler, if it has a stub.
    pub(super) fn handler(&self, name: &str) -> Option<Box<dyn Handler>> {
        let stub = self.stubs.get(name)?.clone();
        Some(Box::new(StubHandler(stub)))
    }
}

/// A handler with fixed answers.
struct StubHandler(Stub);

impl StubHandler {
    fn reply<T>(&self, answer: T) -> Reply<T> {
        Reply::Ready(match &self.0.error {
            Some(text) => Err(HandlerError::new(text.clone())),
            None => Ok(answer),
        })
    }
}

impl HandleCheck for StubHandler {
    fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
        self.reply(self.0.check.clone())
    }
}

impl HandleQuota for StubHandler {
    fn quota(&self, _: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
        let limit = self.0.granted.unwrap_or(call.amount);
        let granted = if limit >= call.amount || call.best_effort { limit.min(call.amount) } else { 0 };
        let valid_duration = self.0.quota_valid.unwrap_or(SignedDuration::from_secs(60));
        self.reply(QuotaResult { granted, valid_duration })
    }
}

impl HandleReport for StubHandler {
    fn report(&self, _: &[Instance<'_>]) -> Reply<()> {
        self.reply(())
    }
}

impl HandleGenerate for StubHandler {
    fn generate(&self, _: &Instance<'_>) -> Reply<Generated> {
        self.reply(Generated::default())
    }
}

impl Handler for StubHandler {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn as_quota(&self) -> Option<&dyn HandleQuota> {
        Some(self)
    }

    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn as_generate(&self) -> Option<&dyn HandleGenerate> {
        Some(self)
    }
}

impl Stub {
    /// A stub that answers checks with this status.
    pub(crate) fn with_status(code: i32, message: impl Into<String>) -> Self {
        let status = Status { code, message: message.into(), details: Vec::new() };
        Self { check: CheckResult { status, ..CheckResult::default() }, ..Self::default() }
    }
}

/// The action of a step.
#[derive(Debug)]
pub(super) enum StepAction {
    /// Sends a check.
    Check {
        attributes: OwnedAttributes,
        /// Amount and best effort by name.
        quotas: BTreeMap<String, (i64, bool)>,
        /// `None`: an id that no other step uses.
        deduplication_id: Option<String>,
    },
    /// Sends a report.
    Report { records: Vec<OwnedAttributes> },
    /// Advances the clock.
    Advance(Duration),
}

/// A step of a test.
#[derive(Debug)]
pub(super) struct TestStep {
    pub(super) location: Location,
    pub(super) action: StepAction,
    pub(super) expectations: Vec<(Location, Expectation)>,
}

/// A test. Each test has its own handlers.
#[derive(Debug)]
pub struct TestCase {
    /// The name, unique in its file.
    pub name: String,
    /// The position in the file.
    pub location: Location,
    pub(super) stubs: Stubs,
    pub(super) steps: Vec<TestStep>,
}

/// The tests of a file.
#[derive(Debug)]
pub struct Suite {
    /// The path as given.
    pub file: Arc<str>,
    /// Unix time at which the clock of every test starts.
    pub(super) start: Duration,
    /// Stubs of every test.
    pub(super) stubs: Stubs,
    /// The tests, in file order.
    pub cases: Vec<TestCase>,
}
