//! `snapshot dump`: the configuration as the engine understands it.

mod debug;
mod diff;
mod tables;

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::Value;

use super::output;
use super::source::{self, ConfigSource};
use super::{Exit, Failure, Io, Outcome, Stop};
use mixer_engine::snapshot::{Snapshot, SnapshotDump, dump};

/// Flags of `snapshot`.
#[derive(Debug, Clone, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct SnapshotArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Action {
    /// Print a snapshot: attributes, handlers, instances, rules.
    ///
    /// Parameters are shown with their defaults filled in, expressions with their inferred types.
    ///
    /// Example: mixer snapshot dump --config fs:///etc/mixer --section rules,handlers
    Dump(Box<DumpArgs>),
}

/// Flags of `snapshot dump`.
#[derive(Debug, Clone, clap::Args)]
struct DumpArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// Parts to print, separated by commas; all without it.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SECTIONS")]
    section: Vec<Section>,
    /// How it is written; tables on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<DumpFormat>,
    /// Compare with an earlier JSON dump; ends with status 1 if they differ.
    #[arg(long, value_name = "FILE")]
    diff: Option<PathBuf>,
    /// Show parameters that look like secrets.
    #[arg(long)]
    show_secrets: bool,
}

/// How a dump is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    /// Tables that fit the terminal.
    Table,
    /// Tables as wide as they get.
    Plain,
    /// One document.
    Json,
    /// The same document.
    Yaml,
    /// The layout of the originals' debug log.
    Debug,
}

impl DumpFormat {
    /// Tables on a terminal, else plain.
    pub(crate) fn or_default(format: Option<DumpFormat>, io: &Io) -> DumpFormat {
        format.unwrap_or(if io.out_is_terminal { DumpFormat::Table } else { DumpFormat::Plain })
    }
}

/// A part of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Section {
    Templates,
    Adapters,
    Handlers,
    Instances,
    Rules,
    Attributes,
    Errors,
}

impl Section {
    const ALL: [Section; 7] = [
        Section::Rules,
        Section::Handlers,
        Section::Instances,
        Section::Templates,
        Section::Adapters,
        Section::Attributes,
        Section::Errors,
    ];

    /// Its member in the document.
    fn member(self) -> &'static str {
        match self {
            Section::Templates => "templates",
            Section::Adapters => "adapters",
            Section::Handlers => "handlers",
            Section::Instances => "instances",
            Section::Rules => "rules",
            Section::Attributes => "attributes",
            Section::Errors => "errors",
        }
    }
}

/// Prints or compares a snapshot. Spec: cli-operations.md 9.5.
pub(crate) fn run(args: &SnapshotArgs, io: &mut Io) -> Outcome {
    let Action::Dump(args) = &args.action;
    let mut found = match &args.source.server {
        Some(address) => running(address)?,
        None => dump(&*args.source.snapshot(io)?),
    };
    if !args.show_secrets {
        found.mask_secrets();
    }
    if let Some(file) = &args.diff {
        return diff::run(&found, file, io);
    }
    let text = match DumpFormat::or_default(args.output, io) {
        DumpFormat::Json => output::json(&selected(&found, &args.section)?) + "\n",
        DumpFormat::Yaml => output::yaml(&selected(&found, &args.section)?),
        DumpFormat::Debug => debug::render(&found, &args.section),
        DumpFormat::Table => tables::render(&found, &args.section, io.width),
        DumpFormat::Plain => tables::render(&found, &args.section, usize::MAX),
    };
    io.out.write_all(text.as_bytes())?;
    Ok(Exit::Success)
}

/// The snapshot of a running server. Errors: it cannot be asked, or says something else.
fn running(address: &str) -> Result<SnapshotDump, Stop> {
    let document = source::fetch(address, "/snapshotj/")?;
    serde_json::from_value(document)
        .map_err(|e| Failure::new(Exit::Rpc, "the server sent no snapshot").cause(e).into())
}

/// Prints what would change in a running server if it read `snapshot`; says whether anything would.
pub(crate) fn compare_with(address: &str, snapshot: &Snapshot, io: &mut Io) -> Result<bool, Stop> {
    let (mut before, mut after) = (running(address)?, dump(snapshot));
    before.mask_secrets();
    after.mask_secrets();
    diff::print(&before, &after, io)
}

/// The document with the sections asked for.
fn selected(found: &SnapshotDump, sections: &[Section]) -> Result<Value, Stop> {
    let mut document = serde_json::to_value(found)
        .map_err(|e| Failure::new(Exit::Internal, "cannot write the snapshot").cause(e))?;
    if let (false, Some(members)) = (sections.is_empty(), document.as_object_mut()) {
        let wanted = |member: &str| sections.iter().any(|s| s.member() == member);
        members.retain(|name, value| !value.is_array() || wanted(name));
    }
    Ok(document)
}
