//! `test`: declared requests against a configuration, without a server.

mod junit;
mod load;
mod render;

use std::path::PathBuf;
use std::time::Duration;

use super::output::Format;
use super::source::NamespaceFlags;
use super::{Exit, Failure, Io, Outcome, Stop};
use mixer_policy::{CaseResult, Problem, run_case};

use load::Loaded;
use render::Renderer;

/// Flags of `test`.
#[derive(Debug, Clone, clap::Args)]
pub struct TestArgs {
    /// Files of tests, or directories with them, read recursively. Other files in a directory are left alone.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Configuration to test: fs://DIR, a path, or embedded://sample; repeat for several. Replaces what the files name.
    #[arg(long, value_name = "URL", action = clap::ArgAction::Append)]
    config: Vec<String>,
    #[command(flatten)]
    namespace: NamespaceFlags,
    /// Run only tests whose file or name contains this text.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Stop at the first test that fails.
    #[arg(long)]
    fail_fast: bool,
    /// Write the results as JUnit XML too, for CI systems.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// How results are written; a table on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

/// A test that was run.
struct Ran {
    file: String,
    name: String,
    line: u32,
    result: CaseResult,
}

/// Everything that was run.
#[derive(Default)]
struct Session {
    ran: Vec<Ran>,
    filtered: usize,
    took: Duration,
}

impl Session {
    fn failed(&self) -> usize {
        self.ran.iter().filter(|ran| !ran.result.passed()).count()
    }
}

/// Reads, runs, prints and judges: 0 if all tests pass, 1 if one fails, 2 if something cannot be read.
pub(crate) fn run(args: &TestArgs, io: &mut Io) -> Outcome {
    let loaded = load::load(&args.paths, &args.config, &args.namespace, io)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut renderer = Renderer::new(args.output, io);
    let session = runtime.block_on(run_all(args, &loaded, &mut renderer, io))?;
    renderer.end(&session, io)?;
    if let Some(path) = &args.junit {
        std::fs::write(path, junit::document(&session))
            .map_err(|error| Failure::local(format!("cannot write `{}`", path.display())).cause(error))?;
    }
    if session.ran.is_empty() {
        let hint = match &args.filter {
            Some(filter) => format!("no name contains `{filter}`; leave --filter out to run all"),
            None => "a file of tests has `kind: PolicyTest` and a list of `tests`".to_owned(),
        };
        return Err(Failure::usage("no test was run").hint(hint).into());
    }
    Ok(if session.failed() == 0 { Exit::Success } else { Exit::Negative })
}

async fn run_all(
    args: &TestArgs,
    loaded: &[Loaded],
    renderer: &mut Renderer,
    io: &mut Io,
) -> Result<Session, Stop> {
    let mut session = Session::default();
    let started = std::time::Instant::now();
    for Loaded { suite, snapshot } in loaded {
        for case in &suite.cases {
            let wanted =
                |text: &String| suite.file.contains(text.as_str()) || case.name.contains(text.as_str());
            if !args.filter.as_ref().is_none_or(wanted) {
                session.filtered += 1;
                continue;
            }
            let result = run_case(suite, case, snapshot).await.map_err(|error| {
                let problems = error.problems.iter().map(|problem| Problem {
                    file: suite.file.clone(),
                    location: case.location,
                    message: format!("handler {} cannot be built: {}", problem.resource, problem.message),
                    hint: Some("put an answer in its place under `stubs`".to_owned()),
                });
                load::refuse(&problems.collect::<Vec<_>>(), io)
            })?;
            let failed = !result.passed();
            let line = case.location.line;
            let ran = Ran { file: suite.file.to_string(), name: case.name.clone(), line, result };
            renderer.ran(&ran, io)?;
            session.ran.push(ran);
            if failed && args.fail_fast {
                session.took = started.elapsed();
                return Ok(session);
            }
        }
    }
    session.took = started.elapsed();
    Ok(session)
}
