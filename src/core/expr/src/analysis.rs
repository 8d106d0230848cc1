//! Static analysis of conditions: what is possible if one attribute is absent, or has one value, or is malformed.
//!
//! The engines evaluate a program over sets of [`Case`]s under one [`Assumption`]; every other attribute is present with any
//! value. A case of an evaluation that fails, because the attribute is absent, carries the value that the expression would have if
//! the attribute had the empty value of its type instead; of one that fails because a text is malformed, any value. The cost of a program is linear in its size: the number of
//! assumptions is bounded by the constants below. Beyond them nothing is reported.

mod texts;

use bumpalo::Bump;

use mixer_attribute::{SlotId, ValueType};

pub use texts::{Form, Operand, TextTest, TextTestKind};

/// Largest program that is examined, in nodes.
pub(crate) const MAX_NODES: usize = 1024;
/// Most attributes of one condition whose absence is examined, and most calls whose failure is.
pub(crate) const MAX_SUBJECTS: usize = 16;
/// Most attributes of one condition whose values are tried.
const MAX_TRIED: usize = 4;
/// Most values of one attribute that are tried.
const MAX_CANDIDATES: usize = 32;
/// Most tests of one condition that are compared with each other.
const MAX_TESTS: usize = 256;
/// Most cases of one value; beyond them its value is unknown.
const MAX_CASES: usize = 16;
/// Most operands that are followed from a test to the texts that it reads.
pub(crate) const MAX_OPERANDS: usize = 64;
/// Deepest nesting that is examined; what is below has any value.
pub(crate) const MAX_DEPTH: u32 = 64;
/// A text that no constant contains.
const OTHER_TEXT: &[u8] = b"\x01\x02other\x02\x01";

/// An attribute, or one entry of a map, that a program may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Read<'p> {
    /// The attribute.
    pub slot: SlotId,
    /// The constant key, if only this entry of the map is read.
    pub key: Option<&'p [u8]>,
}

/// A conversion of a text, which fails if the text is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversion<'p> {
    /// The attribute or entry that has the text, or a part of it.
    pub read: Read<'p>,
    /// What the text must be: `DNS name`.
    pub expected: &'static str,
    /// Where it is in the expression, in bytes, if that is known.
    pub(crate) offset: Option<usize>,
}

/// A node of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call(usize);

impl Call {
    /// The identity of a node, while its program is not moved.
    pub(crate) fn of<N>(node: &N) -> Self {
        Self(std::ptr::from_ref(node).addr())
    }
}

/// A finding about a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// It is false, or fails, whatever the attribute holds.
    Never,
    /// It is true whatever the attribute holds.
    Always,
}

/// A suspicious call in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuspiciousCall {
    /// `matches` of a constant subject with a pattern from an attribute. Holds the call with both exchanged.
    ReversedMatches {
        /// The call as it was probably meant.
        meant: String,
    },
    /// A test of a constant text with a text from an attribute. Holds the call with both exchanged.
    ReversedArguments {
        /// The function.
        function: &'static str,
        /// The call as it was probably meant.
        meant: String,
    },
    /// `|` behind what is never absent: a constant, a test, or what has a default.
    UnusedDefault,
    /// A comparison of a part of a time with a constant, whose result does not depend on the time.
    OutOfRange {
        /// The function that yields the part.
        function: &'static str,
        /// The least value of the part.
        least: i64,
        /// The greatest one.
        most: i64,
        /// The constant.
        constant: i64,
        /// How the part is counted.
        note: &'static str,
        /// The result.
        decided: Decided,
    },
}

/// What an expression yields, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact<'w> {
    Text(&'w [u8]),
    Int(i64),
    Bool(bool),
    /// A value that the analysis does not follow.
    Any,
}

/// One possible result of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case<'w> {
    /// It has this value.
    Is(Fact<'w>),
    /// It fails because the attribute is absent. With the empty value instead it would have this value.
    Fails(Fact<'w>),
}

impl<'w> Case<'w> {
    pub(crate) fn fact(self) -> Fact<'w> {
        match self {
            Case::Is(fact) | Case::Fails(fact) => fact,
        }
    }

    /// The case of a result that is computed from this case and others, of which some fail if `fails`.
    fn of(fails: bool, fact: Fact<'w>) -> Self {
        if fails { Case::Fails(fact) } else { Case::Is(fact) }
    }

    fn fails(self) -> bool {
        matches!(self, Case::Fails(_))
    }
}

/// All possible results of an expression.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cases<'w>(Vec<Case<'w>>);

impl<'w> Cases<'w> {
    pub(crate) fn one(case: Case<'w>) -> Self {
        Self(vec![case])
    }

    /// A value that the analysis does not follow.
    pub(crate) fn any() -> Self {
        Self::one(Case::Is(Fact::Any))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Case<'w>> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn push(&mut self, case: Case<'w>) {
        if !self.0.contains(&case) {
            self.0.push(case);
        }
        if self.0.len() > MAX_CASES {
            let fails = self.0.iter().any(|case| case.fails());
            self.0 = vec![Case::Is(Fact::Any)];
            if fails {
                self.0.push(Case::Fails(Fact::Any));
            }
        }
    }

    pub(crate) fn extend(&mut self, cases: impl IntoIterator<Item = Case<'w>>) {
        cases.into_iter().for_each(|case| self.push(case));
    }

    /// Whether the expression may fail.
    pub(crate) fn may_fail(&self) -> bool {
        self.0.iter().any(|case| case.fails())
    }

    /// The results of a function that needs this value. `fact` computes the result from the value of one case.
    pub(crate) fn map(&self, fact: impl Fn(Case<'w>) -> Fact<'w>) -> Self {
        let mut cases = Self::default();
        cases.extend(self.iter().map(|case| Case::of(case.fails(), fact(case))));
        cases
    }

    /// The results of a function that needs both values.
    pub(crate) fn zip(&self, other: &Self, fact: impl Fn(Case<'w>, Case<'w>) -> Fact<'w>) -> Self {
        let mut cases = Self::default();
        for left in self.iter() {
            cases
                .extend(other.iter().map(|right| Case::of(left.fails() || right.fails(), fact(left, right))));
        }
        cases
    }

    /// The results of functions whose values the analysis does not follow, over all of their operands.
    pub(crate) fn opaque<'c>(operands: impl IntoIterator<Item = &'c Self>) -> Self
    where
        'w: 'c,
    {
        let mut cases = Self::any();
        if operands.into_iter().any(Self::may_fail) {
            cases.push(Case::Fails(Fact::Any));
        }
        cases
    }

    /// The results of `test ? then : otherwise`.
    pub(crate) fn choose(test: &Self, then: &Self, otherwise: &Self) -> Self {
        let mut cases = Self::default();
        for (truth, case) in Truths::of(test).each() {
            let chosen = if truth { then } else { otherwise };
            cases.extend(chosen.iter().map(|c| Case::of(case || c.fails(), c.fact())));
        }
        cases
    }
}

/// The possible results of a condition: a set of pairs of its value and whether it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Truths(u8);

impl Truths {
    const fn bit(truth: bool, fails: bool) -> u8 {
        1 << (truth as u8 | (fails as u8) << 1)
    }

    /// The results of a condition with these cases.
    pub(crate) fn of(cases: &Cases<'_>) -> Self {
        let mut truths = Self::default();
        for case in cases.iter() {
            match case.fact() {
                Fact::Bool(truth) => truths.0 |= Self::bit(truth, case.fails()),
                _ => truths.0 |= Self::bit(false, case.fails()) | Self::bit(true, case.fails()),
            }
        }
        truths
    }

    pub(crate) fn cases<'w>(self) -> Cases<'w> {
        Cases(self.each().map(|(truth, fails)| Case::of(fails, Fact::Bool(truth))).collect())
    }

    /// Its pairs: the value, and whether the evaluation fails.
    fn each(self) -> impl Iterator<Item = (bool, bool)> {
        [(false, false), (true, false), (false, true), (true, true)]
            .into_iter()
            .filter(move |(truth, fails)| self.0 & Self::bit(*truth, *fails) != 0)
    }

    /// `self && right`, or `self || right` if `decisive`: the right side is not evaluated when the left one decides or fails.
    pub(crate) fn then(self, right: Self, decisive: bool) -> Self {
        self.combine(right, decisive, false)
    }

    /// The same in CEL: either side may decide, whatever the other does.
    pub(crate) fn either(self, right: Self, decisive: bool) -> Self {
        self.combine(right, decisive, true)
    }

    fn combine(self, right: Self, decisive: bool, either: bool) -> Self {
        let mut truths = Self::default();
        for (left, left_fails) in self.each() {
            if !left_fails && left == decisive {
                truths.0 |= Self::bit(decisive, false);
                continue;
            }
            for (right, right_fails) in right.each() {
                let truth = if decisive { left || right } else { left && right };
                let decided = !right_fails && right == decisive && (either || !left_fails);
                truths.0 |= Self::bit(truth, !decided && (left_fails || right_fails));
            }
        }
        truths
    }

    fn can_be(self, truth: bool, fails: bool) -> bool {
        self.0 & Self::bit(truth, fails) != 0
    }
}

/// An order of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The result of a comparison. An absent value that is compared with an unknown one counts as different from it.
fn compared<'w>(order: Order, a: Case<'w>, b: Case<'w>) -> Fact<'w> {
    let equality = matches!(order, Order::Equal | Order::NotEqual);
    match (a.fact(), b.fact()) {
        (Fact::Text(x), Fact::Text(y)) if equality => Fact::Bool((x == y) == (order == Order::Equal)),
        (Fact::Bool(x), Fact::Bool(y)) if equality => Fact::Bool((x == y) == (order == Order::Equal)),
        (Fact::Int(x), Fact::Int(y)) => Fact::Bool(match order {
            Order::Equal => x == y,
            Order::NotEqual => x != y,
            Order::Less => x < y,
            Order::LessOrEqual => x <= y,
            Order::Greater => x > y,
            Order::GreaterOrEqual => x >= y,
        }),
        _ if equality && (a.fails() || b.fails()) => Fact::Bool(order == Order::NotEqual),
        _ => Fact::Any,
    }
}

/// The results of a test of a text with a constant.
pub(crate) fn test<'w>(subject: &Cases<'w>, holds: impl Fn(&[u8]) -> bool) -> Cases<'w> {
    subject.map(|case| match case.fact() {
        Fact::Text(text) => Fact::Bool(holds(text)),
        _ => Fact::Any,
    })
}

/// The results of a test of a text whose values the candidates do not cover; known for an absent text only.
pub(crate) fn test_absent<'w>(subject: &Cases<'w>, holds: impl Fn(&[u8]) -> bool) -> Cases<'w> {
    subject.map(|case| match case {
        Case::Fails(Fact::Text(text)) => Fact::Bool(holds(text)),
        _ => Fact::Any,
    })
}

/// What is known of the subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State<'w> {
    Absent,
    Is(Fact<'w>),
}

/// What is assumed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Assumption<'w> {
    /// Of an entry of a map or, without a key, of an attribute with all its entries.
    Read(Read<'w>, State<'w>),
    /// The text of this call is malformed.
    Malformed(Call),
}

impl<'w> Assumption<'w> {
    /// What is assumed of an attribute, if anything.
    pub(crate) fn attribute(&self, slot: SlotId) -> Option<State<'w>> {
        match self {
            Assumption::Read(read, state) => (read.slot == slot && read.key.is_none()).then_some(*state),
            Assumption::Malformed(_) => None,
        }
    }

    /// What is assumed of an entry of a map, if anything.
    pub(crate) fn entry(&self, slot: SlotId, key: &[u8]) -> Option<State<'w>> {
        match self {
            Assumption::Read(read, state) => {
                (read.slot == slot && read.key.is_none_or(|known| known == key)).then_some(*state)
            }
            Assumption::Malformed(_) => None,
        }
    }

    /// Whether it is about a value, whose candidates cover direct comparisons with constants only.
    pub(crate) fn is_of_value(&self) -> bool {
        matches!(self, Assumption::Read(_, State::Is(_)))
    }

    /// Whether it is that this call fails.
    pub(crate) fn is_failure_of(&self, call: Call) -> bool {
        matches!(self, Assumption::Malformed(failing) if *failing == call)
    }

    /// The results of a comparison.
    pub(crate) fn compare(&self, order: Order, left: &Cases<'w>, right: &Cases<'w>) -> Cases<'w> {
        left.zip(right, |a, b| match self {
            // What is malformed could have any value instead.
            Assumption::Malformed(_) if a.fails() || b.fails() => Fact::Any,
            _ => compared(order, a, b),
        })
    }
}

/// The empty value of a type.
pub(crate) fn empty(value_type: ValueType) -> Fact<'static> {
    match value_type {
        ValueType::String => Fact::Text(b""),
        ValueType::Int64 => Fact::Int(0),
        ValueType::Bool => Fact::Bool(false),
        _ => Fact::Any,
    }
}

/// A test of a subject with a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constant<'p> {
    Text(&'p [u8]),
    Prefix(&'p [u8]),
    Suffix(&'p [u8]),
    Int(i64),
    Bool,
}

/// The first subject whose absence makes `evaluate` fail where the condition would otherwise be true. `whole_maps`: an entry is
/// absent only together with its map.
pub(crate) fn skipped<'p>(
    subjects: impl IntoIterator<Item = Read<'p>>,
    whole_maps: bool,
    evaluate: impl Fn(&Assumption<'p>) -> Truths,
) -> Option<Read<'p>> {
    subjects.into_iter().take(MAX_SUBJECTS).find(|read| {
        let key = read.key.filter(|_| !whole_maps);
        evaluate(&Assumption::Read(Read { key, ..*read }, State::Absent)).can_be(true, true)
    })
}

/// The first conversion whose failure makes `evaluate` fail where the condition would otherwise be true.
pub(crate) fn skipped_by<'p>(
    calls: impl IntoIterator<Item = (Call, Conversion<'p>)>,
    evaluate: impl Fn(&Assumption<'p>) -> Truths,
) -> Option<Conversion<'p>> {
    let mut calls = calls.into_iter().take(MAX_SUBJECTS);
    let found = calls.find(|(call, _)| evaluate(&Assumption::Malformed(*call)).can_be(true, true));
    found.map(|(_, conversion)| conversion)
}

/// The first subject that decides a condition alone, whatever it holds. `tests` are the tests of all subjects in the program.
pub(crate) fn decided<'p: 'w, 'w>(
    arena: &'w Bump,
    tests: &[(Read<'p>, Constant<'p>)],
    evaluate: impl Fn(&Assumption<'w>) -> Truths,
) -> Option<(Read<'p>, Decided)> {
    let tests = tests.get(..MAX_TESTS).unwrap_or(tests);
    let mut subjects: Vec<Read<'p>> = Vec::new();
    for (at, (read, _)) in tests.iter().enumerate() {
        let again = tests.get(..at).unwrap_or_default().iter().any(|(other, _)| other == read);
        if again && !subjects.contains(read) && subjects.len() < MAX_TRIED {
            subjects.push(*read);
        }
    }
    subjects.into_iter().find_map(|subject| {
        let own: Vec<Constant<'w>> =
            tests.iter().filter(|(read, _)| *read == subject).map(|(_, constant)| *constant).collect();
        let facts = candidates(&own, arena)?.into_iter().map(State::Is);
        let mut all = Truths::default();
        for state in facts.chain([State::Absent]) {
            all.0 |= evaluate(&Assumption::Read(subject, state)).0;
        }
        match (all.can_be(true, false), all.can_be(false, false)) {
            (false, _) => Some((subject, Decided::Never)),
            (true, false) => Some((subject, Decided::Always)),
            _ => None,
        }
    })
}

/// Values that stand for all values: each combination of outcomes of the tests has one. `None` if there are too many.
fn candidates<'w>(tests: &[Constant<'w>], arena: &'w Bump) -> Option<Vec<Fact<'w>>> {
    let mut facts = Vec::new();
    let (mut prefixes, mut suffixes) = (vec![&b""[..]], vec![&b""[..]]);
    for test in tests {
        match *test {
            Constant::Int(n) => {
                facts.extend([n.saturating_sub(1), n, n.saturating_add(1)].map(Fact::Int));
            }
            Constant::Bool => facts.extend([Fact::Bool(false), Fact::Bool(true)]),
            Constant::Text(text) => facts.push(Fact::Text(text)),
            Constant::Prefix(text) => {
                facts.push(Fact::Text(text));
                prefixes.push(text);
            }
            Constant::Suffix(text) => {
                facts.push(Fact::Text(text));
                suffixes.push(text);
            }
        }
    }
    if facts.len() + prefixes.len() * suffixes.len() > MAX_CANDIDATES {
        return None;
    }
    if facts.iter().any(|fact| matches!(fact, Fact::Text(_))) {
        facts.push(Fact::Text(b""));
        for prefix in &prefixes {
            for suffix in &suffixes {
                facts.push(Fact::Text(arena.alloc_slice_copy(&[prefix, OTHER_TEXT, suffix].concat())));
            }
        }
    }
    Some(facts)
}

#[cfg(test)]
mod tests;
