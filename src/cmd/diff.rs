//! `diff`: which recorded decisions a change of configuration alters, and why.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::output::{self, Format, table};
use super::source::{self, NamespaceFlags};
use super::{Exit, Failure, Io, Outcome, Stop};
use mixer_config::Severity;
use mixer_engine::decision::Decision;
use mixer_engine::snapshot::Snapshot;
use mixer_policy::Stubs;
use mixer_policy::{Change, Offline, Replay, clock_of, read_requests, replay};

/// Flags of `diff`.
#[derive(Debug, Clone, clap::Args)]
pub struct DiffArgs {
    /// Configuration as it is: fs://DIR, a path, or embedded://sample.
    #[arg(long, value_name = "URL")]
    from: String,
    /// Configuration as it will be.
    #[arg(long, value_name = "URL")]
    to: String,
    /// Recorded calls: what `mixer server --record-requests` or `--decision-log` wrote; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    requests: PathBuf,
    #[command(flatten)]
    namespace: NamespaceFlags,
    /// Kinds of change that a table lists, the most frequent first; all are counted.
    #[arg(long, default_value_t = 20, value_name = "KINDS")]
    limit: usize,
    /// How changes are written; a table on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

/// Changes that have the same face and the same cause.
struct Group<'c> {
    change: String,
    why: String,
    calls: Vec<&'c Change>,
}

/// Reads, puts every call to both, prints and judges: 0 if all answers are the same, 1 if one differs, 2 if something cannot be read.
pub(crate) fn run(args: &DiffArgs, io: &mut Io) -> Outcome {
    let decisions = requests(args, io)?;
    let (from, to) = (snapshot(args, &args.from, io)?, snapshot(args, &args.to, io)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let replayed = runtime.block_on(async {
        let before = bench(&args.from, &from, &decisions).await?;
        let after = bench(&args.to, &to, &decisions).await?;
        Ok::<Replay, Stop>(replay((from, before), (to, after), &decisions).await)
    })?;
    if replayed.calls == 0 {
        let cause = replayed.skipped.first().map(|(line, cause)| format!("line {line}: {cause}"));
        let failure = Failure::usage(format!("no call in `{}` can be put", args.requests.display()));
        return Err(cause.into_iter().fold(failure, Failure::cause).into());
    }
    let groups = groups(&replayed.changes);
    let default = if io.out_is_terminal { Format::Table } else { Format::Plain };
    match args.output.unwrap_or(default) {
        Format::Json => writeln!(io.out, "{}", output::json(&document(&replayed, &groups)))?,
        Format::Yaml => write!(io.out, "{}", output::yaml(&document(&replayed, &groups)))?,
        Format::Table => show(args, &replayed, &groups, io.width, io)?,
        Format::Plain => show(args, &replayed, &groups, usize::MAX, io)?,
    }
    Ok(if replayed.changes.is_empty() { Exit::Success } else { Exit::Negative })
}

fn requests(args: &DiffArgs, io: &mut Io) -> Result<Vec<(usize, Decision)>, Stop> {
    let shown = args.requests.display();
    let read = if args.requests.as_os_str() == "-" {
        read_requests(&mut BufReader::new(&mut io.input))
    } else {
        let file = std::fs::File::open(&args.requests)
            .map_err(|error| Failure::usage(format!("cannot read `{shown}`")).cause(error))?;
        read_requests(&mut BufReader::new(file))
    };
    let hint = "it is written by `mixer server --record-requests FILE` or `--decision-log FILE`";
    let decisions = read.map_err(|error| {
        let place = format!("{shown}:{}:{}", error.line, error.column);
        Failure::usage(format!("{place}: {}", error.message)).hint(hint)
    })?;
    if decisions.is_empty() {
        return Err(Failure::usage(format!("`{shown}` holds no calls")).hint(hint).into());
    }
    Ok(decisions)
}

fn snapshot(args: &DiffArgs, url: &str, io: &mut Io) -> Result<Arc<Snapshot>, Stop> {
    let contents = source::read(&[url.to_owned()], io).map_err(|stop| match stop {
        Stop::Failure(failure) => Failure { exit: Exit::Usage, ..*failure }.into(),
        other => other,
    })?;
    let snapshot = source::build(&contents, &args.namespace);
    let errors = snapshot.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
    if errors > 0 {
        writeln!(
            io.err,
            "warning: `{url}` has {errors} errors, and only the rest answers; see `mixer validate`"
        )?;
    }
    Ok(snapshot)
}

async fn bench(
    url: &str,
    snapshot: &Arc<Snapshot>,
    decisions: &[(usize, Decision)],
) -> Result<Offline, Stop> {
    Offline::start(snapshot, clock_of(decisions), &Stubs::default()).await.map_err(|error| {
        let first = error.problems.first();
        let cause = first.map_or_else(String::new, |p| format!("{}: {}", p.resource, p.message));
        Failure::usage(format!("cannot build the handlers of `{url}`"))
            .cause(cause)
            .hint("`mixer validate` says what is wrong with it")
            .into()
    })
}

/// The changes by face and cause, the most frequent first.
fn groups(changes: &[Change]) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<(String, String), Vec<&Change>> = BTreeMap::new();
    for change in changes {
        let faces: Vec<String> =
            change.differences.iter().map(|d| format!("{} {} -> {}", d.what, d.from, d.to)).collect();
        groups.entry((faces.join("; "), change.causes.join(", "))).or_default().push(change);
    }
    let mut groups: Vec<Group<'_>> =
        groups.into_iter().map(|((change, why), calls)| Group { change, why, calls }).collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.calls.len()), group.calls.first().map(|c| c.line)));
    groups
}

fn show(
    args: &DiffArgs,
    replayed: &Replay,
    groups: &[Group<'_>],
    width: usize,
    io: &mut Io,
) -> Result<(), Stop> {
    if !groups.is_empty() {
        let rows: Vec<Vec<String>> = groups
            .iter()
            .map(|group| {
                let lines: Vec<String> =
                    group.calls.iter().take(3).map(|change| change.line.to_string()).collect();
                let more = if group.calls.len() > 3 { ", …" } else { "" };
                let lines = format!("{}{more}", lines.join(", "));
                vec![group.calls.len().to_string(), lines, shorten(&group.change), group.why.clone()]
            })
            .take(args.limit.max(1))
            .collect();
        io.out.write_all(table(&["CALLS", "LINES", "CHANGE", "WHY"], &rows, width).as_bytes())?;
        if groups.len() > rows.len() {
            writeln!(io.out, "{} more kinds of change; see --limit", groups.len() - rows.len())?;
        }
    }
    let changed = replayed.changes.len();
    writeln!(io.out, "{changed} of {} calls are answered differently", replayed.calls)?;
    if replayed.unsure > 0 {
        writeln!(
            io.out,
            "{} depend on masked attributes: what really happens may be something else",
            replayed.unsure
        )?;
    }
    if !replayed.drifted.is_empty() {
        let count = replayed.drifted.len();
        writeln!(
            io.out,
            "{count} are not answered by --from as they were recorded: state or backends differ"
        )?;
    }
    for (line, cause) in &replayed.skipped {
        writeln!(io.err, "line {line} is left out: {cause}")?;
    }
    Ok(())
}

/// A change that fits into a line; reported values can be long.
fn shorten(text: &str) -> String {
    const MOST: usize = 160;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain(['…']).collect()
}

fn document(replayed: &Replay, groups: &[Group<'_>]) -> Value {
    json!({
        "apiVersion": "mixer/v1",
        "kind": "PolicyDiff",
        "summary": {
            "calls": replayed.calls,
            "changed": replayed.changes.len(),
            "unsure": replayed.unsure,
            "drifted": replayed.drifted.len(),
            "skipped": replayed.skipped.len(),
        },
        "groups": groups.iter().map(|group| json!({
            "calls": group.calls.len(),
            "change": group.change,
            "why": group.why,
            "lines": group.calls.iter().map(|change| change.line).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "changes": replayed.changes.iter().map(|change| json!({
            "line": change.line,
            "time": change.time,
            "differences": change.differences.iter().map(|d| {
                json!({"what": d.what, "from": d.from, "to": d.to})
            }).collect::<Vec<_>>(),
            "causes": change.causes,
            "masked": change.masked,
        })).collect::<Vec<_>>(),
        "drifted": replayed.drifted,
        "skipped": replayed.skipped.iter().map(|(line, cause)| {
            json!({"line": line, "cause": cause})
        }).collect::<Vec<_>>(),
    })
}
