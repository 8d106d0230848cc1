//! A look-up in the decision cache of a client: 64 requests of 31 attributes, answers of six shapes that depend on five attributes each, and
//! one request that is not there.

#![expect(clippy::expect_used, reason = "a bench that cannot set up must stop")]

#[path = "../../../../benches/support/attributes.rs"]
mod attributes;

use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use mixer_attribute::OwnedAttributes;
use mixer_client::{CacheLimits, DecisionCache, Lifetime, Verdict};
use mixer_wire::istio::mixer::v1::ReferencedAttributes;
use mixer_wire::istio::mixer::v1::referenced_attributes::AttributeMatch;

/// Distinct requests.
const VARIETY: usize = 64;
/// What every answer depends on: names, map keys, conditions.
const TESTS: [(&str, &str, i32); 5] = [
    ("destination.service", "", 2),
    ("request.headers", "clnt", 2),
    ("request.method", "", 2),
    ("request.path", "", 2),
    ("source.user", "", 1),
];

/// References of a shape: those of all, and an attribute that is absent.
fn references(shape: usize) -> ReferencedAttributes {
    let mut message = ReferencedAttributes::default();
    let absent = format!("absent.{shape}");
    for (name, key, condition) in TESTS.into_iter().chain([(absent.as_str(), "", 1)]) {
        let mut index = |word: &str| {
            message.words.push(word.as_bytes().to_vec().into());
            -i32::try_from(message.words.len()).expect("few words")
        };
        let (name, map_key) = (index(name), if key.is_empty() { 0 } else { index(key) });
        message.attribute_matches.push(AttributeMatch { name, condition, regex: String::new(), map_key });
    }
    message
}

fn cache(requests: &[OwnedAttributes], shapes: usize) -> DecisionCache<Rc<Verdict>> {
    let mut cache = DecisionCache::new(CacheLimits { entries: 10_000, bytes: 16 << 20 });
    for (number, request) in requests.iter().enumerate() {
        let lifetime = Lifetime { since: Instant::now(), expires: None, uses: None };
        let references = references(number % shapes);
        let verdict = Rc::<Verdict>::default();
        assert!(cache.insert(b"", request, &references, 222, verdict, lifetime), "it is stored");
    }
    cache
}

fn decision(c: &mut Criterion) {
    let requests: Vec<_> = (0..VARIETY).map(|n| attributes::request(n, "web.ns.svc", "ns")).collect();
    for shapes in [1, 6] {
        let mut cache = cache(&requests, shapes);
        let now = Instant::now();
        assert!(requests.iter().all(|request| cache.get(b"", request, now).is_some()), "every request hits");
        let mut turn = requests.iter().cycle();
        c.bench_function(&format!("decision/hit/{shapes}"), |b| {
            b.iter(|| black_box(cache.get(b"", turn.next().expect("it never ends"), now)));
        });
        let other = attributes::request(1_000, "web.ns.svc", "ns");
        assert!(cache.get(b"", &other, now).is_none(), "it misses");
        c.bench_function(&format!("decision/miss/{shapes}"), |b| {
            b.iter(|| black_box(cache.get(b"", &other, now)));
        });
    }
}

criterion_group!(benches, decision);
criterion_main!(benches);
