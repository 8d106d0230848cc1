//! `test`: runs policy tests against a configuration, without a server.

mod junit;
mod load;
mod render;
mod session;

use std::path::PathBuf;

use load::LoadedSuite;
use render::TestRenderer;
use session::{FinishedTest, TestRun};

use super::event_loop::block_on;
use super::exit::{Exit, Failure, Outcome, Stop};
use super::flags::{EmptyConfigFlags, NamespaceFlags};
use super::io::Io;
use super::output::OutputFormat;
use mixer_policy::{SuiteProblem, run_case};

/// Flags of `test`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TestArgs {
    /// Test files, or directories that are searched recursively; other files in directories are ignored.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Configuration to test: fs://DIR, a path, or embedded://sample; may be repeated. Overrides the test files.
    #[arg(long, value_name = "URL", action = clap::ArgAction::Append)]
    config: Vec<String>,
    #[command(flatten)]
    namespace: NamespaceFlags,
    #[command(flatten)]
    empty: EmptyConfigFlags,
    /// Run only tests whose file or name contains TEXT.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Stop after the first failed test.
    #[arg(long)]
    fail_fast: bool,
    /// Also write the results as JUnit XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Output format; default: table on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
}

/// Runs the tests and prints the results. Exit status: 0 if all tests pass, 1 if one fails, 2 if an input cannot be read.
pub(crate) fn run(args: &TestArgs, io: &mut Io) -> Outcome {
    let namespace = (&args.namespace, args.empty.allow_empty_config);
    let loaded = load::load(&args.paths, &args.config, namespace, io)?;
    let mut renderer = TestRenderer::new(args.output, io);
    let session = block_on(run_all(args, &loaded, &mut renderer, io))?;
    renderer.end(&session, io)?;
    if let Some(path) = &args.junit {
        std::fs::write(path, junit::document(&session))
            .map_err(|error| Failure::local(format!("cannot write `{}`", path.display())).cause(error))?;
    }
    if session.ran.is_empty() {
        let hint = match &args.filter {
            Some(filter) => format!("no name contains `{filter}`; omit --filter to run all tests"),
            None => "a test file has `kind: PolicyTest` and a list of `tests`".to_owned(),
        };
        return Err(Failure::usage("no test was run").hint(hint).into());
    }
    Ok(if session.failed() == 0 { Exit::Success } else { Exit::Negative })
}

async fn run_all(
    args: &TestArgs,
    loaded: &[LoadedSuite],
    renderer: &mut TestRenderer,
    io: &mut Io,
) -> Result<TestRun, Stop> {
    let mut session = TestRun::default();
    let started = std::time::Instant::now();
    for LoadedSuite { suite, snapshot } in loaded {
        for case in &suite.cases {
            let matches =
                |text: &String| suite.file.contains(text.as_str()) || case.name.contains(text.as_str());
            if !args.filter.as_ref().is_none_or(matches) {
                session.filtered += 1;
                continue;
            }
            let result = run_case(suite, case, snapshot).await.map_err(|error| {
                let problems = error.problems.iter().map(|problem| SuiteProblem {
                    file: suite.file.clone(),
                    location: case.location,
                    message: format!("handler {} cannot be built: {}", problem.resource, problem.message),
                    hint: Some("replace it with a response under `stubs`".to_owned()),
                });
                load::problems_failure(&problems.collect::<Vec<_>>(), io)
            })?;
            let failed = !result.passed();
            let line = case.location.line;
            let ran = FinishedTest { file: suite.file.to_string(), name: case.name.clone(), line, result };
            renderer.finished(&ran, io)?;
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
