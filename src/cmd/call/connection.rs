//! The connection to a server: HTTP/2 over TCP, TLS or a Unix socket, opened by the first call.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::sync::OnceCell;
use tonic::transport::{Channel, Endpoint, Uri};

use super::status::{RpcError, START_ONE};
use super::trace::{CallSpan, CallTracer};
use crate::cmd::endpoint::{self, Endpoint as Found};
use mixer_api::ExplainResponse;
use mixer_base::rotate::os_text;
use mixer_base::secrets::mask_address;
use mixer_engine::explain::PAGE_HEADER;
use mixer_net::tls::ClientTls;
use mixer_wire::istio::mixer::v1::mixer_client::MixerClient;
use mixer_wire::istio::mixer::v1::{CheckRequest, CheckResponse, ReportRequest};

/// The target of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DialTarget {
    /// `host:port`.
    Tcp(String),
    /// Path of a Unix socket.
    Unix(PathBuf),
    /// An invalid target, with the error of every call.
    Invalid { text: String, go_text: String },
}

impl std::fmt::Display for DialTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DialTarget::Tcp(address) => f.write_str(&mask_address(address)),
            DialTarget::Unix(path) => path.display().fmt(f),
            DialTarget::Invalid { text, .. } => f.write_str(text),
        }
    }
}

impl DialTarget {
    fn parse(text: &str) -> DialTarget {
        if let Some(path) = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")) {
            return DialTarget::Unix(PathBuf::from(path));
        }
        let address = text.strip_prefix("dns:///").unwrap_or(text);
        let refuse = |why: &str| DialTarget::Invalid {
            text: format!(
                "`{}` is no address: {why}; write HOST:PORT, or unix:///PATH",
                mask_address(address)
            ),
            go_text: format!("dial tcp: address {address}: {why} in address"),
        };
        match address.rsplit_once(':') {
            None => refuse("missing port"),
            Some((host, _)) if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) => {
                refuse("too many colons")
            }
            Some((_, "")) => refuse("missing port"),
            Some(_) => DialTarget::Tcp(address.to_owned()),
        }
    }

    /// `network` and `address` as Go names them.
    fn no_answer(&self, network: &str, address: impl std::fmt::Display, error: &std::io::Error) -> DialError {
        let cause = os_text(error);
        DialError {
            text: format!("no server answers at {self}: {cause}"),
            go_text: format!("dial {network} {address}: connect: {cause}"),
            hint: START_ONE,
            is_handshake: false,
        }
    }
}

/// A failed connection attempt.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct DialError {
    text: String,
    /// That of gRPC's implementation in Go, which Istio mixc prints.
    go_text: String,
    /// What helps.
    hint: &'static str,
    /// Whether a server was reached and the handshake of TLS failed.
    is_handshake: bool,
}

/// What helps if the handshake fails.
const TRUST: &str = "--ca-file and --server-name say whom to trust, --cert-file and --key-file who calls";

/// What helps if a server ends a connection of TLS.
const CLIENT_CERTIFICATE: &str = "it may ask for a certificate, or for another one: --cert-file and --key-file say who calls; the log of the server has the \
                                  reason";

/// A client of one server. Cheap to clone; clones share the connection.
#[derive(Debug, Clone)]
pub(crate) struct MixerConnection {
    client: MixerClient<Channel>,
    channel: Channel,
    timeout: Option<Duration>,
    /// Whether the timeout is [`DEFAULT_TIMEOUT`] because none was given.
    has_default_timeout: bool,
    calls: Option<CallTracer>,
    dialer: Arc<Dialer>,
    /// What was found at the target, once a call has failed because it is not the API; `None` if nobody is to look.
    found: Option<Arc<OnceCell<Option<Found>>>>,
}

/// Opens connections.
#[derive(Debug)]
struct Dialer {
    target: DialTarget,
    tls: Option<ClientTls>,
}

/// Timeout of a call to which nobody gave one.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Why a server may not answer.
const SILENT: &str = "it may wait for its configuration, or be busy: `mixer probe` tells whether it is ready, and --timeout says how long to wait";

/// Initial delay between connection attempts; doubles up to [`MAX_RETRY_DELAY`].
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Maximum delay between connection attempts.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);

impl MixerConnection {
    /// Prepares a connection without opening it. Must be called inside a tokio runtime.
    pub(crate) fn new(target: &str, timeout: Option<Duration>, tls: Option<ClientTls>) -> Self {
        let dialer = Arc::new(Dialer { target: DialTarget::parse(target), tls });
        let authority = match &dialer.target {
            DialTarget::Tcp(address) => address.clone(),
            _ => "localhost".to_owned(),
        };
        let uri = Uri::try_from(format!("http://{authority}"))
            .or_else(|_| Uri::try_from("http://localhost"))
            .unwrap_or_default();
        let dialing = Arc::clone(&dialer);
        let connector = tower::service_fn(move |_: Uri| {
            let dialer = Arc::clone(&dialing);
            async move { dialer.dial().await.map(TokioIo::new) }
        });
        let mut endpoint = Endpoint::from(uri.clone());
        if dialer.tls.is_some()
            && let Some(authority) = uri.authority()
            && let Ok(origin) = Uri::try_from(format!("https://{authority}"))
        {
            endpoint = endpoint.origin(origin);
        }
        let channel = endpoint.connect_with_connector_lazy(connector);
        let client = MixerClient::new(channel.clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        Self { client, channel, timeout, has_default_timeout: false, calls: None, dialer, found: None }
    }

    /// Limits the time of calls, unless they are limited already.
    pub(super) fn patient(self) -> Self {
        match self.timeout {
            Some(_) => self,
            None => Self { timeout: Some(DEFAULT_TIMEOUT), has_default_timeout: true, ..self },
        }
    }

    /// Traces the calls of this connection.
    pub(super) fn traced(self, calls: Option<CallTracer>) -> Self {
        Self { calls, ..self }
    }

    /// Looks what answers at the target after a call that failed because it is not the API, and says so.
    pub(crate) fn explaining(self) -> Self {
        Self { found: Some(Arc::default()), ..self }
    }

    /// An answer, or what failed with what was found at the target instead of the API. The target is looked at once.
    async fn explained<T>(&self, answer: Result<T, RpcError>) -> Result<T, RpcError> {
        let Err(error) = answer else { return answer };
        if let Some(limit) = self.timeout.filter(|_| self.has_default_timeout)
            && error.code == i32::from(tonic::Code::DeadlineExceeded)
        {
            return Err(error.unreachable(format!("no answer within {limit:?}"), SILENT));
        }
        let DialTarget::Tcp(address) = &self.dialer.target else { return Err(error) };
        let Some(cell) = self.found.as_ref().filter(|_| error.is_garbled) else { return Err(error) };
        let found = cell.get_or_init(|| endpoint::identify(address)).await;
        let instead = found.and_then(|found| self.dialer.instead(address, found));
        let instead = instead.or_else(|| without_grpc(address, &error.message));
        // A server that speaks TLS 1.3 refuses a client after the handshake of that.
        let is_refused =
            *found == Some(Found::Tls) && self.dialer.tls.is_some() && error.unreachable.is_none();
        let refused = || {
            let why = format!("the server at {address} ended the TLS connection: {}", error.message);
            (why, CLIENT_CERTIFICATE.to_owned())
        };
        Err(match instead.or_else(|| is_refused.then(refused)) {
            Some((why, hint)) => error.unreachable(why, hint),
            None => error,
        })
    }

    /// Waits until the server is reachable, at most for the timeout of a call. Errors: the last connection error.
    pub(crate) async fn wait_for_ready(&self) -> Result<(), RpcError> {
        let started = tokio::time::Instant::now();
        let mut delay = RETRY_DELAY;
        loop {
            let Err(error) = self.dialer.dial().await else { return Ok(()) };
            if self.timeout.is_some_and(|limit| started.elapsed() + delay >= limit) {
                let message = format!("the server cannot be reached: {error}");
                return Err(RpcError::new(tonic::Code::DeadlineExceeded, message));
            }
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(MAX_RETRY_DELAY);
        }
    }

    /// Calls Check.
    pub(crate) async fn check(&mut self, request: CheckRequest) -> Result<CheckResponse, RpcError> {
        let mut request = self.request(request);
        let span = self.begin("/istio.mixer.v1.Mixer/Check", &mut request);
        let answer = with_timeout(self.timeout, self.client.check(request)).await;
        let answer = self.explained(answer).await;
        span.into_iter().for_each(|span| span.end(&answer));
        answer
    }

    /// Calls Report.
    pub(crate) async fn report(&mut self, request: ReportRequest) -> Result<(), RpcError> {
        let mut request = self.request(request);
        let span = self.begin("/istio.mixer.v1.Mixer/Report", &mut request);
        let answer = with_timeout(self.timeout, self.client.report(request)).await.map(drop);
        let answer = self.explained(answer).await;
        span.into_iter().for_each(|span| span.end(&answer));
        answer
    }

    /// Calls a unary method.
    pub(crate) async fn unary<M, R>(&mut self, message: M, path: &'static str) -> Result<R, RpcError>
    where
        M: prost::Message + 'static,
        R: prost::Message + Default + 'static,
    {
        let request = self.request(message);
        self.unary_request(request, path).await
    }

    async fn unary_request<M, R>(
        &mut self,
        request: tonic::Request<M>,
        path: &'static str,
    ) -> Result<R, RpcError>
    where
        M: prost::Message + 'static,
        R: prost::Message + Default + 'static,
    {
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        let call = async {
            client.ready().await.map_err(|e| tonic::Status::from_error(e.into()))?;
            let codec = tonic_prost::ProstCodec::<M, R>::default();
            client.unary(request, http::uri::PathAndQuery::from_static(path), codec).await
        };
        let answer = with_timeout(self.timeout, call).await;
        self.explained(answer).await
    }

    /// Calls `mixer.introspect.v1.Introspect/Explain`, which a server answers to clients on its own machine.
    /// `page` is the page of rules, from 1.
    pub(super) async fn explain(
        &mut self,
        request: CheckRequest,
        page: u64,
    ) -> Result<ExplainResponse, RpcError> {
        let mut request = self.request(request);
        request.metadata_mut().insert(PAGE_HEADER, page.into());
        self.unary_request(request, "/mixer.introspect.v1.Introspect/Explain").await
    }

    /// Calls `mixer.introspect.v1.Introspect/Quotas`, as [`explain`](Self::explain). Servers that do not have it answer UNIMPLEMENTED.
    pub(super) async fn explain_quotas(
        &mut self,
        request: CheckRequest,
    ) -> Result<ExplainResponse, RpcError> {
        self.unary(request, "/mixer.introspect.v1.Introspect/Quotas").await
    }

    fn begin<T>(&self, method: &'static str, request: &mut tonic::Request<T>) -> Option<CallSpan> {
        self.calls.as_ref().map(|calls| calls.begin(method, request))
    }

    fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        if let Some(timeout) = self.timeout {
            request.set_timeout(timeout);
        }
        request
    }
}

async fn with_timeout<T>(
    timeout: Option<Duration>,
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, RpcError> {
    let deadline_exceeded = || tonic::Status::deadline_exceeded("context deadline exceeded");
    let answer = match timeout {
        None => call.await,
        Some(limit) => {
            let started = std::time::Instant::now();
            match tokio::time::timeout(limit, call).await {
                Err(_) => Err(deadline_exceeded()),
                // The transport enforces the same timeout and reports a cancellation.
                Ok(Err(status)) if status.code() == tonic::Code::Cancelled && started.elapsed() >= limit => {
                    Err(deadline_exceeded())
                }
                Ok(answer) => answer,
            }
        }
    };
    answer.map(tonic::Response::into_inner).map_err(|status| rpc_error(&status))
}

/// Code and message of a status: those of the server, or of a local transport error.
fn rpc_error(status: &tonic::Status) -> RpcError {
    let mut source = std::error::Error::source(status);
    let mut deepest = None;
    while let Some(error) = source {
        if let Some(dial) = error.downcast_ref::<DialError>() {
            let message =
                format!("connection error: desc = \"transport: Error while dialing {}\"", dial.go_text);
            let error = RpcError::new(tonic::Code::Unavailable, message).garbled(dial.is_handshake);
            return error.unreachable(dial.to_string(), dial.hint);
        }
        deepest = Some(error.to_string());
        source = error.source();
    }
    // A status of the server has no source; a transport error has one.
    match deepest {
        None => RpcError::new(status.code(), status.message()).garbled(is_no_grpc(status.message())),
        Some(cause) => {
            let code = match status.code() {
                tonic::Code::Unknown | tonic::Code::Internal => tonic::Code::Unavailable,
                code => code,
            };
            RpcError::new(code, format!("{}: {cause}", status.message())).garbled(true)
        }
    }
}

/// What the client says of an answer of HTTP/2 without the status of gRPC, before the status of HTTP.
const WITHOUT_STATUS: &str = "grpc-status header missing, mapped from HTTP status code ";
/// What it says of an answer whose content is no message.
const NO_MESSAGE: &str = "protocol error: received message with invalid compression flag";

/// Where it says which status of HTTP such an answer has.
const WITH_STATUS: &str = " while receiving response with status: ";

/// The status of HTTP of an answer of which the client says that it is none of gRPC.
fn http_status(message: &str) -> Option<&str> {
    let status = message.strip_prefix(WITHOUT_STATUS).or_else(|| {
        let (_, status) = message.split_once(WITH_STATUS).filter(|_| message.starts_with(NO_MESSAGE))?;
        Some(status)
    });
    status.and_then(|status| status.split(' ').next())
}

/// Whether the client says that an answer is none of gRPC. A gateway that has nobody to ask, or is asked too often, may have the API behind it.
fn is_no_grpc(message: &str) -> bool {
    http_status(message).is_some_and(|status| !status.starts_with('5') && status != "429")
}

/// What is wrong, and what helps, if a server of HTTP/2 answers that does not speak gRPC.
fn without_grpc(address: &str, message: &str) -> Option<(String, String)> {
    let status = http_status(message).filter(|status| *status != "200");
    let status = status.map_or_else(String::new, |status| format!(" (status {status})"));
    let why = format!("a server of HTTP/2 without gRPC answers at {address}{status}, not the API");
    is_no_grpc(message).then(|| (why, usual_place(address)))
}

/// Where the API is by default, on the host of an address.
fn usual_place(address: &str) -> String {
    let host = address.rsplit_once(':').map(|(host, _)| host).filter(|host| !host.is_empty());
    let host = host.unwrap_or("localhost");
    format!("the API is at {host}:9091, unless --address or --port of `mixer server` say otherwise")
}

trait Duplex: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Duplex for T {}

impl Dialer {
    /// What is wrong if this is found at the target, and what helps; `None` if it is the API.
    fn instead(&self, address: &str, found: Found) -> Option<(String, String)> {
        let is_tls = self.tls.is_some();
        match found {
            Found::Grpc if is_tls => Some((
                format!("the server at {address} speaks no TLS"),
                format!(
                    "write {address} without `https://`, --tls and its files, or start the server with --tls-cert-file"
                ),
            )),
            Found::Grpc => None,
            Found::Tls if is_tls => None,
            Found::Tls => Some((
                format!("the server at {address} speaks TLS"),
                format!("write https://{address}, or add --tls; {TRUST}"),
            )),
            Found::Controlz(_) | Found::Metrics | Found::Http => {
                Some((format!("{} answers at {address}, not the API", found.name()), usual_place(address)))
            }
        }
    }

    async fn dial(&self) -> Result<Box<dyn Duplex>, DialError> {
        let stream = dial(&self.target).await?;
        let Some(ClientTls { config, name }) = &self.tls else { return Ok(stream) };
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(config));
        let secured = connector.connect(name.clone(), stream).await;
        let secured = secured.map_err(|e| DialError {
            text: format!("the TLS handshake with {} failed: {e}", self.target),
            go_text: format!("authentication handshake failed: {e}"),
            hint: TRUST,
            is_handshake: true,
        })?;
        Ok(Box::new(secured))
    }
}

async fn dial(target: &DialTarget) -> Result<Box<dyn Duplex>, DialError> {
    let stream: Box<dyn Duplex> = match target {
        DialTarget::Tcp(address) => {
            // An empty host is localhost.
            let reachable =
                if address.starts_with(':') { format!("localhost{address}") } else { address.clone() };
            let stream = tokio::net::TcpStream::connect(&reachable)
                .await
                .map_err(|e| target.no_answer("tcp", address, &e))?;
            // Nagle's algorithm delays small requests; an error only affects latency.
            let _ = stream.set_nodelay(true);
            Box::new(stream)
        }
        DialTarget::Unix(path) => {
            let failed = |e: std::io::Error| target.no_answer("unix", path.display(), &e);
            Box::new(tokio::net::UnixStream::connect(path).await.map_err(failed)?)
        }
        DialTarget::Invalid { text, go_text } => {
            let (text, go_text) = (text.clone(), go_text.clone());
            return Err(DialError { text, go_text, hint: START_ONE, is_handshake: false });
        }
    };
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invalid(address: &str, why: &str) -> DialTarget {
        DialTarget::Invalid {
            text: format!("`{address}` is no address: {why}; write HOST:PORT, or unix:///PATH"),
            go_text: format!("dial tcp: address {address}: {why} in address"),
        }
    }

    #[test]
    fn targets_are_parsed() {
        for (text, expected) in [
            ("localhost:9091", DialTarget::Tcp("localhost:9091".to_owned())),
            ("dns:///mixer.istio-system:9091", DialTarget::Tcp("mixer.istio-system:9091".to_owned())),
            ("[::1]:9091", DialTarget::Tcp("[::1]:9091".to_owned())),
            ("unix:///run/mixer.sock", DialTarget::Unix(PathBuf::from("/run/mixer.sock"))),
            ("unix:/run/mixer.sock", DialTarget::Unix(PathBuf::from("/run/mixer.sock"))),
            ("tcp://127.0.0.1:9", invalid("tcp://127.0.0.1:9", "too many colons")),
            ("foo", invalid("foo", "missing port")),
        ] {
            assert_eq!(DialTarget::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn connection_errors_name_the_target() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(async {
            MixerConnection::new("unix:///nowhere/mixer.sock", None, None)
                .check(CheckRequest::default())
                .await
                .unwrap_err()
        });
        assert_eq!(error.code, 14);
        assert!(
            error.message.contains("dial unix /nowhere/mixer.sock: connect: no such file or directory"),
            "{}",
            error.message
        );
    }

    /// Answers every request of HTTP/2 with this status and content.
    async fn http2(status: u16, content: &'static str) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                    while let Some(Ok((_, mut respond))) = connection.accept().await {
                        let head = http::Response::builder().status(status).body(()).unwrap();
                        let mut body = respond.send_response(head, false).unwrap();
                        body.send_data(content.into(), true).unwrap();
                    }
                });
            }
        });
        address
    }

    /// Beside a server that waits for its configuration nobody accepts.
    #[tokio::test]
    async fn a_call_that_nobody_answers_ends_and_tells_what_to_ask() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let limit = Duration::from_millis(100);
        let asked = async |mut connection: MixerConnection| {
            connection.check(CheckRequest::default()).await.unwrap_err()
        };
        let patient = MixerConnection::new(&address, None, None).explaining().patient();
        assert_eq!(patient.timeout, Some(DEFAULT_TIMEOUT));
        let error = asked(MixerConnection { timeout: Some(limit), ..patient }).await;
        assert_eq!(error.code, i32::from(tonic::Code::DeadlineExceeded));
        assert_eq!(error.why(), "no answer within 100ms");
        assert!(error.hint().unwrap_or_default().contains("`mixer probe`"), "{error:?}");
        let given = asked(MixerConnection::new(&address, Some(limit), None).explaining().patient()).await;
        assert_eq!((given.code, given.unreachable), (error.code, None), "who gave a limit knows it");
    }

    #[tokio::test]
    async fn http2_without_grpc_is_told() {
        for (status, content, told) in [
            (200, "hello, this is no message of gRPC", Some("")),
            (404, "", Some(" (status 404)")),
            (403, "go away", Some(" (status 403)")),
            // A gateway without anybody behind it.
            (503, "no healthy upstream", None),
        ] {
            let address = http2(status, content).await;
            let timeout = Some(Duration::from_secs(20));
            let mut connection = MixerConnection::new(&address, timeout, None).explaining();
            let error = connection.check(CheckRequest::default()).await.unwrap_err();
            let why = told.map(|status| {
                format!("a server of HTTP/2 without gRPC answers at {address}{status}, not the API")
            });
            assert_eq!(error.unreachable.as_ref().map(|(why, _)| why.clone()), why, "{error:?}");
            let hint = error.hint().unwrap_or_default();
            assert_eq!(hint.contains("the API is at 127.0.0.1:9091"), told.is_some(), "{error:?}");
            // Nobody looks for Istio's client.
            let mut legacy = MixerConnection::new(&address, timeout, None);
            assert_eq!(legacy.check(CheckRequest::default()).await.unwrap_err().unreachable, None);
        }
    }
}
