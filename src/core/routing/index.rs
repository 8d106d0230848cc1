//! Finds the conditions that can hold without evaluating all of them.
//!
//! Conditions that begin with a test of the same attribute (`destination.service == "a"`, `request.headers["x"] == "b"`, a prefix
//! of `request.path`) are put behind one look-up of its value; those that share their second test likewise, and so on. A condition
//! whose tests are all look-ups is never evaluated at all. Because a test reads its attribute whatever the constant, the references
//! are those of evaluating every condition: the same attribute read, and nothing behind a test that fails.

use rustc_hash::FxHashMap;

use super::condition::SharedCondition;
use crate::core::attribute::{AttributeBag, SlotId, Value};
use crate::core::expr::{Conjunct, EvalError};

/// A look-up pays from this many conditions on.
const WORTH_A_LOOK_UP: usize = 3;
/// Tests of one condition that are looked up; the rest is evaluated.
const MAX_DEPTH: usize = 16;

/// Groups conditions by what they test first.
#[derive(Debug, Default)]
pub(super) struct PredicateIndex {
    root: Node,
}

/// Conditions that share all tests so far.
#[derive(Debug, Default)]
struct Node {
    /// Evaluated as a whole.
    others: Vec<u32>,
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
#[derive(Debug)]
struct Test {
    subject: Subject,
    /// Conditions behind this test: all of them fail if it does.
    conditions: usize,
    equal: Branches,
    /// By length of the prefix.
    prefixes: Vec<(usize, Branches)>,
}

/// Branches by the text that they want.
type Branches = FxHashMap<Box<[u8]>, Branch>;

/// Where a passed test leads.
#[derive(Debug, Default)]
struct Branch {
    /// Conditions without a further test: they hold.
    decided: Vec<u32>,
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

    fn subject(&self) -> &Subject {
        let (Key::Equal(subject, _) | Key::Prefix(subject, _)) = self;
        subject
    }
}

/// The tests of a condition that are not used up yet.
type Pending<'p> = (u32, Vec<Conjunct<'p>>);

impl PredicateIndex {
    /// Prepares an index over `conditions`.
    pub(super) fn build(conditions: &[SharedCondition]) -> PredicateIndex {
        let mut root = Node::default();
        let mut pending: Vec<Pending<'_>> = Vec::new();
        for (i, condition) in (0u32..).zip(conditions) {
            if condition.wants_errors {
                root.others.push(i);
            } else {
                pending.push((i, condition.program.conjuncts()));
            }
        }
        root.fill(pending, 0);
        PredicateIndex { root }
    }

    /// Calls `hit` for every condition that holds, and for every one that failed and wants to hear of it. Returns the number of
    /// conditions that failed. References are recorded as if every condition were evaluated.
    pub(super) fn evaluate<'t: 'a, 'a>(
        &'t self,
        conditions: &'t [SharedCondition],
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> usize {
        self.root.evaluate(conditions, bag, hit)
    }
}

impl Node {
    fn fill(&mut self, pending: Vec<Pending<'_>>, depth: usize) {
        let mut groups: FxHashMap<Subject, Vec<(u32, Key, Vec<Conjunct<'_>>)>> = FxHashMap::default();
        let mut order: Vec<Subject> = Vec::new();
        for (condition, conjuncts) in pending {
            match conjuncts.get(depth).and_then(Key::of) {
                Some(key) if depth < MAX_DEPTH => {
                    let group = groups.entry(key.subject().clone()).or_default();
                    if group.is_empty() {
                        order.push(key.subject().clone());
                    }
                    group.push((condition, key, conjuncts));
                }
                _ => self.others.push(condition),
            }
        }
        for subject in order {
            let Some(group) = groups.remove(&subject) else { continue };
            if group.len() < WORTH_A_LOOK_UP {
                self.others.extend(group.into_iter().map(|(condition, ..)| condition));
            } else {
                self.tests.push(Test::build(subject, group, depth));
            }
        }
    }

    fn evaluate<'t: 'a, 'a>(
        &'t self,
        conditions: &'t [SharedCondition],
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> usize {
        let mut failures = 0;
        for condition in self.others.iter().filter_map(|i| conditions.get(*i as usize)) {
            match condition.program.eval(bag) {
                Ok(Value::Bool(true)) => hit(condition, None),
                Ok(_) => {}
                Err(error) => {
                    failures += 1;
                    if condition.wants_errors {
                        hit(condition, Some(error));
                    }
                }
            }
        }
        for test in &self.tests {
            failures += test.evaluate(conditions, bag, hit);
        }
        failures
    }
}

impl Test {
    fn build(subject: Subject, group: Vec<(u32, Key, Vec<Conjunct<'_>>)>, depth: usize) -> Self {
        let conditions = group.len();
        let mut equal: FxHashMap<Box<[u8]>, Vec<Pending<'_>>> = FxHashMap::default();
        let mut prefixed: FxHashMap<Box<[u8]>, Vec<Pending<'_>>> = FxHashMap::default();
        for (condition, key, conjuncts) in group {
            match key {
                Key::Equal(_, constant) => equal.entry(constant).or_default(),
                Key::Prefix(_, prefix) => prefixed.entry(prefix).or_default(),
            }
            .push((condition, conjuncts));
        }
        let mut prefixes: Vec<(usize, Branches)> = Vec::new();
        for (prefix, pending) in prefixed {
            let branch = Branch::build(pending, depth + 1);
            match prefixes.iter_mut().find(|(length, _)| *length == prefix.len()) {
                Some((_, branches)) => {
                    branches.insert(prefix, branch);
                }
                None => prefixes.push((prefix.len(), [(prefix, branch)].into_iter().collect())),
            }
        }
        prefixes.sort_by_key(|(length, _)| *length);
        let equal = equal.into_iter().map(|(constant, p)| (constant, Branch::build(p, depth + 1))).collect();
        Self { subject, conditions, equal, prefixes }
    }

    /// Reads the subject and follows the branches of its value.
    fn evaluate<'t: 'a, 'a>(
        &'t self,
        conditions: &'t [SharedCondition],
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> usize {
        match (&self.subject, self.subject.read(bag)) {
            (Subject::Text(_), Some(Value::String(text))) => self.follow(text, conditions, bag, hit),
            (Subject::Number(_), Some(Value::Int64(number))) => {
                self.follow(&number.to_le_bytes(), conditions, bag, hit)
            }
            (Subject::Number(_), Some(Value::Duration(duration))) => {
                self.follow(&duration.nanos.to_le_bytes(), conditions, bag, hit)
            }
            (Subject::Truth(_), Some(Value::Bool(truth))) => {
                self.follow(&[u8::from(truth)], conditions, bag, hit)
            }
            (Subject::Entry(_, key), Some(Value::StringMap(map))) => {
                // compat(1.3): a missing key is the empty text.
                let text = bag.lookup(map, key).unwrap_or_default();
                self.follow(text, conditions, bag, hit)
            }
            // Absent, or of another type than declared: an error in every one of these conditions.
            _ => self.conditions,
        }
    }

    fn follow<'t: 'a, 'a>(
        &'t self,
        value: &[u8],
        conditions: &'t [SharedCondition],
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> usize {
        let mut failures = 0;
        if let Some(branch) = self.equal.get(value) {
            failures += branch.evaluate(conditions, bag, hit);
        }
        for (length, branches) in &self.prefixes {
            let Some(prefix) = value.get(..*length) else { break };
            if let Some(branch) = branches.get(prefix) {
                failures += branch.evaluate(conditions, bag, hit);
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
    fn build(pending: Vec<Pending<'_>>, depth: usize) -> Self {
        let (decided, further): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|(_, conjuncts)| conjuncts.len() <= depth);
        let mut next = Node::default();
        next.fill(further, depth);
        Self { decided: decided.into_iter().map(|(condition, _)| condition).collect(), next }
    }

    fn evaluate<'t: 'a, 'a>(
        &'t self,
        conditions: &'t [SharedCondition],
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> usize {
        for condition in self.decided.iter().filter_map(|i| conditions.get(*i as usize)) {
            hit(condition, None);
        }
        self.next.evaluate(conditions, bag, hit)
    }
}
