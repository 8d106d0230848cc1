//! The workloads.

use std::hint::black_box;

use bytes::Bytes;
use tempfile::TempDir;

use super::checks::{self, Check};
use super::engine::{Engine, File, answered, testdata};
use super::{reports, rules};

/// The size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// That of the budgets.
    Full,
    /// The minimum that exercises every workload.
    Small,
}

/// Builds a workload.
type Make = fn(Size) -> Prepared;

/// Every workload by name.
pub(crate) const WORKLOADS: &[(&str, Make)] = &[
    ("check-cached", |_| check(&sample(), true, checks::of_sample(VARIETY))),
    ("check-uncached", |_| check(&sample(), false, checks::of_sample(VARIETY))),
    ("check-rules", |size| {
        let count = if size == Size::Full { 10_000 } else { 20 };
        let mut files = testdata(&["config/attributes.yaml"]);
        files.extend(rules::files(count, None));
        check(&files, false, checks::of_rules(VARIETY, count))
    }),
    ("report", |size| report(testdata(METRICS), None, size)),
    ("report-log", |size| {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("access.log").to_string_lossy().into_owned();
        let mut files = testdata(METRICS);
        files.extend(testdata(&["bench/access-log.yaml"]));
        files.iter_mut().for_each(|(_, text)| *text = text.replace("@LOG@", &log));
        report(files, Some(directory), size)
    }),
];

const METRICS: &[&str] = &["config/attributes.yaml", "config/metrics-http.yaml"];

/// Distinct requests; each is warmed up.
const VARIETY: usize = 16;
const WARM_UP: usize = 4;

/// Measured calls.
pub(crate) fn calls(size: Size) -> u64 {
    match size {
        Size::Full => 512,
        Size::Small => 16,
    }
}

/// An engine and its requests.
pub(crate) struct Prepared {
    engine: Engine,
    method: Method,
    bodies: Vec<Bytes>,
    _directory: Option<TempDir>,
}

#[derive(Clone, Copy)]
enum Method {
    Check,
    Report,
}

impl Prepared {
    fn call(&self, body: Bytes) -> Bytes {
        match self.method {
            Method::Check => answered(self.engine.service.check(body, None)),
            Method::Report => answered(self.engine.service.report(body, None)),
        }
    }
}

fn sample() -> Vec<File> {
    testdata(&[
        "config/attributes.yaml",
        "config/deny.yaml",
        "config/headers.yaml",
        "config/quota.yaml",
        "config/versions.yaml",
    ])
}

fn check(files: &[File], cache: bool, checks: Vec<Check>) -> Prepared {
    let bodies = checks.iter().map(|check| Bytes::copy_from_slice(&check.body)).collect();
    let prepared =
        Prepared { engine: Engine::start(files, cache), method: Method::Check, bodies, _directory: None };
    for (check, body) in checks.iter().zip(&prepared.bodies) {
        let answer = prepared.call(body.clone());
        // `precondition { status { code: 7` or no code at all.
        let refused = answer.windows(2).take(16).any(|bytes| bytes == [0x08, 0x07]);
        assert_eq!(refused, check.code == 7, "{answer:?}");
    }
    prepared
}

fn report(files: Vec<File>, directory: Option<TempDir>, size: Size) -> Prepared {
    let bags = if size == Size::Full { 25 } else { 3 };
    let bodies = (0..VARIETY).map(|number| reports::report(number, bags).into()).collect();
    let engine = Engine::start(&files, false);
    let prepared = Prepared { engine, method: Method::Report, bodies, _directory: directory };
    for body in &prepared.bodies {
        assert_eq!(prepared.call(body.clone()).len(), 5, "an empty message");
    }
    prepared
}

/// Runs a workload; `None` for an unknown name.
pub(crate) fn run(name: &str, size: Size) -> Option<()> {
    let (_, make) = WORKLOADS.iter().find(|(known, _)| *known == name)?;
    let prepared = make(size);
    for body in prepared.bodies.iter().cycle().take(VARIETY * WARM_UP) {
        black_box(prepared.call(body.clone()));
    }
    measured_calls(&prepared, calls(size));
    Some(())
}

/// The function that callgrind counts.
#[inline(never)]
fn measured_calls(prepared: &Prepared, calls: u64) {
    for (body, _) in prepared.bodies.iter().cycle().zip(0..calls) {
        black_box(prepared.call(body.clone()));
    }
}
