//! Adapters out of process that fail: what checks, quotas and reports get then, what ControlZ says, and that everything is well again
//! without a restart once the adapter is.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::server::SendResponse;
use http::{HeaderMap, Response};
use mixer_wire::istio::mixer::adapter::model::v1beta1 as model;
use prost::Message as _;
use serde_json::Value;
use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::certificates::{Authority, Issued, put};
use crate::outages::configuration;
use crate::support::rpc::{Client, mixer};
use crate::support::sending::count;
use crate::support::{DEADLINE, Finished, Server, http, run_mixer, wait_for};

/// The timeout of handlers whose adapters never answer.
const BRIEF: Duration = Duration::from_secs(2);
/// That of others, which may get little processor time.
pub(crate) const AMPLE: Duration = Duration::from_secs(300);

/// What an adapter does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Allows, grants and takes everything; every check is asked.
    Well,
    /// Never answers a call.
    Hangs,
    /// Resets the stream of each call.
    Resets,
    /// Ends connections with a TCP reset.
    Breaks,
    /// Speaks another protocol.
    TalksNonsense,
    /// Answers with bytes that are no message.
    AnswersGarbage,
    /// Answers as a web server.
    AnswersHttp,
    /// Announces a message of 1 GiB.
    AnswersHugely,
    /// Sends a message piece by piece, which never ends.
    AnswersForever,
    /// Ends the answer before its status.
    EndsEarly,
    /// Takes one call a connection and tells the others in time that it does not.
    GoesAway,
    /// Answers with numbers that make no sense.
    AnswersOddly,
    /// Does not validate instances whose names begin with `bad`.
    Validates,
    /// Answers checks without a session on their connection with UNAUTHENTICATED.
    NeedsSession,
    /// Answers checks with a result of this code.
    Says(i32),
    /// Ends calls with this status.
    Ends(i32),
}

/// A server of adapters.
pub(crate) struct Adapter {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    certificate: Arc<Mutex<Option<Issued>>>,
    place: Socket,
    runtime: tokio::runtime::Runtime,
}

/// What its connections know.
struct Shared {
    mode: Mutex<Mode>,
    calls: AtomicU64,
    /// Sessions of connections that have not ended.
    sessions: AtomicU64,
}

impl Shared {
    fn mode(&self) -> Mode {
        *self.mode.lock().unwrap()
    }
}

/// The session of a connection.
struct Session {
    shared: Arc<Shared>,
    is_open: AtomicBool,
}

impl Session {
    fn becomes(&self, is_open: bool) {
        match (self.is_open.swap(is_open, Ordering::SeqCst), is_open) {
            (false, true) => _ = self.shared.sessions.fetch_add(1, Ordering::SeqCst),
            (true, false) => _ = self.shared.sessions.fetch_sub(1, Ordering::SeqCst),
            _ => {}
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.becomes(false);
    }
}

impl Adapter {
    /// Has a port and does not listen yet.
    pub(crate) fn new(mode: Mode) -> Self {
        let place = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        place.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let port = place.local_addr().unwrap().as_socket().unwrap().port();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let shared = Shared { mode: Mutex::new(mode), calls: AtomicU64::new(0), sessions: AtomicU64::new(0) };
        Self { port, shared: Arc::new(shared), certificate: Arc::default(), place, runtime }
    }

    pub(crate) fn listening(mode: Mode) -> Self {
        let adapter = Self::new(mode);
        adapter.listen();
        adapter
    }

    pub(crate) fn listen(&self) {
        self.place.listen(64).unwrap();
        self.place.set_nonblocking(true).unwrap();
        let (shared, certificate) = (Arc::clone(&self.shared), Arc::clone(&self.certificate));
        let listener: std::net::TcpListener = self.place.try_clone().unwrap().into();
        self.runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                let tls = certificate.lock().unwrap().as_ref().map(|issued| {
                    let mut config = (*configuration(issued)).clone();
                    config.alpn_protocols = vec![b"h2".to_vec()];
                    tokio_rustls::TlsAcceptor::from(Arc::new(config))
                });
                tokio::spawn(async move {
                    match tls {
                        None => connection(stream, shared).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, shared).await;
                            }
                        }
                    }
                });
            }
        });
    }

    pub(crate) fn becomes(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap() = mode;
    }

    fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn sessions(&self) -> u64 {
        self.shared.sessions.load(Ordering::SeqCst)
    }
}

/// Serves a connection as the adapter is when it begins.
async fn connection(mut stream: TcpStream, shared: Arc<Shared>) {
    match shared.mode() {
        Mode::Breaks => {
            shared.calls.fetch_add(1, Ordering::Relaxed);
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
        Mode::TalksNonsense => {
            shared.calls.fetch_add(1, Ordering::Relaxed);
            let _ = stream.write_all(b"220 mail.example.com ESMTP\r\n\r\n").await;
            let _ = stream.read(&mut [0; 1024]).await;
        }
        _ => serve(stream, shared).await,
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, shared: Arc<Shared>) {
    let session = Arc::new(Session { shared: Arc::clone(&shared), is_open: AtomicBool::new(false) });
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        shared.calls.fetch_add(1, Ordering::Relaxed);
        let mode = shared.mode();
        tokio::spawn(call(request, respond, mode, Arc::clone(&session)));
        if mode == Mode::GoesAway {
            connection.graceful_shutdown();
        }
        if mode == Mode::Breaks {
            return;
        }
    }
}

async fn call(
    request: http::Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    mode: Mode,
    session: Arc<Session>,
) {
    let (head, mut body) = request.into_parts();
    let mut received = Vec::new();
    while let Some(Ok(chunk)) = body.data().await {
        received.extend_from_slice(&chunk);
        let _ = body.flow_control().release_capacity(chunk.len());
    }
    let ok = || Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    match mode {
        Mode::Hangs => std::future::pending().await,
        Mode::Resets => respond.send_reset(h2::Reason::INTERNAL_ERROR),
        Mode::AnswersHttp => {
            let page = Response::builder().status(503).header("content-type", "text/html").body(()).unwrap();
            let mut stream = respond.send_response(page, false).unwrap();
            let _ = stream.send_data(Bytes::from_static(b"<html>"), true);
        }
        Mode::AnswersHugely => {
            let mut stream = respond.send_response(ok(), false).unwrap();
            let _ = stream.send_data(Bytes::from_static(b"\0\x40\0\0\0"), false);
            std::future::pending().await
        }
        Mode::AnswersForever => {
            let mut stream = respond.send_response(ok(), false).unwrap();
            let _ = stream.send_data(Bytes::from_static(b"\0\0\0\xff\xff"), false);
            while stream.send_data(Bytes::from_static(b"\x0a\x00"), false).is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        Mode::EndsEarly => {
            let mut stream = respond.send_response(ok(), false).unwrap();
            let _ = stream.send_data(framed(b""), true);
        }
        _ => {
            let path = head.uri.path();
            if path.ends_with("Session") {
                session.becomes(path.ends_with("/CreateSession"));
            }
            let mode = match mode {
                Mode::NeedsSession if !session.is_open.load(Ordering::SeqCst) => Mode::Says(16),
                mode => mode,
            };
            let message = match mode {
                Mode::Says(code) if path.ends_with("/HandleListEntry") => {
                    let status = mixer_wire::google::rpc::Status { code, ..Default::default() };
                    model::CheckResult { status: Some(status), ..Default::default() }.encode_to_vec()
                }
                Mode::AnswersGarbage => b"\xff\xff\xff\xff\xff\xff".to_vec(),
                Mode::Validates if path.ends_with("/Validate") => {
                    validation(received.get(5..).unwrap_or_default())
                }
                _ => answer(path, received.get(5..).unwrap_or_default(), mode == Mode::AnswersOddly),
            };
            // The connection may have ended.
            let Ok(mut stream) = respond.send_response(ok(), false) else { return };
            let _ = stream.send_data(framed(&message), false);
            let status = if let Mode::Ends(status) = mode { status } else { 0 };
            let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), status.into())]);
            let _ = stream.send_trailers(trailers);
        }
    }
}

fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap());
    framed.put_slice(message);
    framed.freeze()
}

/// The answer of an adapter that looks at its instances.
fn validation(request: &[u8]) -> Vec<u8> {
    let types = model::ValidateRequest::decode(request).unwrap().inferred_types;
    let status = types.keys().find(|name| name.starts_with("bad")).map(|name| {
        let message = format!("{name} is unknown");
        mixer_wire::google::rpc::Status { code: 3, message, details: Vec::new() }
    });
    model::ValidateResponse { status }.encode_to_vec()
}

/// The answer to a call.
fn answer(path: &str, request: &[u8], is_odd: bool) -> Vec<u8> {
    if path.ends_with("/HandleQuota") {
        let request = mixer_wire::quota::HandleQuotaRequest::decode(request).unwrap();
        let asked = request.quota_request.unwrap_or_default().quotas;
        let granted = asked.into_iter().map(|(name, asked)| {
            let granted_amount = match (is_odd, asked.best_effort) {
                (false, _) => asked.amount,
                (true, false) => asked.amount + 1_000,
                (true, true) => -5,
            };
            let seconds = if is_odd { i64::MIN } else { 1 };
            let valid_duration = Some(prost_types::Duration { seconds, nanos: 0 });
            (name, model::quota_result::Result { granted_amount, valid_duration, status: None })
        });
        return model::QuotaResult { quotas: granted.collect() }.encode_to_vec();
    }
    if path.ends_with("/HandleLogEntry") {
        return Vec::new();
    }
    if path.ends_with("/CreateSession") {
        return model::CreateSessionResponse { session_id: "session-1".to_owned(), status: None }
            .encode_to_vec();
    }
    if path.ends_with("/Validate") || path.ends_with("/CloseSession") {
        return Vec::new();
    }
    let result = match is_odd {
        false => model::CheckResult { valid_use_count: 1, ..Default::default() },
        true => model::CheckResult {
            status: None,
            valid_duration: Some(prost_types::Duration { seconds: -7, nanos: i32::MIN }),
            valid_use_count: -3,
        },
    };
    result.encode_to_vec()
}

/// The descriptors of the golden cases.
fn descriptor(name: &str) -> String {
    let path =
        format!("{}/testdata/conformance/adapters-remote/descriptors/{name}.b64", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

/// Templates, an adapter, and an instance of each template.
pub(crate) fn common(session_based: bool) -> String {
    let mut text = "apiVersion: config.istio.io/v1alpha2\nkind: attributemanifest\nmetadata: {name: words, namespace: istio-system}\n\
                    spec: {attributes: {source.user: {valueType: STRING}}}\n"
        .to_owned();
    let params = [
        ("listentry", "{value: source.user | \"\"}"),
        ("quota", "{dimensions: {user: source.user | \"\"}}"),
        ("logentry", "{variables: {user: source.user | \"\"}}"),
    ];
    for (template, params) in params {
        text += &format!(
            "---\napiVersion: config.istio.io/v1alpha2\nkind: template\nmetadata: {{name: {template}, namespace: istio-system}}\n\
             spec: {{descriptor: \"{}\"}}\n---\napiVersion: config.istio.io/v1alpha2\nkind: instance\n\
             metadata: {{name: {template}, namespace: istio-system}}\nspec: {{template: {template}, params: {params}}}\n",
            descriptor(template)
        );
    }
    text + &format!(
        "---\napiVersion: config.istio.io/v1alpha2\nkind: adapter\nmetadata: {{name: adapter, namespace: istio-system}}\n\
         spec: {{templates: [listentry, quota, logentry], session_based: {session_based}}}\n"
    )
}

/// A handler of the adapter, for the user of the same name.
pub(crate) fn handler(name: &str, connection: &str, on_error: &str) -> String {
    let annotation = match on_error {
        "" => String::new(),
        policy => format!(", annotations: {{mixer.dev/on-error: {policy}}}"),
    };
    format!(
        "---\napiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {{name: {name}, namespace: istio-system{annotation}}}\n\
         spec: {{adapter: adapter, connection: {{{connection}}}}}\n\
         ---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{match: 'source.user == \"{name}\"', actions: [{{handler: {name}, instances: [listentry, quota, logentry]}}]}}\n"
    )
}

/// Plain text to a port.
pub(crate) fn plain(port: u16, timeout: Duration) -> String {
    format!("address: \"127.0.0.1:{port}\", timeout: {}s", timeout.as_secs())
}

pub(crate) fn start(directory: &Path, text: &str, arguments: &[&str]) -> Server {
    std::fs::write(directory.join("config.yaml"), text).unwrap();
    Server::on(directory).native().with(arguments).start()
}

pub(crate) fn check(server: &Server, user: &str, more: &[&str]) -> Finished {
    let (user, address) = (format!("source.user={user}"), server.address());
    run_mixer(&[&["check", "-o", "json", "-s", &user, "-m", &address], more].concat())
}

/// Results and errors.
pub(crate) fn said(ran: &Finished) -> String {
    format!("{}{}", ran.stdout, ran.stderr)
}

/// A handler in ControlZ.
pub(crate) fn shown(server: &Server, name: &str) -> Value {
    let url = format!("http://127.0.0.1:{}/handlerj/", server.ports.ctrlz);
    let all: Value = serde_json::from_str(&http("GET", &url, "").unwrap().body).unwrap();
    let name = format!("{name}.handler.istio-system");
    all.as_array().unwrap().iter().find(|handler| handler["name"] == *name).cloned().unwrap_or_default()
}

/// Faults and what the call of a handler without `on-error` says.
const FAULTS: [(&str, Mode, &str); 10] = [
    ("hangs", Mode::Hangs, "rpc error: code = DeadlineExceeded desc = no answer within 2s"),
    ("resets", Mode::Resets, "rpc error: code = Internal desc = "),
    ("breaks", Mode::Breaks, "rpc error: code = Unavailable desc = "),
    ("nonsense", Mode::TalksNonsense, "rpc error: code = "),
    ("garbage", Mode::AnswersGarbage, "rpc error: code = Internal desc = grpc: failed to unmarshal"),
    (
        "http",
        Mode::AnswersHttp,
        "rpc error: code = Unavailable desc = unexpected HTTP status code received from server: 503",
    ),
    (
        "hugely",
        Mode::AnswersHugely,
        "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (1073741824 vs. 262144)",
    ),
    ("forever", Mode::AnswersForever, "rpc error: code = DeadlineExceeded desc = no answer within 2s"),
    (
        "early",
        Mode::EndsEarly,
        "rpc error: code = Internal desc = server closed the stream without sending trailers",
    ),
    ("absent", Mode::Well, "rpc error: code = Unavailable desc = cannot connect: "),
];

#[test]
fn every_fault_fails_its_calls_only_and_ends_with_its_cause() {
    let directory = tempfile::tempdir().unwrap();
    let adapters = FAULTS.map(|(name, mode, _)| match name {
        "absent" => Adapter::new(mode),
        _ => Adapter::listening(mode),
    });
    let well = Adapter::listening(Mode::Well);
    let mut text = common(false) + &handler("well", &plain(well.port, AMPLE), "");
    for ((name, ..), adapter) in FAULTS.iter().zip(&adapters) {
        let timeout = if ["hangs", "forever"].contains(name) { BRIEF } else { AMPLE };
        for on_error in ["", "deny", "allow"] {
            text += &handler(&format!("{name}{on_error}"), &plain(adapter.port, timeout), on_error);
        }
    }
    let mut server = start(directory.path(), &text, &[]);
    for (name, _, why) in FAULTS {
        let began = Instant::now();
        let failed = check(&server, name, &[]);
        assert_eq!(failed.status, 4, "{name}: {}{}", failed.stdout, failed.stderr);
        assert!(said(&failed).contains(why), "{name}: {}", said(&failed));
        assert!(began.elapsed() < Duration::from_secs(10), "{name}");
        let denied = check(&server, &format!("{name}deny"), &[]);
        assert_eq!(denied.status, 1, "{name}: {}{}", denied.stdout, denied.stderr);
        assert!(denied.stdout.contains("PERMISSION_DENIED"), "{name}: {}", denied.stdout);
        let allowed = check(&server, &format!("{name}allow"), &[]);
        assert_eq!(allowed.status, 0, "{name}: {}{}", allowed.stdout, allowed.stderr);
        for on_error in ["", "deny", "allow"] {
            let shown = shown(&server, &format!("{name}{on_error}"));
            assert_eq!(shown["state"], "troubled", "{name}: {shown}");
            assert!(
                shown["trouble"].as_str().is_some_and(|trouble| trouble.contains(why)),
                "{name}: {shown}"
            );
            assert_eq!((count(&shown, "calls"), count(&shown, "errors")), (1, 1), "{name}: {shown}");
        }
        assert_eq!(check(&server, "well", &[]).status, 0, "{name}");
        // A report is not acknowledged either.
        let reported = run_mixer(&["report", "-s", &format!("source.user={name}"), "-m", &server.address()]);
        assert_eq!(reported.status, 4, "{name}: {}{}", reported.stdout, reported.stderr);
    }
    assert_eq!((shown(&server, "well")["state"].as_str(), well.calls()), (Some("live"), 10));
    for ((name, ..), adapter) in FAULTS.iter().zip(&adapters) {
        adapter.becomes(Mode::Well);
        if *name == "absent" {
            adapter.listen();
        }
        let again = check(&server, name, &["-q", "quota=3"]);
        assert_eq!(again.status, 0, "{name}: {}{}", again.stdout, again.stderr);
        assert_eq!(shown(&server, name)["state"], "live", "{name}");
    }
    assert!(server.is_alive() && !server.log().contains("panic"), "{}", server.log());
}

#[test]
fn a_call_that_was_not_begun_is_sent_on_another_connection() {
    let directory = tempfile::tempdir().unwrap();
    let adapter = Adapter::listening(Mode::GoesAway);
    let text = common(false) + &handler("away", &plain(adapter.port, AMPLE), "");
    let server = start(directory.path(), &text, &["--concurrency", "1"]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let answered = check(&server, "away", &[]);
                    assert_eq!(answered.status, 0, "{}{}", answered.stdout, answered.stderr);
                }
            });
        }
    });
    assert_eq!(adapter.calls(), 40, "every call was begun once");
}

#[test]
fn numbers_without_sense_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let adapter = Adapter::listening(Mode::AnswersOddly);
    let text = common(false) + &handler("odd", &plain(adapter.port, AMPLE), "");
    let server = start(directory.path(), &text, &[]);
    let document = |ran: &Finished| -> Value {
        serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", ran.stdout, ran.stderr))
    };
    let mut client = Client::new(&server.address()).unwrap();
    let attributes = crate::support::bag::Attributes::from([(
        "source.user".to_owned(),
        crate::support::bag::Attribute::Text("odd".to_owned()),
    )]);
    let encoded = crate::support::bag::encode_alone(&attributes, crate::support::bag::Words::of_message());
    let request = |best_effort| mixer::CheckRequest {
        attributes: Some(encoded.clone()),
        global_word_count: 222,
        quotas: [("quota".to_owned(), mixer::check_request::QuotaParams { amount: 3, best_effort })].into(),
        ..Default::default()
    };
    for (best_effort, granted) in [(false, 3), (true, 0)] {
        let answer = client.check(&request(best_effort), None).unwrap();
        let precondition = answer.precondition.unwrap();
        assert_eq!(precondition.valid_use_count, 0);
        let duration = precondition.valid_duration.unwrap_or_default();
        assert_eq!((duration.seconds, duration.nanos), (0, 0));
        let quota = &answer.quotas["quota"];
        assert_eq!(quota.granted_amount, granted, "{quota:?}");
        let duration = quota.valid_duration.unwrap_or_default();
        assert_eq!((duration.seconds, duration.nanos), (0, 0), "{quota:?}");
    }
    assert_eq!(document(&check(&server, "odd", &[]))["kind"], "CheckResult");
}

#[test]
fn calls_of_one_adapter_are_bounded_and_those_of_others_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let (hanging, well) = (Adapter::listening(Mode::Hangs), Adapter::listening(Mode::Well));
    let connection = format!("address: \"127.0.0.1:{}\", timeout: 300s", hanging.port);
    let text =
        common(false) + &handler("hangs", &connection, "") + &handler("well", &plain(well.port, AMPLE), "");
    let arguments = ["--adapter-worker-pool-size", "2", "--adapter-queue-length", "3"];
    let server = start(directory.path(), &text, &arguments);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8).map(|_| scope.spawn(|| check(&server, "hangs", &[]))).collect();
        let full = wait_for(DEADLINE, || {
            (callers.iter().filter(|caller| caller.is_finished()).count() == 3).then_some(())
        });
        assert!(full.is_some(), "three calls are refused");
        let queues = shown(&server, "hangs")["queues"].clone();
        for (at, name, expected) in [(0, "calls in flight", [2, 2, 0]), (1, "queued calls", [3, 3, 3])] {
            assert_eq!(queues[at]["name"], name, "{queues}");
            assert_eq!(
                ["length", "capacity", "dropped"].map(|key| count(&queues[at], key)),
                expected,
                "{queues}"
            );
        }
        assert_eq!(hanging.calls(), 2);
        assert_eq!(check(&server, "well", &[]).status, 0);
        for caller in callers.into_iter().filter(|caller| caller.is_finished()) {
            let refused = caller.join().unwrap();
            assert_eq!(refused.status, 4);
            assert!(said(&refused).contains("too many calls of this handler"), "{}", said(&refused));
        }
        server.signal("KILL");
    });
}

#[test]
fn who_does_not_wait_as_long_as_the_handler_is_told_and_the_handler_is_troubled() {
    let directory = tempfile::tempdir().unwrap();
    let adapter = Adapter::listening(Mode::Hangs);
    let connection = format!("address: \"127.0.0.1:{}\", timeout: 300s", adapter.port);
    let server = start(directory.path(), &(common(false) + &handler("hangs", &connection, "")), &[]);
    let left = check(&server, "hangs", &["--timeout", "200ms"]);
    assert_eq!(left.status, 5, "{}{}", left.stdout, left.stderr);
    let troubled = wait_for(DEADLINE, || (shown(&server, "hangs")["state"] == "troubled").then_some(()));
    assert!(troubled.is_some(), "{}", shown(&server, "hangs"));
    adapter.becomes(Mode::Well);
    assert_eq!(check(&server, "hangs", &[]).status, 0);
    assert_eq!(shown(&server, "hangs")["state"], "live");
}

#[test]
fn a_new_certificate_is_trusted_once_its_authority_is() {
    let directory = tempfile::tempdir().unwrap();
    let authorities = [Authority::new(), Authority::new()];
    let files = tempfile::tempdir().unwrap();
    let roots = put(files.path(), "roots.pem", &authorities[0].certificate);
    let token = put(files.path(), "token", "secret");
    let adapter = Adapter::listening(Mode::Well);
    *adapter.certificate.lock().unwrap() = Some(authorities[0].issue(&["127.0.0.1"]));
    let connection = format!(
        "address: \"127.0.0.1:{}\", timeout: 300s, authentication: {{tls: {{caCertificates: '{roots}', tokenPath: '{token}', authHeader: PLAIN}}}}",
        adapter.port
    );
    let server =
        start(directory.path(), &(common(false) + &handler("tls", &connection, "")), &["--concurrency", "1"]);
    assert_eq!(check(&server, "tls", &[]).status, 0, "{}", server.log());
    // Whoever has a connection goes on; the next one meets the new certificate.
    *adapter.certificate.lock().unwrap() = Some(authorities[1].issue(&["127.0.0.1"]));
    adapter.becomes(Mode::Breaks);
    assert_eq!(check(&server, "tls", &[]).status, 4);
    adapter.becomes(Mode::Well);
    let refused = check(&server, "tls", &[]);
    assert_eq!(refused.status, 4, "{}", refused.stdout);
    let why = said(&refused);
    assert!(why.contains("code = Unavailable") && why.contains("certificate"), "{why}");
    assert_eq!(shown(&server, "tls")["state"], "troubled");
    put(files.path(), "roots.pem", &authorities[1].certificate);
    let trusted = check(&server, "tls", &[]);
    assert_eq!(trusted.status, 0, "{}{}", trusted.stdout, trusted.stderr);
    assert_eq!(shown(&server, "tls")["state"], "live");
}
