//! Values that several report instances share.
//!
//! Equal expressions are one [`Program`] in a snapshot. A program that occurs more than once among the report instances gets a cell:
//! each bag evaluates it once, and the other instances read the cell.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::kind::RuleKind;
use crate::snapshot::{InstanceConfig, RuleConfig};
use mixer_expr::Program;

/// Most cells. Every bag clears all of them.
const MAX_CELLS: usize = 256;

/// The leaves of an instance whose values are shared.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedLeaves {
    /// One cell per leaf; empty when no leaf is shared.
    cells: Box<[Option<u16>]>,
}

impl SharedLeaves {
    /// The cell of a leaf, if it has one.
    #[inline]
    pub(crate) fn cell(&self, leaf: usize) -> Option<usize> {
        self.cells.get(leaf).copied().flatten().map(usize::from)
    }
}

/// How often each program occurs among the report instances, and which programs have cells.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedValues {
    /// By address; holding the programs keeps their addresses from being reused.
    uses: FxHashMap<usize, ProgramUses>,
    cells: u16,
    /// Cells of programs that are no longer used.
    free: Vec<u16>,
}

#[derive(Debug, Clone)]
struct ProgramUses {
    _program: Arc<Program>,
    count: usize,
    cell: Option<u16>,
}

/// The programs that a rule contributes, with repetitions.
fn programs(rule: &RuleConfig) -> impl Iterator<Item = &Arc<Program>> {
    let instances = rule.actions.iter().flat_map(|action| &action.instances);
    let reports = instances.filter(|i| RuleKind::of(i.template().variety) == RuleKind::Report);
    // Rules in dry run evaluate on their own.
    reports.filter(|_| !rule.dry_run).flat_map(|instance| instance.programs.iter().flatten())
}

/// Whether a rule contributes any program.
pub(super) fn has_shareable_values(rule: &RuleConfig) -> bool {
    programs(rule).next().is_some()
}

impl SharedValues {
    /// The shared values of all rules.
    pub(super) fn of<'r>(rules: impl Iterator<Item = &'r Arc<RuleConfig>>) -> Self {
        let mut shared = Self::default();
        for rule in rules {
            shared.add(rule);
        }
        shared
    }

    /// Number of cells.
    pub(super) fn len(&self) -> usize {
        usize::from(self.cells)
    }

    /// Counts a rule. True if a program that was counted before got its cell now: the routes of earlier instances lack that cell.
    pub(super) fn add(&mut self, rule: &RuleConfig) -> bool {
        let mut outdates_routes = false;
        let mut own: Vec<usize> = Vec::new();
        for program in programs(rule) {
            let address = Arc::as_ptr(program).addr();
            let known = self.uses.entry(address).or_insert_with(|| {
                own.push(address);
                ProgramUses { _program: Arc::clone(program), count: 0, cell: None }
            });
            known.count += 1;
            if known.count < 2 || known.cell.is_some() {
                continue;
            }
            known.cell = self.free.pop();
            if known.cell.is_none() && usize::from(self.cells) < MAX_CELLS {
                known.cell = Some(self.cells);
                self.cells += 1;
            }
            outdates_routes |= known.cell.is_some() && !own.contains(&address);
        }
        outdates_routes
    }

    /// Uncounts a rule. A program keeps its cell while any rule uses it.
    pub(super) fn remove(&mut self, rule: &RuleConfig) {
        for program in programs(rule) {
            let address = Arc::as_ptr(program).addr();
            let Some(known) = self.uses.get_mut(&address) else { continue };
            known.count -= 1;
            if known.count == 0
                && let Some(unused) = self.uses.remove(&address)
            {
                self.free.extend(unused.cell);
            }
        }
    }

    /// The leaves of an instance that have cells.
    pub(super) fn leaves(&self, instance: &InstanceConfig) -> SharedLeaves {
        let cell = |program: &Arc<Program>| self.uses.get(&Arc::as_ptr(program).addr())?.cell;
        let programs = instance.programs.iter();
        let cells: Box<[Option<u16>]> = programs.map(|program| program.as_ref().and_then(cell)).collect();
        if cells.iter().all(Option::is_none) { SharedLeaves::default() } else { SharedLeaves { cells } }
    }
}
