use std::sync::atomic::Ordering;

use super::*;
use crate::tests::{TestServer, TestTls};

fn target(port: u16) -> StreamTarget {
    StreamTarget::new(StreamOptions::new(format!("localhost:{port}"))).unwrap()
}

fn is_line(answer: &[u8]) -> bool {
    answer.ends_with(b"\n")
}

#[tokio::test]
async fn bytes_arrive_on_one_connection_until_the_backend_ends_it() {
    let mut server = TestServer::start(&["ok\n", "ok\n", "", "ok\n"], None).await;
    let mut target = target(server.port);
    for line in ["a\n", "b\n"] {
        assert_eq!(target.exchange(line.as_bytes(), 100, is_line).await.unwrap(), b"ok\n");
    }
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
    let ended = target.exchange(b"c\n", 100, is_line).await.unwrap_err();
    assert_eq!(ended.why, "the connection ended before the answer");
    assert_eq!(target.exchange(b"d\n", 100, is_line).await.unwrap(), b"ok\n");
    assert_eq!(server.connections.load(Ordering::Relaxed), 2);
    for expected in ["a\n", "b\n", "c\n", "d\n"] {
        assert_eq!(server.received.recv().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_connection_that_the_backend_has_ended_is_not_written_to() {
    let mut server = TestServer::start(&["", "", ""], None).await;
    let mut target = target(server.port);
    for line in ["a\n", "b\n", "c\n"] {
        assert_eq!(target.send(line.as_bytes()).await, Answer::Delivered);
        assert_eq!(server.received.recv().await.unwrap(), line);
        // The end of the connection arrives.
        while is_open(&mut **target.connection.as_mut().unwrap()).await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(server.connections.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn every_wait_and_every_answer_has_a_limit() {
    let server = TestServer::start(&["much too long\n"], None).await;
    let limit = Duration::from_millis(50);
    let options = StreamOptions::new(format!("127.0.0.1:{}", server.port));
    let mut target = StreamTarget::new(options.clone()).unwrap();
    let long = target.exchange(b"a\n", 5, is_line).await.unwrap_err();
    assert_eq!(long.why, "the answer has more than 5 bytes");
    let mut target = StreamTarget::new(StreamOptions { timeout: limit, ..options }).unwrap();
    let hangs = target.exchange(b"a\n", 5, is_line).await.unwrap_err();
    assert_eq!(hangs.why, "no answer within 50ms");
    // Nobody reads.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let options = StreamOptions::new(listener.local_addr().unwrap().to_string());
    let mut target = StreamTarget::new(StreamOptions { timeout: limit, ..options }).unwrap();
    assert_eq!(target.send(&vec![0; 64 << 20]).await, Answer::retry("not written within 50ms"));
    let mut gone = StreamTarget::new(StreamOptions::new("127.0.0.1:1")).unwrap();
    assert_eq!(gone.send(b"a").await, Answer::retry("Connection refused (os error 111)"));
}

#[tokio::test]
async fn tls_trusts_the_given_root_only() {
    let directory = tempfile::tempdir().unwrap();
    let tls = TestTls::new(directory.path());
    let mut server = TestServer::start(&["ok\n"], Some(&tls)).await;
    let options = |ca_file: &std::path::Path| StreamOptions {
        tls: Some(ClientTlsOptions { ca_file: ca_file.to_owned(), ..ClientTlsOptions::default() }),
        ..StreamOptions::new(format!("localhost:{}", server.port))
    };
    let other = directory.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let mut distrusting = StreamTarget::new(options(&TestTls::new(&other).root)).unwrap();
    let why = distrusting.exchange(b"a\n", 100, is_line).await.unwrap_err().why;
    assert!(why.contains("certificate"), "{why}");
    let mut trusting = StreamTarget::new(options(&tls.root)).unwrap();
    assert_eq!(trusting.exchange(b"b\n", 100, is_line).await.unwrap(), b"ok\n");
    assert_eq!(server.received.recv().await.unwrap(), "b\n");
}

#[tokio::test]
async fn a_root_that_is_replaced_is_loaded_for_the_next_connection() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let (tls, wrong) = (TestTls::new(directory.path()), TestTls::new(&other));
    let server = TestServer::start(&["ok\n"], Some(&tls)).await;
    let options = StreamOptions {
        tls: Some(ClientTlsOptions { ca_file: wrong.root.clone(), ..ClientTlsOptions::default() }),
        ..StreamOptions::new(format!("localhost:{}", server.port))
    };
    let mut target = StreamTarget::new(options).unwrap();
    assert!(target.exchange(b"a\n", 100, is_line).await.is_err());
    std::fs::rename(&tls.root, &wrong.root).unwrap();
    assert_eq!(target.exchange(b"a\n", 100, is_line).await.unwrap(), b"ok\n");
}

/// Sinks of deliveries are tasks that any thread runs.
#[test]
fn a_target_can_be_used_by_a_task() {
    fn is_send<T: Send>(_: &T) {}
    let mut target = target(1);
    is_send(&target.send(b"a"));
    is_send(&target.exchange(b"a", 1, is_line));
}
