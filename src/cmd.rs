//! The command line: one file a subcommand, each `parse flags -> resolve -> call the core -> render`.
//!
//! [`parse`] turns arguments into an [`Invocation`]; [`Invocation::run`] runs it over an [`Io`]. The name that the program is
//! called by decides the [`Personality`]: `mixer` has all commands and its own texts, `mixs`, `mixc` and `galley` answer word
//! for word like the originals. Parsing opens nothing; all output goes through [`Io`].
//! Spec: cli-operations.md.
//!
//! ```
//! let (mut io, captured) = mixer::cmd::Io::captured("");
//! let invocation = mixer::cmd::parse(["mixs", "version", "-s"].map(Into::into)).expect("a good command line");
//! assert_eq!(invocation.run(&mut io), 0);
//! assert_eq!(captured.out(), "unknown\n");
//! ```

mod attributes;
mod call;
mod check;
mod collateral;
mod completions;
mod crd;
mod diff;
mod doctor;
mod exit;
mod io;
mod legacy;
mod man;
mod output;
mod probe;
mod report;
mod routes;
mod server;
mod snapshot;
mod source;
mod test;
mod tree;
mod usage;
mod validate;
mod value;
mod version;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub use exit::{Exit, Failure, Outcome, Stop};
pub use io::{Captured, ColorChoice, Io, Style};
pub use tree::{Command, GlobalFlags, Program};
pub use usage::ErrorFormat;

/// Whose words and exit statuses are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Personality {
    /// All commands, native texts and statuses.
    Mixer,
    /// The server of the originals.
    Mixs,
    /// The client of the originals.
    Mixc,
    /// The configuration server of the originals.
    Galley,
}

impl Personality {
    /// Every name that the program answers to.
    pub const ALL: [(Personality, &'static str); 4] = [
        (Personality::Mixer, "mixer"),
        (Personality::Mixs, "mixs"),
        (Personality::Mixc, "mixc"),
        (Personality::Galley, "galley"),
    ];

    /// The personality with this name. Directories and `.exe` are ignored; any other name is `mixer`.
    pub fn of_program(program: &std::ffi::OsStr) -> Personality {
        let name =
            Path::new(program).file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
        let name = name.strip_suffix(".exe").unwrap_or(&name).to_owned();
        Self::from_name(&name).unwrap_or(Personality::Mixer)
    }

    fn from_name(name: &str) -> Option<Personality> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(personality, _)| *personality)
    }

    /// For example `mixs`.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(personality, _)| *personality == self).map_or("mixer", |(_, name)| name)
    }

    /// Whether it is one of the originals.
    pub fn is_legacy(self) -> bool {
        self != Personality::Mixer
    }
}

/// A command line that was understood.
#[derive(Debug)]
pub struct Invocation {
    /// Whose words to use.
    pub personality: Personality,
    /// Flags of every command.
    pub global: GlobalFlags,
    /// What to do.
    pub command: Command,
    /// The usage block, for errors of the legacy names that are found late.
    usage: String,
    /// Lines for standard error before anything else.
    notices: String,
}

/// Text to show instead of running something: help, a version, an error of the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    /// For standard output.
    pub out: String,
    /// For standard error.
    pub err: String,
    /// Exit status.
    pub code: u8,
}

impl Shown {
    fn help(text: String) -> Self {
        Shown { out: text, ..Shown::default() }
    }

    fn refused(text: String, code: u8) -> Self {
        Shown { err: text, code, ..Shown::default() }
    }

    /// Writes the texts to the streams of this process. A reader that went away is fine.
    pub fn print(&self) -> ExitCode {
        let mut io = Io::process();
        // There is nobody left to tell if this fails.
        let _ = io.out.write_all(self.out.as_bytes()).and_then(|()| io.out.flush());
        let _ = io.err.write_all(self.err.as_bytes());
        ExitCode::from(self.code)
    }
}

/// The exit status of every failure under the legacy names.
const LEGACY_FAILURE: u8 = 255;

/// Understands a command line, program name first.
///
/// Errors: the text to show and its exit status; that includes help.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, Shown> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let mut personality = args.first().map_or(Personality::Mixer, |program| Personality::of_program(program));
    if personality == Personality::Mixer
        && args.get(1).is_some_and(|a| a == "legacy")
        && let Some(legacy) = args.get(2).and_then(|a| Personality::from_name(&a.to_string_lossy()))
        && legacy.is_legacy()
    {
        personality = legacy;
        args.drain(..2);
    }
    if personality.is_legacy() { parse_legacy(personality, &args) } else { parse_native(args) }
}

fn parse_legacy(personality: Personality, args: &[OsString]) -> Result<Invocation, Shown> {
    let words: Vec<String> = args.iter().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let root = tree::legacy(personality);
    let (args, usage, notices) = match legacy::parse(&root, &words) {
        legacy::Parsed::Run { args, usage, notices } => (args, usage, notices),
        legacy::Parsed::Help(text) => return Err(Shown::help(text)),
        legacy::Parsed::Refused(text) => return Err(Shown::refused(text, LEGACY_FAILURE)),
    };
    let refuse = |error: clap::Error| {
        let text = usage::failure(&error, "").legacy_text();
        Shown::refused(legacy::usage_error(personality.name(), &text, &usage), LEGACY_FAILURE)
    };
    let args = args.into_iter().map(OsString::from).collect();
    let merged = server::with_config_file(args, false)
        .map_err(|failure| Shown::refused(format!("{}\n", failure.legacy_text()), LEGACY_FAILURE))?;
    let command = tree::parse_legacy(root, &merged).map_err(refuse)?;
    Ok(Invocation { personality, global: GlobalFlags::default(), command, usage, notices })
}

fn parse_native(args: Vec<OsString>) -> Result<Invocation, Shown> {
    let format = usage::error_format(&args);
    let title = usage::title(&tree::native(false), &args);
    let merged =
        server::with_config_file(args, true).map_err(|failure| usage::shown_failure(&failure, format))?;
    let program = tree::parse(&merged)
        .map_err(|error| usage::shown(&error, &title, format, &|flag| merged.place_of(flag)))?;
    Ok(Invocation {
        personality: Personality::Mixer,
        global: program.global,
        command: program.command,
        usage: String::new(),
        notices: String::new(),
    })
}

impl Invocation {
    /// Runs the command. Gives the exit status; a panic, which is a bug, has one of its own.
    pub fn run(self, io: &mut Io) -> u8 {
        let run = std::panic::AssertUnwindSafe(|| self.run_unguarded(io));
        std::panic::catch_unwind(run).unwrap_or(Exit::Internal.code())
    }

    fn run_unguarded(self, io: &mut Io) -> u8 {
        let Invocation { personality, global, command, usage, notices } = self;
        io.choose_color(global.color);
        let started = io.err.write_all(notices.as_bytes()).map_err(Stop::from);
        let outcome = started.and_then(|()| command.run(personality, io));
        let flushed = io.out.flush().map_err(Stop::from);
        match outcome.and_then(|exit| flushed.map(|()| exit)) {
            Ok(exit) => exit.code(),
            Err(Stop::BrokenPipe) => Exit::Success.code(),
            Err(Stop::Failure(failure)) => {
                report_failure(&failure, personality, global.error_format, &usage, io)
            }
        }
    }
}

fn report_failure(
    failure: &Failure,
    personality: Personality,
    format: ErrorFormat,
    usage: &str,
    io: &mut Io,
) -> u8 {
    let (text, code) = if personality.is_legacy() {
        let line = failure.legacy_text();
        let text = if failure.with_usage {
            legacy::usage_error(personality.name(), &line, usage)
        } else {
            format!("{line}\n")
        };
        (text, LEGACY_FAILURE)
    } else {
        (usage::failure_text(failure, format), failure.exit.code())
    };
    // Standard error is the last resort: if it is gone, the status has to do.
    let _ = io.err.write_all(text.as_bytes());
    code
}
