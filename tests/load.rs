//! The load harness in small: every scenario against this build, with few rules and a few hundred calls.

#[path = "../examples/load/harness.rs"]
mod harness;

use clap::Parser as _;

/// What the harness prints.
fn print(arguments: &[&str]) -> anyhow::Result<String> {
    let mut options = harness::Options::parse_from(arguments);
    options.bin = Some(env!("CARGO_BIN_EXE_mixer").into());
    let mut out = Vec::new();
    harness::run(&options, &mut out)?;
    Ok(String::from_utf8(out)?)
}

#[test]
fn every_scenario_measures_what_it_says() {
    let text = print(&["load", "table", "--calls", "200", "--duration", "0.2", "--rules", "200"]).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("| `")).collect();
    assert_eq!(rows.iter().filter(|row| row.contains("<=")).count(), 10, "{text}");
    assert_eq!(rows.iter().filter(|row| row.contains("| mixer |")).count(), 6, "{text}");
}

#[test]
fn services_of_envoy_are_measured_directly_and_through_envoy() {
    let python = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("python");
    let envoy = python.join("bin/envoy").display().to_string();
    let limits = ["--calls", "200", "--duration", "0.2", "--connections", "2", "--streams", "2"];
    let text = print(&[&["load", "envoy", "--envoy-bin", &envoy], &limits[..]].concat()).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("| mixer |")).count(), 6, "{text}");
    for asked in ["nothing asked", "ext_authz", "rate limit", "access log", "all three"] {
        assert_eq!(text.matches(&format!("\n| {asked} | ")).count(), 1, "{text}");
    }
}

#[test]
fn curves_have_a_point_for_every_size_and_are_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let plot = directory.path().join("curves.svg");
    let plot_argument = plot.display().to_string();
    let limits = ["--calls", "100", "--duration", "0.1", "--most-rules", "100", "--plot", &plot_argument];
    let text = print(&[&["load", "curves"], &limits[..]].concat()).unwrap();
    for size in [10, 100] {
        assert_eq!(text.matches(&format!("\n| {size} | ")).count(), 3, "{text}");
    }
    for size in [1, 2, 4, 8, 16, 32, 64] {
        assert_eq!(text.matches(&format!("\n| {size} | ")).count(), 1, "{text}");
    }
    assert!(!text.contains("| |"), "a point is missing: {text}");
    let drawn = std::fs::read_to_string(&plot).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.matches("<circle").count() == 4 * 2 + 7 + 2 * 2, "{drawn}");
}

#[test]
fn tails_are_measured_quiet_and_under_edits() {
    let text = print(&["load", "tails", "--duration", "0.6", "--calls", "20000", "--rules", "200"]).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| mixer |")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(rows.iter().all(|row| row.ends_with("| 1 |")), "{text}");
}
