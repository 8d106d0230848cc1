//! Turns of the connections of a worker.
//!
//! A connection does a little work whenever something arrives, and more only in its turn. One connection of a worker at a time has
//! a turn, in the order in which they asked for it; the next turn begins after the event loop has looked for events. A call on a quiet
//! connection therefore waits for one turn, however many others are busy. Short turns of connections that have nothing left follow each other at
//! once, until together they are somewhat longer than one.
//!
//! A connection whose last work was more than a little has nothing without a turn: what hundreds of them do at once is bounded as well.
//! To be opened and closed, connections take turns of their own, so that those which are served do not wait behind a flood of new ones.
//!
//! A turn ends by its work, which is an estimate, by its time, and by its requests ([`length::Length`]).

mod length;
mod place;

pub(crate) use self::length::{MAX_INPUT, MAX_REQUESTS};
#[cfg(test)]
pub(crate) use self::place::TURN_WORK;
pub(crate) use self::place::{Place, Turns};

/// The work of receiving and answering a call, besides that of its service and of its bytes. The unit is that of
/// [`WorkerService::work_done`](crate::service::WorkerService::work_done), about 10 ns; a byte counts as one.
pub(crate) const CALL_WORK: usize = 300;
