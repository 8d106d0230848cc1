//! From an [`Invocation`] to its exit status: runs the command and prints failures.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use mixer_attribute::Timestamp;
use mixer_base::log::{Log, LogOptions};

use super::exit::{Exit, Failure, GALLEY_FATAL, LEGACY_FAILURE, Outcome, Stop};
use super::io::Io;
use super::parse::{Invocation, server_options};
use super::personality::Personality;
use super::tree::{Command, for_documents};
use super::usage::{self, ErrorFormat};
use super::verbosity::Verbosity;
use super::{
    adapter, check, collateral, completions, crd, diff, doctor, eval, explain_code, fmt, galley, init,
    legacy, man, probe, proxy, report, routes, server, snapshot, test, validate, version,
};

impl Invocation {
    /// Runs the command and returns its exit status. A panic, which is a bug, has a status of its own.
    pub fn run(self, io: &mut Io) -> u8 {
        let run = std::panic::AssertUnwindSafe(|| self.run_unguarded(io));
        std::panic::catch_unwind(run).unwrap_or(Exit::Internal.code())
    }

    fn run_unguarded(self, io: &mut Io) -> u8 {
        let Invocation { personality, global, command, usage, given, notices } = self;
        io.choose_color(global.color);
        io.error_format = global.error_format;
        io.given = given;
        if global.verbosity() == Verbosity::Quiet {
            io.be_quiet(global.has_output);
        }
        let logs = global.verbosity() == Verbosity::Verbose && !command.has_a_log();
        let log = logs.then(log_to_standard_error).flatten();
        let started = io.err.write_all(notices.as_bytes()).map_err(Stop::from);
        let outcome = started.and_then(|()| dispatch(command, personality, io));
        let flushed = io.out.flush().map_err(Stop::from);
        if let Some(log) = log {
            log.flush(LAST_RECORDS);
        }
        match outcome.and_then(|exit| flushed.map(|()| exit)) {
            Ok(exit) => exit.code(),
            Err(Stop::BrokenPipe) => Exit::Success.code(),
            Err(Stop::Failure(failure)) => {
                print_failure(&failure, personality, global.error_format, &usage, io)
            }
        }
    }
}

/// Time limit for writing the last records of a command.
const LAST_RECORDS: Duration = Duration::from_millis(200);

/// The log of what a command runs in this process; `None` if the process has one.
fn log_to_standard_error() -> Option<Log> {
    let options = LogOptions {
        targets: vec!["stderr".to_owned()],
        output_level: Verbosity::Verbose.log_level().unwrap_or_default().to_owned(),
        ..LogOptions::default()
    };
    Log::install(&options).ok()
}

fn dispatch(command: Command, personality: Personality, io: &mut Io) -> Outcome {
    match command {
        Command::Init(args) => init::run(&args, io),
        Command::Fmt(args) => fmt::run(&args, io),
        Command::Server(args) => server::run(&args, personality, server_options, io),
        Command::Check(args) => check::run(&args, personality, io),
        Command::Report(args) => report::run(&args, personality, io),
        Command::Probe(args) => probe::run(&args, personality, io),
        Command::Validate(args) => validate::run(&args, io),
        Command::Eval(args) => eval::run(&args, io),
        Command::ExplainCode(args) => explain_code::run(&args, io),
        Command::Doctor(args) => doctor::run(&args, server_options, io),
        Command::Test(args) => test::run(&args, io),
        Command::Diff(args) => diff::run(&args, io),
        Command::Snapshot(args) => snapshot::run(&args, io),
        Command::Routes(args) => routes::run(&args, io),
        Command::Galley(args) => galley::run(&args, personality, io),
        Command::Proxy(args) => proxy::run(&args, io),
        Command::Adapter(args) => adapter::run(&args, io),
        Command::Version(args) => version::run(&args, personality, io),
        Command::Crd(args) => crd::run(&args, io),
        Command::Completions(args) => completions::run(&args, for_documents, io),
        Command::Man(args) => man::run(&args, for_documents, io),
        Command::Collateral(args) => collateral::run(&args, personality, for_documents),
        Command::Legacy(args) => {
            let program = args.program();
            let failure = match Personality::from_name(program) {
                // The parser takes it only as the first argument: the legacy programs have flags of their own.
                Some(legacy) if legacy.is_legacy() => {
                    Failure::usage(format!("flags before `legacy` are not those of `{program}`"))
                        .hint(format!("begin with `mixer legacy {program}`; its own flags follow"))
                }
                _ => Failure::usage(format!("unknown legacy program `{program}`"))
                    .hint("one of mixs, mixc, galley"),
            };
            Err(failure.into())
        }
    }
}

/// Prints a failure to standard error and returns its exit status.
fn print_failure(
    failure: &Failure,
    personality: Personality,
    format: ErrorFormat,
    usage: &str,
    io: &mut Io,
) -> u8 {
    if let (true, Some(text)) = (personality == Personality::Galley, &failure.fatal) {
        let time = Timestamp::from_system_time(SystemTime::now()).rfc3339_micros();
        // As below.
        let _ = writeln!(io.out, "{time}\tfatal\t{text}").and_then(|()| io.out.flush());
        return GALLEY_FATAL;
    }
    let (text, code) = if personality.is_legacy() {
        let line = failure.legacy_text();
        let text = if failure.with_usage {
            legacy::usage_error(personality.name(), &line, usage)
        } else {
            format!("{line}\n")
        };
        (text, LEGACY_FAILURE)
    } else {
        (usage::failure_text(&failure.clone().without(&io.given), format), failure.exit.code())
    };
    // A write error on standard error cannot be reported anywhere; the exit status remains.
    let _ = io.err.write_all(text.as_bytes());
    code
}
