//! Calls of gRPC while a caller waits: one connection to one server, any method, messages as bytes.
//!
//! Unlike [`GrpcTarget`](crate::GrpcTarget), which delivers batches, a call is never tried again, and fails at once while there is no
//! connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes};
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::{AsciiMetadataValue, MetadataKey};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::RemoteError;
use crate::tls::ReloadedTls;
use mixer_net::tls::ClientTlsOptions;

/// How often an idle connection with calls in flight is probed, and how long it may take to answer.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

/// How to reach a server.
#[derive(Debug, Clone)]
pub struct ChannelOptions {
    /// `HOST:PORT`, `:PORT` of this machine, or `unix:PATH`.
    pub address: String,
    /// TLS; `None` for plain text.
    pub tls: Option<ClientTlsOptions>,
    /// The limit of connecting, TLS included.
    pub connect_timeout: Duration,
    /// Most bytes of an answer.
    pub max_answer: usize,
}

impl ChannelOptions {
    /// The defaults for an address: plain text, 5 seconds to connect, answers of 4 MiB.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            tls: None,
            connect_timeout: Duration::from_secs(5),
            max_answer: 4 << 20,
        }
    }
}

/// A server that is called. A clone shares the connection, which is made when the first call needs it.
#[derive(Clone)]
pub struct GrpcChannel {
    client: tonic::client::Grpc<Channel>,
    address: Arc<str>,
}

impl fmt::Debug for GrpcChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcChannel").field("address", &self.address).finish_non_exhaustive()
    }
}

impl GrpcChannel {
    /// Checks the address and loads the certificates; opens no connection. Called on the runtime that drives the connection.
    ///
    /// Errors: an invalid address, or a certificate that cannot be used.
    pub fn new(options: &ChannelOptions) -> Result<Self, RemoteError> {
        let address = options.address.as_str();
        let address = address
            .strip_prefix("dns:///")
            .or_else(|| address.strip_prefix("passthrough:///"))
            .unwrap_or(address);
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let invalid =
            |why: &dyn fmt::Display| RemoteError::Invalid(format!("invalid address `{address}`: {why}"));
        let uri = match address {
            "" => return Err(invalid(&"it is empty")),
            port if port.starts_with(':') => format!("{scheme}://localhost{port}"),
            socket if socket.starts_with("unix:") => socket.to_owned(),
            other => format!("{scheme}://{other}"),
        };
        let endpoint = Endpoint::from_shared(uri).map_err(|error| invalid(&error))?;
        let endpoint = endpoint
            .connect_timeout(options.connect_timeout)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1);
        let channel = match &options.tls {
            None => endpoint.connect_lazy(),
            Some(tls) => {
                let host = endpoint.uri().host().unwrap_or_default();
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let port = endpoint.uri().port_u16().unwrap_or(443);
                let tls = Arc::new(Mutex::new(ReloadedTls::load(tls, &host, &[b"h2"])?));
                let connector = tower::service_fn(move |_| connect(host.clone(), port, Arc::clone(&tls)));
                endpoint.connect_with_connector_lazy(connector)
            }
        };
        let client = tonic::client::Grpc::new(channel).max_decoding_message_size(options.max_answer);
        Ok(Self { client, address: options.address.as_str().into() })
    }

    /// The address, as configured.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Calls a method.
    ///
    /// Errors: the status of the server; UNAVAILABLE without a connection.
    pub async fn call(
        &self,
        path: PathAndQuery,
        message: Vec<u8>,
        header: Option<(MetadataKey<tonic::metadata::Ascii>, AsciiMetadataValue)>,
        deadline: Option<Duration>,
    ) -> Result<Bytes, Status> {
        let mut client = self.client.clone();
        let mut request = Request::new(message);
        if let Some((name, value)) = header {
            request.metadata_mut().insert(name, value);
        }
        if let Some(deadline) = deadline {
            request.set_timeout(deadline);
        }
        let call = async move {
            client.ready().await.map_err(|error| unavailable(&error))?;
            client.unary(request, path, Raw).await
        };
        let answer = match deadline {
            None => call.await,
            Some(deadline) => tokio::time::timeout(deadline, call)
                .await
                .unwrap_or_else(|_| Err(Status::deadline_exceeded(format!("no answer within {deadline:?}")))),
        };
        answer.map(tonic::Response::into_inner)
    }
}

fn unavailable(error: &dyn std::error::Error) -> Status {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    Status::unavailable(text)
}

async fn connect(
    host: String,
    port: u16,
    tls: Arc<Mutex<ReloadedTls>>,
) -> std::io::Result<TokioIo<tokio_rustls::client::TlsStream<TcpStream>>> {
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    stream.set_nodelay(true)?;
    let current = {
        let mut tls = tls.lock();
        tls.refresh();
        tls.current().clone()
    };
    let stream = tokio_rustls::TlsConnector::from(current.config).connect(current.name, stream).await?;
    Ok(TokioIo::new(stream))
}

/// The text of a failed call, as Go's library prints it: `rpc error: code = Unknown desc = no`.
pub fn grpc_error_text(status: &Status) -> String {
    let code = match status.code() {
        tonic::Code::Ok => "OK".to_owned(),
        tonic::Code::Cancelled => "Canceled".to_owned(),
        // The other names are equal to Go's.
        other => format!("{other:?}"),
    };
    let mut text = format!("rpc error: code = {code} desc = {}", status.message());
    let mut source = std::error::Error::source(status);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Messages as they are encoded.
#[derive(Debug, Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let len = bytes.remaining();
        Ok(Some(bytes.copy_to_bytes(len)))
    }
}
