//! Measures the cost of calls of a server process.
//!
//! `cargo run --release --example load -- <scenario|table> [--peer-bin PATH]`; `--help` lists the scenarios. See docs/benchmarks.md.

#[path = "load/harness.rs"]
mod harness;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let options = harness::Options::parse();
    match harness::run(&options, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "load: {error:#}");
            ExitCode::FAILURE
        }
    }
}
