//! Requests whose bodies never end.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use crate::scene::{Attacker, Scene};
use crate::support::http2::{self, DATA, HEADERS, frame};
use crate::support::rpc::CHECK;
use crate::support::wire::{Reading, call_headers, connect, pump, wide_open};
use crate::support::{DEADLINE, wait_for};

const ACCESS_LOG: &str = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";

/// The length of one round of an attack.
const ROUND: Duration = Duration::from_millis(300);

/// The prefix of a gRPC message of this length.
fn prefix(length: u32) -> Vec<u8> {
    [&[0], &length.to_be_bytes()[..]].concat()
}

/// 1 000 calls on a connection, of which each announces a message of `length` bytes; and the first byte of each.
fn announcements(path: &'static str, length: u32) -> [Vec<u8>; 2] {
    let (mut prefixes, mut bytes) = (wide_open(), Vec::new());
    for stream in (1..2001).step_by(2) {
        prefixes.extend(call_headers(stream, path, &[]));
        prefixes.extend(frame(DATA, 0, stream, &prefix(length)));
        bytes.extend(frame(DATA, 0, stream, &[0x0a]));
    }
    [prefixes, bytes]
}

fn announcers(port: u16, path: &'static str, length: u32) -> Vec<Attacker> {
    let attacker = |_| {
        let [prefixes, bytes] = announcements(path, length);
        let mut held: Vec<TcpStream> = Vec::new();
        let attacker = move || {
            if held.len() >= 64 {
                held.clear();
            }
            let mut stream = connect(port, &prefixes)?;
            // The prefixes are taken for themselves, and the connections of a round are open together for a while.
            std::thread::sleep(Duration::from_millis(20));
            stream.write_all(&bytes).map_err(|e| e.to_string())?;
            held.push(stream);
            Ok(())
        };
        Box::new(attacker) as Attacker
    };
    (0..2).map(attacker).collect()
}

#[test]
fn announced_messages_reserve_no_memory() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let outcome = scene.attack("announced messages", &|| announcers(port, CHECK, 1_000_000));
    outcome.assert_within(256);
    scene.end();
}

#[test]
fn announced_access_logs_reserve_no_memory() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let outcome = scene.attack("announced access logs", &|| announcers(port, ACCESS_LOG, 8_000_000));
    outcome.assert_within(256);
    scene.end();
}

#[test]
fn calls_whose_bodies_do_not_begin() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let attacker = |_| {
        let mut heads = wide_open();
        (1..2001).step_by(2).for_each(|stream| heads.extend(call_headers(stream, ACCESS_LOG, &[])));
        let mut held: Vec<TcpStream> = Vec::new();
        let attacker = move || {
            if held.len() >= 150 {
                held.clear();
            }
            held.push(connect(port, &heads)?);
            Ok(())
        };
        Box::new(attacker) as Attacker
    };
    let outcome = scene.attack("calls without bodies", &|| (0..2).map(attacker).collect());
    outcome.assert_within(256);
    scene.end();
}

/// Connections that send bodies of almost `length` bytes on 1 000 streams at once.
fn senders(port: u16, path: &'static str, length: u32) -> Vec<Attacker> {
    let attacker = |_| {
        let attacker = move || {
            let stream = connect(port, &wide_open())?;
            let mut step = 0_u32;
            let mut input = || {
                let id = 1 + 2 * (step % 1000);
                let first = step < 1000;
                step += 1;
                let mut bytes = Vec::new();
                if first {
                    bytes.extend(call_headers(id, path, &[]));
                    bytes.extend(frame(DATA, 0, id, &prefix(length)));
                }
                bytes.extend(frame(DATA, 0, id, &[0x0a; 16_000]));
                bytes
            };
            pump(&stream, &mut input, Reading::Eager, ROUND * 4)
        };
        Box::new(attacker) as Attacker
    };
    (0..3).map(attacker).collect()
}

#[test]
fn bodies_that_do_not_end() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let outcome = scene.attack("unfinished bodies", &|| senders(port, CHECK, 1_000_000));
    outcome.assert_within(256);
    scene.end();
}

#[test]
fn access_logs_that_do_not_end() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let outcome = scene.attack("unfinished access logs", &|| senders(port, ACCESS_LOG, 8_000_000));
    outcome.assert_within(256);
    scene.end();
}

#[test]
fn the_deadline_of_a_call_holds_while_its_request_is_read() {
    let scene = Scene::start(&[]);
    let mut opening = wide_open();
    opening.extend(call_headers(1, CHECK, &[("grpc-timeout", "200m")]));
    opening.extend(frame(DATA, 0, 1, &prefix(1000)));
    let mut stream = connect(scene.server.ports.api, &opening).expect("a connection");
    let mut received = Vec::new();
    let answered = wait_for(DEADLINE, || {
        use std::io::Read as _;
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).unwrap_or(0);
        received.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let frames = http2::frames(&received);
        frames.iter().any(|frame| frame.kind == HEADERS && frame.stream == 1).then_some(())
    });
    assert!(answered.is_some(), "no answer to a call past its deadline");
    scene.end();
}
