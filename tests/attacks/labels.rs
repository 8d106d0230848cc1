//! Label values and scrapers that want more than the server should keep.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message as _;

use crate::scene::{Attacker, Scene, attributes};
use crate::support::http;
use crate::support::rpc::{Client, REPORT, mixer};
use crate::support::wire::connect;

/// A report of one record whose label is a little more than `length` bytes long.
fn report(number: usize, length: usize) -> Vec<u8> {
    let user = format!("{number} {}", "x".repeat(length));
    mixer::ReportRequest { attributes: vec![attributes(&user)], ..Default::default() }.encode_to_vec()
}

#[test]
fn new_label_values_of_a_megabyte() {
    let mut scene = Scene::start(&[]);
    let address = scene.server.address();
    // Every label is new, in every turn of the attack.
    let numbers = Arc::new(AtomicUsize::new(0));
    let attacker = |_| {
        let mut client = Client::new(&address).expect("a client");
        let numbers = Arc::clone(&numbers);
        let attacker = move || {
            let number = numbers.fetch_add(1, Ordering::Relaxed);
            client
                .call(REPORT, report(number, 1_000_000), None)
                .map(drop)
                .map_err(|status| status.to_string())
        };
        Box::new(attacker) as Attacker
    };
    let outcome = scene.attack("labels of 1 MB", &|| (0..2).map(attacker).collect());
    outcome.assert_within(64);
    let page = http("GET", &format!("http://127.0.0.1:{}/metrics", scene.server.ports.metrics), "");
    let length = page.expect("the metrics are served").body.len();
    // A label of a megabyte is cut to less than a kibibyte.
    let series = numbers.load(Ordering::Relaxed) + 100;
    assert!(length <= 1500 * series, "a page of {length} bytes for at most {series} series");
    scene.end();
}

#[test]
fn scrapers_that_do_not_read() {
    let mut scene = Scene::start(&[]);
    // A page of some megabytes.
    let mut client = Client::new(&scene.server.address()).expect("a client");
    for number in 0..100 {
        let records = (0..64).map(|record| attributes(&format!("{:0500}", number * 64 + record))).collect();
        let report = mixer::ReportRequest { attributes: records, ..Default::default() };
        client.call(REPORT, report.encode_to_vec(), None).expect("the report is taken");
    }
    let (metrics, monitoring) = (scene.server.ports.metrics, scene.server.ports.monitoring);
    let scraper = move |port| {
        let attacker = move || {
            let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
            let open = || connect(port, request);
            let scrapers: Result<Vec<TcpStream>, String> = (0..60).map(|_| open()).collect();
            let scrapers = scrapers?;
            // Time in which an unbounded server renders a page for each of them.
            std::thread::sleep(Duration::from_millis(400));
            drop(scrapers);
            Ok(())
        };
        Box::new(attacker) as Attacker
    };
    let outcome = scene.attack("unread scrapes", &|| vec![scraper(metrics), scraper(monitoring)]);
    outcome.assert_within(64);
    scene.end();
}
