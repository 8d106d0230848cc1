//! The load harness in small: every scenario against this build, with few rules and a few hundred calls.
//!
//! No time is asserted. Asserted is what holds at any speed: each figure is there, quantiles are ordered, derived figures follow from
//! the figures beside them, and counts match.

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

/// The cells of the Markdown table whose head begins with `title`, row by row.
#[cfg(test)]
fn table<'t>(text: &'t str, title: &str) -> Vec<Vec<&'t str>> {
    let lines = text.lines().skip_while(|line| !line.starts_with(&format!("| {title} |"))).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The number at the start of a cell.
#[cfg(test)]
fn number(cell: &str) -> f64 {
    let number = cell.trim_start_matches("<= ").split(' ').next().unwrap_or_default();
    number.parse().unwrap_or_else(|_| panic!("`{cell}` is no figure"))
}

#[cfg(test)]
fn assert_ordered(quantiles: &[f64], context: &str) {
    assert!(quantiles.is_sorted() && quantiles[0] > 0.0, "{quantiles:?} in {context}");
}

#[test]
fn the_table_has_every_scenario_and_its_figures_agree() {
    let text = print(&["load", "table", "--calls", "200", "--duration", "0.2", "--rules", "200"]).unwrap();
    let budgets = table(&text, "work");
    let names: Vec<&str> = budgets.iter().map(|row| row[1].trim_matches('`')).collect();
    assert_eq!(
        names,
        [
            "no-op",
            "check-cached",
            "check-uncached",
            "check-rules",
            "report",
            "report-log",
            "start",
            "edit",
            "idle",
            "memory-sample",
            "memory-sample",
            "memory-sample",
            "memory-rules",
            "memory-rules",
            "memory-rules",
        ],
        "{text}"
    );
    for row in &budgets {
        let &[_, name, own, budget, verdict, ratio] = row.as_slice() else { panic!("{row:?}") };
        let value = number(own);
        // CPU time is counted in ticks of 10 ms: a short run may have used none.
        let is_cpu = own.ends_with(" us") || name == "`idle`";
        assert!(value > 0.0 || is_cpu && value == 0.0, "{row:?}");
        assert_eq!(ratio, "", "there is no peer: {row:?}");
        match budget {
            "" => assert_eq!(verdict, "", "{row:?}"),
            budget if value < number(budget) => assert_eq!(verdict, "yes", "{row:?}"),
            budget if value > number(budget).max(0.002) => assert_eq!(verdict, "no", "{row:?}"),
            _ => assert!(["yes", "no"].contains(&verdict), "{row:?}"),
        }
    }
    for memory in budgets.chunks(3).skip(3) {
        let [all, private, mapped] = [0, 1, 2].map(|row: usize| number(memory[row][2]));
        assert!((all - private - mapped).abs() < 0.2, "the parts add up: {memory:?}");
    }
    let rates = table(&text, "scenario");
    let measured: Vec<&str> = rates.iter().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(measured, names[..6], "scenarios with calls have rates: {text}");
    for row in &rates {
        assert_eq!(row[1], "mixer");
        let [rate, p50, p99, p999, megabytes] = [2, 3, 4, 5, 6].map(|column| number(row[column]));
        assert!(rate > 0.0 && megabytes > 1.0, "{row:?}");
        assert_ordered(&[p50, p99, p999], &text);
    }
}

#[test]
fn every_adapter_has_a_row_and_reaches_its_backend() {
    let limits = ["--calls", "20", "--duration", "0.1", "--connections", "2", "--streams", "2"];
    let text = print(&[&["load", "adapters"], &limits[..]].concat()).unwrap();
    let rows = table(&text, "adapter");
    let adapters: std::collections::BTreeSet<&str> =
        rows.iter().map(|row| row[0].trim_matches('`')).collect();
    // Those that docs/benchmarks.md says are left out.
    let left_out = ["bypass", "drill", "kubernetesenv"];
    let in_process = mixer_adapters::INVENTORY.names().filter(|name| !left_out.contains(name));
    let all: std::collections::BTreeSet<&str> = in_process.chain(["out of process"]).collect();
    assert_eq!(adapters, all, "{text}");
    for row in &rows {
        let &[_, _, of, own, on_top, budget, verdict, ratio] = row.as_slice() else { panic!("{row:?}") };
        assert!(
            number(own) >= 0.0 && on_top.ends_with(" us") && ["a bag", "a check"].contains(&of),
            "{row:?}"
        );
        assert_eq!((verdict.is_empty(), ratio), (budget.is_empty(), ""), "there is no peer: {row:?}");
    }
}

#[test]
fn quotas_in_redis_are_measured_with_and_without_leases() {
    for work in ["quota-exact", "quota-lease"] {
        let text = print(&["load", work, "--calls", "200", "--duration", "0.2"]).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words[..2], ["mixer", work], "{text}");
        assert!(number(words[2]) >= 0.0 && text.contains(" per s"), "{text}");
    }
}

#[test]
fn services_of_envoy_are_measured_directly_and_through_envoy() {
    let python = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("python");
    let envoy = python.join("bin/envoy").display().to_string();
    let limits = ["--calls", "200", "--duration", "0.2", "--connections", "2", "--streams", "2"];
    let text = print(&[&["load", "envoy", "--envoy-bin", &envoy], &limits[..]].concat()).unwrap();
    let direct = table(&text, "call");
    assert_eq!(direct.len(), 6, "{text}");
    for row in &direct {
        assert_eq!(row[1], "mixer");
        let [rate, p50, p99, megabytes] = [4, 5, 6, 7].map(|column| number(row[column]));
        assert!(number(row[2]) >= 0.0 && rate > 0.0 && megabytes > 1.0, "{row:?}");
        assert_ordered(&[p50, p99], &text);
    }
    let through = table(&text, "through Envoy");
    let services: Vec<&str> = through.iter().map(|row| row[0]).collect();
    assert_eq!(services, ["nothing asked", "ext_authz", "rate limit", "access log", "all three"], "{text}");
    for row in &through {
        let [of_envoy, of_mixer, rate, p50, p99] = [1, 2, 3, 4, 5].map(|column| number(row[column]));
        assert!(of_envoy >= 0.0 && of_mixer >= 0.0 && rate > 0.0, "{row:?}");
        assert_ordered(&[p50, p99], &text);
    }
}

#[test]
fn curves_have_a_point_for_every_size_and_are_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let plot = directory.path().join("curves.svg");
    let plot_argument = plot.display().to_string();
    let limits = ["--calls", "100", "--duration", "0.1", "--most-rules", "100", "--plot", &plot_argument];
    let text = print(&[&["load", "curves"], &limits[..]].concat()).unwrap();
    // Checks, edits and starts by rules; reports by metrics.
    let by_rules: Vec<_> =
        text.match_indices("| rules |").map(|(at, _)| table(&text[at..], "rules")).collect();
    let by_metrics = table(&text, "metrics");
    assert_eq!(by_rules.iter().map(|rows| rows[0].len() - 1).collect::<Vec<_>>(), [1, 3, 2], "{text}");
    for rows in &by_rules {
        assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["10", "100"], "{text}");
    }
    let metrics: Vec<&str> = by_metrics.iter().map(|row| row[0]).collect();
    assert_eq!(metrics, ["1", "2", "4", "8", "16", "32", "64"], "{text}");
    let points: Vec<f64> = by_rules
        .iter()
        .chain([&by_metrics])
        .flatten()
        .flat_map(|row| &row[1..])
        .map(|cell| number(cell))
        .collect();
    assert!(points.iter().all(|value| *value >= 0.0), "{text}");
    let drawn = std::fs::read_to_string(&plot).unwrap();
    assert!(drawn.starts_with("<svg"), "{drawn}");
    assert_eq!(drawn.matches("<circle").count(), points.len(), "a circle per point");
}

#[test]
fn tails_are_measured_with_and_without_edits() {
    let text = print(&["load", "tails", "--duration", "0.6", "--calls", "20000", "--rules", "200"]).unwrap();
    let rows = table(&text, "server");
    let shares: Vec<(&str, &str)> = rows.iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(shares, [("mixer", "50 %"), ("mixer", "80 %")], "{text}");
    for row in &rows {
        let pair = |column: usize| {
            let (quiet, edited) = row[column].split_once(", ").unwrap_or_default();
            (number(quiet), number(edited))
        };
        let [p50, p99, p999] = [pair(3), pair(4), pair(5)];
        assert_ordered(&[p50.0, p99.0, p999.0], &text);
        assert_ordered(&[p50.1, p99.1, p999.1], &text);
        let ratio = p999.1 / p999.0;
        assert!(
            (number(row[6]) - ratio).abs() <= 0.01 * ratio + 0.01,
            "the ratio of p99.9 is {ratio}: {row:?}"
        );
        assert!(number(row[7]) >= 1.0, "an edit a second, the first one at once: {row:?}");
    }
    let (half, most) = (number(rows[0][2]), number(rows[1][2]));
    assert!((half / 0.5 - most / 0.8).abs() <= 4.0, "both are shares of one rate: {text}");
}

#[test]
fn the_configuration_plane_is_measured_with_many_sinks() {
    let sizes = ["--resources", "150,300", "--sinks", "1,7", "--edits", "3", "--settle", "0.05"];
    let text = print(&[&["load", "galley"], &sizes[..]].concat()).unwrap();
    let (starts, edits) = text.split_once("\n\n").unwrap();
    let starts = table(starts, "resources");
    assert_eq!(
        starts.iter().map(|row| (row[0], row[1])).collect::<Vec<_>>(),
        [("150", "mixer"), ("300", "mixer")]
    );
    for row in &starts {
        let [start, cpu, private, resident] = [2, 3, 4, 5].map(|column| number(row[column]));
        assert!(start > 0.0 && cpu > 0.0 && 0.0 < private && private < resident, "{row:?}");
    }
    let rows = table(edits, "resources");
    let modes = [
        "differences",
        "all begin at once",
        "differences, a resource less or again",
        "whole state, 100 resources",
        "whole state, all resources",
    ];
    let expected: Vec<(&str, &str, &str)> = ["150", "300"]
        .into_iter()
        .flat_map(|resources| ["1", "7"].map(|sinks| (resources, sinks)))
        .flat_map(|(resources, sinks)| modes.map(|mode| (resources, sinks, mode)))
        .collect();
    assert_eq!(rows.iter().map(|row| (row[0], row[1], row[2])).collect::<Vec<_>>(), expected, "{text}");
    for row in rows.iter().filter(|row| row[2] != "all begin at once") {
        let [median, high, longest] = row[5].split(", ").map(number).collect::<Vec<_>>()[..] else {
            panic!("{row:?}")
        };
        assert_ordered(&[median, high, longest], &text);
        assert!(number(row[6]) > 0.0 && number(row[7]) > 0.0, "{row:?}");
    }
}
