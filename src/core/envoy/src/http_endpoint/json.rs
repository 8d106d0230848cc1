//! `POST /json`: rate limits in the JSON mapping of their messages.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use prost::Message as _;
use serde_json::{Value, json};

use super::plain;
use crate::service::EnvoyService;
use mixer_api::grpc::unframed;
use mixer_api::{CallInfo, CallPool};
use mixer_wire::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
use mixer_wire::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse, rate_limit_response};

/// 200 within the limits, 429 over a limit, 400 for an invalid request and for a failure.
pub(super) async fn should_rate_limit(
    service: &EnvoyService,
    pool: &CallPool,
    body: &[u8],
) -> Response<Full<Bytes>> {
    let request = match serde_json::from_slice::<Value>(body) {
        Ok(value) => match request_of(&value) {
            Some(request) => request,
            None => return plain(StatusCode::BAD_REQUEST, "not a RateLimitRequest\n"),
        },
        Err(error) => return plain(StatusCode::BAD_REQUEST, &format!("invalid JSON: {error}\n")),
    };
    let framed = match pool
        .run(service.should_rate_limit(request.encode_to_vec().into(), CallInfo::default()), None)
        .await
    {
        Ok(framed) => framed,
        Err(error) => return plain(StatusCode::BAD_REQUEST, &format!("{}\n", error.message)),
    };
    let Ok(response) = RateLimitResponse::decode(unframed(&framed)) else {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, "the response cannot be encoded\n");
    };
    let status = match response.overall_code() {
        rate_limit_response::Code::Ok => StatusCode::OK,
        rate_limit_response::Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        rate_limit_response::Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut answer = Response::new(Full::new(Bytes::from(json_of(&response).to_string())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// A member in either of its two spellings.
fn member<'v>(value: &'v Value, camel: &str, snake: &str) -> &'v Value {
    value.get(camel).or_else(|| value.get(snake)).unwrap_or(&Value::Null)
}

/// A number or a string of digits, as the JSON mapping writes 64-bit numbers.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn request_of(value: &Value) -> Option<RateLimitRequest> {
    let descriptors = match value.get("descriptors") {
        None => Vec::new(),
        Some(list) => list.as_array()?.iter().map(descriptor).collect::<Option<_>>()?,
    };
    let addend = number(member(value, "hitsAddend", "hits_addend")).unwrap_or(0);
    Some(RateLimitRequest {
        domain: value.get("domain").and_then(Value::as_str).unwrap_or_default().to_owned(),
        descriptors,
        hits_addend: u32::try_from(addend).ok()?,
    })
}

fn descriptor(value: &Value) -> Option<RateLimitDescriptor> {
    let entries = value.get("entries").and_then(Value::as_array).into_iter().flatten();
    let text = |value: &Value, name: &str| Some(value.get(name)?.as_str()?.to_owned());
    Some(RateLimitDescriptor {
        entries: entries
            .map(|entry| {
                let value = text(entry, "value").unwrap_or_default();
                Some(rate_limit_descriptor::Entry { key: text(entry, "key")?, value })
            })
            .collect::<Option<_>>()?,
        limit: None,
        hits_addend: number(member(value, "hitsAddend", "hits_addend")),
        is_negative_hits: member(value, "isNegativeHits", "is_negative_hits").as_bool().unwrap_or(false),
    })
}

fn json_of(response: &RateLimitResponse) -> Value {
    let statuses = response.statuses.iter().map(|status| {
        let mut shown = json!({ "code": status.code().as_str_name() });
        if let (Some(limit), Some(members)) = (&status.current_limit, shown.as_object_mut()) {
            members.insert(
                "currentLimit".to_owned(),
                json!({
                    "requestsPerUnit": limit.requests_per_unit,
                    "unit": limit.unit().as_str_name(),
                    "name": limit.name,
                }),
            );
            members.insert("limitRemaining".to_owned(), json!(status.limit_remaining));
        }
        if let (Some(reset), Some(members)) = (&status.duration_until_reset, shown.as_object_mut()) {
            members.insert("durationUntilReset".to_owned(), json!(format!("{}s", reset.seconds)));
        }
        shown
    });
    json!({
        "overallCode": response.overall_code().as_str_name(),
        "statuses": statuses.collect::<Vec<_>>(),
    })
}
