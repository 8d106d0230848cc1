//! Conversion of instances and results to and from their wire messages.

use std::collections::BTreeMap;

use prost::Message;

use super::{checknothing, metric, model, quota, reportnothing};
use mixer_attribute::text::go_text;
use mixer_attribute::{SignedDuration, Value};
use mixer_engine::adapter::{
    BoundInstance, CheckResult, HandlerError, Instance, QuotaResult, Status, StatusDetail,
};
use mixer_wire::istio::policy::v1beta1 as policy;

/// Encodes a value. Errors: absent values and maps have no wire form.
pub(super) fn value(value: Option<Value<'_>>) -> Result<policy::Value, HandlerError> {
    use policy::value::Value as Wire;
    let wire = match value {
        Some(Value::String(bytes)) => Wire::StringValue(String::from_utf8_lossy(bytes).into_owned()),
        Some(Value::Int64(value)) => Wire::Int64Value(value),
        Some(Value::Double(value)) => Wire::DoubleValue(value),
        Some(Value::Bool(value)) => Wire::BoolValue(value),
        Some(Value::Bytes(bytes)) => {
            Wire::IpAddressValue(policy::IpAddress { value: bytes::Bytes::copy_from_slice(bytes) })
        }
        Some(Value::Timestamp(time)) => {
            let nanos = i32::try_from(time.nanos).unwrap_or_default();
            let value = prost_types::Timestamp { seconds: time.seconds, nanos };
            Wire::TimestampValue(policy::TimeStamp { value: Some(value) })
        }
        Some(Value::Duration(duration)) => {
            Wire::DurationValue(policy::Duration { value: Some(wire_duration(duration)) })
        }
        None => return Err(HandlerError::new("unrecognized type for bypass conversion: <nil>")),
        Some(map @ Value::StringMap(_)) => {
            let text = format!("unrecognized type for bypass conversion: {}", go_text(map));
            return Err(HandlerError::new(text));
        }
    };
    Ok(policy::Value { value: Some(wire) })
}

/// The entries of a map field, in wire form.
pub(super) fn gather(
    bound: &BoundInstance,
    instance: &Instance<'_>,
    field: &'static str,
) -> Result<BTreeMap<String, policy::Value>, HandlerError> {
    bound.entries(field).map(|(key, at)| Ok((key.to_owned(), value(instance.value(at))?))).collect()
}

pub(super) fn not_bound(instance: &Instance<'_>) -> HandlerError {
    HandlerError::new(format!("instance `{}` is not bound to this handler", instance.name))
}

/// The types of all instances by name, for fields with expressions only: the backend knows the types of the others.
pub(super) fn inferred_types(instances: &[BoundInstance]) -> BTreeMap<String, prost_types::Any> {
    instances.iter().map(|i| (i.name.to_string(), inferred_type(i))).collect()
}

fn inferred_type(instance: &BoundInstance) -> prost_types::Any {
    let types = |field: &'static str| -> BTreeMap<String, i32> {
        let number = |at: usize| instance.leaves.get(at).map_or(0, |leaf| leaf.value_type as i32);
        instance.entries(field).map(|(key, at)| (key.to_owned(), number(at))).collect()
    };
    let value = match &*instance.template.name {
        "checknothing" => checknothing::Type {}.encode_to_vec(),
        "reportnothing" => reportnothing::Type {}.encode_to_vec(),
        "quota" => quota::Type { dimensions: types("dimensions") }.encode_to_vec(),
        _ => {
            let leaf = instance.position("value").and_then(|at| instance.leaves.get(at));
            let value = leaf.map_or(0, |leaf| leaf.value_type as i32);
            let monitored_resource_dimensions = types("monitored_resource_dimensions");
            metric::Type { value, dimensions: types("dimensions"), monitored_resource_dimensions }
                .encode_to_vec()
        }
    };
    // compat(1.3): a bare message name, without the usual prefix; pinned by bypass/check-session-based.
    prost_types::Any { type_url: format!("{}.Type", instance.template.package), value }
}

pub(crate) fn check_result(answer: model::CheckResult) -> CheckResult {
    let status = answer.status.unwrap_or_default();
    let detail = |any: prost_types::Any| StatusDetail { type_url: any.type_url, value: any.value };
    CheckResult {
        status: Status {
            code: status.code,
            message: status.message,
            details: status.details.into_iter().map(detail).collect(),
        },
        valid_duration: duration(answer.valid_duration),
        valid_use_count: answer.valid_use_count,
        output: Vec::new(),
    }
}

/// The entry of `name`, whatever its status; without one, nothing is granted.
pub(super) fn quota_result(mut answer: model::QuotaResult, name: &str) -> QuotaResult {
    let entry = answer.quotas.remove(name).unwrap_or_default();
    QuotaResult { granted: entry.granted_amount, valid_duration: duration(entry.valid_duration) }
}

fn wire_duration(duration: SignedDuration) -> prost_types::Duration {
    let nanos = i32::try_from(duration.nanos % 1_000_000_000).unwrap_or_default();
    prost_types::Duration { seconds: duration.nanos / 1_000_000_000, nanos }
}

/// A duration of the wire; one that is too long is cut.
pub(crate) fn duration(wire: Option<prost_types::Duration>) -> SignedDuration {
    let wire = wire.unwrap_or_default();
    SignedDuration::from_nanos(
        wire.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(wire.nanos)),
    )
}

pub(super) use mixer_remote::grpc_error_text as error_text;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bound;
    use mixer_attribute::{StringMap, ValueType};

    #[test]
    fn maps_and_absent_values_cannot_be_sent() {
        let map = StringMap { entries: &[(b"a", b"1")], source: None };
        let error = value(Some(Value::StringMap(&map))).unwrap_err();
        assert_eq!(error.message, "unrecognized type for bypass conversion: stringmap[a:1]");
        assert_eq!(value(None).unwrap_err().message, "unrecognized type for bypass conversion: <nil>");
    }

    #[test]
    fn types_have_bare_names() {
        let instance = bound("q.instance.ns", "quota", "dimensions", &[("a", ValueType::Int64)]);
        let types = inferred_types(&[instance]);
        let any = &types["q.instance.ns"];
        assert_eq!(any.type_url, "quota.Type");
        assert_eq!(any.value, b"\x0a\x05\x0a\x01a\x10\x02");
    }

    #[test]
    fn extreme_durations_saturate() {
        let wire = prost_types::Duration { seconds: i64::MAX, nanos: 1 };
        assert_eq!(duration(Some(wire)).nanos, i64::MAX);
        assert_eq!(wire_duration(SignedDuration::from_nanos(-1_500_000_000)).nanos, -500_000_000);
    }
}
