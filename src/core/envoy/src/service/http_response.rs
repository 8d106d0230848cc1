//! The response of the HTTP authorization service, from the same decision as the gRPC one.

use http::HeaderMap;

use super::super::check_response::{self, RequestInfo};
use super::EnvoyService;
use super::decision::Decision;
use super::response::Enforced;
use mixer_api::CallInfo;
use mixer_api::grpc::GrpcError;
use mixer_engine::snapshot::HeaderOperationKind;

/// The response to a check over HTTP.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct HttpCheckResponse {
    /// The status; 200 allows the request.
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
        let call = CallInfo { headers: Some(headers), ..CallInfo::default() };
        self.decide_with(body, &[], &call, |decision, facts, config| {
            let enforced = self.enforce(decision, config);
            let request = RequestInfo {
                is_http: true,
                request_id: facts.request_id,
                headers: facts.headers,
                deny_body: config.settings.check.deny_body,
            };
            http_response(decision, &enforced, &request)
        })
        .await
    }
}

fn http_response(decision: &Decision, enforced: &Enforced, request: &RequestInfo<'_>) -> HttpCheckResponse {
    use HeaderOperationKind::Remove;
    let code = enforced.code;
    let direct = decision.directive.as_ref().filter(|d| d.direct_response_code != 0 && decision.code == code);
    if code == 0 && direct.is_none() {
        let changes = decision.directive.iter().flat_map(|directive| &directive.request_headers);
        let (remove, set): (Vec<_>, Vec<_>) = changes.partition(|change| change.kind == Remove);
        return HttpCheckResponse {
            status: 200,
            headers: set.into_iter().map(|c| (c.name.clone(), c.value.clone())).collect(),
            remove: remove.into_iter().map(|c| c.name.clone()).collect(),
            body: String::new(),
        };
    }
    let status = match direct {
        Some(direct) => direct.direct_response_code,
        None if enforced.failed => 503,
        None => check_response::http_status(code),
    };
    let status = u16::try_from(status).ok().filter(|status| (200..=599).contains(status)).unwrap_or(403);
    // 200 would allow the request.
    let status = if status == 200 { 403 } else { status };
    let mut headers = decision.headers.clone();
    let body = match direct {
        Some(direct) => {
            let changes = direct.response_headers.iter().filter(|change| change.kind != Remove);
            headers.extend(changes.map(|change| (change.name.clone(), change.value.clone())));
            direct.direct_response_body.clone()
        }
        None => check_response::body(code, &decision.message, request),
    };
    HttpCheckResponse { status, headers, remove: Vec::new(), body }
}
