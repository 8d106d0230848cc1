//! Half-open requests on every port, with few descriptors.

use std::net::TcpStream;
use std::time::Duration;

use crate::scene::{Attacker, Scene};
use crate::support::wire::connect;

#[test]
fn half_open_requests_do_not_take_the_api_with_them() {
    let mut scene = Scene::start_limited("ulimit -n 256", &[]);
    let ports = scene.server.ports;
    let attacker = |port: u16| {
        let mut held: Vec<TcpStream> = Vec::new();
        let attacker = move || {
            while held.len() < 150 {
                held.push(connect(port, b"GET /metrics HTTP/1.1\r\nHost: ")?);
            }
            std::thread::sleep(Duration::from_millis(5));
            Ok(())
        };
        Box::new(attacker) as Attacker
    };
    let attackers = || vec![attacker(ports.monitoring), attacker(ports.ctrlz), attacker(ports.metrics)];
    let outcome = scene.attack("half-open requests", &attackers);
    outcome.assert_within(64);
    scene.end();
}

#[test]
fn half_open_connections_to_the_api() {
    let mut scene = Scene::start_limited("ulimit -n 256", &[]);
    let port = scene.server.ports.api;
    let attacker = || {
        let mut held: Vec<TcpStream> = Vec::new();
        let attacker = move || {
            while held.len() < 60 {
                held.push(connect(port, b"PRI * HTTP/2.0\r\n")?);
            }
            std::thread::sleep(Duration::from_millis(5));
            Ok(())
        };
        Box::new(attacker) as Attacker
    };
    let outcome = scene.attack("half-open connections", &|| vec![attacker(), attacker()]);
    outcome.assert_within(64);
    scene.end();
}
