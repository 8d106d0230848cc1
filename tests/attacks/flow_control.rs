//! Clients that read slowly, and clients that change their windows over and over.

use std::time::Duration;

use prost::Message as _;

use crate::scene::{Attacker, Scene, check};
use crate::support::http2::{DATA, END_HEADERS, SETTINGS, frame};
use crate::support::rpc::CHECK;
use crate::support::wire::{Reading, call, call_headers, connect, pump, wide_open};

/// The length of one round of an attack.
const ROUND: Duration = Duration::from_millis(500);

#[test]
fn a_client_that_always_leaves_something_unread() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let body = check("wordy").encode_to_vec();
    let attacker = || {
        let body = body.clone();
        let attacker = move || {
            let stream = connect(port, &wide_open())?;
            let mut next = 1;
            let mut input = || {
                let mut bytes = Vec::new();
                for _ in 0..256 {
                    bytes.extend(call(next, CHECK, &body));
                    next += 2;
                }
                bytes
            };
            pump(&stream, &mut input, Reading::Reluctant, ROUND * 4)
        };
        Box::new(attacker) as Attacker
    };
    let outcome = scene.attack("slow readers", &|| vec![attacker(), attacker()]);
    outcome.assert_within(16);
    scene.end();
}

#[test]
fn windows_that_change_over_and_over() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let attacker = || {
        let attacker = move || {
            let mut opening = wide_open();
            for stream in (1..2047).step_by(2) {
                opening.extend(call_headers(stream, CHECK, &[]));
                opening.extend(frame(DATA, 0, stream, &[0]));
            }
            let stream = connect(port, &opening)?;
            // Every frame has as many entries as fit: 16 384 bytes of 6 each.
            let settings = |window: [u8; 4]| {
                let entry = [&[0, 4], &window[..]].concat();
                frame(SETTINGS, 0, 0, &entry.repeat(2730))
            };
            let changes = [settings([0, 0, 0, 0]), settings([0, 1, 0, 0])].concat();
            pump(&stream, &mut || changes.clone(), Reading::Eager, ROUND)
        };
        Box::new(attacker) as Attacker
    };
    let outcome = scene.attack("INITIAL_WINDOW_SIZE", &|| vec![attacker(), attacker()]);
    outcome.assert_within(64);
    scene.end();
}

#[test]
fn dynamic_tables_full_of_small_entries() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let attacker = || {
        let mut held = Vec::new();
        let attacker = move || {
            if held.len() >= 200 {
                held.clear();
            }
            // 33 bytes an entry by RFC 7541: 124 entries fill a table of 4 096 bytes.
            let mut block = vec![0x83, 0x86, 0x04, 1, b'/', 0x01, 1, b'm'];
            for number in 0..124_u8 {
                block.extend_from_slice(&[0x40, 1, b'a' + number % 26, 0]);
            }
            held.push(connect(port, &[wide_open(), frame(1, END_HEADERS, 1, &block)].concat())?);
            Ok(())
        };
        Box::new(attacker) as Attacker
    };
    let outcome = scene.attack("dynamic tables", &|| vec![attacker(), attacker()]);
    outcome.assert_within(64);
    scene.end();
}
