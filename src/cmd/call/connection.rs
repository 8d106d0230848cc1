//! The connection to a server: HTTP/2 over TCP, TLS or a unix socket, made by the first call.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint, Uri};

use super::trace::{CallSpan, CallTracer};
use mixer_base::rotate::os_text;
use mixer_net::tls::ClientTls;
use mixer_wire::istio::mixer::v1::mixer_client::MixerClient;
use mixer_wire::istio::mixer::v1::{CheckRequest, CheckResponse, ReportRequest};

/// Where to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// `host:port`.
    Tcp(String),
    /// A socket file.
    Unix(PathBuf),
    /// Something that no connection can be made to, and why.
    Impossible(String),
}

impl Target {
    fn parse(text: &str) -> Target {
        if let Some(path) = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")) {
            return Target::Unix(PathBuf::from(path));
        }
        let address = text.strip_prefix("dns:///").unwrap_or(text);
        let refuse = |why: &str| Target::Impossible(format!("dial tcp: address {address}: {why}"));
        match address.rsplit_once(':') {
            None => refuse("missing port in address"),
            Some((host, _)) if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) => {
                refuse("too many colons in address")
            }
            Some((_, "")) => {
                Target::Impossible(format!("dial tcp: address {address}: missing port in address"))
            }
            Some(_) => Target::Tcp(address.to_owned()),
        }
    }
}

/// A connection could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct DialError(String);

/// A client of one server. Cheap to clone; clones share the connection.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    client: MixerClient<Channel>,
    channel: Channel,
    timeout: Option<Duration>,
    calls: Option<CallTracer>,
    dialer: Arc<Dialer>,
}

/// Makes connections.
#[derive(Debug)]
struct Dialer {
    target: Target,
    tls: Option<ClientTls>,
}

/// How long to wait before a server that could not be reached is tried again; doubles up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(50);
/// The longest such wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A call that failed: code and message, as in a gRPC status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    /// gRPC status code.
    pub(crate) code: i32,
    /// Message.
    pub(crate) message: String,
}

impl Connection {
    /// Prepares a connection; nothing is opened yet. Must be called inside a tokio runtime.
    pub(crate) fn new(target: &str, timeout: Option<Duration>, tls: Option<ClientTls>) -> Self {
        let dialer = Arc::new(Dialer { target: Target::parse(target), tls });
        let authority = match &dialer.target {
            Target::Tcp(address) => address.clone(),
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
        Self { client, channel, timeout, calls: None, dialer }
    }

    /// The same connection, whose calls are traced.
    pub(super) fn traced(self, calls: Option<CallTracer>) -> Self {
        Self { calls, ..self }
    }

    /// Waits until the server can be reached, at most for the limit of a call. Errors: the last reason why not.
    pub(crate) async fn wait_for_ready(&self) -> Result<(), RpcError> {
        let started = tokio::time::Instant::now();
        let mut pause = PAUSE;
        loop {
            let Err(error) = self.dialer.dial().await else { return Ok(()) };
            if self.timeout.is_some_and(|limit| started.elapsed() + pause >= limit) {
                let message = format!("the server cannot be reached: {error}");
                return Err(RpcError { code: tonic::Code::DeadlineExceeded.into(), message });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Calls Check.
    pub(crate) async fn check(&mut self, request: CheckRequest) -> Result<CheckResponse, RpcError> {
        let mut request = self.request(request);
        let span = self.begin("/istio.mixer.v1.Mixer/Check", &mut request);
        let answer = limited(self.timeout, self.client.check(request)).await;
        span.into_iter().for_each(|span| span.end(&answer));
        answer
    }

    /// Calls Report.
    pub(crate) async fn report(&mut self, request: ReportRequest) -> Result<(), RpcError> {
        let mut request = self.request(request);
        let span = self.begin("/istio.mixer.v1.Mixer/Report", &mut request);
        let answer = limited(self.timeout, self.client.report(request)).await.map(drop);
        span.into_iter().for_each(|span| span.end(&answer));
        answer
    }

    /// Calls any method that takes one message and gives one.
    pub(crate) async fn unary<M, R>(&mut self, message: M, path: &'static str) -> Result<R, RpcError>
    where
        M: prost::Message + 'static,
        R: prost::Message + Default + 'static,
    {
        let request = self.request(message);
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        let call = async {
            client.ready().await.map_err(|e| tonic::Status::from_error(e.into()))?;
            let codec = tonic_prost::ProstCodec::<M, R>::default();
            client.unary(request, http::uri::PathAndQuery::from_static(path), codec).await
        };
        limited(self.timeout, call).await
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

async fn limited<T>(
    timeout: Option<Duration>,
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, RpcError> {
    let late = || tonic::Status::deadline_exceeded("context deadline exceeded");
    let answer = match timeout {
        None => call.await,
        Some(limit) => {
            let started = std::time::Instant::now();
            match tokio::time::timeout(limit, call).await {
                Err(_) => Err(late()),
                // The transport keeps the same limit and calls it a cancellation.
                Ok(Err(status)) if status.code() == tonic::Code::Cancelled && started.elapsed() >= limit => {
                    Err(late())
                }
                Ok(answer) => answer,
            }
        }
    };
    answer.map(tonic::Response::into_inner).map_err(|status| rpc_error(&status))
}

/// The code and message to show: of the server, or the cause on this side.
fn rpc_error(status: &tonic::Status) -> RpcError {
    let mut source = std::error::Error::source(status);
    let mut deepest = None;
    while let Some(error) = source {
        if let Some(dial) = error.downcast_ref::<DialError>() {
            let message = format!("connection error: desc = \"transport: Error while dialing {dial}\"");
            return RpcError { code: tonic::Code::Unavailable.into(), message };
        }
        deepest = Some(error.to_string());
        source = error.source();
    }
    // Without a source the status came from the server; with one, the transport broke.
    match deepest {
        None => RpcError { code: status.code().into(), message: status.message().to_owned() },
        Some(cause) => {
            let code = match status.code() {
                tonic::Code::Unknown | tonic::Code::Internal => tonic::Code::Unavailable,
                code => code,
            };
            RpcError { code: code.into(), message: format!("{}: {cause}", status.message()) }
        }
    }
}

trait Duplex: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Duplex for T {}

impl Dialer {
    async fn dial(&self) -> Result<Box<dyn Duplex>, DialError> {
        let stream = dial(&self.target).await?;
        let Some(ClientTls { config, name }) = &self.tls else { return Ok(stream) };
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(config));
        let secured = connector.connect(name.clone(), stream).await;
        let secured = secured.map_err(|e| DialError(format!("authentication handshake failed: {e}")))?;
        Ok(Box::new(secured))
    }
}

async fn dial(target: &Target) -> Result<Box<dyn Duplex>, DialError> {
    let stream: Box<dyn Duplex> = match target {
        Target::Tcp(address) => {
            // An empty host means this machine.
            let reachable =
                if address.starts_with(':') { format!("localhost{address}") } else { address.clone() };
            let stream = tokio::net::TcpStream::connect(&reachable)
                .await
                .map_err(|e| DialError(format!("dial tcp {address}: connect: {}", os_text(&e))))?;
            // Without it small requests wait for acknowledgements; failing to set it costs only time.
            let _ = stream.set_nodelay(true);
            Box::new(stream)
        }
        Target::Unix(path) => {
            let failed = |e: std::io::Error| {
                DialError(format!("dial unix {}: connect: {}", path.display(), os_text(&e)))
            };
            Box::new(tokio::net::UnixStream::connect(path).await.map_err(failed)?)
        }
        Target::Impossible(text) => return Err(DialError(text.clone())),
    };
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        for (text, expected) in [
            ("localhost:9091", Target::Tcp("localhost:9091".to_owned())),
            ("dns:///mixer.istio-system:9091", Target::Tcp("mixer.istio-system:9091".to_owned())),
            ("[::1]:9091", Target::Tcp("[::1]:9091".to_owned())),
            ("unix:///run/mixer.sock", Target::Unix(PathBuf::from("/run/mixer.sock"))),
            ("unix:/run/mixer.sock", Target::Unix(PathBuf::from("/run/mixer.sock"))),
            (
                "tcp://127.0.0.1:9",
                Target::Impossible(
                    "dial tcp: address tcp://127.0.0.1:9: too many colons in address".to_owned(),
                ),
            ),
            ("foo", Target::Impossible("dial tcp: address foo: missing port in address".to_owned())),
        ] {
            assert_eq!(Target::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn a_refused_connection_is_named() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(async {
            Connection::new("unix:///nowhere/mixer.sock", None, None)
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
}
