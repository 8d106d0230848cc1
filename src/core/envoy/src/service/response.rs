//! The gRPC response to a check, after error mode and shadow mode.

use bytes::Bytes;

use super::super::check_request::CheckFacts;
use super::super::check_response::{self, AuthzResponse, RequestInfo, ResponseMetadata};
use super::EnvoyService;
use super::decision::Decision;
use crate::config::{EnvoyConfig, ErrorMode, Mode};
use mixer_api::grpc::{EMPTY_MESSAGE, finish_message};

/// A decision as the proxy receives it.
pub(super) struct Enforced {
    /// The status; 0 allows the request.
    pub(super) code: i32,
    /// The evaluation failed and the failure mode of the proxy decides.
    pub(super) failed: bool,
    /// The status that shadow mode overrides.
    pub(super) shadow_status: Option<i32>,
}

/// Whether a request passes that the decision does not allow.
pub(super) fn is_overridden(decision: &Decision, config: &EnvoyConfig) -> bool {
    let check = &config.settings.check;
    let opens = decision.failed && check.error_mode == ErrorMode::Open;
    decision.code != 0 && (opens || check.mode == Mode::Shadow)
}

/// Whether a request is refused, and not left to the failure mode of the proxy.
pub(super) fn is_denied(decision: &Decision, config: &EnvoyConfig) -> bool {
    let check = &config.settings.check;
    let is_final = !decision.failed || check.error_mode == ErrorMode::Closed;
    decision.code != 0 && is_final && check.mode != Mode::Shadow
}

impl EnvoyService {
    /// Applies error mode and shadow mode, and counts the result.
    pub(super) fn enforce(&self, decision: &Decision, config: &EnvoyConfig) -> Enforced {
        let check = &config.settings.check;
        let (code, failed) = match (decision.failed, check.error_mode) {
            (true, ErrorMode::Open) => (0, false),
            (true, ErrorMode::Closed) => (decision.code, false),
            (failed, _) => (decision.code, failed),
        };
        let name = check_response::code_name(decision.code);
        if check.mode == Mode::Shadow {
            let result = match (decision.failed, decision.code) {
                (true, _) => "shadow_error",
                (false, 0) => "shadow_allowed",
                (false, _) => "shadow_denied",
            };
            self.metrics.check(result, name);
            return Enforced { code: 0, failed: false, shadow_status: Some(decision.code) };
        }
        let result = match (decision.failed, check.error_mode, code) {
            (true, ErrorMode::Open, _) => "error_allowed",
            (true, ErrorMode::Closed, _) => "error_denied",
            (true, ErrorMode::Delegate, _) => "error",
            (false, _, 0) => "allow",
            (false, _, _) => "deny",
        };
        self.metrics.check(result, name);
        Enforced { code, failed, shadow_status: None }
    }

    /// Encodes a framed CheckResponse.
    pub(super) fn check_response(
        &self,
        decision: &Decision,
        facts: &CheckFacts<'_>,
        config: &EnvoyConfig,
    ) -> Bytes {
        let check = &config.settings.check;
        let Enforced { code, failed, shadow_status } = self.enforce(decision, config);
        let headers: Vec<(&str, String)> =
            decision.headers.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let response = AuthzResponse {
            code,
            message: if code == 0 && decision.code != 0 { "" } else { &decision.message },
            body_message: decision.body_message(check),
            directive: decision.directive_under(code),
            extra_headers: &headers,
            failed,
        };
        let request = RequestInfo {
            is_http: facts.is_http,
            request_id: facts.request_id,
            headers: facts.headers,
            deny_body: check.deny_body,
        };
        let new_id = (check.response_metadata && decision.id.is_empty()).then(|| self.decision_id());
        let metadata = ResponseMetadata {
            status: code,
            message: &decision.message,
            decision_id: new_id.as_deref().unwrap_or(&decision.id),
            rules: &decision.rules,
            cache_hit: decision.cache_hit,
            shadow_status,
        };
        let mut out = Vec::with_capacity(384);
        out.extend_from_slice(&EMPTY_MESSAGE);
        let metadata = check.response_metadata.then_some(&metadata);
        let unsupported = check_response::encode(&response, &request, metadata, &mut out);
        finish_message(&mut out);
        self.metrics.unsupported(unsupported);
        out.into()
    }
}
