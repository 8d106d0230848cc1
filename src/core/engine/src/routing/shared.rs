//! Values that several instances of a report have in common.
//!
//! Equal expressions are one [`Program`] in a snapshot. Those that occur more than once among the instances of reports get a cell
//! each; a bag evaluates them once and the other instances read the cell.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::RuleKind;
use crate::snapshot::{InstanceConfig, RuleConfig};
use mixer_expr::Program;

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

/// How often each program occurs among the instances of reports, and which of them have cells.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedValues {
    /// By address; the programs are held, so that no other one takes their place.
    uses: FxHashMap<usize, Use>,
    cells: u16,
    /// Cells whose program is used no more.
    free: Vec<u16>,
}

#[derive(Debug, Clone)]
struct Use {
    _program: Arc<Program>,
    uses: usize,
    cell: Option<u16>,
}

/// The programs that a rule contributes, with repetitions.
fn programs(rule: &RuleConfig) -> impl Iterator<Item = &Arc<Program>> {
    let instances = rule.actions.iter().flat_map(|action| &action.instances);
    let reports = instances.filter(|i| RuleKind::of(i.template().variety) == RuleKind::Report);
    // Rules in dry run evaluate on their own.
    reports.filter(|_| !rule.dry_run).flat_map(|instance| instance.programs.iter().flatten())
}

/// Whether a rule has any say here.
pub(super) fn concerns(rule: &RuleConfig) -> bool {
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

    /// Counts a rule in. True if a program that was counted before has got a cell by that: instances that were routed before do not
    /// know of it.
    pub(super) fn add(&mut self, rule: &RuleConfig) -> bool {
        let mut is_news = false;
        let mut own: Vec<usize> = Vec::new();
        for program in programs(rule) {
            let address = Arc::as_ptr(program).addr();
            let known = self.uses.entry(address).or_insert_with(|| {
                own.push(address);
                Use { _program: Arc::clone(program), uses: 0, cell: None }
            });
            known.uses += 1;
            if known.uses < 2 || known.cell.is_some() {
                continue;
            }
            known.cell = self.free.pop();
            if known.cell.is_none() && usize::from(self.cells) < MAX_CELLS {
                known.cell = Some(self.cells);
                self.cells += 1;
            }
            is_news |= known.cell.is_some() && !own.contains(&address);
        }
        is_news
    }

    /// Counts a rule out. Programs keep their cells while they are used at all.
    pub(super) fn remove(&mut self, rule: &RuleConfig) {
        for program in programs(rule) {
            let address = Arc::as_ptr(program).addr();
            let Some(known) = self.uses.get_mut(&address) else { continue };
            known.uses -= 1;
            if known.uses == 0
                && let Some(gone) = self.uses.remove(&address)
            {
                self.free.extend(gone.cell);
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
