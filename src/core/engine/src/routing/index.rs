//! Finds the conditions that can hold without evaluating all of them.
//!
//! Conditions that begin with a test of the same attribute (`destination.service == "a"`, `request.headers["x"] == "b"`, a prefix
//! of `request.path`) are put behind one look-up of its value; those that share their second test likewise, and so on. A condition
//! whose tests are all look-ups is never evaluated at all. Because a test reads its attribute whatever the constant, the references
//! are those of evaluating every condition: the same attribute read, and nothing behind a test that fails.
//!
//! An index is changed condition by condition. What a change does not touch is shared with the index before.

use std::sync::Arc;

use super::branches::Branches;
use super::condition::{SharedCondition, address};
use mixer_attribute::{AttributeBag, SlotId, Value};
use mixer_base::shared_map::SharedMap;
use mixer_expr::{Conjunct, EvalError, Program};

/// A look-up pays from this many conditions on.
const WORTH_A_LOOK_UP: usize = 3;
/// Tests of one condition that are looked up; the rest is evaluated.
const MAX_DEPTH: usize = 16;

/// Groups conditions by what they test first.
#[derive(Debug, Clone, Default)]
pub(super) struct PredicateIndex {
    root: Node,
}

/// Conditions that share all tests so far.
#[derive(Debug, Clone, Default)]
struct Node {
    /// Evaluated as a whole: the next test is none that can be looked up.
    opaque: SharedMap<Arc<SharedCondition>>,
    /// Evaluated as a whole: too few next test the same subject.
    few: Vec<Arc<SharedCondition>>,
    tests: Vec<Test>,
}

/// What a test reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Text(SlotId),
    Number(SlotId),
    Truth(SlotId),
    Entry(SlotId, Box<[u8]>),
}

/// Conditions that next test the same subject.
#[derive(Debug, Clone)]
struct Test {
    subject: Subject,
    /// Conditions behind this test: all of them fail if it does.
    conditions: usize,
    equal: Branches<Branch>,
    /// By length of the prefix.
    prefixes: Vec<(usize, Branches<Branch>)>,
}

/// Where a passed test leads: nearly always to one condition.
#[derive(Debug, Clone)]
enum Branch {
    /// It has no further test: it holds.
    Decided(Arc<SharedCondition>),
    /// It is evaluated as a whole.
    One(Arc<SharedCondition>),
    Many(Arc<Fork>),
}

/// Where a passed test leads to several conditions.
#[derive(Debug, Clone, Default)]
struct Fork {
    /// Conditions without a further test: they hold.
    decided: Vec<Arc<SharedCondition>>,
    next: Node,
}

/// A test of one condition, before grouping.
enum Key {
    Equal(Subject, Box<[u8]>),
    Prefix(Subject, Box<[u8]>),
}

impl Key {
    fn of(conjunct: &Conjunct<'_>) -> Option<Key> {
        Some(match *conjunct {
            Conjunct::AttributeEquals { slot, constant } => Key::Equal(Subject::Text(slot), constant.into()),
            Conjunct::AttributeEqualsInt64 { slot, constant } => {
                Key::Equal(Subject::Number(slot), constant.to_le_bytes().into())
            }
            Conjunct::AttributeEqualsBool { slot, constant } => {
                Key::Equal(Subject::Truth(slot), [u8::from(constant)].into())
            }
            Conjunct::MapKeyEquals { slot, key, constant } => {
                Key::Equal(Subject::Entry(slot, key.into()), constant.into())
            }
            Conjunct::AttributePrefix { slot, prefix } => Key::Prefix(Subject::Text(slot), prefix.into()),
            Conjunct::Other => return None,
        })
    }

    /// The test number `depth`, if it can be looked up.
    fn at(conjuncts: &[Conjunct<'_>], depth: usize) -> Option<Key> {
        conjuncts.get(depth).filter(|_| depth < MAX_DEPTH).and_then(Key::of)
    }

    fn subject(&self) -> &Subject {
        let (Key::Equal(subject, _) | Key::Prefix(subject, _)) = self;
        subject
    }
}

impl PredicateIndex {
    /// Puts a condition in whose program is not there.
    pub(super) fn put(&mut self, condition: Arc<SharedCondition>) {
        if condition.wants_errors() {
            self.root.opaque.put(condition);
        } else {
            let program = Arc::clone(&condition.program);
            self.root.put(condition, &program.conjuncts(), 0);
        }
    }

    /// Takes the condition of a program out, if it is there.
    pub(super) fn take(&mut self, program: &Arc<Program>) -> Option<Arc<SharedCondition>> {
        let address = address(program);
        match self.root.opaque.remove(&address) {
            Some(condition) => Some(condition),
            None => self.root.take(address, &program.conjuncts(), 0),
        }
    }

    /// Calls `hit` for every condition that holds, and for every one that failed and wants to hear of it. Returns the number of
    /// conditions that failed. References are recorded as if every condition were evaluated.
    pub(super) fn evaluate<'t: 'a, 'a>(
        &'t self,
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> usize {
        self.root.evaluate(bag, hit)
    }
}

/// Evaluates a condition as a whole; the number of failures.
fn evaluate_whole<'t: 'a, 'a>(
    condition: &'t SharedCondition,
    bag: &AttributeBag<'a>,
    hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
) -> usize {
    match condition.program.eval(bag) {
        Ok(Value::Bool(true)) => hit(condition, None),
        Ok(_) => {}
        Err(error) => {
            if condition.wants_errors() {
                hit(condition, Some(error));
            }
            return 1;
        }
    }
    0
}

impl Node {
    fn put(&mut self, condition: Arc<SharedCondition>, conjuncts: &[Conjunct<'_>], depth: usize) {
        let Some(key) = Key::at(conjuncts, depth) else {
            self.opaque.put(condition);
            return;
        };
        if let Some(test) = self.tests.iter_mut().find(|test| test.subject == *key.subject()) {
            test.put(condition, key, conjuncts, depth);
            return;
        }
        let alike = |other: &Arc<SharedCondition>| {
            Key::at(&other.program.conjuncts(), depth).is_some_and(|other| other.subject() == key.subject())
        };
        if self.few.iter().filter(|other| alike(other)).count() + 1 < WORTH_A_LOOK_UP {
            self.few.push(condition);
            return;
        }
        let mut test = Test::new(key.subject().clone());
        for other in self.few.extract_if(.., |other| alike(other)) {
            let program = Arc::clone(&other.program);
            let conjuncts = program.conjuncts();
            if let Some(key) = Key::at(&conjuncts, depth) {
                test.put(other, key, &conjuncts, depth);
            }
        }
        test.put(condition, key, conjuncts, depth);
        self.tests.push(test);
    }

    fn take(
        &mut self,
        address: usize,
        conjuncts: &[Conjunct<'_>],
        depth: usize,
    ) -> Option<Arc<SharedCondition>> {
        let Some(key) = Key::at(conjuncts, depth) else { return self.opaque.remove(&address) };
        if let Some(at) = self.tests.iter().position(|test| test.subject == *key.subject()) {
            let test = self.tests.get_mut(at)?;
            let taken = test.take(address, &key, conjuncts, depth)?;
            if test.conditions == 0 {
                self.tests.remove(at);
            }
            return Some(taken);
        }
        take_from(&mut self.few, address)
    }

    fn is_empty(&self) -> bool {
        self.opaque.is_empty() && self.few.is_empty() && self.tests.is_empty()
    }

    fn evaluate<'t: 'a, 'a>(
        &'t self,
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> usize {
        let mut failures = 0;
        for condition in self.opaque.iter().chain(&self.few) {
            failures += evaluate_whole(condition, bag, hit);
        }
        for test in &self.tests {
            failures += test.evaluate(bag, hit);
        }
        failures
    }
}

fn take_from(list: &mut Vec<Arc<SharedCondition>>, address: usize) -> Option<Arc<SharedCondition>> {
    let at = list.iter().position(|condition| self::address(&condition.program) == address)?;
    Some(list.swap_remove(at))
}

impl Test {
    fn new(subject: Subject) -> Self {
        Self { subject, conditions: 0, equal: Branches::default(), prefixes: Vec::new() }
    }

    fn put(&mut self, condition: Arc<SharedCondition>, key: Key, conjuncts: &[Conjunct<'_>], depth: usize) {
        self.conditions += 1;
        let (branches, text) = match key {
            Key::Equal(_, text) => (&mut self.equal, text),
            Key::Prefix(_, text) => {
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
        key: &Key,
        conjuncts: &[Conjunct<'_>],
        depth: usize,
    ) -> Option<Arc<SharedCondition>> {
        let (at, text) = match key {
            Key::Equal(_, text) => (None, text),
            Key::Prefix(_, text) => {
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
    ) -> usize {
        match (&self.subject, self.subject.read(bag)) {
            (Subject::Text(_), Some(Value::String(text))) => self.follow(text, bag, hit),
            (Subject::Number(_), Some(Value::Int64(number))) => self.follow(&number.to_le_bytes(), bag, hit),
            (Subject::Number(_), Some(Value::Duration(duration))) => {
                self.follow(&duration.nanos.to_le_bytes(), bag, hit)
            }
            (Subject::Truth(_), Some(Value::Bool(truth))) => self.follow(&[u8::from(truth)], bag, hit),
            (Subject::Entry(_, key), Some(Value::StringMap(map))) => {
                // compat(1.3): a missing key is the empty text.
                let text = bag.lookup(map, key).unwrap_or_default();
                self.follow(text, bag, hit)
            }
            // Absent, or of another type than declared: an error in every one of these conditions.
            _ => self.conditions,
        }
    }

    fn follow<'t: 'a, 'a>(
        &'t self,
        value: &[u8],
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> usize {
        let mut failures = 0;
        if let Some(branch) = self.equal.get(value) {
            failures += branch.evaluate(bag, hit);
        }
        for (length, branches) in &self.prefixes {
            let Some(prefix) = value.get(..*length) else { break };
            if let Some(branch) = branches.get(prefix) {
                failures += branch.evaluate(bag, hit);
            }
        }
        failures
    }
}

impl Subject {
    /// Reads, and so records, the attribute. Keys of maps are read by the caller.
    fn read<'a>(&self, bag: &AttributeBag<'a>) -> Option<Value<'a>> {
        let (Subject::Text(slot) | Subject::Number(slot) | Subject::Truth(slot) | Subject::Entry(slot, _)) =
            self;
        bag.get(*slot)
    }
}

impl Branch {
    /// A branch to one condition, of which the tests before `depth` are passed.
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

    /// Takes a condition out, and says whether that was the last one.
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
    ) -> usize {
        match self {
            Branch::Decided(condition) => {
                hit(condition, None);
                0
            }
            Branch::One(condition) => evaluate_whole(condition, bag, hit),
            Branch::Many(fork) => {
                for condition in &fork.decided {
                    hit(condition, None);
                }
                fork.next.evaluate(bag, hit)
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
