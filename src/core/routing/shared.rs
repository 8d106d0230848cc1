//! Values that several instances of a report have in common.
//!
//! Equal expressions are one [`Program`] in a snapshot. Those that occur more than once among the instances of reports get a cell
//! each; a bag evaluates them once and the other instances read the cell.

use rustc_hash::FxHashMap;

use super::rule_set::RuleSet;
use crate::core::expr::Program;

/// Most cells. Every bag pays for clearing them.
const MAX_CELLS: usize = 256;

/// The leaves of an instance whose values are shared.
#[derive(Debug, Clone, Default)]
pub struct SharedLeaves {
    /// A cell a leaf; empty when no leaf is shared.
    cells: Box<[Option<u16>]>,
}

impl SharedLeaves {
    /// The cell of a leaf, if it has one.
    #[inline]
    pub fn cell(&self, leaf: usize) -> Option<usize> {
        self.cells.get(leaf).copied().flatten().map(usize::from)
    }
}

/// Gives cells to the programs that occur more than once in `sets`; returns the number of cells.
pub(super) fn assign<'s>(sets: impl Iterator<Item = &'s mut RuleSet>) -> usize {
    let mut sets: Vec<&mut RuleSet> = sets.collect();
    let mut uses: FxHashMap<*const Program, usize> = FxHashMap::default();
    let mut order: Vec<*const Program> = Vec::new();
    for instance in sets.iter().flat_map(|set| set.instances()) {
        for program in instance.config.programs.iter().flatten() {
            let program = std::sync::Arc::as_ptr(program);
            let uses = uses.entry(program).or_insert(0);
            *uses += 1;
            if *uses == 2 {
                order.push(program);
            }
        }
    }
    order.truncate(MAX_CELLS);
    let cells: FxHashMap<*const Program, u16> = order.into_iter().zip(0..).collect();
    if cells.is_empty() {
        return 0;
    }
    for instance in sets.iter_mut().flat_map(|set| set.instances_mut()) {
        let programs = instance.config.programs.iter();
        let cell = |program: &std::sync::Arc<Program>| cells.get(&std::sync::Arc::as_ptr(program)).copied();
        instance.shared = SharedLeaves { cells: programs.map(|p| p.as_ref().and_then(cell)).collect() };
    }
    cells.len()
}
