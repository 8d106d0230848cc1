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

/// Reads members of a JSON object; `None` for a value of another type than that of the member. As in the JSON mapping of messages, a
/// member that is absent or null has its default.
struct Members<'v>(&'v serde_json::Map<String, Value>);

impl<'v> Members<'v> {
    fn of(value: &'v Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    /// A member in either of its two spellings.
    fn get(&self, camel: &str, snake: &str) -> Option<&'v Value> {
        self.0.get(camel).or_else(|| self.0.get(snake)).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name, name).map_or(Some(String::new()), |value| value.as_str().map(str::to_owned))
    }

    /// A number or a string of digits, as the JSON mapping writes 64-bit numbers.
    fn number(&self, camel: &str, snake: &str) -> Option<Option<u64>> {
        let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        self.get(camel, snake).map_or(Some(None), |value| number(value).map(Some))
    }

    fn flag(&self, camel: &str, snake: &str) -> Option<bool> {
        self.get(camel, snake).map_or(Some(false), Value::as_bool)
    }

    fn list<T>(&self, name: &str, item: impl Fn(&'v Value) -> Option<T>) -> Option<Vec<T>> {
        self.get(name, name).map_or(Some(Vec::new()), |value| value.as_array()?.iter().map(item).collect())
    }
}

fn request_of(value: &Value) -> Option<RateLimitRequest> {
    let members = Members::of(value)?;
    Some(RateLimitRequest {
        domain: members.text("domain")?,
        descriptors: members.list("descriptors", descriptor)?,
        hits_addend: u32::try_from(members.number("hitsAddend", "hits_addend")?.unwrap_or(0)).ok()?,
    })
}

fn descriptor(value: &Value) -> Option<RateLimitDescriptor> {
    let members = Members::of(value)?;
    Some(RateLimitDescriptor {
        entries: members.list("entries", entry)?,
        limit: None,
        hits_addend: members.number("hitsAddend", "hits_addend")?,
        is_negative_hits: members.flag("isNegativeHits", "is_negative_hits")?,
    })
}

fn entry(value: &Value) -> Option<rate_limit_descriptor::Entry> {
    let members = Members::of(value)?;
    Some(rate_limit_descriptor::Entry { key: members.text("key")?, value: members.text("value")? })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<RateLimitRequest> {
        request_of(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn absent_members_have_their_defaults() {
        let request = read(
            r#"{"domain": "shop", "hitsAddend": "2", "descriptors": [
                {"entries": [{"key": "user", "value": "ann"}, {"key": "any"}], "hits_addend": 3, "isNegativeHits": true},
                {"entries": null}]}"#,
        )
        .unwrap();
        assert_eq!((request.domain.as_str(), request.hits_addend), ("shop", 2));
        let [first, second] = &request.descriptors[..] else { panic!("{request:?}") };
        let entries: Vec<_> = first.entries.iter().map(|e| (e.key.as_str(), e.value.as_str())).collect();
        assert_eq!(entries, [("user", "ann"), ("any", "")]);
        assert_eq!((first.hits_addend, first.is_negative_hits), (Some(3), true));
        assert_eq!((second.entries.len(), second.hits_addend), (0, None));
    }

    #[test]
    fn values_of_other_types_are_refused() {
        for text in [
            r#"[]"#,
            r#"{"domain": 1}"#,
            r#"{"descriptors": {}}"#,
            r#"{"descriptors": ["user"]}"#,
            r#"{"hitsAddend": "abc"}"#,
            r#"{"hitsAddend": -1}"#,
            r#"{"hitsAddend": 4294967296}"#,
            r#"{"descriptors": [{"entries": "user"}]}"#,
            r#"{"descriptors": [{"entries": [{"key": "user", "value": 1}]}]}"#,
            r#"{"descriptors": [{"entries": [{"key": 1}]}]}"#,
            r#"{"descriptors": [{"hitsAddend": 1.5}]}"#,
            r#"{"descriptors": [{"isNegativeHits": "yes"}]}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
