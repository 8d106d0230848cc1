//! Soak tests. Mixed load, an edit of the configuration every second, handlers that hang and panic, a full disk below access log and
//! decision log, and clients that stall, reset and send garbage, all at once: no valid call fails, the server stays ready, bounds
//! hold at all times, nothing accumulates. And many reloads, which leak nothing. And outages of backends, and killed servers, whose entries are
//! kept on disk. And servers that share quotas, one of
//! which is killed.
//!
//! `cargo test` runs the short form. `MIXER_SOAK_SECONDS`, `MIXER_RELOADS` and `MIXER_SPILL_SECONDS` set the length: `.ci/run soak` runs 60 s,
//! 150 reloads, and outages of 10 s with 20 000 entries a second;
//! `MIXER_SOAK_SECONDS=600 MIXER_RELOADS=1000 MIXER_SPILL_SECONDS=60 cargo test --release --test soak -- --nocapture` is the long form,
//! whose figures are in docs/benchmarks.md.

#![cfg(test)]

#[path = "support/support.rs"]
mod support;

#[path = "soak/callers.rs"]
mod callers;
#[path = "soak/chaos.rs"]
mod chaos;
#[path = "soak/chaos_policy.rs"]
mod chaos_policy;
#[path = "soak/configuration.rs"]
mod configuration;
#[path = "soak/killed.rs"]
mod killed;
#[path = "soak/quotas.rs"]
mod quotas;
#[path = "soak/reloads.rs"]
mod reloads;
#[path = "soak/spill.rs"]
mod spill;
#[path = "soak/witnesses.rs"]
mod witnesses;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use callers::{Crowd, POOL, decided, failing_clients, hostile_clients, monitors, probe, valid_clients};
use configuration::{FAILING, changing};
use support::rpc::Client;
use support::{DEADLINE, Server, http, put, wait_for};

/// Seconds of the short form.
const SECONDS: u64 = 4;

/// From this length on caches have filled during the warm-up, and memory must not grow.
const FULL_LENGTH: u64 = 60;

/// The tests of this binary take turns: they measure a server under load.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All clients at once for `length`: calls by kind.
fn storm(server: &Server, file: &Path, length: Duration, rounds: &AtomicU64) -> BTreeMap<&'static str, u64> {
    let mut crowd = Crowd::new();
    let address = server.address();
    valid_clients(&mut crowd, &address);
    failing_clients(&mut crowd, &address);
    hostile_clients(&mut crowd, address.parse().expect("an address"));
    monitors(&mut crowd, server);
    let end = Instant::now() + length;
    while Instant::now() < end {
        put(file, &changing(rounds.fetch_add(1, Ordering::Relaxed) + 1));
        // The rate of the edits.
        std::thread::sleep(Duration::from_secs(1).min(end.saturating_duration_since(Instant::now())));
    }
    let (calls, failures) = crowd.stop();
    assert!(failures.is_empty(), "{} failures, {:?}\n{calls:?}", failures.len(), failures.first());
    calls
}

#[test]
fn no_valid_call_fails_and_nothing_accumulates() {
    let _alone = alone();
    let seconds =
        std::env::var("MIXER_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let directory = tempfile::tempdir().expect("a directory");
    let policy = [support::policy::POLICY, FAILING].concat();
    fs::write(directory.path().join("all.yaml"), policy).expect("writable");
    let file = directory.path().join("changing.yaml");
    let rounds = AtomicU64::new(0);
    put(&file, &changing(0));
    let pool = POOL.to_string();
    let arguments = Server::on(directory.path()).with(
        &[
            &["--numCheckCacheEntries", "10000", "--decision-log", "/dev/full"][..],
            &["--apiWorkerPoolSize", &pool, "--api-queue-length", &pool],
            &["--adapterWorkerPoolSize", &pool, "--adapter-queue-length", &pool],
        ]
        .concat(),
    );
    // Backtraces of the panics would load all debug symbols into memory.
    let mut server = arguments.env("RUST_BACKTRACE", "0").start();
    let is_ready = || probe(&server.address()).ok();
    support::wait_for(support::DEADLINE, is_ready).expect("it is ready, and stays so");

    // Warm-up: caches and pools fill.
    storm(&server, &file, Duration::from_secs(seconds) / 4, &rounds);
    let before = server.stable_holdings();
    let calls = storm(&server, &file, Duration::from_secs(seconds) * 3 / 4, &rounds);
    let after = server.holdings_within(before.threads + 1, before.descriptors + 2);
    println!("{seconds} s, {} changes\n{calls:#?}\n{before:?}\n{after:?}", rounds.load(Ordering::Relaxed));

    for (kind, made) in &calls {
        assert!(*made >= seconds / 4, "{kind}: only {made}");
    }
    assert!(before.threads > 0 && before.descriptors > 0 && before.resident_kib > 0, "{before:?}");
    assert!(after.threads <= before.threads + 1, "threads: {before:?} -> {after:?}");
    assert!(after.descriptors <= before.descriptors + 2, "descriptors: {before:?} -> {after:?}");
    let growth = if seconds >= FULL_LENGTH { 4 * 1024 } else { 16 * 1024 };
    assert!(after.resident_kib <= before.resident_kib + growth, "memory: {before:?} -> {after:?}");

    // Calls that hung have ended, and the lines that the full disk refused are counted.
    for name in ["mixer_pool_in_flight", "mixer_pool_queued"] {
        let idle = wait_for(DEADLINE, || (server.metric(name) == 0.0).then_some(()));
        assert!(idle.is_some(), "{name} is {}", server.metric(name));
    }
    for name in ["mixer_stdio_lines_lost_total", "mixer_decision_log_lost_total"] {
        assert!(server.metric(name) > 0.0, "{name}\n{}", server.log());
    }

    // Reports are counted, and the last edit serves.
    let counted = http("GET", &format!("http://127.0.0.1:{}/metrics", server.ports.metrics), "")
        .expect("the metrics are served");
    assert!(counted.body.contains("istio_seen_total{user=\"ann\"}"), "{}", counted.body);
    let last = format!("changing.istio-system:round {}", rounds.load(Ordering::Relaxed));
    let mut client = Client::new(&server.address()).expect("a client");
    let serves = wait_for(DEADLINE, || (decided(&mut client, "changed").ok()?.1 == last).then_some(()));
    assert!(serves.is_some(), "the last edit does not serve\n{}", server.log());
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
}
