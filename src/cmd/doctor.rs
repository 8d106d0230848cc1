//! `doctor`: finds problems that would prevent a server from starting or running.

mod examine;
mod finding;

use std::ffi::OsString;
use std::io::Write as _;

use finding::{CheckStatus, Finding};

use super::event_loop::block_on;
use super::exit::{Exit, Failure, Outcome, Stop};
use super::io::{Io, Style};
use super::output::{self, OutputFormat, escaped};
use super::server::ParseOptions;
use super::shown::Shown;

/// Width of the column of statuses, with its gap.
const STATUS_WIDTH: usize = 6;
/// Least width of the column of names, with its gap.
const CHECK_WIDTH: usize = 16;

/// Flags of `doctor`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Output format; default: table on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
    /// Flags of `mixer server`, which `mixer server --help` lists; its environment variables apply as well.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SERVER FLAG")]
    flags: Vec<OsString>,
}

/// The command line of `doctor` with its own flags, and those of every command, before the flags of `mixer server`, which end its own. A command
/// line of another command is left as it is.
pub(super) fn with_own_flags_first(root: &clap::Command, args: Vec<OsString>) -> Vec<OsString> {
    let command = args.iter().skip(1).position(|arg| root.find_subcommand(arg).is_some());
    let own = command.and_then(|at| root.find_subcommand(args.get(at + 1)?));
    let server = root.find_subcommand("server");
    let (Some(at), Some(own), Some(server)) = (command, own.filter(|own| own.get_name() == "doctor"), server)
    else {
        return args;
    };
    let globals = root.get_arguments().filter(|arg| arg.is_global_set());
    let known: Vec<&clap::Arg> = own.get_arguments().chain(globals).collect();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let mut rest = args.into_iter();
    first.extend(rest.by_ref().take(at + 2));
    while let Some(arg) = rest.next() {
        let text = arg.to_string_lossy().into_owned();
        if text == "--" {
            last.push(arg);
            last.extend(rest.by_ref());
            break;
        }
        let is_help = |text: &str| matches!(text, "-h" | "--help");
        let flag = known.iter().find(|flag| is_flag(flag, &text));
        let of_server = || server.get_arguments().find(|flag| is_flag(flag, &text));
        let has_value = match flag {
            Some(flag) => takes_next(flag, &text),
            None => of_server().is_some_and(|flag| takes_next(flag, &text)),
        };
        let to = if flag.is_some() || is_help(&text) { &mut first } else { &mut last };
        match flag.and_then(|flag| attached(flag, &text)) {
            Some((name, value)) => to.extend([name, value].map(OsString::from)),
            None => to.push(arg),
        }
        let is_value = |next: &OsString| !is_help(&next.to_string_lossy());
        if has_value && rest.as_slice().first().is_some_and(is_value) {
            to.extend(rest.next());
        }
    }
    first.append(&mut last);
    first
}

/// Whether an argument is this flag: `--name`, `--name=VALUE`, `-n` or `-nVALUE`.
fn is_flag(flag: &clap::Arg, arg: &str) -> bool {
    let Some(long) = arg.strip_prefix("--") else {
        let short = arg.strip_prefix('-').and_then(|rest| rest.chars().next());
        return short.is_some() && short == flag.get_short();
    };
    let name = long.split('=').next().unwrap_or_default();
    flag.get_long() == Some(name) || flag.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
}

/// The name and the value of `-nVALUE` and `-n=VALUE`, which would be taken for a flag of the server.
fn attached<'a>(flag: &clap::Arg, arg: &'a str) -> Option<(&'a str, &'a str)> {
    let is_short = arg.len() > 2 && !arg.starts_with("--") && flag.get_action().takes_values();
    let (name, value) = arg.split_at_checked(2).filter(|_| is_short)?;
    Some((name, value.strip_prefix('=').unwrap_or(value)))
}

/// Whether the next argument is the value of this flag, which `arg` gives.
fn takes_next(flag: &clap::Arg, arg: &str) -> bool {
    let has_none = if arg.starts_with("--") { !arg.contains('=') } else { arg.chars().count() == 2 };
    flag.get_action().takes_values() && !flag.is_require_equals_set() && has_none
}

/// Runs all checks and prints the findings.
///
/// Exit status: 0 if there is no `fail`, 1 if there is one, 2 for flags that `mixer server` refuses.
pub(crate) fn run(args: &DoctorArgs, parse: ParseOptions, io: &mut Io) -> Outcome {
    let command_line =
        ["mixer", "server"].map(OsString::from).into_iter().chain(args.flags.clone()).collect();
    let parsed = match parse(command_line) {
        Ok(parsed) => parsed,
        Err(shown) if shown.err.is_empty() => {
            // Help of `mixer server`, which its flags ask for.
            io.out.write_all(shown.out.as_bytes())?;
            return Ok(Exit::Success);
        }
        Err(Shown { failure: Some(failure), .. }) => return Err(Stop::Failure(failure)),
        Err(shown) => return Err(Failure::usage(shown.err.trim_end()).into()),
    };
    let Some(options) = parsed else { return Ok(Exit::Internal) };
    let findings = block_on(async { Ok(examine::all(&options).await) })?;
    let default = if io.out_is_terminal { OutputFormat::Table } else { OutputFormat::Plain };
    print(&findings, args.output.unwrap_or(default), io)?;
    let fails = findings.iter().any(|finding| finding.verdict == CheckStatus::Fail);
    Ok(if fails { Exit::Negative } else { Exit::Success })
}

fn print(findings: &[Finding], format: OutputFormat, io: &mut Io) -> Result<(), Stop> {
    let document = serde_json::json!({ "apiVersion": "mixer/v1", "kind": "Diagnosis", "findings": findings });
    match format {
        OutputFormat::Json => writeln!(io.out, "{}", output::json(&document))?,
        OutputFormat::Yaml => write!(io.out, "{}", output::yaml(&document))?,
        OutputFormat::Plain | OutputFormat::Table => {
            let names = findings.iter().map(|finding| finding.check.len() + 1);
            let width = names.max().unwrap_or_default().max(CHECK_WIDTH);
            for Finding { check, verdict, detail, hint } in findings {
                let style = match verdict {
                    CheckStatus::Ok => Style::Good,
                    CheckStatus::Warn => Style::Warning,
                    CheckStatus::Fail => Style::Error,
                };
                let status = io.paint(style, verdict.name());
                let gap = " ".repeat(STATUS_WIDTH - verdict.name().len());
                let one_line = |text: &str| escaped(&text.trim_end().replace('\n', " ")).into_owned();
                writeln!(io.out, "{status}{gap}{check:<width$}{}", one_line(detail))?;
                if let Some(hint) = hint.as_ref().filter(|_| *verdict != CheckStatus::Ok) {
                    writeln!(
                        io.out,
                        "{:indent$}hint: {}",
                        "",
                        one_line(hint),
                        indent = STATUS_WIDTH + width
                    )?;
                }
            }
        }
    }
    Ok(())
}
