use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;

/// What a server answers.
struct Scripted {
    status: u16,
    body: &'static [u8],
    trailers: &'static [(&'static str, &'static str)],
}

const OK: Scripted = Scripted { status: 200, body: b"\0\0\0\0\x02hi", trailers: &[("grpc-status", "0")] };

/// A server of HTTP/2 that gives these answers, each on the next request, and tells what it received.
async fn serve(answers: Vec<Scripted>) -> (SocketAddr, UnboundedReceiver<(HeaderMap, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = unbounded_channel();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let mut answers = answers.into_iter();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let Some(answer) = answers.next() else { return };
            let sender = sender.clone();
            tokio::spawn(async move {
                let (head, mut content) = request.into_parts();
                let mut body = Vec::new();
                while let Some(Ok(chunk)) = content.data().await {
                    content.flow_control().release_capacity(chunk.len()).unwrap();
                    body.extend_from_slice(&chunk);
                }
                sender.send((head.headers, body)).unwrap();
                let response = http::Response::builder().status(answer.status).body(()).unwrap();
                let mut stream = respond.send_response(response, false).unwrap();
                stream.send_data(Bytes::from_static(answer.body), false).unwrap();
                let trailers = answer
                    .trailers
                    .iter()
                    .map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap()));
                stream.send_trailers(trailers.collect()).unwrap();
            });
        }
    });
    (address, received)
}

fn target(address: SocketAddr) -> GrpcTarget {
    let url = format!("http://{address}/pkg.Service/Method");
    GrpcTarget::new(HttpOptions { timeout: Duration::from_secs(60), ..HttpOptions::new(url) }).unwrap()
}

#[tokio::test]
async fn statuses_messages_and_pauses_are_those_of_the_server() {
    // google.rpc.Status with RetryInfo of 1.5 s, without padding.
    let info = RetryInfo { retry_delay: Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 }) };
    let any = prost_types::Any { type_url: RETRY_INFO.to_owned(), value: info.encode_to_vec() };
    let other = prost_types::Any { type_url: "type.googleapis.com/a.Kind".to_owned(), value: vec![1, 2] };
    let details = Details { details: vec![other, any] }.encode_to_vec();
    let details: &'static str = base64::engine::general_purpose::STANDARD_NO_PAD.encode(details).leak();
    let busy: &'static [_] =
        vec![("grpc-status", "8"), ("grpc-message", "too%20much%0Awork"), (DETAILS, details)].leak();
    let answers = vec![
        OK,
        Scripted { trailers: busy, body: b"", ..OK },
        Scripted { trailers: &[("grpc-status", "3")], body: b"", ..OK },
        Scripted { trailers: &[("x", "y")], ..OK },
        Scripted { status: 503, trailers: &[("x", "y")], body: b"<html>" },
        Scripted { body: b"\0\0\0\0\x03hi", ..OK },
        Scripted { body: b"\x01\0\0\0\x02hi", ..OK },
        Scripted { body: b"", ..OK },
    ];
    let (address, mut received) = serve(answers).await;
    let target = target(address);
    assert_eq!(target.call(b"hello").await, Ok(Bytes::from_static(b"hi")));
    let (headers, body) = received.recv().await.unwrap();
    assert_eq!(
        (&headers["content-type"], &headers["te"]),
        (&"application/grpc".parse().unwrap(), &"trailers".parse().unwrap())
    );
    assert_eq!(body, b"\0\0\0\0\x05hello");
    let status = |code, message: &str, retry_after| {
        Err(GrpcFailure::Status { code, message: message.to_owned(), retry_after, details: Vec::new() })
    };
    let busy = GrpcFailure::Status {
        code: Code::ResourceExhausted,
        message: "too much work".to_owned(),
        retry_after: Some(Duration::from_millis(1500)),
        details: vec![GrpcDetail { kind: "a.Kind".to_owned(), message: vec![1, 2] }],
    };
    assert_eq!(target.call(b"").await, Err(busy));
    assert_eq!(target.call(b"").await, status(Code::InvalidArgument, "", None));
    assert!(matches!(target.call(b"").await, Err(GrpcFailure::NoAnswer(why)) if why.contains("grpc-status")));
    assert_eq!(
        target.call(b"").await,
        status(Code::Unavailable, "HTTP status 503 Service Unavailable", None)
    );
    for _ in 0..2 {
        assert!(matches!(target.call(b"").await, Err(GrpcFailure::NoAnswer(_))));
    }
    assert_eq!(target.call(b"").await, Ok(Bytes::new()));
}

/// What a collector says of items has texts of callers in it.
#[tokio::test]
async fn a_long_message_with_the_status_ok_is_that_of_a_server_that_took_the_call() {
    let mut body = vec![0; 300_000];
    body[..5].copy_from_slice(&[0, 0, 4, 147, 219]);
    let body: &'static [u8] = body.leak();
    let answers = vec![
        Scripted { body, ..OK },
        Scripted { body, trailers: &[("grpc-status", "3")], ..OK },
        Scripted { body, trailers: &[("x", "y")], ..OK },
    ];
    let (address, _received) = serve(answers).await;
    let target = target(address);
    assert_eq!(target.call(b"x").await, Err(GrpcFailure::TooLong));
    let refused = target.call(b"x").await;
    assert!(matches!(refused, Err(GrpcFailure::Status { code: Code::InvalidArgument, .. })), "{refused:?}");
    assert!(matches!(target.call(b"x").await, Err(GrpcFailure::NoAnswer(_))));
}

/// Google names each time series that it did not take.
#[tokio::test]
async fn details_may_be_long() {
    let message = vec![7; 30 << 10];
    let any = prost_types::Any { type_url: "type.googleapis.com/a.Kind".to_owned(), value: message.clone() };
    let details = Details { details: vec![any] }.encode_to_vec();
    let details: &'static str = base64::engine::general_purpose::STANDARD_NO_PAD.encode(details).leak();
    let trailers: &'static [_] = vec![("grpc-status", "3"), (DETAILS, details)].leak();
    let (address, _received) = serve(vec![Scripted { trailers, body: b"", ..OK }]).await;
    let found = target(address).call(b"").await;
    let Err(GrpcFailure::Status { details, .. }) = found else { panic!("{found:?}") };
    assert_eq!(details, [GrpcDetail { kind: "a.Kind".to_owned(), message }]);
}

#[tokio::test]
async fn a_compressed_message_says_so_and_is_that_of_the_caller() {
    let (address, mut received) = serve(vec![OK]).await;
    let url = format!("http://{address}/pkg.Service/Method");
    let target = GrpcTarget::new(HttpOptions { gzip: true, ..HttpOptions::new(url) }).unwrap();
    let message = b"hello".repeat(1000);
    assert_eq!(target.call(&message).await, Ok(Bytes::from_static(b"hi")));
    let (headers, body) = received.recv().await.unwrap();
    assert_eq!(
        (&headers["grpc-encoding"], headers.get("content-encoding")),
        (&"gzip".parse().unwrap(), None)
    );
    let ([1, length @ ..], packed) = body.split_at(5) else { panic!("{body:?}") };
    assert_eq!(length_of(length), Some(packed.len()));
    assert!(packed.len() < message.len() / 10, "{} bytes", packed.len());
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut plain).unwrap();
    assert_eq!(plain, message);
}

#[tokio::test]
async fn a_call_that_has_no_answer_is_followed_by_one_on_a_connection_of_its_own() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/pkg.Service/Method", listener.local_addr().unwrap());
    let limit = Duration::from_millis(100);
    let target = GrpcTarget::new(HttpOptions { timeout: limit, ..HttpOptions::new(url) }).unwrap();
    let mut held = Vec::new();
    for _ in 0..2 {
        let (accepted, called) = tokio::join!(listener.accept(), target.call(b"x"));
        held.push(accepted.unwrap());
        assert_eq!(called, Err(GrpcFailure::NoAnswer("no answer within 100ms".to_owned())));
    }
}

#[test]
fn a_text_of_a_backend_is_one_short_line() {
    assert_eq!(foreign("a\nb"), "a b");
    assert_eq!(foreign(&"x".repeat(1000)).chars().count(), 257);
}
