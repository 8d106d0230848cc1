//! `istio.mixer.v1.Attributes`: attributes by name, as the Mixer client of a proxy forwards them.

use bumpalo::collections::Vec as ArenaVec;

use super::attributes::Attributes;
use super::wire::{FieldBudget, FieldValue, each_field, instant};
use mixer_attribute::wire::duration;
use mixer_attribute::{StringMap, Value, ValueType, last_by_key};

/// Sets the attributes of a message. Returns the number of unconvertible ones.
pub(super) fn set_attributes<'a>(body: &'a [u8], out: &mut Attributes<'a>) -> u32 {
    let (mut failures, budget) = (0, FieldBudget::default());
    let read = budget.each_bytes(body, |number, entry| {
        if number != 1 {
            return Ok(());
        }
        let entry = budget.map_entry(entry).ok();
        let value = entry.and_then(|(name, value)| Some((name, value_of(value, &budget, out)?)));
        match value {
            Some((name, value)) if fits(name, &value, out) => out.set_named(name, value),
            _ => failures += 1,
        }
        Ok(())
    });
    failures + u32::from(read.is_err())
}

/// Whether a value has the declared type of the attribute.
fn fits(name: &[u8], value: &Value<'_>, out: &Attributes<'_>) -> bool {
    let vocabulary = out.vocabulary();
    let Some(declared) = vocabulary.slot(name).and_then(|slot| vocabulary.value_type(slot)) else {
        return true;
    };
    match value {
        Value::String(_) => matches!(
            declared,
            ValueType::String | ValueType::Uri | ValueType::DnsName | ValueType::EmailAddress
        ),
        Value::Int64(_) => declared == ValueType::Int64,
        Value::Double(_) => declared == ValueType::Double,
        Value::Bool(_) => declared == ValueType::Bool,
        Value::Timestamp(_) => declared == ValueType::Timestamp,
        Value::Duration(_) => declared == ValueType::Duration,
        Value::Bytes(_) => declared == ValueType::IpAddress,
        Value::StringMap(_) => declared == ValueType::StringMap,
    }
}

/// An `AttributeValue`.
fn value_of<'a>(body: &'a [u8], budget: &FieldBudget, out: &Attributes<'a>) -> Option<Value<'a>> {
    let mut found = None;
    each_field(body, |number, value| match (number, value) {
        (2, FieldValue::Bytes(text)) => found = Some(Value::String(text)),
        (3, FieldValue::Varint(number)) => found = Some(Value::Int64(number.cast_signed())),
        (4, FieldValue::Fixed64(bits)) => found = Some(Value::Double(f64::from_bits(bits))),
        (5, FieldValue::Varint(flag)) => found = Some(Value::Bool(flag != 0)),
        (6, FieldValue::Bytes(bytes)) => found = Some(Value::Bytes(bytes)),
        (7, FieldValue::Bytes(bytes)) => found = instant(bytes).map(Value::Timestamp),
        (8, FieldValue::Bytes(bytes)) => found = duration(bytes).ok().map(Value::Duration),
        (9, FieldValue::Bytes(bytes)) => {
            let mut entries = ArenaVec::new_in(out.arena());
            let read = budget.each_bytes(bytes, |number, entry| {
                if let (1, Ok(entry)) = (number, budget.map_entry(entry)) {
                    entries.push(entry);
                }
                Ok(())
            });
            let entries = last_by_key(entries).into_bump_slice();
            let map = out.arena().alloc(StringMap { entries, source: None });
            found = read.is_ok().then_some(Value::StringMap(map));
        }
        _ => {}
    })
    .ok()?;
    found
}
