//! A server under attack, and a client beside the attackers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::bag::{self, Attribute, Attributes, Words};
use crate::support::policy::{DENIED, POLICY};
use crate::support::rpc::{Client, mixer};
use crate::support::{DEADLINE, Server, wait_for};

/// Address space of the server in KiB.
const ADDRESS_SPACE: &str = "1048576";

/// Seconds without and with the attack, unless `MIXER_ATTACK_SECONDS` is set.
const SECONDS: f64 = 0.5;

/// How long an attacker may need for its first round.
const ROUND: Duration = Duration::from_secs(60);

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
    calls: u64,
    /// Wrong or missing answers of the good client.
    failures: Vec<String>,
    /// Most resident memory in MiB beyond that before the attack.
    pub(crate) growth: u64,
    /// What attackers complained of in their last round.
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
        let launcher = ["-c", &format!("{limits}; exec \"$@\""), "sh"].map(str::to_owned);
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

    /// Runs the good client alone, then beside the attackers, and prints what it met.
    pub(crate) fn attack(&mut self, name: &str, attackers: Vec<Attacker>) -> Outcome {
        let seconds =
            std::env::var("MIXER_ATTACK_SECONDS").ok().and_then(|t| t.parse().ok()).unwrap_or(SECONDS);
        let length = Duration::from_secs_f64(seconds);
        let quiet = self.good_client(length, || true);
        let before = self.server.holdings().resident_kib;
        self.forget_peak();

        let stop = Arc::new(AtomicBool::new(false));
        let rounds: Vec<Arc<AtomicU64>> = attackers.iter().map(|_| Arc::default()).collect();
        let threads: Vec<_> = attackers
            .into_iter()
            .zip(&rounds)
            .map(|(mut attacker, rounds)| {
                let (stop, rounds) = (Arc::clone(&stop), Arc::clone(rounds));
                std::thread::spawn(move || {
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
        let attacked = self.good_client(length, || {
            rounds.iter().all(|made| made.load(Ordering::Relaxed) > 0) || began.elapsed() > ROUND
        });
        stop.store(true, Ordering::Relaxed);
        let made: u64 = rounds.iter().map(|made| made.load(Ordering::Relaxed)).sum();
        let ends: Vec<Result<(), String>> =
            threads.into_iter().map(|thread| thread.join().expect("no attacker panics")).collect();

        let Some(peak) = self.peak_kib() else { panic!("{name}: the server is gone\n{}", self.log_end()) };
        let growth = peak.saturating_sub(before) / 1024;
        println!(
            "{name}: p50 {:?}, attacked {:?}; p99 {:?}, attacked {:?} ({:.1}x); longest {:?}, attacked {:?}; {} calls, \
             {made} rounds in {:?}, +{growth} MiB, {} descriptors; attackers ended with {:?}",
            quiet.quantile(0.5),
            attacked.quantile(0.5),
            quiet.quantile(0.99),
            attacked.quantile(0.99),
            attacked.quantile(0.99).as_secs_f64() / quiet.quantile(0.99).as_secs_f64().max(1e-9),
            quiet.quantile(1.0),
            attacked.quantile(1.0),
            attacked.latencies.len(),
            began.elapsed(),
            self.server.holdings().descriptors,
            ends.iter().find_map(|end| end.as_ref().err()),
        );
        let calls = attacked.latencies.len() as u64;
        let failures = [quiet.failures, attacked.failures].concat();
        Outcome { calls, failures, growth, complaints: ends.into_iter().filter_map(Result::err).collect() }
    }

    /// Calls for `length` and until `done`.
    fn good_client(&self, length: Duration, done: impl Fn() -> bool) -> Served {
        let address = self.server.address();
        let mut served = Served::default();
        let mut client = Client::new(&address).expect("a client");
        // Kept open, so that no descriptor of the server becomes free for the next one.
        let mut kept = Vec::new();
        let end = Instant::now() + length;
        for number in 0_u64.. {
            if Instant::now() >= end && done() {
                break;
            }
            if number % 32 == 0 && kept.len() < 16 {
                // Connections are accepted, too.
                kept.push(std::mem::replace(&mut client, Client::new(&address).expect("a client")));
                served.call(&mut client, "connected", false);
                continue;
            }
            match number % 4 {
                0 => served.call(&mut client, DENIED, true),
                1 => served.call(&mut client, &format!("new {number}"), false),
                _ => served.call(&mut client, "ann", false),
            }
            // The rate of the calls.
            std::thread::sleep(Duration::from_millis(1));
        }
        served
    }

    /// Lets the kernel begin a new maximum of resident memory.
    fn forget_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.server.id()), "5").expect("the process is ours");
    }

    /// The last lines of the log.
    fn log_end(&self) -> String {
        let log = self.server.log();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(5)..).unwrap_or_default().join("\n")
    }

    fn peak_kib(&self) -> Option<u64> {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.server.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak?.split_whitespace().next()?.parse().ok()
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

/// What the good client met.
#[derive(Default)]
struct Served {
    latencies: Vec<Duration>,
    failures: Vec<String>,
}

impl Served {
    fn call(&mut self, client: &mut Client, user: &str, is_denied: bool) {
        let began = Instant::now();
        let answer = client.check(&check(user), None);
        self.latencies.push(began.elapsed());
        let code = code(&answer);
        if !matches!((&code, is_denied), (Ok(7), true) | (Ok(0), false)) {
            self.failures.push(format!("{user} is answered {code:?}"));
        }
    }

    fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.latencies.clone();
        sorted.sort();
        let at = (sorted.len() as f64 * share) as usize;
        sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

/// The code of an answer. Errors: the text of a failed call.
pub(crate) fn code(answer: &Result<mixer::CheckResponse, tonic::Status>) -> Result<i32, String> {
    let answer = answer.as_ref().map_err(ToString::to_string)?;
    let status = answer.precondition.as_ref().and_then(|precondition| precondition.status.as_ref());
    Ok(status.map_or(0, |status| status.code))
}

/// The attributes of a call.
pub(crate) fn attributes(user: &str) -> mixer::CompressedAttributes {
    let attributes = Attributes::from([("source.user".to_owned(), Attribute::Text(user.to_owned()))]);
    bag::encode_alone(&attributes, Words::of_message())
}

/// A check without quotas.
pub(crate) fn check(user: &str) -> mixer::CheckRequest {
    mixer::CheckRequest { attributes: Some(attributes(user)), ..Default::default() }
}
