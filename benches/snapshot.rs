//! Building snapshots: from scratch, unchanged, with one edited rule, with another vocabulary.
//!
//! Input: N rules in 50 namespaces, each with its own condition, in files of 100 rules; 20 handlers, 100 instances.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use mixer_config::store::{ConfigStore, MemoryStore, StoreContents};
use mixer_engine::snapshot::{Snapshot, SnapshotBuilder, SnapshotOptions};

const MANIFEST: &str = "
kind: attributemanifest
metadata: {name: m, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    source.labels: {valueType: STRING_MAP}
    request.path: {valueType: STRING}
    destination.service: {valueType: STRING}
";

fn files(rules: usize, edited: usize) -> Vec<(String, String)> {
    let mut shared = MANIFEST.to_owned();
    for i in 0..20 {
        let _ = write!(
            shared,
            "---\nkind: handler\nmetadata: {{name: h{i}, namespace: istio-system}}\nspec:\n  compiledAdapter: denier\n  \
             params:\n    status: {{code: 7, message: no {i}}}\n"
        );
    }
    for i in 0..100 {
        let _ = write!(
            shared,
            "---\nkind: instance\nmetadata: {{name: i{i}, namespace: istio-system}}\nspec:\n  compiledTemplate: listentry\n  \
             params:\n    value: source.labels[\"l{i}\"] | request.path | \"none\"\n"
        );
    }
    let mut files = vec![("shared.yaml".to_owned(), shared)];
    for first in (0..rules).step_by(100) {
        let mut text = String::new();
        for i in first..(first + 100).min(rules) {
            let path = if i == 7 { edited } else { 0 };
            let _ = write!(
                text,
                "---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata:\n  name: rule-{i}\n  namespace: ns-{}\nspec:\n  \
                 match: destination.service == \"service-{i}.ns.svc.cluster.local\" && request.path.startsWith(\"/v{path}\")\n  \
                 actions:\n  - handler: h{}.istio-system\n    instances:\n    - i{}.istio-system\n",
                i % 50,
                i % 20,
                i % 100
            );
        }
        files.push((format!("rules-{first}.yaml"), text));
    }
    files
}

fn contents(rules: usize, edited: usize) -> Arc<StoreContents> {
    let files = files(rules, edited);
    MemoryStore::new("memory://bench", files.iter().map(|(n, t)| (n.as_str(), t.as_str()))).contents()
}

fn checked(snapshot: Arc<Snapshot>, rules: usize) -> Arc<Snapshot> {
    assert_eq!(snapshot.rules.len(), rules);
    assert!(snapshot.diagnostics.is_empty(), "{:?}", snapshot.diagnostics.first());
    snapshot
}

fn snapshot(c: &mut Criterion) {
    let builder = || SnapshotBuilder::new(SnapshotOptions::new(mixer_server::REGISTRY));
    let mut group = c.benchmark_group("snapshot");
    group.sample_size(10);
    for rules in [10, 1_000, 10_000, 100_000] {
        checked(builder().build(&contents(rules, 0)), rules);
        group.bench_function(BenchmarkId::new("read", rules), |b| {
            let files = files(rules, 0);
            b.iter(|| {
                MemoryStore::new("memory://bench", files.iter().map(|(n, t)| (n.as_str(), t.as_str())))
            });
        });
        group.bench_function(BenchmarkId::new("build", rules), |b| {
            b.iter_batched(
                || (builder(), contents(rules, 0)),
                |(mut builder, contents)| (builder.build(&contents), builder),
                BatchSize::PerIteration,
            );
        });
        group.bench_function(BenchmarkId::new("rebuild-unchanged", rules), |b| {
            let (mut builder, contents) = (builder(), contents(rules, 0));
            builder.build(&contents);
            b.iter(|| builder.build(black_box(&contents)));
        });
        group.bench_function(BenchmarkId::new("rebuild-one-rule", rules), |b| {
            let (mut builder, base) = (builder(), contents(rules, 0));
            let mut before = builder.build(&base);
            let mut edited = (*base).clone();
            let edited_rule = |path| {
                let found = contents(rules, path);
                found.resources.iter().find(|r| &*r.key.name == "rule-7").cloned()
            };
            let versions = [1, 2].into_iter().filter_map(edited_rule).collect::<Vec<_>>();
            let mut versions = versions.iter().cycle();
            b.iter(|| {
                if let Some(version) = versions.next() {
                    edited.resources.put(version.clone());
                }
                let after = builder.build(&edited);
                assert_eq!(before.rules.changes(&after.rules).len(), 1);
                before = after;
            });
        });
    }
    group.finish();
}

criterion_group!(benches, snapshot);
criterion_main!(benches);
