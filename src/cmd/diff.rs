//! `diff`: shows which recorded decisions a configuration change alters, and why.

mod settings;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::event_loop::block_on;
use super::exit::{Exit, Failure, Outcome, Stop};
use super::flags::{GivenFlags, Lost, NamespaceFlags, tell_lost};
use super::io::Io;
use super::output::{self, OutputFormat, escaped, table};
use super::source::{self, Remark, Unserved};
use mixer_engine::decision::Decision;
use mixer_engine::explain::WithoutNamespace;
use mixer_engine::snapshot::{Snapshot, Unenforced, check_params};
use mixer_policy::{
    ChangeGroup, Difference, MAX_KEPT, Offline, Replay, Replayer, Requests, RequestsError, Stubs, clock_of,
};
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
    ///
    /// Without it the settings for Envoy alone are compared, such as rate limits, whose calls are not recorded.
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
    /// Compare configurations with errors as servers with --config-on-error serve-valid have them: without what has an error.
    ///
    /// Without it, a configuration with errors ends with status 2: a server answers otherwise. One with nothing, or of which errors leave
    /// nothing, does so in any case: its path may be wrong.
    #[arg(long)]
    serve_valid: bool,
    #[command(flatten)]
    namespace: NamespaceFlags,
    /// Maximum groups of changes in a table, most frequent first.
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    limit: usize,
    /// Output format; default: table on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
}

/// A group of changes, as it is shown.
struct ShownGroup<'c> {
    change: String,
    why: String,
    group: &'c ChangeGroup,
}

/// Where recordings come from.
const RECORD: &str = "create it with `mixer server --record-requests FILE` or `--decision-log FILE`";
/// How to compare without one.
const WITHOUT: &str =
    "calls of rate limits are not recorded: without --requests the settings for Envoy alone are compared";

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
        self.replayed.changes.count > 0
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
/// cannot be read, or a server does not serve one of the configurations.
pub(crate) fn run(args: &DiffArgs, io: &mut Io) -> Outcome {
    tell_lost(IDLE, &args.given, args, io)?;
    let from = snapshot(args, ("--from", &args.from), io)?;
    let to = snapshot(args, ("--to", &args.to), io)?;
    let settings = settings::changed(&from, &to);
    let known: Vec<Unenforced> = from.unenforced_settings().cloned().collect();
    let is_new = |one: &&Unenforced| {
        !known.iter().any(|known| (&known.resource, known.what) == (&one.resource, one.what))
    };
    let unenforced: Vec<Unenforced> = to.unenforced_settings().filter(is_new).cloned().collect();
    let replayed = match &args.requests {
        Some(path) => block_on(replay(args, path, (&from, &to), io))?,
        None => Replay::default(),
    };
    if replayed.calls == 0 {
        let rules = "rules, handlers and instances are not";
        io.warn(&match &args.requests {
            Some(path) => {
                let first = replayed.skipped.kept.first();
                let why = first.map_or_else(String::new, |(line, why)| format!(" (line {line}: {why})"));
                let shown = path.display();
                escaped(&format!(
                    "no call in `{shown}` can be replayed{why}: the settings for Envoy are compared, {rules}"
                ))
                .into_owned()
            }
            None => format!(
                "no call is replayed without --requests: the settings for Envoy are compared, {rules}"
            ),
        })?;
    }
    let compared = Compared { replayed, settings, unenforced };
    let groups = groups(&compared.replayed);
    let default = if io.out_is_terminal { OutputFormat::Table } else { OutputFormat::Plain };
    match args.output.unwrap_or(default) {
        OutputFormat::Json => writeln!(io.out, "{}", output::json(&document(&compared, &groups)))?,
        OutputFormat::Yaml => write!(io.out, "{}", output::yaml(&document(&compared, &groups)))?,
        OutputFormat::Table => show(args, &compared, &groups, io.width, io)?,
        OutputFormat::Plain => show(args, &compared, &groups, usize::MAX, io)?,
    }
    Ok(if compared.differs() { Exit::Negative } else { Exit::Success })
}

/// Replays the calls of a recording while it is read: it may be larger than the memory.
///
/// Errors: also if a call of it cannot be replayed that is none of a rate limit, and no other can.
async fn replay(
    args: &DiffArgs,
    path: &Path,
    (from, to): (&Arc<Snapshot>, &Arc<Snapshot>),
    io: &mut Io,
) -> Result<Replay, Stop> {
    let shown = path.display();
    let bar = bar(path, io);
    let input: &mut (dyn Read + Send) = &mut io.input;
    let mut input: Box<dyn BufRead + '_> = match path.as_os_str() == "-" {
        true => Box::new(BufReader::new(input)),
        false => {
            let file = std::fs::File::open(path).map_err(|error| {
                Failure::usage(format!("cannot read `{shown}`")).cause(error).hint(RECORD)
            })?;
            Box::new(BufReader::new(file))
        }
    };
    let refused = |error: RequestsError| {
        let place = format!("{shown}:{}:{}", error.line, error.column);
        Failure::usage(format!("{place}: {}", error.message)).hint(RECORD)
    };
    let mut requests = Requests::new(&mut *input);
    let Some((line, first)) = requests.next().transpose().map_err(refused)? else {
        return Err(Failure::usage(format!("`{shown}` contains no calls"))
            .hint(format!("{RECORD}; {WITHOUT}"))
            .into());
    };
    let before = start_offline(&args.from, from, &first).await?;
    let after = start_offline(&args.to, to, &first).await?;
    let mut replayer = Replayer::new((Arc::clone(from), before), (Arc::clone(to), after));
    let mut next = Some((line, first));
    while let Some((line, decision)) = next {
        replayer.replay(line, &decision).await;
        bar.set_position(requests.bytes());
        next = requests.next().transpose().map_err(refused)?;
    }
    bar.finish_and_clear();
    let replayed = replayer.end().await;
    if replayed.calls == 0
        && let Some((line, why)) = &replayed.refused
    {
        let failure = Failure::usage(format!("no call in `{shown}` can be replayed"));
        let failure = failure.cause(format!("line {line}: {why}")).hint(
            "record calls with `mixer server --record-requests FILE`, in a version like that of this program",
        );
        return Err(failure.into());
    }
    Ok(replayed)
}

/// The part of a recording that is replayed, in bytes; on a terminal, and of a file.
fn bar(path: &Path, io: &Io) -> ProgressBar {
    let length = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|file| file.len());
    let Some(length) = length.filter(|_| io.err_is_terminal && !io.is_quiet) else {
        return ProgressBar::hidden();
    };
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr_with_hz(REDRAWS));
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes}  eta {eta}") {
        bar.set_style(style);
    }
    bar
}

/// How often a bar is drawn again, a second.
const REDRAWS: u8 = 10;

fn snapshot(args: &DiffArgs, (flag, url): (&str, &str), io: &mut Io) -> Result<Arc<Snapshot>, Stop> {
    let contents = source::read(&[url.to_owned()], io).map_err(|stop| match stop {
        Stop::Failure(failure) => Failure { exit: Exit::Usage, ..*failure }.into(),
        other => other,
    })?;
    let contents = Arc::new(contents);
    let snapshot = source::build(&contents, &args.namespace);
    let diagnostics = snapshot.diagnostics.iter().cloned().chain(check_params(&snapshot)).collect();
    match source::remark(url, &args.namespace, (&contents, &snapshot), &diagnostics) {
        None => {}
        Some(note @ Remark { why: Unserved::Errors, .. }) if args.serve_valid => io.warn(&note.text())?,
        Some(note) => {
            let failure = note.failure(format!("a server does not serve the configuration of {flag}"));
            return Err(Failure { exit: Exit::Usage, ..failure }.into());
        }
    }
    Ok(snapshot)
}

async fn start_offline(url: &str, snapshot: &Arc<Snapshot>, first: &Decision) -> Result<Offline, Stop> {
    Offline::start(snapshot, clock_of(first), &Stubs::default()).await.map_err(|error| {
        let first = error.problems.first();
        let cause = first.map_or_else(String::new, |p| format!("{}: {}", p.resource, p.message));
        Failure::usage(format!("cannot build the handlers of `{url}`"))
            .cause(cause)
            .hint("see `mixer validate`")
            .into()
    })
}

/// The groups of changes, most frequent first.
fn groups(replayed: &Replay) -> Vec<ShownGroup<'_>> {
    let text =
        |difference: &Difference| format!("{} {} -> {}", difference.what, difference.from, difference.to);
    let shown = replayed.groups.iter().map(|((differences, causes), group)| ShownGroup {
        change: differences.iter().map(text).collect::<Vec<_>>().join("; "),
        why: causes.join(", "),
        group,
    });
    let mut groups: Vec<ShownGroup<'_>> = shown.collect();
    groups.sort_by_key(|shown| (std::cmp::Reverse(shown.group.calls), shown.group.lines.first().copied()));
    groups
}

fn show(
    args: &DiffArgs,
    compared: &Compared,
    groups: &[ShownGroup<'_>],
    width: usize,
    io: &mut Io,
) -> Result<(), Stop> {
    let replayed = &compared.replayed;
    if !groups.is_empty() {
        let rows: Vec<Vec<String>> = groups
            .iter()
            .map(|ShownGroup { change, why, group }| {
                vec![group.calls.to_string(), some_of(&group.lines), shorten(change), why.clone()]
            })
            .take(args.limit.max(1))
            .collect();
        io.out.write_all(table(&["CALLS", "LINES", "CHANGE", "WHY"], &rows, width).as_bytes())?;
        if groups.len() > rows.len() {
            writeln!(io.out, "{} more groups; see --limit", groups.len() - rows.len())?;
        }
        let grouped: usize = groups.iter().map(|shown| shown.group.calls).sum();
        if replayed.changes.count > grouped {
            writeln!(io.out, "{} calls beyond {MAX_KEPT} groups", replayed.changes.count - grouped)?;
        }
    }
    let changed = replayed.changes.count;
    if replayed.calls > 0 {
        writeln!(io.out, "{changed} of {} calls have a different result", replayed.calls)?;
    }
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
    if replayed.drifted.count > 0 {
        let count = replayed.drifted.count;
        writeln!(io.out, "{count} do not have the recorded result with --from: state or backends differ")?;
    }
    if !compared.settings.is_empty() {
        let replayed = if replayed.calls > 0 { ", which calls are replayed without" } else { "" };
        writeln!(io.out, "{}{replayed}:", differing(compared.settings.len()))?;
        for setting in &compared.settings {
            writeln!(io.out, "  {setting}")?;
        }
    } else if replayed.calls == 0 {
        writeln!(io.out, "no resource for Envoy differs")?;
    }
    for Unenforced { what, resource, place, .. } in &compared.unenforced {
        let (resource, place) = (resource.to_string(), escaped(place));
        writeln!(io.out, "not enforced with --to: {what} ({} in {place})", escaped(&resource))?;
    }
    let mut skipped: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    replayed.skipped.kept.iter().for_each(|(line, cause)| skipped.entry(cause).or_default().push(*line));
    for (cause, lines) in skipped {
        let cause = escaped(cause);
        let told = match lines.as_slice() {
            [line] => format!("line {line} is skipped: {cause}"),
            lines => format!("{} lines are skipped ({}): {cause}", lines.len(), some_of(lines)),
        };
        io.warn(&told)?;
    }
    if replayed.skipped.more() > 0 {
        io.warn(&format!("{} more lines are skipped", replayed.skipped.more()))?;
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

fn document(compared: &Compared, groups: &[ShownGroup<'_>]) -> Value {
    let replayed = &compared.replayed;
    json!({
        "apiVersion": "mixer/v1",
        "kind": "PolicyDiff",
        "summary": {
            "calls": replayed.calls,
            "changed": replayed.changes.count,
            "unsure": replayed.unsure,
            "masked": replayed.masked,
            "cut": replayed.cut,
            "unnamed": replayed.unnamed,
            "drifted": replayed.drifted.count,
            "skipped": replayed.skipped.count,
            "settings": compared.settings.len(),
        },
        "settings": compared.settings.iter().map(ChangedSetting::document).collect::<Vec<_>>(),
        "notEnforced": compared.unenforced.iter().map(|one| json!({
            "what": one.what,
            "resource": one.resource.to_string(),
            "place": one.place,
        })).collect::<Vec<_>>(),
        "groups": groups.iter().map(|ShownGroup { change, why, group }| json!({
            "calls": group.calls,
            "change": change,
            "why": why,
            "lines": group.lines,
        })).collect::<Vec<_>>(),
        "changes": replayed.changes.kept.iter().map(|change| json!({
            "line": change.line,
            "time": change.time,
            "differences": change.differences.iter().map(|d| {
                json!({"what": d.what, "from": d.from, "to": d.to})
            }).collect::<Vec<_>>(),
            "causes": change.causes,
            "masked": change.masked,
            "cut": change.cut,
        })).collect::<Vec<_>>(),
        "drifted": replayed.drifted.kept,
        "skipped": replayed.skipped.kept.iter().map(|(line, cause)| {
            json!({"line": line, "cause": cause})
        }).collect::<Vec<_>>(),
    })
}
