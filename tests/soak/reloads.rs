//! Many reloads: threads, descriptors and memory return to their level.

use std::fs;
use std::path::Path;

use crate::support::denier::{VOCABULARY, deny, until};
use crate::support::rpc::Client;
use crate::support::{DEADLINE, Server, put, wait_for};

/// Reloads of the short form.
const RELOADS: u32 = 60;
/// Reloads before the level is taken, at least.
const WARM: u32 = 30;

/// Handlers with everything that a handler can leak: tasks, files, sockets, series.
fn everything(round: u32, log: &Path) -> String {
    format!(
        "{}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: quota, namespace: istio-system}}
spec:
  compiledAdapter: memquota
  params: {{quotas: [{{name: count.instance.istio-system, maxAmount: {}, validDuration: 1s}}]}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {{name: count, namespace: istio-system}}
spec: {{compiledTemplate: quota, params: {{dimensions: {{user: source.user}}}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: log, namespace: istio-system}}
spec:
  compiledAdapter: stdio
  params: {{logStream: FILE, outputPath: {}, maxRotatedFiles: {}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {{name: line, namespace: istio-system}}
spec: {{compiledTemplate: logentry, params: {{timestamp: request.time, variables: {{user: source.user}}}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: metrics, namespace: istio-system}}
spec:
  compiledAdapter: prometheus
  params:
    metricsExpirationPolicy: {{metricsExpiryDuration: {}s}}
    metrics: [{{name: size, instanceName: size.instance.istio-system, kind: COUNTER, labelNames: [user]}}]
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {{name: size, namespace: istio-system}}
spec: {{compiledTemplate: metric, params: {{value: request.size, dimensions: {{user: source.user}}}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: list, namespace: istio-system}}
spec:
  compiledAdapter: listchecker
  params: {{providerUrl: \"http://127.0.0.1:9/list\", refreshInterval: {}s, ttl: 10000s, blacklist: true}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {{name: user, namespace: istio-system}}
spec: {{compiledTemplate: listentry, params: {{value: source.user}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {{name: all, namespace: istio-system}}
spec:
  match: source.user != \"ann\"
  actions:
  - {{handler: quota, instances: [count]}}
  - {{handler: log, instances: [line]}}
  - {{handler: metrics, instances: [size]}}
  - {{handler: list, instances: [user]}}
",
        deny(&format!("round-{round}")),
        10 + round,
        log.display(),
        10 + round,
        60 + round,
        1 + round,
    )
}

#[test]
fn many_reloads_leak_nothing() {
    let _alone = super::alone();
    let rounds: u32 =
        std::env::var("MIXER_RELOADS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(RELOADS);
    let directory = tempfile::tempdir().expect("a directory");
    let logs = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    let file = root.join("all.yaml");
    fs::write(root.join("vocabulary.yaml"), VOCABULARY).expect("writable");
    let server = Server::on(root).start();
    let mut client = Client::new(&server.address()).expect("a client");
    let reload = |client: &mut Client, round: u32| {
        put(&file, &everything(round, &logs.path().join("log")));
        until(client, &format!("round-{round}"))
    };
    // Memory grows for some 25 reloads, until it is reused, and not in the hundred after them.
    let warm = (rounds / 5).max(WARM);
    for round in 0..warm {
        reload(&mut client, round);
    }
    server.stable_holdings();
    server.return_memory();
    let before = server.stable_holdings();
    for round in warm..rounds {
        reload(&mut client, round);
    }
    assert!(before.threads > 0 && before.descriptors > 0 && before.private_kib > 0, "{before:?}");
    // What replaced handlers hold is there until they are closed. Code is not counted: the kernel keeps as much of it in memory as it likes.
    let mut after = before;
    let returned = wait_for(DEADLINE, || {
        server.return_memory();
        after = server.holdings();
        let is_within = after.threads <= before.threads + 1
            && after.descriptors <= before.descriptors + 2
            && after.private_kib <= before.private_kib + 6 * 1024;
        is_within.then_some(())
    });
    println!("{rounds} reloads: {before:?} -> {after:?}");
    assert!(returned.is_some(), "{before:?} -> {after:?}");
}
