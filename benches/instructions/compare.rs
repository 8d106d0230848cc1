//! Counts, their record, and the comparison of two.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

/// Instructions per call, by workload.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Counts {
    /// The compiler.
    pub(crate) compiler: String,
    /// Workload and instructions.
    pub(crate) calls: BTreeMap<String, u64>,
}

impl Counts {
    /// No counts.
    pub(crate) fn new(compiler: &str) -> Self {
        Self { compiler: compiler.to_owned(), calls: BTreeMap::new() }
    }

    /// Parses the format of [`text`](Self::text).
    pub(crate) fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The record as a file.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "# Instructions per call, from request bytes to response bytes, without the network.\n\
             # Written by `cargo bench --bench instructions -- --accept`; benches/README.md says how to compare.\n\
             compiler = \"{}\"\n\n[calls]\n",
            self.compiler
        );
        for (name, count) in &self.calls {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name} = {count}");
        }
        text
    }
}

/// The head of a table of [`Verdict::row`]s.
pub(crate) const HEADING: &str = "workload           recorded         new   ratio";

/// A new count beside the recorded one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    recorded: Option<u64>,
    new: u64,
    tolerance: f64,
}

impl Verdict {
    /// `tolerance` is the allowed increase in percent.
    pub(crate) fn of(recorded: Option<u64>, new: u64, tolerance: f64) -> Self {
        Self { recorded, new, tolerance }
    }

    fn ratio(&self) -> f64 {
        self.recorded.map_or(f64::INFINITY, |recorded| self.new as f64 / recorded as f64)
    }

    /// Whether the count is within the tolerance; false without a record.
    pub(crate) fn is_good(&self) -> bool {
        self.ratio() <= 1.0 + self.tolerance / 100.0
    }

    /// A row of the table.
    pub(crate) fn row(&self, name: &str) -> String {
        let word = match self.ratio() {
            _ if !self.is_good() && self.recorded.is_none() => "  not recorded",
            _ if !self.is_good() => "  MORE",
            ratio if ratio < 1.0 - self.tolerance / 100.0 => "  less",
            _ => "",
        };
        let recorded = self.recorded.map_or("-".to_owned(), |count| count.to_string());
        format!("{name:<16} {recorded:>10}  {:>10}  {:>6.3}{word}", self.new, self.ratio())
    }
}

/// The total of a callgrind profile.
pub(crate) fn total(profile: &str) -> Option<u64> {
    let line = profile.lines().find_map(|line| line.strip_prefix("totals:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Tests of this file; a bench without a harness has no other place for them.
pub(crate) fn test() {
    let mut counts = Counts::new("rustc 1.2.3");
    counts.calls.insert("check-cached".to_owned(), 12_345);
    assert_eq!(Counts::parse(&counts.text()), Ok(counts));
    assert!(Counts::parse("compiler = 1").is_err());
    for (recorded, new, good) in [
        (Some(1000), 1000, true),
        (Some(1000), 1030, true),
        (Some(1000), 1031, false),
        (Some(1000), 10, true),
        (None, 10, false),
    ] {
        assert_eq!(Verdict::of(recorded, new, 3.0).is_good(), good, "{recorded:?} {new}");
    }
    assert_eq!(total("events: Ir\nfn=(1)\n1 2\n\ntotals: 4711\n"), Some(4711));
    assert_eq!(total("events: Ir\n"), None);
}
