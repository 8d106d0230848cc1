//! A host of HTTP/2 that answers as the path says.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::sync::Notify;

use crate::client::RUNTIME;

/// A host, and what it has seen.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) port: u16,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) requests: Arc<AtomicUsize>,
    /// Checks that are not answered.
    pub(crate) waiting: Arc<AtomicUsize>,
    /// Streams that were reset before they were answered.
    pub(crate) resets: Arc<AtomicUsize>,
    /// Lets `/hold` go on.
    pub(crate) gate: Arc<Notify>,
    /// Paths that were asked for before.
    seen: Arc<Mutex<HashSet<String>>>,
}

impl Host {
    /// Starts a host that takes so many streams on a connection.
    pub(crate) fn start(max_streams: u32) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let host = Self {
            port: listener.local_addr().unwrap().port(),
            connections: Arc::default(),
            requests: Arc::default(),
            waiting: Arc::default(),
            resets: Arc::default(),
            gate: Arc::default(),
            seen: Arc::default(),
        };
        let serving = host.clone();
        RUNTIME.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                serving.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serving.clone().serve(stream, max_streams));
            }
        });
        host
    }

    async fn serve(self, stream: tokio::net::TcpStream, max_streams: u32) {
        let mut builder = h2::server::Builder::new();
        builder.max_concurrent_streams(max_streams);
        let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
        while let Some(Ok((request, respond))) = connection.accept().await {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let path = request.uri().path().to_owned();
            if path.ends_with("/leave") {
                connection.graceful_shutdown();
            }
            tokio::spawn(self.clone().answer(request, respond));
        }
    }

    /// Whether a path was not asked for before.
    fn is_first(&self, path: &str) -> bool {
        self.seen.lock().unwrap().insert(path.to_owned())
    }

    async fn answer(self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let path = request.uri().path().to_owned();
        let kind = path.rsplit('/').next().unwrap_or_default();
        let response = |status: u16, fields: &[(&'static str, &'static str)]| {
            let mut response = Response::new(());
            *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
            for (name, value) in fields {
                response.headers_mut().append(*name, HeaderValue::from_static(value));
            }
            response
        };
        let grpc = ("content-type", "application/grpc");
        let (head, mut stream) = request.into_parts();
        let is_unread = matches!(kind, "never" | "hold" | "reset" | "reset-late" | "refuse")
            || kind == "refuse-first" && self.is_first(&path);
        // A stream whose request is not read is reset when it is dropped.
        let (body, trailers) = if is_unread { (Vec::new(), None) } else { read(&mut stream).await };
        match kind {
            "grpc" => {
                let Ok(mut stream) = respond.send_response(response(200, &[grpc]), false) else { return };
                let _ = stream.send_data(body.into(), false);
                let _ = stream.send_trailers(fine());
            }
            // Calls of a Mixer filter.
            "Check" => {
                let tells = |text: &[u8]| body.windows(text.len()).any(|part| part == text);
                if tells(b"/wait") {
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                    let _ = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
                    self.resets.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                if tells(b"/evil") {
                    return respond.send_reset(Reason::INTERNAL_ERROR);
                }
                if tells(b"/long") {
                    let mut response = response(200, &[grpc, ("grpc-status", "13")]);
                    let long = HeaderValue::try_from("x".repeat(70 << 10)).unwrap();
                    response.headers_mut().insert("grpc-message", long);
                    let _ = respond.send_response(response, true);
                    return;
                }
                let Ok(mut stream) = respond.send_response(response(200, &[grpc]), false) else { return };
                let _ = stream.send_data(checked(tells(b"/denied")), false);
                let _ = stream.send_trailers(fine());
            }
            "Report" => {
                let Ok(mut stream) = respond.send_response(response(200, &[grpc]), false) else { return };
                let _ = stream.send_data(Bytes::from_static(&[0; 5]), false);
                let _ = stream.send_trailers(fine());
            }
            // A call for a rate limit: it is exceeded.
            "ShouldRateLimit" => {
                let Ok(mut stream) = respond.send_response(response(200, &[grpc]), false) else { return };
                let _ = stream.send_data(Bytes::from_static(&[0, 0, 0, 0, 2, 8, 2]), false);
                let _ = stream.send_trailers(fine());
            }
            "trailers-only" => {
                let _ = respond.send_response(response(200, &[grpc, ("grpc-status", "5")]), true);
            }
            "unavailable-first" => {
                let status = if self.is_first(&path) { "14" } else { "0" };
                let _ = respond.send_response(response(200, &[grpc, ("grpc-status", status)]), true);
            }
            "refuse-first" if is_unread => respond.send_reset(Reason::REFUSED_STREAM),
            "refuse" => respond.send_reset(Reason::REFUSED_STREAM),
            "reset" => respond.send_reset(Reason::INTERNAL_ERROR),
            "reset-late" => {
                let Ok(mut stream) = respond.send_response(response(200, &[]), false) else { return };
                let _ = stream.send_data(Bytes::from_static(b"half"), false);
                tokio::time::sleep(Duration::from_millis(100)).await;
                stream.send_reset(Reason::INTERNAL_ERROR);
            }
            "empty" => {
                let _ = respond.send_response(response(200, &[("x-up", "1")]), true);
            }
            "length" => {
                let fields = [("content-length", "4"), ("x-up", "1")];
                let Ok(mut stream) = respond.send_response(response(200, &fields), false) else { return };
                let _ = stream.send_data(Bytes::from_static(b"four"), true);
            }
            // A head that does not say that there is no body.
            "late" | "late-length" | "late-trailers" => {
                let fields: &[_] = if kind == "late-length" { &[("content-length", "4")] } else { &[] };
                let Ok(mut stream) = respond.send_response(response(200, fields), false) else { return };
                tokio::time::sleep(Duration::from_millis(50)).await;
                let _ = match kind {
                    "late-trailers" => stream.send_trailers(fine()),
                    _ => stream.send_data(Bytes::new(), true),
                };
            }
            "many-trailers" => {
                let Ok(mut stream) = respond.send_response(response(200, &[]), false) else { return };
                let mut trailers = HeaderMap::new();
                for _ in 0..101 {
                    trailers.append("x-trailer", HeaderValue::from_static("1"));
                }
                let _ = stream.send_trailers(trailers);
            }
            "blanks" => {
                let Ok(mut stream) = respond.send_response(response(200, &[("x-up", " 1\t")]), false) else {
                    return;
                };
                let mut trailers = fine();
                trailers.insert("grpc-message", HeaderValue::from_static("\tnot fine: "));
                let _ = stream.send_trailers(trailers);
            }
            "204" => {
                let _ = respond.send_response(response(204, &[]), true);
            }
            // Frames of one byte, more than the window of a stream takes; and one without any.
            "drip" => {
                let Ok(mut stream) = respond.send_response(response(200, &[]), false) else { return };
                for _ in 0..100_000 {
                    let _ = stream.send_data(Bytes::from_static(b"."), false);
                }
                let _ = stream.send_data(Bytes::new(), true);
            }
            "flush" => {
                let Ok(mut stream) = respond.send_response(response(200, &[]), false) else { return };
                let _ = stream.send_data(Bytes::new(), false);
                let _ = stream.send_data(Bytes::from_static(b"flushed"), true);
            }
            // A response without a body, and one.
            "204-data" | "304-data" | "304-length" => {
                let fields: &[_] = if kind == "304-length" { &[("content-length", "4")] } else { &[] };
                let status = if kind == "204-data" { 204 } else { 304 };
                let Ok(mut stream) = respond.send_response(response(status, fields), false) else { return };
                let _ = stream.send_data(Bytes::from_static(b"EVIL"), true);
            }
            "204-length" => {
                let fields = [("content-length", "4")];
                let Ok(mut stream) = respond.send_response(response(204, &fields), false) else { return };
                let _ = stream.send_data(Bytes::from_static(b"EVIL"), true);
            }
            "503" => {
                let Ok(mut stream) = respond.send_response(response(503, &[]), false) else { return };
                let _ = stream.send_data(Bytes::from_static(b"busy"), true);
            }
            "hold" => {
                let reset = std::future::poll_fn(|cx| respond.poll_reset(cx));
                tokio::select! {
                    _ = reset => {
                        self.resets.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                    () = self.gate.notified() => {}
                }
                let _ = respond.send_response(response(200, &[]), true);
            }
            "never" => {
                let _ = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
                self.resets.fetch_add(1, Ordering::Relaxed);
            }
            "big" => {
                let Ok(mut stream) = respond.send_response(response(200, &[]), false) else { return };
                let _ = stream.send_data(Bytes::from(vec![b'x'; 3 << 20]), true);
            }
            // The request as it was received.
            _ => {
                let mut lines: Vec<String> = head
                    .headers
                    .iter()
                    .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
                    .collect();
                lines.sort_unstable();
                let first = format!("{} {}", head.method, head.uri);
                let mut text = format!("{first}\n{}\n\n{}", lines.join("\n"), String::from_utf8_lossy(&body));
                for (name, value) in trailers.iter().flatten() {
                    text.push_str(&format!("\n{name}: {}", String::from_utf8_lossy(value.as_bytes())));
                }
                let Ok(mut stream) = respond.send_response(response(200, &[("x-up", "1")]), false) else {
                    return;
                };
                let _ = stream.send_data(text.into(), true);
            }
        }
    }
}

/// The trailers of a call.
fn fine() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers.insert("grpc-message", HeaderValue::from_static("fine"));
    trailers
}

/// The answer to a check, which depends on the path.
fn checked(is_denied: bool) -> Bytes {
    use mixer_wire::istio::mixer::v1 as wire;
    use prost::Message as _;
    let mut precondition = wire::check_response::PreconditionResult {
        valid_use_count: 1000,
        valid_duration: Some(Default::default()),
        ..Default::default()
    };
    if let Some(duration) = &mut precondition.valid_duration {
        duration.seconds = 60;
    }
    let (code, message) = if is_denied { (7, "no") } else { (0, "") };
    precondition.status =
        Some(mixer_wire::google::rpc::Status { code, message: message.to_owned(), details: Vec::new() });
    let path = wire::referenced_attributes::AttributeMatch {
        name: -1,
        condition: wire::referenced_attributes::Condition::Exact.into(),
        ..Default::default()
    };
    precondition.referenced_attributes = Some(wire::ReferencedAttributes {
        words: vec!["request.path".into()],
        attribute_matches: vec![path],
    });
    let message = wire::CheckResponse { precondition: Some(precondition), ..Default::default() };
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
    message.encode(&mut bytes).unwrap();
    bytes.into()
}

/// Reads a body, and the trailers.
async fn read(stream: &mut RecvStream) -> (Vec<u8>, Option<HeaderMap>) {
    let mut body = Vec::new();
    while let Some(Ok(data)) = stream.data().await {
        body.extend_from_slice(&data);
        let _ = stream.flow_control().release_capacity(data.len());
    }
    (body, stream.trailers().await.ok().flatten())
}
