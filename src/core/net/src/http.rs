//! HTTP/1 endpoints for operators: responses in the form of Istio Mixer, and graceful shutdown.

use std::io::{self, Write as _};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

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

/// Serves `routes` until `stop`, then waits up to `grace` for requests in flight. Unknown paths get [`not_found`].
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    stop: CancellationToken,
    grace: Duration,
) -> io::Result<()> {
    let routes = routes.fallback(async || not_found());
    let serving = axum::serve(listener, routes).with_graceful_shutdown(stop.clone().cancelled_owned());
    tokio::select! {
        result = serving => result,
        () = async {
            stop.cancelled().await;
            tokio::time::sleep(grace).await;
        } => Ok(()),
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
