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
    } elsewhere {
        "code" => "it is a field of `status`: `status: {code: 7}`",
        "message" => "it is a field of `status`: `status: {message: …}`",
        "details" => "it is a field of `status`: `status: {details: […]}`",
    }
}

/// The last code of `google.rpc.Code`, UNAUTHENTICATED.
const LAST_CODE: i32 = 16;

/// Statuses of HTTP that are taken for codes, with the codes that they stand for.
const OF_HTTP: [(i32, i32, &str); 7] = [
    (400, 3, "INVALID_ARGUMENT"),
    (401, 16, "UNAUTHENTICATED"),
    (404, 5, "NOT_FOUND"),
    (429, 8, "RESOURCE_EXHAUSTED"),
    (500, 13, "INTERNAL"),
    (501, 12, "UNIMPLEMENTED"),
    (503, 14, "UNAVAILABLE"),
];

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
        } else if !(1..=LAST_CODE).contains(&params.status.code) {
            let code = params.status.code;
            let path = FieldPath::root().field("status").field("code");
            let text =
                format!("status.code: {code} is no code of google.rpc.Code, which are 0 to {LAST_CODE}");
            let meant = OF_HTTP.iter().find(|(status, ..)| *status == code);
            let (meant, name) = meant.map_or((7, "PERMISSION_DENIED"), |(_, code, name)| (*code, *name));
            let hint = format!("{meant} is {name}");
            problems.push(Diagnostic::warning("denier-code", path, text).with_hint(hint).accepted_by_istio());
        }
        let negative = [
            ("validDuration", params.valid_duration < SignedDuration::ZERO),
            ("validUseCount", params.valid_use_count < 0),
        ];
        for (name, _) in negative.into_iter().filter(|(_, is_negative)| *is_negative) {
            let text = format!("{name}: it is negative, so that no client reuses the answer, as with 0");
            let problem = Diagnostic::warning("denier-validity", FieldPath::root().field(name), text);
            problems.push(problem.with_hint("write 0, or leave it out for the default").accepted_by_istio());
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
