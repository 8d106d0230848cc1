//! What the server says that it keeps for callers, compared with the memory that it takes; and everything at once.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message as _;
use prost::encoding::{encode_key, encode_varint};

use crate::scene::{Attacker, Scene, attributes};
use crate::streams::{HEALTH_CHECK, HEALTH_WATCH, LIST_SERVICES, REFLECTION, hold_calls};
use crate::support::good_client::Frames;
use crate::support::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE_WITHOUT_WINDOW, RST_STREAM, frame,
};
use crate::support::rpc::{CHECK, REPORT, mixer};
use crate::support::wire::{call, call_headers, connect, wide_open};
use crate::support::{DEADLINE, http, wait_for};

const RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const ACCESS_LOG: &str = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";

/// Memory of everything that callers can make grow, and the flag.
const MEMORY: f64 = (32 << 20) as f64;
const MEMORY_LIMIT: &str = "33554432";
/// Real memory of a share, as a multiple of what the server counts, and beyond it: fragments, arenas of workers, buffers.
const FACTOR: f64 = 2.0;
const BESIDES: f64 = (6 << 20) as f64;
const MIB: f64 = (1 << 20) as f64;

/// What is filled beside the policy of the scene.
const FILLED: &str = r#"
---
apiVersion: config.istio.io/v1alpha2
kind: ratelimit
metadata: {name: all, namespace: istio-system}
spec:
  domain: all
  descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1000}}]
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: listed, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: source.user | ""}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: listed, namespace: istio-system, annotations: {mixer.dev/on-error: lastKnown}}
spec: {compiledAdapter: listchecker, params: {overrides: [nobody], blacklist: true}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: listed, namespace: istio-system}
spec: {match: 'source.user.startsWith("known")', actions: [{handler: listed, instances: [listed]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: kept, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {user: source.user | "nobody"}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: keep, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: kept.instance.istio-system, maxAmount: 10, validDuration: 3600s}]}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: kept, namespace: istio-system}
spec: {actions: [{handler: keep, instances: [kept]}]}
"#;

/// Calls of one connection, sent in groups of which each is answered before the next one.
fn calls(port: u16, calls: impl Iterator<Item = (&'static str, Vec<u8>)>) -> Result<(), String> {
    let socket = connect(port, &wide_open())?;
    let mut frames = Frames::new(&socket);
    let mut calls = calls.peekable();
    let mut stream = 1;
    while calls.peek().is_some() {
        let mut group = Vec::new();
        let mut unanswered = 0;
        // What the sockets hold: the client does not read while it writes.
        while group.len() < 64 << 10
            && let Some((path, body)) = calls.next()
        {
            group.extend(call(stream, path, &body));
            stream += 2;
            unanswered += 1;
        }
        std::io::Write::write_all(&mut &socket, &group).map_err(|error| error.to_string())?;
        let mut waited = 0;
        while unanswered > 0 {
            match frames.next()? {
                Some((HEADERS, flags, ..)) if flags & END_STREAM != 0 => unanswered -= 1,
                Some((RST_STREAM, ..)) => unanswered -= 1,
                Some((GOAWAY, _, _, why)) => return Err(format!("GOAWAY {why:?}")),
                Some(_) => {}
                // A frame is awaited for 100 ms.
                None if waited < 200 => waited += 1,
                None => return Err(format!("{unanswered} calls are not answered")),
            }
        }
    }
    Ok(())
}

fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(number, prost::encoding::WireType::LengthDelimited, &mut out);
    encode_varint(bytes.len() as u64, &mut out);
    out.extend(bytes);
    out
}

/// A name of its own; every hundredth is long.
fn name(kind: &str, number: usize) -> String {
    let length = if number.is_multiple_of(100) { 100_000 } else { 60 };
    format!("{kind} {number} {}", "x".repeat(length))
}

/// A check of a quota for a user of its own, with an id of its own.
fn quota(number: usize) -> Vec<u8> {
    let quota = mixer::check_request::QuotaParams { amount: 1, best_effort: false };
    // A longer id is refused.
    let mut id = name("id", number);
    id.truncate(1024);
    let request = mixer::CheckRequest {
        attributes: Some(attributes(&name("quota", number))),
        deduplication_id: id,
        quotas: [("kept".to_owned(), quota)].into(),
        ..Default::default()
    };
    request.encode_to_vec()
}

fn check(kind: &str, number: usize) -> Vec<u8> {
    let attributes = Some(attributes(&name(kind, number)));
    mixer::CheckRequest { attributes, ..Default::default() }.encode_to_vec()
}

/// A report of 50 users of their own.
fn series(number: usize) -> Vec<u8> {
    let records = (0..50).map(|record| attributes(&name("series", 1 + 100 * number + record))).collect();
    mixer::ReportRequest { attributes: records, ..Default::default() }.encode_to_vec()
}

/// A call with 50 descriptors of their own.
fn windows(number: usize) -> Vec<u8> {
    let descriptor = |user: &str| {
        let entry = [field(1, b"user"), field(2, user.as_bytes())].concat();
        field(2, &field(1, &entry))
    };
    let descriptors = (0..50).flat_map(|user| descriptor(&name("window", 50 * number + user)));
    field(1, b"all").into_iter().chain(descriptors).collect()
}

/// A message of 200 open TCP connections.
fn connections(number: usize) -> Vec<u8> {
    let entry = |connection: usize| {
        let mut common = field(26, name("connection", 1000 * number + 1 + connection % 99).as_bytes());
        common = [common, vec![33 << 3 & 0x7f | 0x80, 2, 2]].concat();
        field(1, &[field(1, &common), field(3, &[8, 5, 16, 7])].concat())
    };
    field(3, &(0..99).flat_map(entry).collect::<Vec<u8>>())
}

/// Connections whose header blocks do not end.
fn header_blocks(port: u16, count: usize) -> Result<Vec<TcpStream>, String> {
    let mut bytes = [wide_open(), frame(HEADERS, 0, 1, &[0x83, 0x86])].concat();
    (0..6).for_each(|_| bytes.extend(frame(CONTINUATION, 0, 1, &[0; 16_000])));
    (0..count).map(|_| connect(port, &bytes)).collect()
}

/// Connections with calls whose bodies do not end.
fn bodies(port: u16, count: usize) -> Result<Vec<TcpStream>, String> {
    let mut bytes = wide_open();
    for stream in [1, 3] {
        bytes.extend(call_headers(stream, CHECK, &[]));
        bytes.extend(frame(DATA, 0, stream, &[0, 0, 1, 0, 0]));
        (0..2).for_each(|_| bytes.extend(frame(DATA, 0, stream, &[0x0a; 15_000])));
    }
    (0..count).map(|_| connect(port, &bytes)).collect()
}

/// Connections with frames that do not end and as much as fits in the tables for header fields.
fn unfinished_frames(port: u16, count: usize) -> Result<Vec<TcpStream>, String> {
    let fields = (0..100_u8).flat_map(|n| [0x40, 1, b'x', 1, b'a' + n % 26]);
    let block: Vec<u8> = [0x83, 0x86].into_iter().chain(fields).collect();
    let mut bytes =
        [wide_open(), call_headers(1, CHECK, &[]), frame(HEADERS, END_HEADERS, 3, &block)].concat();
    bytes.extend(&frame(DATA, 0, 1, &[0; 16_000])[..15_900]);
    (0..count).map(|_| connect(port, &bytes)).collect()
}

/// What the server counts, by share, and its private memory after free memory went back.
struct Memory {
    counted: BTreeMap<String, f64>,
    private: f64,
}

impl Memory {
    fn of(scene: &Scene) -> Self {
        scene.server.return_memory();
        let page = http("GET", &scene.server.monitoring_url("/metrics"), "").expect("metrics").body;
        let sample = |line: &str| {
            let (share, value) =
                line.strip_prefix("mixer_memory_in_use_bytes{share=\"")?.split_once("\"} ")?;
            Some((share.to_owned(), value.parse::<f64>().ok()?))
        };
        let mut counted: BTreeMap<String, f64> = BTreeMap::new();
        for (share, value) in page.lines().filter_map(sample) {
            *counted.entry(share).or_default() += value;
        }
        let path = format!("/proc/{}/smaps_rollup", scene.server.id());
        let rollup = std::fs::read_to_string(path).expect("the process is ours");
        let private = rollup.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
        let private = private.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        Self { counted, private: private.expect("a number") * 1024.0 }
    }

    fn all(&self) -> f64 {
        self.counted.values().sum()
    }
}

/// What a server counts and takes between two looks.
struct Comparison {
    before: Memory,
    wrong: Vec<String>,
}

impl Comparison {
    fn begin(scene: &Scene) -> Self {
        Self { before: Memory::of(scene), wrong: Vec::new() }
    }

    /// Since the last look at least `least` bytes were counted, and no more was taken than they allow.
    fn compare(&mut self, what: &str, least: f64, scene: &Scene) {
        let after = Memory::of(scene);
        let (counted, real) = (after.all() - self.before.all(), after.private - self.before.private);
        println!("{what}: {:.0} KiB counted, {:.0} KiB real", counted / 1024.0, real / 1024.0);
        if real > FACTOR * counted + BESIDES || counted < least {
            self.wrong.push(format!("{what}: {counted} bytes counted, {real} real; {:?}", after.counted));
        }
        self.before = after;
    }

    #[track_caller]
    fn end(self) {
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
    }
}

#[test]
fn every_share_takes_what_it_counts() {
    let scene = Scene::start(&["--memory-limit", MEMORY_LIMIT, "--numCheckCacheEntries", "100000"]);
    scene.configure(FILLED);
    let port = scene.server.ports.api;
    let mut held: Vec<TcpStream> = Vec::new();
    // Logs and first calls take what they take.
    calls(port, [(CHECK, quota(0)), (CHECK, check("known", 0)), (RATE_LIMIT, windows(0))].into_iter())
        .expect("it is served");
    let start = Memory::of(&scene);
    let mut comparison = Comparison::begin(&scene);
    let mut compare = |what: &str, least: f64, scene: &Scene| comparison.compare(what, least, scene);
    calls(port, (0..4_000).map(|number| (CHECK, check("new", number)))).expect("answers");
    compare("check cache", 0.25 * MIB, &scene);
    calls(port, (0..8_000).map(|number| (CHECK, quota(number)))).expect("answers");
    compare("quota cells and deduplication", 1.5 * MIB, &scene);
    calls(port, (0..2_000).map(|number| (CHECK, check("known", number)))).expect("answers");
    compare("last-known answers", 0.25 * MIB, &scene);
    calls(port, (0..200).map(|number| (REPORT, series(number)))).expect("answers");
    compare("series", 2.0 * MIB, &scene);
    calls(port, (0..200).map(|number| (RATE_LIMIT, windows(number)))).expect("answers");
    compare("rate-limit windows", 1.0 * MIB, &scene);
    // The counts live as long as their stream.
    let mut stream = [wide_open(), call_headers(1, ACCESS_LOG, &[])].concat();
    for number in 0..40 {
        let message = crate::support::wire::message(&connections(number));
        message.chunks(16 << 10).for_each(|piece| stream.extend(frame(DATA, 0, 1, piece)));
    }
    held.push(connect(port, &stream).expect("a connection"));
    let counted = || (Memory::of(&scene).counted.get("access-logs")? > &(0.5 * MIB)).then_some(());
    wait_for(DEADLINE, counted).expect("TCP connections are counted");
    compare("TCP connections of access logs", 0.5 * MIB, &scene);
    let connections = |least: f64| {
        let counted = || (Memory::of(&scene).counted.get("connections")? > &least).then_some(());
        wait_for(DEADLINE, counted).is_some()
    };
    held.extend(unfinished_frames(port, 60).expect("connections"));
    compare("unfinished frames and tables", 0.0, &scene);
    // Less than the half of the share that is for all: nobody is refused.
    held.extend(header_blocks(port, 30).expect("connections"));
    assert!(connections(2.0 * MIB), "header blocks are counted: {:?}", Memory::of(&scene).counted);
    compare("unfinished header blocks", 1.5 * MIB, &scene);
    held.extend(bodies(port, 20).expect("connections"));
    assert!(connections(2.5 * MIB), "bodies are counted: {:?}", Memory::of(&scene).counted);
    compare("unfinished bodies", 0.25 * MIB, &scene);
    comparison.end();
    let end = Memory::of(&scene);
    let grown = end.private - start.private;
    assert!(end.all() <= MEMORY && grown <= MEMORY + BESIDES, "{} counted, {grown} real", end.all());
    drop(held);
    scene.end();
}

#[test]
fn calls_whose_answers_are_not_over_take_what_they_count() {
    // Each connection holds less than its part of the half that is guaranteed, so that no call is refused.
    let held = |opening: &[u8], path: &str, body: &[u8], count: u32| {
        let scene = Scene::start(&[]);
        let port = scene.server.ports.api;
        calls(port, [(CHECK, check("first", 0)), (HEALTH_CHECK, Vec::new())].into_iter()).expect("answers");
        let mut comparison = Comparison::begin(&scene);
        let open = || hold_calls(port, opening, (path, body), count).expect("a connection");
        let connections: Vec<TcpStream> = (0..20).map(|_| open()).collect();
        // Two calls of each connection, and what is left of a call, are free.
        let least = 20.0 * (f64::from(count) * 1024.0 - 24.0 * 1024.0);
        comparison.compare(path, least, &scene);
        comparison.end();
        drop(connections);
        let settled = || (*Memory::of(&scene).counted.get("connections")? < MIB).then_some(());
        wait_for(DEADLINE, settled).expect("closed connections count nothing");
        scene.end();
    };
    held(&wide_open(), HEALTH_WATCH, &[], 120);
    held(PREFACE_WITHOUT_WINDOW, HEALTH_CHECK, &[], 120);
    held(PREFACE_WITHOUT_WINDOW, REFLECTION, LIST_SERVICES, 100);
    held(PREFACE_WITHOUT_WINDOW, CHECK, &check("held", 1), 700);
}

#[test]
fn calls_whose_requests_do_not_begin_take_what_they_count() {
    const CALLS: u32 = 120;
    const CONNECTIONS: u32 = 20;
    let scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    calls(port, [(CHECK, check("first", 0)), (HEALTH_CHECK, Vec::new())].into_iter()).expect("answers");
    let mut comparison = Comparison::begin(&scene);
    let mut heads = wide_open();
    (0..CALLS).for_each(|call| heads.extend(call_headers(2 * call + 1, ACCESS_LOG, &[])));
    let connections: Vec<TcpStream> =
        (0..CONNECTIONS).map(|_| connect(port, &heads).expect("a connection")).collect();
    // A few calls of each connection are free.
    let least = f64::from(CONNECTIONS * (CALLS - 10)) * 10.0 * 1024.0;
    let counted = || (*Memory::of(&scene).counted.get("connections")? >= least).then_some(());
    let is_counted = wait_for(DEADLINE, counted).is_some();
    comparison.compare("access logs that do not begin", least, &scene);
    comparison.end();
    assert!(is_counted, "all calls are held");
    drop(connections);
    scene.end();
}

/// The attackers that fill everything, each with names that nobody used before.
fn everything(port: u16) -> Vec<Attacker> {
    let numbers = Arc::new(AtomicUsize::new(1));
    let filler = |path: &'static str, body: fn(usize) -> Vec<u8>, count: usize| {
        let numbers = Arc::clone(&numbers);
        let attacker = move || {
            let first = numbers.fetch_add(count, Ordering::Relaxed);
            calls(port, (first..first + count).map(|number| (path, body(number))))
        };
        Box::new(attacker) as Attacker
    };
    let holder = |open: fn(u16, usize) -> Result<Vec<TcpStream>, String>| {
        let mut held = Vec::new();
        let attacker = move || {
            held.clear();
            held = open(port, 50)?;
            std::thread::sleep(Duration::from_millis(100));
            Ok(())
        };
        Box::new(attacker) as Attacker
    };
    vec![
        filler(CHECK, quota, 100),
        filler(CHECK, |number| check("new", number), 100),
        filler(CHECK, |number| check("known", number), 100),
        filler(REPORT, series, 10),
        filler(RATE_LIMIT, windows, 10),
        filler(ACCESS_LOG, connections, 5),
        holder(bodies),
        holder(header_blocks),
        holder(unfinished_frames),
    ]
}

#[test]
fn everything_at_once() {
    let mut scene = Scene::start(&["--numCheckCacheEntries", "100000"]);
    scene.configure(FILLED);
    let port = scene.server.ports.api;
    let before = Memory::of(&scene);
    let outcome = scene.attack("everything at once", &|| everything(port));
    outcome.assert_within(256);
    // What stays is what the server counts.
    let settled = wait_for(DEADLINE, || {
        let after = Memory::of(&scene);
        let kept = after.private - before.private;
        (kept <= FACTOR * (after.all() - before.all()).max(0.0) + 4.0 * BESIDES).then_some(())
    });
    assert!(settled.is_some(), "memory does not go back\n{}", scene.server.log());
    scene.end();
}
