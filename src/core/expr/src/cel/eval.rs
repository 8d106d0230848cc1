//! The evaluator: runs a plan over an attribute bag.

use super::context::EvalContext;
use super::ops;
use super::plan::{Binary, Constant, FoldOp, Op, OpId, Plan};
use super::value::{Fault, NO_OVERLOAD, Outcome, Val};
use crate::EvalError;
use crate::functions::{self, Regex};
use mixer_attribute::AttributeBag;

/// One evaluation of a program.
pub(super) struct Evaluator<'e, 'a> {
    plan: &'a Plan,
    context: EvalContext<'e, 'a>,
    /// Variables of macros; a fault in an accumulator is kept until the loop ends.
    locals: Vec<Outcome<'a>>,
}

impl<'e, 'a> Evaluator<'e, 'a> {
    pub(super) fn new(plan: &'a Plan, bag: &'e AttributeBag<'a>) -> Evaluator<'e, 'a> {
        Evaluator { plan, context: EvalContext::new(bag), locals: Vec::new() }
    }

    /// The value of a program. Errors: also if an operator went on after the budget was used up.
    pub(super) fn run(mut self, root: OpId) -> Outcome<'a> {
        let outcome = self.eval(root);
        match self.context.exceeded() {
            Some(bound) => Err(Fault::Other(EvalError::Exhausted(bound))),
            None => outcome,
        }
    }

    /// The value of an operation. Recurses as deep as the tree, but loops over the branches of `?:` and over chains of
    /// binary operators.
    pub(super) fn eval(&mut self, mut id: OpId) -> Outcome<'a> {
        let plan = self.plan;
        loop {
            self.context.charge(1)?;
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
            Op::Attribute(slot, value_type) => self.context.attribute(*slot, *value_type),
            Op::Present(slot) => Ok(Val::Bool(self.context.is_present(*slot))),
            Op::Object(path) => Ok(Val::Object(path)),
            Op::Local(index) => self.locals.get(*index).copied().unwrap_or(Err(Fault::Unknown)),
            Op::Unknown | Op::Conditional(..) => Err(Fault::Unknown),
            Op::Select(operand, field) => self.eval(*operand).and_then(|operand| self.select(operand, field)),
            Op::Has(operand, field) => self.eval(*operand).and_then(|operand| self.has(operand, field)),
            Op::And(left, right) => self.logic(*left, *right, false),
            Op::Or(left, right) => self.logic(*left, *right, true),
            Op::Equal(left, right) => self.equal(*left, *right).map(Val::Bool),
            Op::NotEqual(left, right) => self.not_equal(*left, *right),
            Op::Unary(function, operand) => {
                self.eval(*operand).and_then(|operand| ops::unary(&mut self.context, *function, operand))
            }
            Op::Binary(function, left, right) => match self.plan.op(*left) {
                Op::Binary(..) => self.chain(*function, *left, *right),
                _ => {
                    // Both sides are evaluated, and their references recorded, before a fault of the left one returns.
                    let (left, right) = (self.eval(*left), self.eval(*right));
                    self.binary(*function, left?, right?)
                }
            },
            Op::MatchesConstant(subject, regex) => self.matches(*subject, regex),
            Op::EmptyStringMap => Ok(Val::EMPTY_MAP),
            Op::Unbound(name, args) => self.unbound(name, args),
            Op::List(items) => self.list(items),
            Op::Map(entries) => self.map(entries),
            Op::Fold(fold) => self.fold(fold),
        }
    }

    /// A chain of left-associative operators, `a + b + c`, in a loop.
    fn chain(&mut self, function: Binary, mut left: OpId, right: OpId) -> Outcome<'a> {
        let mut links = vec![(function, right)];
        while let Op::Binary(function, before, right) = self.plan.op(left) {
            links.push((*function, *right));
            left = *before;
        }
        let mut result = self.eval(left);
        while let Some((function, right)) = links.pop() {
            self.context.charge(1)?;
            let right = self.eval(right);
            result = result.and_then(|left| self.binary(function, left, right?));
        }
        result
    }

    /// `&&` (`decisive` false) and `||` (true). Either side may decide; a fault of the other is then ignored.
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
        ops::equal(&mut self.context, left?, right)
    }

    fn not_equal(&mut self, left: OpId, right: OpId) -> Outcome<'a> {
        match self.equal(left, right) {
            Ok(is_equal) => Ok(Val::Bool(!is_equal)),
            Err(fault) if fault.is_unknown() => Err(fault),
            // compat(1.3): `!=` hides the fault of its operands.
            Err(_) => Err(Fault::Static("no such overload: _!=_")),
        }
    }

    /// `operand.field`.
    fn select(&mut self, operand: Val<'a>, field: &'a str) -> Outcome<'a> {
        match operand {
            Val::Object(path) => self.context.member(path, field),
            Val::Map(_) | Val::StringMap(_) | Val::List(_) | Val::Joined(_) => {
                ops::index(&mut self.context, operand, Val::String(field.as_bytes()))
            }
            _ => Err(Fault::Static("invalid type for field selection.")),
        }
    }

    /// `has(operand.field)`.
    fn has(&mut self, operand: Val<'a>, field: &'a str) -> Outcome<'a> {
        match operand {
            Val::Object(path) => self.context.has_member(path, field).map(Val::Bool),
            Val::Map(_) | Val::StringMap(_) | Val::List(_) | Val::Joined(_) => {
                ops::contains(&mut self.context, operand, Val::String(field.as_bytes())).map(Val::Bool)
            }
            _ => Err(Fault::Static("invalid type for field selection.")),
        }
    }

    fn binary(&mut self, function: Binary, left: Val<'a>, right: Val<'a>) -> Outcome<'a> {
        if function == Binary::Matches
            && let (Val::String(subject), Val::String(pattern)) = (left, right)
            && let Some(regex) = self.plan.listed(pattern)
        {
            self.context.charge_bytes(subject.len() + pattern.len())?;
            return self.search(subject, regex);
        }
        ops::binary(&mut self.context, function, left, right)
    }

    fn matches(&mut self, subject: OpId, regex: &'a Result<Regex, String>) -> Outcome<'a> {
        let Val::String(subject) = self.eval(subject)? else { return Err(NO_OVERLOAD) };
        self.search(subject, regex)
    }

    fn search(&mut self, subject: &'a [u8], regex: &'a Result<Regex, String>) -> Outcome<'a> {
        match regex {
            Ok(regex) => {
                self.context.searched(functions::search(regex, subject, self.context.bag())).map(Val::Bool)
            }
            Err(text) => Err(Fault::Other(EvalError::Failed(text))),
        }
    }

    /// A call of a function without an implementation, for example `dyn(x)`.
    fn unbound(&mut self, name: &str, args: &[OpId]) -> Outcome<'a> {
        let mut first = None;
        for arg in args {
            let value = self.eval(*arg)?;
            first.get_or_insert(value);
        }
        match first {
            Some(Val::String(_) | Val::Timestamp(_) | Val::Duration(_)) => Err(NO_OVERLOAD),
            _ => Err(Fault::text(self.context.arena(), format_args!("no such overload: {name}"))),
        }
    }

    fn list(&mut self, items: &'a [OpId]) -> Outcome<'a> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.push(self.eval(*item)?);
        }
        Ok(Val::List(self.context.arena().alloc_slice_copy(&values)))
    }

    fn map(&mut self, entries: &'a [(OpId, OpId)]) -> Outcome<'a> {
        let mut values: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let key = self.eval(*key)?;
            let value = self.eval(*value)?;
            if matches!(key, Val::Bytes(_) | Val::Opaque(..)) {
                let text = format_args!("a value of type {} cannot be the key of a map", key.type_name());
                return Err(Fault::text(self.context.arena(), text));
            }
            self.context.charge(values.len())?;
            match values.iter_mut().find(|(known, _)| ops::is_same_key(known, &key)) {
                Some(entry) => entry.1 = value,
                None => values.push((key, value)),
            }
        }
        Ok(Val::Map(self.context.arena().alloc_slice_copy(&values)))
    }

    fn fold(&mut self, fold: &'a FoldOp) -> Outcome<'a> {
        let range = self.eval(fold.range)?;
        let items: &[Val<'a>] = match range {
            Val::List(items) | Val::Joined(items) => items,
            Val::Map(entries) => {
                let keys: Vec<Val<'a>> = entries.iter().map(|(key, _)| *key).collect();
                self.context.arena().alloc_slice_copy(&keys)
            }
            Val::StringMap(_) => return Err(Fault::Static("a string map cannot be looped over")),
            other => {
                let text = format_args!("got '{}', expected iterable type", other.type_name());
                return Err(Fault::text(self.context.arena(), text));
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
            self.context.charge(1)?;
        }
        let result = self.eval(fold.result);
        self.locals.truncate(fold.base);
        result
    }

    fn set_local(&mut self, index: usize, value: Outcome<'a>) {
        if let Some(local) = self.locals.get_mut(index) {
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
