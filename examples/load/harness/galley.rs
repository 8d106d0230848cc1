//! The configuration plane: from an edit of a file to the last ACK of many sinks.
//!
//! A process serves a directory of resources to sinks in this process, each on a connection of its own. What is measured: the time
//! until the first sink has everything, from the start; until all sinks have; from the rename that puts an edited file into its place to
//! the last ACK; CPU time of the process per edit, with what it does in the seconds after; and its memory. Sinks take differences
//! where the source has them, and the whole state. With the whole state a source sends a collection again, so that its cost is that of the
//! bytes: it is measured with edits of a collection of a hundred resources, and of the large one where that fits.

#[path = "galley/files.rs"]
mod files;
#[path = "galley/sinks.rs"]
mod sinks;
#[path = "galley/stream.rs"]
mod stream;

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::runtime::Runtime;

use super::measure::megabytes;
use super::options::Options;
use super::ports::next_free_port;
use super::process::{Program, Server};
use files::{COLLECTIONS, Edited, Files};
use sinks::{Asked, Sinks};

/// Timeout of a start.
const START: Duration = Duration::from_secs(300);
/// Pause between edits: each is one of its own.
const BETWEEN: Duration = Duration::from_millis(60);
/// Most resources times sinks of a measurement with the whole state, and with edits of the large collection.
const MOST_OF_ALL: usize = 10_000_000;
const MOST_OF_EDITS: usize = 1_000_000;

/// How sinks are served, and what is edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mode {
    is_incremental: bool,
    edited: Edited,
}

const MODES: [Mode; 4] = [
    Mode { is_incremental: true, edited: Edited::Large },
    Mode { is_incremental: true, edited: Edited::Members },
    Mode { is_incremental: false, edited: Edited::Small },
    Mode { is_incremental: false, edited: Edited::Large },
];

impl Mode {
    fn name(self) -> &'static str {
        match (self.is_incremental, self.edited) {
            (true, Edited::Members) => "differences, a resource less or again",
            (true, _) => "differences",
            (false, Edited::Small) => "whole state, 100 resources",
            (false, _) => "whole state, all resources",
        }
    }

    /// Whether a program is measured with it.
    fn is_measured(self, program: &Program, resources: usize, sinks: usize) -> bool {
        let product = resources.saturating_mul(sinks);
        match (self.is_incremental, self.edited) {
            // The first state is that of all modes.
            (true, _) => program.is_own(),
            (false, Edited::Small) => product <= MOST_OF_ALL,
            (false, _) => product <= MOST_OF_EDITS,
        }
    }
}

/// Measures all programs with all sizes, and prints the table.
pub(super) fn run(
    runtime: &Runtime,
    options: &Options,
    programs: &[Program],
    out: &mut dyn Write,
) -> Result<()> {
    writeln!(out, "| resources | program | start | CPU of the start | private memory | resident memory |")?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- |")?;
    let mut rows = Vec::new();
    for resources in &options.resources {
        for program in programs {
            let measured = runtime.block_on(measure(options, program, *resources, &mut rows, out));
            measured.with_context(|| format!("{}, {resources} resources", program.name))?;
        }
    }
    writeln!(
        out,
        "\n| resources | sinks | sinks take | program | first state | edit to last ACK: median, 99th percentile, longest | CPU an edit | private memory |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
    rows.iter().try_for_each(|row| writeln!(out, "{row}"))?;
    Ok(())
}

async fn measure(
    options: &Options,
    program: &Program,
    resources: usize,
    rows: &mut Vec<String>,
    out: &mut dyn Write,
) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let config = directory.path().join("config");
    std::fs::create_dir(&config)?;
    let files = Files::write(&config, resources, options.per_file)?;
    let mut server = start(program, directory.path(), &config)?;
    wait_for_port(&mut server).await?;
    let asked = |is_incremental| Asked {
        address: server.address,
        collections: Rc::from(COLLECTIONS),
        is_incremental,
    };
    let settle = Duration::from_secs_f64(options.settle);
    let first = Sinks::connect(&asked(false), 1, false).await?;
    let (started, cpu) = (server.started.elapsed(), server.cpu_of_threads()?.total());
    drop(first);
    // What the start has left behind.
    tokio::time::sleep(settle).await;
    let (private, mapped) = server.memory()?;
    writeln!(
        out,
        "| {resources} | {} | {:.2} s | {:.2} s | {:.1} MB | {:.1} MB |",
        program.name,
        started.as_secs_f64(),
        cpu.as_secs_f64(),
        megabytes(private),
        megabytes(private + mapped)
    )?;
    out.flush()?;
    let mut number = 0;
    for count in &options.sinks {
        for mode in MODES {
            if !mode.is_measured(program, resources, *count) {
                continue;
            }
            let (sinks, synced) = Sinks::connect(&asked(mode.is_incremental), *count, false).await?;
            sinks.idle(settle).await;
            let before = server.cpu_of_threads()?;
            let mut times = Vec::with_capacity(options.edits);
            // What an edit takes away, the next one brings back.
            number += number % 2 + 1;
            for _ in 0..options.edits {
                number += 1;
                let (marker, edit) = files.edit(mode.edited, number)?;
                let edit = || {
                    edit()?;
                    // Galley of Istio 1.3 does not watch files.
                    if program.is_own() { Ok(()) } else { server.reload() }
                };
                times.push(sinks.follow(&marker, edit).await?);
                sinks.idle(BETWEEN).await;
            }
            sinks.idle(settle).await;
            let cpu = server.cpu_of_threads()?.since(&before) / u32::try_from(options.edits.max(1))?;
            let (private, _) = server.memory()?;
            times.sort();
            let [median, high, longest] = [50, 99, 100].map(|percent| {
                let rank = (times.len() * percent).div_ceil(100).saturating_sub(1);
                times.get(rank).copied().unwrap_or_default().as_secs_f64() * 1e3
            });
            let row = format!(
                "| {resources} | {count} | {} | {} | {:.2} s | {median:.1}, {high:.1}, {longest:.1} ms | {:.2} ms | {:.1} MB |",
                mode.name(),
                program.name,
                synced.as_secs_f64(),
                cpu.as_secs_f64() * 1e3,
                megabytes(private)
            );
            if options.verbose {
                let _ = writeln!(std::io::stderr(), "{row}");
            }
            rows.push(row);
            if mode == MODES[0] {
                drop(sinks);
                let row = storm(&server, &asked(true), resources, *count, &program.name).await?;
                if options.verbose {
                    let _ = writeln!(std::io::stderr(), "{row}");
                }
                rows.push(row);
            }
        }
    }
    server.check_alive()
}

/// All sinks connect again at once.
async fn storm(server: &Server, asked: &Asked, resources: usize, count: usize, name: &str) -> Result<String> {
    let before = server.cpu_of_threads()?;
    let (_sinks, took) = Sinks::connect(asked, count, true).await?;
    let cpu = server.cpu_of_threads()?.since(&before);
    let (private, _) = server.memory()?;
    Ok(format!(
        "| {resources} | {count} | all begin at once | {name} | {:.2} s | | {:.0} ms | {:.1} MB |",
        took.as_secs_f64(),
        cpu.as_secs_f64() * 1e3,
        megabytes(private)
    ))
}

/// Starts the program with its defaults on a directory. Rates of streams and requests are no limit, and the log has warnings only.
fn start(program: &Program, directory: &Path, config: &Path) -> Result<Server> {
    let [port, monitoring, ctrlz] = [next_free_port()?, next_free_port()?, next_free_port()?];
    let mut command = Command::new(&program.path);
    if program.is_own() {
        command.arg("galley");
    }
    std::fs::write(directory.join("mesh.yaml"), "# Defaults.\n")?;
    command
        .args(["server", "--insecure", "--enable-validation=false"])
        .args(["--enable-reconcileWebhookConfiguration=false"])
        .arg(format!("--configPath={}", config.display()))
        .arg(format!("--meshConfigFile={}", directory.join("mesh.yaml").display()))
        .arg(format!("--server-address=tcp://127.0.0.1:{port}"))
        .arg(format!("--monitoringPort={monitoring}"))
        .arg(format!("--ctrlz_port={ctrlz}"))
        .arg(format!("--livenessProbePath={}", directory.join("live").display()))
        .arg(format!("--readinessProbePath={}", directory.join("ready").display()))
        .args(["--log_output_level", "default:warn"])
        .env("SOURCE_SERVER_STREAM_FREQ", "1ms")
        .env("SOURCE_SERVER_STREAM_BURST_SIZE", "10000")
        .env("MCP_SOURCE_REQ_FREQ", "1ms")
        .env("MCP_SOURCE_REQ_BURST_SIZE", "10000");
    Server::spawn(command, port, directory)
}

async fn wait_for_port(server: &mut Server) -> Result<()> {
    let limit = Instant::now() + START;
    while tokio::net::TcpStream::connect(server.address).await.is_err() {
        server.check_alive()?;
        anyhow::ensure!(Instant::now() < limit, "it does not listen");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}
