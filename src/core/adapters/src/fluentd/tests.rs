use std::path::Path;
use std::time::Duration;

use mixer_attribute::{Timestamp, Value, ValueType};
use mixer_engine::adapter::{BoundInstance, Instance, Leaf, Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use mixer_delivery::{AsyncSink as _, Items as _, List, Tally};
use mixer_remote::{StreamOptions, StreamTarget};

use super::entry::Entry;
use super::forward::Forwarder;
use super::*;
use crate::outage::Outage;
use crate::testing::{bound, problems, test_env};

const PATIENCE: Duration = Duration::from_secs(60);

fn logentry() -> BoundInstance {
    let mut entry = bound("l.instance.ns", "logentry", "variables", &[("n", ValueType::Int64)]);
    let leaf = |field, value_type| Leaf::new(field, None, value_type);
    let fixed = [leaf("timestamp", ValueType::Timestamp), leaf("severity", ValueType::String)];
    entry.leaves = entry.leaves.iter().cloned().chain(fixed).collect();
    entry
}

async fn build(params: Params) -> Box<dyn Handler> {
    Fluentd::build(params, vec![logentry()], test_env("h.istio-system")).await.unwrap()
}

/// Reports one entry. Returns the error.
async fn report(handler: &dyn Handler, number: i64) -> String {
    let time = Timestamp { seconds: 1, nanos: 0 };
    let values = [Some(Value::Int64(number)), Some(Value::Timestamp(time)), Some(Value::String(b"info"))];
    let instances = [Instance { bound: 0, name: "l.instance.ns", values: &values }];
    let result = match handler.as_report().unwrap().report(&instances) {
        Reply::Ready(result) => result,
        Reply::Later(result) => result.await,
    };
    result.map_or_else(|error| error.message, |()| String::new())
}

fn fast(port: u16) -> Params {
    Params {
        address: format!("127.0.0.1:{port}"),
        push_interval_duration: SignedDuration::from_millis(1),
        ..Params::default()
    }
}

/// `["l.instance.ns", 1, {"n": number, "severity": "info"}, nil]`
fn message(number: u8) -> Vec<u8> {
    [b"\x94\xadl.instance.ns\x01\x82\xa1n", &[number][..], b"\xa8severity\xa4info\xc0"].concat()
}

async fn read(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut bytes)).await.unwrap().unwrap();
    bytes
}

/// A port at which nobody listens until the socket does; connections are refused, and no other process can take it.
fn silent() -> (TcpSocket, u16) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

#[tokio::test]
async fn entries_wait_for_a_server_that_comes_later() {
    let (place, port) = silent();
    let handler = build(fast(port)).await;
    assert_eq!(report(&*handler, 1).await, "");
    while handler.status().trouble.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let listener = place.listen(16).unwrap();
    assert_eq!(report(&*handler, 2).await, "");
    let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    assert_eq!(read(&mut stream, 2 * message(1).len()).await, [message(1), message(2)].concat());
    handler.close(PATIENCE).await.unwrap();
}

/// The id of the chunk at the end of a message.
fn chunk(message: &[u8]) -> Option<Vec<u8>> {
    let at = message.windows(7).rposition(|part| part == b"\xa5chunk\xb8")?;
    message.get(at + 7..at + 7 + 24).map(<[u8]>::to_vec)
}

async fn read_chunk(stream: &mut TcpStream) -> (Vec<u8>, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        if let Some(id) = chunk(&bytes) {
            return (bytes, id);
        }
        let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut bytes)).await.unwrap().unwrap();
        assert!(read > 0, "the connection ends");
    }
}

#[tokio::test]
async fn a_chunk_is_sent_until_it_is_acknowledged() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let handler = build(Params { acknowledge: true, ..fast(port) }).await;
    assert_eq!(report(&*handler, 1).await, "");
    let mut ids = Vec::new();
    // No answer, another answer, and the right one.
    for turn in 0..3 {
        let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        let (bytes, id) = read_chunk(&mut stream).await;
        assert!(bytes.starts_with(b"\x93\xadl.instance.ns\x91\x92\x01\x82\xa1n\x01"), "{bytes:?}");
        ids.push(id.clone());
        let answer = match turn {
            0 => continue,
            1 => b"\x81\xa3ack\xa5wrong".to_vec(),
            _ => [b"\x81\xa3ack\xb8", &id[..]].concat(),
        };
        stream.write_all(&answer).await.unwrap();
        if turn == 2 {
            handler.close(PATIENCE).await.unwrap();
        } else {
            // The client ends a connection whose state it does not know.
            assert_eq!(tokio::time::timeout(PATIENCE, stream.read(&mut [0])).await.unwrap().unwrap(), 0);
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
    assert_eq!(handler.status().trouble, None);
}

/// A server that acknowledges the first chunk and ends the connection at the second gets the first one once.
#[tokio::test]
async fn what_is_acknowledged_is_not_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = StreamOptions::new(listener.local_addr().unwrap().to_string());
    let mut forwarder = Forwarder {
        target: StreamTarget::new(options).unwrap(),
        acknowledge: true,
        outage: Outage::new(&"h".into()),
    };
    let mut batch = List::default();
    for (tag, number) in [("a", 1), ("b", 2), ("c", 3)] {
        batch.push(Entry {
            time: 1,
            tag: tag.as_bytes().into(),
            record: Box::new([0x81, 0xa1, b'n', number]),
        });
    }
    for (turn, (is_acknowledged, left)) in
        [(true, 2), (false, 2), (true, 1), (true, 0)].into_iter().enumerate()
    {
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (bytes, _) = read_chunk(&mut stream).await;
            let first = bytes.windows(7).position(|part| part == b"\xa5chunk\xb8").unwrap() + 31;
            let id = chunk(&bytes[..first]).unwrap();
            if is_acknowledged {
                stream.write_all(&[b"\x81\xa3ack\xb8", &id[..]].concat()).await.unwrap();
            }
        };
        let mut tally = Tally::default();
        tokio::join!(forwarder.deliver(&mut batch, &mut tally), server);
        assert_eq!(batch.len(), left, "turn {turn}");
    }
}

#[tokio::test]
async fn a_full_queue_is_an_error_or_holds_the_report() {
    let params = |when_full| Params {
        queue_kilobytes: 1,
        when_full,
        hold_timeout: SignedDuration::from_millis(20),
        ..fast(1)
    };
    for (when_full, fails) in
        [(WhenFull::DropNewest, true), (WhenFull::DropOldest, false), (WhenFull::Hold, true)]
    {
        let handler = build(params(when_full)).await;
        let mut errors = Vec::new();
        for number in 0..60 {
            errors.push(report(&*handler, number).await);
        }
        errors.retain(|error| !error.is_empty());
        assert_eq!(!errors.is_empty(), fails, "{when_full:?}");
        let expected = "1 error occurred:\n\t* fluentd instance buffer full; dropping log entry\n\n";
        assert!(errors.iter().all(|error| error == expected), "{errors:?}");
        let status = handler.status();
        assert!(status.queues[0].dropped > 0 && status.queues[0].length <= 1024, "{status:?}");
    }
}

#[tokio::test]
async fn entries_are_kept_on_disk_for_the_next_handler() {
    let directory = tempfile::tempdir().unwrap();
    let (place, port) = silent();
    let spill = |path: &Path| path.join("spill").to_str().unwrap().to_owned();
    let params = Params { spill_directory: spill(directory.path()), ..fast(port) };
    let handler = build(params.clone()).await;
    for number in 0..100 {
        assert_eq!(report(&*handler, number).await, "");
    }
    handler.close(PATIENCE).await.unwrap();
    drop(handler);
    let listener = place.listen(16).unwrap();
    let handler = build(params).await;
    let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let mut received = read(&mut stream, 100 * message(0).len())
        .await
        .chunks(message(0).len())
        .map(<[u8]>::to_vec)
        .collect::<Vec<_>>();
    received.sort();
    assert_eq!(received, (0..100).map(message).collect::<Vec<_>>());
    handler.close(PATIENCE).await.unwrap();
}

#[test]
fn parameters_are_checked() {
    let text = |params: &Params| problems::<Fluentd>(params);
    assert!(text(&Params::default()).is_empty());
    assert_eq!(text(&Params { address: String::new(), ..Params::default() }), ["address: Address is empty"]);
    assert_eq!(
        text(&Params { address: "x:p".to_owned(), ..Params::default() }),
        ["the handler will not be built: the port \"p\" is not a number from 0 to 65535"]
    );
    assert_eq!(
        text(&Params { address: "u:SECRET@h".to_owned(), ..Params::default() }),
        ["the handler will not be built: the port \"***@h\" is not a number from 0 to 65535"]
    );
    let tls = Some(Tls { cert_file: "c".to_owned(), ..Tls::default() });
    assert_eq!(
        text(&Params { tls, ..Params::default() }),
        ["tls: a certificate and its key belong together"]
    );
    let file = || "f".to_owned();
    let shared = |change: &dyn Fn(&mut SharedKey)| {
        let mut shared = SharedKey { key_file: file(), ..SharedKey::default() };
        change(&mut shared);
        text(&Params { shared_key: Some(shared), ..Params::default() }).join(" ")
    };
    assert_eq!(shared(&|_| {}), "");
    assert_eq!(shared(&|of| (of.username, of.password_file) = ("ann".to_owned(), file())), "");
    let key = "sharedKey: one of `keyFile` and `keyEnvironment` is needed";
    assert_eq!(
        (shared(&|of| of.key_file.clear()), shared(&|of| of.key_environment = file())),
        (key.into(), key.into())
    );
    assert!(shared(&|of| of.username = "ann".to_owned()).contains("a user needs one of `passwordFile`"));
    assert!(shared(&|of| of.password_file = file()).contains("a password belongs to a user"));
}
