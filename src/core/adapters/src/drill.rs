//! Fault injection: delays, errors, panics and hangs on purpose. Not in Istio Mixer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mixer_attribute::SignedDuration;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, CheckResult, Env, HandleCheck, HandleQuota,
    HandleReport, Handler, HandlerError, Instance, QuotaCall, QuotaResult, Reply,
};

mixer_config::message_enum! {
    /// The outcome of a call.
    pub enum Outcome: "adapter.drill.config.Params.Outcome" {
        /// The call succeeds: the check is allowed, the quota granted.
        0 "AGREE" Agree;
        /// The handler answers with an error.
        1 "ERROR" Error;
        /// The handler panics.
        2 "PANIC" Panic;
        /// The handler never answers.
        3 "HANG" Hang;
    }
}

mixer_config::message! {
    /// Parameters of the drill.
    pub struct Params: "adapter.drill.config.Params" {
        /// The outcome of a call.
        1 outcome: Outcome = Outcome::Agree;
        /// Applies to every Nth call only; the others succeed.
        2 every: i64 = 1;
        /// Delay of every answer.
        3 delay: SignedDuration = SignedDuration::ZERO;
        /// Text of errors and panics.
        4 message: String = "drill".to_owned();
    }
}

/// The adapter, which is also its handler.
#[derive(Debug)]
pub(crate) struct Drill {
    params: Params,
    calls: AtomicU64,
}

impl Adapter for Drill {
    const INFO: AdapterInfo = AdapterInfo {
        name: "drill",
        about: "Injects delays, errors, panics and hangs (for testing)",
        templates: &[
            "authorization",
            "checknothing",
            "reportnothing",
            "listentry",
            "logentry",
            "metric",
            "quota",
            "tracespan",
        ],
    };
    type Params = Params;

    fn validate(params: &Params, _: &[BoundInstance], problems: &mut Diagnostics) {
        let mut refuse = |field: &str, text: String, hint: &str| {
            let path = FieldPath::root().field(field);
            problems.push(Diagnostic::error("drill-params", path, text).with_hint(hint));
        };
        if params.every < 1 {
            let text = format!("every: must be at least 1, is {}", params.every);
            refuse("every", text, "1 is every call, 10 every tenth");
        }
        if params.delay < SignedDuration::ZERO {
            refuse("delay", "delay: must not be negative".to_owned(), "0s is no delay");
        }
    }

    async fn build(params: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(Drill { params, calls: AtomicU64::new(0) }))
    }
}

impl Drill {
    /// The configured outcome, or else `answer`.
    fn answer<T: Send + 'static>(&self, answer: T) -> Reply<T> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let every = u64::try_from(self.params.every).unwrap_or(1).max(1);
        let outcome = if call.is_multiple_of(every) { self.params.outcome } else { Outcome::Agree };
        if outcome == Outcome::Hang {
            return Reply::Later(Box::pin(std::future::pending()));
        }
        let message = self.params.message.clone();
        match self.params.delay.to_std_or_zero() {
            Duration::ZERO => Reply::Ready(apply(outcome, message, answer)),
            delay => Reply::Later(Box::pin(async move {
                tokio::time::sleep(delay).await;
                apply(outcome, message, answer)
            })),
        }
    }
}

#[expect(clippy::panic, reason = "the user has configured a panic")]
fn apply<T>(outcome: Outcome, message: String, answer: T) -> Result<T, HandlerError> {
    match outcome {
        Outcome::Error => Err(HandlerError::new(message)),
        Outcome::Panic => panic!("{message}"),
        Outcome::Agree | Outcome::Hang => Ok(answer),
    }
}

impl Handler for Drill {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn as_quota(&self) -> Option<&dyn HandleQuota> {
        Some(self)
    }

    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }
}

impl HandleCheck for Drill {
    fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
        // No valid duration: every call reaches the handler.
        self.answer(CheckResult::default())
    }
}

impl HandleQuota for Drill {
    fn quota(&self, _: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
        self.answer(QuotaResult { granted: call.amount, valid_duration: SignedDuration::ZERO })
    }
}

impl HandleReport for Drill {
    fn report(&self, _: &[Instance<'_>]) -> Reply<()> {
        self.answer(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::instance;

    fn drill(outcome: Outcome, every: i64, delay: SignedDuration) -> Drill {
        let params = Params { outcome, every, delay, ..Params::default() };
        Drill { params, calls: AtomicU64::new(0) }
    }

    async fn check(drill: &Drill) -> Result<CheckResult, HandlerError> {
        match drill.as_check().unwrap().check(&instance("i", &[])) {
            Reply::Ready(answer) => answer,
            Reply::Later(answer) => answer.await,
        }
    }

    #[tokio::test]
    async fn every_nth_call_fails() {
        let drill = drill(Outcome::Error, 3, SignedDuration::ZERO);
        for call in 1..=7 {
            assert_eq!(check(&drill).await.is_err(), call % 3 == 0, "call {call}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_delayed() {
        let start = tokio::time::Instant::now();
        check(&drill(Outcome::Agree, 1, SignedDuration::from_secs(7))).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_call_never_ends() {
        let drill = drill(Outcome::Hang, 1, SignedDuration::ZERO);
        assert!(tokio::time::timeout(Duration::from_secs(3600), check(&drill)).await.is_err());
    }

    #[tokio::test]
    #[should_panic(expected = "drill")]
    async fn a_panic_is_raised() {
        let _ = check(&drill(Outcome::Panic, 1, SignedDuration::ZERO)).await;
    }

    #[test]
    fn invalid_parameters_are_refused() {
        let params = Params { every: 0, delay: SignedDuration::from_secs(-1), ..Params::default() };
        let mut problems = Diagnostics::default();
        Drill::validate(&params, &[], &mut problems);
        let fields: Vec<String> = problems.iter().map(|p| p.field.to_string()).collect();
        assert_eq!(fields, ["every", "delay"]);
    }
}
