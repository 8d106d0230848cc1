//! Log entries that are kept on disk: an outage of the backend loses nothing, and a killed server at most what was not on disk yet.
//!
//! Backends are a server of the forward protocol, and a collector that decodes OTLP by OpenTelemetry's own definitions. Every entry has a
//! number, and the numbers that arrive are compared with those that were reported.
//!
//! `MIXER_SPILL_SECONDS` sets the length of an outage, with 20 000 entries a second.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::support::rpc::Client;
use crate::support::sending::{count, delivery, handler, records, start};
use crate::support::{Collector, Server, free_port, node_modules, python, wait_for};

/// Entries of a call.
const ENTRIES: i64 = 100;
/// The limit of what follows an outage.
const RECOVERY: Duration = Duration::from_secs(180);

/// How long and how fast.
#[derive(Debug, Clone, Copy)]
struct Length {
    /// Of the outage.
    seconds: u64,
    /// Entries a second.
    rate: u64,
}

impl Length {
    fn of_environment() -> Self {
        let seconds = std::env::var("MIXER_SPILL_SECONDS").ok().and_then(|text| text.parse().ok());
        match seconds {
            Some(seconds) => Self { seconds, rate: 20_000 },
            None => Self { seconds: 2, rate: 2000 },
        }
    }

    /// The time before an outage, and after it.
    fn quiet(self) -> Duration {
        Duration::from_secs(self.seconds) / 4
    }
}

/// Who receives entries.
#[derive(Debug, Clone, Copy)]
enum Receiver {
    Fluent,
    OtlpGrpc,
    OtlpHttp,
}

const RECEIVERS: [Receiver; 3] = [Receiver::Fluent, Receiver::OtlpGrpc, Receiver::OtlpHttp];

impl Receiver {
    /// The name of the delivery.
    fn sender(self) -> &'static str {
        match self {
            Receiver::Fluent => "fluentd sender",
            Receiver::OtlpGrpc | Receiver::OtlpHttp => "otlp log sender",
        }
    }

    /// The handler, which keeps entries in a directory.
    fn handler(self, port: u16, spill: &Path) -> String {
        let spill = spill.join("kept");
        let kept =
            format!("queueKilobytes: 16384, spillDirectory: '{}', spillMegabytes: 512", spill.display());
        let otlp = |protocol: &str| {
            let names = "semanticConventions: false";
            format!(
                "endpoint: 'http://127.0.0.1:{port}', protocol: {protocol}, compression: GZIP, {names}, {kept}"
            )
        };
        match self {
            Receiver::Fluent => {
                let batches = "pushIntervalDuration: 100ms, instanceBufferSize: 2000, acknowledge: true";
                handler(
                    "kept",
                    "entry",
                    "fluentd",
                    &format!("address: '127.0.0.1:{port}', {batches}, {kept}"),
                )
            }
            Receiver::OtlpGrpc => handler("kept", "entry", "otlp", &otlp("GRPC")),
            Receiver::OtlpHttp => handler("kept", "entry", "otlp", &otlp("HTTP_PROTOBUF")),
        }
    }

    /// Starts it on a port, where it prints the numbers that it receives.
    fn start(self, port: u16) -> Collector {
        let script = |name: &str| {
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support").join(name).display().to_string()
        };
        match self {
            Receiver::Fluent => Collector::start_on(port, Path::new("node"), |port| {
                let settings = serde_json::json!({ "port": port, "numbers": "number" }).to_string();
                vec![script("fluent_server.js"), node_modules().display().to_string(), settings]
            }),
            Receiver::OtlpGrpc | Receiver::OtlpHttp => Collector::start_on(port, &python(), |port| {
                let (own, other) = (port.to_string(), free_port().to_string());
                let [grpc, http] = match self {
                    Receiver::OtlpGrpc => [own, other],
                    _ => [other, own],
                };
                vec![script("otlp_receiver.py"), grpc, http, "numbers=number".to_owned()]
            }),
        }
    }
}

/// How often each number arrived.
fn arrivals(collectors: &[&Collector]) -> BTreeMap<i64, u32> {
    let mut arrivals = BTreeMap::new();
    for line in collectors.iter().flat_map(|of| of.printed().lines().map(str::to_owned).collect::<Vec<_>>()) {
        let printed: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        assert!(printed["error"].is_null(), "{printed}");
        let numbers = printed.as_array().or_else(|| printed["numbers"].as_array());
        for number in numbers.into_iter().flatten() {
            *arrivals.entry(number.as_i64().unwrap_or_else(|| panic!("{line}"))).or_default() += 1;
        }
    }
    arrivals
}

/// Reports entries at the rate of `length`, until told to end or a call fails.
fn report(address: &str, length: Length, answered: &AtomicI64, ends: &AtomicBool) {
    let mut client = Client::new(address).unwrap();
    let pause =
        Duration::from_secs(1) * u32::try_from(ENTRIES).unwrap() / u32::try_from(length.rate).unwrap();
    let mut due = Instant::now();
    for first in (0..).step_by(usize::try_from(ENTRIES).unwrap()) {
        if ends.load(Ordering::Relaxed) {
            return;
        }
        // The rate.
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        due += pause;
        match client.report(&records(first..first + ENTRIES, "/"), None) {
            Ok(()) => answered.store(first + ENTRIES, Ordering::Release),
            Err(_) => return,
        }
    }
}

/// What the delivery says once nothing waits.
fn at_rest(server: &Server, sender: &str) -> serde_json::Value {
    let rest = wait_for(RECOVERY, || {
        let of = delivery(server, sender);
        // The last file goes after the last entry in it.
        let waits =
            ["queued", "inFlight", "spilled", "spilledBytes"].iter().map(|key| count(&of, key)).sum::<u64>();
        (waits == 0 && of["state"] == "delivering").then_some(of)
    });
    rest.unwrap_or_else(|| panic!("{}\n{}", delivery(server, sender), server.log()))
}

#[test]
fn an_outage_of_the_backend_loses_no_entry() {
    let _alone = crate::alone();
    let length = Length::of_environment();
    for receiver in RECEIVERS {
        let (config, spill) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let port = free_port();
        let first = receiver.start(port);
        let server = start(config.path(), &receiver.handler(port, spill.path()));
        let (answered, ends) = (AtomicI64::new(0), AtomicBool::new(false));
        let (mut most, mut resident) = (0, 0);
        let expected = (0.8 * length.rate as f64 * length.seconds as f64) as i64;
        let (began, second) = std::thread::scope(|scope| {
            scope.spawn(|| report(&server.address(), length, &answered, &ends));
            std::thread::sleep(length.quiet());
            first.signal("TERM");
            let began = Instant::now();
            let is_over = |most| began.elapsed() >= Duration::from_secs(length.seconds) && most > 0;
            while !is_over(most) && began.elapsed() < RECOVERY {
                std::thread::sleep(Duration::from_millis(100));
                most = most.max(count(&delivery(&server, receiver.sender()), "spilledBytes"));
                resident = resident.max(server.holdings().resident_kib);
            }
            let (began, second) = (Instant::now(), receiver.start(port));
            std::thread::sleep(length.quiet());
            // On a busy machine the rate is reached later.
            let _ = wait_for(RECOVERY, || (answered.load(Ordering::Relaxed) >= expected).then_some(()));
            ends.store(true, Ordering::Relaxed);
            (began, second)
        });
        let settled = at_rest(&server, receiver.sender());
        let recovery = began.elapsed();
        let answered = answered.into_inner();
        let found = arrivals(&[&first, &second]);
        let twice = found.values().filter(|times| **times > 1).count();
        println!(
            "{receiver:?}, {length:?}: {answered} entries, {} lost, {twice} twice, {} MB on disk, {} MB resident, all \
             delivered {recovery:.1?} after the outage",
            answered - found.len() as i64,
            most / 1_000_000,
            resident / 1024,
        );
        assert!(answered >= expected, "{answered} entries are too few");
        assert!(most > 0, "nothing was on disk: {settled}");
        assert_eq!(count(&settled, "accepted"), answered as u64, "{settled}");
        assert_eq!(
            settled["dropped"],
            serde_json::json!({ "full": 0, "failed": 0, "closed": 0 }),
            "{settled}"
        );
        let missing = (0..answered).find(|number| !found.contains_key(number));
        assert_eq!((missing, found.len()), (None, answered as usize), "{settled}\n{}", server.log());
        // One batch was on its way when the receiver ended.
        assert!(twice <= 2000, "{twice} entries came twice");
        assert_eq!((count(&settled, "spilled"), count(&settled, "spilledBytes")), (0, 0), "{settled}");
    }
}

#[test]
fn a_killed_server_loses_at_most_what_was_not_on_disk() {
    let _alone = crate::alone();
    let length = Length::of_environment();
    for receiver in RECEIVERS {
        let (config, spill) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let port = free_port();
        let handler = receiver.handler(port, spill.path());
        let server = start(config.path(), &handler);
        let (answered, ends) = (AtomicI64::new(0), AtomicBool::new(false));
        let (on_disk, told) = std::thread::scope(|scope| {
            scope.spawn(|| report(&server.address(), length, &answered, &ends));
            std::thread::sleep(Duration::from_secs(length.seconds));
            // At least one record is on disk.
            let of = wait_for(RECOVERY, || {
                let of = delivery(&server, receiver.sender());
                (count(&of, "onDisk") > 0).then_some(of)
            });
            let of = of.unwrap_or_else(|| panic!("nothing is on disk\n{}", server.log()));
            server.signal("KILL");
            (count(&of, "onDisk"), of)
        });
        drop(server);
        let answered = answered.into_inner() as u64;
        let collector = receiver.start(port);
        let server = start(config.path(), &handler);
        // The directory is opened beside the start.
        let is_found = || (count(&delivery(&server, receiver.sender()), "recovered") > 0).then_some(());
        assert!(wait_for(RECOVERY, is_found).is_some(), "{}", server.log());
        let settled = at_rest(&server, receiver.sender());
        let found = arrivals(&[&collector]);
        let lost = answered.saturating_sub(found.len() as u64);
        println!(
            "{receiver:?}, {length:?}: killed after {answered} entries with {on_disk} on disk, {lost} lost of {} at most",
            answered - on_disk.min(answered),
        );
        assert!(count(&settled, "recovered") >= on_disk, "{told} -> {settled}");
        assert!(found.len() as u64 >= on_disk, "{} of {on_disk}: {told} -> {settled}", found.len());
        assert_eq!(count(&settled, "recovered"), found.len() as u64, "{settled}");
        assert!(found.values().all(|times| *times == 1), "an entry came twice");
        assert_eq!(
            settled["dropped"],
            serde_json::json!({ "full": 0, "failed": 0, "closed": 0 }),
            "{settled}"
        );
    }
}
