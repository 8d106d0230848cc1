//! Connections to a server: of a sink to a source, or of a source that calls out to a sink.

use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, TE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{Method, Request, StatusCode, Version};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tonic::{Code, Status};

use mixer_base::looks::Looks;
use mixer_base::task::Group;
use mixer_net::tls::ClientTlsOptions;
use mixer_remote::{Connector, GoogleOptions, GoogleTokens};

use crate::grpc::{self, Arriving, GRPC, Messages, Outgoing, Receivable};
use crate::transport::Spawner;

/// The limit of connecting, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that sends nothing for so long is asked whether it is there; servers of gRPC refuse more than one such question in 30 s.
const PING: Duration = Duration::from_secs(40);
/// How long it may take to answer.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes that a server may send ahead, of a stream and of a connection.
const WINDOW: u32 = 1 << 20;
/// What Google's tokens are for.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// How a client authenticates the server and itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClientAuth {
    /// Plain text.
    #[default]
    None,
    /// TLS; the server is verified. With a certificate of its own, mutual TLS.
    Tls(ClientTlsOptions),
    /// TLS with the roots of the system, and a token of Google's default credentials.
    Google,
}

impl ClientAuth {
    /// The mode with this name: `NONE`, `TLS`, `MUTUAL_TLS` or `GOOGLE`. `tls` has the files of the two in the middle; that of `TLS` has no
    /// certificate of its own.
    ///
    /// Errors: `auth plugin NAME not found`.
    pub fn named(name: &str, tls: ClientTlsOptions) -> Result<Self, String> {
        match name {
            "NONE" => Ok(Self::None),
            "TLS" => Ok(Self::Tls(ClientTlsOptions {
                cert_file: Default::default(),
                key_file: Default::default(),
                ..tls
            })),
            "MUTUAL_TLS" => Ok(Self::Tls(tls)),
            "GOOGLE" => Ok(Self::Google),
            _ => Err(format!("auth plugin {name} not found")),
        }
    }
}

/// How to reach a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// `HOST:PORT`, or `unix:PATH`.
    pub address: String,
    /// How both sides are authenticated.
    pub auth: ClientAuth,
    /// Metadata of the call: names and values.
    pub metadata: Vec<(String, String)>,
}

impl ClientOptions {
    /// Plain text without metadata.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), auth: ClientAuth::None, metadata: Vec::new() }
    }
}

/// Opens streams to one server, each on a connection of its own.
pub(crate) struct Client {
    connector: Connector,
    tokens: Option<GoogleTokens>,
    metadata: Vec<(HeaderName, HeaderValue)>,
}

/// The connection of a stream, which is closed when this is dropped.
pub(crate) type Link = http2::SendRequest<Outgoing>;

/// A stream that the server has accepted.
pub(crate) struct Opened<T> {
    pub(crate) messages: Arriving<T>,
    pub(crate) link: Link,
}

impl Client {
    /// Loads the files. Errors: an invalid address, or a file or metadata that cannot be used.
    pub(crate) fn new(options: &ClientOptions) -> Result<Self, String> {
        let google = ClientTlsOptions::default();
        let (tls, tokens) = match &options.auth {
            ClientAuth::None => (None, None),
            ClientAuth::Tls(tls) => (Some(tls), None),
            ClientAuth::Google => {
                let tokens = GoogleTokens::new(GoogleOptions { scopes: SCOPE, ..GoogleOptions::default() });
                (Some(&google), Some(tokens.map_err(|error| error.to_string())?))
            }
        };
        let connector =
            Connector::new(&options.address, tls, CONNECT_TIMEOUT).map_err(|error| error.to_string())?;
        Ok(Self { connector, tokens, metadata: grpc::metadata(&options.metadata)? })
    }

    /// Opens a stream of a method, and sends what comes of `outgoing` from then on, also while the server has not answered.
    ///
    /// Errors: there is no connection, or the server refuses the call.
    pub(crate) async fn open<T: Receivable>(
        &self,
        path: &'static str,
        outgoing: Messages,
        max_message: usize,
    ) -> Result<Opened<T>, Status> {
        let request = self.request(path, outgoing).await?;
        let authorization = request.headers().get(AUTHORIZATION).cloned();
        let stream = self.connector.connect().await.map_err(Status::unavailable)?;
        let mut builder = http2::Builder::new(Spawner::new("mcp call"));
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(2 * WINDOW)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING_TIMEOUT);
        let unavailable = |error: hyper::Error| Status::unavailable(error_text(&error));
        let (mut link, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(unavailable)?;
        drop(Group::new("mcp connection").spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection has ended");
            }
        }));
        let (head, body) = link.send_request(request).await.map_err(unavailable)?.into_parts();
        if let Some(status) = Status::from_header_map(&head.headers) {
            // The stream has ended already.
            if let (Code::Unauthenticated, Some(tokens), Some(token)) =
                (status.code(), &self.tokens, &authorization)
            {
                // The next attempt has another one.
                tokens.refused(token);
            }
            return Err(match status.code() {
                Code::Ok => Status::unavailable("the server has ended the stream"),
                _ => status,
            });
        }
        let kind = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        if head.status != StatusCode::OK || !kind.starts_with(b"application/grpc") {
            return Err(Status::unknown(format!(
                "the server does not speak gRPC: HTTP status {}",
                head.status
            )));
        }
        Ok(Opened { messages: grpc::responses(body, head.status, max_message), link })
    }

    async fn request(&self, path: &'static str, outgoing: Messages) -> Result<Request<Outgoing>, Status> {
        let mut request = Request::new(Outgoing::request(outgoing));
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = self.connector.uri(PathAndQuery::from_static(path))?;
        let headers = request.headers_mut();
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONTENT_TYPE, GRPC);
        headers.insert(USER_AGENT, HeaderValue::from_static("grpc-rust-mixer"));
        for (name, value) in &self.metadata {
            headers.append(name, value.clone());
        }
        if let Some(tokens) = &self.tokens {
            headers.insert(AUTHORIZATION, tokens.authorization().await.map_err(Status::unauthenticated)?);
        }
        Ok(request)
    }
}

/// An error with its causes.
fn error_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// How long the files of a client are waited for.
const FILES: Duration = Duration::from_secs(1);

/// A client that is made when it is first needed: its files may not be there yet. They are read on a thread, so that a file system that hangs
/// holds up nobody else.
#[derive(Default)]
pub(crate) struct LazyClient {
    made: Option<Arc<Client>>,
    looks: Looks,
    /// What the last look at the files made.
    found: Arc<Mutex<Option<Result<Client, String>>>>,
}

impl LazyClient {
    /// Errors: see [`Client::new`], or the files are not read within a second.
    pub(crate) async fn get(&mut self, options: &ClientOptions) -> Result<Arc<Client>, Status> {
        self.get_by(options, Client::new).await
    }

    async fn get_by(
        &mut self,
        options: &ClientOptions,
        make: impl FnOnce(&ClientOptions) -> Result<Client, String> + Send + 'static,
    ) -> Result<Arc<Client>, Status> {
        if let Some(client) = &self.made {
            return Ok(Arc::clone(client));
        }
        // One that came too late for the call that asked for it.
        let mut found = self.found.lock().take();
        if found.is_none() {
            let (options, into) = (options.clone(), Arc::clone(&self.found));
            self.looks.within(FILES, move || *into.lock() = Some(make(&options))).await;
            found = self.found.lock().take();
        }
        let Some(found) = found else {
            return Err(Status::unavailable(format!(
                "the certificates are not read within {FILES:?}: their file system may hang"
            )));
        };
        let client = Arc::new(found.map_err(Status::failed_precondition)?);
        self.made = Some(Arc::clone(&client));
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a runtime of one thread, which a file system that hangs would stop.
    #[tokio::test]
    async fn files_that_hang_stop_nobody_and_are_read_once() {
        let options = ClientOptions::new("127.0.0.1:1");
        let mut client = LazyClient::default();
        let (wake, asleep) = std::sync::mpsc::channel::<()>();
        let (began, begun) = tokio::sync::oneshot::channel();
        let hangs = move |options: &ClientOptions| {
            began.send(()).unwrap();
            let _ = asleep.recv();
            Client::new(options)
        };
        let first = tokio::join!(client.get_by(&options, hangs), begun).0;
        let text = "the certificates are not read within 1s: their file system may hang";
        let told = |made: Result<_, Status>| made.err().map(|status| status.message().to_owned());
        assert_eq!(told(first).as_deref(), Some(text));
        for _ in 0..100 {
            let again = client.get_by(&options, |_| unreachable!("one look at a time")).await;
            assert_eq!(told(again).as_deref(), Some(text));
        }
        wake.send(()).unwrap();
        let made = async {
            while client.get_by(&options, Client::new).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), made).await.expect("it is made");
        assert!(client.get_by(&options, |_| unreachable!("it is there")).await.is_ok());
    }

    #[tokio::test]
    async fn files_that_cannot_be_used_are_read_again() {
        let mut client = LazyClient::default();
        let options = ClientOptions::new("127.0.0.1:1");
        let refused = client.get_by(&options, |_| Err("no such file".to_owned())).await;
        assert_eq!(refused.err().map(|status| status.message().to_owned()).as_deref(), Some("no such file"));
        assert!(client.get(&options).await.is_ok());
    }
}
