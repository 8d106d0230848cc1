//! Static analysis of a program, for the predicate index and for planning look-ups.

use super::{Attribute, Comparison, Expr, ExprKind, Glob, Literal, MapEntry, Operands};
use crate::analysis::Read;
use mixer_attribute::SlotId;

/// One operand of the top-level `&&` chain of a condition.
///
/// All kinds but [`Other`](Self::Other) read one attribute (or one entry of one map) and fail if it is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conjunct<'p> {
    /// The STRING attribute equals a constant.
    AttributeEquals {
        /// The attribute.
        slot: SlotId,
        /// The value.
        constant: &'p [u8],
    },
    /// The INT64 attribute equals a constant.
    AttributeEqualsInt64 {
        /// The attribute.
        slot: SlotId,
        /// The value.
        constant: i64,
    },
    /// The BOOL attribute equals a constant, or is the condition itself.
    AttributeEqualsBool {
        /// The attribute.
        slot: SlotId,
        /// The value.
        constant: bool,
    },
    /// The entry of the map equals a constant; a missing entry counts as empty.
    MapKeyEquals {
        /// The map.
        slot: SlotId,
        /// The key.
        key: &'p [u8],
        /// The value.
        constant: &'p [u8],
    },
    /// The STRING attribute starts with a constant.
    AttributePrefix {
        /// The attribute.
        slot: SlotId,
        /// The value.
        prefix: &'p [u8],
    },
    /// Anything else.
    Other,
}

/// The operands of the top-level `&&` chain, or the whole condition as the only one.
pub(super) fn conjuncts(root: &Expr) -> Vec<Conjunct<'_>> {
    match &root.kind {
        ExprKind::All(list) => list.iter().map(conjunct).collect(),
        _ => vec![conjunct(root)],
    }
}

fn conjunct(expr: &Expr) -> Conjunct<'_> {
    match &expr.kind {
        ExprKind::AttributeIs { attribute, constant, expected: true } => {
            Conjunct::AttributeEquals { slot: attribute.slot, constant }
        }
        ExprKind::EntryIs { entry, constant, expected: true } => {
            Conjunct::MapKeyEquals { slot: entry.map.slot, key: &entry.key, constant }
        }
        ExprKind::Attribute(attribute) => {
            Conjunct::AttributeEqualsBool { slot: attribute.slot, constant: true }
        }
        ExprKind::Compare { comparison: Comparison::Equal, operands, pair } => {
            let [left, right] = &**pair;
            match (operands, &left.kind, &right.kind) {
                (Operands::Int64, ExprKind::Attribute(a), ExprKind::Literal(Literal::Int64(constant))) => {
                    Conjunct::AttributeEqualsInt64 { slot: a.slot, constant: *constant }
                }
                (Operands::Bool, ExprKind::Attribute(a), ExprKind::Literal(Literal::Bool(constant))) => {
                    Conjunct::AttributeEqualsBool { slot: a.slot, constant: *constant }
                }
                _ => Conjunct::Other,
            }
        }
        ExprKind::MatchesGlob { subject, glob: Glob::Prefix(prefix) } => prefix_of(subject, prefix),
        ExprKind::StartsWith(pair) => match &**pair {
            [subject, Expr { kind: ExprKind::Literal(Literal::Bytes(prefix)), .. }] => {
                prefix_of(subject, prefix)
            }
            _ => Conjunct::Other,
        },
        _ => Conjunct::Other,
    }
}

fn prefix_of<'p>(subject: &'p Expr, prefix: &'p [u8]) -> Conjunct<'p> {
    match subject.kind {
        ExprKind::Attribute(attribute) => Conjunct::AttributePrefix { slot: attribute.slot, prefix },
        _ => Conjunct::Other,
    }
}

/// Every attribute and map key that evaluation may read, sorted and unique.
pub(super) fn reads(root: &Expr) -> Vec<Read<'_>> {
    let mut reads = Vec::new();
    let mut pending = vec![root];
    while let Some(expr) = pending.pop() {
        match &expr.kind {
            ExprKind::Attribute(Attribute { slot, .. })
            | ExprKind::AttributeOr { attribute: Attribute { slot, .. }, .. }
            | ExprKind::AttributeIs { attribute: Attribute { slot, .. }, .. } => {
                reads.push(Read { slot: *slot, key: None });
            }
            ExprKind::Entry(entry) | ExprKind::EntryOr { entry, .. } | ExprKind::EntryIs { entry, .. } => {
                let MapEntry { map, key } = entry;
                reads.push(Read { slot: map.slot, key: Some(key) });
            }
            _ => pending.extend(expr.children()),
        }
    }
    reads.sort_unstable();
    reads.dedup();
    reads
}
