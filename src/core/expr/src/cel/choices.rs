//! The constants that the value of an operation may be: branches of `?:`, and what functions make of them.

use std::sync::LazyLock;

use bumpalo::Bump;

use super::context::EvalContext;
use super::eval::Evaluator;
use super::ops;
use super::plan::{Binary, Op, OpId, Plan, Unary};
use super::value::{Fault, Outcome, Val};
use crate::EvalError;
use crate::failure::{
    DNS_NAME_CURE, EMAIL_CURE, MAX_CHOICES, PatternTrials, TIME_CURE, URI_CURE, address_cure, pattern_cure,
};
use mixer_attribute::{AttributeBag, ValueType, Vocabulary};

/// Most memory that the values of one expression take. Beyond it no more are followed.
const MAX_BYTES: usize = 1 << 20;
/// Constants read no attribute.
pub(super) static NO_ATTRIBUTES: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::builder().build());
/// The cure of other constants.
pub(super) const CURE: &str = "write a constant that has a value";

/// The values that an operation may have.
#[derive(Debug, Clone, Default)]
pub(super) struct Choices<'s> {
    /// The known ones, each with the operation that it is from.
    values: Vec<(Val<'s>, OpId)>,
    /// Whether it may have other values.
    has_others: bool,
}

/// A value with which an operation fails.
#[derive(Debug)]
pub(super) struct FailingChoice<'s> {
    /// Where the value is from.
    pub(super) from: OpId,
    /// What the operation says.
    pub(super) fault: Fault<'s>,
    /// How to fix it.
    pub(super) cure: &'static str,
    /// Whether it fails with all values that it may have.
    pub(super) is_certain: bool,
}

impl<'s> Choices<'s> {
    fn unknown() -> Self {
        Self { values: Vec::new(), has_others: true }
    }

    fn push(&mut self, value: Val<'s>, from: OpId) {
        if self.values.len() < MAX_CHOICES {
            self.values.push((value, from));
        } else {
            self.has_others = true;
        }
    }

    fn join(&mut self, other: Self) {
        self.has_others |= other.has_others;
        other.values.into_iter().for_each(|(value, from)| self.push(value, from));
    }

    /// Those with which `test` fails. `cure`: of a value and its fault.
    fn failing(
        &self,
        test: impl Fn(Val<'s>) -> Result<(), Fault<'s>>,
        cure: impl Fn(Val<'s>, Fault<'s>) -> &'static str,
    ) -> Vec<FailingChoice<'s>> {
        let fails = |(value, from): &(Val<'s>, OpId)| Some((*value, *from, test(*value).err()?));
        let failing: Vec<_> = self.values.iter().filter_map(fails).collect();
        let is_certain = !self.has_others && failing.len() == self.values.len();
        // As one of several, the empty text says that there is none: `ip(pick(request.headers["x-ip"], ""))`.
        let counts = |value: &Val<'s>| is_certain || !matches!(value, Val::String(b""));
        let failing = failing.into_iter().filter(|(value, ..)| counts(value));
        failing
            .map(|(value, from, fault)| FailingChoice { from, cure: cure(value, fault), fault, is_certain })
            .collect()
    }
}

/// The choices of the operations of a plan, in their order.
pub(super) struct AllChoices<'s> {
    plan: &'s Plan,
    /// No attributes; its arena has the values.
    bag: AttributeBag<'s>,
    /// Of the operations so far that have several values.
    known: Vec<Option<Choices<'s>>>,
    /// Patterns that are not compiled.
    pub(super) patterns: PatternTrials,
}

impl<'s> AllChoices<'s> {
    pub(super) fn new(plan: &'s Plan, arena: &'s Bump) -> Self {
        let bag = AttributeBag::empty(&NO_ATTRIBUTES, arena);
        Self { plan, bag, known: Vec::with_capacity(plan.len()), patterns: PatternTrials::default() }
    }

    /// Those of an operation. A constant is evaluated if `is_constant`.
    fn of(&self, id: OpId, is_constant: impl Fn(OpId) -> bool) -> Choices<'s> {
        if let Some(Some(known)) = self.known.get(id.index()) {
            return known.clone();
        }
        if !is_constant(id) || self.is_full() {
            return Choices::unknown();
        }
        // One that fails has no value, which is reported.
        let value = Evaluator::new(self.plan, &self.bag).run(id).ok();
        Choices { values: value.map(|value| (value, id)).into_iter().collect(), has_others: false }
    }

    fn is_full(&self) -> bool {
        self.bag.arena().allocated_bytes() > MAX_BYTES
    }

    fn has_several(&self, id: OpId) -> bool {
        matches!(self.known.get(id.index()), Some(Some(_)))
    }

    /// Records that the next operation has no known values, or one.
    pub(super) fn skip(&mut self) {
        self.known.push(None);
    }

    /// Records the values of the next operation, and returns those of its operands with which it fails.
    pub(super) fn follow(&mut self, op: &Op, is_constant: impl Fn(OpId) -> bool) -> Vec<FailingChoice<'s>> {
        let (choices, failing) = self.results(op, &is_constant);
        self.known.push((!choices.values.is_empty()).then_some(choices));
        failing
    }

    fn results(&self, op: &Op, is_constant: &impl Fn(OpId) -> bool) -> (Choices<'s>, Vec<FailingChoice<'s>>) {
        let of = |id: OpId| self.of(id, is_constant);
        match op {
            Op::Conditional(test, yes, no) => {
                let decided = match of(*test).values.as_slice() {
                    [(Val::Bool(truth), _)] if is_constant(*test) => Some(*truth),
                    _ => None,
                };
                let mut choices = Choices::default();
                for (branch, is_taken) in [(yes, decided != Some(false)), (no, decided != Some(true))] {
                    if is_taken {
                        choices.join(of(*branch));
                    }
                }
                (choices, Vec::new())
            }
            Op::Unary(function, operand) if self.has_several(*operand) => {
                let apply = |value| ops::unary(&mut EvalContext::new(&self.bag), *function, value);
                self.applied(&of(*operand), apply, |text| conversion_cure(*function, text))
            }
            Op::Binary(Binary::Matches, _, pattern) if self.has_several(*pattern) => {
                (Choices::unknown(), self.patterns(&of(*pattern)))
            }
            Op::Binary(function, left, right) if self.has_several(*left) || self.has_several(*right) => {
                let apply =
                    |left, right| ops::binary(&mut EvalContext::new(&self.bag), *function, left, right);
                let cure = |_: Option<&[u8]>| CURE;
                match (&of(*left), &of(*right)) {
                    (left, Choices { values, has_others: false }) if let [(right, _)] = values.as_slice() => {
                        self.applied(left, |left| apply(left, *right), cure)
                    }
                    (Choices { values, has_others: false }, right) if let [(left, _)] = values.as_slice() => {
                        self.applied(right, |right| apply(*left, right), cure)
                    }
                    // Both have several values, or one has any.
                    _ => (Choices::unknown(), Vec::new()),
                }
            }
            Op::Equal(left, right) | Op::NotEqual(left, right) => {
                let several = [left, right].into_iter().filter(|id| self.has_several(**id));
                (Choices::unknown(), several.flat_map(|id| self.names(&of(*id))).collect())
            }
            _ => (Choices::unknown(), Vec::new()),
        }
    }

    /// The results of a function, and the values with which it fails. `cure`: of a constant, which is given if it is a text.
    fn applied(
        &self,
        operand: &Choices<'s>,
        apply: impl Fn(Val<'s>) -> Outcome<'s>,
        cure: impl Fn(Option<&[u8]>) -> &'static str,
    ) -> (Choices<'s>, Vec<FailingChoice<'s>>) {
        if self.is_full() {
            return (Choices::unknown(), Vec::new());
        }
        let failing = operand.failing(
            |value| apply(value).map(|_| ()),
            |value, _| match value {
                Val::String(text) => cure(Some(text)),
                _ => cure(None),
            },
        );
        let mut results = Choices { values: Vec::new(), has_others: operand.has_others };
        for (value, from) in &operand.values {
            if let Ok(result) = apply(*value) {
                results.push(result, *from);
            }
        }
        (results, failing)
    }

    /// The patterns that do not compile.
    fn patterns(&self, patterns: &Choices<'s>) -> Vec<FailingChoice<'s>> {
        let arena = self.bag.arena();
        let test = |value: Val<'s>| match value {
            Val::String(pattern) => match self.patterns.error(pattern) {
                Some(error) => Err(EvalError::Failed(arena.alloc_str(&error)))?,
                None => Ok(()),
            },
            _ => Ok(()),
        };
        patterns.failing(test, |_, fault| pattern_cure(&fault.into_error().to_string()))
    }

    /// The names that convert, and are equal to none.
    fn names(&self, names: &Choices<'s>) -> Vec<FailingChoice<'s>> {
        let test = |name: Val<'s>| match name {
            Val::Opaque(..) => ops::equal(&mut EvalContext::new(&self.bag), name, Ok(name)).map(|_| ()),
            _ => Ok(()),
        };
        names.failing(test, |name, _| match name {
            Val::Opaque(ValueType::DnsName, _) => DNS_NAME_CURE,
            Val::Opaque(ValueType::EmailAddress, _) => EMAIL_CURE,
            Val::Opaque(ValueType::Uri, _) => URI_CURE,
            _ => CURE,
        })
    }
}

/// The cure of a constant that a function does not take.
pub(super) fn conversion_cure(function: Unary, text: Option<&[u8]>) -> &'static str {
    match (function, text) {
        (Unary::Ip, Some(text)) => address_cure(text),
        (Unary::ToTimestamp, _) => TIME_CURE,
        (Unary::Email, _) => EMAIL_CURE,
        (Unary::Uri, _) => URI_CURE,
        (Unary::DnsName, _) => DNS_NAME_CURE,
        (Unary::ToDuration, _) => "write a number and a unit: `duration(\"5m\")`",
        _ => CURE,
    }
}
