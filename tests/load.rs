//! The load harness in small: every scenario against this build, with few rules and a few hundred calls.

#[path = "../examples/load/harness.rs"]
mod harness;

use clap::Parser as _;

#[test]
fn every_scenario_measures_what_it_says() {
    let arguments = ["load", "table", "--calls", "200", "--duration", "0.2", "--rules", "200"];
    let mut options = harness::Options::parse_from(arguments);
    options.bin = Some(env!("CARGO_BIN_EXE_mixer").into());
    let mut out = Vec::new();
    harness::run(&options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("| `")).collect();
    assert_eq!(rows.iter().filter(|row| row.contains("<=")).count(), 10, "{text}");
    assert_eq!(rows.iter().filter(|row| row.contains("| mixer |")).count(), 6, "{text}");
}
