//! HTTP/1 endpoints: bounded connections and times, graceful shutdown, responses in the form of Istio Mixer.

mod connections;
mod heads;
mod large;
mod origin;
mod places;
mod server;
mod stream;
mod text;
mod timeouts;

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use crate::tls::ServerTls;
pub use large::{Busy, LargeAnswers, MAX_LARGE_ANSWERS, Rendering};
use mixer_base::task::{Group, Task};
pub use origin::{has_known_host, is_cross_site};
pub use places::Places;
pub use server::{Backoff, Connection, HttpBody, HttpLimits, accept};
pub use stream::streamed;
pub use text::LongText;
pub use timeouts::Displaced;

/// A response of an endpoint.
pub type HttpResponse = Response;

/// Minimum body size for compression, in bytes.
const MIN_GZIP_BYTES: usize = 1024;

/// A response with this body.
pub fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// compat(1.3): the response to an unknown path.
pub fn not_found() -> Response {
    let mut response = answer(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A response that is compressed if the client accepts gzip.
pub fn compressible(request: &HeaderMap, content_type: &'static str, body: Vec<u8>) -> Response {
    if body.len() < MIN_GZIP_BYTES || !accepts_gzip(request) {
        return answer(StatusCode::OK, content_type, body);
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    match encoder.write_all(&body).and_then(|()| encoder.finish()) {
        Ok(packed) => {
            let mut response = answer(StatusCode::OK, content_type, packed);
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
        }
        // Writing to memory does not fail.
        Err(_) => answer(StatusCode::OK, content_type, body),
    }
}

/// Whether `Accept-Encoding` lists gzip with a weight above 0.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let values = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|v| v.split(',')).any(|part| {
        let mut parameters = part.split(';').map(str::trim);
        let named = parameters.next().is_some_and(|w| w.eq_ignore_ascii_case("gzip"));
        let refused = parameters
            .any(|w| w.strip_prefix("q=").and_then(|q| q.parse::<f64>().ok()).is_some_and(|q| q <= 0.0));
        named && !refused
    })
}

/// Serves `routes` within `limits` as `task`, until `stop`; then closes the listener and waits up to `grace` for requests in flight.
/// Unknown paths get [`not_found`]. The handle completes when all of that is done.
pub fn serve(
    task: Task,
    listener: TcpListener,
    routes: Router,
    limits: HttpLimits,
    stop: CancellationToken,
    grace: Duration,
) -> JoinHandle<()> {
    Endpoint { listener, tls: None, routes, limits }.serve(task, stop, grace)
}

/// An HTTP/1 endpoint over plain text or TLS.
#[derive(Debug)]
pub struct Endpoint {
    /// Its socket.
    pub listener: TcpListener,
    /// TLS settings, loaded with [`ServerTls::load_http1`]; `None` for plain text.
    pub tls: Option<Arc<ServerTls>>,
    /// What it answers; unknown paths get [`not_found`].
    pub routes: Router,
    /// Its bounds.
    pub limits: HttpLimits,
}

impl Endpoint {
    /// As [`serve`].
    pub fn serve(self, task: Task, stop: CancellationToken, grace: Duration) -> JoinHandle<()> {
        let Self { listener, tls, routes, limits } = self;
        let routes = routes.fallback(async || not_found());
        let (connections, running) = (Group::new("http connection"), TaskTracker::new());
        let (listener, until, tracked) = (Arc::new(listener), stop.clone(), running.clone());
        let accepting = task.supervised(stop, move || {
            let (listener, routes, until) = (Arc::clone(&listener), routes.clone(), until.clone());
            let (connections, tracked, tls) = (connections.clone(), tracked.clone(), tls.clone());
            async move {
                let begin = |connection: Connection| {
                    let served = serve_connection(connection, tls.clone(), routes.clone());
                    connections.spawn(tracked.track_future(served));
                };
                accept(&listener, limits, until, begin).await;
            }
        });
        Group::new("http endpoint").spawn(async move {
            // The listener is dropped with this future.
            accepting.await;
            running.close();
            // Requests that still run end with the runtime.
            let _ = tokio::time::timeout(grace, running.wait()).await;
        })
    }
}

/// The address of the client, among the extensions of a request to an [`Endpoint`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub SocketAddr);

async fn serve_connection(connection: Connection, tls: Option<Arc<ServerTls>>, routes: Router) {
    let answer = move |mut request: Request<HttpBody>, client| {
        request.extensions_mut().insert(ClientAddress(client));
        let mut routes = routes.clone();
        async move {
            match routes.call(request.map(Body::new)).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        }
    };
    match tls {
        None => connection.serve(answer).await,
        Some(tls) => {
            if let Some(connection) = connection.secured(&tls).await {
                connection.serve(answer).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_used_when_accepted() {
        let response = |accept: &'static str, size: usize| {
            let mut request = HeaderMap::new();
            request.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accept));
            compressible(&request, "text/plain", vec![b'a'; size])
                .headers()
                .contains_key(header::CONTENT_ENCODING)
        };
        assert!(response("gzip", 5000));
        assert!(response("deflate, GZIP;q=0.5", 5000));
        assert!(!response("gzip", 10));
        for refused in ["", "identity", "gzip;q=0", "gzip; q=0.0", "xgzip"] {
            assert!(!response(refused, 5000), "{refused}");
        }
    }
}
