//! Which rules a request meets: variety -> namespace -> rules in order -> actions on live handlers.
//!
//! [`RoutingTable::build`] joins a snapshot with the handlers that could be built for it, [`RoutingTable::next`] does so with the
//! help of the table before; the result is immutable and is what requests hold. Matching touches only the rules that can match (see `index`), yet outcome and references are those of evaluating
//! every rule in order. This room evaluates conditions, never instances, and calls no handler.
//! Spec: runtime.md section 9.

mod branches;
mod condition;
mod dry_run;
mod index;
mod outline;
mod rule_set;
mod shared;
mod table;

pub use dry_run::{DryRunCounters, DryRunOutcome};
pub use outline::{
    DestinationOutline, GroupOutline, NamespaceOutline, RoutingOutline, VarietyOutline, outline,
};
pub use rule_set::{Matched, Route, RouteAction, RouteInstance, RuleSet};
pub use shared::SharedLeaves;
pub use table::{Destination, DestinationId, RoutingTable, RuleKind, SelectedRules};
