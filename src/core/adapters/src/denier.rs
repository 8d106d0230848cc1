//! Denies every check with a configured status, and grants no quota.

use super::any::AnyField;
use mixer_attribute::SignedDuration;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, CheckPower, CheckResult, Env, HandleCheck, HandleQuota,
    Handler, Instance, QuotaCall, QuotaResult, Reply, Status, StatusDetail,
};

mixer_config::message! {
    /// A `google.rpc.Status` in configuration.
    pub struct StatusParams: "google.rpc.Status" {
        /// FAILED_PRECONDITION by default. Codes outside the enum are allowed.
        1 code: i32 = 9;
        /// Message for the client.
        2 message: String = String::new();
        /// Messages with an `@type`, `{"@type": "type.googleapis.com/NAME", …}`. A `DirectHttpResponse` becomes the response of
        /// the proxy.
        3 details: Vec<AnyField> = Vec::new();
    }
}

mixer_config::message! {
    /// Parameters of the denier.
    pub struct Params: "adapter.denier.config.Params" {
        /// The status of denied checks.
        1 status: StatusParams = StatusParams::default();
        /// How long the answer may be reused.
        2 valid_duration: SignedDuration = SignedDuration::from_secs(5);
        /// How often the answer may be reused.
        3 valid_use_count: i32 = 1000;
    }
}

/// The adapter, which is also its handler.
#[derive(Debug)]
pub struct Denier {
    denial: CheckResult,
}

impl Adapter for Denier {
    const INFO: AdapterInfo = AdapterInfo {
        name: "denier",
        about: "Rejects any check and quota request with a configurable error",
        templates: &["checknothing", "listentry", "quota"],
    };
    type Params = Params;

    fn validate(params: &Params, _: &[BoundInstance], problems: &mut Diagnostics) {
        if params.status.code == 0 {
            let path = FieldPath::root().field("status").field("code");
            let text = "status.code: the code 0 (OK) allows every check";
            let hint =
                "write the code of a refusal, for example 7 (PERMISSION_DENIED); without status it is 9";
            problems.push(Diagnostic::warning("denier-allows", path, text).with_hint(hint));
        }
    }

    fn check_power(_: &Params) -> CheckPower {
        CheckPower::Refuses
    }

    async fn build(params: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        let status = Status {
            code: params.status.code,
            message: params.status.message,
            details: encoded_details(params.status.details),
        };
        Ok(Box::new(Denier {
            denial: CheckResult {
                status,
                valid_duration: params.valid_duration,
                valid_use_count: params.valid_use_count,
                output: Vec::new(),
            },
        }))
    }
}

/// The details that could be decoded.
fn encoded_details(details: Vec<AnyField>) -> Vec<StatusDetail> {
    details.into_iter().map(|d| d.encoded).filter(|d| !d.type_url.is_empty()).collect()
}

impl Handler for Denier {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn as_quota(&self) -> Option<&dyn HandleQuota> {
        Some(self)
    }
}

impl HandleCheck for Denier {
    fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
        Reply::Ready(Ok(self.denial.clone()))
    }
}

impl HandleQuota for Denier {
    fn quota(&self, _: &Instance<'_>, _: QuotaCall<'_>) -> Reply<QuotaResult> {
        Reply::Ready(Ok(QuotaResult::default()))
    }
}

#[cfg(test)]
mod tests;
