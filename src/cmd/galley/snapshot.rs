//! `galley snapshot dump` and `galley snapshot diff`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use clap::Subcommand;
use serde_json::Value;
use similar::TextDiff;

use super::document::{ServerFlags, list, text};
use crate::cmd::controlz::{GALLEY_SNAPSHOT, SNAPSHOTS};
use crate::cmd::exit::{Exit, Failure, Outcome, Stop};
use crate::cmd::io::Io;
use crate::cmd::output::{self, OutputFormat, escaped};
use crate::cmd::value;
use mixer_base::regular_file;
use mixer_base::secrets::{has_masked, mask_annotations, mask_document};

/// Largest dump that is read from a file, in bytes.
const MAX_FILE: u64 = 1 << 30;

/// Flags of `galley snapshot`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    command: SnapshotCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum SnapshotCommand {
    /// Print what is published.
    Dump(DumpArgs),
    /// Compare what is published with a dump, or with another galley. Exits with status 1 if they differ.
    Diff(DiffArgs),
}

/// Which part of what is published.
#[derive(Debug, Clone, clap::Args)]
struct PartFlags {
    #[command(flatten)]
    at: ServerFlags,
    /// Snapshot group.
    #[arg(long, default_value = "default", value_name = "GROUP")]
    group: String,
    /// One collection.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "COLLECTION")]
    collection: String,
}

impl PartFlags {
    /// The document with this part; with `reveals` with its secrets, if galley may reveal them.
    fn path(&self, reveals: bool) -> String {
        let reveal = if reveals { "&reveal=1" } else { "" };
        format!("{SNAPSHOTS}?group={}&collection={}{reveal}", self.group, self.collection)
    }

    /// This part of what galley publishes.
    fn published(&self, reveals: bool) -> Result<Value, Stop> {
        self.at.controlz().get_kind(&self.path(reveals), GALLEY_SNAPSHOT)
    }
}

#[derive(Debug, Clone, clap::Args)]
struct DumpArgs {
    #[command(flatten)]
    part: PartFlags,
    /// Output format; default: json.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
    /// Do not mask secret parameters, if galley may reveal them.
    #[arg(long)]
    show_secrets: bool,
}

#[derive(Debug, Clone, clap::Args)]
struct DiffArgs {
    /// A file that `snapshot dump` wrote as JSON, or the ControlZ endpoint of another galley.
    #[arg(value_name = "FILE|ADDRESS")]
    other: String,
    #[command(flatten)]
    part: PartFlags,
}

/// Runs a command.
pub(crate) fn run(args: &SnapshotArgs, io: &mut Io) -> Outcome {
    match &args.command {
        SnapshotCommand::Dump(args) => dump(args, io),
        SnapshotCommand::Diff(args) => diff(args, io),
    }
}

fn dump(args: &DumpArgs, io: &mut Io) -> Outcome {
    let snapshot = args.part.published(args.show_secrets)?;
    match args.output {
        Some(OutputFormat::Yaml) => write!(io.out, "{}", output::yaml(&snapshot))?,
        Some(OutputFormat::Table | OutputFormat::Plain) => table(&snapshot, io)?,
        Some(OutputFormat::Json) | None => writeln!(io.out, "{}", output::json(&snapshot))?,
    }
    Ok(Exit::Success)
}

fn table(snapshot: &Value, io: &mut Io) -> Result<(), Stop> {
    let collections = snapshot.get("collections").and_then(Value::as_object);
    let mut rows = Vec::new();
    for (name, collection) in collections.into_iter().flatten() {
        for resource in list(collection, "resources") {
            rows.push(vec![
                name.clone(),
                text(resource, "name").to_owned(),
                text(resource, "version").to_owned(),
            ]);
        }
    }
    let width = if io.out_is_terminal { io.width } else { 10_000 };
    write!(io.out, "{}", output::table(&["COLLECTION", "RESOURCE", "VERSION"], &rows, width))?;
    Ok(())
}

/// Resources by collection and name. Versions are those of one process, as is the time at which the mesh configuration was made; they
/// are left out.
fn resources(snapshot: &Value) -> BTreeMap<String, Value> {
    let collections = snapshot.get("collections").and_then(Value::as_object);
    let mut found = BTreeMap::new();
    for (name, collection) in collections.into_iter().flatten() {
        for resource in list(collection, "resources") {
            let mut shown = resource.clone();
            if let Some(members) = shown.as_object_mut() {
                members.remove("version");
                members.remove("name");
                if name == mixer_schema::MESH_CONFIG {
                    members.remove("createTime");
                }
            }
            found.insert(format!("{name} {}", text(resource, "name")), shown);
        }
    }
    found
}

/// Secrets are compared and not shown.
fn diff(args: &DiffArgs, io: &mut Io) -> Outcome {
    let before = resources(&other(&args.other, &args.part)?);
    let after = resources(&args.part.published(true)?);
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut is_equal = true;
    for name in names {
        let told = match (before.get(name), after.get(name)) {
            (Some(old), Some(new)) => {
                let Some(changes) = difference(old, new) else { continue };
                format!("changed {name}\n{changes}")
            }
            (None, _) => format!("added {name}\n"),
            (_, None) => format!("removed {name}\n"),
        };
        is_equal = false;
        io.out.write_all(told.as_bytes())?;
    }
    Ok(if is_equal { Exit::Success } else { Exit::Negative })
}

/// What differs, without secrets; `None` if nothing does. What is masked on a side may differ.
fn difference(old: &Value, new: &Value) -> Option<String> {
    let is_comparable = !has_masked(old) && !has_masked(new);
    if old == new && is_comparable {
        return None;
    }
    let [masked_old, masked_new] = [old, new].map(|value| {
        let mut masked = value.clone();
        mask_document(&mut masked);
        if let Some(annotations) = masked.get_mut("annotations") {
            mask_annotations(annotations);
        }
        masked
    });
    if masked_old == masked_new {
        let told =
            if is_comparable { "a secret, which is not shown" } else { "masked values cannot be compared" };
        return Some(format!("{told}\n"));
    }
    let (old, new) = (output::yaml(&masked_old), output::yaml(&masked_new));
    let changes = TextDiff::from_lines(&old, &new);
    Some(changes.unified_diff().context_radius(2).to_string())
}

/// A dump of a file, or of another galley.
fn other(place: &str, part: &PartFlags) -> Result<Value, Stop> {
    let name_another =
        "name a dump of `galley snapshot dump`, or the ControlZ endpoint of a galley, HOST:PORT";
    let file = std::path::Path::new(place);
    if !file.exists() {
        let address = value::introspection_address(place).map_err(|why| {
            let what = format!("there is no file `{place}`, and it is no address");
            Failure::local(what).cause(why).hint(name_another)
        })?;
        let galley = part.at.other(&address, "ADDRESS");
        return galley.get_kind(&part.path(true), GALLEY_SNAPSHOT).map_err(|stop| match stop {
            Stop::Failure(failure) if !place.contains(':') => {
                let what = format!("there is no file `{place}`, and no galley at this address");
                Failure { what, ..*failure }.hint(name_another).into()
            }
            stop => stop,
        });
    }
    let failed = |cause: String| Stop::from(Failure::local(format!("cannot read `{place}`")).cause(cause));
    let text = regular_file::read_text(file, MAX_FILE).map_err(|error| failed(error.to_string()))?;
    let dump: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    match self::text(&dump, "kind") {
        GALLEY_SNAPSHOT => Ok(dump),
        kind => {
            let what = if kind.is_empty() { "a document without a kind" } else { kind };
            let failure = Failure::local(format!("`{place}` is no dump of galley, but {}", escaped(what)));
            Err(failure.hint(name_another).into())
        }
    }
}
