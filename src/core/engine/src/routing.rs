//! The rules of each kind and namespace, joined with live handlers: kind -> namespace -> rules in order -> actions.
//!
//! [`RoutingTable::build`] joins a snapshot with the handlers that were built for it; `RoutingTable::next` does the same by patching
//! the previous table. A table is immutable; a request holds one from first to last byte. Matching evaluates only the rules that can
//! match (see `index`), yet the outcome and the referenced attributes are those of evaluating every rule in order. This module
//! evaluates conditions, never instances, and calls no handler.
//! Order and namespaces of rules are those of Istio Mixer 1.3.

mod branches;
mod condition;
mod dry_run;
mod index;
mod kind;
mod namespace_fault;
mod namespaces;
mod outline;
mod patch;
mod route;
mod rule_set;
mod shared;
mod table;

pub(crate) use dry_run::DryRunOutcome;
pub use kind::RuleKind;
pub use namespace_fault::NamespaceFault;
pub use namespaces::SelectedRules;
pub use outline::{
    DestinationOutline, GroupOutline, NamespaceOutline, RoutingOutline, UnenforcedOutline, VarietyOutline,
    outline,
};
pub use route::{Destination, DestinationId, Refuser, Route, RouteAction, RouteInstance};
pub use rule_set::{MatchCounts, Matched, RuleSet};
pub use table::RoutingTable;
