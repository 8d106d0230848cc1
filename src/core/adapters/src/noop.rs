//! Does nothing: allows every check, grants every quota, accepts every report.

use mixer_attribute::SignedDuration;
use mixer_config::Diagnostics;
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, CheckPower, CheckResult, Env, HandleCheck, HandleQuota,
    HandleReport, Handler, Instance, QuotaCall, QuotaResult, Reply, Status,
};

mixer_config::message! {
    /// The adapter has no parameters.
    pub struct Params: "google.protobuf.Empty" {}
}

/// Valid duration of an answer: about 31 years.
const VALID_DURATION: SignedDuration = SignedDuration::from_secs(1_000_000_000);
/// How often an answer may be reused.
const VALID_USE_COUNT: i32 = 1_000_000_000;

/// The adapter, which is also its handler.
#[derive(Debug)]
pub(crate) struct Noop;

impl Adapter for Noop {
    const INFO: AdapterInfo = AdapterInfo {
        name: "noop",
        about: "Does nothing (useful for testing)",
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

    fn validate(_: &Params, _: &[BoundInstance], _: &mut Diagnostics) {}

    fn check_power(_: &Params) -> CheckPower {
        CheckPower::Allows
    }

    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(Noop))
    }
}

impl Handler for Noop {
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

impl HandleCheck for Noop {
    fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
        Reply::Ready(Ok(CheckResult {
            status: Status::default(),
            valid_duration: VALID_DURATION,
            valid_use_count: VALID_USE_COUNT,
            output: Vec::new(),
        }))
    }
}

impl HandleQuota for Noop {
    fn quota(&self, _: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
        Reply::Ready(Ok(QuotaResult { granted: call.amount, valid_duration: VALID_DURATION }))
    }
}

impl HandleReport for Noop {
    fn report(&self, _: &[Instance<'_>]) -> Reply<()> {
        Reply::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build_default, instance, ready};

    #[tokio::test]
    async fn every_call_succeeds() {
        let handler = build_default::<Noop>().await;
        let check = ready(handler.as_check().unwrap().check(&instance("i", &[])));
        assert_eq!(
            (check.status, check.valid_duration, check.valid_use_count),
            (Status::default(), VALID_DURATION, VALID_USE_COUNT)
        );
        for amount in [7, 0, -4, i64::MAX] {
            let call = QuotaCall { amount, best_effort: false, deduplication_id: "" };
            let answer = ready(handler.as_quota().unwrap().quota(&instance("q", &[]), call));
            assert_eq!(answer, QuotaResult { granted: amount, valid_duration: VALID_DURATION });
        }
        ready(handler.as_report().unwrap().report(&[instance("m", &[])]));
        handler.close(std::time::Duration::ZERO).await.unwrap();
    }
}
