//! Offline policy evaluation: answers requests without a server, on a manual clock.
//!
//! [`Offline`] is an engine over one snapshot whose report handlers deliver nothing. [`Suite`] is a file of declared requests and
//! expectations, run by [`run_case`]; [`replay()`] replays recorded calls against two configurations and reports the differences.
//! Answers come from the code that serves calls. This crate prints nothing and opens no port.

mod clock;
mod compare;
mod expect;
mod offline;
mod parse;
mod read;
mod replay;
mod run;
mod suite;

pub use clock::ManualClock;
pub use offline::{Offline, OfflineError};
pub use parse::SuiteDocument;
pub use read::Problem;
pub use replay::{Change, Difference, Replay, RequestsError, clock_of, read_requests, replay};
pub use run::{CaseResult, Miss, run_case};
pub use suite::{Case, Stub, Stubs, Suite};
