//! What peers can make a port keep is bounded, and peers that behave are served meanwhile.

#![cfg(test)]

#[expect(dead_code, reason = "shared with the other tests of this crate")]
#[path = "support/support.rs"]
mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mixer_mcp::message::{RequestResources, Resources};
use mixer_mcp::{ClientOptions, Rate, ServerOptions, Services, Snapshot, Source, SourceOptions};
use prost::Message as _;
use support::{COLLECTION, RawStream, Running, Serving, collection, eventually, request, sink};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

const SINK: &str = "/istio.mcp.v1alpha1.ResourceSink/EstablishResourceStream";
/// The least budget with messages of 1 MiB.
const BUDGET: usize = 2 << 20;

/// A peer that speaks HTTP/2 and reads no message: its flow-control window is empty.
struct Mute {
    socket: tokio::net::tcp::OwnedWriteHalf,
    next: u32,
    is_closed: Arc<AtomicBool>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header field without the table of HPACK.
fn field(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    [&[0, length(name)][..], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

impl Mute {
    async fn connect(address: SocketAddr) -> Self {
        let (mut incoming, mut socket) = TcpStream::connect(address).await.unwrap().into_split();
        let no_window = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
        let _ = socket.write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &no_window].concat()).await;
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = Arc::clone(&is_closed);
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while incoming.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
            closed.store(true, Ordering::Relaxed);
        });
        Self { socket, next: 1, is_closed }
    }

    /// A stream with this beginning of a body. The connection may be closed.
    async fn stream(&mut self, body: &[u8]) {
        let fields = [
            field(":method", "POST"),
            field(":scheme", "http"),
            field(":path", support::SOURCE),
            field(":authority", "a"),
            field("content-type", "application/grpc"),
            field("te", "trailers"),
        ];
        let frames = [frame(1, 4, self.next, &fields.concat()), frame(0, 0, self.next, body)];
        let _ = self.socket.write_all(&frames.concat()).await;
        self.next += 2;
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}

fn framed(message: &RequestResources) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    [&[0][..], &u32::try_from(bytes.len()).unwrap().to_be_bytes(), &bytes].concat()
}

/// A source whose port has a budget.
async fn bounded(first_request: Duration) -> (Serving, Arc<Source>) {
    let unlimited = Rate { every: Duration::ZERO, burst: 0 };
    let options = SourceOptions { streams: unlimited, ..SourceOptions::new(vec![COLLECTION.into()]) };
    let (_, source) = support::source(options);
    let services = Services { source: Some(Arc::clone(&source)), sink: None };
    let options =
        ServerOptions { max_memory: BUDGET, first_request, ..ServerOptions::new(support::any_address()) };
    (Serving::start(options, services).await, source)
}

fn publish(source: &Source, version: &str) {
    source.cache().set_snapshot("g", Arc::new(Snapshot::of([collection(version, &[("ns/a", version)])])));
}

#[tokio::test]
async fn sinks_that_read_nothing_give_way_to_those_that_do() {
    let (serving, source) = bounded(Duration::from_secs(60)).await;
    publish(&source, "1");
    let (good, application) = sink(false);
    let following = Running::follow(&good, &application, ClientOptions::new(serving.address.to_string()));
    eventually("the first version", || application.names() == ["ns/a=1"]).await;
    let body = framed(&request(COLLECTION));
    let mut mute = Vec::new();
    for _ in 0..30 {
        let mut connection = Mute::connect(serving.address).await;
        for _ in 0..40 {
            connection.stream(&body).await;
        }
        mute.push(connection);
    }
    let open = || mute.iter().filter(|connection| !connection.is_closed()).count();
    // Each takes 96 KiB and up to 32 streams of 8 KiB.
    eventually("the connections that take most are closed", || open() <= BUDGET / (352 << 10)).await;
    assert!(source.open_streams() <= BUDGET / (8 << 10));
    publish(&source, "2");
    eventually("the second version", || application.names() == ["ns/a=2"]).await;
    let (another, latecomer) = sink(false);
    let late = Running::follow(&another, &latecomer, ClientOptions::new(serving.address.to_string()));
    eventually("a sink that comes later", || latecomer.names() == ["ns/a=2"]).await;
    drop(mute);
    eventually("two streams are left", || source.open_streams() == 2).await;
    following.stop().await;
    late.stop().await;
    serving.stop().await;
}

#[tokio::test]
async fn messages_count_before_they_are_complete() {
    let (serving, source) = bounded(Duration::from_secs(60)).await;
    let mut greedy = Mute::connect(serving.address).await;
    let mut modest = Mute::connect(serving.address).await;
    modest.stream(&framed(&request(COLLECTION))).await;
    for _ in 0..3 {
        // One byte of 1 000 000.
        greedy.stream(&[0, 0, 15, 66, 64, 10]).await;
    }
    eventually("it takes 3 MB", || greedy.is_closed()).await;
    eventually("one stream is left", || source.open_streams() == 1).await;
    assert!(!modest.is_closed());
    serving.stop().await;
}

#[tokio::test]
async fn a_stream_without_a_request_ends() {
    let (serving, source) = bounded(Duration::from_millis(200)).await;
    publish(&source, "1");
    let mut good = RawStream::<Resources>::open(serving.address, support::SOURCE).await.unwrap();
    good.ask(COLLECTION).await;
    assert!(good.next().await.unwrap().is_some());
    let mut silent = RawStream::<Resources>::open(serving.address, support::SOURCE).await.unwrap();
    let status = silent.next().await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::DeadlineExceeded, "no request arrived within 200ms")
    );
    publish(&source, "2");
    good.ask(COLLECTION).await;
    assert!(good.next().await.unwrap().is_some(), "it has asked once");
    serving.stop().await;
}

#[tokio::test]
async fn only_a_few_sources_wait_for_their_turn() {
    let (sink, application) = sink(false);
    let services = Services { source: None, sink: Some((sink, Box::new(application))) };
    let serving = Serving::start(ServerOptions::new(support::any_address()), services).await;
    let open = async || RawStream::<RequestResources>::open(serving.address, SINK).await;
    let mut first = open().await.unwrap();
    assert_eq!(first.next().await.unwrap().unwrap().collection, COLLECTION);
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(open().await.unwrap());
    }
    let status = open().await.err().unwrap();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().starts_with("another source is connected to this sink, and 4 wait"), "{status}");
    drop(first);
    assert_eq!(waiting.remove(0).next().await.unwrap().unwrap().collection, COLLECTION, "its turn");
    open().await.unwrap();
    serving.stop().await;
}
