//! The command line: in-process with captured streams where that suffices, through the binary where names, pipes and the environment
//! matter.

#![cfg(test)]

#[path = "support/support.rs"]
mod support;

#[path = "cli/addresses.rs"]
mod addresses;
#[path = "cli/check.rs"]
mod check;
#[path = "cli/diagnostics.rs"]
mod diagnostics;
#[path = "cli/format.rs"]
mod format;
#[path = "cli/generated.rs"]
mod generated;
#[path = "cli/hostile.rs"]
mod hostile;
#[path = "cli/legacy.rs"]
mod legacy;
#[path = "cli/native.rs"]
mod native;
#[path = "cli/policy.rs"]
mod policy;
#[path = "cli/process.rs"]
mod process;
#[path = "cli/secrets.rs"]
mod secrets;
#[path = "cli/snapshots.rs"]
mod snapshots;
#[path = "cli/tools.rs"]
mod tools;
#[path = "cli/vocabulary.rs"]
mod vocabulary;

use mixer::cmd::{Io, parse};
use serde_json::Value;

/// Exit status, standard output, standard error.
struct Ran {
    code: u8,
    out: String,
    err: String,
}

fn run_with_input(args: &[&str], input: &str) -> Ran {
    let (mut io, captured) = Io::captured(input);
    match parse(args.iter().map(Into::into)) {
        Ok(invocation) => {
            let code = invocation.run(&mut io);
            Ran { code, out: captured.out(), err: captured.err() }
        }
        Err(shown) => Ran { code: shown.code, out: shown.out, err: shown.err },
    }
}

fn run(args: &[&str]) -> Ran {
    run_with_input(args, "")
}

fn json(ran: &Ran) -> Value {
    let parsed = serde_json::from_str(&ran.out);
    assert!(parsed.is_ok(), "{parsed:?}: {}", ran.out);
    parsed.unwrap_or_default()
}

fn scenario(name: &str) -> String {
    format!("{}/testdata/conformance/cli/scenarios/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
