//! Everything at once for a while: mixed load, a change of configuration every second, handlers that hang and panic, a full disk
//! below access log and decision log, and callers that stall, reset and send garbage. No sound call may fail, the server stays ready,
//! bounds hold all the time, and nothing may pile up.
//!
//! It takes `MIXER_SOAK_SECONDS`, 60 unless given. `MIXER_SOAK_SECONDS=600 cargo test --release --test soak -- --nocapture` is the
//! long form, whose figures docs/benchmarks.md has.

#![cfg(test)]

#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/bag.rs"]
mod bag;
#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/process.rs"]
mod process;
#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/rpc.rs"]
mod rpc;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bag::{Attribute, Attributes, Words};
use process::{PATIENCE, Server, ServerArguments, http, put, wait_for};
use rpc::{Client, mixer};
use tonic::Code;

const CONFIGURATION: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: m, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    request.time: {valueType: TIMESTAMP}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: caller, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: seen, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: "1", dimensions: {user: source.user}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: line, namespace: istio-system}
spec: {compiledTemplate: logentry, params: {timestamp: request.time, variables: {user: source.user}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {user: source.user}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: refuse, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7, message: not you}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: hang, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: HANG}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: panic, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: PANIC}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: limit, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 1000000000, validDuration: 1s}]}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: count, namespace: istio-system}
spec:
  compiledAdapter: prometheus
  params: {metrics: [{name: seen_total, instanceName: seen.instance.istio-system, kind: COUNTER, labelNames: [user]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: log, namespace: istio-system}
spec: {compiledAdapter: stdio, params: {logStream: FILE, outputPath: /dev/full, outputAsJson: true}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: mallory, namespace: istio-system}
spec: {match: source.user == "mallory", actions: [{handler: refuse, instances: [caller]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: hang, namespace: istio-system}
spec: {match: source.user == "hang", actions: [{handler: hang, instances: [caller]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: panic, namespace: istio-system}
spec: {match: source.user == "panic", actions: [{handler: panic, instances: [caller, seen]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: everybody, namespace: istio-system}
spec:
  actions:
  - {handler: limit, instances: [calls]}
  - {handler: count, instances: [seen]}
  - {handler: log, instances: [line]}
"#;

/// The part that changes every second.
fn changing(round: u64) -> String {
    format!(
        "
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: changing, namespace: istio-system}}
spec: {{compiledAdapter: denier, params: {{status: {{code: 7, message: round {round}}}}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {{name: changing, namespace: istio-system}}
spec: {{match: source.user == \"changed\", actions: [{{handler: changing, instances: [caller]}}]}}
"
    )
}

fn attributes(user: &str) -> mixer::CompressedAttributes {
    let time = prost_types::Timestamp { seconds: 1_500_000_000, nanos: 0 };
    let attributes = Attributes::from([
        ("source.user".to_owned(), Attribute::Text(user.to_owned())),
        ("request.time".to_owned(), Attribute::Timestamp(time)),
    ]);
    bag::encode_alone(&attributes, Words::of_message())
}

fn check(user: &str) -> mixer::CheckRequest {
    let quota = mixer::check_request::QuotaParams { amount: 1, best_effort: false };
    mixer::CheckRequest {
        attributes: Some(attributes(user)),
        quotas: if user == "ann" { [("calls".to_owned(), quota)].into() } else { Default::default() },
        ..Default::default()
    }
}

fn report(user: &str, bags: usize) -> mixer::ReportRequest {
    mixer::ReportRequest { attributes: vec![attributes(user); bags], ..Default::default() }
}

/// Callers of all kinds, until they are told to stop.
struct Crowd {
    stop: Arc<AtomicBool>,
    /// Calls by kind.
    calls: Arc<Mutex<BTreeMap<&'static str, u64>>>,
    /// What should not have been.
    failures: Arc<Mutex<Vec<String>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn new() -> Self {
        Self { stop: Arc::default(), calls: Arc::default(), failures: Arc::default(), threads: Vec::new() }
    }

    /// Adds callers who do the same again and again with a pause, and say what went wrong.
    fn add(
        &mut self,
        kind: &'static str,
        pause: Duration,
        mut act: impl FnMut() -> Result<(), String> + Send + 'static,
    ) {
        let (stop, calls, failures) = (self.stop.clone(), self.calls.clone(), self.failures.clone());
        self.threads.push(std::thread::spawn(move || {
            let mut made = 0;
            while !stop.load(Ordering::Relaxed) {
                if let Err(failure) = act() {
                    failures.lock().expect("no caller panics").push(format!("{kind}: {failure}"));
                }
                made += 1;
                std::thread::sleep(pause);
            }
            *calls.lock().expect("no caller panics").entry(kind).or_default() += made;
        }));
    }

    fn disperse(self) -> (BTreeMap<&'static str, u64>, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("no caller panics");
        }
        let failures = self.failures.lock().expect("no caller panics").clone();
        let calls = self.calls.lock().expect("no caller panics").clone();
        (calls, failures)
    }
}

/// The code and message of a check that must be answered.
fn decided(client: &mut Client, user: &str) -> Result<(i32, String), String> {
    let answer = client.check(&check(user), None).map_err(|status| status.to_string())?;
    if user == "ann" {
        let granted = answer.quotas.get("calls").map(|quota| quota.granted_amount);
        if granted != Some(1) {
            return Err(format!("the quota grants {granted:?}"));
        }
    }
    let status = answer.precondition.unwrap_or_default().status.unwrap_or_default();
    Ok((status.code, status.message))
}

fn sound_callers(crowd: &mut Crowd, address: &str) {
    for _ in 0..2 {
        let mut client = Client::new(address).expect("a client");
        crowd.add("check", Duration::from_micros(300), move || {
            for (user, code) in [("ann", 0), ("mallory", 7), ("changed", 7)] {
                let (answered, message) = decided(&mut client, user)?;
                if answered != code {
                    return Err(format!("{user} is answered {answered} {message:?}"));
                }
            }
            Ok(())
        });
    }
    let mut client = Client::new(address).expect("a client");
    crowd.add("report", Duration::from_micros(500), move || {
        client.report(&report("ann", 10), None).map_err(|status| status.to_string())
    });
    let address = address.to_owned();
    crowd.add("check over a new connection", Duration::from_millis(20), move || {
        let mut client = Client::new(&address)?;
        match decided(&mut client, "mallory")? {
            (7, _) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

/// Bounds of what waits; far below the defaults, so that they are reached if anything piles up.
const POOL: f64 = 64.0;

/// The samples of a metric in an exposition, added up.
fn sum(exposition: &str, name: &str) -> f64 {
    let samples = exposition.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ') || rest.starts_with('{'))
    });
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Looks at the server as its operators do, and says when a bound does not hold.
fn watchers(crowd: &mut Crowd, server: &Server) {
    let url = format!("http://127.0.0.1:{}/metrics", server.monitoring);
    crowd.add("look at the bounds", Duration::from_millis(500), move || {
        let exposition = http("GET", &url, "")?.body;
        // Of the API and, all handlers together, of the adapters: the calls that hang and panic go through two.
        for (name, most) in [("mixer_pool_in_flight", 3.0 * POOL), ("mixer_pool_queued", 3.0 * POOL)] {
            let now = sum(&exposition, name);
            if now > most {
                return Err(format!("{name} is {now}"));
            }
        }
        match sum(&exposition, "mixer_pool_refused_total") {
            0.0 => Ok(()),
            refused => Err(format!("{refused} calls were refused")),
        }
    });
    let address = server.address();
    crowd.add("probe", Duration::from_millis(500), move || {
        let arguments = ["probe", "--grpc", &address, "--timeout", "10s"].map(str::to_owned);
        let finished =
            process::run(&process::programs().path("mixer"), &arguments, &[], None, None, PATIENCE)?;
        if finished.status == 0 { Ok(()) } else { Err(finished.stderr) }
    });
}

fn unlucky_callers(crowd: &mut Crowd, address: &str) {
    let mut client = Client::new(address).expect("a client");
    crowd.add("check that panics", Duration::from_millis(5), move || {
        match client.check(&check("panic"), None) {
            Err(status) if status.code() == Code::Internal => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let mut client = Client::new(address).expect("a client");
    crowd.add("report that panics", Duration::from_millis(5), move || {
        match client.report(&report("panic", 2), None) {
            Err(status) if status.code() == Code::Unknown => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    for _ in 0..3 {
        let mut client = Client::new(address).expect("a client");
        crowd.add("check that hangs", Duration::from_millis(5), move || {
            match client.check(&check("hang"), Some(Duration::from_millis(200))) {
                Err(_) => Ok(()),
                Ok(answer) => Err(format!("{answer:?}")),
            }
        });
    }
}

/// The connection preface and an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The same, with a window of no bytes for every answer.
const NO_WINDOW: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The headers of a check.
fn headers(stream: u32) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    for (name, value) in [(&[0x44][..], rpc::CHECK), (&[0x41], "mixer"), (&[0x5f], "application/grpc")] {
        block.extend_from_slice(name);
        block.push(u8::try_from(value.len()).expect("a short text"));
        block.extend_from_slice(value.as_bytes());
    }
    frame(1, 4, stream, &block)
}

fn bad_callers(crowd: &mut Crowd, address: SocketAddr) {
    let connect = move || TcpStream::connect(address).map_err(|error| error.to_string());
    // Nothing is expected in return: a write may fail once the server has hung up.
    let send = |mut stream: &TcpStream, bytes: &[u8]| drop(stream.write_all(bytes));
    crowd.add("connection that stalls", Duration::from_millis(20), move || {
        let stream = connect()?;
        send(&stream, &PREFACE[..PREFACE.len() / 2]);
        std::thread::sleep(Duration::from_millis(700));
        Ok(())
    });
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed.to_le_bytes()
    };
    crowd.add("connection with garbage", Duration::from_millis(10), move || {
        let stream = connect()?;
        let garbage: Vec<u8> = (0..64).flat_map(|_| noise()).collect();
        // One in two is garbage within HTTP/2.
        if garbage.first().is_some_and(|byte| byte % 2 == 0) {
            send(&stream, PREFACE);
        }
        send(&stream, &garbage);
        Ok(())
    });
    crowd.add("connection that is reset", Duration::from_millis(10), move || {
        let stream = connect()?;
        send(&stream, PREFACE);
        // The headers of a call, announced and never sent.
        send(&stream, b"\0\0\x40\x01\x04\0\0\0\x01");
        // Unread input and no time to linger: the connection ends with a reset.
        let socket = socket2::SockRef::from(&stream);
        socket.set_linger(Some(Duration::ZERO)).map_err(|error| error.to_string())
    });
    crowd.add("caller that does not read", Duration::from_millis(20), move || {
        let stream = connect()?;
        send(&stream, NO_WINDOW);
        // An empty message, whose answer nobody takes.
        for number in 0..50 {
            send(&stream, &[headers(2 * number + 1), frame(0, 1, 2 * number + 1, &[0; 5])].concat());
        }
        std::thread::sleep(Duration::from_millis(500));
        Ok(())
    });
    crowd.add("caller that stops in a message", Duration::from_millis(20), move || {
        let stream = connect()?;
        send(&stream, PREFACE);
        send(&stream, &[headers(1), frame(0, 0, 1, b"\0\0\0\x01\0 of 256 bytes")].concat());
        std::thread::sleep(Duration::from_millis(500));
        Ok(())
    });
    crowd.add("caller that resets its calls", Duration::from_millis(20), move || {
        let stream = connect()?;
        send(&stream, PREFACE);
        for number in 0..100 {
            let stream_id = 2 * number + 1;
            send(&stream, &[headers(stream_id), frame(3, 0, stream_id, &[0, 0, 0, 8])].concat());
        }
        Ok(())
    });
    let mut client = Client::new(&address.to_string()).expect("a client");
    crowd.add("call that is taken back", Duration::from_millis(3), move || {
        // Too short for an answer, most of the time.
        let _ = client.call(
            rpc::CHECK,
            prost::Message::encode_to_vec(&check("ann")),
            Some(Duration::from_micros(50)),
        );
        Ok(())
    });
    let mut client = Client::new(&address.to_string()).expect("a client");
    crowd.add("message with garbage", Duration::from_millis(3), move || {
        match client.call(rpc::CHECK, vec![0x0a, 0xff, 0xff, 0x7f], None) {
            Err(status) if status.code() == Code::Internal => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

/// Everything at once for so long; calls by kind.
fn storm(server: &Server, file: &Path, length: Duration, rounds: &AtomicU64) -> BTreeMap<&'static str, u64> {
    let mut crowd = Crowd::new();
    let address = server.address();
    sound_callers(&mut crowd, &address);
    unlucky_callers(&mut crowd, &address);
    bad_callers(&mut crowd, address.parse().expect("an address"));
    watchers(&mut crowd, server);
    let end = Instant::now() + length;
    while Instant::now() < end {
        put(file, &changing(rounds.fetch_add(1, Ordering::Relaxed) + 1));
        std::thread::sleep(Duration::from_secs(1).min(end.saturating_duration_since(Instant::now())));
    }
    let (calls, failures) = crowd.disperse();
    assert!(failures.is_empty(), "{} failures, {:?}\n{calls:?}", failures.len(), failures.first());
    calls
}

#[test]
fn nothing_fails_and_nothing_piles_up() {
    let seconds = std::env::var("MIXER_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("all.yaml"), CONFIGURATION).expect("writable");
    let file = directory.path().join("changing.yaml");
    let rounds = AtomicU64::new(0);
    put(&file, &changing(0));
    let pool = POOL.to_string();
    let mut arguments = ServerArguments::on(directory.path()).with(
        &[
            &["--numCheckCacheEntries", "10000", "--decision-log", "/dev/full"][..],
            &["--apiWorkerPoolSize", &pool, "--api-queue-length", &pool],
            &["--adapterWorkerPoolSize", &pool, "--adapter-queue-length", &pool],
        ]
        .concat(),
    );
    // Backtraces of the panics would read all debugging symbols into memory.
    arguments.environment.push(("RUST_BACKTRACE".to_owned(), "0".to_owned()));
    let mut server = Server::start(&arguments).expect("the server starts");

    // Caches and pools fill first.
    storm(&server, &file, Duration::from_secs(seconds) / 4, &rounds);
    let before = server.settled();
    let calls = storm(&server, &file, Duration::from_secs(seconds) * 3 / 4, &rounds);
    let after = server.settled();
    println!("{seconds} s, {} changes\n{calls:#?}\n{before:?}\n{after:?}", rounds.load(Ordering::Relaxed));

    for (kind, made) in &calls {
        assert!(*made >= seconds / 4, "{kind}: only {made}");
    }
    assert!(before.threads > 0 && before.descriptors > 0 && before.resident_kib > 0, "{before:?}");
    assert!(after.threads <= before.threads + 1, "threads: {before:?} -> {after:?}");
    assert!(after.descriptors <= before.descriptors + 2, "descriptors: {before:?} -> {after:?}");
    assert!(after.resident_kib <= before.resident_kib + 4 * 1024, "memory: {before:?} -> {after:?}");

    // What hung is gone, and what the full disk did not take is counted.
    for name in ["mixer_pool_in_flight", "mixer_pool_queued"] {
        let idle = wait_for(PATIENCE, || (server.metric(name) == 0.0).then_some(()));
        assert!(idle.is_some(), "{name} is {}", server.metric(name));
    }
    for name in ["mixer_stdio_lines_lost_total", "mixer_decision_log_lost_total"] {
        assert!(server.metric(name) > 0.0, "{name}\n{}", server.log());
    }

    // What is counted is what was reported, and the last change serves.
    let counted = process::http("GET", &format!("http://127.0.0.1:{}/metrics", server.metrics), "")
        .expect("the metrics are served");
    assert!(counted.body.contains("istio_seen_total{user=\"ann\"}"), "{}", counted.body);
    let last = format!("changing.istio-system:round {}", rounds.load(Ordering::Relaxed));
    let mut client = Client::new(&server.address()).expect("a client");
    let serves = wait_for(PATIENCE, || (decided(&mut client, "changed").ok()?.1 == last).then_some(()));
    assert!(serves.is_some(), "the last change does not serve\n{}", server.log());
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
}
