//! Responses decoded with the generated messages, compared with what Envoy supports.

use prost::Message as _;

use super::*;
use mixer_wire::envoy::config::core::v3::HeaderValueOption;
use mixer_wire::envoy::service::auth::v3::CheckResponse;
use mixer_wire::envoy::service::auth::v3::check_response::HttpResponse;

fn change(name: &str, value: &str, kind: HeaderOperationKind) -> HeaderChange {
    HeaderChange { name: name.to_owned(), value: value.to_owned(), kind }
}

struct Case<'c> {
    code: i32,
    message: &'c str,
    directive: Option<RouteDirective>,
    failed: bool,
    request: RequestInfo<'c>,
}

impl Default for Case<'_> {
    fn default() -> Self {
        let request =
            RequestInfo { is_http: true, request_id: b"r-1", headers: &[], deny_body: DenyBody::Text };
        Self { code: 0, message: "", directive: None, failed: false, request }
    }
}

impl Case<'_> {
    fn answer(&self) -> (CheckResponse, Unsupported) {
        let response = AuthzResponse {
            code: self.code,
            message: self.message,
            body_message: self.message,
            directive: self.directive.as_ref(),
            extra_headers: &[],
            failed: self.failed,
        };
        let mut out = Vec::new();
        let unsupported = encode(&response, &self.request, None, &mut out);
        (CheckResponse::decode(out.as_slice()).unwrap(), unsupported)
    }
}

/// Name, value, whether `append` is set, `append_action`.
fn shown(options: &[HeaderValueOption]) -> Vec<(String, String, Option<bool>, i32)> {
    let one = |option: &HeaderValueOption| {
        let header = option.header.clone().unwrap();
        (header.key, header.value, option.append, option.append_action)
    };
    options.iter().map(one).collect()
}

fn option(name: &str, value: &str, append: Option<bool>, action: i32) -> (String, String, Option<bool>, i32) {
    (name.to_owned(), value.to_owned(), append, action)
}

#[test]
fn every_code_has_its_status_and_body() {
    let table = [
        (1, 499, "CANCELLED"),
        (2, 500, "UNKNOWN"),
        (3, 400, "INVALID_ARGUMENT"),
        (4, 504, "DEADLINE_EXCEEDED"),
        (5, 404, "NOT_FOUND"),
        (6, 409, "ALREADY_EXISTS"),
        (7, 403, "PERMISSION_DENIED"),
        (8, 429, "RESOURCE_EXHAUSTED"),
        (9, 400, "FAILED_PRECONDITION"),
        (10, 409, "ABORTED"),
        (11, 400, "OUT_OF_RANGE"),
        (12, 501, "UNIMPLEMENTED"),
        (13, 500, "INTERNAL"),
        (14, 503, "UNAVAILABLE"),
        (15, 500, "DATA_LOSS"),
        (16, 401, "UNAUTHENTICATED"),
        (42, 500, "UNKNOWN"),
    ];
    for (code, status, name) in table {
        for (message, body) in [("", name.to_owned()), ("no", format!("{name}:no"))] {
            let (answer, _) = Case { code, message, ..Case::default() }.answer();
            assert_eq!(answer.status.unwrap().code, code);
            let Some(HttpResponse::DeniedResponse(denied)) = answer.http_response else {
                panic!("{code}: no denial")
            };
            assert_eq!((denied.status.unwrap().code, denied.body), (status, body));
        }
    }
}

#[test]
fn an_allowed_request_has_a_status_and_loses_the_forwarded_attributes() {
    let (answer, _) = Case::default().answer();
    assert_eq!(answer.status.map(|status| status.code), Some(0));
    let Some(HttpResponse::OkResponse(ok)) = answer.http_response else { panic!("no approval") };
    assert_eq!(ok.headers_to_remove, ["x-istio-attributes"]);
    assert!(ok.headers.is_empty());
}

#[test]
fn header_operations_use_combinations_that_envoy_supports() {
    use HeaderOperationKind::{Append, Remove, Replace};
    let directive = RouteDirective {
        request_headers: vec![
            change("X-Set", "1", Replace),
            change("X-There", "2", Append),
            change("X-New", "3", Append),
            change("X-New", "4", Append),
            change("X-Gone", "", Remove),
            change("bad name", "5", Replace),
        ],
        response_headers: vec![
            change("x-a", "1", Replace),
            change("x-b", "2", Append),
            change("x-c", "", Remove),
        ],
        ..RouteDirective::default()
    };
    let headers: &[(&[u8], &[u8])] = &[(b"x-there", b"old")];
    let request = RequestInfo { headers, ..Case::default().request };
    let (answer, unsupported) = Case { directive: Some(directive), request, ..Case::default() }.answer();
    let Some(HttpResponse::OkResponse(ok)) = answer.http_response else { panic!("no approval") };
    assert_eq!(
        shown(&ok.headers),
        [
            option("X-Set", "1", None, 2),
            option("X-There", "2", Some(true), 0),
            option("X-New", "3", None, 0),
            option("X-New", "4", Some(true), 0),
        ]
    );
    assert_eq!(ok.headers_to_remove, ["X-Gone", "x-istio-attributes"]);
    assert_eq!(
        shown(&ok.response_headers_to_add),
        [option("x-a", "1", None, 2), option("x-b", "2", None, 0)]
    );
    assert_eq!(unsupported, Unsupported { response_remove: 1, invalid_header: 1, ..Unsupported::default() });
}

#[test]
fn a_direct_response_denies_with_any_status() {
    let direct = |code, body: &str| RouteDirective {
        direct_response_code: code,
        direct_response_body: body.to_owned(),
        response_headers: vec![
            change("location", "https://login.example/", HeaderOperationKind::Replace),
            change("set-cookie", "a=1", HeaderOperationKind::Append),
            change("set-cookie", "b=2", HeaderOperationKind::Append),
        ],
        ..RouteDirective::default()
    };
    for (code, sent, body, shown_body) in [
        (302, 302, "go", "go"),
        (204, 204, "x", ""),
        (304, 304, "x", ""),
        (100, 403, "x", "x"),
        (700, 403, "x", "x"),
    ] {
        let (answer, _) = Case { directive: Some(direct(code, body)), ..Case::default() }.answer();
        assert_eq!(answer.status.unwrap().code, 7, "OK would let it pass");
        let Some(HttpResponse::DeniedResponse(denied)) = answer.http_response else { panic!("no denial") };
        assert_eq!((denied.status.unwrap().code, denied.body.as_str()), (sent, shown_body), "{code}");
        let names: Vec<_> = shown(&denied.headers).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["location", "set-cookie", "set-cookie"]);
        assert!(denied.headers.iter().all(|header| header.append.is_none()), "others would be dropped");
    }
}

#[test]
fn a_failed_evaluation_is_an_error_response() {
    let (answer, _) = Case { code: 13, message: "down", failed: true, ..Case::default() }.answer();
    let Some(HttpResponse::ErrorResponse(error)) = answer.http_response else { panic!("no error") };
    assert_eq!(error.status.unwrap().code, 500);
}

#[test]
fn a_connection_gets_only_a_status() {
    for code in [0, 7] {
        let request = RequestInfo { is_http: false, ..Case::default().request };
        let (answer, _) = Case { code, request, ..Case::default() }.answer();
        assert_eq!(answer.status.unwrap().code, code);
        assert!(answer.http_response.is_none());
    }
}

#[test]
fn bodies_have_the_configured_format() {
    let body = |deny_body| {
        let request = RequestInfo { deny_body, ..Case::default().request };
        let (answer, _) = Case { code: 7, message: "no \"x\"", request, ..Case::default() }.answer();
        let Some(HttpResponse::DeniedResponse(denied)) = answer.http_response else { panic!("no denial") };
        (denied.body, shown(&denied.headers).len())
    };
    assert_eq!(body(DenyBody::None), (String::new(), 0));
    assert_eq!(body(DenyBody::Text), ("PERMISSION_DENIED:no \"x\"".to_owned(), 0));
    let (json, headers) = body(DenyBody::Json);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"code": 7, "status": "PERMISSION_DENIED", "message": "no \"x\"", "request_id": "r-1"})
    );
    assert_eq!(headers, 1, "its content type");
}

#[test]
fn metadata_has_status_rules_and_decision_id() {
    let rules = ["deny.prod".to_owned()];
    let metadata = ResponseMetadata {
        status: 0,
        message: "blocked",
        decision_id: "d-1",
        rules: &rules,
        cache_hit: true,
        shadow_status: Some(7),
    };
    let response = AuthzResponse {
        code: 0,
        message: "",
        body_message: "",
        directive: None,
        extra_headers: &[],
        failed: false,
    };
    let mut out = Vec::new();
    encode(&response, &Case::default().request, Some(&metadata), &mut out);
    let fields = CheckResponse::decode(out.as_slice()).unwrap().dynamic_metadata.unwrap().fields;
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "mixer_cache",
            "mixer_code",
            "mixer_decision_id",
            "mixer_message",
            "mixer_rules",
            "mixer_shadow_code",
            "mixer_shadow_status",
            "mixer_status",
        ]
    );
}
