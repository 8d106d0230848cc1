use mixer_delivery::{AsyncSink, Batching, Delivery, Items as _, List, Retry, Settings, Tally};

use super::*;
use crate::tests::{TestServer, TestTls};

fn headers() -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))])
}

fn options(port: u16) -> HttpOptions {
    HttpOptions {
        proxy: ProxySetting::Direct,
        timeout: Duration::from_secs(60),
        ..HttpOptions::new(format!("http://127.0.0.1:{port}/api?x=1"))
    }
}

async fn post(options: HttpOptions, body: &'static str) -> Reply {
    HttpTarget::new(options).unwrap().post(&headers(), Bytes::from_static(body.as_bytes())).await
}

#[tokio::test]
async fn answers_are_told_apart() {
    let ok = "HTTP/1.1 202 Accepted\r\ncontent-length: 4\r\n\r\nfine";
    let busy = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n";
    let bad = "HTTP/1.1 400 Bad Request\r\ncontent-length: 7\r\n\r\nno such";
    let moved =
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    let mut server = TestServer::start(&[ok, busy, bad, moved, ""], None).await;
    let target = HttpTarget::new(options(server.port)).unwrap();
    let mut answers = Vec::new();
    for _ in 0..5 {
        answers.push(target.post(&headers(), Bytes::from_static(b"[1]")).await);
    }
    assert_eq!((&answers[0].answer, &*answers[0].body), (&Answer::Delivered, &b"fine"[..]));
    assert_eq!(answers[0].status, Some(StatusCode::ACCEPTED));
    let why = "HTTP status 503 Service Unavailable".to_owned();
    assert_eq!(answers[1].answer, Answer::Retry { why, after: Duration::from_secs(7) });
    assert_eq!(answers[2].answer, Answer::Refused("HTTP status 400 Bad Request".to_owned()));
    assert_eq!(answers[2].body, "no such");
    let why = "HTTP status 307 Temporary Redirect: redirects are not followed, is it the right URL?";
    assert_eq!(answers[3].answer, Answer::retry(why));
    assert!(matches!(answers[4].answer, Answer::Retry { .. }), "{:?}", answers[4]);
    let request = server.received.recv().await.unwrap();
    assert!(
        request.starts_with("POST /api?x=1 HTTP/1.1\r\n") && request.ends_with("\r\n\r\n[1]"),
        "{request}"
    );
    assert!(request.contains("content-type: application/json\r\n") && !request.contains("authorization"));
}

#[tokio::test]
async fn a_backend_that_hangs_or_is_gone_is_tried_again() {
    let server = TestServer::start(&[], None).await;
    let limit = Duration::from_millis(50);
    let hangs = post(HttpOptions { timeout: limit, ..options(server.port) }, "x").await;
    assert_eq!(hangs.answer, Answer::retry("no answer within 50ms"));
    let gone = post(options(1), "x").await;
    assert_eq!(gone.answer, Answer::retry("Connection refused (os error 111)"));
}

#[tokio::test]
async fn a_long_answer_is_cut() {
    let long = format!("HTTP/1.1 500 Oh\r\ncontent-length: 1000000\r\n\r\n{}", "x".repeat(1_000_000));
    let server = TestServer::start(&[&long], None).await;
    let reply = post(options(server.port), "x").await;
    assert!(matches!(reply.answer, Answer::Retry { .. }));
    assert_eq!((reply.body.len(), reply.cut), (MAX_REPLY, Some(Cut::TooLarge)));
    let ten = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n0123456789";
    for (max_reply, cut) in [(10, None), (9, Some(Cut::TooLarge))] {
        let server = TestServer::start(&[ten], None).await;
        let reply = post(HttpOptions { max_reply, ..options(server.port) }, "x").await;
        assert_eq!((reply.taken_unread(), reply.body.len(), reply.cut), (cut, max_reply, cut));
        assert_eq!(reply.answer, Answer::Delivered);
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let ends_early = async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 1024]).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, &ten.as_bytes()[..ten.len() - 3]).await.unwrap();
    };
    let (reply, ()) = tokio::join!(post(options(port), "x"), ends_early);
    assert_eq!((&reply.answer, reply.cut), (&Answer::Delivered, Some(Cut::Lost)));
    assert_eq!(reply.taken_unread(), Some(Cut::Lost));
}

/// What a backend says of what it took is read to its end: the connection serves the next request.
#[tokio::test]
async fn a_long_answer_of_a_backend_that_took_something_is_read_on() {
    let long = |kind: &str, text: &str| {
        let body = format!("{text}{}", "x".repeat(1_000_000));
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let json = "application/json";
    let answers = [
        long(json, "{"),
        long("text/html; charset=utf-8", ""),
        long(json, "\n<!DOCTYPE"),
        long("", "<Html>"),
    ];
    let texts: Vec<&str> = answers.iter().map(String::as_str).collect();
    let server = TestServer::start(&texts, None).await;
    let target = HttpTarget::new(options(server.port)).unwrap();
    for unread in [Some(Cut::TooLarge), None, None, None] {
        let reply = target.post(&headers(), Bytes::from_static(b"x")).await;
        assert_eq!((reply.body.len(), reply.cut), (MAX_REPLY, Some(Cut::TooLarge)));
        assert_eq!((&reply.answer, reply.taken_unread()), (&Answer::Delivered, unread));
    }
    assert_eq!(server.connections.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test]
async fn requests_are_authenticated_with_credentials_that_are_read_again() {
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let denied = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    let write = |text: &str| {
        std::fs::write(directory.path().join("new"), text).unwrap();
        std::fs::rename(directory.path().join("new"), &path).unwrap();
    };
    write("first\n");
    let credential = || Credential::from_file(&path).unwrap();
    let mut server = TestServer::start(&[denied, ok, ok, ok], None).await;
    let bearer = Authentication::Bearer(credential());
    let target = HttpTarget::new(HttpOptions { authentication: bearer, ..options(server.port) }).unwrap();
    let body = || Bytes::from_static(b"x");
    let denied = target.post(&headers(), body()).await.answer;
    assert_eq!(denied, Answer::retry("HTTP status 401 Unauthorized"), "the credential may be replaced");
    write("second");
    assert_eq!(target.post(&headers(), body()).await.answer, Answer::Delivered);
    assert!(!format!("{target:?}").contains("second"));
    let basic = Authentication::Basic { user: "ann".to_owned(), password: credential() };
    let own = Authentication::Header(HeaderName::from_static("x-api-key"), credential());
    for authentication in [basic, own] {
        let reply = post(HttpOptions { authentication, ..options(server.port) }, "x").await;
        assert_eq!(reply.answer, Answer::Delivered);
    }
    for expected in [
        "authorization: Bearer first\r\n",
        "authorization: Bearer second\r\n",
        "authorization: Basic YW5uOnNlY29uZA==\r\n",
        "x-api-key: second\r\n",
    ] {
        let request = server.received.recv().await.unwrap();
        assert!(request.contains(expected), "{request}");
    }
}

#[tokio::test]
async fn tls_trusts_the_given_root_only() {
    let directory = tempfile::tempdir().unwrap();
    let tls = TestTls::new(directory.path());
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let server = TestServer::start(&[ok], Some(&tls)).await;
    let https = |ca_file: &std::path::Path| HttpOptions {
        url: format!("https://localhost:{}/", server.port),
        tls: ClientTlsOptions { ca_file: ca_file.to_owned(), ..ClientTlsOptions::default() },
        ..options(server.port)
    };
    let other = directory.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let distrusted = post(https(&TestTls::new(&other).root), "x").await.answer;
    assert!(
        matches!(&distrusted, Answer::Retry { why, .. } if why.contains("certificate")),
        "{distrusted:?}"
    );
    assert_eq!(post(https(&tls.root), "x").await.answer, Answer::Delivered);
}

#[tokio::test]
async fn a_root_that_is_replaced_is_loaded_again() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let (tls, wrong) = (TestTls::new(directory.path()), TestTls::new(&other));
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let server = TestServer::start(&[ok, ok], Some(&tls)).await;
    let target = HttpTarget::new(HttpOptions {
        url: format!("https://localhost:{}/", server.port),
        tls: ClientTlsOptions { ca_file: wrong.root.clone(), ..ClientTlsOptions::default() },
        ..options(server.port)
    });
    let target = target.unwrap();
    let post = async || target.post(&headers(), Bytes::from_static(b"x")).await.answer;
    assert!(matches!(post().await, Answer::Retry { .. }));
    std::fs::rename(&tls.root, &wrong.root).unwrap();
    assert_eq!(post().await, Answer::Delivered);
    // A file that cannot be used changes nothing.
    std::fs::write(&wrong.root, "no certificate").unwrap();
    assert_eq!(post().await, Answer::Delivered);
}

#[tokio::test]
async fn a_proxy_is_used() {
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let mut server = TestServer::start(&[ok], None).await;
    let proxy = ProxySetting::Url(format!("http://127.0.0.1:{}", server.port));
    let options = HttpOptions { proxy, ..HttpOptions::new("http://backend.example/spans") };
    assert_eq!(post(options, "x").await.answer, Answer::Delivered);
    let request = server.received.recv().await.unwrap();
    assert!(request.starts_with("POST http://backend.example/spans HTTP/1.1\r\n"), "{request}");
}

#[test]
fn what_may_be_secret_is_not_shown() {
    let mut options = HttpOptions::new("http://ann:hunter2@backend/?token=hunter2&sig=hunter2");
    options.proxy = ProxySetting::Url("http://ann:hunter2@proxy/".to_owned());
    options.headers.insert("x-api-key", HeaderValue::from_static("hunter2"));
    let shown = format!("{options:?} {:?}", options.proxy);
    let shown = format!("{shown} {:?}", HttpTarget::new(options).unwrap());
    assert!(!shown.contains("hunter2") && shown.contains("backend"), "{shown}");
}

#[test]
fn invalid_settings_are_refused_without_showing_secrets() {
    let refused = |options: HttpOptions| HttpTarget::new(options).unwrap_err().to_string();
    let url = |url: &str| refused(HttpOptions::new(url));
    assert_eq!(url("spans"), "invalid URL `spans`: relative URL without a base");
    assert_eq!(url("ftp://x/"), "invalid URL `ftp://x/`: it must be http://HOST or https://HOST");
    assert!(!url("gopher://ann:hunter2@x/?sig=hunter2").contains("hunter2"));
    let proxy = ProxySetting::Url("http://ann:hunter2@[".to_owned());
    let text = refused(HttpOptions { proxy, ..HttpOptions::new("http://x/") });
    assert!(text.starts_with("invalid proxy") && !text.contains("hunter2"), "{text}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "two\nlines").unwrap();
    let authentication = Authentication::Bearer(Credential::from_file(&path).unwrap());
    let text = refused(HttpOptions { authentication, ..HttpOptions::new("http://x/") });
    assert_eq!(text, "the credential is no value of a header");
    let tls = ClientTlsOptions { ca_file: "/none/such".into(), ..ClientTlsOptions::default() };
    assert!(refused(HttpOptions { tls, ..HttpOptions::new("https://x/") }).contains("/none/such"));
}

/// An item that is sent as it is.
struct Line(&'static str);

impl mixer_delivery::Item for Line {
    fn size(&self) -> usize {
        self.0.len()
    }
}

struct Lines(HttpTarget);

impl AsyncSink<List<Line>> for Lines {
    async fn deliver(&mut self, batch: &mut List<Line>, tally: &mut Tally) {
        let body = batch.as_slice().iter().map(|line| line.0).collect::<String>();
        let reply = self.0.post(&headers(), body.into()).await;
        reply.answer.settle(batch.len(), tally);
    }
}

#[tokio::test]
async fn a_delivery_sends_a_batch_until_the_backend_takes_it() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
    let bad = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let mut server = TestServer::start(&[busy, "", ok, bad], None).await;
    let settings = Settings {
        batching: Batching { items: 2, wait: Duration::from_secs(60), ..Batching::default() },
        retry: Retry {
            first_pause: Duration::from_millis(1),
            budget: Duration::from_secs(60),
            ..Retry::default()
        },
        ..Settings::default()
    };
    let lines = Lines(HttpTarget::new(options(server.port)).unwrap());
    let delivery = Delivery::in_task("http test", "", settings, lines);
    for line in ["a", "b", "c", "d"] {
        delivery.accept(Line(line)).unwrap();
    }
    // The second attempt has no answer.
    for body in ["ab", "ab", "ab", "cd"] {
        let request = server.received.recv().await.unwrap();
        assert!(request.ends_with(body), "{request}");
    }
    assert!(delivery.close(Duration::from_secs(60)).await);
    let status = delivery.status();
    assert_eq!((status.delivered, status.failed), (2, 2));
    assert_eq!(delivery.trouble().as_deref(), Some("HTTP status 400 Bad Request"));
}

#[tokio::test]
async fn a_unix_socket_gets_all_requests() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let target = HttpTarget::new(HttpOptions { unix_socket: Some(path), ..options(1) }).unwrap();
    let serving = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"[1]") {
            assert!(stream.read_buf(&mut request).await.unwrap() > 0);
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        String::from_utf8(request).unwrap()
    };
    let headers = headers();
    let (reply, request) = tokio::join!(target.put(&headers, Bytes::from_static(b"[1]")), serving);
    assert_eq!((reply.answer, reply.status), (Answer::Delivered, Some(StatusCode::NO_CONTENT)));
    assert!(request.starts_with("PUT /api?x=1 HTTP/1.1\r\n"), "{request}");
}

/// They take milliseconds, in which the worker that makes a call would answer nobody.
#[test]
fn the_roots_of_the_system_are_not_read_for_each_connection() {
    let read_by_this_thread = || -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let count = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        count.unwrap().parse().unwrap()
    };
    for url in ["http://127.0.0.1:1/", "https://127.0.0.1:1/"] {
        let target = HttpTarget::new(HttpOptions::new(url)).unwrap();
        let before = read_by_this_thread();
        (0..20).for_each(|_| target.client.lock().reconnect());
        let read = read_by_this_thread() - before;
        assert!(read < 64 << 10, "{url}: {read} bytes");
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A server may end a connection that was kept while the next request is on its way.
#[tokio::test]
async fn a_request_is_repeated_once_if_its_connection_ends() {
    for (repeats, answers, outcome) in
        [(true, &[OK, "", OK][..], true), (true, &[OK, "", "", OK], false), (false, &[OK, "", OK], false)]
    {
        let mut server = TestServer::start(answers, None).await;
        let target = HttpTarget::new(HttpOptions { repeats, ..options(server.port) }).unwrap();
        for expected in [true, outcome] {
            let reply = target.post(&headers(), Bytes::from_static(b"[2]")).await;
            assert_eq!(reply.answer == Answer::Delivered, expected, "{repeats} {answers:?}: {reply:?}");
        }
        let mut requests = 0;
        while let Ok(request) = server.received.try_recv() {
            assert!(request.ends_with("\r\n\r\n[2]"), "{request}");
            requests += 1;
        }
        assert_eq!(requests, 2 + usize::from(repeats));
    }
}

#[tokio::test]
async fn a_request_without_an_answer_is_not_repeated() {
    let mut server = TestServer::start(&[], None).await;
    let timeout = Duration::from_millis(100);
    let reply = post(HttpOptions { repeats: true, timeout, ..options(server.port) }, "x").await;
    assert_eq!(reply.answer, Answer::retry("no answer within 100ms"));
    assert!(server.received.try_recv().is_ok() && server.received.try_recv().is_err());
}

#[tokio::test]
async fn connections_are_kept_or_not() {
    for (keeps_connections, connections) in [(true, 1), (false, 3)] {
        let server = TestServer::start(&[OK, OK, OK], None).await;
        let target = HttpTarget::new(HttpOptions { keeps_connections, ..options(server.port) }).unwrap();
        for _ in 0..3 {
            assert_eq!(target.post(&headers(), Bytes::new()).await.answer, Answer::Delivered);
        }
        assert_eq!(server.connections.load(std::sync::atomic::Ordering::Relaxed), connections);
    }
}

/// The first address of a name may be that of a host that is gone.
#[tokio::test]
async fn every_address_of_a_name_is_tried() {
    let server = TestServer::start(&[OK], None).await;
    let silent = tokio::net::TcpSocket::new_v4().unwrap();
    silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let silent = silent.listen(0).unwrap();
    let address = silent.local_addr().unwrap();
    let mut queued = Vec::new();
    let connect =
        || tokio::time::timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address));
    while let Ok(stream) = connect().await {
        queued.push(stream.unwrap());
    }
    let timeout = Duration::from_millis(1500);
    let url = "http://backend.test/".to_owned();
    let target = HttpTarget::new(HttpOptions { timeout, url, ..options(server.port) }).unwrap();
    let addresses = [address, ([127, 0, 0, 1], server.port).into()];
    let client = target.client.lock().recipe.builder(None);
    target.client.lock().current = client.resolve_to_addrs("backend.test", &addresses).build().unwrap();
    assert_eq!(target.post(&headers(), Bytes::new()).await.answer, Answer::Delivered);
}

/// A peer that hangs in the middle of an answer keeps its connection open: over HTTP/2 all that follows would hang as well.
#[tokio::test]
async fn an_answer_that_does_not_end_is_followed_by_a_new_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections: std::sync::Arc<std::sync::atomic::AtomicUsize> = std::sync::Arc::default();
    let counted = std::sync::Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let hangs = counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let mut begun = Vec::new();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    begun.push(respond.send_response(http::Response::new(()), !hangs).unwrap());
                }
            });
        }
    });
    let timeout = Duration::from_millis(300);
    let target = HttpTarget::new(HttpOptions { http2_only: true, timeout, ..options(port) }).unwrap();
    for cut in [Some(Cut::Lost), None, None] {
        let reply = target.post(&headers(), Bytes::from_static(b"x")).await;
        assert_eq!((&reply.answer, reply.cut), (&Answer::Delivered, cut));
    }
    assert_eq!(connections.load(std::sync::atomic::Ordering::Relaxed), 2);
}
