//! The HTTP flavour of authorization: the same decision, as an HTTP response.

use http::HeaderMap;

use super::super::check_response::{self, Asked};
use super::BridgeService;
use super::check::Decided;
use mixer_api::CallInfo;
use mixer_api::grpc::GrpcError;

/// The answer to a check for the HTTP flavour: what becomes of the request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HttpVerdict {
    /// The status; 200 lets the request pass.
    pub status: u16,
    /// Headers for the request if it passes, for the response if not.
    pub headers: Vec<(String, String)>,
    /// Request headers to take away.
    pub remove: Vec<String>,
    /// The body of a refusal.
    pub body: String,
}

impl BridgeService {
    /// Answers a request of the HTTP flavour. `body` is a CheckRequest; `headers` are those of the request, which may say what trace
    /// it belongs to.
    ///
    /// Errors: as [`check`](Self::check).
    pub async fn check_http(&self, body: &[u8], headers: &HeaderMap) -> Result<HttpVerdict, GrpcError> {
        let call = CallInfo { headers: Some(headers), ..CallInfo::default() };
        self.decide_and(body, &[], &call, |decided, facts, config| {
            let (code, undecided, _) = self.settle(decided, config);
            let asked = Asked {
                is_http: true,
                request_id: facts.request_id,
                headers: facts.headers,
                deny_body: config.settings.check.deny_body,
            };
            http_verdict(decided, code, undecided, &asked)
        })
        .await
    }
}

fn http_verdict(decided: &Decided, code: i32, undecided: bool, asked: &Asked<'_>) -> HttpVerdict {
    use mixer_engine::snapshot::HeaderOperationKind::Remove;
    let direct = decided.directive.as_ref().filter(|d| d.direct_response_code != 0 && decided.code == code);
    if code == 0 && direct.is_none() {
        let changes = decided.directive.iter().flat_map(|directive| &directive.request_headers);
        let (remove, set): (Vec<_>, Vec<_>) = changes.partition(|change| change.kind == Remove);
        return HttpVerdict {
            status: 200,
            headers: set.into_iter().map(|c| (c.name.clone(), c.value.clone())).collect(),
            remove: remove.into_iter().map(|c| c.name.clone()).collect(),
            body: String::new(),
        };
    }
    let status = match direct {
        Some(direct) => direct.direct_response_code,
        None if undecided => 503,
        None => check_response::http_status(code),
    };
    let status = u16::try_from(status).ok().filter(|status| (200..=599).contains(status)).unwrap_or(403);
    // 200 would let the request pass.
    let status = if status == 200 { 403 } else { status };
    let mut headers = decided.headers.clone();
    let body = match direct {
        Some(direct) => {
            let changes = direct.response_headers.iter().filter(|change| change.kind != Remove);
            headers.extend(changes.map(|change| (change.name.clone(), change.value.clone())));
            direct.direct_response_body.clone()
        }
        None => check_response::body(code, &decided.message, asked),
    };
    HttpVerdict { status, headers, remove: Vec::new(), body }
}
