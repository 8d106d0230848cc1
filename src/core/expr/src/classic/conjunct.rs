//! What can be known of a program without running it: for the predicate index and for the planning of look-ups.

use super::{Attribute, Comparison, Entry, Expr, Glob, Kind, Literal, Operands};
use mixer_attribute::SlotId;

/// One operand of the top-level `&&` chain of a condition.
///
/// All kinds but [`Other`](Self::Other) read one attribute (or one entry of one map) and fail if it is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conjunct<'p> {
    /// The STRING attribute equals a text.
    AttributeEquals {
        /// The attribute.
        slot: SlotId,
        /// The text.
        constant: &'p [u8],
    },
    /// The INT64 attribute equals a number.
    AttributeEqualsInt64 {
        /// The attribute.
        slot: SlotId,
        /// The number.
        constant: i64,
    },
    /// The BOOL attribute equals a truth value, or stands for itself.
    AttributeEqualsBool {
        /// The attribute.
        slot: SlotId,
        /// The truth value.
        constant: bool,
    },
    /// The entry of the map equals a text; a missing entry counts as the empty text.
    MapKeyEquals {
        /// The map.
        slot: SlotId,
        /// The key.
        key: &'p [u8],
        /// The text.
        constant: &'p [u8],
    },
    /// The STRING attribute starts with a text.
    AttributePrefix {
        /// The attribute.
        slot: SlotId,
        /// The text.
        prefix: &'p [u8],
    },
    /// Anything else.
    Other,
}

/// An attribute, or one entry of a map, that a program may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Read<'p> {
    /// The attribute.
    pub slot: SlotId,
    /// The key, if only this entry of the map is read and the key is known.
    pub key: Option<&'p [u8]>,
}

/// The operands of the top-level `&&` chain, or the whole condition as the only one.
pub(super) fn conjuncts(root: &Expr) -> Vec<Conjunct<'_>> {
    match &root.kind {
        Kind::All(list) => list.iter().map(conjunct).collect(),
        _ => vec![conjunct(root)],
    }
}

fn conjunct(expr: &Expr) -> Conjunct<'_> {
    match &expr.kind {
        Kind::AttributeIs { attribute, constant, expected: true } => {
            Conjunct::AttributeEquals { slot: attribute.slot, constant }
        }
        Kind::EntryIs { entry, constant, expected: true } => {
            Conjunct::MapKeyEquals { slot: entry.map.slot, key: &entry.key, constant }
        }
        Kind::Attribute(attribute) => Conjunct::AttributeEqualsBool { slot: attribute.slot, constant: true },
        Kind::Compare { comparison: Comparison::Equal, operands, pair } => {
            let [left, right] = &**pair;
            match (operands, &left.kind, &right.kind) {
                (Operands::Int64, Kind::Attribute(a), Kind::Literal(Literal::Int64(constant))) => {
                    Conjunct::AttributeEqualsInt64 { slot: a.slot, constant: *constant }
                }
                (Operands::Bool, Kind::Attribute(a), Kind::Literal(Literal::Bool(constant))) => {
                    Conjunct::AttributeEqualsBool { slot: a.slot, constant: *constant }
                }
                _ => Conjunct::Other,
            }
        }
        Kind::MatchesGlob { subject, glob: Glob::Prefix(prefix) } => prefix_of(subject, prefix),
        Kind::StartsWith(pair) => match &**pair {
            [subject, Expr { kind: Kind::Literal(Literal::Bytes(prefix)), .. }] => prefix_of(subject, prefix),
            _ => Conjunct::Other,
        },
        _ => Conjunct::Other,
    }
}

fn prefix_of<'p>(subject: &'p Expr, prefix: &'p [u8]) -> Conjunct<'p> {
    match subject.kind {
        Kind::Attribute(attribute) => Conjunct::AttributePrefix { slot: attribute.slot, prefix },
        _ => Conjunct::Other,
    }
}

/// Everything that evaluation may read, sorted, each once.
pub(super) fn reads(root: &Expr) -> Vec<Read<'_>> {
    let mut reads = Vec::new();
    let mut pending = vec![root];
    while let Some(expr) = pending.pop() {
        match &expr.kind {
            Kind::Attribute(Attribute { slot, .. })
            | Kind::AttributeOr { attribute: Attribute { slot, .. }, .. }
            | Kind::AttributeIs { attribute: Attribute { slot, .. }, .. } => {
                reads.push(Read { slot: *slot, key: None });
            }
            Kind::Entry(entry) | Kind::EntryOr { entry, .. } | Kind::EntryIs { entry, .. } => {
                let Entry { map, key } = entry;
                reads.push(Read { slot: map.slot, key: Some(key) });
            }
            _ => pending.extend(expr.children()),
        }
    }
    reads.sort_unstable();
    reads.dedup();
    reads
}
