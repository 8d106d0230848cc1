//! `diff`: shows which recorded decisions a configuration change alters, and why.

mod settings;

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::event_loop::block_on;
use super::exit::{Exit, Failure, Outcome, Stop};
use super::flags::{GivenFlags, Lost, NamespaceFlags, tell_lost};
use super::io::Io;
use super::output::{self, OutputFormat, escaped, table};
use super::source;
use mixer_engine::decision::Decision;
use mixer_engine::explain::WithoutNamespace;
use mixer_engine::snapshot::{Snapshot, Unenforced};
use mixer_policy::{ChangedCall, Offline, Replay, Stubs, clock_of, read_requests, replay};
use settings::ChangedSetting;

/// Flags of `diff`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DiffArgs {
    /// Those that are given. The first field: the others take their values out of the matches.
    #[command(flatten)]
    given: GivenFlags,
    /// Current configuration: fs://DIR, a path, or embedded://sample.
    #[arg(long, value_name = "URL")]
    from: String,
    /// Changed configuration. `--config` is the same, as other commands have it.
    #[arg(long, visible_alias = "config", value_name = "URL")]
    to: String,
    /// Recorded calls from `mixer server --record-requests` or `--decision-log`; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    requests: PathBuf,
    #[command(flatten)]
    namespace: NamespaceFlags,
    /// Maximum groups of changes in a table, most frequent first.
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    limit: usize,
    /// Output format; default: table on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
}

/// Changes with the same differences and causes.
struct ChangeGroup<'c> {
    change: String,
    why: String,
    calls: Vec<&'c ChangedCall>,
}

/// Where recordings come from.
const RECORD: &str = "create it with `mixer server --record-requests FILE` or `--decision-log FILE`";

/// What the recording does not tell, and the replayed calls.
struct Compared {
    replayed: Replay,
    /// The resources for Envoy that differ.
    settings: Vec<ChangedSetting>,
    /// What services of Envoy do not enforce any more.
    unenforced: Vec<Unenforced>,
}

impl Compared {
    /// Whether a call has another result, or one of Envoy may have.
    fn differs(&self) -> bool {
        let [from, to] = &self.replayed.without_namespace;
        !self.replayed.changes.is_empty()
            || !self.settings.is_empty()
            || (self.replayed.unnamed > 0 && from != to)
    }
}

/// Flags that have no effect beside others.
const IDLE: &[Lost<DiffArgs>] = &[Lost::idle(
    &["limit"],
    |args| matches!(args.output, Some(OutputFormat::Json | OutputFormat::Yaml)),
    "a document has all groups",
)];

/// Replays the calls against both configurations and prints the differences.
///
/// Exit status: 0 if all results are the same, 1 if one differs, or settings for Envoy do, which calls are replayed without; 2 if an input
/// cannot be read.
pub(crate) fn run(args: &DiffArgs, io: &mut Io) -> Outcome {
    tell_lost(IDLE, &args.given, args, io)?;
    let decisions = requests(args, io)?;
    let (from, to) = (snapshot(args, &args.from, io)?, snapshot(args, &args.to, io)?);
    let settings = settings::changed(&from, &to);
    let known: Vec<Unenforced> = from.unenforced_settings().cloned().collect();
    let is_new = |one: &&Unenforced| {
        !known.iter().any(|known| (&known.resource, known.what) == (&one.resource, one.what))
    };
    let unenforced: Vec<Unenforced> = to.unenforced_settings().filter(is_new).cloned().collect();
    let replayed = block_on(async {
        let before = start_offline(&args.from, &from, &decisions).await?;
        let after = start_offline(&args.to, &to, &decisions).await?;
        Ok(replay((from, before), (to, after), &decisions).await)
    })?;
    if replayed.calls == 0 {
        let cause = replayed.skipped.first().map(|(line, cause)| format!("line {line}: {cause}"));
        let failure = Failure::usage(format!("no call in `{}` can be replayed", args.requests.display()));
        let failure = failure.hint(
            "record calls with `mixer server --record-requests FILE`, in a version like that of this program",
        );
        return Err(cause.into_iter().fold(failure, Failure::cause).into());
    }
    let compared = Compared { replayed, settings, unenforced };
    let groups = groups(&compared.replayed.changes);
    let default = if io.out_is_terminal { OutputFormat::Table } else { OutputFormat::Plain };
    match args.output.unwrap_or(default) {
        OutputFormat::Json => writeln!(io.out, "{}", output::json(&document(&compared, &groups)))?,
        OutputFormat::Yaml => write!(io.out, "{}", output::yaml(&document(&compared, &groups)))?,
        OutputFormat::Table => show(args, &compared, &groups, io.width, io)?,
        OutputFormat::Plain => show(args, &compared, &groups, usize::MAX, io)?,
    }
    Ok(if compared.differs() { Exit::Negative } else { Exit::Success })
}

fn requests(args: &DiffArgs, io: &mut Io) -> Result<Vec<(usize, Decision)>, Stop> {
    let shown = args.requests.display();
    let read = if args.requests.as_os_str() == "-" {
        read_requests(&mut BufReader::new(&mut io.input))
    } else {
        let file = std::fs::File::open(&args.requests)
            .map_err(|error| Failure::usage(format!("cannot read `{shown}`")).cause(error).hint(RECORD))?;
        read_requests(&mut BufReader::new(file))
    };
    let decisions = read.map_err(|error| {
        let place = format!("{shown}:{}:{}", error.line, error.column);
        Failure::usage(format!("{place}: {}", error.message)).hint(RECORD)
    })?;
    if decisions.is_empty() {
        return Err(Failure::usage(format!("`{shown}` contains no calls")).hint(RECORD).into());
    }
    Ok(decisions)
}

fn snapshot(args: &DiffArgs, url: &str, io: &mut Io) -> Result<Arc<Snapshot>, Stop> {
    let contents = source::read(&[url.to_owned()], io).map_err(|stop| match stop {
        Stop::Failure(failure) => Failure { exit: Exit::Usage, ..*failure }.into(),
        other => other,
    })?;
    let contents = Arc::new(contents);
    let snapshot = source::build(&contents, &args.namespace);
    if let Some(note) = source::remark(url, &args.namespace, (&contents, &snapshot), &snapshot.diagnostics) {
        io.warn(&note.text)?;
    }
    Ok(snapshot)
}

async fn start_offline(
    url: &str,
    snapshot: &Arc<Snapshot>,
    decisions: &[(usize, Decision)],
) -> Result<Offline, Stop> {
    Offline::start(snapshot, clock_of(decisions), &Stubs::default()).await.map_err(|error| {
        let first = error.problems.first();
        let cause = first.map_or_else(String::new, |p| format!("{}: {}", p.resource, p.message));
        Failure::usage(format!("cannot build the handlers of `{url}`"))
            .cause(cause)
            .hint("see `mixer validate`")
            .into()
    })
}

/// Groups changes by differences and causes, most frequent first.
fn groups(changes: &[ChangedCall]) -> Vec<ChangeGroup<'_>> {
    let mut groups: BTreeMap<(String, String), Vec<&ChangedCall>> = BTreeMap::new();
    for change in changes {
        let differences: Vec<String> =
            change.differences.iter().map(|d| format!("{} {} -> {}", d.what, d.from, d.to)).collect();
        groups.entry((differences.join("; "), change.causes.join(", "))).or_default().push(change);
    }
    let mut groups: Vec<ChangeGroup<'_>> =
        groups.into_iter().map(|((change, why), calls)| ChangeGroup { change, why, calls }).collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.calls.len()), group.calls.first().map(|c| c.line)));
    groups
}

fn show(
    args: &DiffArgs,
    compared: &Compared,
    groups: &[ChangeGroup<'_>],
    width: usize,
    io: &mut Io,
) -> Result<(), Stop> {
    let replayed = &compared.replayed;
    if !groups.is_empty() {
        let rows: Vec<Vec<String>> = groups
            .iter()
            .map(|group| {
                let lines: Vec<usize> = group.calls.iter().map(|change| change.line).collect();
                let lines = some_of(&lines);
                vec![group.calls.len().to_string(), lines, shorten(&group.change), group.why.clone()]
            })
            .take(args.limit.max(1))
            .collect();
        io.out.write_all(table(&["CALLS", "LINES", "CHANGE", "WHY"], &rows, width).as_bytes())?;
        if groups.len() > rows.len() {
            writeln!(io.out, "{} more groups; see --limit", groups.len() - rows.len())?;
        }
    }
    let changed = replayed.changes.len();
    writeln!(io.out, "{changed} of {} calls have a different result", replayed.calls)?;
    if replayed.masked > 0 {
        writeln!(io.out, "{} depend on masked attributes: real results may differ", replayed.masked)?;
    }
    if replayed.cut > 0 {
        let cut = "depend on values that are cut in the recording: results for the whole values may differ";
        writeln!(io.out, "{} {cut}", replayed.cut)?;
    }
    if replayed.unnamed > 0 {
        let of = |side: &Option<WithoutNamespace>| {
            side.as_ref().map_or_else(|| "gets the rules of the mesh".to_owned(), ToString::to_string)
        };
        let [from, to] = &replayed.without_namespace;
        let (from, to) = (of(from), of(to));
        writeln!(
            io.out,
            "{} name no namespace and are compared as calls of the Mixer API; from Envoy such a call {from} with --from, and {to} \
             with --to",
            replayed.unnamed
        )?;
    }
    if !replayed.drifted.is_empty() {
        let count = replayed.drifted.len();
        writeln!(io.out, "{count} do not have the recorded result with --from: state or backends differ")?;
    }
    if !compared.settings.is_empty() {
        writeln!(io.out, "{}, which calls are replayed without:", differing(compared.settings.len()))?;
        for setting in &compared.settings {
            writeln!(io.out, "  {setting}")?;
        }
    }
    for Unenforced { what, resource, place, .. } in &compared.unenforced {
        let (resource, place) = (resource.to_string(), escaped(place));
        writeln!(io.out, "not enforced with --to: {what} ({} in {place})", escaped(&resource))?;
    }
    let mut skipped: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    replayed.skipped.iter().for_each(|(line, cause)| skipped.entry(cause).or_default().push(*line));
    for (cause, lines) in skipped {
        let cause = escaped(cause);
        let told = match lines.as_slice() {
            [line] => format!("line {line} is skipped: {cause}"),
            lines => format!("{} lines are skipped ({}): {cause}", lines.len(), some_of(lines)),
        };
        io.warn(&told)?;
    }
    Ok(())
}

fn differing(count: usize) -> String {
    match count {
        1 => "1 resource for Envoy differs".to_owned(),
        count => format!("{count} resources for Envoy differ"),
    }
}

/// The first three numbers of lines.
fn some_of(lines: &[usize]) -> String {
    let first: Vec<String> = lines.iter().take(3).map(usize::to_string).collect();
    let more = if lines.len() > 3 { ", …" } else { "" };
    format!("{}{more}", first.join(", "))
}

/// Truncates a change; reported values can be long.
fn shorten(text: &str) -> String {
    const MAX_CHARS: usize = 160;
    if text.chars().count() <= MAX_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_CHARS).chain(['…']).collect()
}

fn document(compared: &Compared, groups: &[ChangeGroup<'_>]) -> Value {
    let replayed = &compared.replayed;
    json!({
        "apiVersion": "mixer/v1",
        "kind": "PolicyDiff",
        "summary": {
            "calls": replayed.calls,
            "changed": replayed.changes.len(),
            "unsure": replayed.unsure,
            "masked": replayed.masked,
            "cut": replayed.cut,
            "unnamed": replayed.unnamed,
            "drifted": replayed.drifted.len(),
            "skipped": replayed.skipped.len(),
            "settings": compared.settings.len(),
        },
        "settings": compared.settings.iter().map(ChangedSetting::document).collect::<Vec<_>>(),
        "notEnforced": compared.unenforced.iter().map(|one| json!({
            "what": one.what,
            "resource": one.resource.to_string(),
            "place": one.place,
        })).collect::<Vec<_>>(),
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
            "cut": change.cut,
        })).collect::<Vec<_>>(),
        "drifted": replayed.drifted,
        "skipped": replayed.skipped.iter().map(|(line, cause)| {
            json!({"line": line, "cause": cause})
        }).collect::<Vec<_>>(),
    })
}
