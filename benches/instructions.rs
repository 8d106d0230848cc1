//! Instructions per call, counted by callgrind: regressions are detected independently of the load of the machine.
//!
//! `cargo bench --bench instructions` runs each workload in a process of its own under `valgrind --tool=callgrind`, prints recorded
//! and new counts and their ratio, and fails when one is more than 3 % above `benches/instructions.toml`.
//! `-- --accept` records the new counts; `-- --keep DIR` keeps the profiles for `callgrind_annotate`; see `--help`.
//! `cargo test` runs a short form of an unoptimised build, and compares two runs with each other.

#![expect(clippy::expect_used, reason = "a bench that cannot set up must stop")]

#[path = "support/attributes.rs"]
mod attributes;
#[path = "support/checks.rs"]
mod checks;
#[path = "support/engine.rs"]
mod engine;
#[path = "support/reports.rs"]
mod reports;
#[path = "support/rules.rs"]
mod rules;

#[path = "instructions/compare.rs"]
mod compare;
#[path = "instructions/workloads.rs"]
mod workloads;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail, ensure};
use clap::Parser;
use mixer_base::build_info::BuildInfo;

use compare::{Counts, Verdict};
use workloads::{Size, WORKLOADS};

/// Counts instructions per call and compares them with the recorded counts.
#[derive(Debug, Parser)]
#[command(name = "instructions")]
struct Options {
    /// Write the new counts to the record instead of failing.
    #[arg(long)]
    accept: bool,
    /// Allowed increase over the record, in percent.
    #[arg(long, default_value_t = 3.0)]
    tolerance: f64,
    /// Only workloads whose name contains this text.
    filter: Option<String>,
    /// Keep the profiles, `callgrind.out.NAME`, in this directory.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Passed by cargo bench, not by cargo test.
    #[arg(long, hide = true)]
    bench: bool,
    /// Run as the measured process.
    #[arg(long, hide = true)]
    measured: Option<String>,
    /// With `--measured`: the minimum of rules and calls.
    #[arg(long, hide = true)]
    small: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "instructions: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every count is within its tolerance.
fn run(options: &Options) -> anyhow::Result<bool> {
    let size = if options.small { Size::Small } else { Size::Full };
    if let Some(name) = &options.measured {
        return workloads::run(name, size).map(|()| true).context("no such workload");
    }
    if options.bench { compare_with_record(options) } else { test() }
}

fn record() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.toml")
}

fn compare_with_record(options: &Options) -> anyhow::Result<bool> {
    let wanted = |name: &&str| options.filter.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let names: Vec<&str> = WORKLOADS.iter().map(|(name, _)| *name).filter(wanted).collect();
    ensure!(!names.is_empty(), "no workload has such a name");
    let toolchain = BuildInfo::of_this_program().toolchain;
    let record = record();
    let recorded = match std::fs::read_to_string(&record) {
        Ok(text) => Counts::parse(&text).with_context(|| record.display().to_string())?,
        Err(_) => Counts::new(toolchain),
    };
    let mut out = std::io::stdout().lock();
    if recorded.compiler != toolchain {
        let before = &recorded.compiler;
        writeln!(
            out,
            "note: recorded with {before}, this is {toolchain}: differences may be the compiler's"
        )?;
    }
    let mut counted = recorded.clone();
    let mut good = true;
    writeln!(out, "{}", compare::HEADING)?;
    for name in names {
        let calls = count(name, Size::Full, options.keep.as_deref())?;
        let verdict = Verdict::of(recorded.calls.get(name).copied(), calls, options.tolerance);
        writeln!(out, "{}", verdict.row(name))?;
        good &= options.accept || verdict.is_good();
        counted.calls.insert(name.to_owned(), calls);
    }
    if options.accept {
        counted.compiler = toolchain.to_owned();
        std::fs::write(&record, counted.text()).with_context(|| record.display().to_string())?;
        writeln!(out, "written to {}", record.display())?;
    } else if !good {
        writeln!(
            out,
            "more than recorded; if that is as it must be: cargo bench --bench instructions -- --accept"
        )?;
    }
    Ok(good)
}

/// Instructions per call of a workload.
fn count(name: &str, size: Size, keep: Option<&Path>) -> anyhow::Result<u64> {
    let directory = tempfile::tempdir().context("a directory for the profile")?;
    if let Some(keep) = keep {
        std::fs::create_dir_all(keep).with_context(|| keep.display().to_string())?;
    }
    let profile = keep.unwrap_or(directory.path()).join(format!("callgrind.out.{name}"));
    let program = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*measured_calls*"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program)
        .args(["--measured", name])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if size == Size::Small {
        command.arg("--small");
    }
    let ran = command.output().context("valgrind (Debian package `valgrind`) does not start")?;
    if !ran.status.success() {
        bail!("{name} under valgrind: {}: {}", ran.status, String::from_utf8_lossy(&ran.stderr).trim_end());
    }
    let text = std::fs::read_to_string(&profile).context("the profile")?;
    let total = compare::total(&text).context("the profile has no total")?;
    Ok(total / workloads::calls(size))
}

/// Every workload has a count, equal in two runs. Counts without optimisation are not compared.
fn test() -> anyhow::Result<bool> {
    compare::test();
    let mut out = std::io::stdout().lock();
    for (name, _) in WORKLOADS {
        let (once, twice) = (count(name, Size::Small, None)?, count(name, Size::Small, None)?);
        let verdict = Verdict::of(Some(once), twice, 1.0);
        writeln!(out, "{}", verdict.row(name))?;
        ensure!(once > 1000, "{name}: {once} instructions are no call");
        ensure!(
            verdict.is_good() && Verdict::of(Some(twice), once, 1.0).is_good(),
            "{name} is not repeatable"
        );
    }
    Ok(true)
}
