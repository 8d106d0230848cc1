//! Finds the conditions that can hold without evaluating all of them.
//!
//! Conditions that begin with a test of the same attribute (`destination.service == "a"`, `request.headers["x"] == "b"`, a prefix
//! of `request.path`) are grouped behind one look-up of its value; those that share their second test likewise, and so on. A
//! condition whose tests are all look-ups is never evaluated. Because a test reads its attribute whatever the constant, the
//! references are those of evaluating every condition: the same attribute is read, and nothing behind a test that fails.
//!
//! An index is changed condition by condition. The unchanged part is shared with the previous index.

use std::sync::Arc;

use super::branches::Branches;
use super::condition::{SharedCondition, address};
use mixer_attribute::{AttributeBag, SlotId, Value};
use mixer_base::shared_map::SharedMap;
use mixer_expr::{Conjunct, EvalError, Program};

/// Fewest conditions for which a look-up is cheaper than evaluation.
const MIN_LOOKUP_CONDITIONS: usize = 3;
/// Most tests of one condition that are looked up; the rest is evaluated.
const MAX_DEPTH: usize = 16;

/// Conditions grouped by their leading tests.
#[derive(Debug, Clone, Default)]
pub(super) struct PredicateIndex {
    root: Node,
}

/// Conditions that share all tests so far.
#[derive(Debug, Clone, Default)]
struct Node {
    /// Evaluated as a whole: the next test cannot be looked up.
    opaque: SharedMap<Arc<SharedCondition>>,
    /// Evaluated as a whole: too few conditions test the same subject next.
    few: Vec<Arc<SharedCondition>>,
    lookups: Vec<Lookup>,
}

/// The attribute or map entry that a test reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Text(SlotId),
    Number(SlotId),
    Bool(SlotId),
    MapEntry(SlotId, Box<[u8]>),
}

/// Conditions whose next test reads the same subject.
#[derive(Debug, Clone)]
struct Lookup {
    subject: Subject,
    /// Number of conditions behind the look-up: all of them fail if it does.
    conditions: usize,
    equal: Branches<Branch>,
    /// By length of the prefix.
    prefixes: Vec<(usize, Branches<Branch>)>,
}

/// The conditions behind a passed test; nearly always one.
#[derive(Debug, Clone)]
enum Branch {
    /// It has no further test: it is true.
    Decided(Arc<SharedCondition>),
    /// It is evaluated as a whole.
    One(Arc<SharedCondition>),
    Many(Arc<Fork>),
}

/// Several conditions behind a passed test.
#[derive(Debug, Clone, Default)]
struct Fork {
    /// Conditions without a further test: they are true.
    decided: Vec<Arc<SharedCondition>>,
    next: Node,
}

/// A test of one condition that can be looked up.
enum LookupTest {
    Equal(Subject, Box<[u8]>),
    Prefix(Subject, Box<[u8]>),
}

impl LookupTest {
    fn of(conjunct: &Conjunct<'_>) -> Option<Self> {
        Some(match *conjunct {
            Conjunct::AttributeEquals { slot, constant } => {
                LookupTest::Equal(Subject::Text(slot), constant.into())
            }
            Conjunct::AttributeEqualsInt64 { slot, constant } => {
                LookupTest::Equal(Subject::Number(slot), constant.to_le_bytes().into())
            }
            Conjunct::AttributeEqualsBool { slot, constant } => {
                LookupTest::Equal(Subject::Bool(slot), [u8::from(constant)].into())
            }
            Conjunct::MapKeyEquals { slot, key, constant } => {
                LookupTest::Equal(Subject::MapEntry(slot, key.into()), constant.into())
            }
            Conjunct::AttributePrefix { slot, prefix } => {
                LookupTest::Prefix(Subject::Text(slot), prefix.into())
            }
            Conjunct::Other => return None,
        })
    }

    /// The test number `depth`, if it can be looked up.
    fn at(conjuncts: &[Conjunct<'_>], depth: usize) -> Option<Self> {
        conjuncts.get(depth).filter(|_| depth < MAX_DEPTH).and_then(LookupTest::of)
    }

    fn subject(&self) -> &Subject {
        let (LookupTest::Equal(subject, _) | LookupTest::Prefix(subject, _)) = self;
        subject
    }
}

/// What evaluating conditions took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Evaluations {
    /// Conditions that failed.
    pub(super) failures: usize,
    /// Look-ups and evaluations.
    pub(super) count: usize,
}

impl std::ops::AddAssign for Evaluations {
    fn add_assign(&mut self, other: Self) {
        self.failures += other.failures;
        self.count += other.count;
    }
}

impl PredicateIndex {
    /// Adds a condition whose program is not in the index.
    pub(super) fn put(&mut self, condition: Arc<SharedCondition>) {
        if condition.handles_errors() {
            self.root.opaque.put(condition);
        } else {
            let program = Arc::clone(&condition.program);
            self.root.put(condition, &program.conjuncts(), 0);
        }
    }

    /// Removes the condition of a program, if it is in the index.
    pub(super) fn take(&mut self, program: &Arc<Program>) -> Option<Arc<SharedCondition>> {
        let address = address(program);
        match self.root.opaque.remove(&address) {
            Some(condition) => Some(condition),
            None => self.root.take(address, &program.conjuncts(), 0),
        }
    }

    /// Calls `hit` for every condition that is true, and for every one that was evaluated and failed; that is every failed one with a route
    /// that handles errors. References are recorded as if every condition were evaluated.
    pub(super) fn evaluate<'t: 'a, 'a>(
        &'t self,
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> Evaluations {
        self.root.evaluate(bag, hit)
    }
}

/// Evaluates a condition as a whole.
fn evaluate_whole<'t: 'a, 'a>(
    condition: &'t SharedCondition,
    bag: &AttributeBag<'a>,
    hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
) -> Evaluations {
    match condition.program.eval(bag) {
        Ok(Value::Bool(true)) => hit(condition, None),
        Ok(_) => {}
        Err(error) => {
            hit(condition, Some(error));
            return Evaluations { failures: 1, count: 1 };
        }
    }
    Evaluations { failures: 0, count: 1 }
}

impl Node {
    fn put(&mut self, condition: Arc<SharedCondition>, conjuncts: &[Conjunct<'_>], depth: usize) {
        let Some(test) = LookupTest::at(conjuncts, depth) else {
            self.opaque.put(condition);
            return;
        };
        if let Some(lookup) = self.lookups.iter_mut().find(|lookup| lookup.subject == *test.subject()) {
            lookup.put(condition, test, conjuncts, depth);
            return;
        }
        let alike = |other: &Arc<SharedCondition>| {
            LookupTest::at(&other.program.conjuncts(), depth)
                .is_some_and(|other| other.subject() == test.subject())
        };
        if self.few.iter().filter(|other| alike(other)).count() + 1 < MIN_LOOKUP_CONDITIONS {
            self.few.push(condition);
            return;
        }
        let mut lookup = Lookup::new(test.subject().clone());
        for other in self.few.extract_if(.., |other| alike(other)) {
            let program = Arc::clone(&other.program);
            let conjuncts = program.conjuncts();
            if let Some(test) = LookupTest::at(&conjuncts, depth) {
                lookup.put(other, test, &conjuncts, depth);
            }
        }
        lookup.put(condition, test, conjuncts, depth);
        self.lookups.push(lookup);
    }

    fn take(
        &mut self,
        address: usize,
        conjuncts: &[Conjunct<'_>],
        depth: usize,
    ) -> Option<Arc<SharedCondition>> {
        let Some(test) = LookupTest::at(conjuncts, depth) else { return self.opaque.remove(&address) };
        if let Some(at) = self.lookups.iter().position(|lookup| lookup.subject == *test.subject()) {
            let lookup = self.lookups.get_mut(at)?;
            let taken = lookup.take(address, &test, conjuncts, depth)?;
            if lookup.conditions == 0 {
                self.lookups.remove(at);
            }
            return Some(taken);
        }
        take_from(&mut self.few, address)
    }

    fn is_empty(&self) -> bool {
        self.opaque.is_empty() && self.few.is_empty() && self.lookups.is_empty()
    }

    fn evaluate<'t: 'a, 'a>(
        &'t self,
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> Evaluations {
        let mut all = Evaluations::default();
        for condition in self.opaque.iter().chain(&self.few) {
            all += evaluate_whole(condition, bag, hit);
        }
        for lookup in &self.lookups {
            all += lookup.evaluate(bag, hit);
        }
        all
    }
}

fn take_from(list: &mut Vec<Arc<SharedCondition>>, address: usize) -> Option<Arc<SharedCondition>> {
    let at = list.iter().position(|condition| self::address(&condition.program) == address)?;
    Some(list.swap_remove(at))
}

impl Lookup {
    fn new(subject: Subject) -> Self {
        Self { subject, conditions: 0, equal: Branches::default(), prefixes: Vec::new() }
    }

    fn put(
        &mut self,
        condition: Arc<SharedCondition>,
        test: LookupTest,
        conjuncts: &[Conjunct<'_>],
        depth: usize,
    ) {
        self.conditions += 1;
        let (branches, text) = match test {
            LookupTest::Equal(_, text) => (&mut self.equal, text),
            LookupTest::Prefix(_, text) => {
                let at = self.prefixes.partition_point(|(length, _)| *length < text.len());
                if self.prefixes.get(at).is_none_or(|(length, _)| *length != text.len()) {
                    self.prefixes.insert(at, (text.len(), Branches::default()));
                }
                let Some((_, branches)) = self.prefixes.get_mut(at) else { return };
                (branches, text)
            }
        };
        match branches.get_mut(&text) {
            Some(branch) => branch.put(condition, conjuncts, depth + 1),
            None => branches.insert(text, Branch::to(condition, conjuncts, depth + 1)),
        }
    }

    fn take(
        &mut self,
        address: usize,
        test: &LookupTest,
        conjuncts: &[Conjunct<'_>],
        depth: usize,
    ) -> Option<Arc<SharedCondition>> {
        let (at, text) = match test {
            LookupTest::Equal(_, text) => (None, text),
            LookupTest::Prefix(_, text) => {
                (Some(self.prefixes.iter().position(|(length, _)| *length == text.len())?), text)
            }
        };
        let branches = match at {
            None => &mut self.equal,
            Some(at) => &mut self.prefixes.get_mut(at)?.1,
        };
        let (taken, is_empty) = branches.get_mut(text)?.take(address, conjuncts, depth + 1)?;
        if is_empty {
            branches.remove(text);
        }
        if let Some(at) = at.filter(|_| branches.len() == 0) {
            self.prefixes.remove(at);
        }
        self.conditions -= 1;
        Some(taken)
    }

    /// Reads the subject and follows the branches of its value.
    fn evaluate<'t: 'a, 'a>(
        &'t self,
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> Evaluations {
        match (&self.subject, self.subject.read(bag)) {
            (Subject::Text(_), Some(Value::String(text))) => self.follow(text, bag, hit),
            (Subject::Number(_), Some(Value::Int64(number))) => self.follow(&number.to_le_bytes(), bag, hit),
            (Subject::Number(_), Some(Value::Duration(duration))) => {
                self.follow(&duration.nanos.to_le_bytes(), bag, hit)
            }
            (Subject::Bool(_), Some(Value::Bool(flag))) => self.follow(&[u8::from(flag)], bag, hit),
            (Subject::MapEntry(_, key), Some(Value::StringMap(map))) => {
                // compat(1.3): a missing key is the empty string.
                let text = bag.lookup(map, key).unwrap_or_default();
                self.follow(text, bag, hit)
            }
            // Absent, or not of the declared type: an error in every one of these conditions.
            _ => Evaluations { failures: self.conditions, count: 1 },
        }
    }

    fn follow<'t: 'a, 'a>(
        &'t self,
        value: &[u8],
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> Evaluations {
        let mut all = Evaluations { failures: 0, count: 1 + self.prefixes.len() };
        if let Some(branch) = self.equal.get(value) {
            all += branch.evaluate(bag, hit);
        }
        for (length, branches) in &self.prefixes {
            let Some(prefix) = value.get(..*length) else { break };
            if let Some(branch) = branches.get(prefix) {
                all += branch.evaluate(bag, hit);
            }
        }
        all
    }
}

impl Subject {
    /// Reads, and so records, the attribute. The caller reads the map key.
    fn read<'a>(&self, bag: &AttributeBag<'a>) -> Option<Value<'a>> {
        let (Subject::Text(slot) | Subject::Number(slot) | Subject::Bool(slot) | Subject::MapEntry(slot, _)) =
            self;
        bag.get(*slot)
    }
}

impl Branch {
    /// A branch to one condition whose tests before `depth` passed.
    fn to(condition: Arc<SharedCondition>, conjuncts: &[Conjunct<'_>], depth: usize) -> Self {
        if conjuncts.len() <= depth { Branch::Decided(condition) } else { Branch::One(condition) }
    }

    fn put(&mut self, condition: Arc<SharedCondition>, conjuncts: &[Conjunct<'_>], depth: usize) {
        let first = match self {
            Branch::Many(fork) => {
                Arc::make_mut(fork).put(condition, conjuncts, depth);
                return;
            }
            Branch::Decided(first) | Branch::One(first) => Arc::clone(first),
        };
        let mut fork = Fork::default();
        let program = Arc::clone(&first.program);
        fork.put(first, &program.conjuncts(), depth);
        fork.put(condition, conjuncts, depth);
        *self = Branch::Many(Arc::new(fork));
    }

    /// Removes a condition. Returns it, and whether it was the last one.
    fn take(
        &mut self,
        address: usize,
        conjuncts: &[Conjunct<'_>],
        depth: usize,
    ) -> Option<(Arc<SharedCondition>, bool)> {
        match self {
            Branch::Decided(one) | Branch::One(one) => {
                (self::address(&one.program) == address).then(|| (Arc::clone(one), true))
            }
            Branch::Many(fork) => {
                let fork = Arc::make_mut(fork);
                let taken = if conjuncts.len() <= depth {
                    take_from(&mut fork.decided, address)?
                } else {
                    fork.next.take(address, conjuncts, depth)?
                };
                Some((taken, fork.decided.is_empty() && fork.next.is_empty()))
            }
        }
    }

    fn evaluate<'t: 'a, 'a>(
        &'t self,
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> Evaluations {
        match self {
            Branch::Decided(condition) => {
                hit(condition, None);
                Evaluations { failures: 0, count: 1 }
            }
            Branch::One(condition) => evaluate_whole(condition, bag, hit),
            Branch::Many(fork) => {
                for condition in &fork.decided {
                    hit(condition, None);
                }
                let mut all = Evaluations { failures: 0, count: fork.decided.len() };
                all += fork.next.evaluate(bag, hit);
                all
            }
        }
    }
}

impl Fork {
    fn put(&mut self, condition: Arc<SharedCondition>, conjuncts: &[Conjunct<'_>], depth: usize) {
        if conjuncts.len() <= depth {
            self.decided.push(condition);
        } else {
            self.next.put(condition, conjuncts, depth);
        }
    }
}
