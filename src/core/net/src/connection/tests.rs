use std::sync::LazyLock;

use bytes::Bytes;
use http::{Request, StatusCode};
use mixer_http2::{FixedResponse, RequestBody, RequestHead};

use super::*;
use crate::listener::{Listener, bind_tcp};
use crate::workers::WorkerGroup;

/// Panics at some paths.
struct Panicking;

static FIXED: LazyLock<FixedResponse> =
    LazyLock::new(|| FixedResponse::new(("content-type", "text/plain"), ("grpc-status", "0")));

/// A body whose first frame panics.
struct PanickingBody;

impl http_body::Body for PanickingBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        panic!("in the body")
    }
}

impl WorkerService for Panicking {
    type Body = PanickingBody;

    fn fixed_response() -> &'static FixedResponse {
        &FIXED
    }

    fn failed() -> Response<Answer<PanickingBody>> {
        let mut response = Response::new(Answer::Empty);
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    }

    async fn call(
        self: Rc<Self>,
        head: Rc<RequestHead>,
        _: RequestBody,
        _: Rc<Peer>,
    ) -> Response<Answer<PanickingBody>> {
        match head.path() {
            "/at-once" => panic!("at once"),
            "/later" => {
                tokio::task::yield_now().await;
                panic!("later")
            }
            "/body" => Response::new(Answer::Stream(PanickingBody)),
            _ => Response::new(Answer::Empty),
        }
    }
}

#[tokio::test]
async fn a_panic_in_one_call_leaves_the_others_of_its_connection_alone() {
    let listener = Listener::Tcp(bind_tcp("tcp", "127.0.0.1:0").unwrap());
    let address = listener.local_address().unwrap();
    let limits = ConnectionLimits {
        max_concurrent_streams: 10,
        keep_alive_timeout: Duration::from_secs(60),
        max_age: None,
        max_request_bytes: 1 << 20,
        memory: Arc::new(mixer_base::budget::Share::new(1 << 20)),
    };
    let stop = CancellationToken::new();
    let workers = Arc::new(WorkerGroup::start(1, "panics", limits, stop.clone(), |_| Panicking).unwrap());
    let serving = Arc::clone(&workers);
    let accepting = tokio::spawn(async move {
        let serve = |connection| {
            let workers = Arc::clone(&serving);
            async move { workers.serve(connection).await }
        };
        listener.accept_all(10, &stop, serve).await;
    });
    let socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let mut call = |path: &str| {
        let request = Request::builder().uri(format!("http://mixer{path}")).body(()).unwrap();
        client.send_request(request, true).unwrap().0
    };
    // All on one connection, in flight together.
    let calls = ["/at-once", "/later", "/well"].map(&mut call);
    let mut statuses = Vec::new();
    for call in calls {
        statuses.push(call.await.unwrap().status());
    }
    let failed = StatusCode::INTERNAL_SERVER_ERROR;
    assert_eq!(statuses, [failed, failed, StatusCode::OK]);
    let mut body = call("/body").await.unwrap().into_body();
    let error = body.data().await.unwrap().unwrap_err();
    assert_eq!(error.reason(), Some(h2::Reason::INTERNAL_ERROR));
    assert_eq!(call("/well").await.unwrap().status(), StatusCode::OK, "the connection goes on");
    assert_eq!(workers.connections(), [1], "the accounting of the worker is right");
    drop(client);
    assert!(workers.drain(Duration::from_secs(20)).await);
    assert!(workers.join().await);
    accepting.await.unwrap();
}

#[tokio::test]
async fn a_port_serves_a_bounded_number_of_connections() {
    let listener = Listener::Tcp(bind_tcp("tcp", "127.0.0.1:0").unwrap());
    let address = listener.local_address().unwrap();
    let stop = CancellationToken::new();
    let (sender, mut accepted) = tokio::sync::mpsc::unbounded_channel();
    let until = stop.clone();
    let accepting = tokio::spawn(async move {
        let serve = |connection| {
            sender.send(connection).unwrap();
            std::future::ready(())
        };
        listener.accept_all(2, &until, serve).await;
    });
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    let (first, _second) = (accepted.recv().await.unwrap(), accepted.recv().await.unwrap());
    tokio::task::yield_now().await;
    assert!(accepted.try_recv().is_err(), "the third waits in the backlog");
    drop(first);
    assert!(accepted.recv().await.is_some(), "a place is free");
    stop.cancel();
    accepting.await.unwrap();
}
