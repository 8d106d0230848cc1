//! Sets of the values of one attribute.

use std::collections::BTreeSet;

/// What an attribute is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    /// The request does not have it.
    Absent,
    /// A string.
    Text(Box<str>),
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
}

impl Value {
    /// Whether it is the default of its type.
    pub(super) fn is_default(&self) -> bool {
        match self {
            Self::Absent => false,
            Self::Text(text) => text.is_empty(),
            Self::Int(number) => *number == 0,
            Self::Bool(flag) => !flag,
        }
    }
}

/// A finite set of values, or all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Values {
    Only(BTreeSet<Value>),
    AllBut(BTreeSet<Value>),
}

use Values::{AllBut, Only};

impl Values {
    pub(super) fn only(value: Value) -> Self {
        Only(BTreeSet::from([value]))
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Only(values) if values.is_empty())
    }

    pub(super) fn is_all(&self) -> bool {
        matches!(self, AllBut(values) if values.is_empty())
    }

    pub(super) fn has(&self, value: &Value) -> bool {
        match self {
            Only(values) => values.contains(value),
            AllBut(values) => !values.contains(value),
        }
    }

    pub(super) fn complement(&self) -> Self {
        match self {
            Only(values) => AllBut(values.clone()),
            AllBut(values) => Only(values.clone()),
        }
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Only(a), b) | (b, Only(a)) => Only(a.iter().filter(|value| b.has(value)).cloned().collect()),
            (AllBut(a), AllBut(b)) => AllBut(a.union(b).cloned().collect()),
        }
    }

    pub(super) fn minus(&self, other: &Self) -> Self {
        self.and(&other.complement())
    }

    pub(super) fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (Only(a), b) => a.iter().all(|value| b.has(value)),
            (AllBut(a), AllBut(b)) => b.is_subset(a),
            // There are more values than any set has.
            (AllBut(_), Only(_)) => false,
        }
    }

    /// Adds those of another set. Cost: in proportion to the smaller set, if both are finite.
    pub(super) fn add(&mut self, other: Self) {
        match (&mut *self, other) {
            (Only(own), Only(mut more)) => {
                if own.len() < more.len() {
                    std::mem::swap(own, &mut more);
                }
                own.append(&mut more);
            }
            (AllBut(without), more) => without.retain(|value| !more.has(value)),
            (Only(own), AllBut(mut without)) => {
                without.retain(|value| !own.contains(value));
                *self = AllBut(without);
            }
        }
    }

    /// A text in both, if it is one of finitely many.
    pub(super) fn common_text<'s>(&'s self, other: &'s Self) -> Option<&'s str> {
        let (few, others) = match (self, other) {
            (Only(few), others) | (others, Only(few)) => (few, others),
            (AllBut(_), AllBut(_)) => return None,
        };
        few.iter().filter(|value| others.has(value)).find_map(|value| match value {
            Value::Text(text) => Some(&**text),
            Value::Absent | Value::Int(_) | Value::Bool(_) => None,
        })
    }
}
