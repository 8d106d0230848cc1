//! Counts, how they are recorded, and what is made of two of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

/// Instructions a call, by workload.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Counts {
    /// Who compiled what was counted.
    pub(crate) compiler: String,
    /// Workload and instructions.
    pub(crate) calls: BTreeMap<String, u64>,
}

impl Counts {
    /// Nothing counted.
    pub(crate) fn new(compiler: &str) -> Self {
        Self { compiler: compiler.to_owned(), calls: BTreeMap::new() }
    }

    /// Reads what [`text`](Self::text) wrote.
    pub(crate) fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The record as a file.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "# Instructions a call, from the bytes of a request to the bytes of its answer, without the network.\n\
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
    /// `tolerance` is what may be more, in percent.
    pub(crate) fn of(recorded: Option<u64>, new: u64, tolerance: f64) -> Self {
        Self { recorded, new, tolerance }
    }

    fn ratio(&self) -> f64 {
        self.recorded.map_or(f64::INFINITY, |recorded| self.new as f64 / recorded as f64)
    }

    /// Not more than recorded, but for the tolerance. What is not recorded is not good.
    pub(crate) fn is_good(&self) -> bool {
        self.ratio() <= 1.0 + self.tolerance / 100.0
    }

    /// One line for people.
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

/// The total of a profile that callgrind wrote.
pub(crate) fn total(profile: &str) -> Option<u64> {
    let line = profile.lines().find_map(|line| line.strip_prefix("totals:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Holds this file to its promises; a bench without a harness has no other tests.
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
