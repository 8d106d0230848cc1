//! One of three servers that share the quota of a Redis is killed (SIGKILL) while it grants from a lease: what it held counts as granted, because
//! nobody knows how much of it was. It is no more than a lease, the others get all the rest at once, and the window gives it back as any grant.
//! No window has more than the limit.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::quotas::Servers;
use crate::support::policy::attributes;
use crate::support::rpc::{Client, mixer};
use crate::support::{DEADLINE, Server};

const LIMIT: i64 = 1500;
const WINDOW: Duration = Duration::from_secs(5);
/// The longest for this window.
const LEASE: Duration = Duration::from_millis(156);
/// The step of the rolling window.
const STEP: Duration = Duration::from_millis(100);
/// Clients of a server.
const CLIENTS: usize = 4;
/// A server holds an eighth of what remains at most, besides what calls wait for.
const MOST_LOST: i64 = LIMIT / 8 + CLIENTS as i64;

/// A grant of 1, between two moments.
#[derive(Debug, Clone, Copy)]
struct Grant {
    sent: Instant,
    received: Instant,
}

/// The grants of all clients.
#[derive(Default)]
struct Grants {
    all: Mutex<Vec<Grant>>,
    calls: AtomicU64,
}

impl Grants {
    fn count(&self) -> i64 {
        i64::try_from(self.all.lock().unwrap().len()).unwrap()
    }

    /// Calls servers from several clients of each until there is enough, or its server is gone.
    fn call(&self, servers: &[Server], enough: &(dyn Fn() -> bool + Sync)) {
        let addresses: Vec<String> = servers.iter().map(Server::address).collect();
        self.call_at(&addresses, enough);
    }

    fn call_at(&self, addresses: &[String], enough: &(dyn Fn() -> bool + Sync)) {
        std::thread::scope(|scope| {
            for address in addresses.iter().flat_map(|address| std::iter::repeat_n(address, CLIENTS)) {
                scope.spawn(move || {
                    let mut client = Client::new(address).expect("a client");
                    while !enough() {
                        let call = self.calls.fetch_add(1, Ordering::Relaxed);
                        let quota = mixer::check_request::QuotaParams { amount: 1, best_effort: false };
                        let request = mixer::CheckRequest {
                            attributes: Some(attributes("ann")),
                            deduplication_id: format!("call-{call}"),
                            quotas: [("calls".to_owned(), quota)].into_iter().collect(),
                            ..Default::default()
                        };
                        let sent = Instant::now();
                        let Ok(answer) = client.check(&request, None) else { return };
                        if answer.quotas.get("calls").is_some_and(|quota| quota.granted_amount == 1) {
                            self.all.lock().unwrap().push(Grant { sent, received: Instant::now() });
                        }
                    }
                });
            }
        });
    }

    /// The most that was certainly granted within a time of this length.
    fn most_within(&self, length: Duration) -> usize {
        let mut all = self.all.lock().unwrap().clone();
        all.sort_by_key(|grant| grant.sent);
        let within = |begin: usize| {
            let end = all[begin].sent + length;
            all[begin..]
                .iter()
                .take_while(|grant| grant.sent < end)
                .filter(|grant| grant.received < end)
                .count()
        };
        (0..all.len()).map(within).max().unwrap_or(0)
    }
}

/// What Redis counts as used.
fn used(servers: &Servers) -> i64 {
    let port = servers.port.to_string();
    let key = "calls.instance.istio-system;user=ann.meta";
    let output = Command::new("redis-cli").args(["-p", &port, "HGET", key, "token"]).output();
    let output = output.expect("redis-cli is installed: `.ci/run needs` does it");
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0)
}

/// Whether the begin of the test was in one window with all that follows: on a busy machine it may not have been.
fn one_killed(algorithm: &str) -> bool {
    let window = format!(
        "validDuration: {}s, leaseDuration: {}ms, rateLimitAlgorithm: {algorithm}, bucketDuration: {}ms",
        WINDOW.as_secs(),
        LEASE.as_millis(),
        STEP.as_millis()
    );
    let mut servers = Servers::start(LIMIT, &window);
    let grants = Grants::default();
    let begun = Instant::now();
    // It is killed while its clients call.
    let dying = servers.all.remove(0);
    let address = [dying.address()];
    let is_slow = || begun.elapsed() > DEADLINE;
    let known = std::thread::scope(|scope| {
        let clients = scope.spawn(|| grants.call_at(&address, &is_slow));
        while grants.count() < LIMIT / 5 {
            assert!(!is_slow(), "{} grants", grants.count());
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(dying);
        clients.join().expect("the clients end");
        grants.count()
    });
    let killed = Instant::now();
    // What it has sent arrives.
    std::thread::sleep(Duration::from_millis(20));
    let lost = used(&servers) - known;
    assert!((0..=MOST_LOST).contains(&lost), "{lost} of {LIMIT} are lost, {known} were granted");

    // The others get the rest without waiting for the lease that is lost.
    let rest = LIMIT - lost;
    grants.call(&servers.all, &|| grants.count() >= rest || killed.elapsed() > WINDOW);
    let took = killed.elapsed();
    let is_first_window = begun.elapsed() < WINDOW;
    if is_first_window {
        assert_eq!(grants.count(), rest, "after {took:?}");
        grants.call(&servers.all, &|| killed.elapsed() > took + LEASE || begun.elapsed() > WINDOW * 9 / 10);
        if begun.elapsed() < WINDOW {
            assert_eq!(grants.count(), rest, "and no more: what is lost counts");
        }
    }

    // A window and a lease later everything is available, what was lost as well.
    std::thread::sleep(WINDOW + LEASE + STEP);
    let before = grants.count();
    let again = Instant::now();
    grants.call(&servers.all, &|| grants.count() >= before + LIMIT || again.elapsed() > DEADLINE);
    let is_in_a_window = again.elapsed() < WINDOW;
    grants.call(&servers.all, &|| again.elapsed() > WINDOW * 9 / 10);
    if is_in_a_window {
        assert_eq!(grants.count() - before, LIMIT, "in the window after");
    }
    if algorithm == "ROLLING_WINDOW" {
        let most = grants.most_within(WINDOW - STEP);
        assert!(most <= usize::try_from(LIMIT).unwrap(), "{most} within a window");
    }
    println!(
        "{algorithm}: {known} of {LIMIT} before the kill, {lost} lost, the rest {:.0} ms later",
        took.as_secs_f64() * 1e3
    );
    is_first_window && is_in_a_window && lost > 0
}

#[test]
fn a_killed_server_costs_one_lease_of_one_window() {
    let _alone = crate::alone();
    for algorithm in ["FIXED_WINDOW", "ROLLING_WINDOW"] {
        assert!((0..5).any(|_| one_killed(algorithm)), "{algorithm}: this machine is too busy to tell");
    }
}
