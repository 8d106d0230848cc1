//! A Check from request bytes to response bytes, without a network: cached, and decided by the sample configuration and by many rules.
//!
//! Input: 64 distinct requests of 31 attributes each, round-robin; some are denied. Every answer is verified once before.

#![expect(clippy::expect_used, reason = "a bench that cannot set up must stop")]

#[path = "support/attributes.rs"]
mod attributes;
#[path = "support/checks.rs"]
mod checks;
#[path = "support/engine.rs"]
mod engine;
#[path = "support/rules.rs"]
mod rules;

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};

use checks::Check;
use engine::{Engine, File, answered, testdata};

/// Distinct requests.
const VARIETY: usize = 64;

fn bench(c: &mut Criterion, name: &str, files: &[File], cache: bool, checks: &[Check]) {
    let engine = Engine::start(files, cache);
    let bodies: Vec<Bytes> = checks.iter().map(|check| Bytes::copy_from_slice(&check.body)).collect();
    for (check, body) in checks.iter().zip(&bodies) {
        let answer = answered(engine.service.check(body.clone(), None));
        // `precondition { status { code: 7` or no code at all.
        let refused = answer.windows(2).take(16).any(|bytes| bytes == [0x08, 0x07]);
        assert_eq!(refused, check.code == 7, "{answer:?}");
    }
    let mut turn = bodies.iter().cycle();
    c.bench_function(name, |b| {
        b.iter(|| {
            let body = turn.next().cloned().unwrap_or_default();
            black_box(answered(engine.service.check(body, None)))
        });
    });
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

fn check(c: &mut Criterion) {
    let checks = checks::of_sample(VARIETY);
    bench(c, "check/cached/sample", &sample(), true, &checks);
    bench(c, "check/uncached/sample", &sample(), false, &checks);
    for count in [10, 1_000, 10_000] {
        let mut files = testdata(&["config/attributes.yaml"]);
        files.extend(rules::files(count, None));
        let checks = checks::of_rules(VARIETY, count);
        bench(c, &format!("check/cached/{count}"), &files, true, &checks);
        bench(c, &format!("check/uncached/{count}"), &files, false, &checks);
    }
}

criterion_group!(benches, check);
criterion_main!(benches);
