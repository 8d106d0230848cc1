//! Messages of very many empty records.

use std::fmt::Write as _;
use std::net::TcpStream;

use prost::Message as _;

use crate::scene::{Attacker, Scene, attributes};
use crate::support::rpc::{Client, REPORT, mixer};
use crate::support::wire::{call, connect, wide_open};

const ACCESS_LOG: &str = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";

/// A field of wire type 2 with this number, without content, `count` times.
fn empty_fields(number: u8, count: usize) -> Vec<u8> {
    [number << 3 | 2, 0].repeat(count)
}

/// `StreamAccessLogsMessage` with this many empty HTTP entries.
fn access_log(entries: usize) -> Vec<u8> {
    let entries = empty_fields(1, entries);
    let mut message = vec![2 << 3 | 2];
    let mut length = entries.len();
    while length >= 0x80 {
        message.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    [message, entries].concat()
}

fn callers(address: &str, count: usize, path: &'static str, body: &[u8]) -> Vec<Attacker> {
    let caller = |_| {
        let (mut client, body) = (Client::new(address).expect("a client"), body.to_vec());
        // Whether it is refused or answered does not matter.
        let attacker = move || client.call(path, body.clone(), None).map(drop).map_err(|s| s.to_string());
        Box::new(attacker) as Attacker
    };
    (0..count).map(caller).collect()
}

#[test]
fn a_report_of_half_a_million_empty_records() {
    let mut scene = Scene::start(&[]);
    let body = empty_fields(1, 520_000);
    let address = scene.server.address();
    let outcome = scene.attack("empty records", &|| callers(&address, 2, REPORT, &body));
    // Four times the message for each caller, and what it takes to receive it.
    outcome.assert_within(16);
    scene.end();
}

#[test]
fn reports_of_as_many_empty_records_as_are_allowed() {
    let mut scene = Scene::start(&[]);
    let body = empty_fields(1, 20_000);
    let address = scene.server.address();
    let outcome = scene.attack("20 000 empty records", &|| callers(&address, 2, REPORT, &body));
    outcome.assert_within(16);
    scene.end();
}

#[test]
fn an_access_log_of_a_quarter_of_a_million_empty_entries() {
    let mut scene = Scene::start(&[]);
    let (address, body) = (scene.server.address(), access_log(250_000));
    let outcome = scene.attack("empty log entries", &|| callers(&address, 2, ACCESS_LOG, &body));
    outcome.assert_within(16);
    scene.end();
}

#[test]
fn the_largest_access_log_of_empty_entries() {
    let mut scene = Scene::start(&[]);
    let body = access_log(4_000_000);
    let address = scene.server.address();
    let outcome = scene.attack("8 MB of empty log entries", &|| callers(&address, 2, ACCESS_LOG, &body));
    outcome.assert_within(96);
    scene.end();
}

/// An access log with as many entries as are allowed, which together are as long as a message may be.
#[test]
fn the_largest_access_log_that_is_accepted() {
    const ENTRIES: usize = 20_000;
    const CALLERS: usize = 2;
    let field = |number: u8, bytes: &[u8]| {
        let mut field = vec![number << 3 | 2];
        prost::encoding::encode_varint(bytes.len() as u64, &mut field);
        [field, bytes.to_vec()].concat()
    };
    // HTTPAccessLogEntry.request.path
    let entry = field(1, &field(3, &field(5, &[b'/'; 400])));
    let body = field(2, &entry.repeat(ENTRIES));
    assert!((7 << 20..8 << 20).contains(&body.len()), "{} bytes", body.len());
    let mut scene = Scene::start(&[]);
    let address = scene.server.address();
    let outcome =
        scene.attack("20 000 log entries of 400 bytes", &|| callers(&address, CALLERS, ACCESS_LOG, &body));
    // Four times the message for each caller.
    outcome.assert_within((4 * CALLERS * body.len() / (1 << 20)) as u64);
    outcome.assert_attackers_succeeded();
    let metrics =
        crate::support::http("GET", &scene.server.monitoring_url("/metrics"), "").expect("metrics").body;
    let entries = metrics.lines().filter(|line| line.starts_with("bridge_als_entries_total{"));
    let entries: f64 = entries.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
    assert!(entries >= (CALLERS * ENTRIES) as f64, "{entries} entries are reported");
    scene.end();
}

/// Report rules that apply to every record, each with a metric of ten dimensions.
fn report_rules(count: usize) -> String {
    let dimensions: Vec<String> = (0..10).map(|at| format!("d{at}: source.user | \"nobody\"")).collect();
    let labels: Vec<String> = (0..10).map(|at| format!("d{at}")).collect();
    let (dimensions, labels) = (dimensions.join(", "), labels.join(", "));
    let (mut text, mut metrics) = (String::new(), Vec::new());
    for number in 0..count {
        write!(
            text,
            "---\napiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {{name: m{number}, namespace: istio-system}}\n\
             spec: {{compiledTemplate: metric, params: {{value: \"1\", dimensions: {{{dimensions}}}}}}}\n\
             ---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: r{number}, namespace: istio-system}}\n\
             spec: {{actions: [{{handler: many, instances: [m{number}]}}]}}\n"
        )
        .expect("a string");
        metrics.push(format!(
            "{{name: m{number}, instanceName: m{number}.instance.istio-system, kind: COUNTER, labelNames: [{labels}]}}"
        ));
    }
    format!(
        "{text}---\napiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {{name: many, namespace: istio-system}}\n\
         spec: {{compiledAdapter: prometheus, params: {{metrics: [{}]}}}}\n",
        metrics.join(", ")
    )
}

#[test]
fn long_reports_with_very_many_instances() {
    let mut scene = Scene::start(&[]);
    scene.configure(&report_rules(400));
    let records = (0..1000).map(|record| attributes(&format!("{}", record % 4))).collect();
    let body = mixer::ReportRequest { attributes: records, ..Default::default() }.encode_to_vec();
    let address = scene.server.address();
    let outcome = scene.attack("1 000 records x 400 metrics", &|| callers(&address, 4, REPORT, &body));
    outcome.assert_within(32);
    outcome.assert_attackers_succeeded();
    scene.end();
}

#[test]
fn records_of_as_many_elements_as_fit() {
    let mut scene = Scene::start(&[]);
    // Values, words, and pairs of a map without content.
    let map = [0x4a, 4, 0x12, 2, 0x0a, 0].repeat(170_000);
    let bodies = [empty_fields(2, 500_000), empty_fields(1, 500_000), map];
    let address = scene.server.address();
    let attacker = |record: &Vec<u8>| {
        let mut message = vec![1 << 3 | 2];
        prost::encoding::encode_varint(record.len() as u64, &mut message);
        message.extend(record);
        callers(&address, 1, REPORT, &message)
    };
    let outcome = scene.attack("500 000 values in a record", &|| bodies.iter().flat_map(attacker).collect());
    outcome.assert_within(16);
    scene.end();
}

#[test]
fn a_thousand_long_reports_at_once() {
    let mut scene = Scene::start(&[]);
    scene.configure(&report_rules(50));
    // Each is more than a slice, and little to send.
    let body = empty_fields(1, 130);
    let mut bytes = wide_open();
    (1..301).step_by(2).for_each(|stream| bytes.extend(call(stream, REPORT, &body)));
    let port = scene.server.ports.api;
    let attacker = |_| {
        let bytes = bytes.clone();
        let mut held: Vec<TcpStream> = Vec::new();
        let attacker = move || {
            if held.len() >= 4 {
                held.clear();
            }
            held.push(connect(port, &bytes)?);
            Ok(())
        };
        Box::new(attacker) as Attacker
    };
    let outcome = scene.attack("reports of two slices", &|| (0..2).map(attacker).collect());
    outcome.assert_within(128);
    scene.end();
}
