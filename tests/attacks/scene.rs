//! A server under attack, and a client beside the attackers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::figures::{self, Figures, Round};
use crate::support::cores::{self, Cores};
use crate::support::good_client::{self, Served};
use crate::support::policy::POLICY;
pub(crate) use crate::support::policy::{attributes, check};
use crate::support::rpc::{Client, mixer};
use crate::support::{DEADLINE, POLL_INTERVAL, Server, wait_for};

/// Address space of the server in KiB.
const ADDRESS_SPACE: &str = "1048576";

/// How long an attacker may need for its first round.
const ROUND: Duration = Duration::from_secs(60);

/// How long the server may go on with what an attack left.
const SETTLES: Duration = Duration::from_secs(20);
/// Whether it still does is seen over this time, in which an idle server takes less than [`IDLE_TICKS`] of CPU time.
const WINDOW: Duration = Duration::from_millis(300);
/// A tick is 10 ms.
const IDLE_TICKS: u64 = 2;

/// What is attacked beside [`POLICY`]: `wordy` is denied with a long text, Envoy's services are on.
const ATTACKED: &str = r#"
---
apiVersion: config.istio.io/v1alpha2
kind: envoybridge
metadata: {name: default, namespace: istio-system}
spec: {}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: explain, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7, message: LONG}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: wordy, namespace: istio-system}
spec: {match: source.user == "wordy", actions: [{handler: explain, instances: [caller]}]}
"#;

/// The attacks take turns: they measure a server under load.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One attacker: a round of its attack, repeated.
pub(crate) type Attacker = Box<dyn FnMut() -> Result<(), String> + Send>;

/// A server and its configuration directory.
pub(crate) struct Scene {
    _alone: MutexGuard<'static, ()>,
    directory: TempDir,
    pub(crate) server: Server,
}

/// What an attack did.
pub(crate) struct Outcome {
    /// Calls of the good client while the attack ran.
    calls: usize,
    /// Wrong or missing answers of the good client.
    failures: Vec<String>,
    /// Most resident memory in MiB beyond that before the attack.
    pub(crate) growth: u64,
    /// What attackers complained of in their last rounds.
    complaints: Vec<String>,
}

impl Scene {
    /// Starts a server with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_limited(&format!("ulimit -v {ADDRESS_SPACE}"), arguments)
    }

    /// Starts a server with these arguments behind a shell command that sets limits.
    pub(crate) fn start_limited(limits: &str, arguments: &[&str]) -> Self {
        let alone = alone();
        let directory = tempfile::tempdir().expect("a directory");
        let configuration = POLICY.to_owned() + &ATTACKED.replace("LONG", &"no ".repeat(200));
        std::fs::write(directory.path().join("policy.yaml"), configuration).expect("it is writable");
        let cores = Cores::split(figures::is_measured());
        let launcher = format!("{limits}; exec {} \"$@\"", cores.of_server());
        let launcher = ["-c", &launcher, "sh"].map(str::to_owned);
        let server = Server::on(directory.path())
            .with(arguments)
            .env("RUST_BACKTRACE", "0")
            .through(Path::new("/bin/sh"), &launcher)
            .start();
        Self { _alone: alone, directory, server }
    }

    /// Adds configuration, and waits until it serves.
    pub(crate) fn configure(&self, text: &str) {
        // A rule of its own shows that the file serves.
        let shown = "---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {name: configured, namespace: istio-system}\n\
                     spec: {match: source.user == \"configured\", actions: [{handler: refuse, instances: [caller]}]}\n";
        std::fs::write(self.file("more.yaml"), format!("{text}{shown}")).expect("it is writable");
        let mut client = Client::new(&self.server.address()).expect("a client");
        let serves = || (code(&client.check(&check("configured"), None)) == Ok(7)).then_some(());
        wait_for(DEADLINE, serves).expect("the configuration serves");
    }

    /// A path in the configuration directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the good client alone and beside the attackers, in turns if it is measured, and prints what it met. Each turn begins with
    /// new attackers.
    pub(crate) fn attack(&mut self, name: &'static str, attackers: &dyn Fn() -> Vec<Attacker>) -> Outcome {
        let (length, turns) = (figures::length(), figures::turns());
        let mut rounds = Vec::new();
        let mut outcome = Outcome { calls: 0, failures: Vec::new(), growth: 0, complaints: Vec::new() };
        let mut before = None;
        for _ in 0..turns {
            if turns > 1 {
                self.settle();
            }
            let quiet = good_client::serve(&self.server, length, || true);
            if before.is_none() {
                before = Some(self.server.holdings().resident_kib);
                self.server.forget_peak();
            }
            let (attacked, made, ends) = self.one_attack(length, attackers());
            rounds.push(Round::of(&quiet, &attacked, made));
            outcome.calls += attacked.calls();
            outcome.failures.extend([quiet.failures, attacked.failures].concat());
            outcome.complaints.extend(ends.into_iter().filter_map(Result::err));
        }
        assert!(self.server.is_alive(), "{name}: the server is gone\n{}", self.log_end());
        let peak = self.server.peak_kib();
        outcome.growth = peak.saturating_sub(before.unwrap_or(0)) / 1024;
        let descriptors = self.server.holdings().descriptors;
        let complaint = outcome.complaints.first().map(String::as_str);
        Figures { name, rounds, peak: peak / 1024, growth: outcome.growth, descriptors }.report(complaint);
        outcome
    }

    /// Runs the good client beside the attackers: what it met, the rounds that they made, and how their last ones ended.
    fn one_attack(
        &self,
        length: Duration,
        attackers: Vec<Attacker>,
    ) -> (Served, u64, Vec<Result<(), String>>) {
        let stop = Arc::new(AtomicBool::new(false));
        let rounds: Vec<Arc<AtomicU64>> = attackers.iter().map(|_| Arc::default()).collect();
        let threads: Vec<_> = attackers
            .into_iter()
            .zip(&rounds)
            .map(|(mut attacker, rounds)| {
                let (stop, rounds) = (Arc::clone(&stop), Arc::clone(rounds));
                std::thread::spawn(move || {
                    if figures::is_measured() {
                        cores::yield_to_others();
                    }
                    let mut last = Ok(());
                    while !stop.load(Ordering::Relaxed) {
                        last = attacker();
                        rounds.fetch_add(1, Ordering::Relaxed);
                    }
                    last
                })
            })
            .collect();
        let began = Instant::now();
        let served = good_client::serve(&self.server, length, || {
            let made = rounds.iter().all(|made| made.load(Ordering::Relaxed) > 0);
            let is_over = made || began.elapsed() > ROUND;
            // What the good client still waits for is answered without further attacks.
            stop.store(is_over, Ordering::Relaxed);
            is_over
        });
        stop.store(true, Ordering::Relaxed);
        let made: u64 = rounds.iter().map(|made| made.load(Ordering::Relaxed)).sum();
        let ends = threads.into_iter().map(|thread| thread.join().expect("no attacker panics"));
        (served, made, ends.collect())
    }

    /// Waits until the server has nothing left to do.
    fn settle(&self) {
        let mut last = (Instant::now(), self.cpu_ticks());
        let idle = wait_for(SETTLES, || {
            if last.0.elapsed() < WINDOW {
                return None;
            }
            let before = std::mem::replace(&mut last, (Instant::now(), self.cpu_ticks()));
            (last.1.saturating_sub(before.1) < IDLE_TICKS).then_some(())
        });
        if idle.is_none() {
            println!("the server is busy {SETTLES:?} after the attack, looked at every {POLL_INTERVAL:?}");
        }
    }

    /// The CPU time of the server in ticks.
    fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.server.id())).unwrap_or_default();
        // The fields after the name of the program, which may have blanks: utime and stime are the 12th and 13th.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
    }

    /// The last lines of the log.
    fn log_end(&self) -> String {
        let log = self.server.log();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(5)..).unwrap_or_default().join("\n")
    }

    /// Ends the server in order.
    pub(crate) fn end(mut self) {
        assert!(self.server.is_alive(), "{}", self.log_end());
        assert_eq!(self.server.terminate(), Ok(Some(0)), "{}", self.log_end());
    }
}

impl Outcome {
    /// Asserts that the last round of every attacker went as it should.
    #[track_caller]
    pub(crate) fn assert_attackers_succeeded(&self) {
        assert!(self.complaints.is_empty(), "{:?}", self.complaints);
    }

    /// Asserts that every good call was answered right, and that memory stayed within `bound` MiB.
    #[track_caller]
    pub(crate) fn assert_within(&self, bound: u64) {
        assert!(self.failures.is_empty(), "{} failures: {:?}", self.failures.len(), self.failures.first());
        assert!(self.calls > 0, "the good client was not served");
        assert!(self.growth <= bound, "memory grew by {} MiB, the bound is {bound}", self.growth);
    }
}

/// The code of an answer. Errors: the text of a failed call.
pub(crate) fn code(answer: &Result<mixer::CheckResponse, tonic::Status>) -> Result<i32, String> {
    let answer = answer.as_ref().map_err(ToString::to_string)?;
    let status = answer.precondition.as_ref().and_then(|precondition| precondition.status.as_ref());
    Ok(status.map_or(0, |status| status.code))
}
