//! Policy on the bench: a configuration answers without a server, on a clock that is moved by hand.
//!
//! [`Offline`] is an engine over one snapshot whose report handlers deliver nothing. [`Suite`] is a file of declared requests with
//! what is expected of them, run by [`run_case`]; [`replay()`] puts recorded calls to two configurations and tells what differs. The
//! answers come from the same code that serves calls. Nothing here prints, and nothing opens a port.

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
