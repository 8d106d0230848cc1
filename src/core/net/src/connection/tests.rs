use std::sync::LazyLock;

use bytes::Bytes;
use http::{Request, StatusCode};
use mixer_http2::{FixedResponse, RequestBody, RequestHead};

use super::*;
use crate::listener::{Listener, bind_tcp};
use crate::turns::{TURN_WORK, Turns};
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

fn account(limits: &ConnectionLimits) -> ConnectionAccount {
    ConnectionAccount(limits.memory.open())
}

#[tokio::test]
async fn a_panic_in_one_call_leaves_the_others_of_its_connection_alone() {
    let listener = Listener::tcp(bind_tcp("tcp", "127.0.0.1:0").unwrap()).unwrap();
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

thread_local! {
    static WORK: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts its calls, of which each is so much work.
struct Counting {
    calls: std::cell::Cell<usize>,
    work: usize,
}

impl WorkerService for Counting {
    type Body = PanickingBody;

    fn fixed_response() -> &'static FixedResponse {
        &FIXED
    }

    fn failed() -> Response<Answer<PanickingBody>> {
        Panicking::failed()
    }

    async fn call(
        self: Rc<Self>,
        _: Rc<RequestHead>,
        _: RequestBody,
        _: Rc<Peer>,
    ) -> Response<Answer<PanickingBody>> {
        self.calls.set(self.calls.get() + 1);
        WORK.set(WORK.get().wrapping_add(self.work));
        Response::new(Answer::Empty)
    }

    fn work_done() -> usize {
        WORK.get()
    }
}

#[tokio::test]
async fn a_connection_with_many_calls_gives_way_to_others() {
    let most = most_calls_in_a_turn(30_000, 0).await;
    assert!(most <= MAX_REQUESTS, "{most} calls in one turn");
}

#[tokio::test]
async fn a_connection_with_calls_of_much_work_gives_way_to_others() {
    assert_eq!(most_calls_in_a_turn(500, TURN_WORK / 2).await, 2);
}

/// The most calls that a connection answers at once, of so many that arrive together and are so much work each.
async fn most_calls_in_a_turn(calls: usize, work: usize) -> usize {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, address) = listener.accept().await.unwrap();
    let mut input = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for call in 0..calls {
        // HEADERS with END_STREAM and END_HEADERS: :method POST, :scheme http, :path /.
        let stream = u32::try_from(2 * call + 1).unwrap().to_be_bytes();
        input.extend([&[0, 0, 3, 1, 5], &stream[..], &[0x83, 0x86, 0x84]].concat());
    }
    let (mut reader, mut writer) = client.into_split();
    let reading = tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
    let writing = tokio::spawn(async move {
        tokio::io::AsyncWriteExt::write_all(&mut writer, &input).await.unwrap();
        writer
    });
    let limits = ConnectionLimits {
        max_concurrent_streams: 100_000,
        keep_alive_timeout: Duration::from_secs(60),
        max_age: None,
        max_request_bytes: 64 << 20,
        memory: Arc::new(mixer_base::budget::Share::new(64 << 20)),
    };
    let service = Rc::new(Counting { calls: Default::default(), work });
    let registry = Arc::new(ConnectionRegistry::default());
    let registration = registry.register(address.to_string(), Some(0));
    let peer = Rc::new(Peer::Tcp(address));
    let stream = Stream::Tcp(server);
    let (turns, mut ended) = Turns::new();
    let info = &*registration.connection;
    let mut driver =
        Driver::new(stream, Rc::clone(&service), peer, &limits, account(&limits), (info, turns.open().await));
    let (mut answered, mut most) = (0, 0);
    let serving = std::future::poll_fn(|cx| {
        let polled = driver.poll(cx);
        assert!(polled.is_pending(), "{polled:?}");
        most = most.max(service.calls.get() - answered);
        answered = service.calls.get();
        if answered == calls { Poll::Ready(()) } else { Poll::Pending }
    });
    tokio::select! {
        () = serving => {}
        () = ended.run() => panic!("the connection is open"),
    }
    drop((driver, writing.await.unwrap()));
    reading.await.unwrap().unwrap();
    most
}

/// Calls that are never answered, and how many of them were freed.
struct Unanswered {
    freed: Rc<std::cell::Cell<usize>>,
}

impl WorkerService for Unanswered {
    type Body = PanickingBody;

    fn fixed_response() -> &'static FixedResponse {
        &FIXED
    }

    fn failed() -> Response<Answer<PanickingBody>> {
        Panicking::failed()
    }

    async fn call(
        self: Rc<Self>,
        _: Rc<RequestHead>,
        _: RequestBody,
        _: Rc<Peer>,
    ) -> Response<Answer<PanickingBody>> {
        struct Freed(Rc<std::cell::Cell<usize>>);
        impl Drop for Freed {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let _freed = Freed(Rc::clone(&self.freed));
        std::future::pending().await
    }
}

#[tokio::test]
async fn the_calls_of_a_closed_connection_are_freed_in_turns() {
    const CALLS: u32 = 1000;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, address) = listener.accept().await.unwrap();
    let mut input = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in (1..2 * CALLS).step_by(2) {
        input.extend([&[0, 0, 3, 1, 5], &stream.to_be_bytes()[..], &[0x83, 0x86, 0x84]].concat());
    }
    tokio::io::AsyncWriteExt::write_all(&mut client, &input).await.unwrap();
    let limits = ConnectionLimits {
        max_concurrent_streams: CALLS,
        keep_alive_timeout: Duration::from_secs(60),
        max_age: None,
        max_request_bytes: 64 << 20,
        memory: Arc::new(mixer_base::budget::Share::new(64 << 20)),
    };
    let freed = Rc::new(std::cell::Cell::new(0));
    let service = Rc::new(Unanswered { freed: Rc::clone(&freed) });
    let registry = Arc::new(ConnectionRegistry::default());
    let registration = registry.register(address.to_string(), Some(0));
    let (turns, mut ended) = Turns::new();
    let info = (&*registration.connection, turns.open().await);
    let peer = Rc::new(Peer::Tcp(address));
    let mut driver = Driver::new(Stream::Tcp(server), service, peer, &limits, account(&limits), info);
    let mut client = Some(client);
    let until_closed = std::future::poll_fn(|cx| {
        let polled = driver.poll(cx);
        if driver.calls.len() == CALLS as usize {
            drop(client.take());
        }
        polled
    });
    tokio::select! {
        closed = until_closed => drop(closed),
        () = ended.run() => panic!("the connection is open"),
    }
    assert_eq!(freed.get(), 0);
    let mut most = 0;
    let mut free = std::pin::pin!(driver.free());
    let freeing = std::future::poll_fn(|cx| {
        let before = freed.get();
        let polled = free.as_mut().poll(cx);
        most = most.max(freed.get() - before);
        polled
    });
    tokio::select! {
        () = freeing => {}
        () = ended.run() => {}
    }
    assert!(freed.get() == CALLS as usize && most <= MAX_REQUESTS, "{most} of {} at once", freed.get());
}

#[tokio::test]
async fn a_client_that_has_left_is_not_served() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, address) = listener.accept().await.unwrap();
    let mut input = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    input.extend([0, 0, 3, 1, 5, 0, 0, 0, 1, 0x83, 0x86, 0x84]);
    tokio::io::AsyncWriteExt::write_all(&mut client, &input).await.unwrap();
    drop(client);
    let limits = ConnectionLimits {
        max_concurrent_streams: 10,
        keep_alive_timeout: Duration::from_secs(60),
        max_age: None,
        max_request_bytes: 1 << 20,
        memory: Arc::new(mixer_base::budget::Share::new(1 << 20)),
    };
    let service = Rc::new(Counting { calls: Default::default(), work: 0 });
    let registry = Arc::new(ConnectionRegistry::default());
    let registration = registry.register(address.to_string(), Some(0));
    let (turns, _ended) = Turns::new();
    let info = (&*registration.connection, turns.open().await);
    let mut driver = Driver::new(
        Stream::Tcp(server),
        Rc::clone(&service),
        Rc::new(Peer::Tcp(address)),
        &limits,
        account(&limits),
        info,
    );
    driver.run().await.unwrap();
    assert_eq!(service.calls.get(), 0);
}

#[tokio::test]
async fn a_port_serves_a_bounded_number_of_connections() {
    let listener = Listener::tcp(bind_tcp("tcp", "127.0.0.1:0").unwrap()).unwrap();
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

/// A new connection of `client` with these bytes already sent.
async fn connected(input: &[u8]) -> (tokio::net::TcpStream, Stream, std::net::SocketAddr) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, address) = listener.accept().await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut client, input).await.unwrap();
    (client, Stream::Tcp(server), address)
}

/// The preface with a SETTINGS_INITIAL_WINDOW_SIZE of 0, and as many calls.
fn calls_without_window(calls: u32) -> Vec<u8> {
    let mut input = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0".to_vec();
    for stream in (1..2 * calls).step_by(2) {
        input.extend([&[0, 0, 3, 1, 5], &stream.to_be_bytes()[..], &[0x83, 0x86, 0x84]].concat());
    }
    input
}

fn many_calls(calls: u32) -> ConnectionLimits {
    ConnectionLimits {
        max_concurrent_streams: calls,
        keep_alive_timeout: Duration::from_secs(60),
        max_age: None,
        max_request_bytes: 64 << 20,
        memory: Arc::new(mixer_base::budget::Share::new(64 << 20)),
    }
}

/// Calls that are woken again and again and never get further; each time is the work of a turn.
struct Woken {
    wakes: tokio::sync::watch::Receiver<u32>,
    polls: Rc<std::cell::Cell<usize>>,
}

impl WorkerService for Woken {
    type Body = PanickingBody;

    fn fixed_response() -> &'static FixedResponse {
        &FIXED
    }

    fn failed() -> Response<Answer<PanickingBody>> {
        Panicking::failed()
    }

    async fn call(
        self: Rc<Self>,
        _: Rc<RequestHead>,
        _: RequestBody,
        _: Rc<Peer>,
    ) -> Response<Answer<PanickingBody>> {
        let mut wakes = self.wakes.clone();
        while wakes.changed().await.is_ok() {
            self.polls.set(self.polls.get() + 1);
            WORK.set(WORK.get().wrapping_add(TURN_WORK));
        }
        Response::new(Answer::Empty)
    }

    fn work_done() -> usize {
        WORK.get()
    }
}

#[tokio::test]
async fn calls_that_are_woken_together_are_polled_in_turns() {
    const CALLS: u32 = 500;
    let (client, stream, address) = connected(&calls_without_window(CALLS)).await;
    let (wake, wakes) = tokio::sync::watch::channel(0);
    let polls = Rc::new(std::cell::Cell::new(0));
    let service = Rc::new(Woken { wakes, polls: Rc::clone(&polls) });
    let limits = many_calls(CALLS);
    let registry = Arc::new(ConnectionRegistry::default());
    let registration = registry.register(address.to_string(), Some(0));
    let (turns, mut ended) = Turns::new();
    let info = (&*registration.connection, turns.open().await);
    let peer = Rc::new(Peer::Tcp(address));
    let mut driver = Driver::new(stream, service, peer, &limits, account(&limits), info);
    let (mut is_woken, mut most) = (false, 0);
    let serving = std::future::poll_fn(|cx| {
        let before = polls.get();
        assert!(driver.poll(cx).is_pending());
        most = most.max(polls.get() - before);
        if driver.calls.len() == CALLS as usize && !is_woken {
            is_woken = true;
            wake.send(1).unwrap();
        }
        if polls.get() == CALLS as usize { Poll::Ready(()) } else { Poll::Pending }
    });
    tokio::select! {
        () = serving => {}
        () = ended.run() => panic!("the connection is open"),
    }
    assert!(most <= call::POLLS_AT_ONCE, "{most} of {CALLS} at once");
    drop(client);
}

/// Answers with a stream of one frame.
struct Streaming;

impl WorkerService for Streaming {
    type Body = http_body_util::Full<Bytes>;

    fn fixed_response() -> &'static FixedResponse {
        &FIXED
    }

    fn failed() -> Response<Answer<Self::Body>> {
        Response::new(Answer::Empty)
    }

    async fn call(
        self: Rc<Self>,
        _: Rc<RequestHead>,
        _: RequestBody,
        _: Rc<Peer>,
    ) -> Response<Answer<Self::Body>> {
        Response::new(Answer::Stream(http_body_util::Full::new(Bytes::from_static(b"answer"))))
    }
}

#[tokio::test]
async fn streams_without_window_wait_until_they_have_some() {
    const CALLS: u32 = 300;
    let (client, stream, address) = connected(&calls_without_window(CALLS)).await;
    let (mut reader, mut writer) = client.into_split();
    let reading = tokio::spawn(async move {
        let (mut bytes, mut ended, mut at) = (Vec::new(), 0, 0);
        while ended < CALLS && tokio::io::AsyncReadExt::read_buf(&mut reader, &mut bytes).await.unwrap() > 0 {
            while let Some(&[a, b, c, kind, flags, ..]) = bytes.get(at..)
                && let end = at + 9 + u32::from_be_bytes([0, a, b, c]) as usize
                && end <= bytes.len()
            {
                ended += u32::from(kind < 2 && flags & 1 != 0);
                at = end;
            }
        }
        ended
    });
    let limits = many_calls(CALLS);
    let registry = Arc::new(ConnectionRegistry::default());
    let registration = registry.register(address.to_string(), Some(0));
    let (turns, mut ended) = Turns::new();
    let info = (&*registration.connection, turns.open().await);
    let peer = Rc::new(Peer::Tcp(address));
    let mut driver = Driver::new(stream, Rc::new(Streaming), peer, &limits, account(&limits), info);
    let (opened, mut waits) = tokio::sync::oneshot::channel();
    let mut opened = Some(opened);
    let serving = std::future::poll_fn(|cx| {
        assert!(driver.poll(cx).is_pending());
        if driver.draining.len() == CALLS as usize
            && let Some(opened) = opened.take()
        {
            assert!(driver.bodies.is_empty(), "none is polled before its last frame is sent");
            opened.send(()).unwrap();
        }
        Poll::<()>::Pending
    });
    let answered = async {
        (&mut waits).await.unwrap();
        // SETTINGS_INITIAL_WINDOW_SIZE of 6.
        let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 6];
        tokio::io::AsyncWriteExt::write_all(&mut writer, &settings).await.unwrap();
        reading.await.unwrap()
    };
    tokio::select! {
        () = serving => {}
        () = ended.run() => panic!("the connection is open"),
        ended = answered => assert_eq!(ended, CALLS),
    }
    assert!(driver.draining.is_empty() && driver.bodies.is_empty());
}
