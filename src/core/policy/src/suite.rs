//! Test suites: declared requests and expectations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::expect::Expectation;
use mixer_attribute::{OwnedAttributes, SignedDuration};
use mixer_config::Location;
use mixer_engine::adapter::{
    CheckResult, Generated, HandleCheck, HandleGenerate, HandleQuota, HandleReport, Handler, HandlerError,
    Instance, QuotaCall, QuotaResult, Reply, Status,
};

/// The fixed answers of a stubbed handler.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stub {
    /// The result of checks.
    pub check: CheckResult,
    /// Maximum grant of a quota; `None` grants the requested amount.
    pub granted: Option<i64>,
    /// Valid duration of grants.
    pub quota_valid: Option<SignedDuration>,
    /// Every call fails with this text.
    pub error: Option<String>,
}

/// Stubs by handler name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stubs {
    stubs: BTreeMap<String, Stub>,
}

impl Stubs {
    /// Replaces a handler with a stub.
    pub fn insert(&mut self, handler: impl Into<String>, stub: Stub) {
        self.stubs.insert(handler.into(), stub);
    }

    /// Merges both; `other` takes precedence.
    #[must_use]
    pub fn with(&self, other: &Stubs) -> Stubs {
        let mut stubs = self.stubs.clone();
        stubs.extend(other.stubs.iter().map(|(name, stub)| (name.clone(), stub.clone())));
        Stubs { stubs }
    }

    /// The stub of a handler.
    pub(super) fn handler(&self, name: &str) -> Option<Box<dyn Handler>> {
        let stub = self.stubs.get(name)?.clone();
        Some(Box::new(StubHandler(stub)))
    }
}

/// A stubbed handler.
struct StubHandler(Stub);

impl StubHandler {
    fn say<T>(&self, answer: T) -> Reply<T> {
        Reply::Ready(match &self.0.error {
            Some(text) => Err(HandlerError::new(text.clone())),
            None => Ok(answer),
        })
    }
}

impl HandleCheck for StubHandler {
    fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
        self.say(self.0.check.clone())
    }
}

impl HandleQuota for StubHandler {
    fn quota(&self, _: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
        let most = self.0.granted.unwrap_or(call.amount);
        let granted = if most >= call.amount || call.best_effort { most.min(call.amount) } else { 0 };
        let valid_duration = self.0.quota_valid.unwrap_or(SignedDuration::from_secs(60));
        self.say(QuotaResult { granted, valid_duration })
    }
}

impl HandleReport for StubHandler {
    fn report(&self, _: &[Instance<'_>]) -> Reply<()> {
        self.say(())
    }
}

impl HandleGenerate for StubHandler {
    fn generate(&self, _: &Instance<'_>) -> Reply<Generated> {
        self.say(Generated::default())
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
    pub fn refusing(code: i32, message: impl Into<String>) -> Self {
        let status = Status { code, message: message.into(), details: Vec::new() };
        Self { check: CheckResult { status, ..CheckResult::default() }, ..Self::default() }
    }
}

/// The action of a step.
#[derive(Debug)]
pub(super) enum Act {
    /// A check.
    Check {
        attributes: OwnedAttributes,
        /// Amount and best effort by name.
        quotas: BTreeMap<String, (i64, bool)>,
        /// `None`: unique per step.
        deduplication_id: Option<String>,
    },
    /// A report.
    Report { records: Vec<OwnedAttributes> },
    /// Advances the clock.
    Advance(Duration),
}

/// A step of a test.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) location: Location,
    pub(super) act: Act,
    pub(super) expectations: Vec<(Location, Expectation)>,
}

/// A test: steps on their own handlers.
#[derive(Debug)]
pub struct Case {
    /// As written.
    pub name: String,
    /// Its position.
    pub location: Location,
    pub(super) stubs: Stubs,
    pub(super) steps: Vec<Step>,
}

/// A test file.
#[derive(Debug)]
pub struct Suite {
    /// As given.
    pub file: Arc<str>,
    /// Start time of the clock of every test, since 1970.
    pub(super) start: Duration,
    /// Stubs of all tests.
    pub(super) stubs: Stubs,
    /// The tests, in order.
    pub cases: Vec<Case>,
}
