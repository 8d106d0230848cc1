//! Operations that fail for every request: constants that cannot be evaluated, and what string maps do not support. And those that fail
//! with one of the constants that their operand may be.

use bumpalo::Bump;

use super::choices::{AllChoices, CURE, FailingChoice, NO_ATTRIBUTES, conversion_cure};
use super::context::EvalContext;
use super::eval::Evaluator;
use super::ops;
use super::plan::{Binary, Constant, Op, OpId, Plan, Unary};
use super::source::Source;
use super::value::Val;
use crate::EvalError;
use crate::failure::{Failures, pattern_cure};
use mixer_attribute::{AttributeBag, Timestamp, ValueType};

/// Deepest operand to which a constant that fails is traced.
const MAX_DESCENT: u32 = 16;

/// The cure of a time zone. Go, and so Istio Mixer, knows zones by name only.
const ZONE_CURE: &str = "write a name of the IANA database, `\"Europe/Berlin\"`; for an offset that is the same all the year, \
     `\"Etc/GMT-1\"` is one hour east of Greenwich";
/// The cure of a divisor.
const DIVISOR_CURE: &str = "divide by another number than 0";

/// What is known of the value of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It is the same for every request.
    Constant,
    /// An attribute of type STRING_MAP, or the empty map.
    StringMap,
    /// An address, a URI, an e-mail address or a DNS name.
    Opaque,
    /// An inner node of the attribute names.
    Object,
    /// It fails, which is reported.
    Fails,
    Nothing,
}

/// What fails for every request. Cost: linear in the operations, and the evaluation of each constant once.
pub(super) fn failures(plan: &Plan, root: OpId, source: &Source<'_>) -> Failures {
    let arena = Bump::new();
    let mut search = Search {
        plan,
        source,
        known: Vec::with_capacity(plan.len()),
        choices: AllChoices::new(plan, &arena),
        found: Failures::default(),
    };
    let mut places = Vec::with_capacity(plan.len());
    for (op, at) in plan.placed() {
        let known = search.operation(op, at, &places);
        match known {
            Known::Constant | Known::Fails => search.choices.skip(),
            _ => search.chosen(op, &places),
        }
        search.known.push(known);
        places.push(at);
    }
    search.constant(root, &places);
    search.found
}

struct Search<'s> {
    plan: &'s Plan,
    source: &'s Source<'s>,
    /// Of the operations so far.
    known: Vec<Known>,
    /// Of the operations so far.
    choices: AllChoices<'s>,
    found: Failures,
}

impl Search<'_> {
    fn known(&self, id: OpId) -> Known {
        self.known.get(id.index()).copied().unwrap_or(Known::Nothing)
    }

    /// What is known of an operation, whose operands were examined.
    fn operation(&mut self, op: &Op, at: u32, places: &[u32]) -> Known {
        let operands = operands(op);
        if operands.iter().any(|id| self.known(*id) == Known::Fails) {
            return Known::Nothing;
        }
        if let Some((error, cure)) = self.unsupported(op) {
            self.found.push(|| Some(self.source.position(at)), error, cure);
            return Known::Fails;
        }
        let is_constant = |id: &OpId| self.known(*id) == Known::Constant;
        // A pattern that is put together is compiled when it is looked at, and not whenever something depends on it.
        let is_pure = !matches!(
            op,
            Op::Binary(Binary::Matches, ..)
                | Op::Attribute(..)
                | Op::Present(_)
                | Op::Object(_)
                | Op::Local(_)
                | Op::Fold(_)
                | Op::EmptyStringMap
        );
        if is_pure && operands.iter().all(is_constant) {
            return Known::Constant;
        }
        for operand in operands {
            if self.constant(operand, places) {
                return Known::Nothing;
            }
        }
        match op {
            Op::Binary(Binary::Matches, _, pattern) => self.pattern(*pattern, places),
            Op::Binary(function @ (Binary::Time(_) | Binary::Divide | Binary::Modulo), _, argument) => {
                self.argument(*function, *argument, places);
            }
            Op::Equal(left, right) | Op::NotEqual(left, right) => {
                self.name(*left, places);
                self.name(*right, places);
            }
            _ => {}
        }
        match op {
            Op::Attribute(_, ValueType::StringMap) | Op::EmptyStringMap => Known::StringMap,
            Op::Attribute(
                _,
                ValueType::IpAddress | ValueType::EmailAddress | ValueType::Uri | ValueType::DnsName,
            )
            | Op::Unary(Unary::Ip | Unary::Email | Unary::Uri | Unary::DnsName, _) => Known::Opaque,
            Op::Object(_) => Known::Object,
            Op::Conditional(_, yes, no) if self.known(*yes) == self.known(*no) => match self.known(*yes) {
                known @ (Known::StringMap | Known::Opaque | Known::Object) => known,
                _ => Known::Nothing,
            },
            _ => Known::Nothing,
        }
    }

    /// The error and the cure of an operation that has no value whatever its operands are.
    fn unsupported(&self, op: &Op) -> Option<(String, &'static str)> {
        const ENTRIES: &str =
            "use single entries: `\"a\" in request.headers`, `request.headers[\"a\"] == \"b\"`";
        let is_whole = |id: &OpId| matches!(self.known(*id), Known::StringMap | Known::Object);
        let text = |text: &str| text.to_owned();
        match op {
            Op::MatchesConstant(_, Err(error)) => Some((error.clone(), pattern_cure(error))),
            Op::Fold(fold) if self.known(fold.range) == Known::StringMap => {
                Some((text("a string map cannot be looped over"), ENTRIES))
            }
            Op::Unary(Unary::Size, map) if self.known(*map) == Known::StringMap => {
                Some((text("size not implemented on stringmaps"), ENTRIES))
            }
            Op::Equal(left, right) | Op::NotEqual(left, right) if is_whole(left) || is_whole(right) => {
                Some((text("stringmap does not support equality"), ENTRIES))
            }
            Op::Unary(
                Unary::ToType
                | Unary::ToInt
                | Unary::ToUint
                | Unary::ToDouble
                | Unary::ToBool
                | Unary::ToString
                | Unary::ToBytes
                | Unary::ToTimestamp
                | Unary::ToDuration,
                operand,
            ) => match self.known(*operand) {
                Known::StringMap | Known::Object => {
                    Some((text("cannot convert stringmap to CEL types"), ENTRIES))
                }
                Known::Opaque => {
                    let cure = "compare it with a value of its own type: `source.ip == ip(\"10.0.0.1\")`";
                    Some((text("cannot convert wrapper value  to CEL types"), cure))
                }
                _ => None,
            },
            Op::Unbound(name, _) => {
                Some((format!("no such overload: {name}"), "this function cannot be called"))
            }
            _ => None,
        }
    }

    /// Evaluates an operation if it is constant; whether that fails, which is reported of the innermost operation that does.
    fn constant(&mut self, mut id: OpId, places: &[u32]) -> bool {
        if self.known(id) != Known::Constant {
            return false;
        }
        let arena = Bump::new();
        let bag = AttributeBag::empty(&NO_ATTRIBUTES, &arena);
        let evaluate = |id: OpId| match self.plan.op(id) {
            Op::Constant(_) => None,
            _ => Evaluator::new(self.plan, &bag).run(id).err(),
        };
        let Some(mut fault) = evaluate(id) else { return false };
        let outer = id;
        for _ in 0..MAX_DESCENT {
            let mut operands = operands(self.plan.op(id)).into_iter();
            let Some((operand, inner)) = operands.find_map(|id| Some((id, evaluate(id)?))) else { break };
            (id, fault) = (operand, inner);
        }
        self.fails(id, fault.into_error(), self.cure(self.plan.op(id)), places);
        // Several operations may have it as an operand.
        if let Some(known) = self.known.get_mut(outer.index()) {
            *known = Known::Fails;
        }
        true
    }

    /// Compiles the pattern of `matches` if it is constant.
    fn pattern(&mut self, id: OpId, places: &[u32]) {
        if self.known(id) != Known::Constant {
            return;
        }
        let arena = Bump::new();
        let bag = AttributeBag::empty(&NO_ATTRIBUTES, &arena);
        if let Ok(Val::String(pattern)) = Evaluator::new(self.plan, &bag).run(id)
            && let Some(error) = self.choices.patterns.error(pattern)
        {
            let cure = pattern_cure(&error);
            self.fails(id, EvalError::Failed(arena.alloc_str(&error)), cure, places);
        }
    }

    /// Calls a function with a constant second operand with which it fails whatever the first is: a time zone, and a divisor.
    fn argument(&mut self, function: Binary, id: OpId, places: &[u32]) {
        if self.known(id) != Known::Constant {
            return;
        }
        let arena = Bump::new();
        let bag = AttributeBag::empty(&NO_ATTRIBUTES, &arena);
        let Ok(argument) = Evaluator::new(self.plan, &bag).run(id) else { return };
        let (first, cure) = match argument {
            Val::String(_) if matches!(function, Binary::Time(_)) => {
                (Val::Timestamp(Timestamp { seconds: 0, nanos: 0 }), ZONE_CURE)
            }
            Val::Int(0) | Val::Uint(0) | Val::Double(0.0) => (argument, DIVISOR_CURE),
            _ => return,
        };
        if let Err(fault) = ops::binary(&mut EvalContext::new(&bag), function, first, argument) {
            self.fails(id, fault.into_error(), cure, places);
        }
    }

    /// Compares a constant name with itself: some convert, and are equal to none.
    fn name(&mut self, id: OpId, places: &[u32]) {
        if self.known(id) != Known::Constant {
            return;
        }
        let arena = Bump::new();
        let bag = AttributeBag::empty(&NO_ATTRIBUTES, &arena);
        if let Ok(name @ Val::Opaque(..)) = Evaluator::new(self.plan, &bag).run(id)
            && let Err(fault) = ops::equal(&mut EvalContext::new(&bag), name, Ok(name))
        {
            self.fails(id, fault.into_error(), self.cure(self.plan.op(id)), places);
        }
    }

    /// Follows the constants that the operands of an operation may be.
    fn chosen(&mut self, op: &Op, places: &[u32]) {
        let known = &self.known;
        let is_constant = |id: OpId| known.get(id.index()) == Some(&Known::Constant);
        for FailingChoice { from, fault, cure, is_certain } in self.choices.follow(op, is_constant) {
            let position = || places.get(from.index()).map(|at| self.source.position(*at));
            self.found.add(is_certain, position, fault.into_error().to_string(), cure);
        }
    }

    fn fails(&mut self, id: OpId, error: EvalError<'_>, cure: &str, places: &[u32]) {
        let position = || places.get(id.index()).map(|at| self.source.position(*at));
        self.found.push(position, error.to_string(), cure);
    }

    /// The cure of a constant that cannot be evaluated.
    fn cure(&self, op: &Op) -> &'static str {
        let Op::Unary(function, operand) = op else { return CURE };
        match self.plan.op(*operand) {
            Op::Constant(Constant::String(text)) => conversion_cure(*function, Some(text)),
            _ => conversion_cure(*function, None),
        }
    }
}

/// The operations whose values an operation needs.
fn operands(op: &Op) -> Vec<OpId> {
    match op {
        Op::Constant(_)
        | Op::Attribute(..)
        | Op::Present(_)
        | Op::Object(_)
        | Op::Local(_)
        | Op::Unknown
        | Op::EmptyStringMap => Vec::new(),
        Op::Select(operand, _)
        | Op::Has(operand, _)
        | Op::Unary(_, operand)
        | Op::MatchesConstant(operand, _) => {
            vec![*operand]
        }
        Op::And(left, right)
        | Op::Or(left, right)
        | Op::Equal(left, right)
        | Op::NotEqual(left, right)
        | Op::Binary(_, left, right) => vec![*left, *right],
        Op::Conditional(test, yes, no) => vec![*test, *yes, *no],
        Op::Unbound(_, operands) | Op::List(operands) => operands.to_vec(),
        Op::Map(entries) => entries.iter().flat_map(|(key, value)| [*key, *value]).collect(),
        Op::Fold(fold) => vec![fold.range, fold.init, fold.condition, fold.step, fold.result],
    }
}
