//! Messages of very many empty records.

use crate::scene::{Attacker, Scene};
use crate::support::rpc::{Client, REPORT};

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
    let outcome = scene.attack("empty records", callers(&scene.server.address(), 2, REPORT, &body));
    // Four times the message for each caller, and what it takes to receive it.
    outcome.assert_within(16);
    scene.end();
}

#[test]
fn reports_of_as_many_empty_records_as_are_allowed() {
    let mut scene = Scene::start(&[]);
    let body = empty_fields(1, 20_000);
    let outcome = scene.attack("20 000 empty records", callers(&scene.server.address(), 2, REPORT, &body));
    outcome.assert_within(16);
    scene.end();
}

#[test]
fn an_access_log_of_a_quarter_of_a_million_empty_entries() {
    let mut scene = Scene::start(&[]);
    let outcome = scene
        .attack("empty log entries", callers(&scene.server.address(), 2, ACCESS_LOG, &access_log(250_000)));
    outcome.assert_within(16);
    scene.end();
}

#[test]
fn the_largest_access_log_of_empty_entries() {
    let mut scene = Scene::start(&[]);
    let body = access_log(4_000_000);
    let outcome =
        scene.attack("8 MB of empty log entries", callers(&scene.server.address(), 2, ACCESS_LOG, &body));
    outcome.assert_within(96);
    scene.end();
}
