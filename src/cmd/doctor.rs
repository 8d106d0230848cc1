//! `doctor`: what would keep a server with certain settings from starting, or trouble it before long.

mod examine;

use std::ffi::OsString;
use std::io::Write as _;

use serde::Serialize;

use super::io::Style;
use super::output::{self, Format};
use super::{Command, Exit, Failure, Io, Outcome, Stop};
use mixer_config::store::EMBEDDED_SAMPLE;

/// Flags of `doctor`.
#[derive(Debug, Clone, clap::Args)]
pub struct DoctorArgs {
    /// How findings are written; a table on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// Flags of `mixer server`; its environment variables count as well.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SERVER FLAG")]
    flags: Vec<OsString>,
}

/// What came of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// Nothing to do.
    Ok,
    /// It would start, and yet.
    Warn,
    /// It would not start, or not do what it is there for.
    Fail,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Looks at everything and prints what was found. Spec: cli-operations.md 9.8.
pub(crate) fn run(args: &DoctorArgs, io: &mut Io) -> Outcome {
    let flags = std::iter::once("mixer").chain(["server"]).map(OsString::from).chain(args.flags.clone());
    let invocation = super::parse(flags).map_err(|shown| wrong_flags(&shown.err))?;
    let Command::Server(server) = invocation.command else { return Ok(Exit::Internal) };
    let mut options = server.options();
    if options.config_store_url.is_empty() {
        EMBEDDED_SAMPLE.clone_into(&mut options.config_store_url);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let findings = runtime.block_on(examine::all(&options));
    let default = if io.out_is_terminal { Format::Table } else { Format::Plain };
    print(&findings, args.output.unwrap_or(default), io)?;
    let fails = findings.iter().any(|finding| finding.verdict == Verdict::Fail);
    Ok(if fails { Exit::Negative } else { Exit::Success })
}

/// The words of `server`, whose flags they are.
fn wrong_flags(text: &str) -> Stop {
    let mut lines = text.lines();
    let what = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let mut failure =
        Failure::usage(if what.is_empty() { "no flags of `mixer server`".to_owned() } else { what });
    for line in lines {
        match line.trim_start().split_once(": ") {
            Some(("cause", cause)) => failure.cause = Some(cause.to_owned()),
            Some(("hint", hint)) => failure.hint = Some(hint.to_owned()),
            _ => {}
        }
    }
    failure.into()
}

fn print(findings: &[Finding], format: Format, io: &mut Io) -> Result<(), Stop> {
    let document = serde_json::json!({ "apiVersion": "mixer/v1", "kind": "Diagnosis", "findings": findings });
    match format {
        Format::Json => writeln!(io.out, "{}", output::json(&document))?,
        Format::Yaml => write!(io.out, "{}", output::yaml(&document))?,
        Format::Plain | Format::Table => {
            for Finding { check, verdict, detail, hint } in findings {
                let style = match verdict {
                    Verdict::Ok => Style::Good,
                    Verdict::Warn => Style::Warning,
                    Verdict::Fail => Style::Error,
                };
                let word = io.paint(style, verdict.name());
                let gap = " ".repeat(6 - verdict.name().len());
                writeln!(io.out, "{word}{gap}{check:<16}{detail}")?;
                if let Some(hint) = hint.as_ref().filter(|_| *verdict != Verdict::Ok) {
                    writeln!(io.out, "{:22}hint: {hint}", "")?;
                }
            }
        }
    }
    Ok(())
}
