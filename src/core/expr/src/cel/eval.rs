//! The evaluator.

use bumpalo::Bump;

use super::ops;
use super::plan::{Binary, Constant, FoldOp, Op, OpId, Plan};
use super::value::{Fault, NO_OVERLOAD, Outcome, Val};
use crate::EvalError;
use crate::functions::Regex;
use mixer_attribute::text::go_text;
use mixer_attribute::{AttributeBag, SignedDuration, SlotId, StringMap, Timestamp, Value, ValueType};

/// Steps that one evaluation may take; an element looped over, copied or compared counts as one.
const MAX_STEPS: u32 = 200_000;

/// Bytes of text that count as one step when they are copied.
const BYTES_PER_STEP: usize = 64;

/// One evaluation of a program.
pub(super) struct Evaluator<'e, 'a> {
    plan: &'a Plan,
    bag: &'e AttributeBag<'a>,
    /// Variables of macros; a fault in an accumulator is kept until the loop is over.
    locals: Vec<Outcome<'a>>,
    steps_left: u32,
}

impl<'e, 'a> Evaluator<'e, 'a> {
    pub(super) fn new(plan: &'a Plan, bag: &'e AttributeBag<'a>) -> Evaluator<'e, 'a> {
        Evaluator { plan, bag, locals: Vec::new(), steps_left: MAX_STEPS }
    }

    pub(super) fn bag(&self) -> &'e AttributeBag<'a> {
        self.bag
    }

    pub(super) fn arena(&self) -> &'a Bump {
        self.bag.arena()
    }

    /// Accounts for work. Errors: the evaluation has taken too many steps.
    pub(super) fn charge(&mut self, steps: usize) -> Result<(), Fault<'a>> {
        match u32::try_from(steps).ok().and_then(|steps| self.steps_left.checked_sub(steps)) {
            Some(left) => {
                self.steps_left = left;
                Ok(())
            }
            None => {
                self.steps_left = 0;
                Err(Fault::Static("expression takes more than 200000 steps"))
            }
        }
    }

    /// Accounts for copying text.
    pub(super) fn charge_bytes(&mut self, bytes: usize) -> Result<(), Fault<'a>> {
        self.charge(bytes / BYTES_PER_STEP)
    }

    /// The value of an operation. Recurses as deep as the tree is; the last branches of `?:` and chains of operators are
    /// followed in a loop.
    pub(super) fn eval(&mut self, mut id: OpId) -> Outcome<'a> {
        let plan = self.plan;
        loop {
            self.charge(1)?;
            let Op::Conditional(condition, yes, no) = plan.op(id) else { return self.value(plan.op(id)) };
            id = match self.eval(*condition)? {
                Val::Bool(true) => *yes,
                Val::Bool(false) => *no,
                _ => return Err(NO_OVERLOAD),
            };
        }
    }

    fn value(&mut self, op: &'a Op) -> Outcome<'a> {
        match op {
            Op::Constant(constant) => Ok(value_of(constant)),
            Op::Attribute(slot, value_type) => self.attribute(*slot, *value_type),
            Op::Present(slot) => Ok(Val::Bool(self.bag.get(*slot).is_some())),
            Op::Object(path) => Ok(Val::Object(path)),
            Op::Local(place) => self.locals.get(*place).copied().unwrap_or(Err(Fault::Unknown)),
            Op::Unknown | Op::Conditional(..) => Err(Fault::Unknown),
            Op::Select(operand, field) => self.eval(*operand).and_then(|operand| self.select(operand, field)),
            Op::Has(operand, field) => self.eval(*operand).and_then(|operand| self.has(operand, field)),
            Op::And(left, right) => self.logic(*left, *right, false),
            Op::Or(left, right) => self.logic(*left, *right, true),
            Op::Equal(left, right) => self.equal(*left, *right).map(Val::Bool),
            Op::NotEqual(left, right) => self.not_equal(*left, *right),
            Op::Unary(function, operand) => {
                self.eval(*operand).and_then(|operand| ops::unary(self, *function, operand))
            }
            Op::Binary(function, left, right) => match self.plan.op(*left) {
                Op::Binary(..) => self.chain(*function, *left, *right),
                _ => {
                    // Both sides are evaluated, and so recorded, before a fault of the left one counts.
                    let (left, right) = (self.eval(*left), self.eval(*right));
                    ops::binary(self, *function, left?, right?)
                }
            },
            Op::MatchesConstant(subject, regex) => self.matches(*subject, regex),
            Op::EmptyStringMap => Ok(self.empty_map()),
            Op::Unbound(name, args) => self.unbound(name, args),
            Op::List(items) => self.list(items),
            Op::Map(entries) => self.map(entries),
            Op::Fold(fold) => self.fold(fold),
        }
    }

    /// Operators that are joined on their left sides.
    fn chain(&mut self, function: Binary, mut left: OpId, right: OpId) -> Outcome<'a> {
        let mut links = vec![(function, right)];
        while let Op::Binary(function, before, right) = self.plan.op(left) {
            links.push((*function, *right));
            left = *before;
        }
        let mut result = self.eval(left);
        while let Some((function, right)) = links.pop() {
            self.charge(1)?;
            let right = self.eval(right);
            result = result.and_then(|left| ops::binary(self, function, left, right?));
        }
        result
    }

    /// Reads an attribute. Absent ones have the default of their type.
    pub(super) fn attribute(&mut self, slot: SlotId, value_type: ValueType) -> Outcome<'a> {
        let Some(value) = self.bag.get(slot) else { return self.default_of(value_type) };
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
                let wanted = match value_type {
                    ValueType::Int64 | ValueType::Duration => "integer or duration",
                    ValueType::Double => "double",
                    ValueType::Bool => "bool",
                    ValueType::Timestamp => "timestamp",
                    ValueType::IpAddress => "IP address",
                    ValueType::StringMap => "string map",
                    _ => "string",
                };
                let text = format_args!("error converting value to {wanted}: '{}'", go_text(value));
                return Err(Fault::text(self.arena(), text));
            }
        })
    }

    fn default_of(&self, value_type: ValueType) -> Outcome<'a> {
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
            ValueType::StringMap => self.empty_map(),
            opaque => Val::Opaque(opaque, b""),
        })
    }

    fn empty_map(&self) -> Val<'a> {
        const EMPTY: &StringMap<'static> = &StringMap { entries: &[], source: None };
        Val::StringMap(EMPTY)
    }

    /// `&&` (`decisive` false) and `||` (true): either side may decide, and then a fault of the other does not count.
    fn logic(&mut self, left: OpId, right: OpId, decisive: bool) -> Outcome<'a> {
        let left = self.eval(left);
        if let Ok(Val::Bool(value)) = left
            && value == decisive
        {
            return Ok(Val::Bool(decisive));
        }
        let right = self.eval(right);
        match (left, right) {
            (_, Ok(Val::Bool(value))) if value == decisive => Ok(Val::Bool(decisive)),
            (Ok(Val::Bool(_)), Ok(Val::Bool(_))) => Ok(Val::Bool(!decisive)),
            (Err(fault), _) if fault.is_unknown() => Err(fault),
            (_, Err(fault)) if fault.is_unknown() => Err(fault),
            (Err(fault), _) => Err(fault),
            _ => Err(NO_OVERLOAD),
        }
    }

    fn equal(&mut self, left: OpId, right: OpId) -> Result<bool, Fault<'a>> {
        let (left, right) = (self.eval(left), self.eval(right));
        ops::equal(self, left?, right)
    }

    fn not_equal(&mut self, left: OpId, right: OpId) -> Outcome<'a> {
        match self.equal(left, right) {
            Ok(is_equal) => Ok(Val::Bool(!is_equal)),
            Err(fault) if fault.is_unknown() => Err(fault),
            // compat(1.3): what went wrong is not told for `!=`.
            Err(_) => Err(Fault::Static("no such overload: _!=_")),
        }
    }

    /// `operand.field`.
    pub(super) fn select(&mut self, operand: Val<'a>, field: &'a str) -> Outcome<'a> {
        match operand {
            Val::Object(path) => {
                let vocabulary = self.bag.vocabulary();
                let child = self.arena().alloc_str(&format!("{path}.{field}"));
                match vocabulary.slot(child.as_bytes()).and_then(|s| Some((s, vocabulary.value_type(s)?))) {
                    Some((slot, value_type)) => self.attribute(slot, value_type),
                    None if self.is_object(child) => Ok(Val::Object(child)),
                    None => {
                        let text = format_args!("cannot evaluate select of {field:?} from .{path}");
                        Err(Fault::text(self.arena(), text))
                    }
                }
            }
            Val::Map(_) | Val::StringMap(_) | Val::List(_) | Val::Joined(_) => {
                ops::index(self, operand, Val::String(field.as_bytes()))
            }
            _ => Err(Fault::Static("invalid type for field selection.")),
        }
    }

    fn is_object(&self, path: &str) -> bool {
        self.bag
            .vocabulary()
            .declared()
            .any(|(name, _)| name.strip_prefix(path).is_some_and(|r| r.starts_with('.')))
    }

    fn has(&mut self, operand: Val<'a>, field: &'a str) -> Outcome<'a> {
        match operand {
            Val::Object(path) => {
                let child = format!("{path}.{field}");
                match self.bag.vocabulary().slot(child.as_bytes()) {
                    Some(slot) => Ok(Val::Bool(self.bag.get(slot).is_some())),
                    None if self.is_object(&child) => Ok(Val::Bool(true)),
                    None => {
                        let text = format_args!("cannot evaluate select of {field:?} from .{path}");
                        Err(Fault::text(self.arena(), text))
                    }
                }
            }
            Val::Map(_) | Val::StringMap(_) | Val::List(_) | Val::Joined(_) => {
                ops::contains(self, operand, Val::String(field.as_bytes())).map(Val::Bool)
            }
            _ => Err(Fault::Static("invalid type for field selection.")),
        }
    }

    fn matches(&mut self, subject: OpId, regex: &'a Result<Regex, String>) -> Outcome<'a> {
        let Val::String(subject) = self.eval(subject)? else { return Err(NO_OVERLOAD) };
        match regex {
            Ok(regex) => Ok(Val::Bool(regex.is_match(subject))),
            Err(text) => Err(Fault::Other(EvalError::Failed(text))),
        }
    }

    /// A call of something without an implementation, for example `dyn(x)`.
    fn unbound(&mut self, name: &str, args: &[OpId]) -> Outcome<'a> {
        let mut first = None;
        for arg in args {
            let value = self.eval(*arg)?;
            first.get_or_insert(value);
        }
        match first {
            Some(Val::String(_) | Val::Timestamp(_) | Val::Duration(_)) => Err(NO_OVERLOAD),
            _ => Err(Fault::text(self.arena(), format_args!("no such overload: {name}"))),
        }
    }

    fn list(&mut self, items: &'a [OpId]) -> Outcome<'a> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.push(self.eval(*item)?);
        }
        Ok(Val::List(self.arena().alloc_slice_copy(&values)))
    }

    fn map(&mut self, entries: &'a [(OpId, OpId)]) -> Outcome<'a> {
        let mut values: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let key = self.eval(*key)?;
            let value = self.eval(*value)?;
            if matches!(key, Val::Bytes(_) | Val::Opaque(..)) {
                let text = format_args!("a value of type {} cannot be the key of a map", key.type_name());
                return Err(Fault::text(self.arena(), text));
            }
            self.charge(values.len())?;
            match values.iter_mut().find(|(known, _)| ops::is_same_key(known, &key)) {
                Some(entry) => entry.1 = value,
                None => values.push((key, value)),
            }
        }
        Ok(Val::Map(self.arena().alloc_slice_copy(&values)))
    }

    fn fold(&mut self, fold: &'a FoldOp) -> Outcome<'a> {
        let range = self.eval(fold.range)?;
        let items: &[Val<'a>] = match range {
            Val::List(items) | Val::Joined(items) => items,
            Val::Map(entries) => {
                let keys: Vec<Val<'a>> = entries.iter().map(|(key, _)| *key).collect();
                self.arena().alloc_slice_copy(&keys)
            }
            Val::StringMap(_) => return Err(Fault::Static("a string map cannot be looped over")),
            other => {
                let text = format_args!("got '{}', expected iterable type", other.type_name());
                return Err(Fault::text(self.arena(), text));
            }
        };
        let init = self.eval(fold.init);
        self.locals.truncate(fold.base);
        self.locals.push(init);
        self.locals.push(Ok(Val::Null));
        for item in items {
            self.set_local(fold.base + 1, Ok(*item));
            if let Ok(Val::Bool(false)) = self.eval(fold.condition) {
                break;
            }
            let step = self.eval(fold.step);
            self.locals.truncate(fold.base + 2);
            self.set_local(fold.base, step);
            self.charge(1)?;
        }
        let result = self.eval(fold.result);
        self.locals.truncate(fold.base);
        result
    }

    fn set_local(&mut self, place: usize, value: Outcome<'a>) {
        if let Some(local) = self.locals.get_mut(place) {
            *local = value;
        }
    }
}

fn value_of<'a>(constant: &'a Constant) -> Val<'a> {
    match constant {
        Constant::Plain(value) => *value,
        Constant::String(text) => Val::String(text),
        Constant::Bytes(bytes) => Val::Bytes(bytes),
    }
}
