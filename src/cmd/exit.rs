//! Exit statuses and failures of commands.

use std::fmt::Write as _;

use super::given::GivenAddresses;
use super::output::escaped_lines;

/// The exit statuses of `mixer`. The legacy programs use 0 and 255 only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Exit {
    /// Success: check allowed, probe available, configuration valid.
    Success,
    /// Negative result: check denied, quota not granted in full, probe unavailable, configuration invalid.
    Negative,
    /// Usage error.
    Usage,
    /// Local failure: file, configuration, start-up.
    Local,
    /// RPC failed or server unreachable.
    Rpc,
    /// Deadline exceeded.
    Deadline,
    /// Internal error.
    Internal,
    /// Interrupted by SIGINT before completion.
    Interrupted,
    /// Terminated by SIGTERM before completion.
    Terminated,
}

/// The exit status of every failure under a legacy name.
pub(crate) const LEGACY_FAILURE: u8 = 255;
/// The exit status of galley after a fatal log record, and after a configuration file that it cannot read.
pub(crate) const GALLEY_FATAL: u8 = 1;

impl Exit {
    /// Every status with its number and meaning, as help and man pages list them.
    const ALL: [(Exit, u8, &'static str); 9] = [
        (
            Exit::Success,
            0,
            "success; check allowed; probe available; configuration valid; tests passed; no difference",
        ),
        (
            Exit::Negative,
            1,
            "negative result: check denied, quota not granted, probe unavailable, configuration invalid, test failed, results differ",
        ),
        (Exit::Usage, 2, "usage error; tests, recordings or their configuration cannot be read"),
        (Exit::Local, 3, "local failure: file, configuration, start-up"),
        (Exit::Rpc, 4, "RPC failed or server unreachable"),
        (Exit::Deadline, 5, "deadline exceeded"),
        (Exit::Internal, 70, "internal error"),
        (Exit::Interrupted, 130, "interrupted by SIGINT before completion"),
        (Exit::Terminated, 143, "terminated by SIGTERM before completion"),
    ];

    /// The number of the status.
    pub(crate) fn code(self) -> u8 {
        Self::ALL.iter().find(|(exit, ..)| *exit == self).map_or(70, |(_, code, _)| *code)
    }

    /// The worse of two results of repeated calls. From worst to best: failed, deadline exceeded, denied, allowed.
    #[must_use]
    pub(crate) fn worst(self, other: Exit) -> Exit {
        let rank = |exit: Exit| match exit {
            Exit::Rpc => 3,
            Exit::Deadline => 2,
            Exit::Negative => 1,
            _ => 0,
        };
        if rank(other) > rank(self) { other } else { self }
    }

    /// The table of statuses for help pages.
    pub(crate) fn help() -> String {
        let mut text = String::from("Exit status:\n");
        for (_, code, meaning) in Self::ALL {
            let _ = writeln!(text, "  {code:<4} {meaning}");
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// A failed command, as the user sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Exit status of `mixer`.
    pub(crate) exit: Exit,
    /// The error; one line.
    pub(crate) what: String,
    /// The cause.
    pub(crate) cause: Option<String>,
    /// The hint.
    pub(crate) hint: Option<String>,
    /// Text of the legacy programs; `what: cause` without it.
    pub(crate) legacy: Option<String>,
    /// Whether the legacy programs print it as a usage error, with the usage block.
    pub(crate) with_usage: bool,
    /// The fatal log record that galley writes instead of a text.
    pub(crate) fatal: Option<Box<str>>,
}

impl Failure {
    /// Without what is secret in these addresses.
    pub(crate) fn without(mut self, given: &GivenAddresses) -> Self {
        if !given.is_empty() {
            self.what = given.shown(&self.what);
            self.cause = self.cause.map(|cause| given.shown(&cause));
            self.hint = self.hint.map(|hint| given.shown(&hint));
        }
        self
    }

    /// A failure without cause and hint.
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            exit,
            what: what.into(),
            cause: None,
            hint: None,
            legacy: None,
            with_usage: false,
            fatal: None,
        }
    }

    /// A usage error.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// A local failure.
    pub(crate) fn local(what: impl Into<String>) -> Self {
        Self::new(Exit::Local, what)
    }

    /// Adds the cause.
    #[must_use]
    pub(crate) fn cause(mut self, cause: impl std::fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// Adds a hint.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the text of the legacy programs.
    #[must_use]
    pub(crate) fn legacy(mut self, text: impl Into<String>) -> Self {
        self.legacy = Some(text.into());
        self
    }

    /// Adds the fatal log record of galley.
    #[must_use]
    pub(crate) fn fatal(mut self, text: impl Into<String>) -> Self {
        self.fatal = Some(text.into().into_boxed_str());
        self
    }

    /// Adds the usage block of the legacy programs.
    #[must_use]
    pub(crate) fn with_usage(mut self) -> Self {
        self.with_usage = true;
        self
    }

    /// The line that the legacy programs print.
    pub(crate) fn legacy_text(&self) -> String {
        match (&self.legacy, &self.cause) {
            (Some(text), _) => text.clone(),
            (None, Some(cause)) => format!("{}: {cause}", self.what),
            (None, None) => self.what.clone(),
        }
    }

    /// The text that `mixer` prints.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("error: {}\n", escaped_lines(&self.what));
        if let Some(cause) = &self.cause {
            let _ = writeln!(text, "  cause: {}", escaped_lines(cause));
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "  hint: {}", escaped_lines(hint));
        }
        text
    }

    /// The document that `mixer --error-format json` prints.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "apiVersion": "mixer/v1",
            "kind": "Error",
            "error": self.what,
            "cause": self.cause,
            "hint": self.hint,
            "exit": self.exit.code(),
        })
    }
}

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A failure to report.
    Failure(Box<Failure>),
    /// The reader closed the output pipe, which is success.
    BrokenPipe,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failure(Box::new(failure))
    }
}

/// Errors of writing results.
impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Stop::BrokenPipe;
        }
        Failure::local("cannot write the output").cause(error).into()
    }
}

/// The result of a command.
pub(crate) type Outcome = Result<Exit, Stop>;

/// The innermost cause of an error.
pub(crate) fn innermost_cause(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
