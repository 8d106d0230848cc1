//! Requests to an API server.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, header};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use mixer_base::looks::Looks;
use mixer_base::secrets::mask_text;
use mixer_net::tls::install_crypto_provider;

use crate::access::{Access, AccessError, Loaded};
use crate::error::{ApiStatus, Error};

/// The limit of connecting, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// [`Inner::limit`], by default.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a look at the files of credentials is waited for.
const LOOK_LIMIT: Duration = Duration::from_secs(1);
/// How often a connection is looked at, so that a server that is gone is noticed while nothing changes.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 32 << 20;
/// Most bytes of the body of a refusal that are read.
const MAX_REFUSAL: usize = 64 << 10;
/// Most characters of a text of the API server that are shown.
const MAX_SHOWN: usize = 512;

/// A client of one API server. Clones share connections and credentials.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    access: Access,
    /// The limit of a request, but for the body of a watch.
    limit: Duration,
    current: Mutex<Current>,
    /// At the files of the credentials.
    looks: Looks,
}

/// What requests are made with.
struct Current {
    loaded: Arc<Loaded>,
    http: reqwest::Client,
    /// Whether the last attempt to read the credentials again failed.
    is_stale: bool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.server()).finish()
    }
}

impl Client {
    /// Reads the credentials; opens no connection.
    ///
    /// Errors: the cluster is not known, or a credential cannot be used.
    pub fn new(access: Access) -> Result<Self, AccessError> {
        Self::within_limit(access, TIMEOUT)
    }

    /// As [`new`](Self::new), with the limit of a request; a watch goes on after its first byte.
    pub fn within_limit(access: Access, limit: Duration) -> Result<Self, AccessError> {
        install_crypto_provider();
        let loaded = access.load()?;
        let http = connections(&loaded)?;
        let current = Mutex::new(Current { loaded: Arc::new(loaded), http, is_stale: false });
        Ok(Self(Arc::new(Inner { access, limit, current, looks: Looks::default() })))
    }

    /// Host and port of the API server.
    pub fn server(&self) -> String {
        self.0.current.lock().loaded.name()
    }

    /// Reads an object, or a list of them. `path` is that of a URL, with its query.
    ///
    /// Errors: no answer, a refusal, or an answer of another shape.
    pub async fn get<T: DeserializeOwned>(&self, path: &str, accept: &'static str) -> Result<T, Error> {
        let request = Request { method: Method::GET, path, accept, body: None };
        self.within(async { self.answer(self.open(request).await?, path).await }).await
    }

    /// Creates, replaces, changes or deletes an object. `body`: its media type and content.
    ///
    /// Errors: as of [`get`](Self::get).
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Bytes)>,
    ) -> Result<T, Error> {
        let request = Request { method, path, accept: "application/json", body };
        self.within(async { self.answer(self.open(request).await?, path).await }).await
    }

    /// An answer that goes on: the caller bounds its time.
    pub(crate) async fn stream(&self, path: &str, accept: &'static str) -> Result<Stream, Error> {
        let request = Request { method: Method::GET, path, accept, body: None };
        let response = self.within(self.open(request)).await?;
        Ok(Stream { response, server: self.server() })
    }

    /// Requests that follow have connections of their own: those that there are may be dead, and HTTP/2 would use them on.
    pub(crate) fn reconnect(&self) {
        let loaded = Arc::clone(&self.0.current.lock().loaded);
        if let Ok(new) = connections(&loaded) {
            self.0.current.lock().http = new;
        }
    }

    async fn within<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let limit = self.0.limit;
        match tokio::time::timeout(limit, work).await {
            Ok(result) => result,
            Err(_) => {
                self.reconnect();
                Err(Error::Timeout { server: self.server(), limit })
            }
        }
    }

    /// The connections, and the URL and headers of a request.
    fn prepare(&self, path: &str) -> Result<(reqwest::Client, reqwest::Url, HeaderMap), Error> {
        let (http, loaded) = self.current();
        let prefix = loaded.server.path().trim_end_matches('/');
        let url = loaded.server.join(&format!("{prefix}{path}")).map_err(|error| Error::Malformed {
            server: loaded.name(),
            path: place(path).to_owned(),
            why: error.to_string(),
        })?;
        let authorization = loaded.authorization.clone();
        let headers = authorization.map(|value| (header::AUTHORIZATION, value)).into_iter().collect();
        Ok((http, url, headers))
    }

    /// What requests are made with. Looks at no file.
    fn current(&self) -> (reqwest::Client, Arc<Loaded>) {
        let current = self.0.current.lock();
        (current.http.clone(), Arc::clone(&current.loaded))
    }

    /// Reads the credentials again if their files have changed, on a thread; waits for it at most a second. If that fails, the last ones are
    /// used on, and the log says so once.
    async fn refresh(&self) {
        if !self.current().1.has_files() {
            return;
        }
        self.refresh_by(Self::look).await;
    }

    async fn refresh_by(&self, look: impl FnOnce(&Self) + Send + 'static) {
        let client = self.clone();
        if !self.0.looks.within(LOOK_LIMIT, move || look(&client)).await {
            let server = self.server();
            tracing::warn!(
                server,
                "credentials are used as they were: no answer within {LOOK_LIMIT:?}, their file system may hang"
            );
        }
    }

    /// No lock is held while files are read.
    fn look(&self) {
        let (http, loaded) = self.current();
        if !loaded.is_outdated() {
            return;
        }
        let renewed = self.0.access.load().and_then(|new| {
            let http = match new.has_connections_of(&loaded) {
                true => http.clone(),
                false => connections(&new)?,
            };
            Ok(Current { loaded: Arc::new(new), http, is_stale: false })
        });
        match renewed {
            Ok(new) => *self.0.current.lock() = new,
            Err(error) => {
                let was_stale = std::mem::replace(&mut self.0.current.lock().is_stale, true);
                if !was_stale {
                    let server = loaded.name();
                    tracing::warn!(
                        server,
                        "credentials cannot be read again, and are used as they were: {error}"
                    );
                }
            }
        }
    }

    /// Sends a request and reads the head of the answer, or the refusal.
    async fn open(&self, request: Request<'_>) -> Result<reqwest::Response, Error> {
        self.refresh().await;
        let (http, url, headers) = self.prepare(request.path)?;
        let is_read = request.method == Method::GET;
        let mut built =
            http.request(request.method, url).headers(headers).header(header::ACCEPT, request.accept);
        if let Some((content_type, body)) = request.body {
            built = built.header(header::CONTENT_TYPE, content_type).body(body);
        }
        let response = self.response(built, is_read).await;
        let response = response.map_err(|error| unreachable(&self.server(), &error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(response, request.path).await)
    }

    /// Sends a request. One that only reads, and whose connection ends before the answer begins, is sent once more at once: the connection may
    /// have been kept for too long.
    async fn response(
        &self,
        request: reqwest::RequestBuilder,
        is_read: bool,
    ) -> reqwest::Result<reqwest::Response> {
        let again = if is_read { request.try_clone() } else { None };
        match (request.send().await, again) {
            (Err(error), Some(again)) if error.is_request() && !error.is_connect() && !error.is_timeout() => {
                self.reconnect();
                self.current().0.execute(again.build()?).await
            }
            (sent, _) => sent,
        }
    }

    async fn refusal(&self, mut response: reqwest::Response, path: &str) -> Error {
        let code = response.status().as_u16();
        let after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let after = after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        let mut body = BytesMut::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(chunk.get(..MAX_REFUSAL - body.len()).unwrap_or(&chunk));
            if body.len() >= MAX_REFUSAL {
                break;
            }
        }
        let status: ApiStatus = serde_json::from_slice(&body).unwrap_or_default();
        let status = ApiStatus { code, reason: foreign(&status.reason), message: foreign(&status.message) };
        Error::Refused {
            server: self.server(),
            path: place(path).to_owned(),
            status,
            after: after.unwrap_or_default(),
        }
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        mut response: reqwest::Response,
        path: &str,
    ) -> Result<T, Error> {
        let (server, path) = (self.server(), place(path).to_owned());
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(&server, &error))? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(Error::TooLarge { server, path, bound: MAX_ANSWER });
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).map_err(|error| Error::Malformed {
            server,
            path,
            why: shape(&error).to_owned(),
        })
    }
}

struct Request<'r> {
    method: Method,
    path: &'r str,
    accept: &'static str,
    body: Option<(&'static str, Bytes)>,
}

fn connections(loaded: &Loaded) -> Result<reqwest::Client, AccessError> {
    let unusable = |error: &dyn fmt::Display| AccessError::new(format!("no connections: {error}"));
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        // A request that is redirected would send its credential elsewhere.
        .redirect(reqwest::redirect::Policy::none())
        .tcp_keepalive(KEEP_ALIVE)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .http2_keep_alive_timeout(KEEP_ALIVE)
        .http2_adaptive_window(true);
    if let Some(proxy) = &loaded.proxy {
        let proxy = reqwest::Proxy::all(proxy).map_err(|_| AccessError::new("proxy-url is no URL"))?;
        builder = builder.proxy(proxy);
    }
    if loaded.server.scheme() == "https" {
        let config = loaded.tls.config(&[b"h2", b"http/1.1"]).map_err(|error| unusable(&error))?;
        builder = builder.tls_backend_preconfigured(config);
    }
    builder.build().map_err(|error| unusable(&error))
}

/// An answer that goes on.
pub(crate) struct Stream {
    response: reqwest::Response,
    server: String,
}

impl Stream {
    /// The next bytes; `None` at the end. Cancel safe.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.response.chunk().await.map_err(|error| unreachable(&self.server, &error))
    }

    /// Host and port of the API server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }
}

fn unreachable(server: &str, error: &reqwest::Error) -> Error {
    // The innermost cause does not name the URL.
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let why =
        if error.is_timeout() { "no connection in time".to_owned() } else { foreign(&cause.to_string()) };
    Error::Unreachable { server: server.to_owned(), why }
}

/// The path without its query, which may be long.
pub(crate) fn place(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

/// The error of serde without values, which may be secret.
pub(crate) fn shape(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "the answer is not of the kind that was asked for",
        serde_json::error::Category::Eof => "the answer was cut off",
        _ => "the answer is no JSON",
    }
}

/// A text of somebody else, for operators: cut, and on one line.
pub(crate) fn foreign(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = mask_text(text).chars().take(MAX_SHOWN).map(plain).collect();
    if text.chars().nth(MAX_SHOWN).is_some() { shown + "…" } else { shown }
}
