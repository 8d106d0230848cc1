//! How a command ends: exit statuses and failures.

use std::fmt::Write as _;

/// Every exit status of the name `mixer`. The legacy names use 0 and 255 alone. Spec: cli-operations.md 9.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// Done; the check was granted, the probe is available, the configuration is valid.
    Success,
    /// The answer is no: a check denied, a quota not granted in full, a probe unavailable, configuration invalid.
    Negative,
    /// The command line is wrong.
    Usage,
    /// A file, the configuration or the start failed on this machine.
    Local,
    /// A call failed or the server cannot be reached.
    Rpc,
    /// The answer did not come in time.
    Deadline,
    /// A bug in this program.
    Internal,
    /// SIGINT ended it before it was complete.
    Interrupted,
    /// SIGTERM ended it before it was complete.
    Terminated,
}

impl Exit {
    /// Every status with its number and meaning, as help and the manual list them.
    pub const ALL: [(Exit, u8, &'static str); 9] = [
        (
            Exit::Success,
            0,
            "success; check granted; probe available; configuration valid; tests passed; no difference",
        ),
        (
            Exit::Negative,
            1,
            "negative answer: check denied, quota not fully granted, probe unavailable, configuration invalid, test failed, answers differ",
        ),
        (Exit::Usage, 2, "usage error; tests, recordings or their configuration cannot be read"),
        (Exit::Local, 3, "local failure: file, configuration, start-up"),
        (Exit::Rpc, 4, "call failed or server unreachable"),
        (Exit::Deadline, 5, "deadline exceeded"),
        (Exit::Internal, 70, "internal error"),
        (Exit::Interrupted, 130, "ended by SIGINT before completion"),
        (Exit::Terminated, 143, "ended by SIGTERM before completion"),
    ];

    /// The number given to the caller of the process.
    pub fn code(self) -> u8 {
        Self::ALL.iter().find(|(exit, ..)| *exit == self).map_or(70, |(_, code, _)| *code)
    }

    /// The worse of two results of repeated calls: failed, late, denied, granted.
    #[must_use]
    pub fn worst(self, other: Exit) -> Exit {
        let rank = |exit: Exit| match exit {
            Exit::Rpc => 3,
            Exit::Deadline => 2,
            Exit::Negative => 1,
            _ => 0,
        };
        if rank(other) > rank(self) { other } else { self }
    }

    /// The list of statuses for the end of a help page.
    pub(crate) fn help() -> String {
        let mut text = String::from("Exit status:\n");
        for (_, code, meaning) in Self::ALL {
            let _ = writeln!(text, "  {code:<4} {meaning}");
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// Why a command failed, in words for its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The status under the name `mixer`.
    pub exit: Exit,
    /// What failed; one line.
    pub what: String,
    /// Why.
    pub cause: Option<String>,
    /// What to do next.
    pub hint: Option<String>,
    /// The text under the legacy names; otherwise `what: cause`.
    pub legacy: Option<String>,
    /// Whether the legacy names print it as an error of the command line, with the usage block.
    pub with_usage: bool,
}

impl Failure {
    /// A failure without further words.
    pub fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), cause: None, hint: None, legacy: None, with_usage: false }
    }

    /// A wrong command line.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// Something on this machine.
    pub fn local(what: impl Into<String>) -> Self {
        Self::new(Exit::Local, what)
    }

    /// With the reason.
    #[must_use]
    pub fn cause(mut self, cause: impl std::fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// With advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With the text for the legacy names.
    #[must_use]
    pub fn legacy(mut self, text: impl Into<String>) -> Self {
        self.legacy = Some(text.into());
        self
    }

    /// With the usage block under the legacy names.
    #[must_use]
    pub fn with_usage(mut self) -> Self {
        self.with_usage = true;
        self
    }

    /// The one line that the legacy names print.
    pub(crate) fn legacy_text(&self) -> String {
        match (&self.legacy, &self.cause) {
            (Some(text), _) => text.clone(),
            (None, Some(cause)) => format!("{}: {cause}", self.what),
            (None, None) => self.what.clone(),
        }
    }

    /// The lines that `mixer` prints.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("error: {}\n", self.what);
        if let Some(cause) = &self.cause {
            let _ = writeln!(text, "  cause: {cause}");
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "  hint: {hint}");
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

/// Why a command stops early.
#[derive(Debug)]
pub enum Stop {
    /// With words for the user.
    Failure(Box<Failure>),
    /// The reader of the output went away, which is success.
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

/// How a command ends.
pub type Outcome = Result<Exit, Stop>;
