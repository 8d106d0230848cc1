//! The load of an outage: reports to the handlers whose backends fail, and checks of other rules beside them.
//!
//! With `MIXER_OUTAGE_SECONDS` the latencies of the checks are figures: turns of so many seconds, the one while the backends fail and one
//! after they were mended, three of each with servers of their own, of which the medians count. As in the attacks, the server has one half of the
//! cores and everybody else the other.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::senders::count;
use crate::support::Server;
use crate::support::cores::{Cores, yield_to_others};
use crate::support::good_client;
use crate::support::policy::POLICY;
use crate::support::rpc::Client;
use crate::support::sending::{WORDS, records};

/// Seconds of a turn, unless `MIXER_OUTAGE_SECONDS` is set.
const SECONDS: f64 = 0.3;
/// Entries that are reported in a turn at least: more than queues hold.
const ENTRIES: i64 = 1000;
/// Entries of a call.
pub(crate) const OF_CALL: i64 = 50;
/// Time between two calls: 2000 entries a second.
const INTERVAL: Duration = Duration::from_millis(25);
/// Outages of each backend if they are measured.
const ROUNDS: usize = 3;

fn seconds() -> Option<f64> {
    std::env::var("MIXER_OUTAGE_SECONDS").ok().and_then(|text| text.parse().ok())
}

/// The timeout of a backend that answers at once when it works. What is not measured may share its cores with much else.
pub(crate) fn timeout() -> &'static str {
    if seconds().is_some() { "500ms" } else { "3s" }
}

/// Outages are measured one after the other.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    seconds().map(|_| TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A server whose handlers have failing backends.
pub(crate) struct Scene {
    pub(crate) server: Server,
    /// Entries reported so far, numbered from 0.
    pub(crate) reported: i64,
    /// The path of the entries of a call, by the number of its first one.
    pub(crate) path: fn(i64) -> String,
    _directory: tempfile::TempDir,
}

/// Makes calls, which it counts, until it is told to stop.
pub(crate) type Load<'l> = dyn Fn(&Scene, &AtomicI64, &AtomicBool) + Sync + 'l;

/// What a turn showed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    p50: Duration,
    p99: Duration,
    /// Most resident memory beyond that before, in KiB.
    growth: u64,
}

impl Scene {
    /// Starts a server with these handlers beside [`POLICY`].
    pub(crate) fn start(handlers: &str, environment: &[(&str, &str)]) -> Self {
        Self::start_with(handlers, environment, &[])
    }

    /// The same with flags.
    pub(crate) fn start_with(handlers: &str, environment: &[(&str, &str)], flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("config.yaml"), format!("{WORDS}{handlers}")).unwrap();
        std::fs::write(directory.path().join("policy.yaml"), POLICY).unwrap();
        let cores = Cores::split(seconds().is_some());
        let launcher = ["-c", &format!("exec {} \"$@\"", cores.of_server()), "sh"].map(str::to_owned);
        let mut builder =
            Server::on(directory.path()).native().with(flags).through(Path::new("/bin/sh"), &launcher);
        for (name, value) in environment {
            builder = builder.env(name, value);
        }
        Self { server: builder.start(), reported: 0, path: |_| "/".to_owned(), _directory: directory }
    }

    /// Reports entries, and makes checks beside it, all of which are answered right.
    pub(crate) fn turn(&mut self) -> Turn {
        self.turn_with(&Self::report)
    }

    /// The same, with another load than reports: it counts its calls until it is told to stop.
    pub(crate) fn turn_with(&mut self, load: &Load<'_>) -> Turn {
        let before = self.server.holdings().resident_kib;
        self.server.forget_peak();
        let (first, next, stop) = (self.reported, AtomicI64::new(self.reported), AtomicBool::new(false));
        let served = std::thread::scope(|scope| {
            let reporter = scope.spawn(|| load(self, &next, &stop));
            let length = Duration::from_secs_f64(seconds().unwrap_or(SECONDS));
            let enough = || next.load(Ordering::Relaxed) - first >= ENTRIES || reporter.is_finished();
            let served = good_client::serve(&self.server, length, enough);
            stop.store(true, Ordering::Relaxed);
            reporter.join().expect("every call is answered");
            served
        });
        self.reported = next.into_inner();
        let log = || self.server.log();
        assert!(served.failures.is_empty(), "{:?}\n{}", served.failures.first(), log());
        let growth = self.server.peak_kib().saturating_sub(before);
        Turn { p50: served.quantile(0.5), p99: served.quantile(0.99), growth }
    }

    fn report(&self, next: &AtomicI64, stop: &AtomicBool) {
        if seconds().is_some() {
            yield_to_others();
        }
        let mut client = Client::new(&self.server.address()).unwrap();
        let mut due = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let first = next.load(Ordering::Relaxed);
            client.report(&records(first..first + OF_CALL, &(self.path)(first)), None).unwrap();
            next.store(first + OF_CALL, Ordering::Relaxed);
            due += INTERVAL;
            // The rate.
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }

    /// What an outage showed of calls that wait for the backend: each was granted something, or nothing. The backends work again.
    pub(crate) fn round_of_calls(
        &mut self,
        outage: Turn,
        recovery: Duration,
        calls: u64,
        granted: u64,
        load: &Load<'_>,
    ) -> Round {
        let quiet = seconds().map(|_| self.turn_with(load));
        let (dropped, waiting) = (calls.saturating_sub(granted), 0);
        Round { outage, recovery, quiet, accepted: calls, delivered: granted, dropped, waiting }
    }

    /// What the outage showed, for [`measure`]; the backends work again.
    pub(crate) fn round(&mut self, outage: Turn, recovery: Duration, deliveries: &[Value]) -> Round {
        let sum = |of: &dyn Fn(&Value) -> u64| deliveries.iter().map(of).sum();
        let round = Round {
            outage,
            recovery,
            quiet: seconds().map(|_| self.turn()),
            accepted: sum(&|of| count(of, "accepted")),
            delivered: sum(&|of| count(of, "delivered")),
            dropped: sum(&|of| {
                ["full", "failed", "closed"].iter().map(|reason| count(&of["dropped"], reason)).sum()
            }),
            waiting: sum(&|of| ["queued", "inFlight", "spilled"].iter().map(|state| count(of, state)).sum()),
        };
        let known = round.delivered + round.dropped + round.waiting;
        assert_eq!(round.accepted, known, "each item is in one column: {deliveries:?}");
        round
    }
}

/// An outage, and what followed.
pub(crate) struct Round {
    outage: Turn,
    /// The same load while the backends work; absent unless it is measured.
    quiet: Option<Turn>,
    /// From the end of the outage until everything is delivered.
    recovery: Duration,
    accepted: u64,
    delivered: u64,
    dropped: u64,
    /// On their way: what is added up at an interval goes on being sent.
    waiting: u64,
}

/// Has an outage, or several if they are measured, and prints what they showed.
pub(crate) fn measure(sender: &str, outage: impl Fn() -> Round) {
    measure_all(sender, || (0..if seconds().is_some() { ROUNDS } else { 1 }).map(|_| outage()).collect());
}

/// Has outages, and prints what they showed if they are measured.
pub(crate) fn measure_all(sender: &str, outages: impl Fn() -> Vec<Round>) {
    let _alone = alone();
    let rounds = outages();
    if seconds().is_none() {
        return;
    }
    static HEADER: Once = Once::new();
    HEADER.call_once(|| println!("{HEADER_TEXT}"));
    let median = |of: &dyn Fn(&Round) -> Duration| {
        let mut all: Vec<Duration> = rounds.iter().map(of).collect();
        all.sort();
        all[all.len() / 2]
    };
    let quiet = |of: fn(&Turn) -> Duration| median(&|round| round.quiet.as_ref().map(of).unwrap_or_default());
    let outage = |of: fn(&Turn) -> Duration| median(&|round| of(&round.outage));
    let [p99_quiet, p99] = [quiet(|turn| turn.p99), outage(|turn| turn.p99)];
    let sum = |of: fn(&Round) -> u64| rounds.iter().map(of).sum::<u64>();
    println!(
        "| {sender} | {} | {} | {} | {} | {:.2} | {:.1} | {:.1} | {} | {} | {} | {} |",
        quiet(|turn| turn.p50).as_micros(),
        outage(|turn| turn.p50).as_micros(),
        p99_quiet.as_micros(),
        p99.as_micros(),
        p99.as_secs_f64() / p99_quiet.as_secs_f64().max(1e-9),
        rounds.iter().map(|round| round.outage.growth).max().unwrap_or_default() as f64 / 1024.0,
        median(&|round| round.recovery).as_secs_f64(),
        sum(|round| round.accepted),
        sum(|round| round.delivered),
        sum(|round| round.dropped),
        sum(|round| round.waiting),
    );
}

/// Times are medians, in microseconds; memory is the most that the server grew by, in MiB; recovery is in seconds.
const HEADER_TEXT: &str = "\
| sender | p50 quiet | p50 outage | p99 quiet | p99 outage | ratio | MiB | recovery | accepted | delivered | dropped | waiting |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |";
