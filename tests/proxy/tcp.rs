//! The network filter: checks at the first bytes, reports at the opening, periodically, and at the end.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::fixture::Setup;
use crate::scripted::{Bag, Scripted, answer};
use crate::support::DEADLINE;

/// Connects and reads the greeting of the host, which is not held back.
fn connect(port: u16) -> TcpStream {
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut greeting = [0; 5];
    client.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"hello");
    client
}

fn events(reports: &[Bag]) -> Vec<(&str, &str, &str, &str, &str)> {
    let of = |bag: &'_ Bag, name: &str| bag.get(name).map_or("", String::as_str).to_owned().leak() as &str;
    let row = |bag| {
        (
            of(bag, "connection.event"),
            of(bag, "connection.received.bytes"),
            of(bag, "connection.received.bytes_total"),
            of(bag, "connection.sent.bytes"),
            of(bag, "connection.sent.bytes_total"),
        )
    };
    reports.iter().map(row).collect()
}

#[test]
fn a_connection_is_checked_at_its_first_bytes_and_reported_until_its_end() {
    let mixer = Scripted::start(|_, _, _| Ok(answer(0, "", 60, -1)));
    let filter = "report_interval: 1s, mixer_attributes: {attributes: {destination.port: {int64_value: 7}}}";
    let proxy = Setup { filter, ..Setup::to(mixer.address) }.tcp();
    let mut client = connect(proxy.port);
    assert_eq!(mixer.checks(), 0, "nothing was received yet");
    let opened = Instant::now();
    client.write_all(b"12345678").unwrap();
    let mut echo = [0; 8];
    client.read_exact(&mut echo).unwrap();
    assert_eq!(&echo, b"12345678");
    let check = mixer.received.lock().unwrap().checks[0].0.clone();
    let id = check["connection.id"].clone();
    assert!(id.len() > 37 && id.ends_with("-0"), "{id}");
    let expected: Vec<(&str, &str)> = vec![
        ("connection.mtls", "false"),
        ("context.protocol", "tcp"),
        ("context.reporter.uid", "POD11"),
        ("context.time", "T"),
        ("destination.namespace", "XYZ11"),
        ("destination.port", "7"),
        ("destination.uid", "POD11"),
        ("origin.ip", "[127, 0, 0, 1]"),
        ("source.ip", "[127, 0, 0, 1]"),
    ];
    let without_id = check.iter().filter(|(name, _)| *name != "connection.id");
    assert_eq!(without_id.map(|(name, value)| (name.as_str(), value.as_str())).collect::<Vec<_>>(), expected);
    let reports = mixer.reports(2);
    assert!(opened.elapsed() >= Duration::from_millis(950), "the second one after a second");
    // The first periodic report repeats what the opening said, as with Istio.
    assert_eq!(events(&reports), [("open", "8", "8", "5", "5"), ("continue", "8", "8", "13", "13")]);
    client.write_all(b"9").unwrap();
    client.read_exact(&mut echo[..1]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut echo).unwrap(), 0);
    let close = mixer.report_of("close");
    assert_eq!(close["connection.received.bytes_total"], "9");
    assert_eq!(close["connection.sent.bytes_total"], "14");
    assert_eq!(
        (close["connection.duration"].as_str(), close["destination.ip"].as_str()),
        ("D", "[127, 0, 0, 1]")
    );
    assert_eq!(close["connection.id"], id);
    proxy.assert_identities("tcp");
}

#[test]
fn bytes_of_reports_can_be_those_since_the_report_before() {
    let mixer = Scripted::start(|_, _, _| Ok(answer(0, "", 60, -1)));
    let flags = ["--mixer-exact-tcp-deltas"];
    let proxy = Setup { filter: "report_interval: 1s", flags: &flags, ..Setup::to(mixer.address) }.tcp();
    let mut client = connect(proxy.port);
    client.write_all(b"12345678").unwrap();
    client.read_exact(&mut [0; 8]).unwrap();
    let reports = mixer.reports(2);
    assert_eq!(events(&reports), [("open", "8", "8", "5", "5"), ("continue", "0", "8", "8", "13")]);
    client.write_all(b"9").unwrap();
    client.read_exact(&mut [0]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    let close = mixer.report_of("close");
    let of = |name: &str| close[&format!("connection.{name}.bytes")].clone();
    assert_eq!((of("received"), of("sent")), ("1".to_owned(), "1".to_owned()));
}

#[test]
fn a_refused_connection_is_closed_before_the_host_sees_a_byte() {
    let mixer = Scripted::start(|number, _, _| Ok(answer([0, 16, 16][number], "no", 60, 0)));
    let proxy = Setup { filter: "disable_report_calls: false", ..Setup::to(mixer.address) }.tcp();
    let mut allowed = connect(proxy.port);
    allowed.write_all(b"x").unwrap();
    allowed.read_exact(&mut [0]).unwrap();
    drop(allowed);
    let mut refused = connect(proxy.port);
    refused.write_all(b"x").unwrap();
    let mut rest = Vec::new();
    // Closed or reset: the byte was not read by the host.
    let _ = refused.read_to_end(&mut rest);
    assert!(rest.is_empty(), "no echo: {rest:?}");
    let reports = mixer.reports(3);
    let mut seen: Vec<&str> = reports.iter().map(|report| report["connection.event"].as_str()).collect();
    seen.sort_unstable();
    assert_eq!(seen, ["close", "close", "open"]);
    let close = reports.iter().find(|report| report.contains_key("check.error_code")).unwrap();
    assert_eq!(close["check.error_message"], "UNAUTHENTICATED:no");
    assert_eq!(close["connection.event"], "close");
    let of = |name: &str| proxy.stat(&format!("tcp_mixer_filter.total_{name}"));
    assert_eq!(of("check_calls"), 2);
    assert_eq!((of("remote_check_accepts"), of("remote_check_denies"), of("report_calls")), (1, 1, 3));
    // A client that ends without a byte is checked as well, and reported once.
    let silent = connect(proxy.port);
    drop(silent);
    assert_eq!(mixer.reports(1)[0]["connection.event"], "close");
    assert_eq!(mixer.checks(), 3);
}

#[test]
fn without_an_answer_a_connection_is_closed_or_open_as_configured() {
    let dead = ([127, 0, 0, 1], crate::support::free_port()).into();
    for (policy, is_open) in [("FAIL_CLOSE", false), ("FAIL_OPEN", true)] {
        let transport = format!("{{network_fail_policy: {{policy: {policy}}}}}");
        let proxy =
            Setup { transport: &transport, filter: "disable_report_calls: true", ..Setup::to(dead) }.tcp();
        let mut client = connect(proxy.port);
        client.write_all(b"x").unwrap();
        let echoed = client.read(&mut [0; 8]).unwrap_or(0);
        assert_eq!(echoed == 1, is_open, "{policy}");
    }
}
