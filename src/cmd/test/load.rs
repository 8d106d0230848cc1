//! Loads test files and their configurations.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cmd::exit::{Exit, Failure, Stop};
use crate::cmd::flags::NamespaceFlags;
use crate::cmd::io::{ErrorFormat, Io};
use crate::cmd::output::counted;
use crate::cmd::source;
use crate::cmd::usage::failure_text;
use mixer_config::store::{StoreContents, read_sources};
use mixer_config::{Diagnostic, Location, Severity};
use mixer_engine::snapshot::{Snapshot, check_params};
use mixer_policy::{Suite, SuiteDocument, SuiteProblem};

/// Maximum depth of directories.
const MAX_DEPTH: usize = 32;

/// A test suite and the snapshot of its configuration.
pub(super) struct LoadedSuite {
    pub(super) suite: Suite,
    pub(super) snapshot: Arc<Snapshot>,
}

/// Loads all tests in `paths`. Errors: unreadable or invalid files, and configurations with errors or, unless `may_be_empty`, with nothing; every
/// problem is printed on standard error.
pub(super) fn load(
    paths: &[PathBuf],
    config: &[String],
    (namespace, may_be_empty): (&NamespaceFlags, bool),
    io: &mut Io,
) -> Result<Vec<LoadedSuite>, Stop> {
    let mut problems = Vec::new();
    let documents = documents(paths, &mut problems)?;
    let mut snapshots: BTreeMap<Vec<String>, Arc<Snapshot>> = BTreeMap::new();
    let mut loaded = Vec::new();
    for document in documents {
        let sources = if config.is_empty() { document.config() } else { config.to_vec() };
        if sources.is_empty() {
            problems.push(SuiteProblem {
                file: document.file().clone(),
                location: document.config_location(),
                message: "no configuration to test".to_owned(),
                hint: Some("set `config: DIRECTORY`, relative to this file, or use --config".to_owned()),
            });
            continue;
        }
        let snapshot = match snapshots.get(&sources) {
            Some(snapshot) => Arc::clone(snapshot),
            None => {
                let (contents, snapshot) = read(&sources, &document, namespace, io)?;
                let found = configuration_problems(&snapshot);
                // An error tells more.
                if found.is_empty() && !may_be_empty {
                    problems.extend(empty(&sources, (&contents, &snapshot), namespace, &document));
                }
                problems.extend(found);
                snapshots.insert(sources, Arc::clone(&snapshot));
                snapshot
            }
        };
        match document.parse(&snapshot) {
            Ok(suite) => loaded.push(LoadedSuite { suite, snapshot }),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(loaded) } else { Err(problems_failure(&problems, io)) }
}

/// Prints the problems; returns the failure of the command.
pub(super) fn problems_failure(problems: &[SuiteProblem], io: &mut Io) -> Stop {
    let count = problems.len();
    for problem in problems {
        let text = match io.error_format {
            ErrorFormat::Text => format!("{problem}\n"),
            ErrorFormat::Json => {
                let SuiteProblem { file, location: Location { line, column }, message, hint } = problem;
                let mut failure = Failure::usage(format!("{file}:{line}:{column}: {message}"));
                failure.hint.clone_from(hint);
                failure_text(&failure, ErrorFormat::Json)
            }
        };
        // The exit status remains if standard error is closed.
        let _ = io.err.write_all(text.as_bytes());
    }
    let what = counted(count, "problem");
    Failure::new(Exit::Usage, format!("{what} in the tests or their configuration; no test was run")).into()
}

fn read(
    sources: &[String],
    document: &SuiteDocument,
    namespace: &NamespaceFlags,
    io: &mut Io,
) -> Result<(Arc<StoreContents>, Arc<Snapshot>), Stop> {
    let contents = source::read(sources, io).map_err(|stop| match stop {
        Stop::Failure(failure) => {
            let Location { line, column } = document.config_location();
            let place = format!("{}:{line}:{column}", document.file());
            Failure { exit: Exit::Usage, ..*failure }.hint(format!("it is referenced at {place}")).into()
        }
        other => other,
    })?;
    let snapshot = source::build(&contents, namespace);
    Ok((Arc::new(contents), snapshot))
}

/// What of a configuration has nothing: all of it, which a server does not serve, or one of its sources.
fn empty(
    sources: &[String],
    (contents, snapshot): (&Arc<StoreContents>, &Snapshot),
    namespace: &NamespaceFlags,
    document: &SuiteDocument,
) -> Vec<SuiteProblem> {
    let problem = |message: String| {
        SuiteProblem {
        file: Arc::clone(document.file()),
        location: document.config_location(),
        message,
        hint: Some(
            "check the path, and that the names of its files end in .yaml or .yml; --allow-empty-config says that it is meant".to_owned(),
        ),
    }
    };
    if source::emptiness(contents, snapshot, namespace, false).is_some() {
        let message = format!("`{}` has no resources: a server answers UNAVAILABLE", sources.join(" "));
        return vec![problem(message)];
    }
    let several = if sources.len() > 1 { sources } else { &[] };
    // Standard input was read.
    let others = several.iter().filter(|source| *source != "-");
    let has_nothing = |source: &&String| {
        let read = read_sources(std::slice::from_ref(*source), &mut std::io::empty());
        read.is_ok_and(|contents| contents.resources.is_empty())
    };
    others.filter(has_nothing).map(|source| problem(format!("`{source}` has no resources"))).collect()
}

/// The errors of the configuration. A server would serve the valid rest; tests require all of it.
fn configuration_problems(snapshot: &Snapshot) -> Vec<SuiteProblem> {
    let params = check_params(snapshot);
    let errors = snapshot.diagnostics.iter().chain(&params).filter(|d| d.severity == Severity::Error);
    errors.map(problem).collect()
}

fn problem(diagnostic: &Diagnostic) -> SuiteProblem {
    SuiteProblem {
        file: diagnostic.file.clone().unwrap_or_else(|| "configuration".into()),
        location: diagnostic.span.map_or(Location { line: 1, column: 1 }, |span| span.start),
        message: format!("{}: {} [{}]", diagnostic.resource, diagnostic.message, diagnostic.code),
        hint: diagnostic.hint.clone(),
    }
}

/// All test files, sorted by path.
fn documents(paths: &[PathBuf], problems: &mut Vec<SuiteProblem>) -> Result<Vec<SuiteDocument>, Stop> {
    let mut documents = Vec::new();
    for path in paths {
        let unreadable = |path: &Path, error: &std::io::Error| {
            Failure::new(Exit::Usage, format!("cannot read `{}`", path.display())).cause(error)
        };
        let kind = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
        let mut files = Vec::new();
        if kind.is_dir() {
            gather(path, 0, &mut files).map_err(|(path, error)| unreadable(&path, &error))?;
            files.sort();
        } else {
            files.push(path.clone());
        }
        for file in files {
            let text = std::fs::read_to_string(&file).map_err(|error| unreadable(&file, &error))?;
            let name: Arc<str> = file.display().to_string().into();
            match SuiteDocument::read(&name, &text) {
                Ok(Some(document)) => documents.push(document),
                Ok(None) if kind.is_dir() => {}
                Ok(None) => problems.push(SuiteProblem {
                    file: name,
                    location: Location { line: 1, column: 1 },
                    message: "not a test file".to_owned(),
                    hint: Some("a test file begins with `kind: PolicyTest`".to_owned()),
                }),
                Err(problem) => problems.push(problem),
            }
        }
    }
    Ok(documents)
}

fn gather(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), (PathBuf, std::io::Error)> {
    let failed = |error| (directory.to_owned(), error);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
        if kind.is_dir() && depth < MAX_DEPTH {
            gather(&path, depth + 1, files)?;
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
