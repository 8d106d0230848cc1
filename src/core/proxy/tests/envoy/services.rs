//! Servers of authorization, rate limits and access logs that answer as paths and descriptors say, and keep what they are told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use mixer_wire::envoy::config::core::v3::{HeaderValue, HeaderValueOption, QueryParameter};
use mixer_wire::envoy::service::accesslog::v3 as als;
use mixer_wire::envoy::service::auth::v3 as auth;
use mixer_wire::envoy::service::ratelimit::v3 as rls;
use mixer_wire::google::rpc::Status as RpcStatus;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// What was received.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) checks: Vec<auth::CheckRequest>,
    pub(crate) limits: Vec<rls::RateLimitRequest>,
    /// Messages of access logs, each with the number of its call.
    pub(crate) logs: Vec<(usize, als::StreamAccessLogsMessage)>,
    calls: usize,
}

/// A running server, on a thread of its own.
pub(crate) struct Services {
    pub(crate) port: u16,
    pub(crate) received: Arc<Mutex<Received>>,
    runtime: Option<tokio::runtime::Runtime>,
}

#[derive(Clone)]
struct Service(Arc<Mutex<Received>>);

impl Services {
    pub(crate) fn start() -> Self {
        Self::at(0)
    }

    /// Starts a server at a port; 0 is any free one.
    pub(crate) fn at(port: u16) -> Self {
        Self::with_limit(port, 4 << 20)
    }

    /// Starts a server that takes messages of access logs, and checks, of so many bytes.
    pub(crate) fn with_limit(port: u16, limit: usize) -> Self {
        let (runtime, listener) = listen(port);
        let received = Arc::<Mutex<Received>>::default();
        let service = Service(Arc::clone(&received));
        let port = listener.local_addr().unwrap().port();
        let server = tonic::transport::Server::builder()
            .add_service(
                auth::authorization_server::AuthorizationServer::new(service.clone())
                    .max_decoding_message_size(limit),
            )
            .add_service(rls::rate_limit_service_server::RateLimitServiceServer::new(service.clone()))
            .add_service(
                als::access_log_service_server::AccessLogServiceServer::new(service)
                    .max_decoding_message_size(limit),
            );
        runtime.spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        Self { port, received, runtime: Some(runtime) }
    }

    /// Takes the requests of rate limits.
    pub(crate) fn limits(&self) -> Vec<rls::RateLimitRequest> {
        std::mem::take(&mut self.received.lock().unwrap().limits)
    }

    /// Takes the checks.
    pub(crate) fn checks(&self) -> Vec<auth::CheckRequest> {
        std::mem::take(&mut self.received.lock().unwrap().checks)
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn listen(port: u16) -> (tokio::runtime::Runtime, TcpListener) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", port))).unwrap();
    (runtime, listener)
}

#[tonic::async_trait]
impl auth::authorization_server::Authorization for Service {
    async fn check(
        &self,
        request: Request<auth::CheckRequest>,
    ) -> Result<Response<auth::CheckResponse>, Status> {
        let request = request.into_inner();
        let attributes = request.attributes.as_ref().unwrap();
        let http = attributes.request.as_ref().unwrap().http.as_ref().unwrap();
        let path = http.path.split('?').next().unwrap_or_default().to_owned();
        self.0.lock().unwrap().checks.push(request);
        if path.ends_with("/slow") {
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        decision(path.rsplit('/').next().unwrap_or_default()).map(Response::new)
    }
}

#[tonic::async_trait]
impl rls::rate_limit_service_server::RateLimitService for Service {
    async fn should_rate_limit(
        &self,
        request: Request<rls::RateLimitRequest>,
    ) -> Result<Response<rls::RateLimitResponse>, Status> {
        let request = request.into_inner();
        let entries = request.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
        let case = entries.filter(|entry| entry.key == "case").map(|entry| entry.value.clone()).next();
        self.0.lock().unwrap().limits.push(request);
        let case = case.unwrap_or_default();
        if case == "slow" {
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        limited(&case).map(Response::new)
    }
}

/// What a case stands for.
fn limited(case: &str) -> Result<rls::RateLimitResponse, Status> {
    use rls::rate_limit_response::{Code, DescriptorStatus, RateLimit};
    let plain = |name: &str, value: &str| header(name, value).unwrap();
    let status = |code: Code, limit: u32, unit, remaining, name: &str| DescriptorStatus {
        code: code.into(),
        current_limit: (limit > 0).then(|| RateLimit {
            requests_per_unit: limit,
            unit,
            name: name.to_owned(),
            unit_multiplier: 0,
        }),
        limit_remaining: remaining,
        duration_until_reset: Some(prost_types::Duration { seconds: 7, nanos: 0 }),
    };
    let of = |code: Code| rls::RateLimitResponse {
        overall_code: code.into(),
        statuses: vec![
            status(code, 100, 2, 9, "by-user"),
            status(Code::Ok, 0, 0, 0, "none"),
            status(Code::Ok, 10, 3, 3, ""),
            status(Code::Ok, 20, 6, 30, ""),
            status(Code::Ok, 20, 7, 30, "week"),
        ],
        ..rls::RateLimitResponse::default()
    };
    Ok(match case {
        "over" => of(Code::OverLimit),
        "over-with" => rls::RateLimitResponse {
            response_headers_to_add: vec![plain("X-Limit", "1"), plain("content-type", "text/html")],
            request_headers_to_add: vec![plain("x-limited", "no")],
            raw_body: Bytes::from_static(b"<p>slow down"),
            ..of(Code::OverLimit)
        },
        "ok-with" => rls::RateLimitResponse {
            response_headers_to_add: vec![plain("x-limit", "1"), plain("x-limit", "2")],
            request_headers_to_add: vec![plain("x-there", "b"), plain("x-new", "c")],
            ..of(Code::Ok)
        },
        "failing" => return Err(Status::unavailable("gone")),
        "unknown" => of(Code::Unknown),
        _ => of(Code::Ok),
    })
}

#[tonic::async_trait]
impl als::access_log_service_server::AccessLogService for Service {
    async fn stream_access_logs(
        &self,
        request: Request<tonic::Streaming<als::StreamAccessLogsMessage>>,
    ) -> Result<Response<als::StreamAccessLogsResponse>, Status> {
        let mut messages = request.into_inner();
        let call = {
            let mut received = self.0.lock().unwrap();
            received.calls += 1;
            received.calls
        };
        while let Some(message) = messages.message().await? {
            let ends = message.identifier.as_ref().is_some_and(|said| said.log_name == "ends");
            self.0.lock().unwrap().logs.push((call, message));
            if ends {
                return Err(Status::unavailable("enough"));
            }
        }
        Ok(Response::new(als::StreamAccessLogsResponse {}))
    }
}

fn header(key: &str, value: &str) -> Option<HeaderValue> {
    Some(HeaderValue { key: key.to_owned(), value: value.to_owned(), raw_value: Bytes::new() })
}

fn option(key: &str, value: &str, append: Option<bool>, action: i32) -> HeaderValueOption {
    HeaderValueOption { header: header(key, value), append, append_action: action }
}

/// Each way of adding a header, to headers that are there (`x-there-…`) and that are not.
fn options() -> Vec<HeaderValueOption> {
    let ways = [
        (None, 0, "0"),
        (None, 1, "1"),
        (None, 2, "2"),
        (None, 3, "3"),
        (Some(true), 0, "true"),
        (Some(false), 0, "false"),
        (Some(false), 1, "false-1"),
    ];
    let both = |(append, action, name): (Option<bool>, i32, &str)| {
        [
            option(&format!("X-There-{name}"), "new", append, action),
            option(&format!("x-new-{name}"), "a", append, action),
            option(&format!("x-new-{name}"), "b", append, action),
        ]
    };
    ways.into_iter().flat_map(both).collect()
}

/// What the last part of a path stands for.
fn decision(name: &str) -> Result<auth::CheckResponse, Status> {
    use auth::check_response::HttpResponse::{DeniedResponse, ErrorResponse, OkResponse};
    let status = |code| Some(RpcStatus { code, message: "why".to_owned(), details: Vec::new() });
    let ok = |ok| auth::CheckResponse {
        status: status(0),
        http_response: Some(OkResponse(ok)),
        dynamic_metadata: None,
    };
    let denied = |code, body: &str, headers| auth::DeniedHttpResponse {
        status: Some(auth::HttpStatus { code }),
        headers,
        body: body.to_owned(),
    };
    let refused = |denied| auth::CheckResponse {
        status: status(7),
        http_response: Some(DeniedResponse(denied)),
        dynamic_metadata: None,
    };
    let parameter = |key: &str, value: &str| QueryParameter { key: key.to_owned(), value: value.to_owned() };
    let set = |name: &str, value: &str| {
        ok(auth::OkHttpResponse {
            headers: vec![option(name, value, None, 2)],
            ..auth::OkHttpResponse::default()
        })
    };
    Ok(match name {
        "bare" => auth::CheckResponse { status: status(0), ..auth::CheckResponse::default() },
        "nothing" => auth::CheckResponse::default(),
        "headers" => ok(auth::OkHttpResponse {
            headers: options(),
            headers_to_remove: vec!["X-Secret".to_owned(), ":path".to_owned(), "host".to_owned()],
            ..auth::OkHttpResponse::default()
        }),
        "response" => {
            ok(auth::OkHttpResponse { response_headers_to_add: options(), ..auth::OkHttpResponse::default() })
        }
        "query" => ok(auth::OkHttpResponse {
            query_parameters_to_set: vec![parameter("b", "2"), parameter("n", "1")],
            query_parameters_to_remove: vec!["gone".to_owned()],
            ..auth::OkHttpResponse::default()
        }),
        "path" => ok(auth::OkHttpResponse {
            headers: vec![option(":path", "/moved", None, 2), option("x-user", "ann", None, 2)],
            ..auth::OkHttpResponse::default()
        }),
        // What cannot be written to a request.
        "break-path" => set(":path", "/p\r\nx: y"),
        "break-host" => set(":authority", "a\r\nb"),
        "break-value" => set("x-user", "a\nb"),
        "break-append" => ok(auth::OkHttpResponse {
            headers: vec![option("x-user", "a\nb", Some(true), 0)],
            ..auth::OkHttpResponse::default()
        }),
        "break-control" => set("x-user", "a\u{1}b"),
        "break-delete" => set("x-user", "a\u{7f}"),
        "break-name" => set("x user", "a"),
        "blank-path" => set(":path", "/public page"),
        "blank-host" => set(":authority", "a b"),
        "blank-query" => ok(auth::OkHttpResponse {
            query_parameters_to_set: vec![parameter("user", "alice smith#\r\n")],
            ..auth::OkHttpResponse::default()
        }),
        "denied" => auth::CheckResponse { status: status(7), ..auth::CheckResponse::default() },
        "contradiction" => auth::CheckResponse {
            status: status(7),
            http_response: Some(OkResponse(auth::OkHttpResponse::default())),
            dynamic_metadata: None,
        },
        "login" => refused(denied(
            302,
            "log in",
            vec![
                option("Location", "/login", None, 0),
                option("set-cookie", "a=1", None, 0),
                option("set-cookie", "b=2", None, 0),
                option("content-type", "text/html", None, 0),
            ],
        )),
        "teapot" => refused(denied(0, "no", options())),
        "quiet" => refused(denied(401, "", Vec::new())),
        "failing" => auth::CheckResponse {
            status: status(13),
            http_response: Some(ErrorResponse(denied(502, "cannot say", Vec::new()))),
            dynamic_metadata: None,
        },
        "unavailable" => return Err(Status::unavailable("gone")),
        "refusing" => return Err(Status::permission_denied("this is no decision")),
        _ => ok(auth::OkHttpResponse::default()),
    })
}

/// Ways to answer a call badly.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// Never.
    Hang,
    /// With a message of other bytes.
    Garbage,
    /// With no message.
    Nothing,
    /// With half of a message.
    Half,
    /// Not with gRPC.
    Html,
    /// With the status of HTTP 500.
    Error,
    /// Byte by byte.
    Slow,
}

/// Starts a server that answers every call badly; returns its port. It ends with the process.
pub(crate) fn faulty(fault: Fault) -> u16 {
    let (runtime, listener) = listen(0);
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        runtime.block_on(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                    while let Some(Ok((_request, respond))) = connection.accept().await {
                        tokio::spawn(answer_badly(fault, respond));
                    }
                });
            }
        });
    });
    port
}

async fn answer_badly(fault: Fault, mut respond: h2::server::SendResponse<Bytes>) {
    let head = |status: u16, kind: &str| {
        let head = http::Response::builder().status(status).header("content-type", kind);
        head.body(()).unwrap()
    };
    let message = |length: u32, body: &[u8]| {
        let mut message = BytesMut::new();
        message.put_u8(0);
        message.put_u32(length);
        message.put_slice(body);
        message.freeze()
    };
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    let (kind, status, body) = match fault {
        Fault::Hang => return std::future::pending().await,
        Fault::Garbage => ("application/grpc", 200, message(4, b"\xff\xff\xff\xff")),
        Fault::Nothing => ("application/grpc", 200, Bytes::new()),
        Fault::Half => ("application/grpc", 200, message(9, b"\x0a\x00")),
        Fault::Html => ("text/html", 200, Bytes::from_static(b"<p>ok</p>")),
        Fault::Error => ("application/grpc", 500, Bytes::new()),
        // A message that allows, too late.
        Fault::Slow => ("application/grpc", 200, message(2, b"\x0a\x00")),
    };
    let Ok(mut stream) = respond.send_response(head(status, kind), false) else { return };
    for byte in body {
        if matches!(fault, Fault::Slow) {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        if stream.send_data(Bytes::copy_from_slice(&[byte]), false).is_err() {
            return;
        }
    }
    let _ = stream.send_trailers(trailers);
}
