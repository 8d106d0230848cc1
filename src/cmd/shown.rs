//! Output of a command line that runs no command: help, a version, a usage error.

use std::io::Write as _;
use std::process::ExitCode;

use super::exit::Failure;
use super::io::Io;

/// Text to print instead of running a command, and the exit status.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    /// For standard output.
    pub out: String,
    /// For standard error.
    pub err: String,
    /// Exit status.
    pub code: u8,
    /// The failure that `err` tells.
    pub(super) failure: Option<Box<Failure>>,
}

impl Shown {
    pub(super) fn help(text: String) -> Self {
        Shown { out: text, ..Shown::default() }
    }

    pub(super) fn error(text: String, code: u8) -> Self {
        Shown { err: text, code, ..Shown::default() }
    }

    pub(super) fn failure(failure: Failure, text: String) -> Self {
        let code = failure.exit.code();
        Shown { err: text, code, failure: Some(Box::new(failure)), ..Shown::default() }
    }

    /// Writes the texts to the streams of this process. A closed pipe is not an error.
    pub fn print(&self) -> ExitCode {
        let mut io = Io::process();
        // A write error cannot be reported anywhere.
        let _ = io.out.write_all(self.out.as_bytes()).and_then(|()| io.out.flush());
        let _ = io.err.write_all(self.err.as_bytes());
        ExitCode::from(self.code)
    }
}
