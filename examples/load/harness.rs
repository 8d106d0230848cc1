//! The load harness: server processes, clients, measurements and the table of budgets.
//!
//! [`run`] runs one scenario or all of them, for this build's binary and for a peer if given. Every kind of call is verified before it is
//! measured.

#[path = "harness/adapters.rs"]
mod adapters;
#[path = "../../benches/support/attributes.rs"]
mod attributes;
#[path = "harness/bridge.rs"]
mod bridge;
#[path = "../../benches/support/checks.rs"]
mod checks;
#[path = "harness/client.rs"]
mod client;
#[path = "harness/configuration.rs"]
mod configuration;
#[path = "harness/curves.rs"]
mod curves;
#[path = "harness/envoy.rs"]
mod envoy;
#[path = "harness/galley.rs"]
mod galley;
#[path = "harness/http1.rs"]
mod http1;
#[path = "harness/measure.rs"]
mod measure;
#[path = "harness/options.rs"]
mod options;
#[path = "harness/plot.rs"]
mod plot;
#[path = "../../tests/support/ports.rs"]
mod ports;
#[path = "harness/process.rs"]
mod process;
#[path = "harness/quotas.rs"]
mod quotas;
#[path = "../../benches/support/reports.rs"]
mod reports;
#[path = "../../benches/support/rules.rs"]
mod rules;
#[path = "harness/scenario.rs"]
mod scenario;
#[path = "harness/sinks.rs"]
mod sinks;
#[path = "harness/table.rs"]
mod table;
#[path = "harness/tails.rs"]
mod tails;

pub(crate) use options::Options;
use options::Work;

use std::io::Write;

use anyhow::{Context as _, Result};

use measure::Figures;
use process::{Program, Role};

/// Runs the selected measurements and prints the figures.
pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let programs = programs(options)?;
    match options.work {
        Work::Table => {
            let mut rows = Vec::new();
            let programs = able(&programs, Work::Table);
            for work in Work::MEASURED {
                rows.push((work, measure_all(&runtime, options, &programs, work)?));
            }
            table::print(&programs, &rows, out)
        }
        Work::Adapters => adapters::run(&runtime, options, &able(&programs, Work::Adapters), out),
        Work::Envoy => bridge::run(&runtime, options, &programs, out),
        Work::Curves => curves::run(&runtime, options, &able(&programs, Work::Curves), out),
        Work::Galley => galley::run(&runtime, options, &able(&programs, Work::Galley), out),
        Work::Tails => tails::run(&runtime, options, &able(&programs, Work::Tails), out),
        work => {
            let programs = able(&programs, work);
            let figures = measure_all(&runtime, options, &programs, work)?;
            for (program, figures) in programs.iter().zip(&figures) {
                writeln!(out, "{:<12} {:<16} {figures}", program.name, work.name())?;
            }
            Ok(())
        }
    }
}

/// This build's binary, and the peer.
fn programs(options: &Options) -> Result<Vec<Program>> {
    let own = match &options.bin {
        Some(path) => path.clone(),
        None => {
            // target/release/examples/load -> target/release/mixer
            let here = std::env::current_exe()?;
            let directory = here
                .parent()
                .and_then(|d| d.parent())
                .context("the binary is not in target/PROFILE/examples")?;
            directory.join("mixer")
        }
    };
    let mut programs = vec![Program::new("mixer".to_owned(), own, Role::Own)];
    if let Some(path) = &options.peer_bin {
        let name = path.file_name().map_or_else(|| "peer".into(), |n| n.to_string_lossy().into_owned());
        programs.push(Program::new(name, path.clone(), Role::Peer));
    }
    if let Some(path) = &options.limitador_bin {
        programs.push(Program::new("limitador".to_owned(), path.clone(), Role::Limitador));
    }
    for program in &programs {
        anyhow::ensure!(
            program.path.is_file(),
            "there is no server at {}: build it, or name it with --bin",
            program.path.display()
        );
    }
    Ok(programs)
}

/// The programs that support a scenario.
fn able(programs: &[Program], work: Work) -> Vec<Program> {
    let envoy =
        matches!(work, Work::EnvoyCheck | Work::EnvoyCheckUncached | Work::EnvoyLimit | Work::EnvoyLog);
    let able = |program: &&Program| match program.role {
        Role::Own => true,
        // Leases are our own.
        Role::Peer => !envoy && work != Work::QuotaLease,
        Role::Limitador => work == Work::EnvoyLimit,
    };
    programs.iter().filter(able).cloned().collect()
}

/// Measures each program `--runs` times, alternating, and returns the medians.
fn measure_all(
    runtime: &tokio::runtime::Runtime,
    options: &Options,
    programs: &[Program],
    work: Work,
) -> Result<Vec<Figures>> {
    let mut figures: Vec<Vec<Figures>> = programs.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.runs {
        for (program, figures) in programs.iter().zip(&mut figures) {
            let measured = runtime
                .block_on(scenario::measure(options, program, work))
                .with_context(|| format!("{}, {}", program.name, work.name()))?;
            if options.verbose {
                let _ = writeln!(std::io::stderr(), "{:<12} {:<16} {measured}", program.name, work.name());
            }
            figures.push(measured);
        }
    }
    Ok(figures.iter().map(|runs| Figures::median(runs)).collect())
}
