//! `validate`: reports the problems of a configuration with position and hint.

mod excerpt;
mod location;
mod mesh;
mod report;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use report::ReportFormat;

use super::controlz::ControlzFlags;
use super::endpoint::Program;
use super::exit::{Exit, Failure, Outcome, Stop};
use super::flags::{EmptyConfigFlags, GivenFlags, Lost, NamespaceFlags, tell_lost};
use super::galley;
use super::io::{Io, Style};
use super::output::{self, counted};
use super::snapshot::{self, Comparison, FileProblems};
use super::source;
use super::value;
use mixer_base::secrets::{MASKED, mask_text};
use mixer_config::store::StoreContents;
use mixer_config::{Diagnostic, Diagnostics, Severity};
use mixer_engine::runtime::is_consequence;
use mixer_engine::snapshot::{check_params, lint, pitfalls};
use mixer_schema::analysis::Suppression;

/// Flags of `validate`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ValidateArgs {
    /// Those that are given. The first field: the others take their values out of the matches.
    #[command(flatten)]
    given: GivenFlags,
    /// Files, directories (searched recursively), store URLs, or `-` for standard input.
    #[arg(required_unless_present = "config", value_name = "PATH")]
    paths: Vec<String>,
    /// The same as PATH, as other commands have it.
    #[arg(long, value_name = "CONFIG")]
    config: Vec<String>,
    #[command(flatten)]
    namespace: NamespaceFlags,
    #[command(flatten)]
    empty: EmptyConfigFlags,
    /// Treat warnings as errors; with --server, differences as well.
    #[arg(long)]
    strict: bool,
    /// Report valid but probably unintended configuration: unused handlers and instances, constant conditions, shadowed rules.
    #[arg(long)]
    lint: bool,
    /// Report what resources of the mesh say together: references that lead nowhere, conflicts, workloads outside of the mesh.
    ///
    /// The analyzers of Istio 1.5, with its codes (IST0101). One whose inputs are missing does not run: without pods, nothing is said of the
    /// workloads that a gateway selects.
    #[arg(long)]
    analyze: bool,
    /// With --analyze: a message that is not reported of a resource. Repeatable; `*` stands for any characters.
    ///
    /// A resource mutes messages itself with the annotation galley.istio.io/analyze-suppress: CODE,CODE, or `*`. Example:
    /// --suppress 'IST0102=Namespace shop'
    #[arg(long, value_name = "CODE=KIND NAME.NAMESPACE", requires = "analyze")]
    suppress: Vec<Suppression>,
    /// Show what the configuration would change in a running server: its host, and the port of ControlZ, by default 9876.
    ///
    /// Prints the differences by resource, and what the server serves in its last good version. Status 1: the server serves nothing, or with
    /// --strict something differs. Example: localhost:9876. If it is the endpoint of galley, waits until all sinks have acknowledged what is published, and says who refused it and why. `--live` is the same.
    #[arg(long, alias = "live", value_parser = value::introspection_address, value_name = "ADDRESS")]
    server: Option<String>,
    #[command(flatten)]
    controlz: ControlzFlags,
    /// Output format; default: table on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<ReportFormat>,
}

/// How long sinks have to acknowledge what is published.
const LIVE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of errors that are printed, and of other problems.
const PRINTED: usize = 10_000;
/// Maximum number of problems of a table, without what follows from them.
const TABLED: usize = 50;

/// Flags that have no effect beside others.
const IDLE: &[Lost<ValidateArgs>] = &[Lost::idle(
    &["ctrlz-token-file"],
    |args| args.server.is_none(),
    "no running server is asked: --server names one",
)];

/// Counts of the summary.
struct Totals {
    files: usize,
    resources: usize,
    errors: usize,
    warnings: usize,
    /// Problems that are not printed.
    unlisted: usize,
}

/// Validates the configuration and prints the diagnostics.
pub(crate) fn run(args: &ValidateArgs, io: &mut Io) -> Outcome {
    let is_document =
        |format| matches!(format, ReportFormat::Json | ReportFormat::Yaml | ReportFormat::Sarif);
    if args.server.is_some() && args.output.is_some_and(is_document) {
        let failure = Failure::usage("--server does not support JSON, YAML and SARIF output");
        return Err(failure.hint("omit --output, or use `mixer snapshot dump --diff`").into());
    }
    tell_lost(IDLE, &args.given, args, io)?;
    let contents = Arc::new(source::read(&[&args.paths[..], &args.config].concat(), io)?);
    let diagnostics = examine(&contents, args);
    let listed = first_of(&diagnostics);
    let of_severity = |severity| diagnostics.iter().filter(move |d| d.severity == severity);
    let count = |severity| of_severity(severity).map(Diagnostic::count).sum::<usize>();
    let totals = Totals {
        files: contents.files,
        resources: contents.documents,
        errors: count(Severity::Error),
        warnings: count(Severity::Warning),
        unlisted: diagnostics.iter().map(Diagnostic::count).sum::<usize>() - listed.len(),
    };
    let valid = totals.errors == 0 && (!args.strict || totals.warnings == 0);
    let default = if io.out_is_terminal { ReportFormat::Table } else { ReportFormat::Plain };
    match args.output.unwrap_or(default) {
        ReportFormat::Json => writeln!(io.out, "{}", output::json(&document(&listed, &totals, valid)))?,
        ReportFormat::Yaml => write!(io.out, "{}", output::yaml(&document(&listed, &totals, valid)))?,
        ReportFormat::Sarif => writeln!(io.out, "{}", output::json(&report::sarif(&listed)))?,
        ReportFormat::Github => {
            for diagnostic in &listed {
                writeln!(io.out, "{}", report::github(diagnostic))?;
            }
            summary(io, &totals)?;
        }
        ReportFormat::Plain => {
            let causes: HashSet<_> = listed.iter().filter(|d| !tells_less(d)).map(place).collect();
            for diagnostic in &listed {
                let follows = tells_less(diagnostic) && causes.contains(&place(diagnostic));
                writeln!(io.out, "{}", report::line(diagnostic, follows))?;
            }
            summary(io, &totals)?;
        }
        ReportFormat::Table => {
            let groups = groups(&listed);
            let mut shown = 0;
            for (leader, followers) in groups.iter().take(TABLED) {
                let text = excerpt::render(leader, followers, &contents, io);
                writeln!(io.out, "{text}")?;
                shown += 1 + followers.len();
            }
            summary(io, &Totals { unlisted: totals.unlisted + listed.len() - shown, ..totals })?;
        }
    }
    let at = |program| args.server.as_ref().map(|address| args.controlz.at(program, address, "--server"));
    if let Some(galley) = at(Program::Galley).filter(|server| galley::is_galley(*server)) {
        let delivered = galley::wait_for_latest(galley, LIVE_TIMEOUT, io)?;
        return Ok(if valid { delivered } else { Exit::Negative });
    }
    let mut is_good = valid;
    if let Some(server) = at(Program::Mixer) {
        let built = source::build(&contents, &args.namespace);
        let problems = FileProblems::of(&contents, &diagnostics, args.namespace.options());
        match snapshot::compare_with(server, &built, &problems, io)? {
            Comparison::Same => {
                io.note(&format!("the server at {} has the same configuration", server.address()))?;
            }
            Comparison::Differs => is_good &= !args.strict,
            Comparison::Fails => is_good = false,
        }
    }
    Ok(if is_good { Exit::Success } else { Exit::Negative })
}

/// The first [`PRINTED`] errors, and as many other problems, in their order.
fn first_of(diagnostics: &[Diagnostic]) -> Diagnostics {
    let (mut errors, mut others) = (0, 0);
    let is_first = |problem: &&Diagnostic| {
        let count = if problem.severity == Severity::Error { &mut errors } else { &mut others };
        *count += 1;
        *count <= PRINTED
    };
    diagnostics.iter().filter(is_first).cloned().collect()
}

/// All diagnostics, sorted by position.
fn examine(contents: &Arc<StoreContents>, args: &ValidateArgs) -> Diagnostics {
    let snapshot = source::build(contents, &args.namespace);
    let kinds = args.namespace.options().kinds();
    let decides = snapshot.counts.rule_configs > 0 || snapshot.counts.handler_configs > 0;
    let mut diagnostics = mesh::examine(contents, snapshot.diagnostics.clone(), &kinds, decides);
    diagnostics.extend(check_params(&snapshot));
    diagnostics.extend(pitfalls(&snapshot));
    if args.lint {
        diagnostics.extend(lint(&snapshot));
    }
    if args.analyze {
        diagnostics.extend(mesh::analyze(contents, &args.suppress));
    }
    // Errors tell why there are no resources, if there are none.
    if !diagnostics.iter().any(|problem| problem.severity == Severity::Error) {
        let allowed = args.empty.allow_empty_config;
        diagnostics.extend(source::emptiness(contents, &snapshot, &args.namespace, allowed));
    }
    let position = |d: &Diagnostic| {
        let start = d.span.map(|s| s.start).unwrap_or_default();
        (d.file.clone(), start.line, start.column, d.code)
    };
    diagnostics.sort_by_key(position);
    diagnostics
}

/// Whether a problem follows from another one of its resource, if there is one.
fn tells_less(problem: &Diagnostic) -> bool {
    (is_consequence(problem.code) || problem.code == "rule-skipped") && !problem.resource.is_empty()
}

/// The resource of a problem: a name may be in several files.
fn place(problem: &Diagnostic) -> (&str, Option<&str>) {
    (&problem.resource, problem.file.as_deref())
}

/// What is wrong by itself, with what follows from it: errors first, then by position. A consequence follows the last other problem of its
/// resource. Cost: linear.
fn groups(diagnostics: &[Diagnostic]) -> Vec<(&Diagnostic, Vec<&Diagnostic>)> {
    let (consequences, causes): (Vec<_>, Vec<_>) =
        diagnostics.iter().enumerate().partition(|(_, d)| tells_less(d));
    let mut last: HashMap<_, usize> = causes.into_iter().map(|(at, cause)| (place(cause), at)).collect();
    // What follows each problem; of consequences without a cause those behind the first one.
    let mut followers: HashMap<usize, Vec<&Diagnostic>> = HashMap::new();
    let mut follows = HashSet::new();
    for (at, consequence) in consequences {
        match last.entry(place(consequence)) {
            Entry::Occupied(cause) => {
                followers.entry(*cause.get()).or_default().push(consequence);
                follows.insert(at);
            }
            Entry::Vacant(first) => drop(first.insert(at)),
        }
    }
    let leaders = diagnostics.iter().enumerate().filter(|(at, _)| !follows.contains(at));
    let mut groups: Vec<_> =
        leaders.map(|(at, leader)| (leader, followers.remove(&at).unwrap_or_default())).collect();
    groups.sort_by_key(|(leader, followers)| {
        followers.iter().map(|follower| follower.severity).fold(leader.severity, Severity::min)
    });
    groups
}

fn summary(io: &mut Io, totals: &Totals) -> Result<(), Stop> {
    let text = format!(
        "{}, {}: {}, {}",
        counted(totals.files, "file"),
        counted(totals.resources, "resource"),
        counted(totals.errors, "error"),
        counted(totals.warnings, "warning")
    );
    let text = match totals.unlisted {
        0 => text,
        more => format!("{text}; {} not listed", counted(more, "further problem")),
    };
    let style = if totals.errors > 0 { Style::Error } else { Style::Good };
    let text = if io.err_is_terminal { io.paint(style, &text) } else { text };
    io.out.flush()?;
    Ok(io.tell(&text, || ("ValidationSummary", json!({ "summary": summary_document(totals) })))?)
}

fn summary_document(totals: &Totals) -> Value {
    let mut summary = json!({
        "files": totals.files,
        "resources": totals.resources,
        "errors": totals.errors,
        "warnings": totals.warnings,
    });
    if let (more @ 1.., Some(summary)) = (totals.unlisted, summary.as_object_mut()) {
        summary.insert("unlisted".to_owned(), more.into());
    }
    summary
}

fn document(diagnostics: &[Diagnostic], totals: &Totals, valid: bool) -> Value {
    json!({
        "apiVersion": "mixer/v1",
        "kind": "ValidationResult",
        "valid": valid,
        "summary": summary_document(totals),
        "diagnostics": diagnostics.iter().map(diagnostic_json).collect::<Vec<_>>(),
    })
}

fn diagnostic_json(diagnostic: &Diagnostic) -> Value {
    let span = diagnostic.span.filter(|s| s.start.line > 0);
    json!({
        "severity": diagnostic.severity.name(),
        "code": diagnostic.code,
        "resource": diagnostic.resource,
        "file": diagnostic.file.as_deref(),
        "line": span.map(|s| s.start.line),
        "column": span.map(|s| s.start.column),
        "endLine": span.map(|s| s.end.line),
        "endColumn": span.map(|s| s.end.column),
        "expression": diagnostic.expression.as_ref().map(|e| json!({"text": mask_text(&e.text), "column": e.column})),
        "field": diagnostic.field.to_string(),
        "message": diagnostic.message,
        // It may have what the message has not.
        "legacy": diagnostic.legacy.as_ref().filter(|_| !diagnostic.message.contains(MASKED)),
        "hint": diagnostic.hint,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_config::{FieldPath, Location, Span};

    fn problem(code: &'static str, resource: &str, line: u32) -> Diagnostic {
        let start = Location { line, ..Location::default() };
        let mut problem = Diagnostic::error(code, FieldPath::root(), String::new());
        (problem.resource, problem.file) = (resource.to_owned(), Some("a.yaml".into()));
        problem.span = Some(Span { start, end: start });
        problem
    }

    #[test]
    fn consequences_follow_their_causes_and_all_else_is_in_order() {
        let (cause, consequence) = ("match-empty", "rule-empty");
        let problems = [
            problem(cause, "x", 1),
            problem(consequence, "y", 2),
            problem(cause, "y", 50),
            problem(consequence, "z", 60),
            problem(consequence, "z", 61),
            problem(cause, "w", 70),
            problem(consequence, "x", 100),
            problem(consequence, "x", 101),
        ];
        let all = |problems: &[Diagnostic]| -> Vec<u32> {
            let found = groups(problems);
            let found = found.iter().flat_map(|(leader, others)| std::iter::once(leader).chain(others));
            found.filter_map(|found| Some(found.span?.start.line)).collect()
        };
        assert_eq!(all(&problems), [1, 100, 101, 50, 2, 60, 61, 70]);
        let mut with_warning = problems.to_vec();
        with_warning.insert(0, problem("x", "v", 0).with_severity(Severity::Warning));
        assert_eq!(all(&with_warning), [1, 100, 101, 50, 2, 60, 61, 70, 0], "errors first");
    }

    #[test]
    fn of_very_many_problems_the_first_of_each_severity_are_printed() {
        let warning = problem("x", "w", 0).with_severity(Severity::Warning);
        let mut problems = vec![warning; PRINTED + 3];
        problems.push(problem("y", "e", 9));
        let listed = first_of(&problems);
        assert_eq!((listed.len(), listed.last().map(|last| last.code)), (PRINTED + 1, Some("y")));
        let totals = Totals { files: 1, resources: 2, errors: 1, warnings: PRINTED + 3, unlisted: 3 };
        assert_eq!(document(&listed, &totals, false)["summary"]["unlisted"], 3);
    }

    /// As many as a large configuration has after one mistake in what all of it needs.
    #[test]
    fn many_consequences_are_ordered_in_linear_time() {
        let problems: Vec<_> = (0..200_000).map(|n| problem("rule-empty", &format!("r{n}"), n)).collect();
        let started = std::time::Instant::now();
        assert_eq!(groups(&problems).len(), problems.len());
        assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
    }
}
