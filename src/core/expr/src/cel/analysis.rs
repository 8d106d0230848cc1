//! The cases of a CEL expression. An absent attribute has the empty value of its type; a missing entry of a map fails.

use std::borrow::Cow;

use bumpalo::Bump;
use rustc_hash::FxHashSet;

use super::plan::{Binary, Constant as PlanConstant, Op, OpId, Plan, Unary};
use super::value::Val;
use crate::analysis::{
    self, Assumption, Call, Case, Cases, Constant, Conversion, Decided, Fact, Form, MAX_DEPTH, MAX_NODES,
    MAX_OPERANDS, MAX_SUBJECTS, Operand, Order, Read, State, SuspiciousCall, TextTest, TextTestKind, Truths,
};
use mixer_attribute::{SlotId, ValueType};

/// Stands for the subject in suggestions: operations have no source text.
const SUBJECT: &str = "ATTRIBUTE";

/// The first entry of a map whose absence skips a condition that would otherwise be true.
pub(super) fn skipped_without<'p>(
    plan: &'p Plan,
    root: OpId,
    is_always_there: &dyn Fn(Read<'_>) -> bool,
) -> Option<Read<'p>> {
    if plan.len() > MAX_NODES {
        return None;
    }
    let subjects = required(plan).into_iter().filter(|read| !is_always_there(*read));
    analysis::skipped(subjects, false, |assumption| truths(plan, root, assumption))
}

/// The entries of maps whose absence fails the evaluation.
fn required(plan: &Plan) -> Vec<Read<'_>> {
    let mut subjects: Vec<Read<'_>> = Vec::new();
    for read in plan.ops().filter_map(|op| entry(plan, op)) {
        if !subjects.contains(&read) {
            subjects.push(read);
        }
    }
    subjects
}

/// The first conversion of a text that skips a condition that may otherwise be true.
pub(super) fn skipped_by_malformed(plan: &Plan, root: OpId) -> Option<Conversion<'_>> {
    if plan.len() > MAX_NODES {
        return None;
    }
    analysis::skipped_by(conversions(plan), |assumption| truths(plan, root, assumption))
}

/// The conversions of texts, each with its operation.
fn conversions(plan: &Plan) -> impl Iterator<Item = (Call, Conversion<'_>)> {
    plan.ops().filter_map(|op| Some((Call::of(op), conversion(plan, op)?)))
}

/// Whether a condition is within the bounds, and every key that it requires is constant, so that nothing found in it means that there is
/// nothing.
pub(super) fn is_examined(plan: &Plan) -> bool {
    let is_looked_up = |op: &&Op| matches!(op, Op::Binary(Binary::Index, ..) | Op::Select(..));
    plan.len() <= MAX_NODES
        && plan.ops().filter(is_looked_up).all(|op| entry(plan, op).is_some())
        && required(plan).len() <= MAX_SUBJECTS
        && conversions(plan).count() <= MAX_SUBJECTS
}

/// The conversion that an operation makes of a text that is no constant.
fn conversion<'p>(plan: &'p Plan, op: &'p Op) -> Option<Conversion<'p>> {
    let (expected, read) = match op {
        Op::Unary(function, operand) => {
            let expected = match function {
                Unary::Ip => "IP address",
                Unary::ToTimestamp => "time",
                Unary::ToDuration => "duration",
                Unary::DnsName => "DNS name",
                Unary::Email => "e-mail address",
                Unary::Uri => "URI",
                Unary::ToInt | Unary::ToUint => "integer",
                Unary::ToDouble => "number",
                Unary::ToBool => "boolean",
                _ => return None,
            };
            (expected, text_read(plan, *operand, 0)?)
        }
        // A constant subject is probably the pattern: that is another finding.
        Op::Binary(Binary::Matches, subject, pattern) if text(plan, *subject).is_none() => {
            ("regular expression", text_read(plan, *pattern, 0)?)
        }
        Op::Equal(left, right) | Op::NotEqual(left, right) => {
            [left, right].into_iter().find_map(|operand| match plan.op(*operand) {
                Op::Attribute(slot, value_type) => {
                    let expected = match value_type {
                        ValueType::DnsName => "DNS name",
                        ValueType::EmailAddress => "e-mail address",
                        ValueType::Uri => "URI",
                        _ => return None,
                    };
                    Some((expected, Read { slot: *slot, key: None }))
                }
                _ => None,
            })?
        }
        _ => return None,
    };
    Some(Conversion { read, expected, offset: None })
}

/// An attribute or entry with the text, or a part of the text, that an operation yields.
fn text_read(plan: &Plan, id: OpId, depth: u32) -> Option<Read<'_>> {
    let below = |id: OpId| text_read(plan, id, depth + 1);
    match plan.op(id) {
        _ if depth > MAX_DEPTH => None,
        Op::Attribute(slot, ValueType::String) => Some(Read { slot: *slot, key: None }),
        Op::Binary(Binary::Index, map, key) => match (plan.op(*map), text(plan, *key)) {
            (Op::Attribute(slot, ValueType::StringMap), key) => Some(Read { slot: *slot, key }),
            _ => None,
        },
        Op::Conditional(_, left, right) | Op::Binary(Binary::Add, left, right) => {
            below(*left).or_else(|| below(*right))
        }
        Op::Unary(Unary::ToLower | Unary::Reverse | Unary::ToString, operand) => below(*operand),
        op => entry(plan, op),
    }
}

/// The attribute or entry that decides a condition alone.
pub(super) fn decided(plan: &Plan, root: OpId) -> Option<(Read<'_>, Decided)> {
    if plan.len() > MAX_NODES {
        return None;
    }
    let tests: Vec<_> = plan.ops().filter_map(|op| constant_test(plan, op)).collect();
    let arena = Bump::new();
    analysis::decided(&arena, &tests, |assumption| truths(plan, root, assumption))
}

/// Suspicious calls.
pub(super) fn suspicious_calls(plan: &Plan) -> Vec<SuspiciousCall> {
    let calls = plan.ops().filter_map(|op| match op {
        Op::Binary(Binary::Matches, subject, pattern) => {
            let subject = String::from_utf8_lossy(text(plan, *subject)?);
            text(plan, *pattern)
                .is_none()
                .then(|| SuspiciousCall::ReversedMatches { meant: format!("{SUBJECT}.matches({subject:?})") })
        }
        Op::Binary(Binary::Match, subject, pattern) if text(plan, *pattern).is_none() => {
            reversed(text(plan, *subject)?, "match")
        }
        Op::Binary(function @ (Binary::StartsWith | Binary::EndsWith), subject, operand) => {
            let function = if *function == Binary::StartsWith { "startsWith" } else { "endsWith" };
            let subject = text(plan, *subject)?;
            text(plan, *operand).is_none().then(|| reversed(subject, function)).flatten()
        }
        _ => None,
    });
    calls.collect()
}

/// A test of a constant with a text from an attribute: its operands were probably exchanged.
fn reversed(constant: &[u8], function: &'static str) -> Option<SuspiciousCall> {
    let constant = String::from_utf8_lossy(constant);
    let meant = match function {
        "match" => format!("match({SUBJECT}, {constant:?})"),
        _ => format!("{SUBJECT}.{function}({constant:?})"),
    };
    Some(SuspiciousCall::ReversedArguments { function, meant })
}

/// The tests of texts with constants.
pub(super) fn text_tests(plan: &Plan) -> Vec<TextTest<'_>> {
    let negated = negated(plan);
    let tests = plan.ops().enumerate().flat_map(|(at, op)| {
        let is_negated = negated.contains(&at);
        let (subject, tests) = text_test(plan, op).unwrap_or_default();
        let pattern = match op {
            Op::MatchesConstant(_, Ok(regex)) => Some(regex.facts()),
            _ => None,
        };
        let test = |subject: OpId, (kind, text)| TextTest {
            operands: operands(plan, subject),
            is_lower: matches!(plan.op(subject), Op::Unary(Unary::ToLower, _)),
            subject: None,
            kind,
            text,
            pattern: pattern.clone(),
            is_negated,
            offset: None,
        };
        let subject = subject.filter(|subject| text(plan, *subject).is_none());
        let of = |subject| tests.into_iter().map(|tested| test(subject, tested)).collect::<Vec<_>>();
        subject.map(of).unwrap_or_default()
    });
    tests.collect()
}

/// The operations of which the opposite is asked.
fn negated(plan: &Plan) -> FxHashSet<usize> {
    let ops: Vec<&Op> = plan.ops().collect();
    let mut negated = FxHashSet::default();
    // Operands are before their operations.
    for (at, op) in ops.iter().enumerate().rev() {
        match op {
            Op::Unary(Unary::Negate, operand) => {
                negated.insert(operand.index());
            }
            Op::And(left, right) | Op::Or(left, right) if negated.contains(&at) => {
                negated.extend([left.index(), right.index()]);
            }
            _ => {}
        }
    }
    negated
}

/// What an operation tests, and with which constants.
type Tested<'p> = (Option<OpId>, Vec<(TextTestKind, Cow<'p, [u8]>)>);

fn text_test<'p>(plan: &'p Plan, op: &'p Op) -> Option<Tested<'p>> {
    let constant = |id: OpId| text(plan, id).map(Cow::Borrowed);
    let one = |subject: OpId, kind, text| Some((Some(subject), vec![(kind, text)]));
    match op {
        Op::Equal(left, right) | Op::NotEqual(left, right) => {
            let is_equal = matches!(op, Op::Equal(..));
            let kind = if is_equal { TextTestKind::Equal } else { TextTestKind::NotEqual };
            match constant(*right) {
                Some(text) => one(*left, kind, text),
                None => one(*right, kind, constant(*left)?),
            }
        }
        Op::Binary(Binary::In, subject, list) => {
            let Op::List(items) = plan.op(*list) else { return None };
            let texts = items.iter().filter_map(|item| constant(*item));
            Some((Some(*subject), texts.map(|text| (TextTestKind::Equal, text)).collect()))
        }
        Op::Binary(function, subject, operand) => {
            let kind = match function {
                Binary::StartsWith => TextTestKind::Start,
                Binary::EndsWith => TextTestKind::End,
                Binary::Contains => TextTestKind::Contains,
                Binary::Match => TextTestKind::Glob,
                _ => return None,
            };
            one(*subject, kind, constant(*operand)?)
        }
        Op::MatchesConstant(subject, Ok(regex)) => {
            let kind = TextTestKind::Regex { fixes_the_end: regex.fixes_the_end() };
            one(*subject, kind, Cow::Owned(regex.leading_text().into_bytes()))
        }
        _ => None,
    }
}

/// What a text, or the end of it, is read from.
pub(super) fn operands(plan: &Plan, text: OpId) -> Vec<Operand<'_>> {
    let mut found = Vec::new();
    let mut pending = vec![(text, Form::Whole)];
    for _ in 0..MAX_OPERANDS {
        let Some((id, form)) = pending.pop() else { break };
        let op = plan.op(id);
        if let Some(read) = subject(plan, op) {
            let default = match op {
                Op::Conditional(_, _, otherwise) => self::text(plan, *otherwise),
                _ => None,
            };
            found.push(Operand { read, form, default, default_address: None });
            continue;
        }
        match op {
            Op::Unary(Unary::ToLower, operand) => pending.push((*operand, form.lower())),
            Op::Unary(Unary::ToString, operand) => pending.push((*operand, form)),
            Op::Binary(Binary::Add, _, operand) => pending.push((*operand, Form::Part)),
            Op::Conditional(_, yes, no) => pending.extend([(*no, Form::Part), (*yes, Form::Part)]),
            _ => {}
        }
    }
    found
}

/// The attributes that an expression may read.
pub(super) fn attributes(plan: &Plan) -> impl Iterator<Item = SlotId> + '_ {
    plan.ops().filter_map(|op| match op {
        Op::Attribute(slot, _) | Op::Present(slot) => Some(*slot),
        _ => None,
    })
}

/// The constant keys of maps that an expression reads.
pub(super) fn entries(plan: &Plan) -> impl Iterator<Item = Read<'_>> {
    plan.ops().filter_map(|op| entry(plan, op).or_else(|| tested_entry(plan, op)))
}

/// The attributes and entries of maps whose values an expression may read, sorted.
pub(super) fn reads(plan: &Plan) -> Vec<Read<'_>> {
    let mut reads: Vec<Read<'_>> = entries(plan).collect();
    // Each of them refers to one operation that reads the map.
    let mut maps: Vec<SlotId> = reads.iter().map(|read| read.slot).collect();
    for op in plan.ops() {
        let Op::Attribute(slot, _) = op else { continue };
        match maps.iter().position(|map| map == slot) {
            Some(at) => drop(maps.swap_remove(at)),
            None => reads.push(Read { slot: *slot, key: None }),
        }
    }
    reads.sort_unstable();
    reads.dedup();
    reads
}

/// A constant text.
fn text(plan: &Plan, id: OpId) -> Option<&[u8]> {
    match plan.op(id) {
        Op::Constant(PlanConstant::String(text)) => Some(text),
        _ => None,
    }
}

fn entry_of<'p>(plan: &'p Plan, map: OpId, key: Option<&'p [u8]>) -> Option<Read<'p>> {
    match plan.op(map) {
        Op::Attribute(slot, _) => Some(Read { slot: *slot, key: Some(key?) }),
        _ => None,
    }
}

/// The entry of a map that an operation reads: `map["key"]` or `map.key`.
fn entry<'p>(plan: &'p Plan, op: &'p Op) -> Option<Read<'p>> {
    match op {
        Op::Binary(Binary::Index, map, key) => entry_of(plan, *map, text(plan, *key)),
        Op::Select(map, field) => entry_of(plan, *map, Some(field.as_bytes())),
        _ => None,
    }
}

/// The entry of a map whose presence an operation tests.
fn tested_entry<'p>(plan: &'p Plan, op: &'p Op) -> Option<Read<'p>> {
    match op {
        Op::Binary(Binary::In, key, map) => entry_of(plan, *map, text(plan, *key)),
        Op::Has(map, field) => entry_of(plan, *map, Some(field.as_bytes())),
        _ => None,
    }
}

/// The attribute or entry that an operation reads, also with a constant default.
fn subject<'p>(plan: &'p Plan, op: &'p Op) -> Option<Read<'p>> {
    match op {
        Op::Attribute(slot, _) => Some(Read { slot: *slot, key: None }),
        Op::Conditional(test, then, otherwise) => {
            let is_tested = match plan.op(*test) {
                Op::Present(slot) => Some(Read { slot: *slot, key: None }),
                op => tested_entry(plan, op),
            };
            let read = subject_of(plan, *then)?;
            (is_tested == Some(read) && matches!(plan.op(*otherwise), Op::Constant(_))).then_some(read)
        }
        op => entry(plan, op),
    }
}

fn subject_of(plan: &Plan, id: OpId) -> Option<Read<'_>> {
    match plan.op(id) {
        // One level of defaults.
        Op::Conditional(..) => None,
        op => subject(plan, op),
    }
}

/// The test of a subject with a constant.
fn constant_test<'p>(plan: &'p Plan, op: &'p Op) -> Option<(Read<'p>, Constant<'p>)> {
    let with = |id: OpId| subject(plan, plan.op(id));
    match op {
        Op::Equal(left, right)
        | Op::NotEqual(left, right)
        | Op::Binary(
            Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual,
            left,
            right,
        ) => {
            let known = |id: OpId| match fact(plan.op(id))? {
                Fact::Text(text) => Some(Constant::Text(text)),
                Fact::Int(number) => Some(Constant::Int(number)),
                Fact::Bool(_) => Some(Constant::Bool),
                Fact::Any => None,
            };
            match (with(*left), known(*right), with(*right), known(*left)) {
                (Some(read), Some(constant), _, _) | (_, _, Some(read), Some(constant)) => {
                    Some((read, constant))
                }
                _ => None,
            }
        }
        Op::Binary(Binary::StartsWith, left, affix) => {
            Some((with(*left)?, Constant::Prefix(text(plan, *affix)?)))
        }
        Op::Binary(Binary::EndsWith, left, affix) => {
            Some((with(*left)?, Constant::Suffix(text(plan, *affix)?)))
        }
        Op::Binary(Binary::Match, left, pattern) => {
            let constant = match text(plan, *pattern)? {
                [prefix @ .., b'*'] => Constant::Prefix(prefix),
                [b'*', suffix @ ..] => Constant::Suffix(suffix),
                text => Constant::Text(text),
            };
            Some((with(*left)?, constant))
        }
        // BOOL attributes that are conditions themselves.
        Op::And(operand, _) | Op::Or(operand, _) | Op::Unary(Unary::Negate, operand)
            if matches!(plan.op(*operand), Op::Attribute(_, ValueType::Bool)) =>
        {
            Some((with(*operand)?, Constant::Bool))
        }
        _ => None,
    }
}

/// The value of a constant.
fn fact(op: &Op) -> Option<Fact<'_>> {
    Some(match op {
        Op::Constant(PlanConstant::String(text)) => Fact::Text(text),
        Op::Constant(PlanConstant::Plain(Val::Int(number))) => Fact::Int(*number),
        Op::Constant(PlanConstant::Plain(Val::Bool(value))) => Fact::Bool(*value),
        Op::Constant(_) => Fact::Any,
        _ => return None,
    })
}

/// Evaluates all operations in their order: each refers to earlier ones only.
fn truths<'w>(plan: &'w Plan, root: OpId, assumption: &Assumption<'w>) -> Truths {
    let mut walk = Walk { plan, assumption, done: Vec::with_capacity(plan.len()) };
    for op in plan.ops() {
        let cases = walk.cases(op);
        walk.done.push(cases);
    }
    Truths::of(&walk.of(root))
}

struct Walk<'a, 'w> {
    plan: &'w Plan,
    assumption: &'a Assumption<'w>,
    done: Vec<Cases<'w>>,
}

impl<'w> Walk<'_, 'w> {
    fn of(&self, id: OpId) -> Cases<'w> {
        self.done.get(id.index()).cloned().unwrap_or_else(Cases::any)
    }

    fn truth(&self, id: OpId) -> Truths {
        Truths::of(&self.of(id))
    }

    fn cases(&self, op: &'w Op) -> Cases<'w> {
        if self.assumption.is_failure_of(Call::of(op)) {
            return Cases::one(Case::Fails(Fact::Any));
        }
        if let Some(read) = entry(self.plan, op) {
            return self.entry(read);
        }
        if let Some(read) = tested_entry(self.plan, op) {
            return Cases::one(Case::Is(
                self.presence(self.assumption.entry(read.slot, read.key.unwrap_or(b""))),
            ));
        }
        match op {
            Op::Constant(_) => Cases::one(Case::Is(fact(op).unwrap_or(Fact::Any))),
            Op::Attribute(slot, value_type) => Cases::one(Case::Is(match self.assumption.attribute(*slot) {
                Some(State::Absent) => analysis::empty(*value_type),
                Some(State::Is(fact)) => fact,
                None => Fact::Any,
            })),
            Op::Present(slot) => Cases::one(Case::Is(self.presence(self.assumption.attribute(*slot)))),
            Op::And(left, right) => self.truth(*left).either(self.truth(*right), false).cases(),
            Op::Or(left, right) => self.truth(*left).either(self.truth(*right), true).cases(),
            Op::Conditional(test, then, otherwise) => {
                let cases = Cases::choose(&self.of(*test), &self.of(*then), &self.of(*otherwise));
                let is_tracked = subject(self.plan, op).is_some() || !self.assumption.is_of_value();
                if is_tracked { cases } else { cases.map(|_| Fact::Any) }
            }
            Op::Equal(left, right) => {
                self.assumption.compare(Order::Equal, &self.of(*left), &self.of(*right))
            }
            Op::NotEqual(left, right) => {
                self.assumption.compare(Order::NotEqual, &self.of(*left), &self.of(*right))
            }
            Op::Unary(Unary::Negate, operand) => self.of(*operand).map(|case| match case.fact() {
                Fact::Bool(value) => Fact::Bool(!value),
                _ => Fact::Any,
            }),
            Op::Unary(_, operand) => Cases::opaque([&self.of(*operand)]),
            Op::Binary(function, left, right) => self.binary(*function, *left, *right),
            Op::MatchesConstant(subject, Ok(regex)) => {
                analysis::test_absent(&self.of(*subject), |text| regex.is_match(text))
            }
            Op::MatchesConstant(subject, Err(_)) | Op::Select(subject, _) | Op::Has(subject, _) => {
                Cases::opaque([&self.of(*subject)])
            }
            Op::Unbound(_, operands) | Op::List(operands) => {
                let operands: Vec<_> = operands.iter().map(|operand| self.of(*operand)).collect();
                Cases::opaque(&operands)
            }
            Op::Map(entries) => {
                let operands: Vec<_> = entries.iter().flat_map(|(k, v)| [self.of(*k), self.of(*v)]).collect();
                Cases::opaque(&operands)
            }
            Op::Fold(fold) => {
                let parts = [fold.range, fold.init, fold.condition, fold.step, fold.result];
                let parts = parts.map(|part| self.of(part));
                Cases::opaque(&parts)
            }
            Op::Object(_) | Op::Local(_) | Op::Unknown | Op::EmptyStringMap => Cases::any(),
        }
    }

    fn entry(&self, read: Read<'w>) -> Cases<'w> {
        Cases::one(match self.assumption.entry(read.slot, read.key.unwrap_or(b"")) {
            Some(State::Absent) => Case::Fails(Fact::Text(b"")),
            Some(State::Is(fact)) => Case::Is(fact),
            None => Case::Is(Fact::Any),
        })
    }

    /// Whether something is present.
    fn presence(&self, state: Option<State<'w>>) -> Fact<'w> {
        match state {
            Some(State::Absent) => Fact::Bool(false),
            Some(State::Is(_)) => Fact::Bool(true),
            None => Fact::Any,
        }
    }

    fn binary(&self, function: Binary, left: OpId, right: OpId) -> Cases<'w> {
        let (subject, operand) = (self.of(left), self.of(right));
        let order = match function {
            Binary::Less => Order::Less,
            Binary::LessOrEqual => Order::LessOrEqual,
            Binary::Greater => Order::Greater,
            Binary::GreaterOrEqual => Order::GreaterOrEqual,
            Binary::StartsWith | Binary::EndsWith | Binary::Match => {
                return match text(self.plan, right) {
                    Some(constant) => analysis::test(&subject, |text| match function {
                        Binary::StartsWith => text.starts_with(constant),
                        Binary::EndsWith => text.ends_with(constant),
                        _ => crate::functions::glob_match(text, constant),
                    }),
                    None => Cases::opaque([&subject, &operand]),
                };
            }
            _ => return Cases::opaque([&subject, &operand]),
        };
        self.assumption.compare(order, &subject, &operand)
    }
}
