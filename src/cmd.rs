//! The command line: one file per subcommand, each `parse flags -> resolve -> call the core -> render`.
//!
//! [`parse()`] turns arguments into an [`Invocation`]; [`Invocation::run`] runs it over an [`Io`]. The program name selects the
//! personality: `mixer` has all commands and its own texts; `mixs`, `mixc` and `galley` print the texts of Istio Mixer and Galley.
//! Parsing opens nothing; all output goes through [`Io`].
//!
//! Imports inside this module go one way: `run -> parse -> tree -> subcommands -> flags, values, output, io`.
//!
//! ```
//! let (mut io, captured) = mixer::cmd::Io::captured("");
//! let invocation = mixer::cmd::parse(["mixs", "version", "-s"].map(Into::into)).expect("a valid command line");
//! assert_eq!(invocation.run(&mut io), 0);
//! assert_eq!(captured.out(), "unknown\n");
//! ```

mod adapter;
mod attributes;
mod call;
mod check;
mod collateral;
mod completions;
mod controlz;
mod crd;
mod diff;
mod doctor;
mod endpoint;
mod eval;
mod event_loop;
mod exit;
mod explain_code;
mod files;
mod flag_type;
mod flags;
mod fmt;
mod galley;
mod given;
mod go_syntax;
mod init;
mod io;
mod language;
mod legacy;
mod man;
mod output;
mod parse;
mod personality;
mod probe;
mod proxy;
mod report;
mod routes;
mod run;
mod server;
mod shown;
mod snapshot;
mod source;
mod test;
mod tree;
mod usage;
mod validate;
mod value;
mod verbosity;
mod version;

pub use io::{Captured, Io};
pub use parse::{Invocation, parse};
pub use shown::Shown;
