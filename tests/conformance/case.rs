//! Results of cases, and running cases in parallel.

use std::sync::Mutex;

use crate::support::programs;

/// The outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The case holds.
    Passed,
    /// The case does not hold; the text is the difference.
    Failed(String),
}

/// One golden case after its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    /// Unique in its suite.
    pub(crate) id: String,
    /// Its outcome.
    pub(crate) outcome: Outcome,
}

impl Case {
    /// A case that was run; the error is the difference.
    pub(crate) fn new(id: impl Into<String>, result: Result<(), String>) -> Self {
        let outcome = match result {
            Ok(()) => Outcome::Passed,
            Err(difference) => Outcome::Failed(difference),
        };
        Self { id: id.into(), outcome }
    }
}

/// Whether the id matches the filter.
pub(crate) fn selected(id: &str, filter: Option<&str>) -> bool {
    filter.is_none_or(|filter| id.contains(filter))
}

/// The documents of a `.jsonl` file. An invalid line fails the whole suite.
pub(crate) fn json_lines(path: &std::path::Path) -> Result<Vec<serde_json::Value>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|error| format!("{}:{}: {error}", path.display(), index + 1))
        })
        .collect()
}

/// How many cases with a server run in parallel: `MIXER_CONFORMANCE_JOBS`, default 4; they mostly wait.
pub(crate) fn jobs() -> usize {
    let asked = std::env::var("MIXER_CONFORMANCE_JOBS").ok().and_then(|jobs| jobs.parse().ok());
    // The prometheus adapter of Istio Mixer has a fixed port.
    asked.unwrap_or(if programs().foreign_server { 1 } else { 4 })
}

/// Runs the cases on several threads; results are in the order of the input.
pub(crate) fn in_parallel<W: Send>(jobs: usize, work: Vec<W>, run: impl Fn(W) -> Case + Sync) -> Vec<Case> {
    let waiting = Mutex::new(work.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().ok().and_then(|mut waiting| waiting.next());
                    let Some((index, work)) = next else { return };
                    let case = run(work);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, case));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, case)| case).collect()
}
