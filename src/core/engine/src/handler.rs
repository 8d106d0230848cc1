//! Live handlers: built from configuration, reused while their signature is unchanged, closed after their last call.
//!
//! `HandlerTable::build` makes the table of a snapshot from the previous table; [`retire()`] closes the handlers that the new table
//! does not reuse. This module evaluates no condition and reads no request.

mod live;
mod offline;
mod probe;
mod retire;
mod signature;
mod table;
#[cfg(test)]
mod tests;

pub use live::LiveHandler;
pub use probe::{ProbedHandler, probe};
pub(crate) use retire::retire_until_stop;
pub use retire::{retire, retire_at_stop};
use signature::Signature;
pub(crate) use table::{FailedHandler, HandlerTransition};
pub use table::{HandlerEnvironment, HandlerTable};
