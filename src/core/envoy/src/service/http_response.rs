//! The response of the HTTP authorization service, from the same decision as the gRPC one.

use http::HeaderMap;

use super::super::check_request::CheckFacts;
use super::super::check_response::{self, RequestChange, RequestInfo, Unsupported, request_changes};
use super::decision::Decision;
use super::response::Enforced;
use super::{AUTHORIZATION_CHECK, EnvoyService};
use crate::config::EnvoyConfig;
use mixer_api::CallInfo;
use mixer_api::grpc::GrpcError;
use mixer_api::observers;
use mixer_api::principal::CallerPrincipal;
use mixer_engine::snapshot::HeaderOperationKind;

/// The header with the status of a denial that is sent as 403.
const DECIDED_STATUS: &str = "x-mixer-http-status";

/// The response to a check over HTTP.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct HttpCheckResponse {
    /// 200 allows the request, 503 leaves it to the failure mode of Envoy, every other status below 500 denies it.
    pub(crate) status: u16,
    /// Headers for the allowed request, or of the denial.
    pub(crate) headers: Vec<(String, String)>,
    /// Request headers to remove.
    pub(crate) remove: Vec<String>,
    /// The body of a denial.
    pub(crate) body: String,
}

impl EnvoyService {
    /// Answers a check over HTTP. `body` is a CheckRequest; `headers` are those of the HTTP request, for the trace context.
    ///
    /// Errors: as [`check`](Self::check).
    pub(crate) async fn check_http(
        &self,
        body: &[u8],
        headers: &HeaderMap,
    ) -> Result<HttpCheckResponse, GrpcError> {
        let call = Self::http_call(headers);
        let respond = |decision: &Decision, facts: &CheckFacts<'_>, config: &EnvoyConfig| {
            self.http_response(decision, facts, config)
        };
        self.decide_with(body, &[], &call, respond).await
    }

    /// As [`denial_of`](Self::denial_of), for a check over HTTP.
    pub(crate) fn http_denial_of(&self, error: &GrpcError) -> Option<HttpCheckResponse> {
        self.closed(error, |decision, config| self.http_response(decision, &CheckFacts::unknown(), config))
    }

    /// Counts and records a check over HTTP that is answered before it could be decided, and whether that denies the request. `request` is what is
    /// known of its CheckRequest.
    pub(crate) fn undecided_http(
        &self,
        is_denied: bool,
        error: &GrpcError,
        headers: &HeaderMap,
        request: impl Fn() -> Vec<u8>,
    ) {
        self.count_undecided(if is_denied { "deny" } else { "error" }, error);
        if is_denied {
            self.record_refused(&request(), error);
        }
        let call = Self::http_call(headers);
        let observers = self.worker.engine.observers.as_deref();
        if let Some(observation) = observers::observe(observers, AUTHORIZATION_CHECK, &call) {
            if observation.records_payload() {
                self.record_undecided((&request(), &[]), Some(&observation), error);
            }
            observation.finish(Err(error));
        }
    }

    fn http_call(headers: &HeaderMap) -> CallInfo<'_> {
        CallInfo { principal: CallerPrincipal::Unverified, headers: Some(headers), ..CallInfo::default() }
    }

    fn http_response(
        &self,
        decision: &Decision,
        facts: &CheckFacts<'_>,
        config: &EnvoyConfig,
    ) -> HttpCheckResponse {
        let enforced = self.enforce(decision, config);
        let request = RequestInfo {
            is_http: true,
            request_id: facts.request_id,
            headers: facts.headers,
            deny_body: config.settings.check.deny_body,
        };
        let message = decision.body_message(&config.settings.check);
        let (response, unsupported) = http_response(decision, message, &enforced, &request);
        self.metrics.unsupported(unsupported);
        response
    }
}

fn http_response(
    decision: &Decision,
    message: &str,
    enforced: &Enforced,
    request: &RequestInfo<'_>,
) -> (HttpCheckResponse, Unsupported) {
    use HeaderOperationKind::Remove;
    let code = enforced.code;
    let directive = decision.directive_under(code);
    let direct = directive.filter(|directive| directive.direct_response_code != 0);
    let mut unsupported = Unsupported::default();
    if code == 0 && direct.is_none() {
        let mut response = HttpCheckResponse { status: 200, ..HttpCheckResponse::default() };
        for change in directive.into_iter().flat_map(request_changes) {
            match change {
                // A response has headers, and no `:path`.
                RequestChange::Set(c) | RequestChange::Append(_, c) if c.name.starts_with(':') => {
                    unsupported.pseudo_header += 1;
                }
                RequestChange::Remove(name) if name.starts_with(':') => unsupported.pseudo_header += 1,
                RequestChange::Set(c) | RequestChange::Append(_, c) => {
                    response.headers.push((c.name.clone(), c.value.clone()));
                }
                RequestChange::Remove(name) => response.remove.push(name.to_owned()),
                RequestChange::Invalid => unsupported.invalid_header += 1,
            }
        }
        // The headers of an answer that allows are those of the request for the upstream.
        let lost = directive.map_or(0, |directive| directive.response_headers.len());
        unsupported.response_header += u32::try_from(lost).unwrap_or(u32::MAX);
        return (response, unsupported);
    }
    let mut headers = decision.headers.clone();
    let decided = match direct {
        Some(direct) => direct.direct_response_code,
        None => check_response::http_status(code),
    };
    let status = match u16::try_from(decided) {
        // Envoy takes 5xx for an error of this service and applies its failure mode, which may allow the request.
        _ if enforced.failed => 503,
        Ok(500..=599) => {
            headers.push((DECIDED_STATUS.to_owned(), decided.to_string()));
            403
        }
        // 200 would allow the request.
        Ok(status @ 201..=499) => status,
        _ => 403,
    };
    let body = match direct {
        Some(direct) => {
            for change in &direct.response_headers {
                match change.kind {
                    Remove => unsupported.response_remove += 1,
                    _ if change.name.starts_with(':') || !check_response::is_valid(change) => {
                        unsupported.invalid_header += 1
                    }
                    _ => headers.push((change.name.clone(), change.value.clone())),
                }
            }
            direct.direct_response_body.clone()
        }
        None => check_response::body(code, message, request),
    };
    (HttpCheckResponse { status, headers, remove: Vec::new(), body }, unsupported)
}
