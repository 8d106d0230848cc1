//! Adapters that send: strict receivers in the place of StatsD, DogStatsD and a server of the forward protocol.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::support::sending::delivery;
pub(crate) use crate::support::sending::{count, deliveries, handler, report, start, until};
use crate::support::{DEADLINE, http, msgpack, run_mixer, wait_for};

/// A metric of a datagram: name, value, type, and the tags. Panics if it is none.
fn metric(line: &str) -> (String, f64, String, BTreeSet<String>) {
    let (name, rest) = line.split_once(':').unwrap_or_else(|| panic!("no metric: {line:?}"));
    let mut parts = rest.split('|');
    let value: f64 =
        parts.next().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no value: {line:?}"));
    let kind = parts.next().unwrap_or_default();
    assert!(matches!(kind, "c" | "g" | "ms" | "h"), "no type: {line:?}");
    let tags = parts
        .next()
        .map(|tags| tags.strip_prefix('#').expect("tags").split(',').map(str::to_owned).collect());
    assert!(parts.next().is_none() && !name.is_empty(), "more than a metric: {line:?}");
    (name.to_owned(), value, kind.to_owned(), tags.unwrap_or_default())
}

#[test]
fn metrics_arrive_at_strict_receivers_also_those_that_wait_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let [statsd, dogstatsd] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = |socket: &UdpSocket| socket.local_addr().unwrap().to_string();
    // Nothing is sent before the end, unless there is much of it.
    let of_statsd = format!(
        "address: '{}', prefix: mesh, flushDuration: 1h, metrics: {{hits.instance.istio-system: \
         {{type: COUNTER, nameTemplate: 'hits{{{{.path}}}}'}}}}",
        address(&statsd)
    );
    let of_dogstatsd = format!(
        "address: '{}', bufferLength: 10, globalTags: {{env: lab}}, metrics: {{hits.instance.istio-system: {{type: COUNTER, name: hits}}}}",
        address(&dogstatsd)
    );
    let handlers =
        handler("statsd", "hits", "statsd", &of_statsd) + &handler("dog", "hits", "dogstatsd", &of_dogstatsd);
    let mut server = start(directory.path(), &handlers);
    report(&server, 0..100, "/a b");
    until(&server, "dogstatsd sender", "metrics are sent", |of| count(of, "delivered") == 100);
    let waiting = delivery(&server, "statsd sender");
    assert_eq!((count(&waiting, "accepted"), count(&waiting, "queued")), (100, 100), "{waiting}");
    let metrics = http("GET", &server.monitoring_url("/metrics"), "").unwrap().body;
    let sample = "mixer_delivery_items_total{delivery=\"dogstatsd sender\",handler=\"dog.istio-system\",outcome=\"delivered\"} 100";
    assert!(metrics.lines().any(|line| line == sample), "{sample} in {metrics}");
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let mut buffer = [0; 2000];
    let mut total = 0.0;
    while total < 100.0 {
        statsd.set_read_timeout(Some(DEADLINE)).unwrap();
        let length = statsd.recv(&mut buffer).unwrap();
        let datagram = String::from_utf8(buffer[..length].to_vec()).unwrap();
        assert!(length <= 510, "{datagram}");
        for line in datagram.split('\n') {
            let (name, value, kind, tags) = metric(line);
            assert_eq!((name.as_str(), kind.as_str(), tags.len()), ("mesh.hits/a b", "c", 0));
            total += value;
        }
    }
    assert_eq!(total, 100.0);
    let mut total = 0.0;
    while total < 100.0 {
        dogstatsd.set_read_timeout(Some(DEADLINE)).unwrap();
        let length = dogstatsd.recv(&mut buffer).unwrap();
        let datagram = String::from_utf8(buffer[..length].to_vec()).unwrap();
        assert!(datagram.split('\n').count() <= 10, "{datagram}");
        for line in datagram.split('\n') {
            let (name, value, kind, tags) = metric(line);
            assert_eq!((name.as_str(), kind.as_str()), ("istio.hits", "c"));
            assert_eq!(tags, ["env:lab", "path:/a b"].map(str::to_owned).into());
            total += value;
        }
    }
}

/// The acknowledgement of a chunk.
pub(crate) fn acknowledgement(id: &str) -> Vec<u8> {
    let mut answer = b"\x81\xa3ack".to_vec();
    answer.push(0xa0 | id.len() as u8);
    answer.extend(id.as_bytes());
    answer
}

/// A strict server of the forward protocol with acknowledgements.
pub(crate) struct FluentServer {
    listener: TcpListener,
    /// Numbers of the entries that it has acknowledged.
    numbers: Vec<i64>,
}

impl FluentServer {
    fn on(listener: TcpListener) -> Self {
        listener.set_nonblocking(true).unwrap();
        Self { listener, numbers: Vec::new() }
    }

    fn accept(&self) -> TcpStream {
        let accepted = wait_for(DEADLINE, || self.listener.accept().ok());
        let (stream, _) = accepted.expect("a connection");
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        stream
    }

    /// The next chunk: its numbers and its id; `None` when the connection ends or at the deadline.
    fn chunk(stream: &mut TcpStream, pending: &mut Vec<u8>) -> Option<(Vec<i64>, String)> {
        let started = Instant::now();
        let mut buffer = [0; 1 << 16];
        loop {
            if let Some(first) = Self::first_chunk(pending) {
                return Some(first);
            }
            match stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(length) => pending.extend_from_slice(&buffer[..length]),
                Err(_) if started.elapsed() > DEADLINE => return None,
                Err(_) => {}
            }
        }
    }

    /// Removes the first chunk, if it is complete: its numbers and its id. Panics if it is not as the protocol says.
    pub(crate) fn first_chunk(pending: &mut Vec<u8>) -> Option<(Vec<i64>, String)> {
        let length = msgpack::length_of_first(pending).unwrap_or_else(|error| panic!("{error}"))?;
        let bytes: Vec<u8> = pending.drain(..length).collect();
        Some(Self::read(&msgpack::values(&bytes).unwrap()[0]))
    }

    /// Accepts a connection and acknowledges its first chunk: the record of its only entry, and its id.
    pub(crate) fn one_chunk(listener: &TcpListener) -> (Value, String) {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        let mut pending = Vec::new();
        loop {
            if let Some(length) = msgpack::length_of_first(&pending).expect("msgpack") {
                let message = msgpack::values(&pending[..length]).expect("msgpack").remove(0);
                let id = message[2]["chunk"].as_str().expect("an id").to_owned();
                stream.write_all(&acknowledgement(&id)).expect("it is read");
                return (message[1][0][1].clone(), id);
            }
            let mut buffer = [0; 4096];
            let length = stream.read(&mut buffer).expect("a chunk");
            assert!(length > 0, "the connection ended");
            pending.extend_from_slice(&buffer[..length]);
        }
    }

    fn read(message: &Value) -> (Vec<i64>, String) {
        let [tag, entries, options] = message.as_array().expect("an array").as_slice() else {
            panic!("a message of the forward mode has three parts: {message}")
        };
        assert_eq!(tag, "entry.instance.istio-system");
        let entries = entries.as_array().expect("entries");
        let numbers = entries.iter().map(|entry| {
            let [time, record] = entry.as_array().expect("an entry").as_slice() else { panic!("{entry}") };
            assert!(time.is_i64(), "{entry}");
            assert_eq!(record.as_object().map(serde_json::Map::len), Some(2), "{entry}");
            assert_eq!(record["severity"], "info");
            record["number"].as_i64().expect("a number")
        });
        let numbers: Vec<i64> = numbers.collect();
        assert_eq!(options["size"], numbers.len());
        (numbers, options["chunk"].as_str().expect("an id").to_owned())
    }

    /// Acknowledges chunks until so many entries have arrived.
    fn serve(&mut self, stream: &mut TcpStream, pending: &mut Vec<u8>, entries: usize) {
        while self.numbers.len() < entries {
            let Some((numbers, id)) = Self::chunk(stream, pending) else {
                panic!("{} of {entries} entries", self.numbers.len())
            };
            self.numbers.extend(numbers);
            stream.write_all(&acknowledgement(&id)).unwrap();
        }
    }
}

fn fluentd(port: u16, more: &str) -> String {
    let params = format!("address: '127.0.0.1:{port}', pushIntervalDuration: 10ms, acknowledge: true{more}");
    handler("fluent", "entry", "fluentd", &params)
}

#[test]
fn every_entry_is_acknowledged_although_the_connection_breaks() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut fluent = FluentServer::on(listener);
    let server = start(directory.path(), &fluentd(port, ""));
    report(&server, 0..200, "/");
    let mut stream = fluent.accept();
    let unanswered = FluentServer::chunk(&mut stream, &mut Vec::new()).expect("a chunk");
    assert!(!unanswered.0.is_empty());
    drop(stream);
    // The chunk comes again, with all others.
    let (mut stream, mut pending) = (fluent.accept(), Vec::new());
    fluent.serve(&mut stream, &mut pending, 200);
    assert_eq!(fluent.numbers, (0..200).collect::<Vec<_>>());
    let settled = until(&server, "fluentd sender", "all is delivered", |of| count(of, "delivered") == 200);
    assert_eq!(
        (settled["state"].as_str(), count(&settled, "accepted")),
        (Some("delivering"), 200),
        "{settled}"
    );
    // `doctor` asks the server.
    let [api, monitoring, metrics, ctrlz] =
        [server.ports.api, server.ports.monitoring, server.ports.metrics, server.ports.ctrlz]
            .map(|port| port.to_string());
    let config = format!("fs://{}", directory.path().display());
    let flags = ["doctor", "--config-store-url", &config, "--port", &api, "--monitoring-port", &monitoring];
    let flags = [&flags[..], &["--metrics-port", &metrics, "--ctrlz-port", &ctrlz]].concat();
    let text =
        "ok    delivery        fluentd sender of fluent.istio-system: 200 items delivered, 0 waiting, 0 lost";
    let doctor = run_mixer(&flags);
    assert!(doctor.stdout.lines().any(|line| line == text), "{doctor:?}");
    drop((stream, fluent));
    report(&server, 200..210, "/");
    until(&server, "fluentd sender", "it fails", |of| of["state"] == "failing");
    let doctor = run_mixer(&flags);
    let fails = |line: &str| {
        line.starts_with("warn  delivery        fluentd sender of fluent.istio-system is failing: ")
    };
    assert!(doctor.stdout.lines().any(fails), "{doctor:?}");
}

#[test]
fn entries_on_disk_survive_a_killed_server() {
    let directory = tempfile::tempdir().unwrap();
    let spill = tempfile::tempdir().unwrap();
    // Refuses connections until it listens; no other process can take its port.
    let place = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    place.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let port = place.local_addr().unwrap().as_socket().unwrap().port();
    let more =
        format!(", spillDirectory: '{}', instanceBufferSize: 10", spill.path().join("fluent").display());
    let server = start(directory.path(), &fluentd(port, &more));
    report(&server, 0..500, "/");
    // One batch is with the sender, and stays in memory; another one may be on its way to the disk.
    let kept = until(&server, "fluentd sender", "entries are on disk", |of| {
        count(of, "queued") == 0 && count(of, "spilled") + count(of, "inFlight") == 500
    });
    let in_flight = count(&kept, "inFlight");
    server.signal("KILL");
    drop(server);
    place.listen(16).unwrap();
    let mut fluent = FluentServer::on(place.into());
    let server = start(directory.path(), &fluentd(port, &more));
    // The directory is opened beside the start.
    let recovered = until(&server, "fluentd sender", "it finds them", |of| count(of, "recovered") > 0);
    let least = 490 - in_flight as usize;
    assert!(count(&recovered, "recovered") as usize >= least, "{recovered} after {kept}");
    let (mut stream, mut pending) = (fluent.accept(), Vec::new());
    fluent.serve(&mut stream, &mut pending, count(&recovered, "recovered") as usize);
    let arrived: BTreeSet<i64> = fluent.numbers.iter().copied().collect();
    assert_eq!(arrived.len(), fluent.numbers.len(), "no entry comes twice");
    until(&server, "fluentd sender", "all is delivered", |of| {
        count(of, "delivered") == count(of, "accepted") && count(of, "spilledBytes") == 0
    });
}
