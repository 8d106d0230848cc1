//! A running server in the hands of its operators: signals, supervision, the pid file, the rehearsal.

#![cfg(test)]

#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/bag.rs"]
mod bag;
#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/process.rs"]
mod process;
#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/rpc.rs"]
mod rpc;

#[path = "operations/certificates.rs"]
mod certificates;
#[path = "operations/doctor.rs"]
mod doctor;
#[path = "operations/health.rs"]
mod health;
#[path = "operations/security.rs"]
mod security;
#[path = "operations/signals.rs"]
mod signals;
#[path = "operations/sockets.rs"]
mod sockets;

use std::path::Path;

use process::{Finished, PATIENCE, programs, run};

/// Runs `mixer` to its end.
fn mixer(arguments: &[&str]) -> Finished {
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    run(&programs().path("mixer"), &arguments, &[], None, None, PATIENCE).expect("the command ends")
}

/// Text of a file; empty if there is none.
fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
