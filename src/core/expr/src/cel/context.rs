//! What operators and conversions need from an evaluation: the attributes, the arena and the step budget.

use bumpalo::Bump;

use super::value::{Fault, Outcome, Val};
use crate::error::MAX_STEPS;
use crate::{Bound, EvalError};
use mixer_attribute::text::go_text;
use mixer_attribute::{AttributeBag, SignedDuration, SlotId, StringMap, Timestamp, Value, ValueType};
use mixer_base::quote::quoted;

/// Bytes of text whose copying costs one step.
const BYTES_PER_STEP: usize = 64;

/// The inputs and the step budget of one evaluation.
pub(super) struct EvalContext<'e, 'a> {
    bag: &'e AttributeBag<'a>,
    steps_left: u32,
    /// The bound that was exceeded: whatever the operators made of that fault, the evaluation has no value.
    exceeded: Option<Bound>,
}

impl<'e, 'a> EvalContext<'e, 'a> {
    pub(super) fn new(bag: &'e AttributeBag<'a>) -> EvalContext<'e, 'a> {
        EvalContext { bag, steps_left: MAX_STEPS, exceeded: None }
    }

    pub(super) fn arena(&self) -> &'a Bump {
        self.bag.arena()
    }

    /// Takes `steps` from the budget. Errors: the budget is used up.
    pub(super) fn charge(&mut self, steps: usize) -> Result<(), Fault<'a>> {
        let left = u32::try_from(steps).ok().and_then(|steps| self.steps_left.checked_sub(steps));
        match (left, self.exceeded) {
            (Some(left), None) => {
                self.steps_left = left;
                Ok(())
            }
            (_, exceeded) => Err(self.exceed(exceeded.unwrap_or(Bound::Steps))),
        }
    }

    /// What a pattern found. Errors: the patterns of the request search too much; the pattern is invalid.
    pub(super) fn searched(&mut self, found: Result<bool, EvalError<'a>>) -> Result<bool, Fault<'a>> {
        match found {
            Err(EvalError::Exhausted(bound)) => Err(self.exceed(bound)),
            found => Ok(found?),
        }
    }

    pub(super) fn bag(&self) -> &'e AttributeBag<'a> {
        self.bag
    }

    /// Counts what is about to be made, in bytes. Errors: the expressions of the request make too much.
    pub(super) fn count_made(&mut self, bytes: usize) -> Result<(), Fault<'a>> {
        if self.bag.count_made(bytes) {
            return Ok(());
        }
        Err(self.exceed(Bound::MadeText(self.bag.search_limit())))
    }

    fn exceed(&mut self, bound: Bound) -> Fault<'a> {
        self.exceeded = Some(bound);
        Fault::Other(EvalError::Exhausted(bound))
    }

    /// The bound that was exceeded.
    pub(super) fn exceeded(&self) -> Option<Bound> {
        self.exceeded
    }

    /// Takes the cost of copying text from the budget.
    pub(super) fn charge_bytes(&mut self, bytes: usize) -> Result<(), Fault<'a>> {
        self.charge(bytes / BYTES_PER_STEP)
    }

    /// The value of a key of a string map, recorded as referenced.
    pub(super) fn lookup(&self, map: &StringMap<'a>, key: &'a [u8]) -> Option<&'a [u8]> {
        self.bag.lookup(map, key)
    }

    pub(super) fn is_present(&self, slot: SlotId) -> bool {
        self.bag.get(slot).is_some()
    }

    /// The value of an attribute; absent ones have the default of their type.
    pub(super) fn attribute(&self, slot: SlotId, value_type: ValueType) -> Outcome<'a> {
        let Some(value) = self.bag.get(slot) else { return default_of(value_type) };
        Ok(match (value_type, value) {
            (ValueType::String, Value::String(text)) => Val::String(text),
            (ValueType::Int64, Value::Int64(value)) => Val::Int(value),
            (ValueType::Int64, Value::Duration(span)) => Val::Int(span.nanos),
            (ValueType::Double, Value::Double(value)) => Val::Double(value),
            (ValueType::Bool, Value::Bool(value)) => Val::Bool(value),
            (ValueType::Timestamp, Value::Timestamp(at)) => Val::Timestamp(at),
            (ValueType::Duration, Value::Duration(span)) => Val::Duration(span),
            (ValueType::Duration, Value::Int64(nanos)) => Val::Duration(SignedDuration::from_nanos(nanos)),
            (ValueType::StringMap, Value::StringMap(map)) => Val::StringMap(map),
            (ValueType::IpAddress, Value::Bytes(bytes)) => Val::Opaque(value_type, bytes),
            (ValueType::EmailAddress | ValueType::Uri | ValueType::DnsName, Value::String(text)) => {
                Val::Opaque(value_type, text)
            }
            (ValueType::Unspecified, _) => {
                return Err(Fault::Static("cannot convert value of type \"VALUE_TYPE_UNSPECIFIED\""));
            }
            (_, value) => {
                let expected = match value_type {
                    ValueType::Int64 | ValueType::Duration => "integer or duration",
                    ValueType::Double => "double",
                    ValueType::Bool => "bool",
                    ValueType::Timestamp => "timestamp",
                    ValueType::IpAddress => "IP address",
                    ValueType::StringMap => "string map",
                    _ => "string",
                };
                let text = format_args!("error converting value to {expected}: '{}'", go_text(value));
                return Err(Fault::text(self.arena(), text));
            }
        })
    }

    /// The attribute or the inner node `path.field`.
    pub(super) fn member(&self, path: &str, field: &str) -> Outcome<'a> {
        let vocabulary = self.bag.vocabulary();
        let child = self.arena().alloc_str(&format!("{path}.{field}"));
        match vocabulary.slot(child.as_bytes()).and_then(|slot| Some((slot, vocabulary.value_type(slot)?))) {
            Some((slot, value_type)) => self.attribute(slot, value_type),
            None if self.is_object(child) => Ok(Val::Object(child)),
            None => Err(self.no_member(path, field)),
        }
    }

    /// Whether the attribute `path.field` is present; inner nodes always are.
    pub(super) fn has_member(&self, path: &str, field: &str) -> Result<bool, Fault<'a>> {
        let child = format!("{path}.{field}");
        match self.bag.vocabulary().slot(child.as_bytes()) {
            Some(slot) => Ok(self.is_present(slot)),
            None if self.is_object(&child) => Ok(true),
            None => Err(self.no_member(path, field)),
        }
    }

    fn is_object(&self, path: &str) -> bool {
        self.bag.vocabulary().has_below(path)
    }

    fn no_member(&self, path: &str, field: &str) -> Fault<'a> {
        Fault::text(self.arena(), format_args!("cannot evaluate select of {} from .{path}", quoted(field)))
    }
}

fn default_of<'a>(value_type: ValueType) -> Outcome<'a> {
    Ok(match value_type {
        ValueType::Unspecified => {
            return Err(Fault::Static("cannot provide defaults for \"VALUE_TYPE_UNSPECIFIED\""));
        }
        ValueType::String => Val::String(b""),
        ValueType::Int64 => Val::Int(0),
        ValueType::Double => Val::Double(0.0),
        ValueType::Bool => Val::Bool(false),
        ValueType::Timestamp => Val::Timestamp(Timestamp { seconds: 0, nanos: 0 }),
        ValueType::Duration => Val::Duration(SignedDuration::ZERO),
        ValueType::StringMap => Val::EMPTY_MAP,
        opaque => Val::Opaque(opaque, b""),
    })
}
