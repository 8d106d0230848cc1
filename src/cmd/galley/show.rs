//! `galley sinks` and `galley status`.

use std::io::Write as _;

use serde_json::Value;

use super::document::{self, ServerFlags, is, list, number, text};
use crate::cmd::exit::{Exit, Outcome, Stop};
use crate::cmd::io::Io;
use crate::cmd::output::{self, OutputFormat, escaped, table};

/// Flags of `galley sinks` and `galley status`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    at: ServerFlags,
    /// Output format; default: table.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
}

/// Prints a document, unless a table is asked for.
fn document(value: &Value, format: Option<OutputFormat>, io: &mut Io) -> Result<bool, Stop> {
    match format {
        Some(OutputFormat::Json) => writeln!(io.out, "{}", output::json(value))?,
        Some(OutputFormat::Yaml) => write!(io.out, "{}", output::yaml(value))?,
        Some(OutputFormat::Table | OutputFormat::Plain) | None => return Ok(false),
    }
    Ok(true)
}

fn width(format: Option<OutputFormat>, io: &Io) -> usize {
    if format == Some(OutputFormat::Plain) || !io.out_is_terminal { 10_000 } else { io.width }
}

/// Prints the sinks, and what they refused.
pub(crate) fn sinks(args: &ShowArgs, io: &mut Io) -> Outcome {
    let sinks = args.at.controlz().get("/sinkj/")?;
    if document(&sinks, args.output, io)? {
        return Ok(Exit::Success);
    }
    let all = sinks.as_array().map(Vec::as_slice).unwrap_or_default();
    let row = |sink: &Value| {
        vec![
            number(sink, "id").to_string(),
            text(sink, "peer").to_owned(),
            text(sink, "node").to_owned(),
            text(sink, "state").to_owned(),
            number(sink, "acknowledged").to_string(),
            number(sink, "outstanding").to_string(),
            number(sink, "refused").to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let headers = ["ID", "PEER", "NODE", "STATE", "ACKNOWLEDGED", "OUTSTANDING", "REFUSED"];
    write!(io.out, "{}", table(&headers, &rows, width(args.output, io)))?;
    for sink in all {
        for collection in list(sink, "collections") {
            let Some(refused) = collection.get("refused").filter(|refused| refused.is_object()) else {
                continue;
            };
            let (id, name) = (number(sink, "id"), text(collection, "collection"));
            let (version, why) = (text(refused, "version"), escaped(text(refused, "message")).into_owned());
            writeln!(io.out, "sink {id} refused {name} {version}: {why}")?;
        }
    }
    Ok(Exit::Success)
}

/// The number of changes of a group that are not published; at least so many, if a source cannot tell how many it has.
fn pending_of(group: &Value) -> String {
    let pending = number(group, "pendingEvents");
    let is_counted = |waiting: &Value| waiting.get("changes").is_some_and(Value::is_u64);
    match list(group, "waiting").iter().all(is_counted) {
        true => pending.to_string(),
        false => format!("at least {pending}"),
    }
}

/// Prints everything at a glance.
pub(crate) fn status(args: &ShowArgs, io: &mut Io) -> Outcome {
    let status = args.at.controlz().get("/statusj/")?;
    if document(&status, args.output, io)? {
        return Ok(Exit::Success);
    }
    let width = width(args.output, io);
    let is_withheld = list(&status, "sources").iter().any(|source| is(source, "isWithheld"));
    let pending: u64 = list(&status, "groups").iter().map(|group| number(group, "pendingEvents")).sum();
    let synced = match is(&status, "isSynced") {
        false => "not everything was published yet",
        true if is_withheld => "changes are withheld",
        true if pending > 0 => "changes are not published yet",
        true => "everything was published",
    };
    writeln!(io.out, "publication {}: {synced}\n", number(&status, "publication"))?;
    let yes = |value: &Value, name: &str, word: &str| {
        if is(value, name) { word.to_owned() } else { format!("not {word}") }
    };
    let sources: Vec<Vec<String>> = list(&status, "sources")
        .iter()
        .map(|source| {
            vec![
                text(source, "name").to_owned(),
                yes(source, "isConnected", "connected"),
                yes(source, "isSynced", "synced"),
                number(source, "skipped").to_string(),
                // A source that withholds something may have no other error.
                [text(source, "held"), text(source, "lastError")]
                    .into_iter()
                    .find(|why| !why.is_empty())
                    .unwrap_or_default()
                    .to_owned(),
            ]
        })
        .collect();
    write!(io.out, "{}", table(&["SOURCE", "CONNECTION", "SYNC", "SKIPPED", "LAST ERROR"], &sources, width))?;
    let groups: Vec<Vec<String>> = list(&status, "groups")
        .iter()
        .map(|group| {
            vec![
                text(group, "name").to_owned(),
                number(group, "publication").to_string(),
                text(group, "publishedAt").to_owned(),
                pending_of(group),
                list(group, "waitsFor").len().to_string(),
            ]
        })
        .collect();
    writeln!(io.out)?;
    write!(
        io.out,
        "{}",
        table(&["GROUP", "PUBLICATION", "PUBLISHED", "PENDING", "WAITS FOR"], &groups, width)
    )?;
    for group in list(&status, "groups") {
        for waiting in list(group, "waiting") {
            let (source, why) = (text(waiting, "source"), text(waiting, "why"));
            let changes = waiting.get("changes").and_then(Value::as_u64);
            let changes = changes.map(|count| format!("{count} pending: ")).unwrap_or_default();
            writeln!(io.out, "not published: {}: {changes}{}", escaped(source), escaped(why))?;
        }
    }
    let collections: Vec<Vec<String>> = list(&status, "collections")
        .iter()
        .filter(|collection| number(collection, "resources") > 0)
        .map(|collection| {
            vec![
                text(collection, "name").to_owned(),
                text(collection, "version").to_owned(),
                number(collection, "resources").to_string(),
            ]
        })
        .collect();
    if !collections.is_empty() {
        writeln!(io.out)?;
        write!(io.out, "{}", table(&["COLLECTION", "VERSION", "RESOURCES"], &collections, width))?;
    }
    let sinks: Vec<Vec<String>> = list(&status, "sinks")
        .iter()
        .map(|sink| {
            vec![
                document::sink(sink),
                text(sink, "state").to_owned(),
                number(sink, "acknowledged").to_string(),
                number(sink, "outstanding").to_string(),
                number(sink, "refused").to_string(),
            ]
        })
        .collect();
    writeln!(io.out)?;
    write!(io.out, "{}", table(&["SINK", "STATE", "ACKNOWLEDGED", "OUTSTANDING", "REFUSED"], &sinks, width))?;
    if let Some(admission) = status.get("admission").filter(|admission| is(admission, "isEnabled")) {
        let (passed, failed) = (number(admission, "passed"), number(admission, "failed"));
        writeln!(io.out, "\nadmission: {passed} passed, {failed} refused")?;
    }
    Ok(Exit::Success)
}
