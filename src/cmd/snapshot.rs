//! `snapshot dump`: the compiled configuration.

mod debug;
mod diff;
mod live;
mod outlook;
mod section;
mod tables;

use std::path::PathBuf;

use serde_json::Value;

pub(crate) use live::Comparison;
pub(crate) use outlook::FileProblems;
use section::Section;

use super::controlz::{Controlz, SNAPSHOT, SNAPSHOTS};
use super::exit::{Exit, Failure, Outcome, Stop};
use super::flags::{Lost, tell_lost};
use super::io::Io;
use super::output::{self, DumpFormat};
use super::source::ConfigSource;
use mixer_engine::snapshot::{Snapshot, SnapshotDump, dump};

/// Flags of `snapshot`.
#[derive(Debug, Clone, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    action: SnapshotCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum SnapshotCommand {
    /// Print a snapshot: attributes, handlers, instances, rules, adapters, templates.
    ///
    /// Parameters include their defaults, expressions their inferred types.
    ///
    /// Example: mixer snapshot dump --config fs:///etc/mixer --section rules,handlers
    Dump(Box<DumpArgs>),
}

/// Flags of `snapshot dump`.
#[derive(Debug, Clone, clap::Args)]
struct DumpArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// Sections to print, separated by commas; default: all.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SECTIONS")]
    section: Vec<Section>,
    /// Output format; default: table on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<DumpFormat>,
    /// Compare with an earlier JSON dump; exits with status 1 if they differ, or may.
    ///
    /// Secrets are never shown. They are compared if the earlier dump was made with --show-secrets, and of a server this one, too;
    /// otherwise `masked values cannot be compared` is printed for each resource that has some, and the exit status is 1.
    #[arg(long, value_name = "FILE")]
    diff: Option<PathBuf>,
    /// Do not mask secret parameters.
    #[arg(long)]
    show_secrets: bool,
}

/// Flags that have no effect beside --diff.
const IDLE: &[Lost<DumpArgs>] = &[Lost::idle(
    &["output", "section"],
    |args| args.diff.is_some(),
    "--diff compares all of it, and prints text",
)];

/// Prints or compares a snapshot.
pub(crate) fn run(args: &SnapshotArgs, io: &mut Io) -> Outcome {
    let SnapshotCommand::Dump(args) = &args.action;
    args.source.tell_lost(io)?;
    tell_lost(IDLE, &args.source.given, args, io)?;
    let mut found = match args.source.running() {
        Some(server) => running(server, args.show_secrets)?,
        None => dump(&*args.source.snapshot(io)?),
    };
    if let Some(file) = &args.diff {
        return diff::run(&found, file, io);
    }
    if !args.show_secrets {
        found.mask_secrets();
    }
    let text = match DumpFormat::or_default(args.output, io) {
        DumpFormat::Json => output::json(&selected(&found, &args.section)?) + "\n",
        DumpFormat::Yaml => output::yaml(&selected(&found, &args.section)?),
        DumpFormat::Debug => output::escaped_lines(&debug::render(&found, &args.section)),
        DumpFormat::Table => tables::render(&found, &args.section, io.width),
        DumpFormat::Plain => tables::render(&found, &args.section, usize::MAX),
    };
    io.out.write_all(text.as_bytes())?;
    Ok(Exit::Success)
}

/// The snapshot of a running server. Errors: the server is unreachable, or the response is not a snapshot.
fn running(server: Controlz<'_>, reveal: bool) -> Result<SnapshotDump, Stop> {
    let reveal = if reveal { "?reveal=1" } else { "" };
    let document = server.get_kind(&format!("{SNAPSHOTS}{reveal}"), SNAPSHOT)?;
    serde_json::from_value(document).map_err(|error| server.unexpected("a snapshot", &error).into())
}

/// Prints what `snapshot` would change in a running server, and which resources the server serves in their last good version.
/// `problems` are those of the configuration of `snapshot`.
pub(crate) fn compare_with(
    server: Controlz<'_>,
    snapshot: &Snapshot,
    problems: &FileProblems,
    io: &mut Io,
) -> Result<Comparison, Stop> {
    live::compare(&server.address(), running(server, false)?, dump(snapshot), problems, io)
}

/// The document with the selected sections.
fn selected(found: &SnapshotDump, sections: &[Section]) -> Result<Value, Stop> {
    let mut document = serde_json::to_value(found)
        .map_err(|e| Failure::new(Exit::Internal, "cannot serialize the snapshot").cause(e))?;
    if let (false, Some(members)) = (sections.is_empty(), document.as_object_mut()) {
        let selected = |member: &str| sections.iter().any(|s| s.members().contains(&member));
        members.retain(|name, value| !value.is_array() || selected(name));
    }
    Ok(document)
}
