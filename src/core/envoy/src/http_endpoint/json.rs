//! `POST /json`: rate limits in the JSON mapping of their messages.

use std::fmt;
use std::marker::PhantomData;
use std::pin::pin;

use http::StatusCode;
use prost::Message as _;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};
use serde_json::{Value, json};

use super::plain;
use crate::config::Unit;
use crate::service::EnvoyService;
use mixer_api::grpc::{Code, GrpcError, unframed};
use mixer_api::principal::CallerPrincipal;
use mixer_api::{CallInfo, CallPool};
use mixer_net::http::{HttpResponse, answer};
use mixer_wire::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
use mixer_wire::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse, rate_limit_response};

/// 200 within the limits, 429 over a limit, 400 for an invalid request and for a failure. Also how the call ended.
pub(super) async fn should_rate_limit(
    service: &EnvoyService,
    pool: &CallPool,
    body: &[u8],
) -> (HttpResponse, Result<(), GrpcError>) {
    let request = match read(body) {
        Ok(request) => request,
        Err(text) => {
            let response = plain(StatusCode::BAD_REQUEST, &format!("{text}\n"));
            return (response, Err(GrpcError::invalid(Code::Unknown, text)));
        }
    };
    let caller = CallInfo { principal: CallerPrincipal::Unverified, ..CallInfo::default() };
    let call = pin!(Some(service.should_rate_limit(request.encode_to_vec().into(), caller)));
    let framed = match pool.run(call, None).await {
        Ok(framed) => framed,
        Err(error) => {
            let response = plain(StatusCode::BAD_REQUEST, &format!("{}\n", error.message));
            return (response, Err(error));
        }
    };
    let Ok(response) = RateLimitResponse::decode(unframed(&framed)) else {
        let text = "the response cannot be encoded";
        let response = plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{text}\n"));
        return (response, Err(GrpcError::new(Code::Unknown, text)));
    };
    let mut result = Ok(());
    let status = match response.overall_code() {
        rate_limit_response::Code::Ok => StatusCode::OK,
        rate_limit_response::Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        rate_limit_response::Code::Unknown => {
            result = Err(GrpcError::new(Code::Unknown, "the answer has no code"));
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    (answer(status, "application/json", json_of(&response).to_string()), result)
}

/// Decodes a request. Errors: what is wrong with it. A member that nobody reads is an error: a limit that is misspelt would limit nothing.
fn read(body: &[u8]) -> Result<RateLimitRequest, String> {
    let request: Object<JsonRequest> =
        serde_json::from_slice(body).map_err(|error| match error.is_data() {
            true => format!("not a RateLimitRequest: {error}"),
            false => format!("invalid JSON: {error}"),
        })?;
    let request = request.0;
    Ok(RateLimitRequest {
        domain: request.domain,
        descriptors: request.descriptors.into_iter().map(|Object(one)| one.into()).collect(),
        hits_addend: request.hits_addend.0,
    })
}

/// As in the JSON mapping of messages, a member has two spellings, and one that is absent or null has its default.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRequest {
    #[serde(default, deserialize_with = "or_default")]
    domain: String,
    #[serde(default, deserialize_with = "or_default")]
    descriptors: Vec<Object<JsonDescriptor>>,
    #[serde(default, deserialize_with = "or_default", alias = "hitsAddend")]
    hits_addend: Number<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonDescriptor {
    #[serde(default, deserialize_with = "or_default")]
    entries: Vec<Object<JsonEntry>>,
    #[serde(default)]
    limit: Option<Object<JsonLimit>>,
    #[serde(default, alias = "hitsAddend")]
    hits_addend: Option<Number<u64>>,
    #[serde(default, deserialize_with = "or_default", alias = "isNegativeHits")]
    is_negative_hits: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonEntry {
    #[serde(default, deserialize_with = "or_default")]
    key: String,
    #[serde(default, deserialize_with = "or_default")]
    value: String,
}

/// A limit without a unit would limit nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonLimit {
    #[serde(default, deserialize_with = "or_default", alias = "requestsPerUnit")]
    requests_per_unit: Number<u32>,
    unit: JsonUnit,
}

impl From<JsonDescriptor> for RateLimitDescriptor {
    fn from(descriptor: JsonDescriptor) -> Self {
        let entry = |Object(JsonEntry { key, value })| rate_limit_descriptor::Entry { key, value };
        let limit = |Object(limit): Object<JsonLimit>| rate_limit_descriptor::RateLimitOverride {
            requests_per_unit: limit.requests_per_unit.0,
            unit: limit.unit.0 as i32,
        };
        Self {
            entries: descriptor.entries.into_iter().map(entry).collect(),
            limit: descriptor.limit.map(limit),
            hits_addend: descriptor.hits_addend.map(|number| number.0),
            is_negative_hits: descriptor.is_negative_hits,
        }
    }
}

fn or_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// An object: a list of its values in order is none.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members))
    }
}

/// A number or a string of digits, as the JSON mapping writes 64-bit numbers.
#[derive(Default)]
struct Number<T>(T);

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = from.deserialize_any(NumberVisitor)?;
        let fits = T::try_from(number)
            .map_err(|_| D::Error::invalid_value(Unexpected::Unsigned(number), &NumberVisitor));
        fits.map(Self)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = u64;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number in range")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// The name of a unit, or its number.
struct JsonUnit(Unit);

impl<'de> Deserialize<'de> for JsonUnit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UnitVisitor).map(Self)
    }
}

struct UnitVisitor;

impl Visitor<'_> for UnitVisitor {
    type Value = Unit;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a unit such as `MINUTE`")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Unit, E> {
        Unit::from_number(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Unit, E> {
        Unit::from_name(name).ok_or_else(|| E::invalid_value(Unexpected::Str(name), &self))
    }
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

    #[test]
    fn absent_members_have_their_defaults() {
        let request = read(
            r#"{"domain": "shop", "hitsAddend": "2", "descriptors": [
                {"entries": [{"key": "user", "value": "ann"}, {"key": "any"}], "hits_addend": 3, "isNegativeHits": true},
                {"entries": null, "limit": {"requestsPerUnit": 7, "unit": "MINUTE"}}]}"#
                .as_bytes(),
        )
        .unwrap();
        assert_eq!((request.domain.as_str(), request.hits_addend), ("shop", 2));
        let [first, second] = &request.descriptors[..] else { panic!("{request:?}") };
        let entries: Vec<_> = first.entries.iter().map(|e| (e.key.as_str(), e.value.as_str())).collect();
        assert_eq!(entries, [("user", "ann"), ("any", "")]);
        assert_eq!((first.hits_addend, first.is_negative_hits), (Some(3), true));
        assert_eq!((second.entries.len(), second.hits_addend, first.limit), (0, None, None));
        let limit = rate_limit_descriptor::RateLimitOverride { requests_per_unit: 7, unit: 2 };
        assert_eq!(second.limit, Some(limit));
    }

    #[test]
    fn values_of_other_types_are_refused() {
        for text in [
            r#"[]"#,
            r#"{"descriptors": [[]]}"#,
            r#"{"descriptors": [{"entries": [["user", "ann"]]}]}"#,
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
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.starts_with("not a RateLimitRequest: "), "{text}: {error}");
        }
    }

    #[test]
    fn members_that_limit_nothing_are_refused() {
        for (text, named) in [
            (r#"{"domain": "shop", "limits": []}"#, "unknown field `limits`"),
            (r#"{"descriptors": [{"entrys": []}]}"#, "unknown field `entrys`"),
            (r#"{"descriptors": [{"entries": [{"name": "user"}]}]}"#, "unknown field `name`"),
            (
                r#"{"descriptors": [{"limit": {"unit": "MINUTE", "multiplier": 2}}]}"#,
                "unknown field `multiplier`",
            ),
            (r#"{"descriptors": [{"limit": {"requestsPerUnit": 1}}]}"#, "missing field `unit`"),
            (r#"{"descriptors": [{"limit": {"unit": "MINUET"}}]}"#, "a unit such as `MINUTE`"),
            (r#"{"descriptors": [{"hitsAddend": 1, "hits_addend": 2}]}"#, "duplicate field"),
            (r#"{"descriptors": [], "descriptors": []}"#, "duplicate field"),
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
        assert!(read(b"{").unwrap_err().starts_with("invalid JSON: "));
    }
}
