//! Very many complete calls whose answers do not end, or that the client does not take.

use std::io::Write as _;
use std::net::TcpStream;

use prost::Message as _;

use crate::scene::{Attacker, Scene, check};
use crate::support::good_client::Frames;
use crate::support::http2::{GOAWAY, HEADERS, PREFACE_WITHOUT_WINDOW, RST_STREAM};
use crate::support::rpc::CHECK;
use crate::support::wire::{call, connect, wide_open};

pub(crate) const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
pub(crate) const HEALTH_WATCH: &str = "/grpc.health.v1.Health/Watch";
pub(crate) const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// `list_services`, the seventh field, is an empty text.
pub(crate) const LIST_SERVICES: &[u8] = &[7 << 3 | 2, 0];

/// Calls of a connection.
const CALLS: u32 = 1000;
/// Waits of 100 ms for the answer to a group of calls.
const PATIENCE: usize = 300;

/// Opens a connection with `count` calls, which are all answered or refused, and of which none is over if its answer waits.
pub(crate) fn hold_calls(
    port: u16,
    opening: &[u8],
    (path, body): (&str, &[u8]),
    count: u32,
) -> Result<TcpStream, String> {
    let socket = connect(port, opening)?;
    let mut frames = Frames::new(&socket);
    let streams: Vec<u32> = (0..count).map(|number| 2 * number + 1).collect();
    for group in streams.chunks(100) {
        let calls: Vec<u8> = group.iter().flat_map(|stream| call(*stream, path, body)).collect();
        (&socket).write_all(&calls).map_err(|error| error.to_string())?;
        let (mut unanswered, mut waited) = (group.len(), 0);
        while unanswered > 0 {
            match frames.next()? {
                // HEADERS need no window.
                Some((HEADERS | RST_STREAM, _, stream, _)) if group.contains(&stream) => unanswered -= 1,
                Some((GOAWAY, _, _, why)) => return Err(format!("GOAWAY {why:?}")),
                Some(_) => {}
                None if waited < PATIENCE => waited += 1,
                None => return Err(format!("{unanswered} calls are not answered")),
            }
        }
    }
    drop(frames);
    Ok(socket)
}

/// Attackers that hold `connections` together.
fn holders(port: u16, opening: &[u8], path: &'static str, body: &[u8], connections: usize) -> Vec<Attacker> {
    let attacker = |_| {
        let (opening, body) = (opening.to_vec(), body.to_vec());
        let mut held = Vec::new();
        let attacker = move || {
            held.clear();
            for _ in 0..connections / 2 {
                held.push(hold_calls(port, &opening, (path, &body), CALLS)?);
            }
            Ok(())
        };
        Box::new(attacker) as Attacker
    };
    (0..2).map(attacker).collect()
}

#[test]
fn watches_of_health() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let outcome = scene.attack("health watches", &|| holders(port, &wide_open(), HEALTH_WATCH, &[], 40));
    outcome.assert_within(96);
    scene.end();
}

#[test]
fn answers_of_health_without_a_window() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let attackers = || holders(port, PREFACE_WITHOUT_WINDOW, HEALTH_CHECK, &[], 80);
    let outcome = scene.attack("health checks without window", &attackers);
    outcome.assert_within(96);
    scene.end();
}

#[test]
fn answers_of_reflection_without_a_window() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let attackers = || holders(port, PREFACE_WITHOUT_WINDOW, REFLECTION, LIST_SERVICES, 20);
    let outcome = scene.attack("reflection without window", &attackers);
    // The task of a call ends after its connection: while connections follow each other quickly, two generations are there.
    outcome.assert_within(192);
    scene.end();
}

#[test]
fn answers_of_checks_without_a_window() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let body = check("somebody").encode_to_vec();
    let attackers = || holders(port, PREFACE_WITHOUT_WINDOW, CHECK, &body, 160);
    let outcome = scene.attack("checks without window", &attackers);
    outcome.assert_within(96);
    scene.end();
}
