//! Live handlers: built from configuration, reused while their signature stays the same, closed when their last call is over.
//!
//! [`HandlerTable::build`] makes the table of one snapshot from the table of the one before; [`retire()`] closes what the new table
//! did not take over. This room never looks at rules' conditions and never sees a request.
//! Spec: runtime.md section 7.

mod live;
mod offline;
mod retire;
mod signature;
mod table;
#[cfg(test)]
mod tests;

pub use live::LiveHandler;
pub use retire::retire;
pub use signature::Signature;
pub use table::{HandlerEnvironment, HandlerTable, HandlerTransition};
