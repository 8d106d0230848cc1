//! Policy tests and replay of recorded calls: evaluates a configuration without a server, on a manual clock.
//!
//! [`Offline`] is an engine over one snapshot whose report handlers deliver nothing. [`Suite`] is a test file with requests and
//! expectations, run by [`run_case`]; a [`Replayer`] sends recorded calls to two configurations and compares the answers. Calls run
//! through the code that serves them. Nothing here prints or listens.

mod clock;
mod compare;
mod expectation;
mod offline;
mod parse;
mod read;
mod replay;
mod run;
mod suite;
mod unnamed;

pub use clock::ManualClock;
pub use offline::{Offline, OfflineError};
pub use parse::SuiteDocument;
pub use read::SuiteProblem;
pub use replay::{
    ChangeGroup, ChangedCall, Difference, First, MAX_KEPT, Replay, Replayer, Requests, RequestsError,
    clock_of,
};
pub use run::{CaseResult, FailedExpectation, run_case};
pub use suite::{Stubs, Suite, TestCase};
pub use unnamed::names_namespace;
