//! The cases of a classic expression.

use std::borrow::Cow;

use bumpalo::Bump;

use super::{Attribute, Comparison, Expr, ExprKind, Glob, Literal, MapEntry, Operands, Unary};
use crate::analysis::{
    self, Assumption, Call, Case, Cases, Constant, Conversion, Decided, Fact, Form, MAX_DEPTH, MAX_NODES,
    MAX_OPERANDS, MAX_SUBJECTS, Operand, Order, Read, State, SuspiciousCall, TextTest, TextTestKind, Truths,
};

/// The first attribute without a default whose absence skips a condition that would otherwise be true.
pub(super) fn skipped_without<'p>(
    root: &'p Expr,
    is_always_there: &dyn Fn(Read<'_>) -> bool,
) -> Option<Read<'p>> {
    if is_large(root) {
        return None;
    }
    let subjects = required(root).into_iter().filter(|read| !is_always_there(*read));
    analysis::skipped(subjects, true, |assumption| Walk { assumption }.truths(root, 0))
}

/// The attributes whose absence fails the evaluation, each with the first entry of it if it is a map.
fn required(root: &Expr) -> Vec<Read<'_>> {
    let mut subjects: Vec<Read<'_>> = Vec::new();
    for read in strict_reads(root) {
        if !subjects.iter().any(|known| known.slot == read.slot) {
            subjects.push(read);
        }
    }
    subjects
}

/// The first conversion of a text that skips a condition that may otherwise be true.
pub(super) fn skipped_by_malformed(root: &Expr) -> Option<Conversion<'_>> {
    if is_large(root) {
        return None;
    }
    analysis::skipped_by(conversions(root), |assumption| Walk { assumption }.truths(root, 0))
}

/// The conversions of texts, each with its node.
fn conversions(root: &Expr) -> Vec<(Call, Conversion<'_>)> {
    let mut calls = Vec::new();
    let mut pending = vec![root];
    while let Some(expr) = pending.pop() {
        calls.extend(conversion(expr).map(|conversion| (Call::of(expr), conversion)));
        pending.extend(expr.children().iter().rev());
    }
    calls
}

/// Whether a condition is within the bounds, so that nothing found in it means that there is nothing.
pub(super) fn is_examined(root: &Expr) -> bool {
    !is_large(root)
        && !is_deep(root)
        && required(root).len() <= MAX_SUBJECTS
        && conversions(root).len() <= MAX_SUBJECTS
}

/// Whether a part of a condition is nested so deeply that it has any value.
fn is_deep(root: &Expr) -> bool {
    let mut pending = vec![(root, 0)];
    while let Some((expr, depth)) = pending.pop() {
        if depth > MAX_DEPTH {
            return true;
        }
        pending.extend(expr.children().iter().map(|child| (child, depth + 1)));
    }
    false
}

/// The conversion that a node makes of a text that is no constant.
fn conversion(expr: &Expr) -> Option<Conversion<'_>> {
    let (expected, read) = match &expr.kind {
        ExprKind::Apply { function, argument } => {
            let expected = match function {
                Unary::Ip => "IP address",
                Unary::Timestamp => "time",
                Unary::DnsName => "DNS name",
                Unary::Email => "e-mail address",
                Unary::Uri => "URI",
                Unary::Size | Unary::ToLower => return None,
            };
            (expected, first_read(argument)?)
        }
        ExprKind::Matches(pair) => {
            let [pattern, subject] = &**pair;
            // One that is constant is probably the pattern: that is another finding.
            if matches!(subject.kind, ExprKind::Literal(_)) {
                return None;
            }
            ("regular expression", first_read(pattern)?)
        }
        // Calls have converted their operands.
        ExprKind::Compare { operands, pair, .. } => {
            let expected = match operands {
                Operands::DnsName => "DNS name",
                Operands::EmailAddress => "e-mail address",
                Operands::Uri => "URI",
                _ => return None,
            };
            let is_call = |expr: &&Expr| matches!(expr.kind, ExprKind::Apply { .. });
            (expected, pair.iter().filter(|operand| !is_call(operand)).find_map(first_read)?)
        }
        _ => return None,
    };
    Some(Conversion { read, expected, offset: Some(expr.start as usize) })
}

/// An attribute or entry that the value of an expression is made of.
fn first_read(expr: &Expr) -> Option<Read<'_>> {
    let mut pending = vec![expr];
    while let Some(expr) = pending.pop() {
        if let Some(read) = subject(expr) {
            return Some(read);
        }
        let operands = match &expr.kind {
            ExprKind::Conditional(triple) | ExprKind::ConditionalString(triple) => {
                let [_, branches @ ..] = &**triple;
                branches
            }
            _ => expr.children(),
        };
        pending.extend(operands.iter().rev());
    }
    None
}

/// The attribute or entry that decides a condition alone.
pub(super) fn decided(root: &Expr) -> Option<(Read<'_>, Decided)> {
    if is_large(root) {
        return None;
    }
    let mut tests = Vec::new();
    let mut pending = vec![root];
    while let Some(expr) = pending.pop() {
        constants(expr, &mut tests);
        pending.extend(expr.children());
    }
    let arena = Bump::new();
    analysis::decided(&arena, &tests, |assumption| Walk { assumption }.truths(root, 0))
}

/// Whether a condition is too large to be examined.
fn is_large(root: &Expr) -> bool {
    let mut nodes = 0;
    let mut pending = vec![root];
    while let Some(expr) = pending.pop() {
        nodes += 1;
        if nodes > MAX_NODES {
            return true;
        }
        pending.extend(expr.children());
    }
    false
}

/// Suspicious calls, each with the offset of its expression.
pub(super) fn suspicious_calls(root: &Expr, text: &str) -> Vec<(usize, SuspiciousCall)> {
    let mut found = Vec::new();
    let mut pending = vec![root];
    while let Some(expr) = pending.pop() {
        let call = match &expr.kind {
            ExprKind::Matches(pair) => {
                let [pattern, subject] = &**pair;
                let reversed = matches!(subject.kind, ExprKind::Literal(_))
                    && !matches!(pattern.kind, ExprKind::Literal(_));
                reversed.then(|| SuspiciousCall::ReversedMatches {
                    meant: format!("{}.matches({})", subject.source(text), pattern.source(text)),
                })
            }
            ExprKind::Match(pair) => reversed(pair, "match", text),
            ExprKind::StartsWith(pair) => reversed(pair, "startsWith", text),
            ExprKind::EndsWith(pair) => reversed(pair, "endsWith", text),
            ExprKind::FirstOf(list) => {
                let mut before = list.iter().rev().skip(1);
                before.any(|option| !may_be_absent(option)).then_some(SuspiciousCall::UnusedDefault)
            }
            _ => None,
        };
        found.extend(call.map(|call| (expr.start as usize, call)));
        pending.extend(expr.children());
    }
    found
}

/// Whether `|` may pass over an expression: other expressions than these fail without their attributes.
fn may_be_absent(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Attribute(_) | ExprKind::Entry(_) | ExprKind::Index(_))
}

/// A test of a constant with a text from an attribute: its operands were probably exchanged.
fn reversed(pair: &[Expr; 2], function: &'static str, text: &str) -> Option<SuspiciousCall> {
    let [subject, operand] = pair;
    let is_constant = |expr: &Expr| matches!(expr.kind, ExprKind::Literal(_));
    if !is_constant(subject) || is_constant(operand) {
        return None;
    }
    let (subject, operand) = (subject.source(text), operand.source(text));
    let meant = match function {
        "match" => format!("match({operand}, {subject})"),
        _ => format!("{operand}.{function}({subject})"),
    };
    Some(SuspiciousCall::ReversedArguments { function, meant })
}

/// The tests of texts with constants.
pub(super) fn text_tests<'p>(root: &'p Expr, source: &'p str) -> Vec<TextTest<'p>> {
    let mut found = Vec::new();
    let mut pending = vec![(root, false)];
    while let Some((expr, is_negated)) = pending.pop() {
        // `(a == "x") == false`
        let is_negated =
            is_negated || matches!(expr.kind, ExprKind::Compare { operands: Operands::Bool, .. });
        found.extend(text_test(expr, source).map(|test| TextTest { is_negated, ..test }));
        pending.extend(expr.children().iter().rev().map(|child| (child, is_negated)));
    }
    found
}

/// The test that a node is, but not those below it.
fn text_test<'p>(expr: &'p Expr, source: &'p str) -> Option<TextTest<'p>> {
    let kind_of = |expected: &bool| if *expected { TextTestKind::Equal } else { TextTestKind::NotEqual };
    let test = |kind, text| TextTest {
        operands: Vec::new(),
        is_lower: false,
        subject: None,
        kind,
        text,
        pattern: None,
        is_negated: false,
        offset: Some(expr.start as usize),
    };
    let of = |read| vec![Operand { read, form: Form::Whole, default: None, default_address: None }];
    let (subject, test) = match &expr.kind {
        ExprKind::AttributeIs { attribute, constant, expected } => {
            let operands = of(Read { slot: attribute.slot, key: None });
            return Some(TextTest { operands, ..test(kind_of(expected), Cow::Borrowed(constant)) });
        }
        ExprKind::EntryIs { entry, constant, expected } => {
            let operands = of(Read { slot: entry.map.slot, key: Some(&entry.key) });
            return Some(TextTest { operands, ..test(kind_of(expected), Cow::Borrowed(constant)) });
        }
        ExprKind::Compare { comparison, operands: Operands::Bytes, pair } => {
            let kind = match comparison {
                Comparison::Equal => TextTestKind::Equal,
                Comparison::NotEqual => TextTestKind::NotEqual,
                _ => return None,
            };
            let [left, right] = &**pair;
            match (text_of(left), text_of(right)) {
                (None, Some(text)) => (left, test(kind, Cow::Borrowed(text))),
                (Some(text), None) => (right, test(kind, Cow::Borrowed(text))),
                _ => return None,
            }
        }
        ExprKind::MatchesGlob { subject, glob } => {
            let pattern = match glob {
                Glob::Exact(text) => Cow::Borrowed(&**text),
                Glob::Prefix(text) => Cow::Owned([text, &b"*"[..]].concat()),
                Glob::Suffix(text) => Cow::Owned([&b"*"[..], text].concat()),
            };
            (&**subject, test(TextTestKind::Glob, pattern))
        }
        ExprKind::StartsWith(pair) | ExprKind::EndsWith(pair) => {
            let [subject, affix] = &**pair;
            let is_start = matches!(expr.kind, ExprKind::StartsWith(_));
            let kind = if is_start { TextTestKind::Start } else { TextTestKind::End };
            (subject, test(kind, Cow::Borrowed(text_of(affix)?)))
        }
        ExprKind::MatchesRegex { regex, subject } => {
            let regex = regex.as_ref().as_ref().ok()?;
            let kind = TextTestKind::Regex { fixes_the_end: regex.fixes_the_end() };
            let test = test(kind, Cow::Owned(regex.leading_text().into_bytes()));
            (&**subject, TextTest { pattern: Some(regex.facts()), ..test })
        }
        _ => return None,
    };
    if text_of(subject).is_some() {
        return None;
    }
    let is_lower = matches!(subject.kind, ExprKind::Apply { function: Unary::ToLower, .. });
    Some(TextTest { operands: operands(subject), is_lower, subject: Some(subject.source(source)), ..test })
}

/// A constant text.
fn text_of(expr: &Expr) -> Option<&[u8]> {
    match &expr.kind {
        ExprKind::Literal(Literal::Bytes(text)) => Some(text),
        _ => None,
    }
}

/// What a text, or the end of it, is read from.
pub(super) fn operands(text: &Expr) -> Vec<Operand<'_>> {
    let mut found = Vec::new();
    let mut pending = vec![(text, Form::Whole)];
    for _ in 0..MAX_OPERANDS {
        let Some((expr, form)) = pending.pop() else { break };
        if let Some(read) = subject(expr) {
            let default = match &expr.kind {
                ExprKind::AttributeOr { default: Literal::Bytes(text), .. }
                | ExprKind::EntryOr { default: Literal::Bytes(text), .. } => Some(&**text),
                _ => None,
            };
            let default_address = match &expr.kind {
                ExprKind::AttributeOr { default: Literal::Address(address), .. } => Some(*address),
                _ => None,
            };
            found.push(Operand { read, form, default, default_address });
            continue;
        }
        let operands: &[Expr] = match &expr.kind {
            ExprKind::Apply { function: Unary::ToLower, argument } => {
                pending.push((argument, form.lower()));
                continue;
            }
            ExprKind::Conditional(triple) | ExprKind::ConditionalString(triple) => {
                let [_, branches @ ..] = &**triple;
                branches
            }
            ExprKind::FirstOf(list) => list,
            ExprKind::Concat(list) => list.last().map_or(&[][..], std::slice::from_ref),
            _ => continue,
        };
        pending.extend(operands.iter().rev().map(|operand| (operand, Form::Part)));
    }
    found
}

/// The attribute or entry that an expression reads, also with a constant default.
fn subject(expr: &Expr) -> Option<Read<'_>> {
    match &expr.kind {
        ExprKind::Attribute(attribute) | ExprKind::AttributeOr { attribute, .. } => {
            Some(Read { slot: attribute.slot, key: None })
        }
        ExprKind::Entry(entry) | ExprKind::EntryOr { entry, .. } => {
            Some(Read { slot: entry.map.slot, key: Some(&entry.key) })
        }
        _ => None,
    }
}

/// The attributes and entries whose absence fails the evaluation, in evaluation order.
fn strict_reads(root: &Expr) -> Vec<Read<'_>> {
    let mut reads = Vec::new();
    let mut pending = vec![root];
    while let Some(expr) = pending.pop() {
        match &expr.kind {
            ExprKind::Attribute(Attribute { slot, .. })
            | ExprKind::AttributeIs { attribute: Attribute { slot, .. }, .. } => {
                reads.push(Read { slot: *slot, key: None });
            }
            ExprKind::Entry(MapEntry { map, key })
            | ExprKind::EntryIs { entry: MapEntry { map, key }, .. } => {
                reads.push(Read { slot: map.slot, key: Some(key) });
            }
            // What is on the left of `|` may still be an argument of a function.
            ExprKind::FirstOf(list) => {
                let is_attempt = |expr: &&Expr| {
                    matches!(expr.kind, ExprKind::Attribute(_) | ExprKind::Entry(_) | ExprKind::Index(_))
                };
                pending.extend(list.last());
                pending.extend(list.iter().rev().skip(1).filter(|expr| !is_attempt(expr)));
            }
            _ => pending.extend(expr.children().iter().rev()),
        }
    }
    reads
}

/// The tests of a node, but not of those below it, that compare an attribute or entry with a constant.
fn constants<'p>(expr: &'p Expr, out: &mut Vec<(Read<'p>, Constant<'p>)>) {
    match &expr.kind {
        ExprKind::AttributeIs { attribute, constant, .. } => {
            out.push((Read { slot: attribute.slot, key: None }, Constant::Text(constant)));
        }
        ExprKind::EntryIs { entry, constant, .. } => {
            out.push((Read { slot: entry.map.slot, key: Some(&entry.key) }, Constant::Text(constant)));
        }
        ExprKind::Compare { pair, .. } => {
            let [left, right] = &**pair;
            let found = match (subject(left), &right.kind, subject(right), &left.kind) {
                (Some(read), ExprKind::Literal(literal), _, _)
                | (_, _, Some(read), ExprKind::Literal(literal)) => constant(literal).map(|c| (read, c)),
                _ => None,
            };
            out.extend(found);
        }
        ExprKind::MatchesGlob { subject: inner, glob } => {
            let constant = match glob {
                Glob::Prefix(text) => Constant::Prefix(text),
                Glob::Suffix(text) => Constant::Suffix(text),
                Glob::Exact(text) => Constant::Text(text),
            };
            out.extend(subject(inner).map(|read| (read, constant)));
        }
        ExprKind::StartsWith(pair) | ExprKind::EndsWith(pair) => {
            let is_prefix = matches!(expr.kind, ExprKind::StartsWith(_));
            if let [inner, Expr { kind: ExprKind::Literal(Literal::Bytes(text)), .. }] = &**pair {
                let constant = if is_prefix { Constant::Prefix(text) } else { Constant::Suffix(text) };
                out.extend(subject(inner).map(|read| (read, constant)));
            }
        }
        // A BOOL attribute that is a condition itself.
        ExprKind::All(list) | ExprKind::Any(list) => {
            let flags = list.iter().filter(|e| matches!(e.kind, ExprKind::Attribute(_)));
            out.extend(flags.filter_map(|e| Some((subject(e)?, Constant::Bool))));
        }
        _ => {}
    }
}

fn constant(literal: &Literal) -> Option<Constant<'_>> {
    Some(match literal {
        Literal::Bytes(text) => Constant::Text(text),
        Literal::Int64(number) => Constant::Int(*number),
        Literal::Bool(_) => Constant::Bool,
        _ => return None,
    })
}

/// Evaluates under an assumption.
struct Walk<'a, 'w> {
    assumption: &'a Assumption<'w>,
}

impl<'w> Walk<'_, 'w> {
    fn truths(&self, expr: &'w Expr, depth: u32) -> Truths {
        match &expr.kind {
            _ if depth > MAX_DEPTH => Truths::of(&Cases::any()),
            ExprKind::All(list) => self.chain(list, false, depth),
            ExprKind::Any(list) => self.chain(list, true, depth),
            _ => Truths::of(&self.cases(expr, depth)),
        }
    }

    fn chain(&self, list: &'w [Expr], decisive: bool, depth: u32) -> Truths {
        let mut operands = list.iter().map(|operand| self.truths(operand, depth + 1));
        let first = operands.next().unwrap_or_default();
        operands.fold(first, |left, right| left.then(right, decisive))
    }

    fn cases(&self, expr: &'w Expr, depth: u32) -> Cases<'w> {
        let below = depth + 1;
        match &expr.kind {
            _ if depth > MAX_DEPTH => Cases::any(),
            _ if self.assumption.is_failure_of(Call::of(expr)) => Cases::one(Case::Fails(Fact::Any)),
            ExprKind::Literal(literal) => Cases::one(Case::Is(fact(literal))),
            ExprKind::Attribute(attribute) => Cases::one(self.attribute(*attribute)),
            ExprKind::AttributeOr { attribute, default } => match self.assumption.attribute(attribute.slot) {
                Some(State::Absent) => Cases::one(Case::Is(fact(default))),
                _ => Cases::one(self.attribute(*attribute)),
            },
            ExprKind::Entry(entry) => Cases::one(self.entry(entry)),
            ExprKind::EntryOr { entry, default } => match self.assumption.entry(entry.map.slot, &entry.key) {
                Some(State::Absent) => Cases::one(Case::Is(fact(default))),
                _ => Cases::one(self.entry(entry)),
            },
            ExprKind::Index(pair) => self.opaque(pair.as_slice(), below),
            ExprKind::FirstOf(list) => self.first_of(list, below),
            ExprKind::Conditional(triple) | ExprKind::ConditionalString(triple) => {
                self.conditional(triple, matches!(expr.kind, ExprKind::ConditionalString(_)), below)
            }
            ExprKind::All(_) | ExprKind::Any(_) => self.truths(expr, depth).cases(),
            ExprKind::AttributeIs { attribute, constant, expected } => {
                self.is(self.attribute(*attribute), constant, *expected)
            }
            ExprKind::EntryIs { entry, constant, expected } => {
                self.is(self.entry(entry), constant, *expected)
            }
            ExprKind::Compare { comparison, operands, pair } => {
                self.compare(*comparison, *operands, pair, below)
            }
            ExprKind::MatchesGlob { subject, glob } => {
                analysis::test(&self.cases(subject, below), |text| glob.matches(text))
            }
            ExprKind::MatchesRegex { regex, subject } => match &**regex {
                Ok(regex) => analysis::test_absent(&self.cases(subject, below), |text| regex.is_match(text)),
                Err(_) => Cases::any(),
            },
            ExprKind::StartsWith(pair) => self.affix(pair, below, |text, affix| text.starts_with(affix)),
            ExprKind::EndsWith(pair) => self.affix(pair, below, |text, affix| text.ends_with(affix)),
            ExprKind::Apply { function: Unary::ToLower, argument } => {
                self.cases(argument, below).map(|case| match case {
                    Case::Fails(Fact::Text(b"")) => Fact::Text(b""),
                    _ => Fact::Any,
                })
            }
            _ => self.opaque(expr.children(), below),
        }
    }

    fn attribute(&self, attribute: Attribute) -> Case<'w> {
        match self.assumption.attribute(attribute.slot) {
            Some(State::Absent) => Case::Fails(analysis::empty(attribute.value_type)),
            Some(State::Is(fact)) => Case::Is(fact),
            None => Case::Is(Fact::Any),
        }
    }

    /// An entry of a map: a missing one is empty, unless the whole map is absent.
    fn entry(&self, entry: &MapEntry) -> Case<'w> {
        match self.assumption.entry(entry.map.slot, &entry.key) {
            Some(State::Absent) if self.assumption.attribute(entry.map.slot).is_some() => {
                Case::Fails(Fact::Text(b""))
            }
            Some(State::Absent) => Case::Is(Fact::Text(b"")),
            Some(State::Is(fact)) => Case::Is(fact),
            None => Case::Is(Fact::Any),
        }
    }

    fn is(&self, subject: Case<'w>, constant: &'w [u8], expected: bool) -> Cases<'w> {
        let order = if expected { Order::Equal } else { Order::NotEqual };
        self.assumption.compare(order, &Cases::one(subject), &Cases::one(Case::Is(Fact::Text(constant))))
    }

    fn compare(
        &self,
        comparison: Comparison,
        operands: Operands,
        [left, right]: &'w [Expr; 2],
        depth: u32,
    ) -> Cases<'w> {
        let order = match comparison {
            Comparison::Equal => Order::Equal,
            Comparison::NotEqual => Order::NotEqual,
            Comparison::Less => Order::Less,
            Comparison::LessOrEqual => Order::LessOrEqual,
            Comparison::Greater => Order::Greater,
            Comparison::GreaterOrEqual => Order::GreaterOrEqual,
        };
        let (left, right) = (self.cases(left, depth), self.cases(right, depth));
        match operands {
            Operands::Bytes | Operands::Int64 | Operands::Bool => {
                self.assumption.compare(order, &left, &right)
            }
            // Equal texts are equal names; different ones may be, too.
            _ => {
                let unknown = |cases: &Cases<'w>| cases.map(|_| Fact::Any);
                self.assumption.compare(order, &unknown(&left), &unknown(&right))
            }
        }
    }

    fn affix(
        &self,
        [subject, affix]: &'w [Expr; 2],
        depth: u32,
        holds: fn(&[u8], &[u8]) -> bool,
    ) -> Cases<'w> {
        let subject = self.cases(subject, depth);
        match &affix.kind {
            ExprKind::Literal(Literal::Bytes(affix)) => analysis::test(&subject, |text| holds(text, affix)),
            _ => Cases::opaque([&subject, &self.cases(affix, depth)]),
        }
    }

    fn conditional(
        &self,
        [test, then, otherwise]: &'w [Expr; 3],
        evaluates_both: bool,
        depth: u32,
    ) -> Cases<'w> {
        let test = self.truths(test, depth).cases();
        let (then, otherwise) = (self.cases(then, depth), self.cases(otherwise, depth));
        let mut cases = self.untracked(Cases::choose(&test, &then, &otherwise));
        if evaluates_both && (then.may_fail() || otherwise.may_fail()) {
            cases.push(Case::Fails(Fact::Any));
        }
        cases
    }

    fn first_of(&self, list: &'w [Expr], depth: u32) -> Cases<'w> {
        let mut cases = Cases::default();
        for (at, option) in list.iter().enumerate() {
            let absent = match &option.kind {
                ExprKind::Attribute(attribute) => self.assumption.attribute(attribute.slot),
                ExprKind::Entry(entry) => self.assumption.entry(entry.map.slot, &entry.key),
                _ => None,
            };
            if at + 1 < list.len() && absent == Some(State::Absent) {
                continue;
            }
            let found = match &option.kind {
                ExprKind::Index(_) if at + 1 < list.len() => Cases::any(),
                _ => self.cases(option, depth),
            };
            cases.extend(found.iter());
            // The other options count only if those before them are absent, too.
            let is_attempt = matches!(
                option.kind,
                ExprKind::Attribute(_) | ExprKind::Entry(_) | ExprKind::Index(_) | ExprKind::FirstOf(_)
            );
            if self.assumption.is_of_value() || !is_attempt {
                break;
            }
        }
        self.untracked(cases)
    }

    /// The candidates for a value cover direct comparisons with constants only: other results have any value.
    fn untracked(&self, cases: Cases<'w>) -> Cases<'w> {
        if self.assumption.is_of_value() { cases.map(|_| Fact::Any) } else { cases }
    }

    fn opaque(&self, operands: &'w [Expr], depth: u32) -> Cases<'w> {
        let operands: Vec<_> = operands.iter().map(|operand| self.cases(operand, depth)).collect();
        Cases::opaque(&operands)
    }
}

fn fact(literal: &Literal) -> Fact<'_> {
    match literal {
        Literal::Bytes(text) => Fact::Text(text),
        Literal::Int64(number) => Fact::Int(*number),
        Literal::Bool(value) => Fact::Bool(*value),
        _ => Fact::Any,
    }
}
