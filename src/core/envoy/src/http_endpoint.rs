//! Authorization over HTTP, and rate limits as JSON, on a thread of their own.
//!
//! Each has a socket of its own: the path of a check is chosen by a client of the proxy, and 200 allows the request, so that a socket of
//! checks serves nothing else. See docs/envoy.md.

mod body;
mod headers;
mod json;
mod limits;

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body::Body as _;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::body::BodyLimits;
use self::headers::HeaderAdvice;
use self::limits::LimitsPage;
use crate::config::{HttpSourceIp, config_of, http_paths};
use crate::grpc_endpoint::EndpointContext;
use crate::service::{EnvoyService, EnvoyShared, HttpCheckResponse};
use mixer_api::grpc::{Code, GrpcError};
use mixer_api::load_shedding::LoadShedder;
use mixer_api::unary::Unanswered;
use mixer_api::{CallLimits, CallPool};
use mixer_base::metrics::RpcCounters;
use mixer_base::task::{Group, Task};
use mixer_net::descriptors::DescriptorPlan;
use mixer_net::http::{Connection, HttpBody, HttpLimits, HttpResponse, accept, answer};
use mixer_net::peer::Peer;
use mixer_wire::envoy::config::core::v3::{Address, SocketAddress, address};
use mixer_wire::envoy::service::auth::v3::{AttributeContext, CheckRequest, attribute_context};

/// The methods that the metrics have for calls over HTTP.
const CHECKS: &str = "ext_authz.http/Check";
const LIMITS: &str = "ratelimit.http/ShouldRateLimit";
/// Largest body of a check in bytes.
const MAX_BODY: usize = 4 << 20;
/// Largest body of a request for rate limits in bytes: JSON of 64 descriptors of 1 KiB. It is decoded on the thread that answers checks.
const MAX_JSON: usize = 64 << 10;
/// What a head takes in memory while its request is answered, in its lengths: as it is, as a CheckRequest, and encoded.
const HEAD_COPIES: usize = 3;
/// The part of the memory for connections that the unfinished heads of one socket may take.
const HEADS: usize = 16;
/// The answer to what is no check.
const OUTSIDE: &str = "not found; this port serves checks below check.httpPathPrefix\n";
const TWO_HOSTS: &str = "more than one Host\n";
/// Time limit of each part of a request and of a client that does not read. Envoy keeps idle connections for reuse.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The sockets of Envoy's services over HTTP.
#[derive(Debug, Default)]
pub struct HttpListeners<Socket = TcpListener> {
    /// Checks: ext_authz over HTTP.
    pub checks: Option<Socket>,
    /// Rate limits: the paths of envoyproxy/ratelimit.
    pub rate_limits: Option<Socket>,
}

impl<Socket> HttpListeners<Socket> {
    fn try_map<To>(self, map: impl Fn(Socket) -> std::io::Result<To>) -> std::io::Result<HttpListeners<To>> {
        let (checks, rate_limits) = (self.checks.map(&map), self.rate_limits.map(&map));
        Ok(HttpListeners { checks: checks.transpose()?, rate_limits: rate_limits.transpose()? })
    }

    fn as_ref(&self) -> HttpListeners<&Socket> {
        HttpListeners { checks: self.checks.as_ref(), rate_limits: self.rate_limits.as_ref() }
    }
}

/// What a socket serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Checks,
    RateLimits,
}

/// Serves the sockets on a thread called `name` until `stop` is cancelled, then waits up to `grace` for requests in flight.
///
/// Errors: the thread or its event loop cannot be created.
pub fn start(
    name: &str,
    listeners: HttpListeners,
    context: EndpointContext,
    stop: CancellationToken,
    grace: Duration,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    // The sockets are registered with the event loop of the start-up; the thread registers them with its own.
    let sockets = listeners.try_map(TcpListener::into_std)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let until = stop.clone();
    let is_stopping = move || until.is_cancelled();
    Task::serving("envoy http").spawn_thread(name, is_stopping, move |fault| {
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async {
            let listen = |socket: &std::net::TcpListener| socket.try_clone().and_then(TcpListener::from_std);
            let listeners = match sockets.as_ref().try_map(listen) {
                Ok(listeners) => listeners,
                Err(error) => return tracing::error!(%error, "the HTTP endpoint for Envoy ended"),
            };
            tokio::select! {
                () = serve(&listeners, context.clone(), stop.clone(), grace) => {}
                () = fault.injected() => {}
            }
        });
    })
}

async fn serve(
    listeners: &HttpListeners,
    context: EndpointContext,
    stop: CancellationToken,
    grace: Duration,
) {
    let EndpointContext { shared, limits, memory, pages, .. } = context;
    let CallLimits { pool, shedder, .. } = limits;
    let max_head_bytes = memory.limit() / HEADS;
    let bodies = BodyLimits { memory };
    let service = EnvoyService::new(Arc::clone(&shared));
    let page = LimitsPage::new(&pages);
    let advice = HeaderAdvice::default();
    let metrics = shared.metrics();
    let (checks, limited) = (metrics.rpc(CHECKS), metrics.rpc(LIMITS));
    let registry = Arc::clone(shared.http_connections());
    let endpoint =
        Rc::new(Endpoint { service, shared, pool, shedder, bodies, page, advice, checks, limited });
    let (group, running) = (Group::new("http connection"), TaskTracker::new());
    let limits = HttpLimits {
        max_connections: max_connections(listeners, DescriptorPlan::of_process().envoy_http),
        max_head_bytes,
        head_timeout: TIMEOUT,
        body_timeout: TIMEOUT,
        // A proxy passes on what a client of its own sends.
        min_body_rate: 0,
        write_timeout: TIMEOUT,
    };
    let accept_on = async |role: Role, listener: Option<&TcpListener>| {
        let Some(listener) = listener else { return };
        let begin = |connection: Connection| {
            let endpoint = Rc::clone(&endpoint);
            let registration = registry.register(Peer::Tcp(connection.peer()).to_string(), None);
            let answer = move |request, _: SocketAddr| {
                registration.count_request();
                let endpoint = Rc::clone(&endpoint);
                async move { endpoint.answer(role, request).await }
            };
            group.spawn_local(running.track_future(connection.serve(answer)));
        };
        accept(listener, limits, stop.clone(), begin).await;
    };
    tokio::join!(
        accept_on(Role::Checks, listeners.checks.as_ref()),
        accept_on(Role::RateLimits, listeners.rate_limits.as_ref())
    );
    running.close();
    let _ = tokio::time::timeout(grace, running.wait()).await;
}

/// The connections of one socket: all sockets share the `total`.
fn max_connections(listeners: &HttpListeners, total: usize) -> usize {
    match listeners.checks.is_some() && listeners.rate_limits.is_some() {
        true => (total / 2).max(1),
        false => total,
    }
}

struct Endpoint {
    service: EnvoyService,
    shared: Arc<EnvoyShared>,
    pool: CallPool,
    shedder: Option<Arc<LoadShedder>>,
    bodies: BodyLimits,
    page: LimitsPage,
    advice: HeaderAdvice,
    /// The metrics of checks and of rate limits.
    checks: Arc<RpcCounters>,
    limited: Arc<RpcCounters>,
}

impl Endpoint {
    async fn answer(&self, role: Role, request: Request<HttpBody>) -> HttpResponse {
        let started = Instant::now();
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let counters = match role {
            Role::Checks => Some(&*self.checks),
            Role::RateLimits => {
                (head.method == Method::POST && path == http_paths::JSON).then_some(&*self.limited)
            }
        };
        let shedder = counters.and(self.shedder.as_deref());
        let mut unanswered = Unanswered::new(counters, shedder, started);
        let (code, response) = match role {
            Role::Checks => self.check(&head, path, body, &mut unanswered).await,
            Role::RateLimits => self.rate_limits(&head, path, body, &mut unanswered).await,
        };
        let sent = response.body().size_hint().exact().and_then(|sent| usize::try_from(sent).ok());
        unanswered.end_with(code, started.elapsed(), sent.unwrap_or(0));
        response
    }

    async fn check(
        &self,
        head: &Parts,
        path: &str,
        body: HttpBody,
        call: &mut Unanswered<'_>,
    ) -> (Code, HttpResponse) {
        call.is_refused = true;
        // For Envoy 503 is an error, so that its failure mode decides, and every other status is an answer.
        let mut refused_since = |code: Code, status: StatusCode, text: &str, why: &str| {
            let error = GrpcError::new(code, why);
            let is_denied = status != StatusCode::SERVICE_UNAVAILABLE;
            if is_denied {
                call.note_denied();
            }
            self.service.undecided_http(is_denied, &error, &head.headers, || {
                check_request(&head.method, path, &head.headers, None, &Bytes::new()).encode_to_vec()
            });
            (code, plain(status, text))
        };
        if has_two_hosts(head) {
            let why = TWO_HOSTS.trim_end();
            return refused_since(Code::InvalidArgument, StatusCode::BAD_REQUEST, TWO_HOSTS, why);
        }
        let (check, source) = {
            let published = self.shared.runtime().load();
            // Before routing.
            if let Some(why) = &published.told {
                let text = nothing_serves(why);
                let (code, status) = (Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE);
                return refused_since(code, status, &text, text.trim_end());
            }
            let snapshot = published.routes.snapshot();
            let config = config_of(snapshot);
            self.advice.tell(snapshot, config);
            let prefix = &config.settings.check.http_path_prefix;
            // Before the body is read: 404 denies the request.
            let Some(check) = http_paths::strip_prefix(path, prefix) else {
                let why = format!(
                    "a check over HTTP is outside of `{prefix}` and is refused; set path_prefix of ext_authz, or check.httpPathPrefix"
                );
                mixer_base::warn_limited!(1, "{why}");
                return refused_since(Code::NotFound, StatusCode::NOT_FOUND, OUTSIDE, &why);
            };
            (check, source_ip(&head.headers, &config.http_source_ip))
        };
        // The memory is reserved until the request is answered.
        let head_bytes = HEAD_COPIES * length_of(path, &head.headers);
        let (body, _memory) = match self.bodies.read(body, MAX_BODY, head_bytes).await {
            Ok(read) => read,
            Err(refusal) => {
                let (code, status, text) = refusal.answer();
                return match status.is_server_error() {
                    true => (code, self.undecided(&GrpcError::new(code, text.trim_end()))),
                    false => refused_since(code, status, text, refusal.why()),
                };
            }
        };
        let request = check_request(&head.method, check, &head.headers, source, &body);
        let request = request.encode_to_vec();
        call.arrived(request.len());
        let checked = pin!(Some(self.service.check_http(&request, &head.headers)));
        let checked = self.pool.run(checked, None).await;
        call.note(&checked);
        match checked {
            Ok(response) => (Code::Ok, to_http(response)),
            Err(error) => (error.code, self.undecided(&error)),
        }
    }

    async fn rate_limits(
        &self,
        head: &Parts,
        path: &str,
        body: HttpBody,
        call: &mut Unanswered<'_>,
    ) -> (Code, HttpResponse) {
        let is_call = head.method == Method::POST && path == http_paths::JSON;
        call.is_refused = true;
        let refused = |code: Code, status: StatusCode, text: &str| {
            if is_call {
                self.service.count_unread();
            }
            (code, plain(status, text))
        };
        if has_two_hosts(head) {
            return refused(Code::InvalidArgument, StatusCode::BAD_REQUEST, TWO_HOSTS);
        }
        if let Some(why) = &self.shared.runtime().load().told {
            return refused(Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE, &nothing_serves(why));
        }
        let head_bytes = HEAD_COPIES * length_of(path, &head.headers);
        let (body, _memory) = match self.bodies.read(body, MAX_JSON, head_bytes).await {
            Ok(read) => read,
            Err(refusal) => {
                let (code, status, text) = refusal.answer();
                return refused(code, status, text);
            }
        };
        call.arrived(body.len());
        let response = match (&head.method, path) {
            (&Method::POST, http_paths::JSON) => {
                let (response, result) = json::should_rate_limit(&self.service, &self.pool, &body).await;
                call.note(&result);
                return (result.err().map_or(Code::Ok, |error| error.code), response);
            }
            (&Method::GET, http_paths::ACTIVE_LIMITS) => {
                self.page.answer(self.shared.runtime(), &head.headers).await
            }
            (&Method::GET, http_paths::HEALTH) => plain(StatusCode::OK, "OK\n"),
            _ => plain(
                StatusCode::NOT_FOUND,
                "not found; this port serves POST /json, GET /rlconfig and GET /healthcheck\n",
            ),
        };
        let is_answer = response.status() == StatusCode::OK;
        (if is_answer { Code::Ok } else { Code::Unknown }, response)
    }

    /// The answer to a check that ended without a decision.
    fn undecided(&self, error: &GrpcError) -> HttpResponse {
        match self.service.http_denial_of(error) {
            Some(denial) => to_http(denial),
            // For Envoy 503 is an error: its failure mode decides.
            None => plain(StatusCode::SERVICE_UNAVAILABLE, &format!("{error}\n")),
        }
    }
}

/// Which of them a rule would see is a matter of chance. Spec: RFC 9112 section 3.2.
fn has_two_hosts(head: &Parts) -> bool {
    head.headers.get_all(header::HOST).iter().nth(1).is_some()
}

fn nothing_serves(why: &str) -> String {
    format!("no configuration is served: {why}\n")
}

/// The configured source address of a check; `None` if there is none, or if it is no address.
fn source_ip(headers: &HeaderMap, from: &HttpSourceIp) -> Option<IpAddr> {
    let (name, from_right) = match from {
        HttpSourceIp::None => return None,
        // A header that is repeated is ambiguous.
        HttpSourceIp::Header(name) if headers.get_all(name).iter().nth(1).is_some() => return None,
        HttpSourceIp::Header(name) => (name.as_str(), 1),
        HttpSourceIp::ForwardedFor(from_right) => ("x-forwarded-for", *from_right),
    };
    let lists = headers.get_all(name).iter().rev();
    let mut addresses = lists.flat_map(|list| list.as_bytes().rsplit(|byte| *byte == b','));
    let address = addresses.nth(from_right - 1)?;
    if matches!(from, HttpSourceIp::Header(_)) && addresses.next().is_some() {
        return None;
    }
    std::str::from_utf8(address).ok()?.trim().parse().ok()
}

/// The CheckRequest that Envoy would send over gRPC, whose headers have those of HTTP/2 with a colon. `host`, which it leaves out there, stays:
/// rules may refuse by it.
fn check_request(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    source: Option<IpAddr>,
    body: &Bytes,
) -> CheckRequest {
    // Whatever bytes it has: a rule that refuses by the beginning of a host goes on to.
    let lossy = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let text = |name: &str| headers.get(name).map(lossy).unwrap_or_default();
    let mut all = std::collections::BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        all.entry(name.as_str().to_owned())
            .and_modify(|existing| {
                existing.push(',');
                existing.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    let (method, host) = (method.as_str(), text("host"));
    let scheme = text("x-forwarded-proto");
    let scheme = if scheme.is_empty() { "http".to_owned() } else { scheme };
    // No header that a client sends has such a name.
    let pseudo = [(":authority", &*host), (":method", method), (":path", path), (":scheme", &scheme)];
    all.extend(pseudo.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let http = attribute_context::HttpRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        host,
        scheme,
        headers: all,
        size: i64::try_from(body.len()).unwrap_or(i64::MAX),
        raw_body: body.clone(),
        protocol: "HTTP/1.1".to_owned(),
        ..Default::default()
    };
    let source = source.map(|ip| {
        let address = SocketAddress { address: ip.to_string(), ..Default::default() };
        let address = Address { address: Some(address::Address::SocketAddress(address)) };
        attribute_context::Peer { address: Some(address), ..Default::default() }
    });
    let request =
        attribute_context::Request { time: Some(std::time::SystemTime::now().into()), http: Some(http) };
    CheckRequest {
        attributes: Some(AttributeContext { source, request: Some(request), ..Default::default() }),
    }
}

/// Bytes of a path and of headers; what a CheckRequest has as a header with a colon, too, counts twice.
fn length_of(path: &str, headers: &HeaderMap) -> usize {
    let twice = path.len() + headers.get(header::HOST).map_or(0, HeaderValue::len);
    path.len() + twice + headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>()
}

fn to_http(check: HttpCheckResponse) -> HttpResponse {
    let mut response = HttpResponse::new(check.body.into());
    *response.status_mut() = StatusCode::from_u16(check.status).unwrap_or(StatusCode::FORBIDDEN);
    let headers = response.headers_mut();
    for (name, value) in check.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    if check.status == 200 {
        let mut remove = check.remove;
        remove.push("x-istio-attributes".to_owned());
        if let Ok(list) = HeaderValue::try_from(remove.join(", ")) {
            headers.insert("x-envoy-auth-headers-to-remove", list);
        }
    }
    response
}

fn plain(status: StatusCode, text: &str) -> HttpResponse {
    answer(status, "text/plain", text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_address_is_what_the_settings_say() {
        let mut headers = HeaderMap::new();
        for list in ["192.0.2.1, 10.0.0.7", "10.0.0.8,10.0.0.9"] {
            headers.append("x-forwarded-for", HeaderValue::from_static(list));
        }
        headers.insert("x-client", HeaderValue::from_static(" 2001:db8::1 "));
        headers.insert("x-list", HeaderValue::from_static("10.0.0.1, 10.0.0.2"));
        headers.append("x-twice", HeaderValue::from_static("10.0.0.1"));
        headers.append("x-twice", HeaderValue::from_static("10.0.0.2"));
        let header = |name| HttpSourceIp::Header(HeaderName::from_static(name));
        for (from, expected) in [
            (HttpSourceIp::None, None),
            (HttpSourceIp::ForwardedFor(1), Some("10.0.0.9")),
            (HttpSourceIp::ForwardedFor(3), Some("10.0.0.7")),
            (HttpSourceIp::ForwardedFor(4), Some("192.0.2.1")),
            (HttpSourceIp::ForwardedFor(5), None),
            (header("x-client"), Some("2001:db8::1")),
            (header("x-list"), None),
            (header("x-twice"), None),
            (header("x-absent"), None),
        ] {
            let expected = expected.map(|ip| ip.parse::<IpAddr>().unwrap());
            assert_eq!(source_ip(&headers, &from), expected, "{from:?}");
        }
    }

    #[test]
    fn a_request_has_the_source_that_is_known() {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", HeaderValue::from_static("192.0.2.1"));
        headers.insert(header::HOST, HeaderValue::from_static("shop.example"));
        let of = |source| {
            let request = check_request(&Method::GET, "/a", &headers, source, &Bytes::new());
            request.attributes.unwrap()
        };
        let context = of(Some("10.0.0.7".parse().unwrap()));
        let Some(address::Address::SocketAddress(source)) = context.source.unwrap().address.unwrap().address
        else {
            panic!("no address")
        };
        assert_eq!((source.address.as_str(), source.port_value), ("10.0.0.7", 0));
        assert_eq!(context.request.unwrap().http.unwrap().host, "shop.example");
        assert!(of(None).source.is_none());
    }

    /// A rule that refuses by the beginning of a host is not passed with a byte that is no text.
    #[test]
    fn hosts_with_any_bytes_are_hosts() {
        let mut headers = HeaderMap::new();
        for name in [header::HOST, http::HeaderName::from_static("x-forwarded-proto")] {
            headers.insert(name, HeaderValue::from_bytes(b"internal\xff").unwrap());
        }
        let request = check_request(&Method::GET, "/a", &headers, None, &Bytes::new());
        let http = request.attributes.unwrap().request.unwrap().http.unwrap();
        let shown = "internal\u{fffd}";
        assert_eq!((&*http.host, &*http.scheme, &*http.headers[":authority"]), (shown, shown, shown));
    }
}
