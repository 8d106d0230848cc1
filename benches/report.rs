//! A Report from request bytes to response bytes, without a network: each bag is counted by 4 Prometheus metrics of 17 dimensions.
//!
//! Input: 16 distinct reports of 1 or 25 bags of 34 attributes, round-robin. `log`: also a JSON line per bag in a file.

#![expect(clippy::expect_used, reason = "a bench that cannot set up must stop")]

#[path = "support/attributes.rs"]
mod attributes;
#[path = "support/engine.rs"]
mod engine;
#[path = "support/reports.rs"]
mod reports;

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

use engine::{Engine, File, answered, testdata};

/// Distinct requests.
const VARIETY: usize = 16;

fn bench(c: &mut Criterion, name: &str, files: &[File], bags: usize) {
    let engine = Engine::start(files, false);
    let bodies: Vec<Bytes> = (0..VARIETY).map(|number| reports::report(number, bags).into()).collect();
    for body in &bodies {
        assert_eq!(answered(engine.service.report(body.clone(), None)).len(), 5, "an empty message");
    }
    let mut turn = bodies.iter().cycle();
    let mut group = c.benchmark_group("report");
    group.throughput(Throughput::Elements(bags as u64));
    group.bench_function(name, |b| {
        b.iter(|| {
            let body = turn.next().cloned().unwrap_or_default();
            black_box(answered(engine.service.report(body, None)))
        });
    });
    group.finish();
}

fn report(c: &mut Criterion) {
    let metrics = testdata(&["config/attributes.yaml", "config/metrics-http.yaml"]);
    bench(c, "1 bag", &metrics, 1);
    bench(c, "25 bags", &metrics, 25);
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("access.log");
    let mut logged = metrics;
    logged.extend(testdata(&["bench/access-log.yaml"]));
    for (_, text) in &mut logged {
        *text = text.replace("@LOG@", &log.to_string_lossy());
    }
    bench(c, "25 bags, log", &logged, 25);
}

criterion_group!(benches, report);
criterion_main!(benches);
