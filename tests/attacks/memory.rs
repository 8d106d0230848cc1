//! Memory that a burst leaves behind goes back to the system.

use std::net::TcpStream;
use std::time::Duration;

use crate::scene::{Attacker, Scene};
use crate::support::http2::{DATA, frame};
use crate::support::rpc::CHECK;
use crate::support::wire::{call_headers, connect, wide_open};
use crate::support::{http, wait_for};

/// Connections of the burst, and every how many stays open.
const CONNECTIONS: usize = 500;
const KEPT: usize = 25;
/// Calls on a connection, and what arrives of the body of each: together less than the first window of the connection.
const CALLS: u32 = 2;
const BODY: usize = 31 << 10;
/// What may stay beyond what was resident before, in bytes: the calls that stay open, and what is not worth returning (16 MiB).
const BOUND: f64 = (20 << 20) as f64;
/// The server looks every 2 s and waits until it is quiet.
const DEADLINE: Duration = Duration::from_secs(120);
/// What of a burst arrives before it ends, in bytes, and how long that may take.
const ARRIVED: f64 = (16 << 20) as f64;
const ARRIVAL: Duration = Duration::from_secs(20);
/// Interval of looks at the server, which must be quiet.
const INTERVAL: Duration = Duration::from_secs(1);

/// Calls whose bodies do not end.
fn unfinished_calls() -> Vec<u8> {
    let mut bytes = wide_open();
    for stream in (0..CALLS).map(|call| 1 + 2 * call) {
        bytes.extend(call_headers(stream, CHECK, &[]));
        bytes.extend(frame(DATA, 0, stream, &[0, 0, 1, 0, 0]));
        for piece in [0x0a; BODY].chunks(16 << 10) {
            bytes.extend(frame(DATA, 0, stream, piece));
        }
    }
    bytes
}

/// Private memory of the server with these metrics, in bytes.
fn private_of(metrics: &str) -> f64 {
    let metrics = http("GET", metrics, "").expect("metrics").body;
    let sample = "mixer_process_memory_bytes{kind=\"private\"} ";
    metrics.lines().find_map(|line| line.strip_prefix(sample)?.parse::<f64>().ok()).expect("a sample")
}

fn private(scene: &Scene) -> f64 {
    private_of(&scene.server.monitoring_url("/metrics"))
}

/// The client beside the bursts is served, and afterwards their memory goes back.
#[test]
fn bursts_beside_a_client() {
    let mut scene = Scene::start(&["--receive-timeout", "10m"]);
    let (port, calls) = (scene.server.ports.api, unfinished_calls());
    let before = private(&scene);
    let metrics = scene.server.monitoring_url("/metrics");
    let attacker = || {
        let (calls, metrics) = (calls.clone(), metrics.clone());
        let attacker = move || {
            let open: Result<Vec<TcpStream>, String> =
                (0..CONNECTIONS).map(|_| connect(port, &calls)).collect();
            // A burst that is closed at once may never be read.
            let arrives = wait_for(ARRIVAL, || (private_of(&metrics) > before + ARRIVED).then_some(()));
            open.and_then(|_| arrives.ok_or_else(|| "the burst does not arrive".to_owned()))
        };
        vec![Box::new(attacker) as Attacker]
    };
    let outcome = scene.attack("bursts of unfinished calls", &attacker);
    // Calls of a burst are dropped while the next one begins.
    outcome.assert_within(2 * ((CONNECTIONS * CALLS as usize * BODY) as u64 >> 20) + 34);
    assert!(outcome.growth >= 10, "the bursts arrive: {} MiB", outcome.growth);
    let mut now = 0.0;
    let returned = wait_for(DEADLINE, || {
        std::thread::sleep(INTERVAL);
        now = private(&scene);
        (now < before + BOUND).then_some(())
    });
    assert!(returned.is_some(), "{before} bytes before, {now} stay\n{}", scene.server.log());
    scene.end();
}

#[test]
fn memory_of_a_burst_goes_back_to_the_system() {
    let scene = Scene::start(&["--receive-timeout", "10m"]);
    let private = || private(&scene);
    let before = private();
    let calls = unfinished_calls();
    let mut open: Vec<TcpStream> =
        (0..CONNECTIONS).map(|_| connect(scene.server.ports.api, &calls).expect("it is accepted")).collect();
    let all = (CONNECTIONS * CALLS as usize * BODY) as f64;
    let held = wait_for(DEADLINE, || Some(private()).filter(|now| *now > before + all));
    let held = held.unwrap_or_else(|| panic!("the bodies do not arrive: {} of {all}", private() - before));
    // What stays open lies between what is freed.
    let mut number = 0;
    open.retain(|_| {
        number += 1;
        number % KEPT == 0
    });
    let mut now = 0.0;
    let returned = wait_for(DEADLINE, || {
        std::thread::sleep(INTERVAL);
        now = private();
        (now < before + BOUND).then_some(())
    });
    println!("memory: {before} at rest, {held} in the burst, {now} after it");
    assert!(
        returned.is_some(),
        "{before} bytes before, {held} in the burst, {now} stay\n{}",
        scene.server.log()
    );
    drop(open);
    scene.end();
}
